# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BGPFilters as values: made from resources and back, and their effect on a route without BIRD.

tests/integration/bird/routes/test_filters.py shows that BIRD agrees.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import filters
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.filter_rules import FilterFunction, FilterRule
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.filter_verdict import BgpRoute, verdict
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources

from tests.unit.bgp import confd_cases


def made(**spec: t.Any) -> tuple[FilterFunction, ...]:
    return filters.functions(t.cast(resources.BGPFilter, resources.parse_flat("BGPFilter", {"name": "f", **spec})))


def rule(**fields: t.Any) -> FilterRule:
    (function,) = made(importV4=[{"action": "Accept", **fields}])
    return function.rules[0]


def test_a_function_for_each_list_that_has_rules() -> None:
    accept = [{"action": "Accept"}]
    found = made(importV4=accept, exportV6=[{"action": "Reject", "peerType": "iBGP"}], exportV4=[])
    assert [(one.symbol, one.direction, one.family, one.by_peer_type) for one in found] == [
        ("'bgp_f_importFilterV4'", "import", 4, False),
        ("'bgp_f_exportFilterV6'", "export", 6, True),
    ]


@pytest.mark.parametrize(
    ("given", "lengths"),
    [
        ({"min": 20}, (20, 32)),
        ({"max": 20}, (16, 20)),
        ({"min": 8, "max": 24}, (16, 24)),
        ({"min": 0}, (16, 32)),
        ({}, (16, 32)),
    ],
)
def test_lengths_go_from_that_of_the_range_to_the_longest(given: dict[str, int], lengths: tuple[int, int]) -> None:
    assert rule(cidr="10.1.0.0/16", matchOperator="In", prefixLength=given).lengths == lengths


def test_lengths_of_all_routes_begin_with_the_default_route() -> None:
    assert rule(cidr="0.0.0.0/0", matchOperator="In", prefixLength={"max": 8}).lengths == (0, 8)


@pytest.mark.parametrize(
    ("operation", "made"),
    [
        ({"addCommunity": {"value": "65000:100"}}, ("community", (65000, 100))),
        ({"addCommunity": {"value": "65000:1:2"}}, ("large_community", (65000, 1, 2))),
        ({"prependASPath": {"prefix": [65000, 65001]}}, ("as_path", (65000, 65001))),
        ({"setPriority": {"value": 9}}, ("local_pref", (2147483638,))),
    ],
)
def test_an_operation_is_converted_with_its_numbers(
    operation: dict[str, t.Any], made: tuple[str, tuple[int, ...]]
) -> None:
    (found,) = rule(operations=[operation]).operations
    assert (found.kind, found.numbers) == made


def test_a_priority_is_what_is_missing_to_the_greatest_local_preference() -> None:
    assert (rule(priority=100).local_pref, rule(priority=100).unset_local_pref) == (2147483547, False)
    assert (rule(priority=1024).local_pref, rule(priority=1024).unset_local_pref) == (2147482623, True)


def test_filters_of_calicos_own_tests_convert_back_equal() -> None:
    seen = 0
    for case in confd_cases.cases():
        for document in case.of_kind("BGPFilter"):
            functions = filters.functions(t.cast(resources.BGPFilter, resources.parse(document)))
            name = document["metadata"]["name"]
            again = resources.parse_flat("BGPFilter", {"name": name, **filters.spec(functions)})
            assert filters.functions(t.cast(resources.BGPFilter, again)) == functions
            seen += len(functions)
    assert seen > 100


def test_all_that_a_rule_has_comes_back() -> None:
    functions = made(
        exportV6=[
            {
                "cidr": "fd00::/16",
                "matchOperator": "NotIn",
                "prefixLength": {"min": 48, "max": 64},
                "source": "RemotePeers",
                "interface": "eth*",
                "peerType": "eBGP",
                "communities": {"values": ["65000:1:2"]},
                "asPathPrefix": [65000],
                "priority": 1024,
                "action": "Accept",
                "operations": [
                    {"addCommunity": {"value": "65000:7"}},
                    {"prependASPath": {"prefix": [65001, 65002]}},
                    {"setPriority": {"value": 9}},
                ],
            },
            {"action": "Reject"},
        ]
    )
    assert made(**filters.spec(functions)) == functions


def test_the_first_rule_that_matches_decides() -> None:
    (function,) = made(
        importV4=[
            {"action": "Reject", "cidr": "10.1.0.0/16", "matchOperator": "In"},
            {
                "action": "Accept",
                "cidr": "10.0.0.0/8",
                "matchOperator": "In",
                "operations": [{"setPriority": {"value": 9}}],
            },
        ]
    )
    found = [verdict(function, BgpRoute(net), True) for net in ("10.1.2.0/24", "10.2.0.0/16", "11.0.0.0/8")]
    assert [(one.accept, one.rule, one.route.local_pref) for one in found] == [
        (False, 0, None),
        (True, 1, 2147483638),
        (None, None, None),
    ]


def test_operations_add_to_what_a_route_has() -> None:
    operations = [
        {"addCommunity": {"value": "65000:100"}},
        {"addCommunity": {"value": "65000:1:2"}},
        {"prependASPath": {"prefix": [65000, 65001]}},
    ]
    function = FilterFunction("f", "import", 4, "f", (rule(operations=operations),))
    has = BgpRoute(
        "10.1.0.0/16",
        as_path=(64512,),
        communities=frozenset({(1, 2)}),
        large_communities=frozenset({(1, 2, 3)}),
        local_pref=7,
    )
    assert verdict(function, has, True).route == BgpRoute(
        "10.1.0.0/16",
        as_path=(65000, 65001, 64512),
        communities=frozenset({(1, 2), (65000, 100)}),
        large_communities=frozenset({(1, 2, 3), (65000, 1, 2)}),
        local_pref=7,
    )


@pytest.mark.parametrize(
    ("operator", "length", "matches"),
    [
        *(("In", length, 18 <= length <= 24) for length in (16, 17, 18, 20, 24, 25)),
        *(("NotIn", length, not 18 <= length <= 24) for length in (16, 17, 18, 20, 24, 25)),
    ],
)
def test_both_ends_of_the_lengths_count(operator: str, length: int, matches: bool) -> None:
    asked = rule(cidr="10.1.0.0/16", matchOperator=operator, prefixLength={"min": 18, "max": 24})
    function = FilterFunction("f", "import", 4, "f", (asked,))
    assert (verdict(function, BgpRoute(f"10.1.0.0/{length}"), True).rule is not None) is matches
