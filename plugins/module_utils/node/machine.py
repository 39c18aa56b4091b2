# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine that modules and the boot unit work on: its kernel and where things lie. The one seam for tests."""

from __future__ import annotations

import dataclasses

from ..bird import client, configuration, version
from ..dataplane.kernel import Kernel
from ..dataplane.linux import LinuxKernel
from . import bundle, endpoints, local_ipam, lock, store, units


@dataclasses.dataclass
class Machine:
    """Paths are those of a node; tests put them elsewhere. `root` is for what the preflight reads and files go to."""

    kernel: Kernel
    root: str = "/"
    store: str = store.FOLDER
    lock: str = lock.PATH
    engine: str = bundle.ROOT
    bird_config: str = configuration.PATH
    bird_socket: str = client.SOCKET
    bird_program: str = version.PROGRAM
    systemctl: str = units.PROGRAM
    ipam: str = local_ipam.FOLDER
    cni_deleted: str = "/var/lib/calico/cni/deleted"
    workloads: str = endpoints.FOLDER
    agent_socket: str = "/run/calico/agent.sock"
    writer_lock: str = "/run/calico/writer.lock"  # held by the agent as long as it lives
    lock_timeout: float = 60.0  # seconds that a module waits for another one
    boot_wait: float = 60.0  # seconds that the boot unit waits for the node's address


def here() -> Machine:
    """The machine that this process runs on."""
    return Machine(LinuxKernel())
