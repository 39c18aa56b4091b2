# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two pure reflectors and two clients: blocks arrive with the owner as next hop, and reflectors write no routes."""

from __future__ import annotations

import dataclasses
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPool

from tests.integration.bird.daemons import Fleet, bird_of, peer, pool
from tests.integration.bird.network import Network, Node, wait_for

pytestmark = pytest.mark.root

CLUSTER = "10.10.0.1"


def with_reflectors(network: Network, *pools: BirdPool) -> dict[str, Bird]:
    """Return the BIRDs by node of a fleet in which node1 and node4, pure reflectors, reflect for node2 and node3."""
    one, two, three, four = network.nodes

    def reflector(node: Node, other: Node) -> Bird:
        peers = [peer(node, client, "client", cluster_id=CLUSTER) for client in (two, three)] + [peer(node, other)]
        return bird_of(node, peers, *pools, blocks=(), workload_node=False, cluster_id=CLUSTER)

    def client(node: Node) -> Bird:
        return bird_of(node, [peer(node, other, "reflector") for other in (one, four)], *pools)

    return {
        one.name: reflector(one, four),
        four.name: reflector(four, one),
        two.name: client(two),
        three.name: client(three),
    }


@pytest.fixture
def pair(fleet: Fleet, network: Network) -> t.Iterator[Fleet]:
    """The fleet, with node1 and node4 as pure reflectors: during the test they have no IPv4 tunnels or blocks."""
    gone = [network.nodes[0], network.nodes[3]]
    for node in gone:
        node.space.ip(
            "link set tunl0 down", "link set vxlan.calico down", f"route del blackhole {node.block} proto 179"
        )
    yield fleet
    for node in gone:
        others = [other for other in network.nodes if other is not node]
        node.space.ip(
            "link set tunl0 up",
            "link set vxlan.calico up",
            f"route add blackhole {node.block} proto 179",
            *(
                f"neigh replace {other.address} dev {device} lladdr {other.vtep_mac} nud permanent"
                for other in others
                for device in ("vxlan.calico", "tunl0")
            ),
        )


@pytest.mark.parametrize(
    ("mode", "route"),
    [
        (pool("vxlan.calico"), "via 10.10.2.13 dev vxlan.calico onlink"),
        (pool("tunl0", cross_subnet=True), "via 10.10.2.13 dev tunl0 onlink"),
        (pool(), "via 10.10.1.1 dev eth0"),
    ],
    ids=["vxlan", "ipip-crosssubnet", "direct"],
)
def test_next_hops_arrive_unmodified(pair: Fleet, network: Network, mode: BirdPool, route: str) -> None:
    one, two, three, four = network.nodes
    birds = with_reflectors(network, mode)
    birds[two.name] = dataclasses.replace(birds[two.name], merge_paths=True)
    for name, bird in birds.items():
        pair[name].write(bird)
        pair[name].start()
    wait_for("node3's block", lambda: two.space.routes("proto", "bird") == [f"{three.block} {route}"])

    def shown() -> str:
        return pair["node2"].birdc("show", "route", three.block, "all").replace("bgp_", "BGP.")

    # Both reflectors announce node3's block to node2, with node3 as next hop.
    wait_for("both announcements", lambda: shown().count("BGP.next_hop: ") == 2)
    assert shown().count("BGP.next_hop: 10.10.2.13") == 2, shown()
    assert shown().count("BGP.cluster_list: 10.10.0.1") == 2
    # Equal copies of one path are merged into one next hop.
    assert two.space.routes("proto", "bird") == [f"{three.block} {route}"]
    for reflector in (one, four):
        assert reflector.space.routes("proto", "bird") == []


def test_a_reflector_need_not_reach_what_it_reflects(pair: Fleet, network: Network) -> None:
    """A reflector passes a block on although its BIRD has no route to the next hop, to which it never forwards."""
    one, two, three, _four = network.nodes
    birds = with_reflectors(network, pool("vxlan.calico"))
    one.space.ip("route del default", "route add 10.10.2.14 via 10.10.1.1")
    try:
        # Only one of the two reflectors, node1, runs. It reaches node3 by a route in a table that BIRD does not read.
        one.space.ip("route add 10.10.2.13 via 10.10.1.1 table 100", "rule add to 10.10.2.13 lookup 100")
        for name in ("node1", "node2", "node3"):
            pair[name].write(birds[name])
            pair[name].start()
        wait_for("the block", lambda: len(two.space.routes("proto", "bird")) == 1)
        assert two.space.routes("proto", "bird") == [f"{three.block} via 10.10.2.13 dev vxlan.calico onlink"]
        assert "unreachable" in pair["node1"].birdc("show", "route", three.block)
    finally:
        one.space.ip(
            "rule del to 10.10.2.13 lookup 100", "route flush table 100",
            "route del 10.10.2.14 via 10.10.1.1", "route add default via 10.10.1.1",
        )  # fmt: skip


def test_one_of_two_reflectors_may_go(pair: Fleet, network: Network, streams) -> None:
    _one, two, three, _four = network.nodes
    pair.start(with_reflectors(network, pool("vxlan.calico")))
    for node in (two, three):
        wait_for("the other's block", lambda n=node: len(n.space.routes("proto", "bird")) == 1)
    with streams(nodes=[two, three]) as flows:
        pair["node1"].stop()
        wait_for("node1 is gone", lambda: pair["node2"].established() == 1)
        pair["node1"].start()
        wait_for("node1 is back", lambda: pair["node2"].established() == 2 and pair["node3"].established() == 2)
        time.sleep(0.5)
    assert flows.lost == {}
    assert flows.sent >= 1000
