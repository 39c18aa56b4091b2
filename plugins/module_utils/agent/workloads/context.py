# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts that adding, deleting and relabelling a workload share."""

from __future__ import annotations

import dataclasses

from ...sockets.port_claims import PortClaims
from ..concurrency.locks import KeyedLock, RWLock
from ..known.events import Events
from ..known.persisted_state import PersistedState
from ..known.workload_table import WorkloadTable
from .addresses import WorkloadAddresses
from .admission import PolicyUpdates
from .cleanup import Cleanup
from .wiring import WorkloadWiring

#: The most seconds that an add waits for a deleted workload with its device to be removed, and again for each of its
#: addresses. A failed add, and a delete whose route the kernel did not remove, wait as long for their own cleanup.
PATIENCE = 10.0


@dataclasses.dataclass(frozen=True)
class WorkloadContext:
    """The parts that the transactions on workloads work with.

    `locks` admits one transaction at a time for each workload id. A transaction that writes the kernel holds `rwlock`
    shared; the reconciler holds it exclusively.
    """

    persisted: PersistedState
    table: WorkloadTable
    addresses: WorkloadAddresses
    wiring: WorkloadWiring
    cleanup: Cleanup
    policy: PolicyUpdates
    events: Events
    rwlock: RWLock
    locks: KeyedLock
    claims: PortClaims
