# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes that BIRD may have from routers outside the fleet: switches, which give themselves as next hops."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer, BirdRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    NewLink,
    NextHop,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.bird_routes import bird_changes
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, Pool

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import OWN, underlay, write_route

FAR, NEAR = "10.244.3.0/26", "10.244.2.0/26"
ROUTES = (
    BirdRoute(NEAR, "10.10.1.12", node="node2", next_hop="10.10.1.12"),
    BirdRoute(FAR, "", node="node3", next_hop="10.10.2.13"),
)
TORS = tuple(BirdPeer(f"Node_10_10_1_{last}", f"10.10.1.{last}", 65101, "external", multihop=False) for last in (2, 3))
NEIGHBOUR = BirdPeer("Node_10_10_1_12", "10.10.1.12", 64601, "node", node="node2")


def state(*peers: BirdPeer, routes: tuple[BirdRoute, ...] = ROUTES) -> NodeState:
    bird = Bird(OWN, OWN, 64601, "10.10.1.0/24", peers=peers)
    pool = Pool("default-pool", "10.244.0.0/16", 26, "None", True)
    return NodeState(node="node1", address=f"{OWN}/24", pools=(pool,), bird=bird, bird_routes=routes)


@pytest.fixture
def kernel() -> FakeKernel:
    kernel = FakeKernel()
    underlay(kernel)
    return kernel


def changes(kernel: FakeKernel, wanted: NodeState) -> list[str]:
    return [change.line() for change in bird_changes(kernel, wanted)]


def have(kernel: FakeKernel, destination: str, gateway: str, **more: object) -> None:
    write_route(kernel, destination, RouteAttributes(device="eth0", gateway=gateway, protocol=12, **more))


def test_the_plan_shows_a_router_where_no_session_of_the_fleet_brings_the_route(kernel: FakeKernel) -> None:
    assert changes(kernel, state(NEIGHBOUR, *TORS)) == [
        f"+ route    {NEAR}  via 10.10.1.12 dev eth0    proto bird",
        f"+ route    {FAR}  via 10.10.1.2 dev eth0    proto bird",
    ]


@pytest.mark.parametrize("gateway", ["10.10.1.2", "10.10.1.3"])
def test_any_of_the_routers_will_do(kernel: FakeKernel, gateway: str) -> None:
    have(kernel, NEAR, "10.10.1.12")
    have(kernel, FAR, gateway)
    assert changes(kernel, state(NEIGHBOUR, *TORS)) == []


def test_so_it_is_beside_a_session_of_the_fleet(kernel: FakeKernel) -> None:
    """With a reflector, the underlay's router is the expected gateway, and a switch as gateway is accepted too."""
    reflector = BirdPeer("Node_10_10_1_4", "10.10.1.4", 64601, "reflector", node="rr1")
    assert changes(kernel, state(reflector, *TORS)) == [
        f"+ route    {NEAR}  via 10.10.1.12 dev eth0    proto bird",
        f"+ route    {FAR}  via 10.10.1.1 dev eth0    proto bird",
    ]
    have(kernel, NEAR, "10.10.1.12")
    have(kernel, FAR, "10.10.1.3")
    assert changes(kernel, state(reflector, *TORS)) == []


def test_reflectors_know_each_others_clients() -> None:
    """A node that reflects expects far blocks by the underlay's router: it learns them from the other reflector."""
    kernel = FakeKernel()
    underlay(kernel)
    client = BirdPeer("Node_10_10_1_12", "10.10.1.12", 64601, "client", node="node2", cluster_id="244.0.0.1")
    other = BirdPeer("Mesh_10_10_2_4", "10.10.2.4", 64601, "mesh", node="rr2")
    assert changes(kernel, state(client, other, *TORS))[1].startswith(f"+ route    {FAR}  via 10.10.1.1 ")


def test_a_route_by_a_gateway_that_is_no_router_is_a_difference(kernel: FakeKernel) -> None:
    have(kernel, NEAR, "10.10.1.12")
    have(kernel, FAR, "10.10.1.1")
    wrong = f"~ route    {FAR}  via 10.10.1.1 dev eth0  ->  via 10.10.1.2 dev eth0    proto bird"
    assert changes(kernel, state(NEIGHBOUR, *TORS)) == [wrong]


def test_a_route_with_a_different_mtu_is_a_difference(kernel: FakeKernel) -> None:
    have(kernel, FAR, "10.10.1.2", mtu=1400)
    wrong = f"~ route    {FAR}  via 10.10.1.2 dev eth0 mtu 1400  ->  via 10.10.1.2 dev eth0    proto bird"
    assert changes(kernel, state(*TORS, routes=ROUTES[1:])) == [wrong]


def test_no_router_is_taken_for_the_end_of_a_tunnel(kernel: FakeKernel) -> None:
    route = BirdRoute(FAR, "10.10.2.13", "vxlan.calico", True, "node3", next_hop="10.10.2.13")
    have(kernel, FAR, "10.10.1.2")
    assert changes(kernel, state(*TORS, routes=(route,))) == [
        f"~ route    {FAR}  via 10.10.1.2 dev eth0  ->  via 10.10.2.13 dev vxlan.calico onlink    proto bird"
    ]


def test_ipv6_is_by_the_routers_link_local_address(kernel: FakeKernel) -> None:
    route = BirdRoute("fd00:10:244:3::/122", "", node="node3", next_hop="fd00:10:10:2::13")
    tor = BirdPeer("Node_fd00_10_10_1__2", "fd00:10:10:1::2", 65101, "external", multihop=False, family=6)
    wanted = state(*TORS, tor, routes=(route,))
    write_route(kernel, route.destination, RouteAttributes(device="eth0", gateway="fe80::1", protocol=12, metric=1024))
    pool6 = Pool("v6", "fd00:10:244::/48", 122, "None", False)
    assert changes(kernel, dataclasses.replace(wanted, pools=(pool6,))) == []


def by(kernel: FakeKernel, destination: str, *gateways: str, **more: object) -> None:
    several = RouteAttributes(protocol=12, **more).over([NextHop("eth0", gateway) for gateway in gateways])
    write_route(kernel, destination, several)


@pytest.mark.parametrize("gateways", [("10.10.1.2", "10.10.1.3"), ("10.10.1.3", "10.10.1.2")])
def test_equal_paths_by_both_routers_are_as_expected(kernel: FakeKernel, gateways: tuple[str, ...]) -> None:
    by(kernel, FAR, *gateways)
    assert changes(kernel, state(*TORS, routes=ROUTES[1:])) == []


def test_a_next_hop_that_is_no_router_is_a_difference_wherever_it_is(kernel: FakeKernel) -> None:
    """A stranger that announces the block beside the routers would get a part of the flows."""
    for gateways in (("10.10.1.2", "10.10.1.66"), ("10.10.1.66", "10.10.1.3")):
        by(kernel, FAR, *gateways)
        (found,) = changes(kernel, state(*TORS, routes=ROUTES[1:]))
        shown = f"nexthop via {gateways[0]} dev eth0 nexthop via {gateways[1]} dev eth0"
        assert found == f"~ route    {FAR}  {shown}  ->  via 10.10.1.2 dev eth0    proto bird"
        (old,) = (attributes for destination, attributes in kernel.routes(protocol=12) if destination == FAR)
        assert kernel.route_batch([RouteOperation("delete", FAR, old)]) == []


def test_a_second_next_hop_of_a_tunnelled_route_is_a_difference(kernel: FakeKernel) -> None:
    """Copies of one path have one next hop; two nodes that announce one block would share its flows."""
    kernel.link_add(NewLink("vxlan.calico", "veth", peer_name="wire1"))
    kernel.link_set("wire1", up=True)
    kernel.link_set("vxlan.calico", up=True)
    tunnelled = BirdRoute(FAR, "10.10.2.13", "vxlan.calico", True, "node3", next_hop="10.10.2.13")
    right = NextHop("vxlan.calico", "10.10.2.13", True)
    write_route(kernel, FAR, RouteAttributes(protocol=12).over([right, right._replace(gateway="10.10.2.14")]))
    one, other = (f"via 10.10.2.{last} dev vxlan.calico onlink" for last in (13, 14))
    assert changes(kernel, state(*TORS, routes=(tunnelled,))) == [
        f"~ route    {FAR}  nexthop {one} nexthop {other}  ->  {one}    proto bird"
    ]


def test_all_next_hops_of_the_underlays_route_are_expected(kernel: FakeKernel) -> None:
    """BIRD resolves a next hop in another subnet by the host's own route, with all of that route's next hops."""
    (old,) = (attributes for destination, attributes in kernel.routes() if destination == "0.0.0.0/0")
    both = old.over([NextHop("eth0", "10.10.1.1"), NextHop("eth0", "10.10.1.4", weight=2)])
    assert kernel.route_batch([RouteOperation("replace", "0.0.0.0/0", both)]) == []
    mesh = BirdPeer("Mesh_10_10_2_13", "10.10.2.13", 64601, "mesh", node="node3")
    wanted = state(mesh, routes=ROUTES[1:])
    hops = "nexthop via 10.10.1.1 dev eth0 nexthop via 10.10.1.4 dev eth0 weight 2"
    assert changes(kernel, wanted) == [f"+ route    {FAR}  {hops}    proto bird"]
    write_route(kernel, FAR, RouteAttributes(protocol=12).over(both.multipath[::-1]))
    assert changes(kernel, wanted) == []


def test_ipv6_equal_paths_are_by_link_local_addresses(kernel: FakeKernel) -> None:
    route = BirdRoute("fd00:10:244:3::/122", "", node="node3", next_hop="fd00:10:10:2::13")
    tor = BirdPeer("Node_fd00_10_10_1__2", "fd00:10:10:1::2", 65101, "external", multihop=False, family=6)
    wanted = dataclasses.replace(
        state(*TORS, tor, routes=(route,)), pools=(Pool("v6", "fd00:10:244::/48", 122, "None", False),)
    )
    by(kernel, route.destination, "fe80::1", "fe80::2", metric=1024)
    assert changes(kernel, wanted) == []
