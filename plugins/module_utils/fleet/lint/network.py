# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rules look at: a compiled fleet, and what of its inventory is not in there."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ... import resources
from ...bgp.bird_state import BirdPeer
from ...bgp.peer_definition import PeerDefinition
from ...bgp.peering import Peering
from ...bgp.speaker import Speaker
from ..fleet import Fleet
from ..host import Host
from ..inventory import node_address
from ..inventory.node_inventory import FleetNode


@dataclasses.dataclass(frozen=True)
class Link:
    """The device that carries a node's address, as gathered facts have it. `mtu` in bytes; `alone`: the address is an
    additional one with prefix length 32, as those that move between hosts."""

    name: str
    mtu: int
    alone: bool = False


class Pair(t.NamedTuple):
    """A session as both of its ends have it; `there` None where the other end, here.node, has none."""

    node: str
    here: BirdPeer
    there: t.Optional[BirdPeer]


@dataclasses.dataclass(frozen=True)
class Network:
    """`outside` are hosts of the inventory in neither group that have variables of a node. `ways` is {node: the address
    by which Ansible reaches it}, `links` {node: the device with its IPv4 address, None where none has it}, `links6` the
    same of IPv6, all only as far as they are known."""

    fleet: Fleet
    hosts: t.Sequence[Host]
    outside: tuple[Host, ...] = ()
    ways: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    links: t.Mapping[str, t.Optional[Link]] = dataclasses.field(default_factory=dict)
    links6: t.Mapping[str, t.Optional[Link]] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def workload_nodes(self) -> tuple[FleetNode, ...]:
        return tuple(node for node in self.fleet.nodes.values() if node.workload_node)

    @functools.cached_property
    def pools(self) -> tuple[tuple[str, resources.IPPool], ...]:
        """Each with the variable it is written in."""
        return tuple((f"calico_ip_pools[{index}]", pool) for index, pool in enumerate(self.fleet.pools))

    @functools.cached_property
    def speakers(self) -> t.Mapping[str, Speaker]:
        """By name; none where BGP is disabled."""
        return self.fleet.bgp.speakers if self.fleet.settings.bgp_enabled else {}

    @functools.cached_property
    def as_numbers(self) -> frozenset[int]:
        """Those of the nodes that hold blocks."""
        return frozenset(self.speakers[node.name].as_number for node in self.workload_nodes if self.speakers)

    @functools.cached_property
    def mesh(self) -> frozenset[str]:
        """The nodes that the node-to-node mesh joins."""
        if not self.fleet.bgp.unasked.mesh:
            return frozenset()
        return frozenset(name for name, speaker in self.speakers.items() if not speaker.cluster_id)

    @functools.cached_property
    def sessions(self) -> t.Mapping[str, tuple[BirdPeer, ...]]:
        """Of each node, without those of the mesh: the square of its nodes, and all alike."""
        bgp = self.fleet.bgp
        unasked = dataclasses.replace(bgp.unasked, mesh=False)
        peering = Peering(self.speakers.values(), bgp.peers, unasked)
        return {name: peering.sessions(name) for name in self.speakers}

    @functools.cached_property
    def ends(self) -> t.Mapping[tuple[str, str], BirdPeer]:
        """{(node, address of its peer): the session}, of those in `sessions`."""
        return {(name, peer.address): peer for name, found in self.sessions.items() for peer in found}

    def back(self, node: str, peer: BirdPeer) -> t.Optional[BirdPeer]:
        """A session with another node as that one has it."""
        return self.ends.get((peer.node, peer.source_address or self.speakers[node].end(peer.family)))

    @functools.cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Each session between two nodes once, without those of the mesh."""
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
        """Each BGPPeer with the nodes that it is for, and those of the fleet that are their peers by it."""
        return tuple(self.fleet.bgp.peering.meant()) if self.speakers else ()

    @functools.cached_property
    def reflectors(self) -> t.Mapping[str, frozenset[str]]:
        """{node that has a cluster id: addresses of those that it reflects for}"""
        return {
            name: frozenset(peer.address for peer in self.sessions[name] if peer.cluster_id is not None)
            for name, speaker in self.speakers.items()
            if speaker.cluster_id
        }

    def place_of(self, node: str) -> str:
        """File and line of a node's address, "" where they are not known."""
        found = next((host for host in self.hosts if host.name == node), None)
        return node_address.origin(found) if found else ""

    def variable(self, name: str) -> t.Any:
        """What the inventory says, None where it says nothing."""
        return next((host.variables[name] for host in self.hosts if name in host.variables), None)

    def selected(self, pool: resources.IPPool) -> list[FleetNode]:
        """The nodes that take blocks from a pool."""
        return [node for node in self.workload_nodes if pool.selector.matches(node.labels)]


def address_of(node: str, family: int = 4) -> str:
    """The variable that a node's address is written in."""
    return node_address.label(family, node)


def cluster_id_of(network: Network, node: str) -> str:
    """The variable that makes a node a reflector."""
    own = f"calico_node_route_reflector_cluster_id of {node}"
    return "group calico_rr" if network.speakers[node].reflector else own


def counted(count: int, word: str) -> str:
    """1 node, 2 nodes."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def listed(names: t.Sequence[str], limit: int = 5) -> str:
    """node1, node2 and 3 more."""
    if len(names) > limit:
        return f"{', '.join(names[: limit - 1])} and {len(names) - limit + 1} more"
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
