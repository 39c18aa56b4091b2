# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The translation of BGPFilter resources into the functions of bird.cfg, and back. Pure."""

from __future__ import annotations

import typing as t

from ..base import naming
from ..base.addresses import BITS, parse_cidr
from ..resources.api import BGPFilter, BGPFilterRule
from .filter_rules import EXPORT, IMPORT, FilterFunction, FilterOperation, FilterRule

#: Calico's default priority of a route. A route's priority and its local preference in BGP add up to PRIORITY_BASE.
NORMAL_PRIORITY = 1024
PRIORITY_BASE = 2147483647


def functions(resource: BGPFilter) -> tuple[FilterFunction, ...]:
    """Return the functions of a BGPFilter that resources.check_supported accepts, one for each list with rules.

    Import comes before export, and IPv4 before IPv6.
    """
    found = []
    for direction in (IMPORT, EXPORT):
        for family in (4, 6):
            rules = tuple(_rule(rule) for rule in resource.rules(direction, family))
            if rules:
                symbol = naming.bird_filter_name(resource.name, direction, family)
                by_peer_type = any(rule.peer_type for rule in rules)
                found.append(FilterFunction(resource.name, direction, family, symbol, rules, by_peer_type))
    return tuple(found)


def _rule(rule: BGPFilterRule) -> FilterRule:
    network = parse_cidr(rule.cidr)
    lengths: tuple[int, ...] = ()
    if network is not None and rule.prefixLength is not None:
        longest = rule.prefixLength.max
        lengths = (
            max(network.length, rule.prefixLength.min or 0),
            BITS[network.version] if longest is None else longest,
        )
    values = rule.communities.values if rule.communities is not None else None
    return FilterRule(
        accept=rule.action == "Accept",
        net=str(network) if network is not None else "",
        operator=rule.matchOperator,
        lengths=lengths,
        from_peers=rule.source == "RemotePeers",
        interface=rule.interface,
        peer_type=rule.peerType,
        community=community(values[0]) if values else (),
        as_path=rule.asPathPrefix,
        local_pref=None if rule.priority is None else PRIORITY_BASE - rule.priority,
        unset_local_pref=rule.priority == NORMAL_PRIORITY,
        operations=tuple(_operations(rule)),
    )


def _operations(rule: BGPFilterRule) -> t.Iterator[FilterOperation]:
    for operation in rule.operations:
        if operation.addCommunity is not None:
            numbers = community(operation.addCommunity.value)
            yield FilterOperation("community" if len(numbers) == 2 else "large_community", numbers)
        elif operation.prependASPath is not None:
            yield FilterOperation("as_path", operation.prependASPath.prefix)
        elif operation.setPriority is not None and operation.setPriority.value is not None:
            yield FilterOperation("local_pref", (PRIORITY_BASE - operation.setPriority.value,))


def community(text: str) -> tuple[int, ...]:
    """Return the numbers of a community text such as 65000:100 (3 numbers if it is a large one, RFC 8092).

    Raise ValueError if a part is no number. Their count and range are not checked.
    """
    return tuple(int(number) for number in text.split(":"))


def spec(found: t.Iterable[FilterFunction]) -> dict[str, t.Any]:
    """Return the spec of the BGPFilter with these functions, as a document: the list importV4 and so on for each."""
    return {f"{one.direction}V{one.family}": [_document(rule) for rule in one.rules] for one in found}


def _document(rule: FilterRule) -> dict[str, t.Any]:
    given = {
        "cidr": rule.net,
        "matchOperator": rule.operator,
        "prefixLength": dict(zip(("min", "max"), rule.lengths)),
        "source": "RemotePeers" if rule.from_peers else "",
        "interface": rule.interface,
        "peerType": rule.peer_type,
        "communities": {"values": [_text(rule.community)]} if rule.community else {},
        "asPathPrefix": list(rule.as_path),
        "priority": 0 if rule.local_pref is None else PRIORITY_BASE - rule.local_pref,
        "operations": [_operation(one) for one in rule.operations],
    }
    return {
        **{field: value for field, value in given.items() if value},
        "action": "Accept" if rule.accept else "Reject",
    }


def _operation(one: FilterOperation) -> dict[str, t.Any]:
    if one.kind == "as_path":
        return {"prependASPath": {"prefix": list(one.numbers)}}
    if one.kind == "local_pref":
        return {"setPriority": {"value": PRIORITY_BASE - one.numbers[0]}}
    return {"addCommunity": {"value": _text(one.numbers)}}


def _text(numbers: t.Iterable[int]) -> str:
    return ":".join(map(str, numbers))
