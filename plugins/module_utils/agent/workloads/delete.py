# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The delete of one workload, and the release of an address that no workload uses. add.py has the diagram of both."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import typing as t

from ...base.terminal_text import cut, line
from ...dataplane.planning import attach
from ...state.attachment import AttachedWorkload
from ...state.node_state import NodeState
from ...wire import protocol
from ...wire.protocol import AgentError
from ..log.transactions import transaction
from . import failpoints, publish
from .context import PATIENCE, WorkloadContext

_log = logging.getLogger("calico.workloads")


async def delete(on: WorkloadContext, id: str) -> bool:
    """Delete a workload; return True, or False if the node has neither a workload nor a known address for this id.

    Afterwards it is unreachable and its address is free, or reserved again if it was before, or the cleanup retries
    that. Its link is removed soon after; if the kernel did not remove its route, wait up to 10 seconds for that. If
    only an address is left for the id, release it. Raise AgentError with code `not_written` if the disk refuses that,
    or the commit, which leaves the workload attached.
    """
    async with transaction("detach", id) as lines, on.locks(id):
        workload = on.table.get(id)
        if workload is None:
            return await _release_alone(on, id)
        async with on.rwlock.shared():
            await _detach(on, workload)
        lines.ends("%s from %s", ", ".join(workload.addresses), workload.interface)
    _log.info("Deleted workload %s: %s on %s.", workload.id, " and ".join(workload.addresses), workload.interface)
    on.events.tell("deleted", workload=workload.to_dict())
    failpoints.point("delete.answered")
    return True


async def _detach(on: WorkloadContext, workload: AttachedWorkload) -> None:
    """Commit the delete, then remove the route while the release goes to the disk. Leave the link to the cleanup.

    If the route could not be removed, wait at most 10 seconds for the link. Only a refusal of the commit is raised.
    """
    # This comes first: if the agent ended before it, the next start would load the committed record as an attached
    # workload, whose address may belong to another one by then.
    with on.persisted.writing("record"):
        on.persisted.records.leave(workload.id)
    failpoints.point("delete.begun")
    on.table.remove(workload)
    on.policy.workloads_changed(later=True)
    released = asyncio.ensure_future(on.addresses.try_release(workload.id, on.addresses.give_back))
    unreachable = False
    try:
        with contextlib.suppress(AgentError):
            await on.in_kernel(attach.detach_route, on.table.endpoint(workload))
            unreachable = True
        failpoints.point("delete.unrouted")
        await publish.release(on, workload)
        await released
        failpoints.point("delete.released")
    finally:
        on.policy.update()  # The route is gone: nothing reaches the workload that policy would have to deny.
        free = released.done() and not released.cancelled() and released.result()
        on.cleanup.add(workload, on.table.endpoint(workload), released=free)
        on.table.forget_endpoint(workload)
    if not unreachable:  # The route may still be there; the kernel removes it together with the workload's link.
        await on.cleanup.finished(workload, PATIENCE)


async def _release_alone(on: WorkloadContext, id: str) -> bool:
    """Release the addresses of a workload that is only in the journal; return False if there are none.

    Addresses whose workload is still being cleaned up are left to the cleanup. A record that could not be read at the
    agent's start is removed.
    """
    with on.persisted.writing("record"):
        on.persisted.records.remove(id)
    if "ipam" in on.persisted.broken or on.persisted.ipam.by_handle(id) is None:
        return False
    if on.cleanup.get(id) is None:
        with on.persisted.writing("release"):
            await on.addresses.give_back(id)
    return True


def uses(on: WorkloadContext, handle: str) -> bool:
    """Return whether a workload with the id `handle` is attached, locked by a transaction, or not yet cleaned up."""
    return handle in on.table or handle in on.locks or on.cleanup.get(handle) is not None


async def release_unused(on: WorkloadContext, handle: str) -> bool:
    """Release the addresses of `handle` unless it is attached; return whether the disk has it. Log a failure."""
    async with transaction("release", handle), on.locks(handle):
        return handle not in on.table and await on.addresses.try_release(handle)


def _planned(state: t.Optional[NodeState], address: str) -> str:
    """Return whose the address is by the inventory's plan, and how it becomes free; "" if the plan does not have it."""
    if state is None:
        return ""
    for workload in state.workloads:
        if address in workload.addresses:
            return (
                f"belongs to workload {workload.namespace}/{workload.name} of the inventory. Remove it from "
                "calico_workloads or calico_node_workloads there, and run playbooks/site.yml."
            )
    if address in (*state.ipam.tunnels.values(), *state.ipam.probes.values()):
        return "is the node's own, for a tunnel or its probe endpoint. It stays with the node."
    return ""


async def release_address(on: WorkloadContext, address: str) -> None:
    """Free an address that no workload uses, and all other addresses of the same owner, on the disk too.

    Raise AgentError: `not_found` if it is not allocated, `conflict` if its workload is attached, or is being added or
    removed, `not_written` if the disk refuses, or `unavailable` if the journal cannot be read.
    """
    allocation = on.persisted.ipam.by_address(address)
    planned = _planned(on.persisted.state, address) if allocation is None else ""
    if planned:
        raise AgentError(protocol.CONFLICT, f"address {address} {planned}")
    if allocation is None:
        shown = cut(line(address))  # any text that a caller gave
        raise AgentError(
            protocol.NOT_FOUND, f"address {shown} is not allocated on this node. See `calicoctl ipam show`."
        )
    if uses(on, allocation.handle):
        raise AgentError(
            protocol.CONFLICT,
            f"address {address} belongs to workload {allocation.handle}. Delete that instead"
            f" (calicoctl workload del {allocation.handle}).",
        )
    async with transaction("release", allocation.handle, address):
        with on.persisted.writing("release"):
            await on.addresses.release(allocation.handle)
