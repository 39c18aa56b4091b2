# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Fleet: an inventory together with the plan of its blocks. What the compiler makes NodeStates from."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t

from .. import resources, selectors
from ..ipam import plan as planner
from ..ipam.allocation_plan import AllocationPlan, NodePlan
from ..ipam.errors import IpamError
from ..ipam.inputs import NodeEntry, PoolRange, WorkloadRequest
from .cidr import bounds, number
from .errors import FleetError
from .inventory import ExternalPeer, FleetNode, Inventory, Settings, Workload
from .node_state import Block, FleetMember, Ipam
from .policy_parts import PolicyParts, divide

#: Encapsulation -> kind of tunnel that it needs an address for.
TUNNEL_KIND = {"IPIP": "ipip", "IPIPCrossSubnet": "ipip", "VXLAN": "vxlan", "VXLANCrossSubnet": "vxlan"}


@dataclasses.dataclass(frozen=True)
class Fleet:
    """Made by `build`. `digest` is the hash that names a plan (12 hex digits)."""

    settings: Settings
    pools: tuple[resources.IPPool, ...]
    nodes: t.Mapping[str, FleetNode]
    workloads: t.Mapping[str, tuple[Workload, ...]]  # by node
    peers: t.Mapping[str, tuple[ExternalPeer, ...]]  # by node
    allocation: AllocationPlan
    digest: str
    pool_ranges: tuple[tuple[int, int, str], ...]  # first address, last address, pool name
    members: tuple[FleetMember, ...]  # in order of names
    policy: t.Optional[PolicyParts] = None  # None: none is in force

    @classmethod
    def build(
        cls,
        inventory: Inventory,
        previous: t.Optional[AllocationPlan],
        allocated: t.Optional[t.Mapping[str, t.Collection[str]]] = None,
    ) -> Fleet:
        """Plans the blocks on from `previous` (None: a new fleet). `allocated`: the addresses that each node gave away
        by itself. Raises FleetError."""
        try:
            allocation = planner.plan(
                [_range(pool) for pool in inventory.pools],
                [NodeEntry(node.name, node.labels) for node in inventory.nodes.values() if node.workload_node],
                previous,
                workloads=[WorkloadRequest(w.name, w.node, w.pool, w.address) for w in inventory.workloads],
                tunnels=_tunnels(inventory),
                spare_blocks=inventory.settings.spare_blocks,
                reservations=inventory.settings.ip_reservations,
                released=inventory.settings.release_blocks,
                allocated=allocated,
            )
        except IpamError as error:
            raise FleetError(_where(error, inventory), error.value, error.rule, error.remedy) from error
        workloads: dict[str, list[Workload]] = {}
        for workload in inventory.workloads:
            workloads.setdefault(workload.node, []).append(workload)
        policy = _policy(inventory, allocation)
        return cls(
            settings=inventory.settings,
            pools=inventory.pools,
            nodes=inventory.nodes,
            workloads={node: tuple(sorted(found, key=lambda w: w.name)) for node, found in workloads.items()},
            peers=_peers_by_node(inventory),
            allocation=allocation,
            digest=_digest(inventory, allocation, policy),
            pool_ranges=tuple((*bounds(pool.cidr), pool.name) for pool in inventory.pools),
            members=tuple(
                FleetMember(
                    node.name,
                    f"{node.address}/{node.prefix}",
                    inventory.settings.as_number,
                    node.reflector,
                    node.labels,
                )
                for node in inventory.nodes.values()
            ),
            policy=policy,
        )

    def ipam_of(self, node: str) -> Ipam:
        part = self.allocation.nodes.get(node, NodePlan())
        return Ipam(
            self.allocation.generation,
            tuple(Block(grant.cidr, grant.pool) for grant in part.blocks),
            tuple(Block(grant.cidr, grant.pool) for grant in part.spare_blocks),
            dict(part.tunnels),
            dict(part.workloads),
            self.settings.ip_reservations,
        )

    def pool_of_address(self, address: str) -> str:
        """Name of the pool; raises KeyError when the address lies in none."""
        wanted = number(address)
        for first, last, name in self.pool_ranges:
            if first <= wanted <= last:
                return name
        raise KeyError(address)


def _where(error: IpamError, inventory: Inventory) -> str:
    """The variable that holds the workload or pool which an error of the planner names."""
    if error.variable == "calico_workloads":
        return next((w.where for w in inventory.workloads if w.name == error.value), error.variable)
    if error.variable == "calico_ip_pools":
        return next((label for label, pool in inventory.labelled_pools() if pool.name == error.value), error.variable)
    return error.variable


def _range(pool: resources.IPPool) -> PoolRange:
    selector = selectors.parse(pool.nodeSelector or "all()")
    return PoolRange(
        pool.name,
        pool.cidr,
        pool.blockSize,
        pool.disabled,
        tuple(pool.allowedUses),
        selector.matches,
        pool.assignmentMode != "Manual",
    )


def _tunnels(inventory: Inventory) -> dict[str, dict[str, tuple[str, ...]]]:
    """Every node that holds blocks needs an address on each kind of device that the fleet uses: the host's own packets
    into the tunnel carry it."""
    kinds: dict[str, list[str]] = {}
    for pool in inventory.pools:
        kind = TUNNEL_KIND.get(pool.encapsulation)
        if kind is not None:
            kinds.setdefault(kind, []).append(pool.name)
    needs = {kind: tuple(names) for kind, names in kinds.items()}
    return {node.name: needs for node in inventory.nodes.values() if node.workload_node} if needs else {}


def _peers_by_node(inventory: Inventory) -> dict[str, tuple[ExternalPeer, ...]]:
    found: dict[str, list[ExternalPeer]] = {}
    for peer in inventory.peers:
        bare = dataclasses.replace(peer, selector=None)
        for node in peer.nodes(inventory.nodes):
            found.setdefault(node, []).append(bare)
    return {node: tuple(peers) for node, peers in found.items()}


def _policy(inventory: Inventory, allocation: AllocationPlan) -> t.Optional[PolicyParts]:
    if inventory.policy is None:
        return None
    addresses = {name: address for part in allocation.nodes.values() for name, address in part.workloads.items()}
    return divide(inventory.policy, sorted(inventory.workloads, key=lambda w: w.name), addresses)


def _digest(inventory: Inventory, allocation: AllocationPlan, policy: t.Optional[PolicyParts]) -> str:
    # What leaves quarantine is said for one run, and counts by the blocks that come of it.
    content = {
        "settings": dataclasses.asdict(dataclasses.replace(inventory.settings, release_blocks=())),
        "pools": [pool.to_document() for pool in inventory.pools],
        "nodes": [
            [node.name, node.address, node.prefix, dict(node.labels), node.workload_node, node.reflector]
            for node in inventory.nodes.values()
        ],
        "workloads": sorted([w.name, w.node, w.namespace, dict(w.labels), w.endpoint] for w in inventory.workloads),
        "peers": [
            [peer.name, peer.address, peer.as_number, peer.selector.canonical if peer.selector else "", peer.node]
            for peer in inventory.peers
        ],
        "blocks": {
            name: [
                [g.cidr for g in part.blocks],
                [g.cidr for g in part.spare_blocks],
                dict(part.tunnels),
                dict(part.workloads),
            ]
            for name, part in allocation.nodes.items()
        },
    }
    if policy is not None:
        content["policy"] = policy.content()
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
