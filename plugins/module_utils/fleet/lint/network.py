# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The input of the rules: a compiled fleet, and facts about its inventory that the fleet does not contain."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ...bgp.bird_state import BirdPeer
from ...bgp.peer_definition import PeerDefinition
from ...bgp.peering import Peering
from ...bgp.speaker import Speaker
from ...resources import api as resources
from ..fleet import Fleet
from ..host import Host
from ..inventory import node_address
from ..inventory.node_inventory import FleetNode
from .written_inventory import WrittenInventory


@dataclasses.dataclass(frozen=True)
class UnderlayLink:
    """The device that has a node's address, from gathered facts.

    `mtu` is in bytes, 65535 if it is unknown. `alone` is True if the address is an additional one with prefix length
    32, which is usual for addresses that move between hosts.
    """

    name: str
    mtu: int
    alone: bool = False


class Pair(t.NamedTuple):
    """A session between two nodes, as configured at both ends.

    `here` is the end of `node`, and `here.node` is the other node. `there` is the end of that one, None if it has none.
    """

    node: str
    here: BirdPeer
    there: t.Optional[BirdPeer]


@dataclasses.dataclass(frozen=True)
class LintedFleet:
    """A compiled fleet with facts about its inventory, which the rules examine.

    `outside` are hosts in neither calico_nodes nor calico_rr that have variables of a node. `ways` maps node names to
    the node's ansible_host; nodes without one are missing. `links` maps node names to the device with the node's IPv4
    address, None if no device has it. `links6` does so for IPv6. Nodes without such an address or without usable facts
    are missing. `written` is what the rules about an inventory as it is written examine.
    """

    fleet: Fleet
    hosts: t.Sequence[Host]
    outside: tuple[Host, ...] = ()
    ways: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    links: t.Mapping[str, t.Optional[UnderlayLink]] = dataclasses.field(default_factory=dict)
    links6: t.Mapping[str, t.Optional[UnderlayLink]] = dataclasses.field(default_factory=dict)
    written: WrittenInventory = dataclasses.field(default_factory=WrittenInventory)

    @functools.cached_property
    def workload_nodes(self) -> tuple[FleetNode, ...]:
        """The nodes in group calico_nodes, which may own blocks."""
        return tuple(node for node in self.fleet.nodes.values() if node.workload_node)

    @functools.cached_property
    def pools(self) -> tuple[tuple[str, resources.IPPool], ...]:
        """The pools, each with the label by which errors name it (`calico_ip_pools[0]`)."""
        return tuple((f"calico_ip_pools[{index}]", pool) for index, pool in enumerate(self.fleet.pools))

    @functools.cached_property
    def speakers(self) -> t.Mapping[str, Speaker]:
        """The BGP speakers by node name; empty if BGP is disabled."""
        return self.fleet.bgp.speakers if self.fleet.settings.bgp_enabled else {}

    @functools.cached_property
    def as_numbers(self) -> frozenset[int]:
        """The AS numbers of the workload nodes; empty if BGP is disabled."""
        return frozenset(self.speakers[node.name].as_number for node in self.workload_nodes if self.speakers)

    @functools.cached_property
    def mesh(self) -> frozenset[str]:
        """The names of the nodes in the node-to-node mesh; empty if there is no mesh or BGP is disabled."""
        if not self.fleet.bgp.unasked.mesh:
            return frozenset()
        return frozenset(name for name, speaker in self.speakers.items() if not speaker.cluster_id)

    @functools.cached_property
    def sessions(self) -> t.Mapping[str, tuple[BirdPeer, ...]]:
        """The sessions of each node by its name, without the mesh, whose sessions grow quadratically with the nodes."""
        bgp = self.fleet.bgp
        unasked = dataclasses.replace(bgp.unasked, mesh=False)
        peering = Peering(self.speakers.values(), bgp.peers, unasked)
        return {name: peering.sessions(name) for name in self.speakers}

    @functools.cached_property
    def ends(self) -> t.Mapping[tuple[str, str], BirdPeer]:
        """The sessions with nodes in `sessions` by node name and peer address; of two with one address, the last."""
        return {(name, peer.address): peer for name, found in self.sessions.items() for peer in found if peer.node}

    def back(self, node: str, peer: BirdPeer) -> t.Optional[BirdPeer]:
        """Return the session that `peer.node` has with `node`, None without one. Those of the mesh are not found."""
        return self.ends.get((peer.node, peer.source_address or self.speakers[node].end(peer.family)))

    @functools.cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The sessions between two nodes, each once, without those of the mesh.

        A session that only one node has is left out if both are in the mesh, which has the other end.
        """
        found = []
        for name, sessions in self.sessions.items():
            for here in sessions:
                there = self.back(name, here) if here.node else None
                seen = there is not None and here.node < name
                if here.node and not seen and (there is not None or not {name, here.node} <= self.mesh):
                    found.append(Pair(name, here, there))
        return tuple(found)

    @functools.cached_property
    def meant(self) -> tuple[tuple[PeerDefinition, tuple[Speaker, ...], tuple[Speaker, ...]], ...]:
        """The BGPPeers, each with the nodes that it applies to and the nodes of the fleet that it makes their peers."""
        return tuple(self.fleet.bgp.peering.meant()) if self.speakers else ()

    @functools.cached_property
    def reflectors(self) -> t.Mapping[str, frozenset[str]]:
        """The nodes with a cluster id by name, each with the addresses of the peers that it reflects for."""
        return {
            name: frozenset(peer.address for peer in self.sessions[name] if peer.cluster_id is not None)
            for name, speaker in self.speakers.items()
            if speaker.cluster_id
        }

    def place_of(self, node: str) -> str:
        """Return the file and line of a node's address, "" if they are unknown."""
        found = next((host for host in self.hosts if host.name == node), None)
        return node_address.origin(found) if found else ""

    def variable(self, name: str) -> t.Any:
        """Return a fleet variable's value on the first host that has it, None if none has; there are no defaults."""
        return next((host.variables[name] for host in self.hosts if name in host.variables), None)

    def selected(self, pool: resources.IPPool) -> list[FleetNode]:
        """Return the workload nodes that the pool's nodeSelector matches."""
        return [node for node in self.workload_nodes if pool.selector.matches(node.labels)]


def address_of(node: str, family: int = 4) -> str:
    """Return how issues name the variable with a node's address of this IP version: `calico_node_address of node1`."""
    return node_address.label(family, node)


def cluster_id_of(network: LintedFleet, node: str) -> str:
    """Return how issues name what makes a node a reflector: group calico_rr, or its own variable."""
    own = f"calico_node_route_reflector_cluster_id of {node}"
    return "group calico_rr" if network.speakers[node].reflector else own


def counted(count: int, word: str) -> str:
    """Return the count with its noun, in the plural unless it is one: "1 node", "2 nodes"."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def listed(names: t.Sequence[str], limit: int = 5) -> str:
    """Return the names as a phrase: "node1, node2 and node3", or with a count if there are more than `limit`.

    With more, it has `limit` - 1 names: "node1, node2, node3, node4 and 3 more". It is "" for no names.
    """
    if len(names) > limit:
        return f"{', '.join(names[: limit - 1])} and {len(names) - limit + 1} more"
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
