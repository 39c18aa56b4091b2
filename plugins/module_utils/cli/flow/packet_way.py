# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The path by which a node sends to an address, by its NodeState: to a workload, through a tunnel, direct. No I/O."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import contains, family_of
from ...bgp import route_sources
from ...bgp.bird_state import BirdRoute
from ...state.derived import outgoing_nat
from ...state.fleet_list import FleetMember
from ...state.node_state import TABLE_MAIN, NodeState, Route

#: The values of Leg.kind.
WORKLOAD, HOST, TUNNEL, DIRECT, NOWHERE, OUTSIDE = "workload", "host", "tunnel", "direct", "nowhere", "outside"

_NAMES = {"ipip": "IPIP", "vxlan": "VXLAN"}


@dataclasses.dataclass(frozen=True)
class Leg:
    """The path of a packet from a node to an address.

    `kind`: "workload", one of the node's own behind `device`; "host", the node itself; "tunnel", through `device` to
    `next_hop`; "direct", over the underlay to `next_hop`; "nowhere", an address in a pool to which no route leads, or
    one that a route of this node drops; "outside", an address outside the fleet, or of an IP version that this node has
    no address of. `node` is the node at the end, this one if its route drops the packet. `next_hop` is the underlay
    address that the packet is sent to. Texts are "" for none. `mtu` is the greatest packet in bytes, before
    encapsulation, None if no limit is known.
    """

    kind: str
    node: str = ""
    device: str = ""
    next_hop: str = ""
    encapsulation: str = ""  # IPIP or VXLAN if the leg is a tunnel, else ""
    gateway: str = ""  # the route's gateway; "" if it has none: a direct leg then follows the underlay's routing
    destination: str = ""  # the destination (CIDR) of the state's route that decided; "" if none did
    mtu: t.Optional[int] = None
    routers: tuple[str, ...] = ()  # addresses of routers outside of the fleet that alone bring the route


def leg_to(state: NodeState, address: str) -> Leg:
    """Return the node's path to `address`, canonical text of either family.

    Addresses of this node and of other nodes come first, then the route with the longest prefix. If the node has no
    address of its own of this IP version, the address counts as outside.
    """
    if not own_address(state, address):
        return Leg(OUTSIDE)
    own = {own_address(state, address), *(device.address for device in state.devices)}
    if address in own:
        return Leg(HOST, state.node)
    member = member_at(state, address)
    if member is not None:
        return Leg(DIRECT, member.name, next_hop=address, gateway=address, mtu=state.underlay_mtu)
    routes: list[t.Union[Route, BirdRoute]] = [route for route in state.routes if route.table == TABLE_MAIN]
    routes += state.bird_routes
    leading = [route for route in routes if contains(route.destination, address)]
    if leading:
        return _leg(state, max(leading, key=lambda route: int(route.destination.partition("/")[2])))
    if any(contains(pool.cidr, address) for pool in state.pools):
        return Leg(NOWHERE)
    return Leg(OUTSIDE, mtu=state.underlay_mtu)


def _leg(state: NodeState, route: t.Union[Route, BirdRoute]) -> Leg:
    if isinstance(route, Route) and route.type != "unicast":
        return Leg(NOWHERE, state.node, destination=route.destination)
    workload = next((one for one in state.endpoints if one.interface == route.device), None)
    if workload is not None:
        return Leg(WORKLOAD, state.node, workload.interface, destination=route.destination, mtu=workload.mtu)
    gateway = route.gateway or ""
    if gateway.startswith("{"):  # UNDERLAY_GATEWAY, a placeholder for the underlay's gateway to a next hop
        next_hop, gateway = gateway[1:-1].rpartition(" ")[2], ""
    else:
        next_hop = (route.next_hop if isinstance(route, BirdRoute) else "") or gateway
    device = next((one for one in state.devices if one.name == route.device), None)
    if device is None:
        node = _name(member_at(state, next_hop))
        mtu = route.mtu or state.underlay_mtu
        routers = _routers(state, route) if isinstance(route, BirdRoute) else ()
        return Leg(DIRECT, node, "", next_hop, "", gateway, route.destination, mtu, routers)
    remote = _far_end(state, device.name, gateway)
    return Leg(
        TUNNEL,
        _name(member_at(state, remote)),
        device.name,
        remote,
        _NAMES.get(device.kind, device.kind),
        gateway,
        route.destination,
        min(route.mtu or device.mtu, device.mtu),
    )


def _routers(state: NodeState, route: BirdRoute) -> tuple[str, ...]:
    if state.bird is None or not route_sources.by_routers_alone(state.bird, route):
        return ()
    return route_sources.routers(state.bird, route)


def _far_end(state: NodeState, device: str, gateway: str) -> str:
    """Return the underlay address that packets for `gateway` are encapsulated to: by VXLAN's FDB, else `gateway`."""
    mac = next((one.mac for one in state.neighbors if (one.device, one.address) == (device, gateway)), "")
    return next((one.destination for one in state.fdb if mac and (one.device, one.mac) == (device, mac)), gateway)


def member_at(state: NodeState, address: str) -> t.Optional[FleetMember]:
    """Return the node of the fleet, this one included, whose underlay address is `address`; None if there is none.

    `address` is canonical text of either family, without a prefix length. Tunnel addresses are not looked at.
    """
    held = "address6" if family_of(address) == 6 else "address"
    return next((member for member in state.nodes if getattr(member, held).partition("/")[0] == address), None)


def own_address(state: NodeState, like: str) -> str:
    """Return the node's own address of the same family as `like`, without a prefix length; "" if it has none."""
    return (state.address6 if family_of(like) == 6 else state.address).partition("/")[0]


def _name(member: t.Optional[FleetMember]) -> str:
    return member.name if member else ""


def masqueraded(state: NodeState, source: str, destination: str) -> bool:
    """Return whether natOutgoing replaces `source` on the way to `destination`, exempt ports aside.

    It does if a pool that contains `source` has it, no pool contains `destination`, and it is not the address of a node
    that `state` excludes.
    """
    if member_at(state, destination) is not None and outgoing_nat.excludes_hosts(state, family_of(destination)):
        return False
    pools = [pool for pool in state.pools if contains(pool.cidr, source)]
    outside = not any(contains(pool.cidr, destination) for pool in state.pools)
    return outside and any(pool.nat_outgoing for pool in pools)


def hop_text(leg: Leg, device: str = "", back_to: str = "") -> str:
    """Return the step between two nodes: `tunl0 (IPIP to 10.10.2.14)`, `eth0 (direct to 10.10.1.12)`.

    Without a gateway it is `eth0 (by the underlay's routing to ...)`, or `eth0 (by 10.10.1.2 or 10.10.1.3 to ...)` if
    routers outside of the fleet decide. Without the underlay's `device`, or with `back_to`, a direct step is only the
    words in parentheses. With `back_to`, it is that of packets from there to that address.
    """
    if leg.kind == TUNNEL:
        return f"{leg.device} ({leg.encapsulation} to {back_to or leg.next_hop})"
    how = f"direct to {back_to or leg.next_hop}"
    if not leg.gateway:
        by = " or ".join(leg.routers) if leg.routers and not back_to else "the underlay's routing"
        how = f"by {by} to {back_to or leg.next_hop}"
    return f"{device} ({how})" if device and not back_to else how
