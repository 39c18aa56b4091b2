# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts that adding, deleting and relabelling a workload share."""

from __future__ import annotations

import dataclasses

from ...sockets.port_claims import PortClaims
from ...sockets.port_owner import PortOwner
from ..concurrency.locks import KeyedLock, RWLock
from ..known.events import Events
from ..known.host import AgentHost
from ..known.known import Known
from ..known.persisted_state import PersistedState
from ..known.workload_table import WorkloadTable
from ..reconcile.stages import Stages
from .addresses import WorkloadAddresses
from .admission import PolicyUpdates
from .cleanup import Cleanup
from .wiring import WorkloadWiring

#: The most seconds that an add waits for a deleted workload with its device to be removed, and again for each of its
#: addresses. A failed add, and a delete whose route the kernel did not remove, wait as long for their own cleanup.
PATIENCE = 10.0

#: podman binds the ports of a container for IPv4 itself before it calls netavark, and leaves the sockets to conmon. It
#: fails for a port that another container has. It is the name of the runtime and of its process.
PODMAN, _CONMON = "podman", "conmon"


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

    @classmethod
    def from_host(
        cls, host: AgentHost, known: Known, addresses: WorkloadAddresses, cleanup: Cleanup, stages: Stages
    ) -> WorkloadContext:
        """Return the parts for what is `known` of a host."""
        return cls(
            known.persisted,
            known.table,
            addresses,
            WorkloadWiring(host.kernels(), host.thread("plumbing")),
            cleanup,
            PolicyUpdates(known.desired, stages),
            known.events,
            host.rwlock,
            KeyedLock(),
            _claims(known.table),
        )


def _claims(table: WorkloadTable) -> PortClaims:
    """Return the claims of an agent. podman may have the ports of a container, and conmon those of its own one."""

    def is_own(id: str, owner: PortOwner) -> bool:
        workload = table.get(id)
        if workload is None or workload.runtime != PODMAN:
            return False
        own = any(workload.container in word for word in owner.command)
        return owner.name == PODMAN or (owner.name == _CONMON and own)

    return PortClaims(is_own)
