# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of routes, in bulk: those with our protocol number in the main, the probe and all desired tables.

One driver handles both IP versions, which it recognizes by the destination. IPv6 has no scope, and gives a route
without a metric the metric 1024.

A route that changes is replaced in place: no packet finds the table without it. A route of others with the same
destination, table and metric is a conflict and is reported. Only a route of BIRD is taken over, because our own plan
says that the destination is no longer BIRD's.
"""

from __future__ import annotations

import errno
import typing as t

from ...base.addresses import family_of
from ...state.node_state import ROUTE_PROTOCOL, ROUTE_PROTOCOL_NAME, TABLE_MAIN, TABLE_PROBE, Route
from ..change import Change, Failures
from ..driver import DriverStep
from ..kernel.port import (
    METRIC_IPV6,
    PROTOCOL_BIRD,
    SCOPE_LINK,
    SCOPE_UNIVERSE,
    Kernel,
    KernelError,
    RouteAttributes,
    RouteOperation,
)

#: The key of a route: (number of its table, destination CIDR, metric).
Key = tuple[int, str, int]

_PROTOCOL_NAMES = {
    0: "unspec", 1: "redirect", 2: "kernel", 3: "boot", 4: "static", 9: "ra", 10: "mrt", 11: "zebra", 12: "bird",
    13: "dnrouted", 14: "xorp", 15: "ntk", 16: "dhcp", 42: "babel", 80: "80 (Calico's Felix)", 186: "bgp",
    ROUTE_PROTOCOL: ROUTE_PROTOCOL_NAME,
}  # fmt: skip


def protocol_name(number: int) -> str:
    return _PROTOCOL_NAMES.get(number, str(number))


def text(attributes: RouteAttributes) -> str:
    """Return the attributes in words of `ip route`: `via 10.10.1.12 dev tunl0 onlink mtu 1480`.

    Protocol, scope, the usual type, table and metrics are left out. Each of several next hops begins with `nexthop`.
    """
    words = [] if attributes.type == "unicast" else [attributes.type]
    for hop in attributes.next_hops:
        if attributes.multipath:
            words.append("nexthop")
        if hop.gateway:
            words += ["via", hop.gateway]
        if hop.device:
            words += ["dev", hop.device]
        if hop.onlink:
            words.append("onlink")
        if hop.weight > 1:
            words += ["weight", str(hop.weight)]
    if attributes.mtu:
        words += ["mtu", str(attributes.mtu)]
    if attributes.metric not in (0, METRIC_IPV6):
        words += ["metric", str(attributes.metric)]
    if attributes.source:
        words += ["src", attributes.source]
    if attributes.table != TABLE_MAIN:
        words += ["table", str(attributes.table)]
    return " ".join(words)


def _wanted(desired: t.Iterable[Route]) -> dict[Key, RouteAttributes]:
    wanted: dict[Key, RouteAttributes] = {}
    known: dict[t.Any, RouteAttributes] = {}
    last: t.Optional[Route] = None
    last_family6 = False
    attributes = RouteAttributes()
    for route in desired:
        # The attributes are looked up only where a route differs from the previous one in more than its destination.
        family6 = family_of(route.destination) == 6
        if (
            last is None
            or family6 != last_family6
            or route.device != last.device
            or route.gateway != last.gateway
            or route.type != last.type
            or route.table != last.table
            or route.mtu != last.mtu
            or route.onlink != last.onlink
        ):
            shape = (family6, route.device, route.gateway, route.type, route.table, route.mtu, route.onlink)
            attributes = known.get(shape) or known.setdefault(shape, attributes_of(route))
            last, last_family6 = route, family6
        wanted[(route.table, route.destination, attributes.metric)] = attributes
    return wanted


def place(route: Route) -> Key:
    """Return the key of a desired route: (table, destination, metric). The metric is 1024 for IPv6, else 0."""
    return route.table, route.destination, METRIC_IPV6 if family_of(route.destination) == 6 else 0


def attributes_of(route: Route) -> RouteAttributes:
    """Return the attributes with which the kernel will show this route of ours."""
    family6 = family_of(route.destination) == 6
    link = route.type == "unicast" and route.gateway is None and not family6
    return RouteAttributes(
        type=route.type,
        device=route.device,
        gateway=route.gateway,
        onlink=route.onlink,
        mtu=route.mtu,
        table=route.table,
        protocol=ROUTE_PROTOCOL,
        scope=SCOPE_LINK if link else SCOPE_UNIVERSE,
        metric=METRIC_IPV6 if family6 else 0,
    )


def observe(kernel: Kernel, desired: t.Sequence[Route]) -> dict[Key, RouteAttributes]:
    """Return our routes in the main, the probe and all desired tables, and routes of others in place of missing ones.

    The keys are (table, destination, metric).
    """
    tables = {TABLE_MAIN, TABLE_PROBE}
    tables.update({route.table for route in desired})
    observed: dict[Key, RouteAttributes] = {
        (attributes.table, destination, attributes.metric): attributes
        for family in (4, 6)
        for destination, attributes in kernel.routes(protocol=ROUTE_PROTOCOL, family=family)
        if attributes.table in tables
    }
    missing = {key for key in map(place, desired) if key not in observed}
    for table, family in {(table, family_of(destination)) for table, destination, _metric in missing}:
        for destination, attributes in kernel.routes(table=table, family=family):
            key = (table, destination, attributes.metric)
            if key in missing:
                observed[key] = attributes
    return observed


def diff(desired: t.Iterable[Route], observed: t.Mapping[Key, RouteAttributes]) -> list[Change]:
    wanted = _wanted(desired)
    changes: list[Change] = []
    append = changes.append
    added: list[Change] = []
    add = added.append
    texts: dict[int, str] = {}  # {id of attributes: text}; ids stay unique, because `wanted` and `observed` live on

    def words(attributes: RouteAttributes) -> str:
        found = texts.get(id(attributes))
        if found is None:
            found = texts[id(attributes)] = text(attributes)
        return found

    make = Change._make  # three times as fast as calling the class
    shown: t.Optional[RouteAttributes] = None
    after = ""
    for key, want in wanted.items():
        have = observed.get(key)
        if have is None:
            if want is not shown:
                shown, after = want, words(want)
            add(make(("route", "+", key[1], None, after, "", None, want, "")))
        elif have != want:
            if have.protocol in (ROUTE_PROTOCOL, PROTOCOL_BIRD):
                note = "" if have.protocol == ROUTE_PROTOCOL else "taken over from BIRD"
                append(Change("route", "~", key[1], words(have), words(want), note, have, want))
            else:
                append(Change("route", "!", key[1], words(have), words(want), _in_the_way(key[1], have), have, want))
    changes += added
    if len(wanted) != len(observed) or added:  # Otherwise both have the same keys.
        for key, have in sorted((key, observed[key]) for key in observed.keys() - wanted.keys()):
            if have.protocol == ROUTE_PROTOCOL:
                append(Change("route", "-", key[1], words(have), None, "", have, None))
    return changes


def _in_the_way(destination: str, have: RouteAttributes) -> str:
    found = f"{destination} {text(have)} proto {protocol_name(have.protocol)}"
    ip = "ip -6" if family_of(destination) == 6 else "ip"
    return (
        f"A route that is not ours has this destination already: {found}. It was not touched."
        f" Delete it ({ip} route del {destination} proto {have.protocol}) or stop what writes it, then run again."
    )


_ACTIONS = {"+": "add", "~": "replace", "-": "delete"}


def apply(kernel: Kernel, changes: t.Sequence[Change]) -> None:
    """Make all of these changes; a route to delete that is already gone is ignored.

    Raise ApplyError with those that failed, and with conflicts; the others are made.
    """
    failures = Failures()
    operations: list[RouteOperation] = []
    owners: list[Change] = []
    for change in changes:
        action = _ACTIONS.get(change.action)
        if action:
            operations.append(RouteOperation(action, change.subject, change.old if action == "delete" else change.new))
            owners.append(change)
        elif change.action == "!":
            failures.add(change, change.note)
    for position, error in kernel.route_batch(operations):
        operation = operations[position]
        if operation.action == "delete" and error.errno in (errno.ESRCH, errno.ENODEV):
            continue
        failures.add(owners[position], _reason(kernel, operation, error))
    failures.raise_if_any()


def _reason(kernel: Kernel, operation: RouteOperation, error: KernelError) -> str:
    wanted = operation.attributes
    said = f"The kernel said: {error.said}."
    if error.errno == errno.EEXIST:
        family = family_of(operation.destination)
        for destination, attributes in kernel.routes(table=wanted.table, family=family):
            if destination == operation.destination and attributes.metric == wanted.metric:
                return _in_the_way(destination, attributes)
    link = kernel.link(wanted.device) if wanted.device else None
    if wanted.device and link is None:
        return f"There is no device {wanted.device} to route through. {said} Run again to have it made."
    if link is not None and not link.up:
        return f"Device {link.name} is down. {said} Set it up (ip link set {link.name} up), then run again."
    if error.errno == errno.ENETUNREACH:
        return (
            f"The gateway {wanted.gateway} cannot be reached directly through {wanted.device}. {said}"
            " Check the node's address and its interface (ip address), then run again."
        )
    return f"The route {operation.destination} {text(wanted)} was refused. {said}"


def _without(observed: t.Mapping[Key, RouteAttributes], devices: t.Collection[str]) -> dict[Key, RouteAttributes]:
    """Return the routes that do not lead through these devices."""
    return {key: value for key, value in observed.items() if not any(hop.device in devices for hop in value.next_hops)}


STEP: DriverStep[t.Sequence[Route], dict[Key, RouteAttributes]] = DriverStep(
    name="route",
    kinds=("route",),
    stage="routing",
    desired=lambda state: state.routes,
    needs=("route",),
    device=lambda change: change.new.device or "",
    device_up=True,
    without=_without,
)
