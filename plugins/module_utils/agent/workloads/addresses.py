# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses of workloads: assigned in memory, written to the disk by group commit, released."""

from __future__ import annotations

import logging
import time
import typing as t

from ...ipam.allocations import AllocationError
from ...node.ipam.local_ipam import IpamNotWritten, LocalIpam
from ...state.attachment import AttachedWorkload
from ...wire.protocol import AgentError
from ...wire.request import AddRequest
from ..concurrency.driver_thread import Worker
from ..known.persisted_state import PersistedState
from ..log.transactions import transaction
from .commit import GroupCommit, Write

_log = logging.getLogger("calico.workloads")


class WorkloadAddresses:
    """The part of the node's IPAM that adds and deletes use. `thread` writes its journal to the disk.

    `observed` is called after each successful write, with the seconds that it took as `value`.

    Methods raise AgentError, `unavailable` if the journal cannot be read or `not_written` if the disk refuses, unless
    they say otherwise.
    """

    def __init__(self, persisted: PersistedState, thread: Worker, observed: t.Callable[..., None]) -> None:
        self._persisted = persisted
        self._thread = thread
        self._observed = observed
        self._commit = GroupCommit(self._flush)

    def assign(self, request: AddRequest, avoid: t.Container[str] = ()) -> tuple[tuple[str, ...], str]:
        """Assign addresses to a workload, in memory only, and return (addresses, name of the first address's pool).

        The addresses are texts without prefix length, IPv4 first. Addresses that the id has already, as after a reboot,
        are kept. Addresses that it or its predecessor had until a short time ago are chosen, except those in `avoid`.
        Reservations of the requested addresses are taken over for a workload that is handed over. `write`
        puts them on the disk. Raise AgentError if an address or pool cannot be used, the id has another address, or
        none is free.
        """
        attributes = {"namespace": request.namespace, "name": request.name}
        if request.network:
            attributes.update(network=request.network, container=request.container, interface=request.peer_interface)
        try:
            held = self._persisted.ipam.assign_each(
                request.id,
                attributes,
                addresses=request.addresses,
                pools=request.pools,
                versions=request.families,
                reserved=request.handed_over,
                avoid=avoid,
            )
        except AllocationError as error:
            raise AgentError(error.code, str(error)) from error
        return tuple(one.address for one in held), held[0].pool

    async def reserve(self, address: t.Optional[str], pools: t.Sequence[str], family: int) -> str:
        """Reserve an address for a workload that comes later, on the disk too, and return it.

        It is `address`, or without one an address of IP version `family` of the `pools` (names or CIDRs), () for any
        that assigns automatically. One that is reserved already stays so. Raise AgentError if the IPAM or the disk
        refuses.
        """
        self._persisted.need_for_add()
        ipam = self._persisted.ipam
        held = ipam.reserved(address) if address is not None else None
        if held is None:
            try:
                held = ipam.reserve(address=address, pools=pools, version=family)
            except AllocationError as error:
                raise AgentError(error.code, str(error)) from error
            with self._persisted.writing("reservation"):
                async with transaction("reserve", held.address):
                    await self._commit.written()
        return held.address

    async def unreserve(self, address: str) -> bool:
        """Free a reserved address, on the disk too; return whether it was reserved. A workload keeps its address."""
        held = self._persisted.ipam.reserved(address)
        if held is not None:
            with self._persisted.writing("release"):
                async with transaction("release", held.handle, address):
                    await self.give_back(held.handle)
        return held is not None

    def check(self, workloads: t.Collection[AttachedWorkload]) -> dict[str, t.Any]:
        """Return a comparison of the allocations with the plan and `workloads`, as the API method `ipam.check`.

        It is JSON-ready: `lines` are the texts to print, `problems` is the number of problems, and `leaked`, `unused`,
        `missing`, `outside`, `mismatched`, `duplicate` and `invalid` list them.
        """
        state = self._persisted.state
        if state is None:
            raise self._persisted.no_state()
        return self._persisted.ipam.check(state, workloads).to_dict()

    def write(self) -> Write:
        """Request a write of everything assigned or released so far, and return it. It is made even if not awaited.

        Awaiting it raises IpamNotWritten if the disk refused it, or the write that was under way when it was requested;
        what it should have written, and all that happened after that, is undone in memory then.
        """
        return self._commit.written()

    async def _flush(self, write: Write) -> None:
        """Write everything assigned or released so far, and set `write.in_force` in the thread once the disk has it."""
        began = time.perf_counter()
        flush = self._persisted.ipam.prepare()

        def flushed() -> None:
            flush()
            write.in_force = True

        await self._thread(flushed)
        self._observed(value=time.perf_counter() - began)

    async def release(self, id: str) -> None:
        """Free the addresses of the workload `id` in memory and on the disk, or raise IpamNotWritten and keep them.

        They are not kept for a workload that comes back.
        """
        if self._readable().release(id):
            await self._commit.written()

    async def give_back(self, id: str) -> None:
        """Free the addresses of the workload `id` on the disk too; those that were reserved are reserved again.

        They are kept for a workload that comes back. Raise IpamNotWritten as `release` does.
        """
        if self._readable().reserve_again(id):
            await self._commit.written()

    async def give_up(self, id: str) -> None:
        """Free the addresses of a workload that was not attached, as `give_back` does, but keep them for nobody.

        They may be why it was not.
        """
        if self._readable().reserve_again(id, returns=False):
            await self._commit.written()

    def _readable(self) -> LocalIpam:
        broken = self._persisted.broken.get("ipam")
        if broken is not None:
            raise IpamNotWritten(broken)
        return self._persisted.ipam

    async def try_release(self, id: str, release: t.Optional[t.Callable[[str], t.Awaitable[None]]] = None) -> bool:
        """Free the addresses of `id` by `release`; return whether that is on the disk. Refusals are logged."""
        try:
            await (release or self.release)(id)
        except IpamNotWritten as error:
            _log.warning("%s", error)
            return False
        return True

    def adopt(self, workloads: t.Iterable[AttachedWorkload]) -> None:
        """Assign to attached workloads the addresses that they use, in case a damaged journal was moved away.

        Addresses that cannot be assigned are noted in `persisted.broken["addresses"]`. If the journal cannot be read,
        do nothing. The write to the disk is not awaited.
        """
        if "ipam" in self._persisted.broken:
            return
        self._persisted.note("addresses", " ".join(self._persisted.ipam.adopt(workloads)))
        self._commit.written()  # not awaited: the next start adopts again what does not reach the disk

    def missing(self, workload: AttachedWorkload) -> list[str]:
        """Return the addresses of a workload that are not allocated to it; all of them if the journal was not read."""
        held = () if "ipam" in self._persisted.broken else self._persisted.ipam.of_handle(workload.id)
        return [address for address in workload.addresses if address not in {one.address for one in held}]
