# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fleets to compile: the lab's four nodes in two subnets unless a test chooses others."""

from __future__ import annotations

import copy
import json
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import AllocationPlan
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

#: The lab's nodes by name, each with its calico_node_address.
LAB = {
    "node1": "10.10.1.11/24",
    "node2": "10.10.1.12/24",
    "node3": "10.10.2.13/24",
    "node4": "10.10.2.14/24",
}
#: The IPv6 variables of LAB's nodes.
ADDRESSES6 = {
    "node1": {"calico_node_address_ipv6": "fd00:10:10:1::11/64"},
    "node2": {"calico_node_address_ipv6": "fd00:10:10:1::12/64"},
    "node3": {"calico_node_address_ipv6": "fd00:10:10:2::13/64"},
    "node4": {"calico_node_address_ipv6": "fd00:10:10:2::14/64"},
}
#: The modes of a pool, each with the fields that set it.
MODES: dict[str, dict[str, str]] = {
    "ipip": {"ipipMode": "Always"},
    "ipip-crosssubnet": {"ipipMode": "CrossSubnet"},
    "vxlan": {"vxlanMode": "Always"},
    "vxlan-crosssubnet": {"vxlanMode": "CrossSubnet"},
    "direct": {},
}


def pool(mode: str = "direct", name: str = "default", cidr: str = "10.244.0.0/16", **fields: t.Any) -> dict[str, t.Any]:
    """Return an entry of calico_ip_pools. `mode` is a key of MODES (KeyError for others); `fields` take precedence."""
    return {"name": name, "cidr": cidr, **MODES[mode], **fields}


def workload(name: str, node: str, **fields: t.Any) -> dict[str, t.Any]:
    return {"name": name, "node": node, **fields}


#: One workload on each node of the lab.
WORKLOADS = [workload(f"w{n}", f"node{n}") for n in range(1, 5)]


def hosts(
    *pools: t.Mapping[str, t.Any],
    nodes: t.Mapping[str, str] = LAB,
    reflectors: t.Mapping[str, str] = {},
    workloads: t.Sequence[t.Mapping[str, t.Any]] = WORKLOADS,
    own: t.Mapping[str, t.Mapping[str, t.Any]] = {},
    **variables: t.Any,
) -> list[Host]:
    """Return the hosts of an inventory with these pools, or with the one of `pool()` if none is given.

    `nodes` and `reflectors` map names to addresses; a host in both has the address in `reflectors`. `own` has the
    variables of single hosts, which take precedence; those of names that are no hosts are ignored. `variables` are
    those of the fleet, without the prefix calico_.
    """
    shared = {
        "calico_ip_pools": list(pools) or [pool()],
        "calico_workloads": list(workloads),
        **{f"calico_{name}": value for name, value in variables.items()},
    }
    return [
        Host(
            name,
            {**copy.deepcopy(shared), "calico_node_address": address, **own.get(name, {})},
            workload_node=name in nodes,
            reflector=name in reflectors,
        )
        for name, address in {**nodes, **reflectors}.items()
    ]


def build(*pools: t.Mapping[str, t.Any], previous: t.Optional[AllocationPlan] = None, **rest: t.Any) -> Fleet:
    """Return the fleet of `hosts(*pools, **rest)`, with a plan that continues `previous`, or a new one for None.

    Raise FleetError if the inventory is invalid or cannot be planned.
    """
    return Fleet.build(inventory.read(hosts(*pools, **rest)), previous)


def states(fleet: Fleet) -> dict[str, NodeState]:
    """Return the compiled state of each host by its name, also of those that only reflect."""
    return {name: compiler.node_state(fleet, name) for name in fleet.nodes}


def stored(state: NodeState) -> NodeState:
    """Return the state as a node reads it after it was stored as JSON."""
    return NodeState.from_dict(json.loads(json.dumps(state.to_dict())))
