# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host under an agent, as all its parts use it: the machine, kernels, threads, the clock, the lock of writers."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ...dataplane.kernel.port import Kernel
from ...node.ipam.local_ipam import LocalIpam
from ...node.machine import Machine
from ...wire.settings import AgentSettings
from ..concurrency.driver_thread import DriverThread, Worker
from ..concurrency.locks import RWLock


@dataclasses.dataclass(frozen=True)
class AgentHost:
    """The host that an agent runs on, and the settings for it. It is made on the running event loop.

    `kernels` returns a new kernel for one thread, and `thread` a worker by its name. `ipam` are the allocations, None
    for those on the machine's disk. `clock` returns seconds and never goes back. Writers of the kernel hold
    `rwlock`: the reconciler exclusively, transactions on workloads shared.
    """

    machine: Machine
    settings: AgentSettings
    kernels: t.Callable[[], Kernel]
    ipam: t.Optional[LocalIpam] = None
    thread: t.Callable[[str], Worker] = DriverThread
    clock: t.Callable[[], float] = time.monotonic
    rwlock: RWLock = dataclasses.field(default_factory=RWLock)
