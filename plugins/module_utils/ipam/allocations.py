# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of one node's blocks: who has which, and which one is next. In memory; node/ipam/local_ipam.py stores them.

The rules are those of Calico's IPAM (libcalico-go, lib/ipam/ipam_block.go) with strict affinity: a node takes addresses
only from blocks that were granted to it. A block gives first the address that has been free for longest; its first and
last addresses are not excluded. A released address rests for a cooldown, because neighbours may still have it in their
caches. Reservations and the cooldown apply to the automatic choice only.

For some seconds after its release, an address is also kept for its former workload, which gets it again if it comes
back. Others get one that is kept only if no other is left, and not before its cooldown is over.

When all open blocks are full, the next spare block is opened. Each opening, assignment and release is an event (Opened,
Assigned or Released). Events can be stored and replayed, or undone from the last one backwards.
"""

from __future__ import annotations

import collections
import math
import typing as t

from ..base.addresses import (
    BITS,
    AddressRanges,
    Cidr,
    canonical_address,
    canonical_cidr,
    family_of,
    format_address,
    parse_cidr,
)
from .errors import names
from .former_owners import FormerOwners

#: Seconds that a released address rests before the automatic choice takes it again.
COOLDOWN = 30.0

#: The beginning of the handle of a reserved address, which no workload's id has.
RESERVED = "reserved:"

WORKLOAD = "Workload"
AUTOMATIC = "Automatic"


#: (IP version, address as a number).
_Key = tuple[int, int]


class Allocation(t.NamedTuple):
    """An address that belongs to a workload, which `handle` identifies.

    `attributes` are texts about the workload, by name, for people. `pool` is a name, `block` a CIDR.
    """

    address: str
    handle: str
    attributes: t.Mapping[str, str]
    pool: str
    block: str


class Opened(t.NamedTuple):
    """The event that a spare block was opened: addresses are taken from it from then on."""

    cidr: str


class Assigned(t.NamedTuple):
    """The event that an address was assigned."""

    allocation: Allocation
    # For `undo`: the address's last release before, as (its number in the order of releases, monotonic seconds). None:
    # it had none, or the event is a stored one or of `snapshot`.
    rested: t.Optional[tuple[int, float]] = None
    # For `undo`: the allocation that ended by that release, if the address was kept for it.
    kept_for: t.Optional[Allocation] = None


class Released(t.NamedTuple):
    """The event that an address was released. `at` is in seconds of a monotonic clock.

    `allocation` is the one that ended, None in stored events and in events of `snapshot`.
    """

    address: str
    at: float
    allocation: t.Optional[Allocation] = None


Event = t.Union[Opened, Assigned, Released]


class Usage(t.NamedTuple):
    """The numbers of addresses of one block, by what they are used for. `size` is the number of all of them.

    `in_use` counts addresses of workloads, of tunnels, of the inventory and of the probe endpoint, `reserved` those in
    reservations, `cooling` those that rest after their release or are kept. An address may count in several. `free`
    counts all others; it is 0 in a block that is no longer granted.
    """

    cidr: str
    pool: str
    size: int
    in_use: int
    reserved: int
    free: int
    spare: bool  # whether the block is granted as a spare one, and not opened yet
    cooling: int = 0


class PoolUse(t.NamedTuple):
    """The settings of an IP pool that decide who gets addresses from it.

    With `assignment_mode` Manual, a pool gives addresses only to workloads that ask for it or for an address of it.
    """

    cidr: str = ""
    disabled: bool = False
    assignment_mode: str = AUTOMATIC
    allowed_uses: tuple[str, ...] = (WORKLOAD, "Tunnel")


class Granted(t.Protocol):
    """A block that the fleet's plan grants to this node: its CIDR and the name of its pool."""

    @property
    def cidr(self) -> str: ...

    @property
    def pool(self) -> str: ...


class AllocationError(Exception):
    """The base of all refusals of an address. Its text is for people, its `code` for programs."""

    code = "invalid_params"


class NoAddress(AllocationError):
    """A refusal because no address is left. A later request may succeed."""

    code = "no_address"


class AddressTaken(AllocationError):
    """A refusal because the requested address belongs to, or is planned for, another workload or a tunnel."""

    code = "conflict"


class HandleTaken(AllocationError):
    """A refusal because the handle has another address of the requested address's IP version."""

    code = "conflict"


class NotInBlocks(AllocationError):
    """A refusal because the requested address is invalid or lies in no block of this node (and of requested pools)."""


class NoSuchPool(AllocationError):
    """A refusal because a requested pool does not exist or is disabled, or no requested pool is for workloads.

    If no pool is requested, that of a requested address counts as requested.
    """


class Contradiction(ValueError):
    """An event that cannot follow the events before it, or whose address is invalid."""


class _Block:
    """One block and its free addresses.

    `free` has the addresses for the automatic choice, the longest free first. `automatic` is whether the pool takes
    part in it. `granted` is False for a block that the plan does not grant, but in which workloads have addresses.
    `ahead`: the plan has the block as a spare one; `spare`: it is also not opened yet.
    """

    def __init__(self, cidr: str, pool: str, granted: bool, ahead: bool, opened: bool, automatic: bool) -> None:
        self.cidr = cidr
        self.pool = pool
        self.version, self.first, prefix = canonical_cidr(cidr)
        self.shift = BITS[self.version] - prefix
        self.size = 1 << self.shift
        self.granted = granted
        self.ahead = ahead
        self.spare = ahead and not opened
        self.automatic = automatic
        self.free: collections.OrderedDict[int, None] = collections.OrderedDict()


class Allocations:
    """All allocations of one node. `cooldown`, `sticky` and `now`, which is of a monotonic clock, are in seconds.

    An address is kept for its former workload for `sticky` seconds after its release.

    Parameters `pools` are names or CIDRs. Methods that have them raise NoSuchPool if one does not exist or is disabled,
    or if none of them is for workloads.
    """

    def __init__(self, cooldown: float = COOLDOWN, sticky: float = 0.0) -> None:
        self._cooldown = cooldown
        self._sticky = sticky
        self._now = 0.0
        self._held: dict[_Key, Allocation] = {}
        self._handles: dict[str, list[Allocation]] = {}
        # Addresses that were released and are free -> (number of the release, its time in monotonic seconds). The
        # address with the lowest number has been free for longest.
        self._released: dict[_Key, tuple[int, float]] = {}
        self._releases = 0
        self._former: FormerOwners[Allocation] = FormerOwners()
        self._opened: dict[str, None] = {}  # CIDRs of blocks opened as spare ones, in the order of opening
        # The granted blocks, and whether each is a spare one; None before the first call of `grant`.
        self._grants: t.Optional[tuple[tuple[Granted, bool], ...]] = None
        self._pools: t.Mapping[str, PoolUse] = {}
        # Addresses of tunnels, of the inventory's workloads and of the probe endpoint -> whose, in words.
        self._fixed: dict[_Key, str] = {}
        self._probes: frozenset[_Key] = frozenset()  # those of the probe endpoint
        self._reservations = {version: AddressRanges() for version in BITS}  # by IP version
        self._events: list[Event] = []
        # `_derive` computes the attributes below from those above. The other methods keep both consistent.
        self._blocks: dict[str, _Block] = {}  # by CIDR: granted blocks in their order, then others that had allocations
        self._at: dict[tuple[int, int, int], _Block] = {}  # granted blocks by (IP version, host bits, first address)
        self._shifts: tuple[tuple[int, int], ...] = ()
        self._cooling: collections.deque[tuple[int, float, _Key]] = collections.deque()
        self._kept: collections.deque[tuple[int, float, _Key]] = collections.deque()  # those whose cooldown is over

    # --- reading ---

    def by_handle(self, handle: str) -> t.Optional[Allocation]:
        held = self._handles.get(handle)
        return held[0] if held else None

    def of_handle(self, handle: str) -> tuple[Allocation, ...]:
        """Return all allocations of `handle`, at most one of each IP version unless another release assigned them."""
        return tuple(self._handles.get(handle, ()))

    def versions(self, pools: t.Sequence[str] = ()) -> tuple[int, ...]:
        """Return the IP versions of a workload that requests none, sorted: (4,), (6,) or (4, 6).

        They are those of `pools` if it is not empty, else those of this node's blocks that take part in the automatic
        choice, or (4,) if there is none.
        """
        if pools:
            found = {self._version_of(name) for name in self._qualified(pools)}
        else:
            found = {block.version for block in self._blocks.values() if block.granted and block.automatic}
        return tuple(sorted(found)) or (4,)

    def of_version(self, pools: t.Sequence[str], version: int) -> list[str]:
        """Return the names of the `pools` that are of IP version `version` and for workloads; [] without `pools`."""
        return [name for name in self._qualified(pools) if self._version_of(name) == version] if pools else []

    def _version_of(self, pool: str) -> int:
        cidrs = [self._pools[pool].cidr] if pool in self._pools else []
        cidrs += [block.cidr for block in self._blocks.values() if block.pool == pool]
        return 6 if any(family_of(cidr) == 6 for cidr in cidrs) else 4

    def by_address(self, address: str) -> t.Optional[Allocation]:
        """Return the allocation of an address, None if it is not allocated or the text is not an address."""
        try:
            return self._held.get(canonical_address(address))
        except ValueError:
            return None

    def all(self) -> list[Allocation]:
        """Return all allocations in order of their addresses, IPv4 first."""
        return [self._held[key] for key in sorted(self._held)]

    @property
    def opened(self) -> tuple[str, ...]:
        """The CIDRs of the opened blocks that the plan still grants as spare ones, in the order of opening.

        Before the first call of `grant` these are all opened blocks, and all blocks in which addresses are allocated.
        """
        if self._grants is None:
            # Which blocks are spare is not known yet, so all blocks that may be opened spare ones are returned.
            return tuple(dict.fromkeys([*self._opened, *(held.block for held in self._held.values())]))
        ahead = {block.cidr for block in self._blocks.values() if block.ahead}
        return tuple(cidr for cidr in self._opened if cidr in ahead)

    def usage(self, now: float) -> list[Usage]:
        """Return the usage of every block in the order of `grant`, then of blocks in use that it no longer has."""
        self._tick(now)
        in_use = collections.Counter(held.block for held in self._held.values())
        for key in self._fixed:
            block = self._block_of(key)
            if block is not None and key not in self._held:
                in_use[block.cidr] += 1
        cooling: collections.Counter[str] = collections.Counter()
        for number, at, key in (*self._cooling, *self._kept):
            block = self._block_of(key)
            if block is not None and self._released.get(key) == (number, at):
                cooling[block.cidr] += 1
        return [
            Usage(
                block.cidr,
                block.pool,
                block.size,
                in_use[block.cidr],
                self._reservations[block.version].count(block.first, block.first + block.size),
                len(block.free),
                block.spare,
                cooling[block.cidr],
            )
            for block in self._blocks.values()
            if block.granted or in_use[block.cidr]
        ]

    # --- grants of the plan ---

    def grant(
        self,
        blocks: t.Sequence[Granted],
        spares: t.Sequence[Granted],
        reserved: t.Mapping[str, str],
        reservations: t.Iterable[str] = (),
        pools: t.Optional[t.Mapping[str, PoolUse]] = None,
        probes: t.Optional[t.Mapping[str, str]] = None,
    ) -> list[str]:
        """Replace the granted blocks, and return sentences for people about allocations that contradict the new grant.

        An allocation, which stays, contradicts it if its block is no longer granted, or if its address is in `reserved`
        or `probes`. `reserved` maps an address of a tunnel or of the inventory to words for its owner ("this node's
        ipip tunnel"), `probes` a pool's name to the address of the node's probe endpoint in it. `reservations` are
        CIDRs. `pools` maps a pool's name to its settings. A pool that is missing in it takes part in the automatic
        choice with PoolUse's defaults, but requests for it are refused unless the mapping is empty. Spare blocks with
        allocated addresses become open, with an event for each. Raise ValueError, with nothing changed, if an address
        or block in another parameter is none, or a CIDR has host bits.
        """
        fixed = {
            canonical_address(address): f"this node's probe endpoint in pool {pool}"
            for pool, address in (probes or {}).items()
        }
        of_probes = frozenset(fixed)
        fixed.update((canonical_address(address), whose) for address, whose in reserved.items())
        cidrs = tuple(reservations)
        ranges = {version: AddressRanges(cidrs, version) for version in BITS}
        for granted in (*blocks, *spares):
            canonical_cidr(granted.cidr)
        self._grants = (*((block, False) for block in blocks), *((block, True) for block in spares))
        self._fixed, self._reservations, self._pools = fixed, ranges, dict(pools or {})
        self._probes = of_probes
        self._derive()
        in_use = {held.block for held in self._held.values()}
        for block in self._blocks.values():
            if block.cidr in in_use:
                self._open(block)
        return [*self._withdrawn(), *self._disputed()]

    def _withdrawn(self) -> t.Iterator[str]:
        users: dict[str, list[str]] = {cidr: [] for cidr, block in self._blocks.items() if not block.granted}
        for held in self._held.values():
            if held.block in users:
                users[held.block].append(f"{held.address} by {held.handle}")
        for cidr, used in users.items():
            yield (
                f"block {cidr} of pool {self._blocks[cidr].pool} is not this node's any more, but workloads have "
                f"addresses of it: {names(used)}. They keep them. Delete these workloads, or bring back the lockfile "
                "that grants the block to this node, then run site.yml."
            )

    def _disputed(self) -> t.Iterator[str]:
        for key, whose in self._fixed.items():
            held = self._held.get(key)
            if held is not None:
                planned = f"{held.address} is planned for {whose}, but {held.handle} has it"
                if key in self._probes:
                    yield f"{planned}, which stays so. Run site.yml, which plans another address for the endpoint."
                else:
                    yield (
                        f"{planned}: only one can be reached. Delete that workload, or plan another address, then run "
                        "site.yml."
                    )

    # --- requests of workloads ---

    def assign(
        self,
        handle: str,
        attributes: t.Mapping[str, str],
        now: float,
        *,
        address: t.Optional[str] = None,
        pools: t.Sequence[str] = (),
        version: int = 4,
        resting: bool = False,
        avoid: t.Container[str] = (),
    ) -> Allocation:
        """Assign an address to `handle` and return it; return its present one if it has one of that IP version.

        The present one keeps its attributes, and `pools` are not looked at then. With `address`, only this address will
        do; its IP version replaces `version`. Without it, an address that is kept for this workload is chosen, unless
        `avoid` has it. Without `pools`, the enabled pools for workloads that assign
        automatically take part. Open blocks are used before spare ones, in the order in which `grant` got them. Of
        spare blocks, one of the first pool is opened, in the order of `pools` or else of names. With `resting`, the
        address of the earliest release is chosen if all that is left is in its cooldown. The assignment, and before it
        the opening of a spare block, are recorded as events.

        On an error no allocation changes. Raise HandleTaken if `handle` has another address of the version of
        `address`, AddressTaken if `address` is allocated or reserved for a tunnel, an inventory workload or the probe
        endpoint, NotInBlocks if it is no address or lies in no granted block (of `pools`), and NoAddress if no address
        is left to choose. Without `pools`, NoSuchPool is about the pool of `address`.
        """
        self._tick(now)
        wanted = None if address is None else self._parse(address)
        if wanted is not None:
            version = wanted[0]
        for held in self._handles.get(handle, ()):
            if family_of(held.address) == version:
                if wanted is None or self._held.get(wanted) is held:
                    return held
                raise HandleTaken(
                    f"{handle} has {held.address} already, so it cannot have {format_address(*wanted)}. "
                    "Delete it first, or use another name."
                )
        names_of_pools = self._qualified(pools) if pools else None
        if wanted is None:
            block, value = self._kept_for(handle, attributes, version, names_of_pools, avoid) or self._choose(
                version, names_of_pools, resting
            )
        else:
            block, value = self._claim(wanted, names_of_pools), wanted[1]
        if block.spare:
            self._open(block)
        key = block.version, value
        allocation = Allocation(format_address(*key), handle, dict(attributes), block.pool, block.cidr)
        self._events.append(Assigned(allocation, self._released.get(key), self._former.get(key)))
        block.free.pop(value, None)
        self._hold(key, allocation)
        return allocation

    def release(
        self, handle: str, now: float, keep: t.Collection[Allocation] = (), *, returns: bool = True
    ) -> list[Allocation]:
        """Release all addresses of `handle` except those in `keep`, and return their allocations.

        Their cooldown begins at `now`. They are kept for the workload if it `returns`. Each release is recorded as an
        event, which does not say that they are not kept: a replay keeps them.
        """
        self._tick(now)
        released = [allocation for allocation in self._handles.get(handle, ()) if allocation not in keep]
        for allocation in released:
            key = canonical_address(allocation.address)
            self._free(key, now)
            if not returns:
                self._former.forget(key)
            number, at = self._released[key]
            self._cooling.append((number, at, key))
            self._events.append(Released(allocation.address, at, allocation))
        self._tick(now)
        return released

    def pass_on(self, held: Allocation, handle: str, attributes: t.Mapping[str, str], now: float) -> Allocation:
        """Give an allocation to another handle, without a cooldown in between, and return the new one.

        A release and an assignment are recorded as events. `handle` must have no address of its IP version. Raise
        ValueError if `held` is no allocation of this object.
        """
        key = canonical_address(held.address)
        if self._held.get(key) is not held:
            raise ValueError(f"{held.address} is not allocated so")
        self._tick(now)
        self._free(key, now)
        self._events.append(Released(held.address, now, held))
        allocation = held._replace(handle=handle, attributes=dict(attributes))
        self._events.append(Assigned(allocation, self._released.get(key)))
        self._hold(key, allocation)
        return allocation

    # --- events ---

    def take_events(self) -> list[Event]:
        """Return the events since the last call, oldest first, and clear them."""
        events, self._events = self._events, []
        return events

    def replay(self, events: t.Iterable[Event]) -> None:
        """Apply stored events, oldest first, without recording them again. Events not taken yet are dropped.

        Raise Contradiction if an event assigns an address that is in use, or if its address is invalid, and ValueError
        if a block is not a CIDR, or has host bits. After an error the object must not be used.
        """
        for event in events:
            if isinstance(event, Assigned):
                key = self._key(event.allocation.address)
                if key in self._held:
                    raise Contradiction(f"{event.allocation.address} is given to two")
                self._hold(key, event.allocation)
            elif isinstance(event, Released):
                self._free(self._key(event.address), event.at)
            else:
                self._opened[event.cidr] = None
        self._events.clear()
        self._derive()

    def undo(self, events: t.Sequence[Event]) -> None:
        """Revert the last events. `events` must be exactly these, oldest first, as `take_events` returned them."""
        for event in reversed(events):
            if isinstance(event, Assigned):
                key = canonical_address(event.allocation.address)
                self._drop(key)
                if event.rested is not None:
                    self._released[key] = event.rested
                if event.kept_for is not None:
                    self._former.remember(key, event.kept_for)
            elif isinstance(event, Opened):
                del self._opened[event.cidr]
            else:
                key = canonical_address(event.address)
                del self._released[key]
                self._former.forget(key)
                allocation = t.cast(Allocation, event.allocation)
                self._held[key] = allocation
                self._handles.setdefault(allocation.handle, []).append(allocation)
        self._derive()

    def snapshot(self) -> list[Event]:
        """Return a list of events that leads to the present state under the present grant.

        Releases are left out if their cooldown is over and their address lies in no granted block. The former
        allocation of an address that is kept is assigned before it is released.
        """
        resting: list[Event] = []
        for key, (dummy, at) in sorted(self._released.items(), key=lambda item: item[1][0]):
            if self._grants is None or at + self._cooldown > self._now or self._block_of(key) is not None:
                former = self._former.get(key)
                if former is not None and at + self._sticky > self._now:
                    resting.append(Assigned(former))
                resting.append(Released(format_address(*key), at))
        return [*map(Opened, self._opened), *resting, *map(Assigned, self.all())]

    # --- choice of an address ---

    def _choose(self, version: int, pools: t.Optional[t.Sequence[str]], resting: bool) -> tuple[_Block, int]:
        """Return the block to take from, and its longest free address as a number.

        It is the first open block with a free address, else the spare block with one that `_rank` puts first, else the
        block of the address that has been kept longest for another workload. With `resting`, it is then the block of
        the address that rests longest. `pools` None means those that assign automatically.
        """
        candidates = [
            block
            for block in self._blocks.values()
            if block.granted
            and block.version == version
            and (block.automatic if pools is None else block.pool in pools)
        ]
        spare: t.Optional[_Block] = None
        for block in candidates:
            if block.free:
                if not block.spare:
                    return block, next(iter(block.free))
                if spare is None or self._rank(block, pools) < self._rank(spare, pools):
                    spare = block
        if spare is None:
            for block, value, dummy in self._resting(candidates, self._kept):
                return block, value
        if spare is None and resting:
            for block, value, dummy in self._resting(candidates, self._cooling):
                return block, value
        if spare is None:
            raise NoAddress(self._exhausted(candidates, pools, version))
        return spare, next(iter(spare.free))

    def _kept_for(
        self,
        handle: str,
        attributes: t.Mapping[str, str],
        version: int,
        pools: t.Optional[t.Sequence[str]],
        avoid: t.Container[str],
    ) -> t.Optional[tuple[_Block, int]]:
        """Return the block and the number of the address that is kept for a workload and that it may have, or None."""
        if not len(self._former):
            return None

        def recency(key: _Key) -> t.Optional[int]:
            number, at = self._released.get(key, (0, -math.inf))
            return number if key[0] == version and at + self._sticky > self._now and self._may_choose(key) else None

        for key in self._former.addresses_of(handle, attributes, recency):
            block = self._block_of(key)
            if block is None or format_address(*key) in avoid:
                continue
            if block.automatic if pools is None else block.pool in pools:
                return block, key[1]
        return None

    @staticmethod
    def _rank(block: _Block, pools: t.Optional[t.Sequence[str]]) -> tuple[int, str]:
        """Return a sort key of spare blocks: by the order of `pools`, or by the pools' names if `pools` is None."""
        return (0, block.pool) if pools is None else (pools.index(block.pool), "")

    def _exhausted(self, candidates: t.Sequence[_Block], pools: t.Optional[t.Sequence[str]], version: int) -> str:
        if not candidates and pools is None:
            return (
                f"this node has no {'IPv6 ' if version == 6 else ''}block from which addresses are chosen."
                " Run site.yml, which grants it spare blocks of the pools that select it (calico_ip_pools,"
                " calico_spare_blocks)."
            )
        if not candidates:
            return (
                f"this node has no block of {_of_pools(pools or ())}. Ask for another pool, or run site.yml, which "
                "grants spare blocks of the pools that select a node (calico_ip_pools, calico_spare_blocks)."
            )
        mine = {block.cidr for block in candidates}
        size = sum(block.size for block in candidates)
        resting = [at + self._cooldown - self._now for dummy, value, at in self._resting(candidates, self._cooling)]
        some, wait = "", ""
        if resting:
            some = f", {len(resting)} of them released less than {self._cooldown:g} seconds ago"
            wait = f"Try again in {math.ceil(resting[0])} s. Else delete"
        which = _of_pools(dict.fromkeys(block.pool for block in candidates))
        blocks = (
            f"all {len(candidates)} blocks of {which} on this node are"
            if len(mine) > 1
            else (f"the only block of {which} on this node is")
        )
        return (
            f"{blocks} full ({size} address{'es' if size > 1 else ''}{some}). {wait or 'Delete'} workloads that are "
            "not needed, or run site.yml, which grants this node more blocks (calico_spare_blocks)."
        )

    def _resting(
        self, candidates: t.Iterable[_Block], queue: t.Iterable[tuple[int, float, _Key]]
    ) -> t.Iterator[tuple[_Block, int, float]]:
        """Yield (block, address, time of release) for each address that rests in these blocks, the earliest first.

        `queue` is one of `_cooling` and `_kept`.
        """
        mine = {block.cidr for block in candidates}
        for number, at, key in queue:
            block = self._block_of(key)
            still = self._released.get(key) == (number, at) and self._may_choose(key)
            if still and block is not None and block.cidr in mine:
                yield block, key[1], at

    def _claim(self, key: _Key, pools: t.Optional[t.Sequence[str]]) -> _Block:
        """Return the block of a requested address, or raise the errors of `assign` about it."""
        address = format_address(*key)
        held = self._held.get(key)
        whose = self._fixed.get(key) if held is None else held.handle
        if whose is not None:
            remedy = "Ask for another address, or for none to get a free one"
            if held is None and key in self._probes:
                remedy += "; or add the pool to calico_unprobed_pools and run site.yml"
            raise AddressTaken(f"{address} belongs to {whose}. {remedy}.")
        block = self._block_of(key)
        if block is None or (pools is not None and block.pool not in pools):
            where = "this node's blocks" if pools is None else f"this node's blocks of {_of_pools(pools)}"
            mine = [own.cidr for own in self._blocks.values() if own.granted and (pools is None or own.pool in pools)]
            raise NotInBlocks(
                f"{address} lies in none of {where} ({names(mine) if mine else 'there are none'}). A node gives only "
                "addresses of its own blocks. Ask for one of these, or for none to get a free one."
            )
        if pools is None:
            self._qualified((block.pool,))
        return block

    def _qualified(self, asked: t.Sequence[str]) -> list[str]:
        """Return the names of the `asked` pools (names or CIDRs) that are for workloads; at least one.

        Without any settings of pools, those of this node's blocks exist.
        """
        by_cidr = {_range(use.cidr): name for name, use in self._pools.items() if use.cidr}
        known = {name for name, use in self._pools.items() if not use.disabled}
        if not self._pools:
            known = {block.pool for block in self._blocks.values()}
        found = [by_cidr.get(_range(name), name) for name in asked]
        for name, pool in zip(asked, found):
            if pool not in known:
                raise NoSuchPool(
                    f"pool {name} does not exist or is disabled. Ask for one of these: {names(known) or '(none)'}."
                )
        use = PoolUse()
        fit = [pool for pool in found if WORKLOAD in self._pools.get(pool, use).allowed_uses]
        if not fit:
            raise NoSuchPool(
                f"{_of_pools(found)} gives no addresses to workloads: its allowedUses lack {WORKLOAD}. Ask for another "
                "pool, or add it to allowedUses of the pool in calico_ip_pools and run site.yml."
            )
        return fit

    @staticmethod
    def _parse(address: str) -> _Key:
        try:
            return canonical_address(address)
        except ValueError:
            raise NotInBlocks(
                f"{address!r} is not an IP address. Ask for one like 10.244.3.7, or for none to get a free one."
            ) from None

    # --- internal state ---

    def _key(self, address: str) -> _Key:
        try:
            return canonical_address(address)
        except ValueError as error:
            raise Contradiction(str(error)) from error

    def _open(self, block: _Block) -> None:
        """Mark the block as opened, with an event if it is a spare block that was not opened before."""
        if block.ahead and block.cidr not in self._opened:
            self._opened[block.cidr] = None
            self._events.append(Opened(block.cidr))
        block.spare = False

    def _hold(self, key: _Key, allocation: Allocation) -> None:
        self._released.pop(key, None)
        self._former.forget(key)
        self._held[key] = allocation
        self._handles.setdefault(allocation.handle, []).append(allocation)

    def _drop(self, key: _Key) -> None:
        allocation = self._held.pop(key)
        left = self._handles[allocation.handle]
        left.remove(allocation)
        if not left:
            del self._handles[allocation.handle]

    def _free(self, key: _Key, at: float) -> None:
        self._former.forget(key)
        if key in self._held:
            if self._sticky:
                self._former.remember(key, self._held[key])
            self._drop(key)
        self._releases += 1
        self._released[key] = self._releases, at

    def _tick(self, now: float) -> None:
        """Set the clock to `now`, and make addresses available again whose cooldown is over and that are not kept."""
        self._now = now
        cooling, kept = self._cooling, self._kept
        while cooling and cooling[0][1] + self._cooldown <= now:
            number, at, key = cooling.popleft()
            if self._released.get(key) == (number, at):  # else it was assigned since then
                if self._former.get(key) is not None and at + self._sticky > now:
                    kept.append((number, at, key))
                else:
                    self._former.forget(key)
                    self._offer(key)
        while kept and kept[0][1] + self._sticky <= now:
            number, at, key = kept.popleft()
            if self._released.get(key) == (number, at):
                self._former.forget(key)
                self._offer(key)

    def _offer(self, key: _Key) -> None:
        """Let an address take part in the automatic choice."""
        block = self._block_of(key)
        if block is not None and self._may_choose(key):
            block.free[key[1]] = None

    def _may_choose(self, key: _Key) -> bool:
        return key not in self._fixed and key[1] not in self._reservations[key[0]]

    def _block_of(self, key: _Key) -> t.Optional[_Block]:
        version, value = key
        for family, shift in self._shifts:
            if family == version:
                block = self._at.get((family, shift, value >> shift << shift))
                if block is not None:
                    return block
        return None

    def _derive(self) -> None:
        """Rebuild the blocks and their free and cooling addresses from the allocations, the releases and the grant.

        An allocation in a granted block of another CIDR or pool than it names gets these.
        """
        self._blocks, self._at = {}, {}
        default = PoolUse()
        for granted, is_spare in self._grants or ():
            if granted.cidr in self._blocks:
                continue
            use = self._pools.get(granted.pool, default)
            automatic = not use.disabled and use.assignment_mode == AUTOMATIC and WORKLOAD in use.allowed_uses
            block = _Block(granted.cidr, granted.pool, True, is_spare, granted.cidr in self._opened, automatic)
            self._blocks[block.cidr] = self._at[block.version, block.shift, block.first] = block
        self._shifts = tuple(dict.fromkeys((version, shift) for version, shift, dummy in self._at))
        for key, held in sorted(self._held.items()):
            home = self._block_of(key)
            if home is None:
                if held.block not in self._blocks:
                    self._blocks[held.block] = _Block(held.block, held.pool, False, False, False, False)
                continue
            home.spare = False
            if (held.block, held.pool) != (home.cidr, home.pool):  # the block size or the pool's name changed
                self._rehome(key, held, held._replace(block=home.cidr, pool=home.pool))
        resting = sorted((number, at, key) for key, (number, at) in self._released.items())
        for block in self._at.values():
            for value in range(block.first, block.first + block.size):
                key = block.version, value
                if key not in self._held and key not in self._released and self._may_choose(key):
                    block.free[value] = None
        self._cooling, self._kept = collections.deque(resting), collections.deque()
        self._tick(self._now)

    def _rehome(self, key: _Key, old: Allocation, new: Allocation) -> None:
        self._held[key] = new
        self._handles[old.handle] = [new if held is old else held for held in self._handles[old.handle]]


def _range(pool: str) -> t.Optional[Cidr]:
    """Return the range that a pool is named by, without bits beyond the prefix, as Calico reads it; None for a name."""
    found = parse_cidr(pool)
    return None if found is None else found._replace(number=found.network, length_written=found.length)


def _of_pools(pools: t.Iterable[str]) -> str:
    found = list(pools)
    return f"pool {found[0]}" if len(found) == 1 else f"pools {names(found)}"
