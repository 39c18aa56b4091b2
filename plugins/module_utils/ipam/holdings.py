# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner's working state: one PoolState per pool, one NodeHoldings per node, and the Ledger of both."""

from __future__ import annotations

import bisect
import collections
import typing as t

from ..base.addresses import BITS, AddressRanges, canonical_cidr, format_address
from .allocation_plan import QuarantinedBlock
from .block_walk import BlockSpace, FreeBlocks
from .errors import PlanError
from .inputs import WORKLOAD, NodeEntry, PoolRange, WorkloadKey

#: A block: the name of its pool, and its number in that pool.
Key = t.Tuple[str, int]


class PoolState:
    """A pool, the owners of its blocks, and the holders of its addresses.

    The constructor raises PlanError if the pool's CIDR and block size do not make blocks.
    """

    def __init__(self, pool: PoolRange) -> None:
        try:
            self.space = BlockSpace(pool.cidr, pool.block_size)
        except ValueError as error:
            raise PlanError(
                "calico_ip_pools",
                pool.name,
                f"has no valid cidr and blockSize: {error}.",
                "Correct them; blockSize is the prefix length of a block, from the pool's own up to 32 (IPv6: 128).",
            ) from error
        self.pool = pool
        self.name = pool.name
        self.free = FreeBlocks(self.space)
        self.owners: dict[int, str] = {}  # number of a granted or spare block -> the node that has it
        self.quarantined: dict[int, str] = {}  # number of a block in quarantine -> the node that had it
        self.holders: dict[int, str] = {}  # address -> its holder, in words
        self.selected: set[str] = set()  # names of the nodes that the pool selects
        self.reserved = AddressRanges()
        self._lowest: dict[int, int] = {}  # block -> the address at which the search for a free one goes on

    def allows(self, use: str) -> bool:
        return use in self.pool.allowed_uses

    @property
    def grants_on_its_own(self) -> bool:
        """Whether nodes get blocks of the pool without a workload or tunnel that needs them: enabled and automatic."""
        return self.pool.automatic and not self.pool.disabled

    def spare_target(self, spare_blocks: int) -> int:
        """Return the number of spare blocks that each selected node should have of this pool, enabled or not.

        It is 0 for a pool that is not for workloads or has manual assignment: spare blocks are opened for workloads
        only.
        """
        return spare_blocks if self.pool.automatic and self.allows(WORKLOAD) else 0

    @property
    def probed(self) -> bool:
        """Whether probe endpoints have addresses of the pool: it is for workloads, with blocks of several addresses.

        A disabled pool is still in use by the workloads that have its addresses. The only address of a block is left to
        a workload.
        """
        return self.allows(WORKLOAD) and self.space.size > 1

    def usable_by(self, node: str, use: str) -> bool:
        return not self.pool.disabled and node in self.selected and self.allows(use)

    def text(self, address: int) -> str:
        return format_address(self.space.version, address)

    def own(self, index: int, node: str) -> None:
        self.free.take(index)
        self.owners[index] = node

    def reserve(self, reservations: AddressRanges) -> None:
        """Store the reserved ranges, and exclude blocks that are reserved as a whole when a free block is chosen."""
        self.reserved = reservations
        for start, end in reservations:
            first = max(start - self.space.base + self.space.size - 1 >> self.space.shift, 0)
            behind = min(end - self.space.base >> self.space.shift, self.space.count)
            if first < behind:
                self.free.pass_over(first, behind)

    def lowest_free(self, index: int, avoid: t.Container[int]) -> t.Optional[int]:
        """Return the block's lowest address (a number) that is not in use, reserved or in `avoid`, or None.

        `avoid` must be the same in every call: the search goes on where the last one ended.
        """
        first = self.space.first_address(index)
        address = self._lowest.get(index, first)
        end = first + self.space.size
        while address < end and (address in self.holders or address in avoid or address in self.reserved):
            address += 1
        self._lowest[index] = address
        return address if address < end else None

    def highest_free(self, index: int, avoid: t.Container[int]) -> t.Optional[int]:
        """Return the block's highest address (a number) that is not in use, reserved or in `avoid`, or None."""
        first = self.space.first_address(index)
        for address in range(first + self.space.size - 1, first - 1, -1):
            if not (address in self.holders or address in avoid or address in self.reserved):
                return address
        return None


class NodeHoldings:
    """The blocks, in order of granting, and addresses (numbers) that a node has been granted so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open: list[Key] = []
        self.open_in: dict[str, list[int]] = {}  # pool -> numbers of open blocks
        self.spare: dict[Key, None] = {}
        self.spare_in: dict[str, collections.deque[int]] = {}
        #: pool -> the node's former spare blocks, which are in quarantine, lowest first. They come before
        #: free blocks when a block is chosen for the node.
        self.returning: dict[str, collections.deque[int]] = {}
        self.tunnels: dict[str, tuple[str, int]] = {}  # kind of tunnel -> (pool, address)
        self.workloads: dict[WorkloadKey, tuple[str, int]] = {}  # (name, IP version) -> (pool, address)
        self.probes: dict[str, int] = {}  # pool -> address of the probe endpoint
        self._freed: dict[str, frozenset[int]] = {}  # pool -> addresses that became free in this run
        self._last_resort: dict[str, collections.deque[int]] = {}  # pool -> addresses of _freed, lowest first
        self._full: dict[str, int] = {}  # pool -> number of blocks at the beginning of open_in[pool] that are full

    def add_open(self, pool: str, index: int) -> None:
        self.open.append((pool, index))
        self.open_in.setdefault(pool, []).append(index)

    def add_spare(self, pool: str, index: int) -> None:
        self.spare[pool, index] = None
        self.spare_in.setdefault(pool, collections.deque()).append(index)

    def drop_spare(self, pool: str, index: int) -> None:
        del self.spare[pool, index]
        self.spare_in[pool].remove(index)

    def give_up(self, pool: str, addresses: t.Iterable[int]) -> None:
        """Record the addresses of the pool that became free in this run: `unused_address` excludes them."""
        ordered = sorted(addresses)
        self._freed[pool] = frozenset(ordered)
        self._last_resort[pool] = collections.deque(ordered)

    def unused_address(self, pool: PoolState) -> t.Optional[int]:
        """Return the lowest free address of the node's first open block of the pool that has one, or None.

        Reserved addresses and those freed in this run are excluded.
        """
        blocks = self.open_in.get(pool.name, ())
        avoid = self._freed.get(pool.name, frozenset())
        full = self._full.get(pool.name, 0)
        address = None
        while full < len(blocks):
            address = pool.lowest_free(blocks[full], avoid)
            if address is not None:
                break
            full += 1
        self._full[pool.name] = full
        return address

    def given_up_address(self, pool: PoolState) -> t.Optional[int]:
        """Return the lowest address of the pool that `give_up` recorded and that is still free, or None.

        A reserved address is not free for others once its owner, which declared it, gives it up.
        """
        queue = self._last_resort.get(pool.name)
        while queue and (queue[0] in pool.holders or queue[0] in pool.reserved):
            queue.popleft()
        return queue[0] if queue else None

    def highest_address(self, pool: PoolState) -> t.Optional[int]:
        """Return the highest free address of the node's first open block of the pool that has one, or None.

        Addresses that became free in this run come last: packets for their former owners may still be on the way.
        """
        for avoid in (self._freed.get(pool.name, frozenset()), frozenset()):
            for index in self.open_in.get(pool.name, ()):
                address = pool.highest_free(index, avoid)
                if address is not None:
                    return address
        return None


def pools_by_name(pools: t.Iterable[PoolRange], nodes: t.Iterable[NodeEntry]) -> dict[str, PoolState]:
    """Return the state of each pool by its name, in order of names, with the nodes that it selects.

    Raise PlanError if two pools have one name or share addresses, or if a pool's CIDR and block size make no blocks.
    """
    states: dict[str, PoolState] = {}
    for pool in sorted(pools, key=lambda item: item.name):
        if pool.name in states:
            raise PlanError(
                "calico_ip_pools", pool.name, "is the name of two pools.", "Give every pool a name of its own."
            )
        states[pool.name] = PoolState(pool)
    ordered = sorted(states.values(), key=lambda state: (state.space.version, state.space.base))
    for one, other in zip(ordered, ordered[1:]):
        if one.space.version == other.space.version and other.space.base < one.space.end:
            raise PlanError(
                "calico_ip_pools",
                other.name,
                f"({other.pool.cidr}) overlaps pool {one.name} ({one.pool.cidr}).",
                "Give every pool addresses of its own.",
            )
    entries = list(nodes)
    for state in states.values():
        selects = state.pool.selects
        state.selected = {node.name for node in entries if selects(node.labels)}
    return states


class PoolIndex:
    def __init__(self, pools: t.Iterable[PoolState]) -> None:
        self._pools = sorted(pools, key=lambda state: (state.space.version, state.space.base))
        self._starts = [(state.space.version, state.space.base) for state in self._pools]

    def at(self, version: int, address: int) -> t.Optional[PoolState]:
        position = bisect.bisect_right(self._starts, (version, address)) - 1
        if position >= 0 and self._pools[position].space.contains(version, address):
            return self._pools[position]
        return None

    def blocks_touching(self, cidr: str) -> t.Iterator[tuple[PoolState, int]]:
        """Yield (pool, block number) for every block that shares an address with the CIDR; ValueError if it is none."""
        version, first, prefix = canonical_cidr(cidr)
        last = first + (1 << BITS[version] - prefix) - 1
        position = max(bisect.bisect_right(self._starts, (version, first)) - 1, 0)
        for state in self._pools[position:]:
            space = state.space
            if (space.version, space.base) > (version, last):
                break
            if space.version == version and space.end > first:
                lowest, highest = max(first, space.base), min(last, space.end - 1)
                for index in range(space.index_at(lowest), space.index_at(highest) + 1):
                    yield state, index


class Ledger:
    """All decisions of a planning run so far. `generation` is the generation of the plan being made."""

    def __init__(self, pools: dict[str, PoolState], nodes: t.Iterable[str], generation: int, spare_blocks: int) -> None:
        self.pools = pools  # in order of names
        self.nodes = {name: NodeHoldings(name) for name in sorted(nodes)}
        self.generation = generation
        self.spare_blocks = spare_blocks
        self.quarantine: dict[Key, QuarantinedBlock] = {}  # blocks in quarantine that belong to one of `pools`
        self.foreign: list[QuarantinedBlock] = []  # blocks in quarantine whose pools do not exist
        self.index = PoolIndex(pools.values())
        self.warnings: list[str] = []

    def set_aside(self, pool: PoolState, index: int, node: str, spare: bool) -> None:
        """Move a block from its owner `node` into quarantine."""
        del pool.owners[index]
        pool.quarantined[index] = node
        self.quarantine[pool.name, index] = QuarantinedBlock(
            pool.space.cidr(index), pool.name, node, self.generation, spare
        )

    def take_back(self, pool: PoolState, index: int, node: NodeHoldings) -> None:
        """Move a block out of quarantine, to `node`, which had it before."""
        del self.quarantine[pool.name, index]
        del pool.quarantined[index]
        pool.owners[index] = node.name

    def next_block(self, pool: PoolState, node: NodeHoldings) -> t.Optional[int]:
        """Return the number of a block for `node` to open, which it owns then, or None if none is left.

        The node's own spare blocks come first. The block is neither spare nor open then: the caller opens it.
        """
        spares = node.spare_in.get(pool.name)
        if spares:
            index = spares[0]
            node.drop_spare(pool.name, index)
            return index
        return self.new_block(pool, node)

    def new_block(self, pool: PoolState, node: NodeHoldings) -> t.Optional[int]:
        """Return the number of a block that `node` does not own yet and owns from then on, or None if none is left.

        The blocks in `node.returning` come first.
        """
        returning = node.returning.get(pool.name)
        if returning:
            index = returning.popleft()
            self.take_back(pool, index, node)
            return index
        found = pool.free.first(node.name)
        if found is not None:
            pool.own(found, node.name)
        return found
