# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The changes that BIRD will make to its routes. This module only reads the kernel and imports no registry."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import family_of, network, within
from ...bgp import route_sources
from ...bgp.bird_state import Bird, BirdRoute
from ...state.node_state import TABLE_MAIN, NodeState
from .. import underlay
from ..change import Change
from ..drivers import route
from ..kernel.port import METRIC_IPV6, PROTOCOL_BIRD, Kernel, NextHop, RouteAttributes


def bird_changes(kernel: Kernel, state: NodeState) -> t.Iterator[Change]:
    """Yield the changes that BIRD will make by itself to its routes within the fleet's pools for `state`.

    Nothing is yielded once BIRD has exactly the routes that `state` expects. A route by any router outside of the fleet
    that may advertise it is as expected, too. `state` need not have the underlay's device and gateways.
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
        if have is None:
            yield Change("route", "+", destination, None, route.text(want), "proto bird", None, want)
        elif not _is_as_expected(have, want, routers[destination]):
            yield Change("route", "~", destination, route.text(have), route.text(want), "proto bird", have, want)
    for destination, have in found.items():
        if destination not in wanted:
            yield Change("route", "-", destination, route.text(have), None, "proto bird", have)


def unwritten(kernel: Kernel, state: NodeState) -> dict[str, str]:
    """Return {destination (CIDR): device} of BIRD's routes through present tunnel devices that the kernel lacks."""
    tunnelled = {route.destination: route.device for route in state.bird_routes if route.device}
    for family in {family_of(destination) for destination in tunnelled}:
        for destination, _attributes in kernel.routes(table=TABLE_MAIN, protocol=PROTOCOL_BIRD, family=family):
            tunnelled.pop(destination, None)
    present = {device for device in set(tunnelled.values()) if kernel.link(device) is not None}
    return {destination: device for destination, device in tunnelled.items() if device in present}


def _by_router(expected: BirdRoute, bird: t.Optional[Bird]) -> BirdRoute:
    """Return `expected` via the first router outside the fleet; unchanged if there is none, or the fleet brings it."""
    if bird is None or route_sources.within_fleet(bird, expected):
        return expected
    via = next(iter(route_sources.routers(bird, expected)), None)
    return expected if via is None else dataclasses.replace(expected, gateway=via)


def _is_as_expected(have: RouteAttributes, want: RouteAttributes, routers: t.Collection[str]) -> bool:
    """Return whether BIRD's route `have` leads where `want` does, in any order of next hops, or by `routers`.

    BIRD chooses among the routers outside of the fleet, may prefer their routes to one of a session in the fleet, and
    uses equal ones together. Any link-local gateway counts as a router's, unless `routers` is empty: IPv6 routes have
    the routers' link-local addresses (RFC 2545, section 3).
    """
    if (have.type, have.mtu) != (want.type, want.mtu):
        return False
    if have.next_hops == want.next_hops:  # nearly always, and a fleet has many routes
        return True
    wanted, found = set(want.next_hops), set(have.next_hops)
    if found == wanted:
        return True
    return bool(routers) and all(hop in wanted or _is_via(hop, routers) for hop in found)


def _is_via(hop: NextHop, routers: t.Collection[str]) -> bool:
    return not hop.onlink and (hop.gateway in routers or (hop.gateway or "").startswith("fe80:"))


def _bird_attributes(expected: BirdRoute, hops: underlay.NextHops) -> RouteAttributes:
    """Return the attributes with which the kernel will show this route of BIRD.

    Without a tunnel, the underlay's route to the next hop decides device and gateway; without one the device is None.
    """
    metric = METRIC_IPV6 if family_of(expected.destination) == 6 else 0
    attributes = RouteAttributes(mtu=expected.mtu, protocol=PROTOCOL_BIRD, onlink=expected.onlink, metric=metric)
    if expected.device:
        return attributes._replace(device=expected.device, gateway=expected.gateway)
    next_hop = expected.gateway or expected.next_hop
    best = hops.route(next_hop)
    if best is None:
        return attributes._replace(gateway=next_hop)
    return attributes.over([hop._replace(gateway=hop.gateway or next_hop, onlink=False) for hop in best.next_hops])
