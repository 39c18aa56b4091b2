# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts that adding, deleting and relabelling a workload share."""

from __future__ import annotations

import dataclasses
import typing as t

from ...dataplane.change import ApplyError, ObserveError
from ...dataplane.kernel.port import Kernel, KernelError, MissingLibrary
from ...dataplane.planning.attach import AttachError
from ...sockets.port_claims import PortClaims
from ...sockets.port_owner import PortOwner
from ...wire import protocol
from ...wire.protocol import AgentError
from ..concurrency.driver_thread import Worker
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

_T = t.TypeVar("_T")
_P = t.ParamSpec("_P")

#: The most seconds that an add waits for a deleted workload with its device to be removed, and again for each of its
#: addresses. A failed add, and a delete whose route the kernel did not remove, wait as long for their own cleanup.
PATIENCE = 10.0

#: podman binds the ports of a container for IPv4 itself before it calls netavark, and leaves the sockets to conmon. It
#: fails for a port that another container has. It is the name of the runtime and of its process.
PODMAN, _CONMON = "podman", "conmon"


@dataclasses.dataclass(frozen=True)
class WorkloadContext:
    """The parts that the transactions on workloads work with.

    `in_kernel` uses `kernel` in `thread`, and nothing else does. `locks` admits one transaction at a time for each
    workload id. A transaction that writes the kernel holds `rwlock` shared; the reconciler holds it exclusively.
    """

    persisted: PersistedState
    table: WorkloadTable
    addresses: WorkloadAddresses
    kernel: Kernel
    thread: Worker
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
            host.kernels(),
            host.thread("plumbing"),
            cleanup,
            PolicyUpdates(known.desired, stages),
            known.events,
            host.rwlock,
            KeyedLock(),
            _claims(known.table),
        )

    async def in_kernel(
        self, work: t.Callable[t.Concatenate[Kernel, _P], _T], *arguments: _P.args, **named: _P.kwargs
    ) -> _T:
        """Return `work(kernel, ...)`, which reads or writes the links and routes of workloads, called in the thread.

        Raise AgentError: that of an AttachError with its code, or with the code `kernel` if the kernel refuses or
        cannot be read.
        """
        try:
            return await self.thread(lambda: work(self.kernel, *arguments, **named))
        except AttachError as error:
            raise AgentError(error.code, str(error), {"field": error.field} if error.field else None) from error
        except (ApplyError, ObserveError) as error:
            raise AgentError(protocol.KERNEL, str(error)) from error
        except (KernelError, MissingLibrary) as error:
            raise AgentError(protocol.KERNEL, f"the kernel refused: {error}") from error


def _claims(table: WorkloadTable) -> PortClaims:
    """Return the claims of an agent. podman may have the ports of a container, and conmon those of its own one."""

    def is_own(id: str, owner: PortOwner) -> bool:
        workload = table.get(id)
        if workload is None or workload.runtime != PODMAN:
            return False
        own = any(workload.container in word for word in owner.command)
        return owner.name == PODMAN or (owner.name == _CONMON and own)

    return PortClaims(is_own)
