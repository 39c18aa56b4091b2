# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A compiled fleet as the network that questions about flows refer to. No host is contacted."""

from __future__ import annotations

import dataclasses
import ipaddress
import typing as t
from collections.abc import Iterator, Mapping

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.known_network import KnownNetwork, Place
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import PublishedEndpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import WORKLOAD_ENDPOINT, Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import (
    own_endpoint,
    told_apart,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState

WHO = "the inventory"
#: The answer to the question since when an endpoint is known.
SINCE = "as the inventory has it"


class NodeStates(Mapping[str, NodeState]):
    """The nodes' states by name, each compiled at its first use: a question is about one or two nodes of many."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._compiled: dict[str, NodeState] = {}

    def __getitem__(self, node: str) -> NodeState:
        if node not in self._compiled:
            if node not in self._fleet.nodes:
                raise KeyError(node)
            self._compiled[node] = compiler.node_state(self._fleet, node)
        return self._compiled[node]

    def __contains__(self, node: object) -> bool:
        return node in self._fleet.nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._fleet.nodes)

    def __len__(self) -> int:
        return len(self._fleet.nodes)


def known_network(fleet: Fleet) -> KnownNetwork:
    """Return the network of all nodes of the fleet, without what agents attached.

    Nodes without an address of an IP version are missing in its `members` or `members6`. Its `place` gives an empty
    name for an address that is no node's and in no node's block, and raises ValueError for a text that is no address.
    """
    states = NodeStates(fleet)
    members = {name: node.address for name, node in fleet.nodes.items() if node.address}
    members6 = {name: node.address6 for name, node in fleet.nodes.items() if node.address6}
    place_of_node = {address: Place(name, True) for held in (members, members6) for name, address in held.items()}
    blocks: list[tuple[t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network], str]] = []
    for name, node in fleet.nodes.items():
        if not node.workload_node:
            continue
        ipam = fleet.ipam_of(name)
        place_of_node.update({address: Place(name, True) for address in ipam.tunnels.values()})
        blocks += [(ipaddress.ip_network(block.cidr), name) for block in (*ipam.blocks, *ipam.spare_blocks)]

    def place(address: str) -> Place:
        if address in place_of_node:
            return place_of_node[address]
        at = ipaddress.ip_address(address)
        return Place(next((name for block, name in blocks if at in block), ""))

    return KnownNetwork(
        who=WHO,
        at="",
        members=members,
        states=states,
        endpoints=tuple(_endpoints(fleet)),
        place=place,
        since=lambda dummy: SINCE,
        members6=members6,
    )


def with_attached(known: KnownNetwork, published: t.Iterable[PublishedEndpoint]) -> KnownNetwork:
    """Return the network of an inventory with the workloads that agents attached to its nodes, as they published them.

    The inventory's workloads keep their names and addresses. What is published of them does not count.
    """
    own = [one for one in known.endpoints if one.kind == WORKLOAD_ENDPOINT]
    names, taken = {one.name for one in own}, {address for one in own for address in one.addresses}
    nodes, attached = set(known.nodes), dict[str, Endpoint]()
    for planned, endpoint in ((one.planned, one.endpoint) for one in published):
        left = tuple(address for address in endpoint.addresses if address not in taken)
        if left and not planned and endpoint.node in nodes:
            taken.update(left)
            found = told_apart(dataclasses.replace(endpoint, addresses=left), names)
            attached[found.name] = found

    def since(endpoint: Endpoint) -> str:
        if attached.get(endpoint.name) is endpoint:
            return f"on {endpoint.node}, as the datastore has it"
        return known.since(endpoint)

    return dataclasses.replace(
        known,
        endpoints=(*known.endpoints, *attached.values()),
        since=since,
        attached="It also has the workloads that agents attached, as the datastore has them.",
    )


def _endpoints(fleet: Fleet) -> t.Iterator[Endpoint]:
    if fleet.policy is not None:
        for own in fleet.policy.own.values():
            yield from own
        return
    for node in fleet.workloads:
        for workload in compiler.workloads_of(fleet, node):
            yield own_endpoint(node, workload, PolicyState(), {})
