# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The add of one workload: the whole transaction, in the order in which it happens.

An add and a delete have one commit point each, the renaming of the workload's record:

    add     address (memory) ─► record begun ─► link, while the journal goes to the disk and policy's sets and chains to
            the kernel ─► route ─► COMMIT ─► answer
    delete  COMMIT ─► route removed, while the release goes to the disk ─► answer ─► link removed (cleanup.py)
            ─► record forgotten

If the agent is killed, its next start removes whatever was begun and not committed. So an add that was not committed
leaves nothing, and a delete that was begun is completed. No packet reaches an address that is not on the disk, or that
policy does not contain.

The path of a CNI ADD, each stop below the one before:

     1  api/server.py          Server: the event loop accepts a connection on root's socket
     2  api/connection.py      ApiConnection: bytes to one request of a shim's framing, and the answer back
     3  api/calls.py           Calls.call_shim: the deadline, and messages for failures
     4  runtimes/cni/dispatch.py  CniPlugin: environment and configuration to a command, errors to the specification's
     5  runtimes/cni/add.py    add: an AddRequest of both; runtimes/attachment.py deletes its predecessor
     6  workloads/transactions.py  Transactions.add: ports, labels in force, counts refusals for lack of an address
     7  workloads/add.py       add, _attach: this file, the transaction
     8  workloads/admission.py PolicyUpdates: one write of sets and chains for all waiting adds, beside stop 10
     9  reconcile/stages.py    Stages.admit: that write, in the drivers' thread
    10  workloads/context.py   WorkloadContext.in_kernel: link and route in one hop to the workloads' thread
    11  dataplane/planning/attach.py    attach_link, attach_route: system calls, the host's route last
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import typing as t

from ...dataplane.drivers import route
from ...dataplane.kernel.port import Kernel
from ...dataplane.planning import attach
from ...dataplane.planning.attach import Attached
from ...node.store.clock import now
from ...state.attachment import AttachedWorkload, endpoint_routes
from ...state.node_state import Route, VethEndpoint
from ...wire import protocol
from ...wire.protocol import AgentError
from ...wire.request import AddRequest
from ..log.transactions import transaction
from . import failpoints
from .context import PATIENCE, WorkloadContext
from .updates import save_labels

_log = logging.getLogger("calico.workloads")


async def add(on: WorkloadContext, request: AddRequest) -> AttachedWorkload:
    """Attach a workload and return it with the MAC address of its link, and the link's MTU in bytes.

    If a workload of the same id is attached already and meets the request, repair it and return it; a request of CNI
    also updates its labels, except those that `relabel` changed.

    Raise AgentError if the request is invalid or conflicts with a workload, if no address is free, if the network
    namespace is missing, or if the node, an object in the way, the kernel or the disk prevents it. Its code is
    `try_again` if a deleted workload with the same device or address is not removed within 10 seconds. After an error,
    nothing of a new workload stays but leftovers that the cleanup retries to remove.
    """
    request = request.checked()
    async with transaction("attach", request.id) as lines, on.locks(request.id):
        present = on.table.get(request.id)
        if present is not None:
            return await _add_again(on, request, present)
        on.persisted.need_for_add()
        workload = request.workload(now())
        on.table.claim(workload)
        try:
            await _wait_for_device(on, workload)
            async with on.rwlock.shared():
                # This is in memory only; _attach writes or undoes it.
                addresses, pool = on.addresses.assign(request, on.cleanup.stuck)
                failpoints.point("add.assigned")
                workload = dataclasses.replace(workload, addresses=addresses, pool=pool)
                attached = await _attach(on, workload)
        except BaseException:
            on.table.unclaim(workload)
            raise
        lines.ends("%s on %s", ", ".join(workload.addresses), workload.interface)
    _log.info("Attached workload %s: %s on %s.", workload.id, " and ".join(workload.addresses), workload.interface)
    on.events.tell("added", workload=workload.to_dict())
    return _with_link(workload, attached)


async def _attach(on: WorkloadContext, workload: AttachedWorkload) -> Attached:
    """Attach a workload that has its addresses: record, link, route, commit. Return its link as it is.

    On any error, or the cancellation, undo what was made. What cannot be undone is left to the cleanup.
    """
    on.table.begin(workload)
    opened: tuple[str, ...] = ()
    try:
        with on.persisted.writing("record"):
            on.cleanup.supersede(workload.id)  # so that the cleanup does not remove the new record
            on.persisted.records.begin(workload)
        failpoints.point("add.begun")
        await _wait_for_addresses(on, workload)

        # The disk and policy's sets and chains are written while the link is made.
        endpoint = on.table.endpoint(workload)
        written, admission = on.addresses.write(), on.policy.begin_admission(workload.id, endpoint)
        opened = on.table.newly_opened()
        if opened:
            on.policy.workloads_changed()

        def reachable() -> bool:
            return written.in_force and (admission is None or admission.in_force)

        attached, routed = await on.in_kernel(_link, endpoint, opened, reachable)
        workload = dataclasses.replace(workload, netns_identity=attached.netns_identity)
        with on.persisted.writing("record"):
            on.persisted.records.identify(workload.id, attached.netns_identity)
        if not routed:
            with on.persisted.writing("address"):
                await written
            failpoints.point("add.written")
            if admission is not None:
                await on.policy.admitted(admission, endpoint)
            failpoints.point("add.guarded")
            await on.in_kernel(_route, endpoint, opened)
        on.table.note_opened(opened)
        failpoints.point("add.routed")

        with on.persisted.writing("record"):
            on.persisted.records.commit(workload.id)
        failpoints.point("add.committed")
    except BaseException:
        on.table.abandon(workload)
        await asyncio.shield(asyncio.ensure_future(_undo(on, workload)))
        on.policy.workloads_changed()  # so that the reconciler removes the workload from policy
        if opened:
            on.policy.blocks_opened()
        raise
    on.table.attach(workload, endpoint)
    on.policy.workloads_changed()
    return attached


def _link(
    kernel: Kernel, endpoint: VethEndpoint, opened: t.Collection[str], reachable: t.Callable[[], bool]
) -> tuple[Attached, bool]:
    """Make a workload's link, then its route if `reachable()` is true. Return the link, and whether the route was made.

    Another hop to the thread for the route would take as long as adding it. If the link fails, what was made of it is
    removed as far as possible. If a route fails, the link stays.
    """
    attached = attach.attach_link(kernel, endpoint)
    failpoints.point("add.linked")
    if not reachable():
        return attached, False
    failpoints.point("add.written")
    failpoints.point("add.guarded")
    _route(kernel, endpoint, opened)
    return attached, True


def _route(kernel: Kernel, endpoint: VethEndpoint, opened: t.Collection[str]) -> None:
    """Make a workload reachable by adding its routes. Raise an AttachError if a route of others is in place of one.

    `opened` are the CIDRs of opened spare blocks. They get a blackhole route first, so that packets to their unused
    addresses end at this node; one with the destination of the workload's route gets none.
    """
    own = {one.destination for one in endpoint_routes(endpoint)}
    wanted = tuple(Route(cidr, "blackhole") for cidr in opened if cidr not in own)
    if wanted:
        changes = route.diff(wanted, route.observe(kernel, wanted))
        route.apply(kernel, [change for change in changes if change.action != "-"])
    attach.attach_route(kernel, endpoint)


async def _undo(on: WorkloadContext, workload: AttachedWorkload) -> None:
    """Remove what an add has made: the route at once, the rest by the cleanup. Wait at most 10 seconds for that."""
    with contextlib.suppress(AgentError):
        await on.in_kernel(attach.detach_route, on.table.endpoint(workload))
    on.cleanup.add(workload, on.table.endpoint(workload))
    on.table.forget_endpoint(workload)
    await on.cleanup.finished(workload, PATIENCE)


async def _add_again(on: WorkloadContext, request: AddRequest, present: AttachedWorkload) -> AttachedWorkload:
    """Repair an attached workload that meets the request and return it with the MAC and MTU (bytes) of its link.

    A container's request also updates its labels, except those that were changed by `relabel` since.
    """
    difference = request.differs_from(present)
    if difference:
        raise AgentError(
            protocol.CONFLICT,
            f"workload {request.id} exists already, with {difference}. Delete it first, or choose another id.",
        )
    if request.container:
        present = save_labels(on, present, present.with_labels(request.labels))
    async with on.rwlock.shared():
        attached = await on.in_kernel(attach.attach, on.table.endpoint(present))
    return _with_link(present, attached)


async def _wait_for_device(on: WorkloadContext, workload: AttachedWorkload) -> None:
    """Wait until deleted workloads with a device of this one are removed; after 10 s raise AgentError (try_again)."""
    if not await on.cleanup.finished(workload, PATIENCE):
        raise AgentError(
            protocol.TRY_AGAIN,
            f"workload {workload.id} cannot be added yet: a deleted workload that had the device {workload.interface},"
            f" or {workload.peer_interface} in the same namespace, is still being removed. Try again.",
        )


async def _wait_for_addresses(on: WorkloadContext, workload: AttachedWorkload) -> None:
    """Wait until nothing is left of workloads with these addresses; after 10 s each raise AgentError (try_again)."""
    for address in workload.addresses:
        if not await on.cleanup.forgotten(address, PATIENCE):
            raise AgentError(
                protocol.TRY_AGAIN,
                f"{address} was that of a workload that was deleted, which is still being removed. Try again.",
            )


def _with_link(workload: AttachedWorkload, attached: Attached) -> AttachedWorkload:
    return dataclasses.replace(workload, mac=attached.mac, mtu=attached.mtu)
