# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of a BGPFilter's rules on a route, without BIRD: for people, and for tests that compare it to BIRD's."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ..base.addresses import family_of
from .bird_state import Bird, BirdPeer
from .filter_rules import IMPORT, FilterFunction, FilterOperation, FilterRule


@dataclasses.dataclass(frozen=True)
class BgpRoute:
    """A route as a filter sees it. `local_pref` is None if the route has none.

    `interface` is the outgoing interface, "" if unknown, as always on import: BIRD resolves the next hop afterwards.
    """

    net: str  # the route's destination (CIDR)
    from_peers: bool = True  # whether the route was received by BGP
    interface: str = ""
    as_path: tuple[int, ...] = ()
    communities: frozenset[tuple[int, int]] = frozenset()
    large_communities: frozenset[tuple[int, int, int]] = frozenset()
    local_pref: t.Optional[int] = None


@dataclasses.dataclass(frozen=True)
class FilterVerdict:
    """A filter's result: whether it accepts, the changed route, and the index (from 0) of the rule that matched.

    If no rule matched, `accept` and `rule` are None: the default for that kind of session decides.
    """

    accept: t.Optional[bool]
    route: BgpRoute
    rule: t.Optional[int] = None


def verdict(function: FilterFunction, route: BgpRoute, same_as: bool) -> FilterVerdict:
    """Return the verdict of the first rule that matches `route`, or one with `accept` None if none does.

    `same_as` is whether the session is iBGP. The rule's operations are applied to the verdict's route, also if the rule
    rejects it. Raise ValueError if a `net` that is compared is not an address or CIDR, or has host bits.
    """
    for index, rule in enumerate(function.rules):
        if matches(rule, route, same_as):
            return FilterVerdict(rule.accept, _changed(route, rule.operations), index)
    return FilterVerdict(None, route)


def matches(rule: FilterRule, route: BgpRoute, same_as: bool) -> bool:
    """Return whether `route` fulfils all conditions of `rule`. `same_as` is whether the session is iBGP.

    Raise ValueError if a `net` that is compared is not an address or CIDR, or has host bits.
    """
    if rule.peer_type and (rule.peer_type == "iBGP") != same_as:
        return False
    if rule.net and not _prefix_matches(rule, route.net):
        return False
    if rule.from_peers and not route.from_peers:
        return False
    if rule.interface and not (route.interface and _pattern(rule.interface).fullmatch(route.interface)):
        return False
    if rule.community and rule.community not in route.communities | route.large_communities:
        return False
    if rule.as_path and route.as_path[: len(rule.as_path)] != rule.as_path:
        return False
    if rule.local_pref is None:
        return True
    return rule.unset_local_pref if route.local_pref is None else route.local_pref == rule.local_pref


def surely_rejects(bird: Bird, peer: BirdPeer, cidr: str, direction: str) -> bool:
    """Return whether the filters of a session reject the route to the block `cidr`, whatever attributes it has.

    For EXPORT it is a block of this node. A rule about communities, the AS path, the preference or the interface may
    match or not: it never rejects surely, and if it accepts, neither do the rules after it. `direction` is IMPORT or
    EXPORT. Raise ValueError if `cidr` has host bits.
    """
    same_as = peer.as_number == (bird.as_number if peer.local_as is None else peer.local_as)
    family = family_of(cidr)
    route = BgpRoute(cidr, from_peers=direction == IMPORT)
    for name in peer.filters:
        for function in bird.filters:
            if (function.filter, function.direction, function.family) != (name, direction, family):
                continue
            for rule in function.rules:
                sure = dataclasses.replace(rule, community=(), as_path=(), local_pref=None, interface="")
                if matches(sure, route, same_as) and (rule.accept or rule == sure):
                    return not rule.accept
    return False


def _prefix_matches(rule: FilterRule, cidr: str) -> bool:
    net, asked = ipaddress.ip_network(cidr), ipaddress.ip_network(rule.net)
    if rule.operator in ("Equal", "NotEqual"):
        return (net == asked) == (rule.operator == "Equal")
    inside = net.version == asked.version and net.subnet_of(t.cast(t.Any, asked))
    if rule.lengths:
        inside = inside and rule.lengths[0] <= net.prefixlen <= rule.lengths[1]
    return inside == (rule.operator == "In")


def _pattern(text: str) -> re.Pattern[str]:
    """Return a BIRD interface mask as a regular expression. `*` stands for any text; rules have no other wildcards."""
    return re.compile(".*".join(re.escape(part) for part in text.split("*")))


def _changed(route: BgpRoute, operations: t.Iterable[FilterOperation]) -> BgpRoute:
    for operation in operations:
        if operation.kind == "as_path":
            route = dataclasses.replace(route, as_path=operation.numbers + route.as_path)
        elif operation.kind == "community":
            both = route.communities | {t.cast("tuple[int, int]", operation.numbers)}
            route = dataclasses.replace(route, communities=both)
        elif operation.kind == "large_community":
            large = route.large_communities | {t.cast("tuple[int, int, int]", operation.numbers)}
            route = dataclasses.replace(route, large_communities=large)
        else:
            route = dataclasses.replace(route, local_pref=operation.numbers[0])
    return route
