# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a NodeState leaves open: which interface carries the node's address, and which gateways the underlay uses."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ..dataplane.change import ObserveError
from ..dataplane.kernel import PROTOCOL_BIRD, Kernel
from ..dataplane.node import underlay_of
from ..fleet.node_state import ROUTE_PROTOCOL, TABLE_MAIN, NodeState, Route

_STEP = 0.25  # seconds between two looks while waiting


def wait(kernel: Kernel, state: NodeState, seconds: float) -> str:
    """The device with the node's address, which may come late, by a lease or over a bond. Raises ObserveError."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return underlay_of(kernel, state)
        except ObserveError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_STEP)


def next_hops(kernel: Kernel, addresses: t.Collection[str]) -> dict[str, tuple[str, t.Optional[str]]]:
    """{address: (gateway, device) by which the underlay reaches it}; what is reached directly is its own gateway.

    Goes by the longest prefix in the main table, without what BIRD or we wrote: those routes lead to workloads.
    """
    if not addresses:
        return {}
    routes = [
        (*_number(destination), attributes)
        for destination, attributes in kernel.routes(table=TABLE_MAIN)
        if attributes.protocol not in (PROTOCOL_BIRD, ROUTE_PROTOCOL)
    ]
    found = {}
    for address in addresses:
        wanted = _number(address)[0]
        best: t.Any = None
        for network, length, attributes in routes:
            if wanted >> (32 - length) == network >> (32 - length):
                rank = (length, -attributes.metric)
                if best is None or rank > best[0]:
                    best = (rank, attributes)
        if best is not None and best[1].type == "unicast":
            found[address] = (best[1].gateway or address, best[1].device)
    return found


def resolve(kernel: Kernel, state: NodeState) -> NodeState:
    """The state with the next hops filled in that only the node knows. Raises ObserveError.

    A route that names a gateway and no device gets the one that the kernel would choose: it is compared by it later.
    """
    if not any(route.gateway and not route.device for route in state.routes):
        return state  # the drivers' plan knows about the underlay's device
    hops = next_hops(kernel, state.underlay_gateways)
    state = state.resolve_underlay(underlay_of(kernel, state), {address: hop[0] for address, hop in hops.items()})
    return dataclasses.replace(state, routes=tuple(with_devices(kernel, state.routes)))


def with_devices(kernel: Kernel, routes: t.Sequence[Route]) -> list[Route]:
    """The same routes; those that name a gateway alone get the device by which the underlay reaches it."""
    open_ = {route.gateway for route in routes if route.gateway and not route.device}
    devices = {address: hop[1] for address, hop in next_hops(kernel, open_).items()}
    return [
        dataclasses.replace(route, device=devices.get(route.gateway)) if route.gateway and not route.device else route
        for route in routes
    ]


def _number(cidr: str) -> tuple[int, int]:
    address, length = cidr.split("/") if "/" in cidr else (cidr, "32")
    a, b, c, d = address.split(".")
    return int(a) << 24 | int(b) << 16 | int(c) << 8 | int(d), int(length)
