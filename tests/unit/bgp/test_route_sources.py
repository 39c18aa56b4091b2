# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The peers that can advertise the route to another node's block to a node."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import route_sources
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer, BirdRoute

ROUTE = BirdRoute("10.244.7.0/26", "", node="node2", next_hop="10.10.2.12")
ROUTE6 = BirdRoute("fd65::/122", "", node="node2", next_hop="fd00::12")
ROUTER = BirdPeer("router", "10.10.1.1", 65000, "external")
ROUTER6 = BirdPeer("router6", "fd00::1", 65000, "external", family=6)
MESH = BirdPeer("mesh", "10.10.2.12", 64512, "mesh", node="node2")
OTHER = BirdPeer("other", "10.10.2.13", 64512, "mesh", node="node3")
CLIENT = BirdPeer("client", "10.10.2.13", 64512, "client", node="node3", cluster_id="1.1.1.1")
REFLECTOR = BirdPeer("reflector", "10.10.9.9", 64512, "reflector")


def bird(*peers: BirdPeer) -> Bird:
    return Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", peers=peers)


def test_routers_of_the_routes_family_bring_what_no_tunnel_leads_to() -> None:
    peers = bird(ROUTER, ROUTER6, MESH)
    assert route_sources.routers(peers, ROUTE) == ("10.10.1.1",)
    assert route_sources.routers(peers, ROUTE6) == ("fd00::1",)
    assert route_sources.routers(peers, BirdRoute("10.244.7.0/26", "10.10.2.12", device="tunl0")) == ()


@pytest.mark.parametrize(
    ("peers", "within"),
    [
        ((), False),
        ((ROUTER,), False),
        ((MESH,), True),  # True here, because the session is with the node that the route comes from
        ((OTHER,), False),  # False: the session is with another node, which passes no routes on
        ((REFLECTOR,), True),
        ((CLIENT,), True),  # True: this node reflects, so other reflectors pass on what they have
        ((CLIENT, OTHER), True),
        ((ROUTER, CLIENT), True),
    ],
)
def test_sessions_within_the_fleet(peers: tuple[BirdPeer, ...], within: bool) -> None:
    assert route_sources.within_fleet(bird(*peers), ROUTE) is within


@pytest.mark.parametrize(("route", "family"), [(ROUTE, 6), (ROUTE6, 4)])
@pytest.mark.parametrize("kind", ["mesh", "reflector"])
def test_a_session_brings_routes_of_its_family(route: BirdRoute, family: int, kind: str) -> None:
    other = BirdPeer("one", "address", 64512, kind, node="node2", family=family)
    assert not route_sources.within_fleet(bird(other), route)
    assert route_sources.within_fleet(bird(dataclasses.replace(other, family=10 - family)), route)


@pytest.mark.parametrize(
    ("gateway", "peers", "alone"),
    [
        ("", (ROUTER,), True),
        ("10.10.1.1", (ROUTER,), False),  # False: packets go to the route's gateway, not through the router
        ("", (ROUTER, MESH), False),
        ("", (MESH,), False),
        ("", (), False),
        ("", (ROUTER6,), False),
    ],
)
def test_routers_alone_bring_what_no_session_of_the_fleet_does(
    gateway: str, peers: tuple[BirdPeer, ...], alone: bool
) -> None:
    route = BirdRoute("10.244.7.0/26", gateway, node="node2", next_hop="10.10.2.12")
    assert route_sources.by_routers_alone(bird(*peers), route) is alone
