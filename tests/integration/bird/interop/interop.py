# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two nodes in two racks with another BGP implementation as the switch of both racks or their route reflector.

The nodes' bird.cfg comes from variables through the compiler and the role's template; blocks are the network's.
"""

from __future__ import annotations

import dataclasses
import subprocess
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import refusals, secrets_file, status
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.dropped_segments import Dropped, read
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.status import Session

from tests.integration.bird.daemons import Fleet
from tests.integration.bird.network import POOL6, Network, Node, wait_for
from tests.unit.fleet.fleets import LAB, build, pool, states

oldest_and_newest = pytest.mark.parametrize("build", ["bookworm", "forky"], indirect=True)

#: A password without spaces, because FRR ends it at the first one.
PASSWORD = "It's-a-key:1${x}"
SECRETS = {"tor": {"password": PASSWORD}}
REFERENCE = {"secretKeyRef": {"name": "tor", "key": "password"}}
#: rack -> address of the router in it
GATEWAYS = {1: "10.10.1.1", 2: "10.10.2.1"}
GATEWAYS6 = {1: "fd00:10:1::1", 2: "fd00:10:2::1"}
#: rack -> AS number of the nodes in it
AS_OF_RACK = {1: 64512, 2: 64513}
#: The AS number of the router, which stands for the switches of both racks.
TOR_AS = 65001
#: Variables of the fleet that have nodes add communities to their blocks.
COMMUNITIES = {
    "bgp_communities": [{"name": "workloads", "value": "64512:100"}],
    "bgp_prefix_advertisements": [
        {"cidr": "10.244.0.0/16", "communities": ["workloads", "64512:1:2"]},
        {"cidr": POOL6, "communities": ["64512:6"]},
    ],
}


def peers(as_number: int, **fields: t.Any) -> list[dict[str, t.Any]]:
    """Return entries of calico_bgp_peers, for each rack and IP version: its nodes' session with the rack's router.

    `as_number` is the router's, and `fields` are added to each entry, or replace its own fields.
    """
    return [
        {
            "name": f"rack{rack}-ipv{family}",
            "peerIP": address,
            "asNumber": as_number,
            "nodeSelector": f"rack == '{rack}'",
            "password": REFERENCE,
            **fields,
        }
        for family, addresses in ((4, GATEWAYS), (6, GATEWAYS6))
        for rack, address in addresses.items()
    ]


def birds(network: Network, mode: str, as_of_rack: t.Mapping[int, int], **variables: t.Any) -> dict[str, Bird]:
    """Return the BIRDs of node1 and node3 by name, compiled from an inventory without a mesh.

    `mode` is the encapsulation mode of its IPv4 pool. Blocks are those of `network`. `as_of_rack` has the nodes' AS
    numbers by rack, and `variables` are the fleet's, without the prefix calico_.
    """
    nodes = (network.nodes[0], network.nodes[2])
    compiled = states(
        build(
            pool(mode),
            pool(name="v6", cidr=POOL6),
            nodes={node.name: LAB[node.name] for node in nodes},
            workloads=[],
            own={
                node.name: {
                    "calico_node_address_ipv6": f"{node.address6}/64",
                    "calico_node_labels": {"rack": str(node.rack)},
                    "calico_node_bgp_as_number": as_of_rack[node.rack],
                }
                for node in nodes
            },
            bgp_node_to_node_mesh=False,
            bgp_secrets=SECRETS,
            **variables,
        )
    )
    found = {}
    for node in nodes:
        bird = compiled[node.name].bird
        assert bird is not None
        found[node.name] = dataclasses.replace(bird, blocks=(node.block, node.block6), include_dir="")
    return found


class Interop:
    def __init__(self, network: Network, fleet: Fleet) -> None:
        self.network, self.fleet = network, fleet
        self.one, self.three = network.nodes[0], network.nodes[2]
        self._dropped = {node.name: self._read(node) for node in (self.one, self.three)}

    @staticmethod
    def _read(node: Node) -> Dropped:
        return read(f"/proc/{node.space.pid}/net/netstat")

    def start(self, what: t.Mapping[str, Bird], password: str = PASSWORD) -> None:
        for name, bird in what.items():
            daemon = self.fleet[name]
            secrets_file.install(str(daemon.config), {"tor:password": password})
            daemon.write(bird)
            daemon.start()

    def established(self, seconds: float = 25) -> None:
        """Wait until the two sessions of each node are up.

        Raise AssertionError with the reason if one is not up within `seconds`, or a node is to have another number of
        sessions. Raise NotAnswering if a node's BIRD does not answer.
        """
        for node in (self.one, self.three):
            bird = self.fleet[node.name].bird
            assert bird is not None and len(bird.peers) == 2
            for peer in bird.peers:
                try:
                    wait_for(peer.name, lambda n=node, p=peer: self.session(n, p.name).established, seconds)
                except AssertionError as error:
                    raise AssertionError(f"{error}: {self.why(node, peer.name)}") from None

    def session(self, node: Node, name: str) -> Session:
        sessions = status.observe(self.fleet[node.name].socket).sessions
        return next(session for session in sessions if session.name == name)

    def why(self, node: Node, name: str) -> str:
        bird = self.fleet[node.name].bird
        assert bird is not None
        peer = next(peer for peer in bird.peers if peer.name == name)
        dropped = self._read(node).since(self._dropped[node.name])
        return refusals.why(self.session(node, name), bird, peer, dropped)

    def wait_until_said(self, node: Node, name: str, words: str) -> None:
        """Wait until the reason why the session `name` is down contains `words`.

        Raise AssertionError after 60 seconds. Raise NotAnswering if the node's BIRD does not answer.
        """
        try:
            wait_for(words, lambda: words in self.why(node, name), most=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}. {self.why(node, name)} {self.session(node, name)}") from None

    def refused_is_said(self, words: str) -> str:
        """Wait until `words` are in the reasons why the first node's sessions of both IP versions are down.

        Return the whole reason of the IPv4 session. Raise AssertionError after 60 seconds for one session. Raise
        NotAnswering if the node's BIRD does not answer.
        """
        names = [f"Node_{addresses[1].replace('.', '_').replace(':', '_')}" for addresses in (GATEWAYS, GATEWAYS6)]
        for name in names:
            self.wait_until_said(self.one, name, words)
        return self.why(self.one, names[0])

    def reflected(self, node: Node, other: Node) -> str:
        """Check that `node` has both blocks of `other` with `other` as next hop, as tunnels need.

        For the IPv6 block, BIRD's next hop and originator are checked. Return BIRD's output on this block, with `BGP.`
        for `bgp_`. Raise AssertionError if a route is missing after 60 seconds, or different.
        """
        wait_for("the route", lambda: self.kernel_route(node, other.block))
        assert self.kernel_route(node, other.block) == f"{other.block} via {other.address} dev vxlan.calico onlink"
        wait_for("the route", lambda: self.kernel_route(node, other.block6))
        shown = self.fleet[node.name].birdc("show", "route", other.block6, "all").replace("bgp_", "BGP.")
        assert f"BGP.next_hop: {other.address6}" in shown
        assert f"BGP.originator_id: {other.address}" in shown
        return shown

    def kernel_route(self, node: Node, prefix: str) -> str:
        """Return BIRD's route to `prefix` in the node's kernel as a line, cut before `metric`; "" if there is none."""
        family = "-6" if ":" in prefix else "-4"
        line = node.space.run("ip", family, "route", "show", prefix, "proto", "bird").strip()
        return line.partition(" metric")[0].strip()

    def reaches(self, node: Node, other: Node) -> bool:
        """Return whether the workload of `other` answers a ping of each IP version from that of `node` in a second."""
        commands = [
            node.workload_space.command("ping", "-c1", "-W1", address) for address in (other.workload, other.workload6)
        ]
        return all(
            subprocess.run(line, capture_output=True, timeout=60, check=False).returncode == 0 for line in commands
        )


def leave_blocks_to_bgp(network: Network) -> None:
    """Remove the router's own routes to blocks, so that it learns them only by BGP.

    Raise AssertionError if they have been removed before.
    """
    network.router.ip(*(f"route del {block}" for node in network.nodes for block in (node.block, node.block6)))
