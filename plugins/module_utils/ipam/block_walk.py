# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blocks of a pool as whole numbers, and the order in which a host looks for a free block.

The order resembles Calico's (libcalico-go's randomBlockGenerator). It starts at a block that a hash of the host's name
gives, goes up, wraps around and visits each block once. So hosts begin spread over the pool. Nothing may rely on the
start, because the lockfile keeps what was granted.
"""

from __future__ import annotations

import bisect
import typing as t

from ..base.addresses import BITS, canonical_cidr, format_address

#: A CIDR: IP version, first address, prefix length.
CidrKey = tuple[int, int, int]

_MASK64 = 2**64 - 1


def fnv1_32(data: bytes) -> int:
    """Return the 32-bit FNV-1 hash of `data` (RFC 9923; not FNV-1a)."""
    value = 0x811C9DC5
    for byte in data:
        value = (value * 0x01000193 & 0xFFFFFFFF) ^ byte
    return value


def _spread(seed: int) -> int:
    """Return `seed` mixed by one step of splitmix64, as a 64-bit number.

    FNV-1 maps node1, node2... to neighbouring numbers. Without this step these nodes would compete for the same blocks.
    """
    seed = (seed + 0x9E3779B97F4A7C15) & _MASK64
    seed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & _MASK64
    seed = (seed ^ seed >> 27) * 0x94D049BB133111EB & _MASK64
    return seed ^ seed >> 31


class BlockSet:
    """A set of CIDRs that says quickly which of them contain an address."""

    def __init__(self, keys: t.Iterable[CidrKey]) -> None:
        self._keys = set(keys)
        self._lengths = {(version, BITS[version] - prefix, prefix) for version, _first, prefix in self._keys}

    def __contains__(self, address: tuple[int, int]) -> bool:
        """Return whether one of the CIDRs contains the address (IP version, number)."""
        return next(self.containing(*address), None) is not None

    def containing(self, version: int, address: int) -> t.Iterator[CidrKey]:
        """Yield the CIDRs of this set that contain the address."""
        for kind, shift, prefix in self._lengths:
            key = (kind, address >> shift << shift, prefix)
            if kind == version and key in self._keys:
                yield key


class BlockSpace:
    """The blocks of one pool, numbered from 0 upwards.

    `base` is the first address as a number, `count` the number of blocks, `size` the number of addresses in a block.
    The constructor raises ValueError if `cidr` is not a CIDR or has host bits, or if blocks of prefix length
    `block_size` would be larger than the pool or smaller than an address.
    """

    def __init__(self, cidr: str, block_size: int) -> None:
        self.version, self.base, self.prefix = canonical_cidr(cidr)
        bits = BITS[self.version]
        if not self.prefix <= block_size <= bits:
            raise ValueError(f"blocks of /{block_size} cannot be cut from {cidr}")
        self.block_size = block_size
        self.shift = bits - block_size
        self.count = 1 << (block_size - self.prefix)
        self.size = 1 << self.shift
        self.end = self.base + (self.count << self.shift)  # the first address behind the pool, as a number

    def cidr(self, index: int) -> str:
        return f"{format_address(self.version, self.first_address(index))}/{self.block_size}"

    def first_address(self, index: int) -> int:
        return self.base + (index << self.shift)

    def contains(self, version: int, address: int) -> bool:
        return version == self.version and self.base <= address < self.end

    def index_at(self, address: int) -> int:
        """Return the number of the block that contains `address`, which must lie in the pool."""
        return address - self.base >> self.shift

    def index_of(self, cidr: str) -> int:
        """Return the number of the block `cidr`. Raise ValueError if it is not a block of this pool."""
        version, address, prefix = canonical_cidr(cidr)
        if prefix != self.block_size or not self.contains(version, address):
            raise ValueError(f"{cidr} is not a block of this pool")
        return self.index_at(address)

    def start(self, host: str) -> int:
        """Return the number of the block at which `host` begins to look for a free one."""
        return _spread(fnv1_32(host.encode("utf-8"))) % self.count

    def walk(self, host: str) -> t.Iterator[int]:
        """Yield the number of every block once, from `start(host)` to the last, then from 0 on."""
        start = self.start(host)
        yield from range(start, self.count)
        yield from range(start)


class FreeBlocks:
    """The blocks of a BlockSpace that are not taken. A block can be taken, but never returned.

    The search skips runs of taken blocks in nearly constant time (union-find with path compression). So filling a pool
    to its last block takes linear time. The order is that of `BlockSpace.walk`.
    """

    def __init__(self, space: BlockSpace) -> None:
        self._space = space
        self._next: dict[int, int] = {}  # taken block -> the higher block number at which the search goes on
        self._passed: list[tuple[int, int]] = []  # (first, end) of runs of blocks that are skipped; `end` is exclusive

    def __contains__(self, index: int) -> bool:
        return index not in self._next

    def take(self, index: int) -> None:
        self._next[index] = index + 1

    def pass_over(self, first: int, end: int) -> None:
        """Exclude the free blocks `first` to `end` - 1 from the results of `first()`. Such runs must not overlap."""
        bisect.insort(self._passed, (first, end))

    def first(self, host: str) -> t.Optional[int]:
        """Return the number of the first free block in the host's order, or None if all are taken or passed over."""
        found = self._at_or_above(self._space.start(host))
        if found >= self._space.count:
            found = self._at_or_above(0)
        return found if found < self._space.count else None

    def _at_or_above(self, index: int) -> int:
        found = self._free_at_or_above(index)
        while self._passed:
            position = bisect.bisect_right(self._passed, (found, self._space.count)) - 1
            if position < 0 or self._passed[position][1] <= found:
                break
            found = self._free_at_or_above(self._passed[position][1])
        return found

    def _free_at_or_above(self, index: int) -> int:
        found = index
        while found in self._next:
            found = self._next[found]
        while index != found:  # path compression: each visited block then leads directly to `found`
            self._next[index], index = found, self._next[index]
        return found
