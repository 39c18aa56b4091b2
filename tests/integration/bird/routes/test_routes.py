# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The routes in the kernel, mode by mode, and the announcements of a node."""

from __future__ import annotations

import dataclasses
import re
import subprocess

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdPeer, BirdPool

from tests.integration.bird.daemons import AS_NUMBER, Fleet, bird_of, mesh, peer, pool
from tests.integration.bird.interop import stranger
from tests.integration.bird.network import POOL, Network, wait_for
from tests.integration.host_under_test import monitor_listens

pytestmark = pytest.mark.root

VIA_TUNNEL = [
    "10.244.2.0/26 via 10.10.1.12 dev {0} proto bird onlink",
    "10.244.3.0/26 via 10.10.2.13 dev {0} proto bird onlink",
    "10.244.4.0/26 via 10.10.2.14 dev {0} proto bird onlink",
]
DIRECT = [
    "10.244.2.0/26 via 10.10.1.12 dev eth0 proto bird",
    "10.244.3.0/26 via 10.10.1.1 dev eth0 proto bird",
    "10.244.4.0/26 via 10.10.1.1 dev eth0 proto bird",
]


def via(device: str) -> list[str]:
    return [line.format(device) for line in VIA_TUNNEL]


@pytest.mark.parametrize(
    ("mode", "routes"),
    [
        (pool("tunl0"), via("tunl0")),
        (pool("tunl0", cross_subnet=True), [DIRECT[0], *via("tunl0")[1:]]),
        (pool("vxlan.calico"), via("vxlan.calico")),
        (pool("vxlan.calico", cross_subnet=True), [DIRECT[0], *via("vxlan.calico")[1:]]),
        (pool(), DIRECT),
        (pool("tunl0", mtu=1430), [f"{line} mtu 1430" for line in via("tunl0")]),
    ],
    ids=["ipip", "ipip-crosssubnet", "vxlan", "vxlan-crosssubnet", "direct", "mtu"],
)
def test_routes_are_those_of_the_calico_documents(
    fleet: Fleet, network: Network, mode: BirdPool, routes: list[str]
) -> None:
    node = network.nodes[0]
    before = node.space.routes()
    fleet.start(mesh(network.nodes, mode))
    wait_for("three routes", lambda: len(node.space.routes("proto", "bird")) == 3)
    everything = node.space.routes()
    # The whole list is filtered here, because `ip route show proto bird` leaves "proto bird" out of its lines.
    assert [line for line in everything if " proto bird" in line] == routes
    # BIRD touched nothing else: connected, default, blackhole and workload routes are as they were.
    assert [line for line in everything if " proto bird" not in line] == before
    assert f"blackhole {node.block} proto 179" in before
    assert f"{node.workload} dev cali1 proto 179 scope link" in before


def test_each_pool_of_a_fleet_goes_its_own_way(fleet: Fleet, network: Network) -> None:
    pools = (
        BirdPool("10.244.2.0/24", "vxlan.calico", block_size=26),
        BirdPool("10.244.3.0/24", "tunl0", block_size=26),
        BirdPool("10.244.0.0/23", block_size=26),
        BirdPool("10.244.4.0/24", block_size=26),
    )
    fleet.start(mesh(network.nodes, *pools))
    space = network.nodes[0].space
    wait_for("three routes", lambda: len(space.routes("proto", "bird")) == 3)
    assert space.routes("proto", "bird") == [
        "10.244.2.0/26 via 10.10.1.12 dev vxlan.calico onlink",
        "10.244.3.0/26 via 10.10.2.13 dev tunl0 onlink",
        "10.244.4.0/26 via 10.10.1.1 dev eth0",
    ]


def test_no_workload_leaves_its_node(fleet: Fleet, network: Network) -> None:
    one = network.nodes[0]
    fleet.start(mesh(network.nodes, pool("vxlan.calico")))
    # Routes that must not be announced: a workload, another program's route in the pool, and one outside the pool.
    foreign = ["10.244.1.7/32", "10.244.77.0/26", "192.168.55.0/24"]
    one.space.ip(*(f"route add {prefix} dev lo proto static" for prefix in foreign))
    try:
        wait_for("BIRD has the workload", lambda: one.workload in fleet["node1"].birdc("show", "route"))
        wait_for("and the route outside", lambda: "192.168.55.0/24" in fleet["node1"].birdc("show", "route"))
        for node in network.nodes[1:]:
            wait_for("three routes", lambda n=node: len(n.space.routes("proto", "bird")) == 3)
            said = fleet["node1"].birdc("show", "route", "export", f"Mesh_{node.address.replace('.', '_')}")
            assert re.findall(r"^(\d+\S+)", said, re.MULTILINE) == [one.block]
            learned = fleet[node.name].birdc("show", "route", "where", "source = RTS_BGP")
            assert sorted(re.findall(r"^(\d+\S+)", learned, re.MULTILINE)) == sorted(
                other.block for other in network.nodes if other is not node
            )
    finally:
        one.space.ip(*(f"route del {prefix} dev lo proto static" for prefix in foreign))


def test_a_new_block_is_announced_by_its_route_alone(fleet: Fleet, network: Network) -> None:
    one, two = network.nodes[:2]
    birds = mesh(network.nodes[:2], pool("vxlan.calico"))
    spare = "10.244.1.64/26"
    fleet.start({**birds, "node1": bird_of(one, birds["node1"].peers, pool("vxlan.calico"), blocks=(one.block, spare))})
    wait_for("the first block", lambda: len(two.space.routes("proto", "bird")) == 1)
    one.space.ip(f"route add blackhole {spare} proto 179")
    try:
        wait_for("the spare block", lambda: len(two.space.routes("proto", "bird")) == 2)
    finally:
        one.space.ip(f"route del blackhole {spare} proto 179")
    wait_for("the spare block is gone", lambda: len(two.space.routes("proto", "bird")) == 1)


def test_the_next_hop_is_the_nodes_own_address(fleet: Fleet, network: Network) -> None:
    """The next hop is the node's own address, also across subnets and beside other addresses on the same device."""
    one, three = network.nodes[0], network.nodes[2]
    # Without an explicit source address, the session across subnets would come from 10.10.1.99.
    one.space.ip("addr add 10.10.1.99/24 dev eth0", f"route replace default via {one.router} src 10.10.1.99")
    try:
        fleet.start(mesh([one, three], pool()))
        wait_for("the block", lambda: one.block in fleet["node3"].birdc("show", "route"))
        shown = fleet["node3"].birdc("show", "route", one.block, "all")
        assert "BGP.next_hop: 10.10.1.11\n" in shown.replace("bgp_next_hop", "BGP.next_hop"), shown
    finally:
        one.space.ip(f"route replace default via {one.router}", "addr del 10.10.1.99/24 dev eth0")


def test_a_block_of_one_address_is_its_workload(fleet: Fleet, network: Network) -> None:
    """A block of one address (blockSize 32) is its workload's own route, which alone is announced."""
    pools = (BirdPool(POOL, "vxlan.calico", block_size=32),)
    birds = mesh(network.nodes[:2], *pools)
    fleet.start(
        {
            node.name: dataclasses.replace(birds[node.name], blocks=(f"{node.workload}/32",))
            for node in network.nodes[:2]
        }
    )
    one, two = network.nodes[:2]
    wait_for("the other's workload", lambda: len(one.space.routes("proto", "bird")) == 1)
    assert one.space.routes("proto", "bird") == [f"{two.workload} via {two.address} dev vxlan.calico onlink"]


def test_a_route_mtu_comes_and_goes_in_place(fleet: Fleet, network: Network) -> None:
    one = network.nodes[0]
    fleet.start(mesh(network.nodes, pool("vxlan.calico")))
    wait_for("three routes", lambda: len(one.space.routes("proto", "bird")) == 3)
    monitor = subprocess.Popen(one.space.command("ip", "monitor", "route"), stdout=subprocess.PIPE, text=True)
    sockets = ("cat", "/proc/net/netlink")
    wait_for("the monitor listens", lambda: monitor_listens(one.space.run(*sockets), monitor.pid))
    try:
        fleet.configure(mesh(network.nodes, pool("vxlan.calico", mtu=1400)))
        expected = [f"{line.replace(' proto bird', '')} mtu 1400" for line in via("vxlan.calico")]
        wait_for("mtu on all routes", lambda: one.space.routes("proto", "bird") == expected)
        fleet.configure(mesh(network.nodes, pool("vxlan.calico")))
        expected = [line.replace(" proto bird", "") for line in via("vxlan.calico")]
        wait_for("mtu gone", lambda: one.space.routes("proto", "bird") == expected)
    finally:
        monitor.kill()
        events, _ = monitor.communicate(timeout=60)
    assert "mtu 1400" in events
    assert "Deleted" not in events


def test_nodes_of_different_as_numbers(fleet: Fleet, network: Network) -> None:
    """Nodes of different AS numbers use eBGP with explicit policies, and none of them becomes a transit."""
    numbers = {"node1": 64601, "node2": 64602, "node3": 64603, "node4": 64604}

    def bird(node):
        peers = [
            peer(node, other)
            for other in network.nodes
            if other is not node and {node.name, other.name} != {"node1", "node4"}
        ]
        peers = [type(one)(**{**vars(one), "as_number": numbers[one.node]}) for one in peers]
        return bird_of(node, peers, pool("vxlan.calico"), as_number=numbers[node.name])

    fleet.start({node.name: bird(node) for node in network.nodes})
    wait_for("two routes", lambda: len(network.nodes[0].space.routes("proto", "bird")) == 2)
    # node1 has no route to node4's block: they have no session, and node2 and node3 pass on no block.
    assert network.nodes[0].space.routes("proto", "bird") == [
        "10.244.2.0/26 via 10.10.1.12 dev vxlan.calico onlink",
        "10.244.3.0/26 via 10.10.2.13 dev vxlan.calico onlink",
    ]


def test_a_router_outside_the_fleet_is_believed_blocks_of_the_pools_alone(fleet: Fleet, network: Network) -> None:
    one, two = network.nodes[:2]
    outside = BirdPeer("Global_10_10_1_12", two.address, 65001, "external", passive=True, multihop=False)
    fleet["node1"].write(bird_of(one, [outside], pool()))
    fleet["node1"].start()
    said = ["10.244.9.0/26", "10.244.9.7/32", "10.244.0.0/16", "10.244.1.8/32", "192.168.7.0/24", "0.0.0.0/0"]
    session = stranger.neighbor("node1", one.address, AS_NUMBER, 65001)
    fleet["node2"].config.write_text(stranger.configuration(two, said, session, direct=True))
    fleet["node2"].start()
    wait_for("a session", lambda: fleet["node2"].established() == 1)
    wait_for("the block", lambda: one.block in fleet["node2"].birdc("show", "route", "protocol", "node1"))
    heard = fleet["node2"].birdc("show", "route", "protocol", "node1")
    assert re.findall(r"^(\d+\S+)", heard, re.MULTILINE) == [one.block]
    wait_for("its block", lambda: one.space.routes("proto", "bird"))
    assert one.space.routes("proto", "bird") == ["10.244.9.0/26 via 10.10.1.12 dev eth0"]
    believed = fleet["node1"].birdc("show", "route", "protocol", "Global_10_10_1_12")
    assert re.findall(r"^(\d+\S+)", believed, re.MULTILINE) == ["10.244.9.0/26"]
