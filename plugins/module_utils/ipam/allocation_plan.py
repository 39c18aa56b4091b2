# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of blocks as a value: what the lockfile holds."""

from __future__ import annotations

import dataclasses
import typing as t

#: Kinds of tunnel address -> IP version of the address.
TUNNEL_KINDS = {"ipip": 4, "vxlan": 4, "vxlan6": 6}
#: Calico's names of what packets to a pool's blocks travel in.
ENCAPSULATIONS = ("IPIP", "IPIPCrossSubnet", "VXLAN", "VXLANCrossSubnet", "None")


@dataclasses.dataclass(frozen=True)
class PlannedPool:
    cidr: str
    block_size: int


@dataclasses.dataclass(frozen=True)
class BlockGrant:
    """A block (CIDR text) and the name of the pool it was cut from."""

    cidr: str
    pool: str


@dataclasses.dataclass(frozen=True)
class NodeAllocations:
    """What one node owns. Blocks are in the order in which they were granted.

    `blocks` are open: addresses are taken from them. `spare_blocks` may be opened by the node itself.
    `tunnels` is {one of TUNNEL_KINDS: address}, `workloads` {name: address} and `workloads6` the same for IPv6; all
    addresses lie in `blocks`.
    """

    blocks: tuple[BlockGrant, ...] = ()
    spare_blocks: tuple[BlockGrant, ...] = ()
    tunnels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    workloads: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    workloads6: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    def addresses(self) -> t.Iterator[tuple[str, str]]:
        """(name of the workload, address), in order of names, IPv4 first."""
        yield from sorted(self.workloads.items())
        yield from sorted(self.workloads6.items())


@dataclasses.dataclass(frozen=True)
class QuarantinedBlock:
    """A block that `node` gave up (the node left the inventory, its pool left the node, it had too many spare ones).

    Its routes may still be live, so nobody else gets it until the operator releases it; `node` itself gets it back.
    `generation` is that of the plan that put it here; `spare` that it was never opened as far as is known.
    """

    cidr: str
    pool: str
    node: str
    generation: int
    spare: bool = False


@dataclasses.dataclass(frozen=True)
class AllocationPlan:
    """`encapsulations` is {pool: one of ENCAPSULATIONS}, how the fleet ran its pools when that was last seen; a pool of
    which it is not known is missing. It is no part of what was planned: another mode makes no other plan. `warnings`
    are sentences about this run; they are not part of the content."""

    generation: int = 0
    pools: t.Mapping[str, PlannedPool] = dataclasses.field(default_factory=dict)
    nodes: t.Mapping[str, NodeAllocations] = dataclasses.field(default_factory=dict)
    quarantine: tuple[QuarantinedBlock, ...] = ()
    encapsulations: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def same_content(self, other: t.Optional[AllocationPlan]) -> bool:
        """Whether both plan the same, whatever their generations."""
        return (
            other is not None
            and self.pools == other.pools
            and self.nodes == other.nodes
            and self.quarantine == other.quarantine
        )
