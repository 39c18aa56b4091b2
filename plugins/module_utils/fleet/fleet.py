# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Fleet: an inventory together with the plan of its blocks, from which the compiler makes NodeStates."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import typing as t

from ..base import selectors
from ..base.addresses import bounds, family_of, number
from ..ipam import plan as planner
from ..ipam.allocation_plan import TUNNEL_KINDS, AllocationPlan, NodeAllocations
from ..ipam.errors import IpamError
from ..ipam.inputs import NodeEntry, PoolRange, WorkloadRequest
from ..resources import api as resources
from ..state.errors import FleetError
from ..state.fleet_list import FleetMember
from ..state.node_state import Block, NodeIpam
from .inventory.bgp_inventory import FleetBGP
from .inventory.inventory import FleetSettings, Inventory
from .inventory.node_inventory import FleetNode
from .inventory.workload_inventory import InventoryWorkload
from .policy_parts import PolicyParts, divide

_TUNNEL_KINDS = {"IPIP": "ipip", "IPIPCrossSubnet": "ipip", "VXLAN": "vxlan", "VXLANCrossSubnet": "vxlan"}
#: A mapping from the kind of a tunnel to the name of its device.
TUNNEL_DEVICE = {"ipip": "tunl0", "vxlan": "vxlan.calico", "vxlan6": "vxlan-v6.calico"}


class _Encapsulated(t.Protocol):
    @property
    def cidr(self) -> str: ...

    @property
    def encapsulation(self) -> str: ...


def tunnel_kind(pool: _Encapsulated) -> t.Optional[str]:
    """Return the kind of tunnel that the pool uses: "ipip", "vxlan", "vxlan6", or None without a tunnel."""
    kind = _TUNNEL_KINDS.get(pool.encapsulation)
    return f"{kind}6" if kind is not None and family_of(pool.cidr) == 6 else kind


def tunnel_device(pool: _Encapsulated) -> str:
    """Return the name of the tunnel device that the pool's packets go through, "" without a tunnel."""
    kind = tunnel_kind(pool)
    return "" if kind is None else TUNNEL_DEVICE[kind]


@dataclasses.dataclass(frozen=True)
class Fleet:
    """An inventory with the blocks and addresses of its nodes, made by `build`.

    `name` is the digest of a fleet whose plan has its name already, "" for a plan that its content names.
    `earlier_addresses` are IPv4 addresses that nodes had before, which their hosts still have: all nodes
    accept tunnels from them.
    """

    settings: FleetSettings
    pools: tuple[resources.IPPool, ...]
    nodes: t.Mapping[str, FleetNode]
    workloads: t.Mapping[str, tuple[InventoryWorkload, ...]]  # by node
    bgp: FleetBGP
    allocation: AllocationPlan
    pool_ranges: tuple[tuple[int, int, int, str], ...]  # IP version, first address, last address, pool name
    members: tuple[FleetMember, ...]  # in order of names
    policy: t.Optional[PolicyParts] = None  # None: no policy is in force
    earlier_addresses: tuple[str, ...] = ()
    name: str = ""

    @functools.cached_property
    def digest(self) -> str:
        """A hash (12 hex digits) that names the plan, without quarantine, generation and `release_blocks`."""
        return self.name or _digest(self)

    def named(self) -> Fleet:
        """Return the fleet with its digest as its name: for copies in which the plan's content is not whole."""
        return dataclasses.replace(self, name=self.digest)

    def with_earlier_addresses(self, found: t.Iterable[str]) -> Fleet:
        """Return the fleet with these `earlier_addresses`, and with a plan of another name if there are any."""
        earlier = tuple(sorted(found))
        if not earlier:
            return self
        digest = hashlib.sha256(json.dumps([self.digest, earlier]).encode()).hexdigest()[:12]
        return dataclasses.replace(self, earlier_addresses=earlier, name=digest)

    @classmethod
    def build(
        cls,
        inventory: Inventory,
        previous: t.Optional[AllocationPlan],
        allocated: t.Optional[t.Mapping[str, t.Collection[str]]] = None,
    ) -> Fleet:
        """Return the fleet of `inventory`, with a plan of its blocks that continues `previous`.

        `previous` is None for a new fleet. `allocated` has the addresses that each node's agent assigned, by node name,
        None for none. Raise FleetError if the planner refuses the inventory or `previous`, for example because a pool
        has no free block. Raise ValueError if `previous` is given and a text in `allocated` is not an address.
        """
        try:
            allocation = planner.plan(
                [_range(pool) for pool in inventory.pools],
                [NodeEntry(node.name, node.labels) for node in inventory.nodes.values() if node.workload_node],
                previous,
                workloads=[request for workload in inventory.workloads for request in _requests(workload)],
                tunnels=_tunnels(inventory),
                spare_blocks=inventory.settings.spare_blocks,
                reservations=inventory.settings.ip_reservations,
                released=inventory.settings.release_blocks,
                allocated=allocated,
                probes=_probes(inventory),
            )
        except IpamError as error:
            raise FleetError(_where(error, inventory), error.value, error.rule, error.remedy) from error
        allocation = _in_order(allocation, [pool.name for pool in inventory.pools])
        workloads: dict[str, list[InventoryWorkload]] = {}
        for workload in inventory.workloads:
            workloads.setdefault(workload.node, []).append(workload)
        probes = {name: part.probes for name, part in allocation.nodes.items()}
        return cls(
            settings=inventory.settings,
            pools=inventory.pools,
            nodes=inventory.nodes,
            workloads={node: tuple(sorted(found, key=lambda w: w.name)) for node, found in workloads.items()},
            bgp=inventory.bgp,
            allocation=allocation,
            pool_ranges=tuple((pool.version, *bounds(pool.cidr), pool.name) for pool in inventory.pools),
            members=tuple(
                FleetMember(
                    node.name,
                    node.cidr,
                    inventory.bgp.speakers[node.name].as_number,
                    node.reflector,
                    node.labels,
                    node.cidr6,
                    tuple(probes.get(node.name, {}).values()),
                )
                for node in inventory.nodes.values()
            ),
            policy=_policy(inventory, allocation),
        )

    def ipam_of(self, node: str) -> NodeIpam:
        """Return the blocks and addresses of a node; an unknown one has only the generation and the reservations."""
        part = self.allocation.nodes.get(node, NodeAllocations())
        return NodeIpam(
            self.allocation.generation,
            tuple(Block(grant.cidr, grant.pool) for grant in part.blocks),
            tuple(Block(grant.cidr, grant.pool) for grant in part.spare_blocks),
            dict(part.tunnels),
            dict(part.workloads),
            self.settings.ip_reservations,
            dict(part.workloads6),
            dict(part.probes),
        )

    @property
    def has_live_policy(self) -> bool:
        """Whether documents of the datastore count beside the policy of the inventory."""
        return self.policy is not None and self.policy.policy.settings.live

    @property
    def announced(self) -> frozenset[str]:
        """The CIDRs of all blocks, spare ones included, that nodes may advertise or, without BGP, have routes to."""
        hidden = {pool.name for pool in self.pools if pool.disableBGPExport and self.settings.bgp_enabled}
        parts = (self.allocation.nodes.get(name, NodeAllocations()) for name in self.nodes)
        grants = (grant for part in parts for grant in (*part.blocks, *part.spare_blocks))
        return frozenset(grant.cidr for grant in grants if grant.pool not in hidden)

    def pool_of_address(self, address: str) -> str:
        """Return the name of the pool that contains a valid IPv4 or IPv6 address. Raise KeyError if none does."""
        wanted = number(address)
        version = family_of(address)
        for family, first, last, name in self.pool_ranges:
            if family == version and first <= wanted <= last:
                return name
        raise KeyError(address)


def _where(error: IpamError, inventory: Inventory) -> str:
    """Return where the inventory has the workload or pool that an error of the planner names, else its variable."""
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


def _requests(workload: InventoryWorkload) -> t.Iterator[WorkloadRequest]:
    if 4 in workload.families:
        yield WorkloadRequest(workload.name, workload.node, workload.pool, workload.address)
    if 6 in workload.families:
        yield WorkloadRequest(workload.name, workload.node, workload.pool6, workload.address6, 6)


def _tunnels(inventory: Inventory) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the tunnels that need an address, as {node name: {kind of tunnel: names of the pools that use it}}.

    Each workload node needs one on each kind of tunnel that the fleet uses and whose IP version it has, as the source
    of the host's own packets. Nodes without tunnels are missing.
    """
    kinds: dict[str, list[str]] = {}
    for pool in inventory.pools:
        kind = tunnel_kind(pool)
        if kind is not None:
            kinds.setdefault(kind, []).append(pool.name)
    needs = {kind: tuple(names) for kind, names in kinds.items()}
    # Nodes share these mappings, because there may be thousands of nodes.
    of_families: dict[tuple[int, ...], dict[str, tuple[str, ...]]] = {
        versions: {kind: names for kind, names in needs.items() if TUNNEL_KINDS[kind] in versions}
        for versions in ((4,), (6,), (4, 6))
    }
    found = {}
    for node in inventory.nodes.values():
        own = of_families[tuple(version for version in (4, 6) if node.address_of(version))]
        if node.workload_node and own:
            found[node.name] = own
    return found


def _probes(inventory: Inventory) -> dict[str, tuple[str, ...]]:
    """Return the pools in which the probe endpoint of each workload node wants an address, by node.

    They are the pools of the IP versions that the node has, without those of calico_unprobed_pools.
    """
    probed = [pool for pool in inventory.pools if pool.name not in inventory.settings.unprobed_pools]
    # Nodes share these lists, because there may be thousands of nodes.
    of_families: dict[tuple[int, ...], tuple[str, ...]] = {
        versions: tuple(pool.name for pool in probed if pool.version in versions)
        for versions in ((), (4,), (6,), (4, 6))
    }
    return {
        node.name: of_families[tuple(version for version in (4, 6) if node.address_of(version))]
        for node in inventory.nodes.values()
        if node.workload_node
    }


def _in_order(allocation: AllocationPlan, pools: t.Sequence[str]) -> AllocationPlan:
    """Return the plan with the addresses of each node's probe endpoint in the order of `pools`."""
    nodes = {
        name: dataclasses.replace(part, probes={pool: part.probes[pool] for pool in pools if pool in part.probes})
        for name, part in allocation.nodes.items()
    }
    return dataclasses.replace(allocation, nodes=nodes)


def _policy(inventory: Inventory, allocation: AllocationPlan) -> t.Optional[PolicyParts]:
    if inventory.policy is None:
        return None
    addresses: dict[str, tuple[str, ...]] = {}
    for part in allocation.nodes.values():
        for name, address in part.addresses():
            addresses[name] = (*addresses.get(name, ()), address)
    return divide(inventory.policy, sorted(inventory.workloads, key=lambda w: w.name), addresses)


def _without_defaults(settings: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return `settings` without newer ones at their default, so that a plan's name does not change with the release."""
    later = (
        "allow_vxlan_from_workloads",
        "allow_ipip_from_workloads",
        "etcd_members",
        "unprobed_pools",
        "nat_excludes_hosts",
    )
    return {name: value for name, value in settings.items() if value or name not in later}


def _digest(fleet: Fleet) -> str:
    # `release_blocks` is set for one run only. Its effect is in the digest through the blocks that are planned.
    content = {
        "settings": _without_defaults(dataclasses.asdict(dataclasses.replace(fleet.settings, release_blocks=()))),
        "pools": [pool.to_document() for pool in fleet.pools],
        "nodes": [
            [node.name, node.address, node.prefix, dict(node.labels), node.workload_node, node.reflector]
            + ([node.address6, node.prefix6] if node.address6 else [])
            + (["source spoofing"] if node.workload_source_spoofing else [])
            for node in fleet.nodes.values()
        ],
        "workloads": sorted(
            [w.name, w.node, w.namespace, dict(w.labels), w.endpoint]
            for workloads in fleet.workloads.values()
            for w in workloads
        ),
        "bgp": fleet.bgp.content(),
        "blocks": {
            name: [
                [g.cidr for g in part.blocks],
                [g.cidr for g in part.spare_blocks],
                dict(part.tunnels),
                dict(part.workloads),
                *([dict(part.workloads6)] if part.workloads6 else ()),
                *([{"probes": dict(part.probes)}] if part.probes else ()),
            ]
            for name, part in fleet.allocation.nodes.items()
        },
    }
    if fleet.policy is not None:
        content["policy"] = fleet.policy.content()
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
