# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the routes of BIRD will differ from today's. Read alone: neither drivers nor the registry are imported for it."""

from __future__ import annotations

import dataclasses
import typing as t

from ..bgp import route_sources
from ..bgp.bird_state import Bird, BirdRoute
from ..state.node_state import TABLE_MAIN, NodeState
from . import underlay
from .change import Change
from .drivers import route
from .kernel.lookup import network, within
from .kernel.port import METRIC_IPV6, PROTOCOL_BIRD, Kernel, RouteAttributes


def bird_changes(kernel: Kernel, state: NodeState) -> t.Iterator[Change]:
    """How BIRD's routes inside the fleet's pools will change by themselves once it runs with this state.

    None are left when BIRD is done. `state` may still leave the underlay open.
    """
    pools = [network(pool.cidr) for pool in state.pools]
    found = {
        destination: attributes
        for family in (4, 6)
        for destination, attributes in kernel.routes(table=TABLE_MAIN, protocol=PROTOCOL_BIRD, family=family)
        if any(within(destination, pool) for pool in pools)
    }
    hops = underlay.NextHops(kernel)
    wanted: dict[str, RouteAttributes] = {}
    routers: dict[str, tuple[str, ...]] = {}
    for expected in state.bird_routes:
        routers[expected.destination] = route_sources.routers(state.bird, expected) if state.bird else ()
        wanted[expected.destination] = _bird_attributes(_by_router(expected, state.bird), hops)
    for destination, want in wanted.items():
        have = found.get(destination)
        if have is not None and _is_via(have, routers[destination], want.mtu):
            continue  # which of the routers it is, and whether one is better than the fleet's own session, BIRD decides
        if have is None:
            yield Change("route", "+", destination, None, route.text(want), "proto bird", None, want)
        elif (have.type, have.device, have.gateway, have.onlink, have.mtu) != (
            want.type,
            want.device,
            want.gateway,
            want.onlink,
            want.mtu,
        ):
            yield Change("route", "~", destination, route.text(have), route.text(want), "proto bird", have, want)
    for destination, have in found.items():
        if destination not in wanted:
            yield Change("route", "-", destination, route.text(have), None, "proto bird", have)


def _by_router(expected: BirdRoute, bird: t.Optional[Bird]) -> BirdRoute:
    """Via the first of the routers outside the fleet, where none of the fleet's own sessions brings the route."""
    if bird is None or route_sources.within_fleet(bird, expected):
        return expected
    via = next(iter(route_sources.routers(bird, expected)), None)
    return expected if via is None else dataclasses.replace(expected, gateway=via)


def _is_via(have: RouteAttributes, routers: t.Collection[str], mtu: t.Optional[int]) -> bool:
    """Whether the route is via one of these routers; of IPv6 it has their link-local address (RFC 2545, section 3)."""
    if not routers or (have.type, have.onlink, have.mtu) != ("unicast", False, mtu):
        return False
    return have.gateway in routers or (have.gateway or "").startswith("fe80:")


def _bird_attributes(expected: BirdRoute, hops: underlay.NextHops) -> RouteAttributes:
    """As the kernel will show it: without a tunnel the node's own routes decide device and gateway."""
    metric = METRIC_IPV6 if ":" in expected.destination else 0
    attributes = RouteAttributes(mtu=expected.mtu, protocol=PROTOCOL_BIRD, onlink=expected.onlink, metric=metric)
    if expected.device:
        return attributes._replace(device=expected.device, gateway=expected.gateway)
    next_hop = expected.gateway or expected.next_hop
    best = hops.route(next_hop)
    if best is None:
        return attributes._replace(gateway=next_hop)
    return attributes._replace(device=best.device, gateway=best.gateway or next_hop)
