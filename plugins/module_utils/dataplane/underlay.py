# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a NodeState leaves open: which interface carries the node's address, and by which routes the underlay forwards.

The underlay's routes are those of the main table that neither BIRD nor this collection wrote: theirs lead to workloads.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ..base.addresses import family_of
from ..state.node_state import ROUTE_PROTOCOL, TABLE_MAIN, NodeState, Route
from .change import ObserveError
from .kernel.lookup import Lookup
from .kernel.port import PROTOCOL_BIRD, Kernel, RouteAttributes

_STEP = 0.25  # seconds between two looks while waiting


def device_of(kernel: Kernel, state: NodeState) -> str:
    """The device that carries the node's own IPv4 address, or its IPv6 address where it has no other.

    Raises ObserveError when there is none.
    """
    return _device(kernel, state, state.address or state.address6)


def device6_of(kernel: Kernel, state: NodeState) -> str:
    """The device that carries the node's own IPv6 address; "" for a node without one. Raises ObserveError."""
    return _device(kernel, state, state.address6) if state.address6 else ""


def _device(kernel: Kernel, state: NodeState, cidr: str) -> str:
    own = cidr.partition("/")[0]
    family = family_of(own)
    devices = [address.device for address in kernel.addresses(family=family) if address.address == own]
    # A node that routes on the host may have its address on lo as well; packets leave by the other one.
    devices.sort(key=lambda device: device == "lo")
    if not devices:
        variable = "calico_node_address_ipv6" if family == 6 else "calico_node_address"
        raise ObserveError(
            f"No network interface of {state.node} has its address {own}."
            f" It is taken from {variable} ({cidr})."
            " Correct that variable, or give the host this address (ip address), then run again."
        )
    return devices[0]


def wait(kernel: Kernel, state: NodeState, seconds: float) -> str:
    """As `device_of`, for addresses that may come late, by a lease, an advertisement or over a bond.

    Raises ObserveError.
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
    """The underlay's routes as read once; nothing is read before the first question."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._lookups: dict[int, Lookup] = {}  # by IP version

    def route(self, address: str) -> t.Optional[RouteAttributes]:
        """The route that the underlay takes to an address, None where it has none or refuses."""
        family = family_of(address)
        if family not in self._lookups:
            others = (PROTOCOL_BIRD, ROUTE_PROTOCOL)
            routes = self._kernel.routes(table=TABLE_MAIN, family=family)
            self._lookups[family] = Lookup(entry for entry in routes if entry[1].protocol not in others)
        found = self._lookups[family].route(address)
        return found if found is not None and found.type == "unicast" else None


def resolve(kernel: Kernel, state: NodeState, device: str) -> NodeState:
    """The state with everything filled in that only the node knows; `device` is the one that `device_of` found.

    Routes by way of an address that the underlay does not reach are left out. Raises ObserveError for a node without
    its IPv6 address.
    """
    hops = NextHops(kernel)
    found = {address: hops.route(address) for address in state.underlay_gateways}
    # What is reached directly is its own gateway.
    gateways = {address: route.gateway or address for address, route in found.items() if route is not None}
    state = state.resolve_underlay(device, gateways, device6_of(kernel, state))
    return dataclasses.replace(state, routes=tuple(_with_device(route, hops) for route in state.routes))


def with_devices(kernel: Kernel, routes: t.Iterable[Route]) -> list[Route]:
    """The same routes; those that name a gateway alone get the device by which the underlay reaches it."""
    hops = NextHops(kernel)
    return [_with_device(route, hops) for route in routes]


def _with_device(route: Route, hops: NextHops) -> Route:
    """A route with a gateway alone gets the device that the kernel would choose: it is compared by it later."""
    if route.device or not route.gateway:
        return route
    best = hops.route(route.gateway)
    return dataclasses.replace(route, device=best.device if best else None)
