# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each condition of a filter's rule by itself, and what its operations make of a route, without BIRD.

tests/integration/bird/routes/test_filters.py shows that BIRD agrees.
"""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.filter_rules import (
    IMPORT,
    FilterFunction,
    FilterOperation,
    FilterRule,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.filter_verdict import (
    BgpRoute,
    FilterVerdict,
    matches,
    verdict,
)

ROUTE = BgpRoute(
    "10.1.2.0/24",
    interface="eth0.7",
    as_path=(65001, 65002),
    communities=frozenset({(65000, 1)}),
    large_communities=frozenset({(65000, 1, 2)}),
    local_pref=200,
)


def changed(**fields: t.Any) -> BgpRoute:
    return dataclasses.replace(ROUTE, **fields)


@pytest.mark.parametrize("same_as", [True, False])
def test_a_rule_without_conditions_matches_every_route(same_as: bool) -> None:
    """A rule without conditions matches any route of any session."""
    for route in (ROUTE, BgpRoute("fd00::/64", from_peers=False)):
        assert matches(FilterRule(True), route, same_as)


@pytest.mark.parametrize(
    ("condition", "route", "matched"),
    [
        ({"from_peers": True}, ROUTE, True),
        ({"from_peers": True}, changed(from_peers=False), False),
        ({"from_peers": False}, changed(from_peers=False), True),
        ({"interface": "eth0.7"}, ROUTE, True),
        ({"interface": "eth0.*"}, ROUTE, True),
        ({"interface": "*.7"}, ROUTE, True),
        ({"interface": "eth0"}, ROUTE, False),
        ({"interface": "eth0-7"}, ROUTE, False),
        ({"interface": "eth0.7"}, changed(interface="eth0x7"), False),
        ({"interface": "*"}, changed(interface=""), False),
        ({"community": (65000, 1)}, ROUTE, True),
        ({"community": (65000, 2)}, ROUTE, False),
        ({"community": (65000, 1, 2)}, ROUTE, True),
        ({"community": (65000, 1, 3)}, ROUTE, False),
        ({"as_path": (65001,)}, ROUTE, True),
        ({"as_path": (65001, 65002)}, ROUTE, True),
        ({"as_path": (65002,)}, ROUTE, False),
        ({"as_path": (65001, 65002, 65003)}, ROUTE, False),
        ({"local_pref": 200}, ROUTE, True),
        ({"local_pref": 100}, ROUTE, False),
        ({"local_pref": 200}, changed(local_pref=None), False),
        ({"local_pref": 100, "unset_local_pref": True}, changed(local_pref=None), True),
        ({"local_pref": 100, "unset_local_pref": True}, changed(local_pref=100), True),
        ({"local_pref": 100, "unset_local_pref": True}, ROUTE, False),
        ({"unset_local_pref": True}, ROUTE, True),
    ],
)
def test_a_condition_of_a_rule(condition: dict[str, t.Any], route: BgpRoute, matched: bool) -> None:
    """A rule of one condition matches the routes that fulfil it, and none that fails a further condition."""
    for same_as in (True, False):
        assert matches(FilterRule(True, **condition), route, same_as) is matched
    elsewhere = FilterRule(True, net="10.9.0.0/16", operator="Equal", **condition)
    assert not matches(elsewhere, route, True)


@pytest.mark.parametrize(("peer_type", "same_as"), [("iBGP", True), ("eBGP", False)])
def test_a_rule_for_one_kind_of_session(peer_type: str, same_as: bool) -> None:
    """A rule for iBGP or eBGP matches on sessions of that kind only."""
    assert matches(FilterRule(True, peer_type=peer_type), ROUTE, same_as)
    assert not matches(FilterRule(True, peer_type=peer_type), ROUTE, not same_as)


@pytest.mark.parametrize(
    ("net", "inside", "equal"),
    [
        ("10.1.0.0/16", True, True),
        ("10.1.2.0/24", True, False),
        ("10.1.128.0/17", True, False),
        ("10.1.2.0/25", False, False),
        ("10.0.0.0/8", False, False),
        ("10.2.0.0/16", False, False),
        ("fd00::/16", False, False),
    ],
)
def test_a_rule_for_prefixes(net: str, inside: bool, equal: bool) -> None:
    """In matches prefixes inside `net` with a length in `lengths`, Equal only `net`; NotIn and NotEqual all others."""
    for operator, expected in (("In", inside), ("NotIn", not inside), ("Equal", equal), ("NotEqual", not equal)):
        rule = FilterRule(True, net="10.1.0.0/16", operator=operator, lengths=(16, 24))
        assert matches(rule, changed(net=net), True) is expected, operator


def test_prefixes_of_any_length() -> None:
    """Without lengths, In matches a range and all prefixes inside it, down to one address."""
    rule = FilterRule(True, net="10.1.0.0/16", operator="In")
    assert [matches(rule, changed(net=net), True) for net in ("10.1.0.0/16", "10.1.2.3/32", "10.0.0.0/15")] == [
        *(True, True),
        False,
    ]


@pytest.mark.parametrize(
    ("kind", "numbers", "after"),
    [
        ("community", (65000, 9), {"communities": frozenset({(65000, 1), (65000, 9)})}),
        ("large_community", (65000, 9, 9), {"large_communities": frozenset({(65000, 1, 2), (65000, 9, 9)})}),
        ("as_path", (65009, 65008), {"as_path": (65009, 65008, 65001, 65002)}),
        ("local_pref", (7,), {"local_pref": 7}),
    ],
)
def test_an_operation_on_a_route(kind: str, numbers: tuple[int, ...], after: dict[str, t.Any]) -> None:
    """An operation changes one attribute of the route, also when the rule rejects it."""
    for accept in (True, False):
        rule = FilterRule(accept, operations=(FilterOperation(kind, numbers),))
        function = FilterFunction("f", IMPORT, 4, "'f'", (rule,))
        assert verdict(function, ROUTE, True) == FilterVerdict(accept, changed(**after), 0)


def test_the_first_rule_that_matches_decides() -> None:
    """The verdict is that of the first rule that matches, with its index; without one the route is as it was."""
    no, yes, never = FilterRule(False, peer_type="iBGP"), FilterRule(True), FilterRule(False)
    function = FilterFunction("f", IMPORT, 4, "'f'", (no, yes, never))
    assert verdict(function, ROUTE, False) == FilterVerdict(True, ROUTE, 1)
    assert verdict(function, ROUTE, True) == FilterVerdict(False, ROUTE, 0)
    assert verdict(dataclasses.replace(function, rules=(no,)), ROUTE, False) == FilterVerdict(None, ROUTE)


def test_a_route_is_from_peers_by_default() -> None:
    """A BgpRoute has `from_peers` True by default, since import filters of sessions see routes from peers."""
    assert BgpRoute("10.0.0.0/8").from_peers
