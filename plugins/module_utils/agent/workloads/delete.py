# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One workload is deleted, or an address that no workload uses is released. add.py has the diagram of both."""

from __future__ import annotations

import asyncio
import contextlib

from ...state.attachment import AttachedWorkload
from ..api import protocol
from ..api.protocol import AgentError
from . import failpoints
from .context import PATIENCE, WorkloadContext


async def delete(on: WorkloadContext, id: str) -> bool:
    """Delete a workload; return False if there is none.

    Afterwards it cannot be reached and its address is free; its link goes soon after (cleanup.py). Raises AgentError.
    """
    async with on.locks(id):
        workload = on.table.get(id)
        if workload is None:
            return await _release_alone(on, id)
        async with on.rwlock.shared():
            await _detach(on, workload)
    on.events.tell("deleted", workload=workload.to_dict())
    failpoints.point("delete.answered")
    return True


async def _detach(on: WorkloadContext, workload: AttachedWorkload) -> None:
    """Commit, then remove the route while the release goes to the disk; the link is left to the cleanup."""
    with contextlib.suppress(OSError):  # then it is deleted all the same, and only a crash would bring it back
        on.persisted.records.leave(workload.id)
    failpoints.point("delete.begun")
    on.table.remove(workload)
    on.policy.workloads_changed()
    released = asyncio.ensure_future(on.addresses.try_release(workload.id))
    unreachable = False
    try:
        with contextlib.suppress(AgentError):
            await on.wiring.unroute(on.table.endpoint(workload))
            unreachable = True
        failpoints.point("delete.unrouted")
        await released
        failpoints.point("delete.released")
    finally:
        free = released.done() and not released.cancelled() and released.result()
        on.cleanup.add(workload, on.table.endpoint(workload), released=free)
        on.table.forget_endpoint(workload)
    if not unreachable:  # its route goes with its link
        await on.cleanup.finished(workload.interface, PATIENCE)


async def _release_alone(on: WorkloadContext, id: str) -> bool:
    """Release the address of a workload that did not come back after a reboot; return False if there is none."""
    if "ipam" in on.persisted.broken or on.persisted.ipam.by_handle(id) is None:
        return False
    if on.cleanup.get(id) is None:
        with on.persisted.writing("release"):
            await on.addresses.release(id)
    return True


def uses(on: WorkloadContext, handle: str) -> bool:
    """Return whether a workload of this id is attached, being added or deleted, or not yet cleaned up."""
    return handle in on.table or handle in on.locks or on.cleanup.get(handle) is not None


async def release_unused(on: WorkloadContext, handle: str) -> bool:
    """Release the address of a workload that is not attached; return whether it is free now."""
    async with on.locks(handle):
        return handle not in on.table and await on.addresses.try_release(handle)


async def release_address(on: WorkloadContext, address: str) -> None:
    """Free an address that no workload uses. Raises AgentError not_found or conflict."""
    allocation = on.persisted.ipam.by_address(address)
    if allocation is None:
        raise AgentError(
            protocol.NOT_FOUND, f"address {address} is not allocated on this node. See `calicoctl ipam show`."
        )
    if uses(on, allocation.handle):
        raise AgentError(
            protocol.CONFLICT,
            f"address {address} belongs to workload {allocation.handle}. Delete that instead"
            f" (calicoctl workload del {allocation.handle}).",
        )
    with on.persisted.writing("release"):
        await on.addresses.release(allocation.handle)
