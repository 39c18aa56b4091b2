# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of one node's blocks: who has which, and which one is next. In memory; node/ipam/local_ipam.py keeps them.

The rules are those of Calico's IPAM (libcalico-go, lib/ipam/ipam_block.go) with strict affinity: a node takes addresses
from blocks granted to it and never from another's. A block gives the address first that has been free for longest, its
first one included. A released address rests for a cooldown, because neighbours may remember it. Reservations and the
cooldown bind the automatic choice; one who asks for an address by name gets it, unless somebody has it.

When all open blocks are full the next spare one is opened. What happens is a row of events (Opened, Assigned,
Released): they can be written down and replayed, or undone from the last one back.
"""

from __future__ import annotations

import bisect
import collections
import math
import typing as t

from ..base.addresses import canonical_address, canonical_cidr, family_of, format_address
from .errors import names

#: Seconds that a released address rests before it is given to somebody who did not ask for it.
COOLDOWN = 30.0

WORKLOAD = "Workload"
AUTOMATIC = "Automatic"

_BITS = {4: 32, 6: 128}

#: (IP version, address as a number).
_Key = tuple[int, int]


class Allocation(t.NamedTuple):
    """`attributes` are {name: text} of its owner, for people; `block` is a CIDR, `pool` a name."""

    address: str
    handle: str
    attributes: t.Mapping[str, str]
    pool: str
    block: str


class Opened(t.NamedTuple):
    """A spare block from which addresses are taken from now on."""

    cidr: str


class Assigned(t.NamedTuple):
    allocation: Allocation
    rested: t.Optional[tuple[int, float]] = None  # how it was released before: (number of that release, when)


class Released(t.NamedTuple):
    """`at` is in seconds of a clock that never goes back. `allocation` None: it was free already (see `snapshot`)."""

    address: str
    at: float
    allocation: t.Optional[Allocation] = None


Event = t.Union[Opened, Assigned, Released]


class Usage(t.NamedTuple):
    """Addresses of one block. `in_use` counts those of workloads, tunnels and the inventory; `reserved` those in
    reservations (either may hold some of the other's); `cooling` those that rest; `free` those that are none of it."""

    cidr: str
    pool: str
    size: int
    in_use: int
    reserved: int
    free: int
    spare: bool  # granted, and not opened yet
    cooling: int = 0


class PoolUse(t.NamedTuple):
    """What a pool's resource says on taking addresses from it; `assignment_mode` Manual: only who asks for it."""

    cidr: str = ""
    disabled: bool = False
    assignment_mode: str = AUTOMATIC
    allowed_uses: tuple[str, ...] = (WORKLOAD, "Tunnel")


class Granted(t.Protocol):
    """A block of the fleet's plan."""

    @property
    def cidr(self) -> str: ...

    @property
    def pool(self) -> str: ...


class AllocationError(Exception):
    """Why an address cannot be had: a text for people, and a `code` for programs."""

    code = "invalid_params"


class NoAddress(AllocationError):
    """There is none left. Later there may be."""

    code = "no_address"


class AddressTaken(AllocationError):
    """Somebody else has the address that was asked for."""

    code = "conflict"


class HandleTaken(AllocationError):
    """The handle has another address than the one that was asked for."""

    code = "conflict"


class NotInBlocks(AllocationError):
    """The address that was asked for is not this node's to give."""


class NoSuchPool(AllocationError):
    """A pool that was asked for does not exist or is not for workloads."""


class Contradiction(ValueError):
    """An event that cannot have happened after those before it."""


class _Block:
    """`free`: addresses for the automatic choice, the longest free first. `automatic`: whether its pool wants that.
    `ahead`: a spare block by the plan, `spare`: and not opened yet."""

    def __init__(self, cidr: str, pool: str, granted: bool, ahead: bool, opened: bool, automatic: bool) -> None:
        self.cidr = cidr
        self.pool = pool
        self.version, self.first, prefix = canonical_cidr(cidr)
        self.shift = _BITS[self.version] - prefix
        self.size = 1 << self.shift
        self.granted = granted
        self.ahead = ahead
        self.spare = ahead and not opened
        self.automatic = automatic
        self.free: collections.OrderedDict[int, None] = collections.OrderedDict()


class Allocations:
    """`cooldown` is in seconds. Methods that take `now` want it from a clock that never goes back."""

    def __init__(self, cooldown: float = COOLDOWN) -> None:
        self._cooldown = cooldown
        self._now = 0.0
        self._held: dict[_Key, Allocation] = {}
        self._handles: dict[str, list[Allocation]] = {}
        # Addresses that somebody had and nobody has now: (number of the release, when). The lower the longer free.
        self._released: dict[_Key, tuple[int, float]] = {}
        self._releases = 0
        self._opened: dict[str, None] = {}  # CIDRs, in order
        self._grants: t.Optional[tuple[tuple[Granted, bool], ...]] = (
            None  # blocks and whether spare; None: not told yet
        )
        self._pools: t.Mapping[str, PoolUse] = {}
        self._fixed: dict[_Key, str] = {}  # addresses of tunnels and of the inventory's workloads -> by whom
        self._reservations = _Ranges(())
        self._events: list[Event] = []
        # What follows is derived from all of the above by `_derive`, and kept in step with it.
        self._blocks: dict[str, _Block] = {}  # in order of granting
        self._at: dict[tuple[int, int, int], _Block] = {}  # (IP version, bits behind the prefix, first address)
        self._shifts: tuple[tuple[int, int], ...] = ()
        self._cooling: collections.deque[tuple[int, float, _Key]] = collections.deque()

    # --- what is there ---

    def by_handle(self, handle: str) -> t.Optional[Allocation]:
        """The first one, if there are several."""
        held = self._handles.get(handle)
        return held[0] if held else None

    def of_handle(self, handle: str) -> tuple[Allocation, ...]:
        """All that it has: one of each IP version at most, unless they were given by another release."""
        return tuple(self._handles.get(handle, ()))

    def versions(self, pools: t.Sequence[str] = ()) -> tuple[int, ...]:
        """The IP versions that a workload gets which asks for none: those of the `pools`, names or CIDRs, that it asks
        for, else those of which this node has blocks to choose from. Raises NoSuchPool."""
        if pools:
            found = {self._version_of(name) for name in self._qualified(pools)}
        else:
            found = {block.version for block in self._blocks.values() if block.granted and block.automatic}
        return tuple(sorted(found)) or (4,)

    def of_version(self, pools: t.Sequence[str], version: int) -> list[str]:
        """The names of those of these pools, names or CIDRs, that are of an IP version. Raises NoSuchPool."""
        return [name for name in self._qualified(pools) if self._version_of(name) == version] if pools else []

    def _version_of(self, pool: str) -> int:
        cidrs = [self._pools[pool].cidr] if pool in self._pools else []
        cidrs += [block.cidr for block in self._blocks.values() if block.pool == pool]
        return 6 if any(family_of(cidr) == 6 for cidr in cidrs) else 4

    def by_address(self, address: str) -> t.Optional[Allocation]:
        try:
            return self._held.get(canonical_address(address))
        except ValueError:
            return None

    def all(self) -> list[Allocation]:
        """In the order of their addresses."""
        return [self._held[key] for key in sorted(self._held)]

    @property
    def opened(self) -> tuple[str, ...]:
        """Spare blocks (CIDRs) from which addresses are taken, in the order in which they were opened."""
        if self._grants is None:
            # Nobody said yet which blocks are spare: all that may have been.
            return tuple(dict.fromkeys([*self._opened, *(held.block for held in self._held.values())]))
        ahead = {block.cidr for block in self._blocks.values() if block.ahead}
        return tuple(cidr for cidr in self._opened if cidr in ahead)

    def usage(self, now: float) -> list[Usage]:
        """Of every block, in the order in which they were granted; blocks that were taken away come last."""
        self._tick(now)
        in_use = collections.Counter(held.block for held in self._held.values())
        for key in self._fixed:
            block = self._block_of(key)
            if block is not None and key not in self._held:
                in_use[block.cidr] += 1
        cooling: collections.Counter[str] = collections.Counter()
        for number, at, key in self._cooling:
            block = self._block_of(key)
            if block is not None and self._released.get(key) == (number, at):
                cooling[block.cidr] += 1
        return [
            Usage(
                block.cidr,
                block.pool,
                block.size,
                in_use[block.cidr],
                self._reservations.count(block.version, block.first, block.first + block.size - 1),
                len(block.free),
                block.spare,
                cooling[block.cidr],
            )
            for block in self._blocks.values()
            if block.granted or in_use[block.cidr]
        ]

    # --- what the plan says ---

    def grant(
        self,
        blocks: t.Sequence[Granted],
        spares: t.Sequence[Granted],
        reserved: t.Mapping[str, str],
        reservations: t.Iterable[str] = (),
        pools: t.Optional[t.Mapping[str, PoolUse]] = None,
    ) -> list[str]:
        """Takes over a new grant in place of the last one. Returns what contradicts it, in sentences for people.

        `reserved` is {address: whose it is, "this node's ipip tunnel"}; `reservations` are CIDRs, `pools` {name: use};
        a pool that is not in it has PoolUse's defaults. Nothing that is in use is dropped, whatever the grant says.
        Raises ValueError for what is no address or CIDR.
        """
        fixed = {canonical_address(address): whose for address, whose in reserved.items()}
        ranges = _Ranges(reservations)
        for granted in (*blocks, *spares):
            canonical_cidr(granted.cidr)
        self._grants = (*((block, False) for block in blocks), *((block, True) for block in spares))
        self._fixed, self._reservations, self._pools = fixed, ranges, dict(pools or {})
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
                yield (
                    f"{held.address} is planned for {whose}, but {held.handle} has it: only one can be reached. "
                    "Delete that workload, or plan another address, then run site.yml."
                )

    # --- what workloads want ---

    def assign(
        self,
        handle: str,
        attributes: t.Mapping[str, str],
        now: float,
        *,
        address: t.Optional[str] = None,
        pools: t.Sequence[str] = (),
        version: int = 4,
    ) -> Allocation:
        """An address for `handle`; the one that it has, if it has one of that IP version.

        `address`: this one and no other. `pools`: names or CIDRs of pools, the first one that has an address left;
        empty: every pool that gives addresses automatically. Raises AllocationError's kinds; nothing has changed then.
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
            block, value = self._choose(version, names_of_pools)
        else:
            block, value = self._claim(wanted, names_of_pools), wanted[1]
        if block.spare:
            self._open(block)
        key = block.version, value
        allocation = Allocation(format_address(*key), handle, dict(attributes), block.pool, block.cidr)
        self._events.append(Assigned(allocation, self._released.get(key)))
        block.free.pop(value, None)
        self._hold(key, allocation)
        return allocation

    def release(self, handle: str, now: float) -> list[Allocation]:
        """Takes back what `handle` has, and returns it: nothing, if it had nothing."""
        self._tick(now)
        released = list(self._handles.get(handle, ()))
        for allocation in released:
            key = canonical_address(allocation.address)
            self._free(key, now)
            number, at = self._released[key]
            self._cooling.append((number, at, key))
            self._events.append(Released(allocation.address, at, allocation))
        self._tick(now)
        return released

    # --- events ---

    def take_events(self) -> list[Event]:
        """What happened since this was asked last, in order."""
        events, self._events = self._events, []
        return events

    def replay(self, events: t.Iterable[Event]) -> None:
        """Makes happen what happened before. Raises Contradiction; this value is of no use then."""
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
        """Makes unhappen the last events: `events` are the last ones that happened, in their order."""
        for event in reversed(events):
            if isinstance(event, Assigned):
                key = canonical_address(event.allocation.address)
                self._drop(key)
                if event.rested is not None:
                    self._released[key] = event.rested
            elif isinstance(event, Opened):
                del self._opened[event.cidr]
            else:
                key = canonical_address(event.address)
                del self._released[key]
                allocation = t.cast(Allocation, event.allocation)
                self._held[key] = allocation
                self._handles.setdefault(allocation.handle, []).append(allocation)
        self._derive()

    def snapshot(self) -> list[Event]:
        """The fewest events that lead to what is there now, seen by the present grant."""
        resting = [
            Released(format_address(*key), at)
            for key, (dummy, at) in sorted(self._released.items(), key=lambda item: item[1][0])
            if self._grants is None or at + self._cooldown > self._now or self._block_of(key) is not None
        ]
        return [*map(Opened, self._opened), *resting, *map(Assigned, self.all())]

    # --- choosing ---

    def _choose(self, version: int, pools: t.Optional[t.Sequence[str]]) -> tuple[_Block, int]:
        """The block of the longest free address: the first open one that has any, else the first spare one."""
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
            raise NoAddress(self._exhausted(candidates, pools, version))
        return spare, next(iter(spare.free))

    @staticmethod
    def _rank(block: _Block, pools: t.Optional[t.Sequence[str]]) -> tuple[int, str]:
        """Pools in the order asked for, else in that of their names."""
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
        resting = []
        for number, at, key in self._cooling:
            block = self._block_of(key)
            still = self._released.get(key) == (number, at) and self._may_choose(key)
            if still and block is not None and block.cidr in mine:
                resting.append(at + self._cooldown - self._now)
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

    def _claim(self, key: _Key, pools: t.Optional[t.Sequence[str]]) -> _Block:
        """The block of an address that was asked for by name."""
        address = format_address(*key)
        held = self._held.get(key)
        whose = self._fixed.get(key) if held is None else held.handle
        if whose is not None:
            raise AddressTaken(f"{address} belongs to {whose}. Ask for another address, or for none to get a free one.")
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
        """The names of pools that were asked for by name or CIDR, without those that are not for workloads."""
        by_cidr = {use.cidr: name for name, use in self._pools.items()}
        known = {name for name, use in self._pools.items() if not use.disabled}
        if not self._pools:
            known = {block.pool for block in self._blocks.values()}
        found = [by_cidr.get(name, name) for name in asked]
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

    # --- keeping the books ---

    def _key(self, address: str) -> _Key:
        try:
            return canonical_address(address)
        except ValueError as error:
            raise Contradiction(str(error)) from error

    def _open(self, block: _Block) -> None:
        """Takes note of it if the plan says that the block is spare, and nobody did before."""
        if block.ahead and block.cidr not in self._opened:
            self._opened[block.cidr] = None
            self._events.append(Opened(block.cidr))
        block.spare = False

    def _hold(self, key: _Key, allocation: Allocation) -> None:
        self._released.pop(key, None)
        self._held[key] = allocation
        self._handles.setdefault(allocation.handle, []).append(allocation)

    def _drop(self, key: _Key) -> None:
        allocation = self._held.pop(key)
        left = self._handles[allocation.handle]
        left.remove(allocation)
        if not left:
            del self._handles[allocation.handle]

    def _free(self, key: _Key, at: float) -> None:
        if key in self._held:
            self._drop(key)
        self._releases += 1
        self._released[key] = self._releases, at

    def _tick(self, now: float) -> None:
        """Addresses that have rested are free."""
        self._now = now
        cooling = self._cooling
        while cooling and cooling[0][1] + self._cooldown <= now:
            number, at, key = cooling.popleft()
            if self._released.get(key) == (number, at):  # else somebody asked for it by name meanwhile
                block = self._block_of(key)
                if block is not None and self._may_choose(key):
                    block.free[key[1]] = None

    def _may_choose(self, key: _Key) -> bool:
        return key not in self._fixed and not self._reservations.holds(*key)

    def _block_of(self, key: _Key) -> t.Optional[_Block]:
        """The granted block in which an address lies."""
        version, value = key
        for family, shift in self._shifts:
            if family == version:
                block = self._at.get((family, shift, value >> shift << shift))
                if block is not None:
                    return block
        return None

    def _derive(self) -> None:
        """Blocks and their queues, from who has what and from the grant."""
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
            if (held.block, held.pool) != (home.cidr, home.pool):  # blocks were cut anew, or the pool has a new name
                self._rehome(key, held, held._replace(block=home.cidr, pool=home.pool))
        resting = sorted((number, at, key) for key, (number, at) in self._released.items())
        for block in self._at.values():
            for value in range(block.first, block.first + block.size):
                key = block.version, value
                if key not in self._held and key not in self._released and self._may_choose(key):
                    block.free[value] = None
        self._cooling = collections.deque(resting)
        self._tick(self._now)

    def _rehome(self, key: _Key, old: Allocation, new: Allocation) -> None:
        self._held[key] = new
        self._handles[old.handle] = [new if held is old else held for held in self._handles[old.handle]]


class _Ranges:
    """Addresses that lie in any of some CIDRs."""

    def __init__(self, cidrs: t.Iterable[str]) -> None:
        self._firsts: dict[int, list[int]] = {4: [], 6: []}
        self._lasts: dict[int, list[int]] = {4: [], 6: []}
        for version, first, last in sorted(_bounds(cidr) for cidr in cidrs):
            firsts, lasts = self._firsts[version], self._lasts[version]
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(lasts[-1], last)
            else:
                firsts.append(first)
                lasts.append(last)

    def holds(self, version: int, value: int) -> bool:
        firsts = self._firsts[version]
        position = bisect.bisect_right(firsts, value) - 1
        return position >= 0 and value <= self._lasts[version][position]

    def count(self, version: int, first: int, last: int) -> int:
        """How many of the addresses from `first` to `last`."""
        return sum(
            max(0, min(last, high) - max(first, low) + 1)
            for low, high in zip(self._firsts[version], self._lasts[version])
        )


def _bounds(cidr: str) -> tuple[int, int, int]:
    version, first, prefix = canonical_cidr(cidr)
    return version, first, first + (1 << _BITS[version] - prefix) - 1


def _of_pools(pools: t.Iterable[str]) -> str:
    found = list(pools)
    return f"pool {found[0]}" if len(found) == 1 else f"pools {names(found)}"
