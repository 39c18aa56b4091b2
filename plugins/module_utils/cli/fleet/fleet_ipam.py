# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The use of a fleet's addresses by pool, node and block, counted from what its nodes have published. No I/O."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import addresses
from ...base.addresses import BITS, AddressRanges, Network
from ...state.answers.endpoints import BlockOwners
from ..render import tables
from ..sources import Data
from .published_fleet import PublishedFleet

_HEADING = ("GROUPING", "CIDR", "IPS TOTAL", "IPS IN USE", "IPS RESERVED", "IPS FREE")
_BY_RUN = "inventory"


@dataclasses.dataclass
class AddressCount:
    """The addresses of a pool or block. `in_use` have workloads, and `reserved` are others in reservations."""

    cidr: str
    pool: str = ""
    node: str = ""
    in_use: int = 0
    reserved: int = 0

    @property
    def size(self) -> int:
        return 1 << _network(self.cidr).bits - _network(self.cidr).length

    @property
    def free(self) -> int:
        return self.size - self.in_use - self.reserved

    def to_dict(self) -> Data:
        """Return the fields for programs; a pool has no node."""
        own = {"node": self.node, "pool": self.pool} if self.node else {"name": self.pool}
        counts = {"size": self.size, "in_use": self.in_use, "reserved": self.reserved, "free": self.free}
        return {**own, "cidr": self.cidr, **counts}


class FleetUsage:
    """The counts of a fleet, or of its `node` alone.

    `pools` is {name: CIDR}, in the order of the answer; blocks of none of them have the pool "". `reservations` are
    CIDRs that no workload gets. Addresses in none of the blocks are not counted, and an address counts once.
    """

    def __init__(
        self,
        published: PublishedFleet,
        pools: t.Mapping[str, str],
        reservations: t.Sequence[str] = (),
        node: str = "",
    ) -> None:
        self.workloads = len(published.workloads)
        self.node = node
        self.blocks = {
            cidr: AddressCount(cidr, _pool_of(cidr, pools), name)
            for name, cidrs in published.blocks.items()
            if node in ("", name)
            for cidr in cidrs
        }
        self.pools = {name: AddressCount(cidr, name) for name, cidr in pools.items()}
        self._reservations = {version: AddressRanges(reservations, version) for version in BITS}
        owners = BlockOwners((cidr, cidr) for cidr in self.blocks)
        seen: set[str] = set()
        for one in published.workloads:
            for text in one.endpoint.addresses:
                address = addresses.parse_address(text)
                block = owners.of(address) if address is not None else None
                if block is not None and text not in seen:
                    seen.add(text)
                    self._count(block, text)
        for count in (*self.blocks.values(), *self.pools.values()):
            first, last = addresses.bounds(count.cidr)
            count.reserved += self._reservations[addresses.family_of(count.cidr)].count(first, last + 1)

    def _count(self, block: str, address: str) -> None:
        """Count an address for its block and pool. One that is reserved and in use is in use."""
        is_reserved = addresses.number(address) in self._reservations[addresses.family_of(address)]
        for count in (self.blocks[block], self.pools.get(self.blocks[block].pool)):
            if count is not None:
                count.in_use += 1
                count.reserved -= is_reserved

    @property
    def nodes(self) -> list[str]:
        return list(dict.fromkeys(block.node for block in self.blocks.values()))

    def to_dict(self) -> Data:
        """Return {"pools": [...], "usage": [...]}: whole pools, none for one node, and blocks with their nodes."""
        pools = [] if self.node else list(self.pools.values())
        return {
            "pools": [pool.to_dict() for pool in pools],
            "usage": [block.to_dict() for block in self.blocks.values()],
        }

    def table(self, *, nodes: bool, blocks: bool) -> str:
        """Return the table by pool, by node if `nodes`, and by block if `blocks`.

        A pool's row counts all of the pool. Of one node, or where pools are not known, there are no rows of pools.
        """
        by_pool: dict[str, dict[str, list[AddressCount]]] = {pool: {} for pool in self.pools}
        for block in self.blocks.values():
            by_pool.setdefault(block.pool, {}).setdefault(block.node, []).append(block)
        rows: list[tuple[str, ...]] = []
        for pool, by_node in by_pool.items():
            if pool in self.pools and not self.node:
                rows.append(_row("IP Pool", self.pools[pool].cidr, [self.pools[pool]]))
            for node, held in by_node.items():
                if nodes or blocks or self.node or pool not in self.pools:
                    rows.append(_row(f"Node {node}", self.pools[pool].cidr if self.node and pool else "", held))
                if blocks:
                    rows += [_row("Block", block.cidr, [block]) for block in held]
        return tables.boxed(_HEADING, rows)


def allocations(published: PublishedFleet) -> t.Iterator[Data]:
    """Yield {address, handle, attributes} for each address of a published workload."""
    for one in published.workloads:
        by = _BY_RUN if one.planned else one.details.by
        about = {"node": one.endpoint.node, "workload": one.endpoint.name}
        attributes = {**about, "by": by} if by else about
        for address in one.endpoint.addresses:
            yield {"address": address, "handle": one.endpoint.name, "attributes": attributes}


def block_at(published: PublishedFleet, address: str) -> t.Optional[tuple[str, str]]:
    """Return the node and the CIDR of the block in which an address lies, None for none."""
    for node, cidrs in published.blocks.items():
        for cidr in cidrs:
            if addresses.contains(cidr, address):
                return node, cidr
    return None


def _network(cidr: str) -> Network:
    return addresses.network(cidr)


def _pool_of(cidr: str, pools: t.Mapping[str, str]) -> str:
    return next((name for name, outer in pools.items() if addresses.inside(cidr, outer)), "")


def _row(grouping: str, cidr: str, counts: t.Sequence[AddressCount]) -> tuple[str, ...]:
    total = sum(one.size for one in counts)
    parts = [sum(getattr(one, name) for one in counts) for name in ("in_use", "reserved", "free")]
    return (grouping, cidr, str(total), *(f"{part} ({tables.percent(part, total)}%)" for part in parts))
