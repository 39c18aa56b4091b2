# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole node: the plan that brings the kernel to a NodeState, and its application in an order that cuts nothing off.

    plan = plan_node(kernel, state)        # reads only, standard library alone
    print("\\n".join(plan.lines()))
    apply_node(kernel, plan, bird=...)     # bird: called when all additions stand, before anything is removed

Order of the additions: sets filled, iptables, sets drained, devices and workloads, sysctls, workloads set up,
neighbours and forwarding entries, rules, routes. Then BIRD. Then removals in the reverse order. Nothing is removed
unless all additions stand.
"""

from __future__ import annotations

import dataclasses
import types
import typing as t

from ..base.addresses import family_of, network, within
from ..bgp import route_sources
from ..bgp.bird_state import Bird, BirdRoute
from ..state.node_state import TABLE_MAIN, NodeState
from . import underlay
from .change import ApplyError, Change, Failures
from .drivers import ipset, iptables, neighbor, route, rule, sysctl, tunnel, workload
from .kernel.port import METRIC_IPV6, PROTOCOL_BIRD, Kernel, RouteAttributes


class _Group(t.NamedTuple):
    """Changes of one driver. Groups of additions stand in the order of their application."""

    name: str  # in DRIVERS
    driver: t.Any  # with apply(kernel, changes)
    changes: list[Change]


@dataclasses.dataclass(frozen=True)
class NodePlan:
    """What differs between a NodeState and a node.

    `state` is the desired state with all that only the node knows filled in; `underlay` is the device of the node's
    address. `additions` and `removals` are what apply_node does, in its order; `expected` is what BIRD will do on its
    own; `kept` is what stays although nothing desires it, and why.
    """

    state: NodeState
    underlay: str
    additions: tuple[Change, ...] = ()
    removals: tuple[Change, ...] = ()
    expected: tuple[Change, ...] = ()
    kept: tuple[Change, ...] = ()
    groups: tuple[_Group, ...] = dataclasses.field(default=(), repr=False, compare=False)

    @property
    def changes(self) -> tuple[Change, ...]:
        """What apply_node does: additions and removals."""
        return self.additions + self.removals

    @property
    def problems(self) -> tuple[Change, ...]:
        """What stands in the way; apply_node fails with these after it has done all the rest of the additions."""
        return tuple(change for change in self.additions if change.action == "!")

    @property
    def changed(self) -> bool:
        """Whether apply_node would do anything (`expected` and `kept` do not count)."""
        return bool(self.additions or self.removals)

    def shown(self) -> tuple[Change, ...]:
        """All of it for people: what breaks first (in the way, removed), then what changes, then what is added."""
        everything = [_with_note(self.state, change) for change in (*self.changes, *self.expected, *self.kept)]
        return tuple(sorted(everything, key=lambda change: _SHOWN_ORDER[change.action]))

    def lines(self) -> list[str]:
        """Lines for people, one per change, columns aligned."""
        shown = self.shown()
        width = min(max((len(change.subject) for change in shown), default=0), 40)
        return [change.line(width) for change in shown]


_SHOWN_ORDER = {"!": 0, "-": 1, "~": 2, "+": 3, "=": 4}


def _with_note(state: NodeState, change: Change) -> Change:
    if change.kind == "route" and not change.note and change.after == "blackhole":
        if change.subject in {block.cidr for block in state.ipam.spare_blocks}:
            return change._replace(note="own block, spare")
        if change.subject in {block.cidr for block in state.ipam.blocks}:
            return change._replace(note="own block")
    return change


#: The drivers by the names under which `plan_node` takes them, in the order of their additions.
DRIVERS: t.Mapping[str, t.Any] = {
    "ipset": ipset,
    "iptables": iptables,
    "tunnel": tunnel,
    "workload": workload,
    "sysctl": sysctl,
    "neighbor": neighbor,
    "rule": rule,
    "route": route,
}


#: No drivers that remember.
NONE_REMEMBERED: t.Mapping[str, t.Any] = types.MappingProxyType({})


def plan_node(
    kernel: Kernel,
    state: NodeState,
    kinds: t.Optional[t.Collection[str]] = None,
    interiors: t.Union[bool, t.Collection[str]] = True,
    stale: bool = True,
    remembered: t.Mapping[str, t.Any] = NONE_REMEMBERED,
) -> NodePlan:
    """Compares; changes nothing and needs the standard library alone. Raises ObserveError or KernelError.

    `kinds` are the drivers that are asked, by their names in DRIVERS; None: all of them, and what BIRD will do besides.
    `interiors` says whose network namespaces are looked into: all, none, or those of these interfaces. Without `stale`
    workloads that nothing desires are not looked for, and the others are read one by one: for a state with few.
    A workload that ended with its namespace is `kept`, and what would lead to it is not wanted.
    `remembered` are the caller's own drivers of ipset and iptables, in place of those that read it all each time.
    """
    if kinds is not None and not set(kinds) <= DRIVERS.keys():
        raise ValueError(f"no such drivers: {', '.join(sorted(set(kinds) - DRIVERS.keys()))}")
    device = ""
    if kinds is None or not set(kinds) <= _FIREWALL.keys():  # rules and sets name no device of the underlay
        device = underlay.device_of(kernel, state)
        state = underlay.resolve(kernel, state, device)
    leads_there = kinds is None or not {"sysctl", "route"}.isdisjoint(kinds)
    wanted = _without(state, workload.gone(kernel, state.workloads)) if leads_there else state
    found: dict[str, list[Change]] = {}
    anew: set[str] = set()  # what is made anew takes along what was on it or went through it
    for name in DRIVERS if kinds is None else (name for name in DRIVERS if name in kinds):
        if name == "workload":
            if stale:
                observed = workload.observe(kernel, state.workloads, interiors)
            else:
                observed = workload.observe_each(kernel, state.workloads)
            found[name] = workload.diff(state.workloads, observed)
        elif name in _FIREWALL:
            driver, desired = remembered.get(name, DRIVERS[name]), _FIREWALL[name](wanted)
            found[name] = driver.diff(desired, driver.observe(kernel, desired))
        else:
            found[name] = _PLANS[name](kernel, wanted, anew)
        if name == "tunnel":
            anew |= tunnel.recreated(found[name])
        elif name == "workload":
            anew |= workload.recreated(found[name])
    groups = tuple(_Group(name, remembered.get(name, DRIVERS[name]), changes) for name, changes in found.items())
    return NodePlan(
        state=state,
        underlay=device,
        additions=tuple(change for group in groups for change in group.changes if change.action in "+~!"),
        removals=tuple(change for group in reversed(groups) for change in group.changes if change.action == "-"),
        expected=tuple(bird_changes(kernel, state)) if kinds is None else (),
        kept=tuple(change for group in groups for change in group.changes if change.action == "="),
        groups=groups,
    )


def _without(state: NodeState, gone: t.Collection[str]) -> NodeState:
    """The state without the routes and sysctls of interfaces that nothing is wanted of any more."""
    if not gone:
        return state
    interfaces = set(gone)
    return dataclasses.replace(
        state,
        routes=tuple(route for route in state.routes if route.device not in interfaces),
        sysctls=tuple(sysctl for sysctl in state.sysctls if interfaces.isdisjoint(sysctl.key.split("/"))),
    )


def _plan_sysctls(kernel: Kernel, state: NodeState, anew: set[str]) -> list[Change]:
    observed = sysctl.observe(kernel, state.sysctls)
    if anew:
        observed = {key: None if anew & set(key.split("/")) else value for key, value in observed.items()}
    return sysctl.diff(state.sysctls, observed) + sysctl.overruled(kernel, state.sysctls)


def _plan_neighbors(kernel: Kernel, state: NodeState, anew: set[str]) -> list[Change]:
    wanted: list[neighbor.Entry] = [*state.neighbors, *state.fdb]
    observed = neighbor.observe(kernel, wanted)
    return neighbor.diff(wanted, {key: value for key, value in observed.items() if key[1] not in anew})


def _plan_routes(kernel: Kernel, state: NodeState, anew: set[str]) -> list[Change]:
    observed = route.observe(kernel, state.routes)
    if anew:
        observed = {key: value for key, value in observed.items() if value.device not in anew}
    return route.diff(state.routes, observed)


#: Those that may be remembered, and what is desired of them.
_FIREWALL: t.Mapping[str, t.Callable[[NodeState], t.Any]] = {
    "ipset": lambda state: state.ipsets,
    "iptables": lambda state: state.iptables,
}

_PLANS: t.Mapping[str, t.Callable[[Kernel, NodeState, set[str]], list[Change]]] = {
    "tunnel": lambda kernel, state, _anew: tunnel.diff(state.devices, tunnel.observe(kernel, state.devices)),
    "sysctl": _plan_sysctls,
    "neighbor": _plan_neighbors,
    "rule": lambda kernel, state, _anew: rule.diff(state.rules, rule.observe(kernel, state.rules)),
    "route": _plan_routes,
}


_BY_LIBRARY = ("device", "neighbor", "fdb", "rule")


def ready_to_write(kernel: Kernel, changes: t.Iterable[Change]) -> None:
    """Raises MissingLibrary if one of these changes takes pyroute2 and that is not installed."""
    if any(change.kind in _BY_LIBRARY and change.action in "+~-" for change in changes):
        kernel.ready_to_write()


def apply_node(kernel: Kernel, plan: NodePlan, bird: t.Optional[t.Callable[[], None]] = None) -> None:
    """Applies the plan; `bird` is called between additions and removals, whatever it raises is passed on.

    Raises ApplyError with every change that failed. What does not depend on a failed change is done all the same, but
    BIRD is not touched and nothing is removed then. Raises MissingLibrary before anything is done.
    """
    ready_to_write(kernel, plan.changes)
    failures = Failures()
    aside = _apply_firewall(kernel, {group.name: group for group in plan.groups if group.name in _FIREWALL})
    groups = {group.name: group for group in plan.groups}
    for name in groups:
        if name in _FIREWALL:
            continue
        group = groups[name]
        changes = [change for change in group.changes if change.action in "+~!"]
        if name == "tunnel":
            groups.update(_apply_tunnels(kernel, plan, failures))
        elif changes:
            _apply(kernel, group.driver, changes, failures)
        if name == "sysctl":
            _activate(kernel, plan.additions, failures)
    if aside is not None:
        if not failures.failures:
            raise aside
        failures.extend(aside)
    failures.raise_if_any()
    if bird is not None:
        bird()
    for group in reversed(plan.groups):
        changes = [change for change in group.changes if change.action == "-"]
        if changes:
            try:
                _apply(kernel, group.driver, changes, failures)
            except iptables.SetAside as error:
                failures.extend(error)
    failures.raise_if_any()


#: Kinds of what goes with a tunnel device.
_ON_TUNNELS = ("sysctl", "neighbor", "route")
#: Times that a device may go by itself while one plan is applied.
_ATTEMPTS = 3


def _apply_tunnels(kernel: Kernel, plan: NodePlan, failures: Failures) -> dict[str, _Group]:
    """Apply the additions of tunnel devices, and plan again what is on them where one went by itself since the plan.

    Return the groups that were planned again. Raises ObserveError or KernelError.
    """
    devices, group = plan.state.devices, next(group for group in plan.groups if group.name == "tunnel")
    again: dict[str, _Group] = {}
    before = tunnel.indexes(kernel, devices)
    lost = {device.name for device in devices if device.name not in before} - _made(group.changes)
    for _attempt in range(_ATTEMPTS):
        if lost:
            again = _planned_again(kernel, plan, ("tunnel", *_ON_TUNNELS))
            group = again["tunnel"]
        changes = [change for change in group.changes if change.action in "+~!"]
        if not changes:
            break
        _apply(kernel, group.driver, changes, failures)
        after = tunnel.indexes(kernel, devices)
        lost = {name for name, index in before.items() if after.get(name) != index} - _made(changes)
        before = after
        if not lost:
            break
    return again


def _made(changes: t.Sequence[Change]) -> set[str]:
    """Tunnel devices that are another one after these changes."""
    new = {change.subject for change in changes if change.kind == "device" and change.action == "+"}
    return new | tunnel.recreated(changes)


def _planned_again(kernel: Kernel, plan: NodePlan, kinds: t.Collection[str]) -> dict[str, _Group]:
    """Return these groups of the plan, as far as it has them, with the additions of now."""
    asked = [group.name for group in plan.groups if group.name in kinds]
    found = {group.name: group for group in plan_node(kernel, plan.state, asked, interiors=False).groups}
    return {
        group.name: group._replace(
            changes=[
                *(change for change in found[group.name].changes if change.action != "-"),
                *(change for change in group.changes if change.action == "-"),
            ]
        )
        for group in plan.groups
        if group.name in found
    }


def _apply_firewall(kernel: Kernel, groups: t.Mapping[str, _Group]) -> t.Optional[iptables.SetAside]:
    """Additions of sets and iptables. What was refused of single chains, which are closed: the rest may be made.

    Raises ApplyError: without its guard nothing is made reachable. Members that shall not be in a set are taken out of
    it all the same, but for those of workloads' interfaces: in another set, or by other chains, they may not be yet.
    """
    additions = {name: [change for change in group.changes if change.action in "+~!"] for name, group in groups.items()}
    failures = Failures()
    aside: t.Optional[iptables.SetAside] = None
    sets = additions.get("ipset", [])
    if sets:
        _apply(kernel, groups["ipset"].driver, sets, failures, "fill")
    if additions.get("iptables"):
        try:
            _apply(kernel, groups["iptables"].driver, additions["iptables"], failures)
        except iptables.SetAside as error:
            aside = error
    if failures.failures:
        sets = [change for change in sets if "iface" not in change.new[1].type]
    if sets:
        _apply(kernel, groups["ipset"].driver, sets, failures, "drain")
    failures.raise_if_any()
    return aside


def _apply(kernel: Kernel, driver: t.Any, changes: t.Sequence[Change], failures: Failures, step: str = "apply") -> None:
    try:
        getattr(driver, step)(kernel, changes)
    except iptables.SetAside:
        raise
    except ApplyError as error:
        failures.extend(error)


def _activate(kernel: Kernel, changes: t.Sequence[Change], failures: Failures) -> None:
    try:
        workload.activate(kernel, changes)
    except ApplyError as error:
        failures.extend(error)


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
    metric = METRIC_IPV6 if family_of(expected.destination) == 6 else 0
    attributes = RouteAttributes(mtu=expected.mtu, protocol=PROTOCOL_BIRD, onlink=expected.onlink, metric=metric)
    if expected.device:
        return attributes._replace(device=expected.device, gateway=expected.gateway)
    next_hop = expected.gateway or expected.next_hop
    best = hops.route(next_hop)
    if best is None:
        return attributes._replace(gateway=next_hop)
    return attributes._replace(device=best.device, gateway=best.gateway or next_hop)
