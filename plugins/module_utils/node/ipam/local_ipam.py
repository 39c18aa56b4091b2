# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's IPAM: allocations in memory, and a journal with which they survive the process and a power failure.

`assign` and `release` take effect in memory and are queued; `flush` writes the queue to the disk. An address may be
used only after a flush that began later has returned. The opening of a spare block is queued before its first address,
so it is on the disk first as well.

A flush that fails undoes everything that it should have written and everything that happened after that.
"""

from __future__ import annotations

import os
import sys
import threading
import typing as t

from ...base import naming
from ...base.addresses import family_of
from ...base.typed_json import Reader, Unreadable, by_name, number, text, whole
from ...ipam import consistency
from ...ipam.allocations import (
    COOLDOWN,
    RESERVED,
    Allocation,
    AllocationError,
    Allocations,
    Assigned,
    Contradiction,
    Event,
    Opened,
    PoolUse,
    Released,
    Usage,
)
from ...ipam.former_owners import ASKED
from ...state.attachment import AttachedWorkload
from ...state.node_state import NodeState
from ...state.phase import Phase
from ..store.clock import BOOT_ID, Epoch, SteadyClock, boot_id, boottime
from .allocation_journal import AllocationJournal, IpamNotWritten, IpamUnreadable, Record, unreadable

__all__ = ["IpamNotWritten", "IpamUnreadable", "LocalIpam"]

#: The attribute of an allocation that is reserved again when its workload ends, and its value.
_RESERVABLE = {"reserved": "yes"}
#: The first record of every journal: its format and version.
_FORMAT: Record = ("calico-ipam", 1)


class _Batch:
    """The events that one flush must write.

    `touched` is True if assigning or releasing was requested since the batch before it, also if that queued no event: a
    caller then relies on it. `done` is True when it is written or undone. `error` is what its flush raises: why it was
    undone, or None if it was written, or if `touched` is False and it was undone because an earlier batch failed.
    """

    def __init__(self, events: list[Event], touched: bool) -> None:
        self.events = events
        self.touched = touched
        self.done = False
        self.error: t.Optional[IpamNotWritten] = None


class LocalIpam:
    """The allocations of one node, with their journal in `folder`.

    One thread assigns and releases; `flush` may run in other threads meanwhile. One process at a time writes a folder.
    `clock` and `boot` are as in SteadyClock, and `cooldown` is the seconds for which a released address is not
    reassigned, `sticky` those for which it is kept for its former workload. Every method that assigns or releases
    raises RuntimeError before a successful `load`. Its change is not on the disk before a flush that begins after the
    call.
    """

    def __init__(
        self,
        folder: str,
        clock: t.Callable[[], float] = boottime,
        boot: t.Callable[[], str] = boot_id,
        cooldown: float = COOLDOWN,
        sticky: float = 0.0,
    ) -> None:
        self._journal = AllocationJournal(os.path.join(folder, "allocations"))
        self._clock = SteadyClock(clock, boot)
        self._cooldown = cooldown
        self._sticky = sticky
        self._allocations = Allocations(cooldown, sticky)
        self._heading: list[Record] = []  # format and epoch, if they have to be written before the next records
        self._loaded = False
        self._batches: list[_Batch] = []  # batches that are not on the disk yet, the oldest first
        self._touched = False
        # None, or the error for the next flush: a failed flush has undone what the next one's caller relies on.
        self._failed: t.Optional[IpamNotWritten] = None
        self._memory = threading.Lock()
        self._disk = threading.Lock()

    # --- state ---

    def load(self) -> None:
        """Read what was assigned and released before, nothing without a journal; write nothing.

        Raise IpamUnreadable if the journal cannot be read or is damaged, or if the boot's id cannot be read.
        """
        records = self._journal.load()
        try:
            allocations, epoch, latest = _replayed(records, self._cooldown, self._sticky)
        except ValueError as error:
            raise IpamUnreadable(unreadable(self._journal.path, str(error))) from error
        try:
            resumed = self._clock.resume(epoch, latest)
        except OSError as error:
            raise IpamUnreadable(
                f"The time since an address was released is not known: {BOOT_ID} cannot be read:"
                f" {error.strerror}. No address is assigned meanwhile. Mount /proc, then start calico-agent again."
            ) from error
        self._heading = [] if records else [_FORMAT]
        if resumed != epoch:
            self._heading.append(_epoch_record(resumed))
        with self._memory:
            self._allocations, self._batches, self._touched, self._failed = allocations, [], False, None
        self._loaded = True

    def grant(self, state: NodeState) -> list[str]:
        """Accept the blocks and addresses that `state` plans for the node, in place of those of an earlier call.

        Return sentences for people about allocations that contradict them, an empty list for none. Nothing in use is
        dropped. Spare blocks with allocated addresses become open, which the next flush writes. Raise ValueError, with
        nothing changed, for a text that is no address or CIDR, or a CIDR with host bits.
        """
        reserved = {address: f"this node's {kind} tunnel" for kind, address in state.ipam.tunnels.items()}
        reserved.update((address, f"inventory workload {name}") for name, address in _inventorys(state))
        pools = {
            pool.name: PoolUse(pool.cidr, pool.disabled, pool.assignment_mode, pool.allowed_uses)
            for pool in state.pools
        }
        with self._memory:
            return self._allocations.grant(
                state.ipam.blocks,
                state.ipam.spare_blocks,
                reserved,
                state.ipam.reservations,
                pools,
                state.ipam.probes,
            )

    def allocations(self) -> list[Allocation]:
        """Return all allocations, in the order of their addresses, IPv4 first."""
        with self._memory:
            return self._allocations.all()

    def by_handle(self, handle: str) -> t.Optional[Allocation]:
        """Return the first of the allocations that `of_handle` returns, None if the handle has none."""
        with self._memory:
            return self._allocations.by_handle(handle)

    def of_handle(self, handle: str) -> tuple[Allocation, ...]:
        """Return all allocations of a handle, usually at most one of each IP version; () if it has none."""
        with self._memory:
            return self._allocations.of_handle(handle)

    def versions(self, pools: t.Sequence[str] = ()) -> tuple[int, ...]:
        """Return the IP versions (4, 6) that a workload gets if it asks for none.

        They are those of the `pools` for workloads (names or CIDRs) that it asks for, else those of the node's blocks
        that assign automatically; (4,) if there are none. Raise NoSuchPool if a pool does not exist or is disabled, or
        if none of `pools` is for workloads.
        """
        with self._memory:
            return self._allocations.versions(pools)

    def by_address(self, address: str) -> t.Optional[Allocation]:
        """Return the allocation of an address, None if it is free or no address."""
        with self._memory:
            return self._allocations.by_address(address)

    def usage(self) -> list[Usage]:
        """Return the number of used and free addresses of each block, in the order in which the blocks were granted.

        Blocks that are no longer granted, but still in use, come last.
        """
        with self._memory:
            return self._allocations.usage(self._clock())

    @property
    def opened(self) -> tuple[str, ...]:
        """The opened blocks (CIDRs) that `grant` named as spare, in the order of opening.

        Before `grant` they are all opened blocks, and then all others with allocations.
        """
        with self._memory:
            return self._allocations.opened

    def check(self, state: NodeState, workloads: t.Iterable[AttachedWorkload]) -> consistency.Report:
        """Return how the allocations differ from what `state` plans and what the node's own `workloads` use.

        The blocks are those of the last `grant`, not those of `state`. Raise ValueError for an invalid address or CIDR.
        """
        grants = consistency.Grants(
            node=state.node,
            pools={pool.name: pool.cidr for pool in state.pools if not pool.disabled},
            blocks=tuple((use.cidr, use.pool, use.spare) for use in self.usage()),
            planned={
                **{address: tunnel_handle(kind, state.node) for kind, address in state.ipam.tunnels.items()},
                **{address: f"inventory workload {name}" for name, address in _inventorys(state)},
                **{address: probe_handle(state.node, pool) for pool, address in state.ipam.probes.items()},
            },
        )
        tunnels = {
            tunnel_handle(device.kind + ("6" if family_of(device.address) == 6 else ""), state.node): device.address
            for device in state.devices
            if device.address is not None
        }
        used = {found.id: found.addresses for found in workloads}
        planned = set(_inventorys(state))
        for endpoint in state.workloads:
            if not {(endpoint.name, address) for address in endpoint.addresses} <= planned:
                continue  # not from the inventory: `state` may include `workloads`, which are counted above
            used.setdefault(f"inventory workload {endpoint.name}", endpoint.addresses)
        probes = _probes_in_use(state)
        return consistency.check(self.allocations(), used, tunnels, grants, probes)

    # --- changes of the allocations, and writing them to the disk ---

    def assign(
        self,
        handle: str,
        attributes: t.Mapping[str, str],
        *,
        address: t.Optional[str] = None,
        pools: t.Sequence[str] = (),
        version: int = 4,
    ) -> Allocation:
        """Assign an address to `handle` and return it; return the one that it has, if it has one of that IP version.

        `attributes` are texts about the owner, for people. `version` is the IP version, 4 or 6. `address` asks for that
        address only, whatever `version` says. `pools` (names or CIDRs) are those to choose from; empty means every pool
        that assigns automatically and, with `address`, any. Raise AllocationError, with nothing changed, if no such
        address is free, if the handle has another one of the version of `address`, if `address` or a pool is unknown
        here, or if a pool is disabled or none is for workloads.
        """
        self._need_load()
        with self._memory:
            self._touched = True
            return self._allocations.assign(
                handle, attributes, self._clock(), address=address, pools=pools, version=version
            )

    def assign_each(
        self,
        handle: str,
        attributes: t.Mapping[str, str],
        *,
        addresses: t.Mapping[int, str],
        pools: t.Sequence[str] = (),
        versions: t.Collection[int] = (),
        reserved: bool = False,
        avoid: t.Container[str] = (),
    ) -> tuple[Allocation, ...]:
        """Assign one address of each of the IP `versions` to `handle`, and return the allocations, IPv4 first.

        Without `versions`, they are those that `versions(pools)` returns and those of `addresses`, which maps an IP
        version to the address to assign; with them, an address of another version is ignored. `attributes` are as in
        `assign`. `pools` may be of both versions. For a version that none of them is of, every pool counts that assigns
        automatically and, for an address of `addresses`, any pool for workloads. An address that the handle has is
        kept. Raise AllocationError if an address or a pool is not available, or if the handle has another address: it
        keeps what it had, and gets nothing. Of the addresses that are kept for this workload, those in `avoid` are not
        chosen. With `reserved`, reservations of `addresses` are taken over, and are
        reservations again after `reserve_again` or an error.
        """
        self._need_load()
        with self._memory:
            self._touched = True
            books, now = self._allocations, self._clock()
            had = books.of_handle(handle)
            moved = [self._take_over(handle, attributes, address, now) for address in addresses.values() if reserved]
            try:
                return tuple(
                    books.assign(
                        handle,
                        attributes,
                        now,
                        address=addresses.get(version),
                        pools=books.of_version(pools, version),
                        version=version,
                        avoid=avoid,
                    )
                    for version in sorted({*(versions or {*books.versions(pools), *addresses})})
                )
            except AllocationError:
                for held in moved:
                    if held is not None:
                        books.pass_on(held, RESERVED + held.address, _reservable(held), now)
                books.release(handle, now, keep=had, returns=False)
                raise

    def _take_over(
        self, handle: str, attributes: t.Mapping[str, str], address: str, now: float
    ) -> t.Optional[Allocation]:
        """Give the reservation of an address to `handle`, and return the allocation; None if there is no reservation.

        Do nothing if the handle has an address of that IP version already. The caller holds the memory lock.
        """
        books = self._allocations
        held = books.by_address(address)
        if held is None or held.handle != RESERVED + held.address:
            return None
        if any(family_of(one.address) == family_of(held.address) for one in books.of_handle(handle)):
            return None
        return books.pass_on(held, handle, {**attributes, **_reservable(held)}, now)

    def reserve(self, *, address: t.Optional[str] = None, pools: t.Sequence[str] = (), version: int = 4) -> Allocation:
        """Assign an address to nobody yet, and return the reservation; a workload with this address takes it over.

        `address`, `pools` and `version` are as in `assign`, and so are the errors. An address that is reserved already
        is taken as well (AddressTaken). Without `address`, it is the one that was asked for by the same `pools` and is
        kept, if that is one alone: an engine does not say for which container it asks. If no other address is left, it
        is the one that was released longest ago, whose cooldown is not over: after a reboot an engine starts all
        containers as soon as it has released the addresses that they had.
        """
        self._need_load()
        with self._memory:
            self._touched = True
            books, now = self._allocations, self._clock()
            asked = {} if address is not None else {ASKED: ",".join(pools)}
            attributes = {**_RESERVABLE, **asked}
            # The handle names the address, which is not known before it is assigned.
            held = books.assign(RESERVED, attributes, now, address=address, pools=pools, version=version, resting=True)
            return books.pass_on(held, RESERVED + held.address, attributes, now)

    def reserved(self, address: str) -> t.Optional[Allocation]:
        """Return the reservation of an address, None if it has none."""
        with self._memory:
            held = self._allocations.by_address(address)
        return held if held is not None and held.handle == RESERVED + held.address else None

    def reserve_again(self, handle: str, *, returns: bool = True) -> list[Allocation]:
        """Turn the reservable addresses of `handle` into reservations, release its others, and return what it had.

        They are kept for the workload if it `returns`.
        """
        self._need_load()
        with self._memory:
            self._touched = True
            books, now = self._allocations, self._clock()
            before = [*books.of_handle(handle)]
            for held in before:
                if held.attributes.get("reserved") == _RESERVABLE["reserved"] and not handle.startswith(RESERVED):
                    kept = _reservable(held) if returns else _RESERVABLE
                    books.pass_on(held, RESERVED + held.address, kept, now)
            books.release(handle, now, returns=returns)
            return before

    def release(self, handle: str) -> list[Allocation]:
        """Release all addresses of `handle` and return their allocations; an empty list if it has none.

        They are not kept for the workload, unlike those that `reserve_again` releases.
        """
        self._need_load()
        with self._memory:
            self._touched = True
            return self._allocations.release(handle, self._clock(), returns=False)

    def adopt(self, workloads: t.Iterable[AttachedWorkload]) -> list[str]:
        """Assign to workloads that are attached the addresses that they have, in case the journal was removed.

        The caller must flush. Return a sentence for each address that its workload cannot have; [] for none.
        """
        problems = []
        for workload in workloads:
            for address in workload.addresses:
                try:
                    self.assign(workload.id, {"namespace": workload.namespace, "name": workload.name}, address=address)
                except AllocationError as error:
                    reason = str(error).partition(". ")[0]  # the first sentence, without the remedy for a request
                    problems.append(
                        f"workload {workload.id} uses {address}, which cannot be its own: {reason}. Delete the "
                        "workload and add it again."
                    )
        return problems

    def flush(self) -> None:
        """Block until everything that is queued is on the disk, or was undone because an earlier flush failed.

        Raise IpamNotWritten if this flush fails, or if an earlier one failed after something of this one was assigned
        or released; all of it is undone then.
        """
        self.prepare()()

    def prepare(self) -> t.Callable[[], None]:
        """Take what is queued, and return a function that writes it to the disk as `flush` does, in another thread."""
        with self._memory:
            batch = _Batch(self._allocations.take_events(), self._touched)
            self._touched = False
            if self._failed is not None:
                self._allocations.undo(batch.events)
                batch.events, batch.done, batch.error, self._failed = [], True, self._failed, None
            else:
                self._batches.append(batch)

        def write() -> None:
            with self._disk:
                while not batch.done:  # earlier batches are written first
                    self._write(self._batches[0])
            if batch.error is not None:
                raise batch.error

        return write

    def close(self) -> None:
        with self._disk:
            self._journal.close()

    def _write(self, batch: _Batch) -> None:
        if batch.events:
            try:
                self._journal.append([*self._heading, *map(_record, batch.events)])
            except IpamNotWritten as error:
                self._fail(error)
                return
            self._heading = []
        with self._memory:
            self._batches.remove(batch)
        batch.done = True
        if self._journal.grown:
            self._compact()

    def _fail(self, error: IpamNotWritten) -> None:
        """Undo what the first of the batches should have written, and everything that happened after that."""
        with self._memory:
            batches, self._batches = self._batches, []
            events = [event for batch in batches for event in batch.events] + self._allocations.take_events()
            self._allocations.undo(events)
            if self._touched:
                self._failed = IpamNotWritten(str(error))
                self._touched = False
        for index, batch in enumerate(batches):
            batch.events = []
            batch.done = True
            if index == 0 or batch.touched:
                batch.error = IpamNotWritten(str(error))

    def _compact(self) -> None:
        """Replace the journal by a shorter one, if possible, made from what is on the disk, because memory has more."""
        journal = AllocationJournal(self._journal.path)
        try:
            allocations, epoch, dummy = _replayed(journal.load(), self._cooldown, self._sticky)
        except (IpamUnreadable, ValueError):
            return  # Only the saving is lost. `load` reports a journal that cannot be read.
        heading = [_FORMAT] if epoch is None else [_FORMAT, _epoch_record(epoch)]
        self._journal.compact([*heading, *map(_record, allocations.snapshot())])

    def _need_load(self) -> None:
        if not self._loaded:
            raise RuntimeError("load() was not called, or it failed: addresses would be given twice")


def _reservable(held: Allocation) -> dict[str, str]:
    """Return the attributes of an allocation that stay when its address is passed on."""
    return {**_RESERVABLE, **{key: text for key, text in held.attributes.items() if key == ASKED}}


def tunnel_handle(kind: str, node: str) -> str:
    """Return the handle of a tunnel's address on `node`, as Calico names it: "vxlan-v6-tunnel-addr-node1".

    `kind` is a key of NodeIpam.tunnels, such as "vxlan6". Raise NamingError for an unknown kind of tunnel.
    """
    return naming.tunnel_handle_id({"vxlan6": "vxlan-v6"}.get(kind, kind), node)


def probe_handle(node: str, pool: str) -> str:
    """Return the handle of the address that the probe endpoint on `node` has in a pool: "probe-addr-node1-default"."""
    return f"probe-addr-{node}-{pool}"


def _probes_in_use(state: NodeState) -> list[tuple[str, str]]:
    """Return (handle, address) for each address of the node's probe endpoint.

    One that is not planned has a handle without a pool. In a change it is one of before, and is left out.
    """
    pools = {address: pool for pool, address in state.ipam.probes.items()}
    endpoint = state.probe_endpoint
    return [
        (probe_handle(state.node, pools[address]) if address in pools else f"probe-addr-{state.node}", address)
        for address in (endpoint.addresses if endpoint is not None else ())
        if address in pools or state.phase == Phase.CONVERGE
    ]


def _inventorys(state: NodeState) -> t.Iterator[tuple[str, str]]:
    """Yield (name, address) for each address that is planned for a workload of the inventory."""
    yield from state.ipam.workloads.items()
    yield from state.ipam.workloads6.items()


def _record(event: Event) -> Record:
    if isinstance(event, Assigned):
        held = event.allocation
        return ("assign", held.address, held.handle, dict(held.attributes), held.pool, held.block)
    if isinstance(event, Released):
        return ("release", event.address, event.at)
    return ("open", event.cidr)


def _epoch_record(epoch: Epoch) -> Record:
    return ("boot", epoch.boot, epoch.offset)


_TEXT, _SECONDS = text(), number(-sys.float_info.max, sys.float_info.max)
#: The kinds of records, and the readers of their fields.
_FIELDS: t.Mapping[str, tuple[Reader, ...]] = {
    "assign": (_TEXT, _TEXT, by_name(_TEXT), _TEXT, _TEXT),
    "release": (_TEXT, _SECONDS),
    "open": (_TEXT,),
    "boot": (_TEXT, _SECONDS),
    "calico-ipam": (whole(1, 1),),
}


def _replayed(
    records: t.Iterable[Record], cooldown: float, sticky: float
) -> tuple[Allocations, t.Optional[Epoch], float]:
    """Return the allocations that the records result in, the last stored epoch or None, and the latest time in seconds.

    The time is 0.0 if there is none. Raise ValueError for a record that is invalid or contradicts those before it.
    """
    allocations = Allocations(cooldown, sticky)
    epoch: t.Optional[Epoch] = None
    latest = 0.0
    events: list[Event] = []
    for position, record in enumerate(records):
        if not isinstance(record, (list, tuple)) or not record or not isinstance(record[0], str):
            raise Contradiction(f"record {position + 1} is not complete")
        kind, *fields = record
        if kind not in _FIELDS or (kind == _FORMAT[0] and tuple(record) != _FORMAT):
            raise Contradiction(f"record {position + 1} is of a kind that is not known here")
        if len(fields) != len(_FIELDS[kind]):
            raise Contradiction(f"record {position + 1} is not complete")
        try:
            fields = [read(value) for read, value in zip(_FIELDS[kind], fields)]
        except Unreadable as error:
            raise Contradiction(f"a field of record {position + 1} cannot be read: {error}") from None
        if kind == "assign":
            events.append(Assigned(Allocation(*fields)))
        elif kind == "release":
            address, at = fields
            latest = max(latest, at)
            events.append(Released(address, at))
        elif kind == "open":
            events.append(Opened(fields[0]))
        elif kind == "boot":
            epoch = Epoch(*fields)
            latest = max(latest, epoch.offset)
    allocations.replay(events)
    return allocations, epoch, latest
