# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The underlay, which a NodeState leaves open: the interface with the node's address, and the routes between nodes.

The underlay's routes are those of the main table that neither BIRD nor this collection wrote. ObserveError is raised if
an address of the node is on no interface.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ..base.addresses import family_of, network
from ..state.node_state import ROUTE_PROTOCOL, TABLE_MAIN, UNDERLAY_GATEWAY, NodeState, Route
from .change import ObserveError
from .kernel.lookup import Lookup
from .kernel.port import PROTOCOL_BIRD, InterfaceAddress, Kernel, RouteAttributes

_STEP = 0.25  # seconds between two attempts while waiting


def device_of(kernel: Kernel, state: NodeState) -> str:
    """Return the name of the interface with the node's own address: IPv4, or IPv6 if it has no IPv4 address.

    The result is `lo` only if no other interface has it. Raise ObserveError if none has it.
    """
    return _device(kernel, state, state.address or state.address6)


def device6_of(kernel: Kernel, state: NodeState) -> str:
    """Return the interface with the node's IPv6 address, as `device_of` does; "" for a node without one."""
    return _device(kernel, state, state.address6) if state.address6 else ""


def _device(kernel: Kernel, state: NodeState, cidr: str) -> str:
    own = cidr.partition("/")[0]
    family = family_of(own)
    held = kernel.addresses(family=family)
    devices = [address.device for address in held if address.address == own]
    # A node that routes on the host may have its address on lo as well, but packets leave by the other interface.
    devices.sort(key=lambda device: device == "lo")
    if not devices:
        variable = "calico_node_address_ipv6" if family == 6 else "calico_node_address"
        raise ObserveError(
            f"No network interface of {state.node} has its address {own}."
            f" It is taken from {variable} ({cidr}).{_instead(held, cidr)}"
            " Correct that variable, or give the host this address (ip address), then run again."
        )
    return devices[0]


def _instead(held: t.Iterable[InterfaceAddress], cidr: str) -> str:
    """Return a space and a sentence with the host's first other address in the subnet of `cidr`; "" without one."""
    subnet = network(cidr)
    for other in held:
        if other.device != "lo" and subnet.holds(network(other.address)):
            leased = "" if other.permanent else ", with a lifetime: reserve one address for this host in DHCP"
            return f" {other.device} has {other.address}/{other.prefix_length} instead{leased}."
    return ""


def wait(kernel: Kernel, state: NodeState, seconds: float) -> str:
    """Return `device_of`, after waiting up to about `seconds` for the node's addresses to appear.

    Addresses may come late, by DHCP, a router advertisement or a bond. This blocks. Raise ObserveError if an IPv4 or
    IPv6 address of the node is still missing at the end.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            device6_of(kernel, state)
            return device_of(kernel, state)
        except ObserveError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_STEP)


class NextHops:
    """The underlay's routes, read once for each IP version, at the first question; later changes are not seen."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._lookups: dict[int, Lookup] = {}  # by IP version

    def route(self, address: str) -> t.Optional[RouteAttributes]:
        """Return the route that the underlay takes to `address`, or None if there is none or it is not unicast."""
        family = family_of(address)
        if family not in self._lookups:
            others = (PROTOCOL_BIRD, ROUTE_PROTOCOL)
            routes = self._kernel.routes(table=TABLE_MAIN, family=family)
            self._lookups[family] = Lookup(entry for entry in routes if entry[1].protocol not in others)
        found = self._lookups[family].route(address)
        return found if found is not None and found.type == "unicast" else None


def resolve(kernel: Kernel, state: NodeState, device: str) -> NodeState:
    """Return `state` completed with what only the node knows; `device` is the result of `device_of`.

    In routes and sysctls, the underlay's devices and gateways replace their placeholders
    (`NodeState.resolve_underlay`). A route with a placeholder for the gateway to an address that the underlay does not
    reach is left out. A route with a gateway and no device gets the underlay's device to that gateway, or to the
    placeholder's address; it stays None if the underlay does not reach it. Raise ObserveError if no interface has the
    node's IPv6 address.
    """
    hops = NextHops(kernel)
    found = {address: hops.route(address) for address in state.underlay_gateways}
    # An address that is reached directly is its own gateway.
    gateways = {address: route.gateway or address for address, route in found.items() if route is not None}
    # A link-local gateway does not say through which device it is reached; the route to the address does.
    devices = {UNDERLAY_GATEWAY.format(address): route.device for address, route in found.items() if route is not None}
    through = (
        dataclasses.replace(route, device=devices[route.gateway])
        if not route.device and route.gateway in devices
        else route
        for route in state.routes
    )
    state = dataclasses.replace(state, routes=tuple(through))
    state = state.resolve_underlay(device, gateways, device6_of(kernel, state))
    return dataclasses.replace(state, routes=tuple(_with_device(route, hops) for route in state.routes))


def with_devices(kernel: Kernel, routes: t.Iterable[Route]) -> list[Route]:
    """Return these routes, each one that names only a gateway with the device by which the underlay reaches it.

    The device stays None if the underlay does not reach the gateway.
    """
    hops = NextHops(kernel)
    return [_with_device(route, hops) for route in routes]


def _with_device(route: Route, hops: NextHops) -> Route:
    """Return `route` with the underlay's device to its gateway if it has only a gateway, else unchanged."""
    if route.device or not route.gateway:
        return route
    best = hops.route(route.gateway)
    return dataclasses.replace(route, device=best.device if best else None)
