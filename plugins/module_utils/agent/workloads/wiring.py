# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The short way to the kernel: links and routes of one workload, written in a thread with a kernel of its own."""

from __future__ import annotations

import typing as t

from ...dataplane.change import ApplyError, ObserveError
from ...dataplane.drivers import route, workload
from ...dataplane.kernel.port import Kernel, KernelError, MissingLibrary
from ...dataplane.planning import attach
from ...dataplane.planning.attach import Attached, AttachError
from ...dataplane.planning.plan import NodePlan, plan_node
from ...state.attachment import endpoint_routes
from ...state.node_state import NodeState, Route, VethEndpoint
from ...wire import protocol
from ...wire.protocol import AgentError
from ..concurrency.driver_thread import Worker
from . import failpoints

_T = t.TypeVar("_T")


class WorkloadWiring:
    """One workload's link and route in the kernel. Callers hold or share the RWLock, except that of `adopted`.

    All methods raise AgentError if the kernel refuses or cannot be read, its code being `kernel`. Those that attach
    also raise one with the code of an AttachError.
    """

    def __init__(self, kernel: Kernel, thread: Worker) -> None:
        self._kernel = kernel
        self._thread = thread

    async def link(
        self, endpoint: VethEndpoint, opened: t.Collection[str], reachable: t.Callable[[], bool]
    ) -> tuple[Attached, bool]:
        """Make a workload's link and everything else but its route. Return the link, and whether the route was made.

        The route is added as well if `reachable`, called in the thread, then returns true (the address is on the disk
        and the policy in the kernel), because another hop from the loop to the thread takes as long as the route
        itself. `opened` is as in `route`. If the link fails, what this call made is removed as far as possible; if a
        route fails, the link stays.
        """
        return await self._run(_attach, endpoint, opened, reachable)

    async def route(self, endpoint: VethEndpoint, opened: t.Collection[str]) -> None:
        """Make a workload reachable by adding its routes. Raise `in_the_way` if a route of others is in place of one.

        `opened` are the CIDRs of opened spare blocks. They get a blackhole route first, so that packets to their unused
        addresses end at this node; one with the destination of the workload's route gets none.
        """
        await self._run(_attach_route, endpoint, opened)

    async def again(self, endpoint: VethEndpoint) -> Attached:
        """Attach a workload that may be in the kernel in part, repairing that part; return its link."""
        return await self._run(attach.attach, endpoint)

    async def open_to_loopback(self, endpoint: VethEndpoint) -> None:
        """Let packets of the host's 127.0.0.0/8 pass by a workload's host end, if it publishes a port of IPv4."""
        await self._run(workload.open_to_loopback, endpoint)

    async def unroute(self, endpoint: VethEndpoint) -> None:
        """Remove the workload's routes, so that it is unreachable; absent ones are fine."""
        await self._run(attach.detach_route, endpoint)

    async def adopted(self, endpoint: VethEndpoint) -> str:
        """Return the identity of the endpoint's namespace, "" unless the link is there with one of its addresses."""
        return await self._run(workload.adopted, endpoint)

    async def complete(self, endpoint: VethEndpoint, pools: t.Sequence[str]) -> bool:
        """Add what a container engine leaves out inside, for a workload that was handed over to it.

        `pools` are the CIDRs of all IP pools. Return whether nothing remains to be done, because all of it is there or
        the pair is gone; False if the engine has not configured the inner end yet.
        """
        return await self._run(workload.complete_handed_over, endpoint, pools)

    async def left_here(self, endpoints: t.Sequence[VethEndpoint]) -> set[str]:
        """Return the host ends of those handed-over workloads whose pair is gone or wholly in the host's namespace."""
        return await self._run(workload.left_here, endpoints)

    async def without_trace(self, endpoints: t.Sequence[VethEndpoint]) -> set[str]:
        """Return the host ends of those workloads that ended with their namespaces and have no host end any more."""
        return await self._run(workload.without_trace, endpoints)

    async def plan(self, state: NodeState, endpoint: VethEndpoint) -> NodePlan:
        """Return the plan that repairs one workload's kinds workload, sysctl and route, without writing anything.

        `state` must hold only what belongs to this workload; removals in the plan may concern other workloads.
        """
        return await self._run(plan_node, state, ("workload", "sysctl", "route"), (endpoint.interface,))

    async def _run(self, work: t.Callable[..., _T], *arguments: t.Any) -> _T:
        """Return `work(kernel, *arguments)`, run in the thread; turn its errors into AgentErrors."""
        try:
            return await self._thread(lambda: work(self._kernel, *arguments))
        except AttachError as error:
            raise AgentError(error.code, str(error), {"field": error.field} if error.field else None) from error
        except (ApplyError, ObserveError) as error:
            raise AgentError(protocol.KERNEL, str(error)) from error
        except (KernelError, MissingLibrary) as error:
            raise AgentError(protocol.KERNEL, f"the kernel refused: {error}") from error


def _attach(
    kernel: Kernel, endpoint: VethEndpoint, opened: t.Collection[str], reachable: t.Callable[[], bool]
) -> tuple[Attached, bool]:
    attached = attach.attach_link(kernel, endpoint)
    failpoints.point("add.linked")
    if not reachable():
        return attached, False
    failpoints.point("add.written")
    failpoints.point("add.guarded")
    _attach_route(kernel, endpoint, opened)
    return attached, True


def _attach_route(kernel: Kernel, endpoint: VethEndpoint, opened: t.Collection[str]) -> None:
    own = {one.destination for one in endpoint_routes(endpoint)}
    wanted = tuple(Route(cidr, "blackhole") for cidr in opened if cidr not in own)
    if wanted:
        changes = route.diff(wanted, route.observe(kernel, wanted))
        route.apply(kernel, [change for change in changes if change.action != "-"])
    attach.attach_route(kernel, endpoint)
