# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of blocks as a value: the content of the lockfile."""

from __future__ import annotations

import dataclasses
import typing as t

#: Kinds of tunnel address -> IP version of the address.
TUNNEL_KINDS = {"ipip": 4, "vxlan": 4, "vxlan6": 6}
#: Calico's names for the encapsulation of packets to a pool's blocks.
ENCAPSULATIONS = ("IPIP", "IPIPCrossSubnet", "VXLAN", "VXLANCrossSubnet", "None")


@dataclasses.dataclass(frozen=True)
class PlannedPool:
    """An IP pool as the plan knows it: its CIDR, and the prefix length of its blocks."""

    cidr: str
    block_size: int


@dataclasses.dataclass(frozen=True)
class BlockGrant:
    """A block (CIDR text) and the name of the pool it was cut from."""

    cidr: str
    pool: str


@dataclasses.dataclass(frozen=True)
class NodeAllocations:
    """The blocks and addresses of one node.

    `blocks` are open, in the order of opening: addresses are taken from them. `spare_blocks` may be opened by the node
    itself. `tunnels` maps a kind of TUNNEL_KINDS to an address, `workloads` and `workloads6` a workload's name to its
    IPv4 and IPv6 address, `probes` a pool's name to the address of the node's probe endpoint in it. All addresses lie
    in `blocks`.
    """

    blocks: tuple[BlockGrant, ...] = ()
    spare_blocks: tuple[BlockGrant, ...] = ()
    tunnels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    workloads: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    workloads6: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    probes: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    def addresses(self) -> t.Iterator[tuple[str, str]]:
        """Yield (workload name, address) for all workloads: first IPv4, then IPv6, each in order of names."""
        yield from sorted(self.workloads.items())
        yield from sorted(self.workloads6.items())

    def quarantined(self, node: str, generation: int) -> list[QuarantinedBlock]:
        """Return all blocks as quarantined ones that `node` lost in the plan `generation`, the open ones first."""
        return [
            QuarantinedBlock(grant.cidr, grant.pool, node, generation, spare)
            for spare, grants in ((False, self.blocks), (True, self.spare_blocks))
            for grant in grants
        ]


@dataclasses.dataclass(frozen=True)
class QuarantinedBlock:
    """A block that `node` lost, for example because `node` left the inventory or the pool no longer selects it.

    Routes to the block may still be live. So the planner gives it to no other node until the operator releases it;
    `node` itself may get it back. `generation` is that of the plan that put the block into quarantine. `spare`: the
    node is not known to have opened it.
    """

    cidr: str
    pool: str
    node: str
    generation: int
    spare: bool = False


@dataclasses.dataclass(frozen=True)
class AllocationPlan:
    """The plan of all blocks and addresses of a fleet.

    `encapsulations` maps a pool's name to one of ENCAPSULATIONS: how the fleet ran the pool when that was last known.
    `warnings` are sentences about the run that made the plan.
    """

    generation: int = 0
    pools: t.Mapping[str, PlannedPool] = dataclasses.field(default_factory=dict)
    nodes: t.Mapping[str, NodeAllocations] = dataclasses.field(default_factory=dict)
    quarantine: tuple[QuarantinedBlock, ...] = ()
    encapsulations: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def same_content(self, other: t.Optional[AllocationPlan]) -> bool:
        """Return whether `other` has the same pools, nodes and quarantine. Nothing else is compared."""
        return (
            other is not None
            and self.pools == other.pools
            and self.nodes == other.nodes
            and self.quarantine == other.quarantine
        )
