# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BGPFilter: accepted and refused documents, with the words of the errors.

The rules are those of Calico v3.33's CRD.
"""

from __future__ import annotations

import json
import pathlib
import typing as t

import jsonschema
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources

CONFD = json.loads((pathlib.Path(__file__).parent.parent / "cases" / "confd_bird_cases.json").read_text("utf-8"))
RULE: dict[str, t.Any] = {"action": "Accept"}


def of(rule: t.Mapping[str, t.Any], direction: str = "importV4") -> resources.BGPFilter:
    found = resources.parse_flat("BGPFilter", {"name": "tor", direction: [rule]})
    resources.check_supported(found, flat=True)
    return t.cast(resources.BGPFilter, found)


def test_filters_of_calicos_own_tests_read_back_equal() -> None:
    schema = jsonschema.Draft202012Validator(resources.json_schema("BGPFilter"))
    seen = 0
    for case in CONFD["cases"]:
        for document in case["resources"] or ():
            if document["kind"] == "BGPFilter":
                made = resources.parse(document)
                resources.check_supported(made)
                assert resources.parse(made.to_document()) == made
                schema.validate(made.to_document())
                seen += 1
    assert seen == 37


def test_all_of_a_rule() -> None:
    made = of(
        {
            "cidr": "10.0.0.0/8",
            "matchOperator": "NotIn",
            "prefixLength": {"min": 0, "max": 24},
            "source": "RemotePeers",
            "interface": "eth*",
            "peerType": "eBGP",
            "communities": {"values": ["65000:1:2"]},
            "asPathPrefix": [65000, "1.1"],
            "priority": 512,
            "action": "Accept",
            "operations": [
                {"addCommunity": {"value": "65000:7"}},
                {"prependASPath": {"prefix": [65001, 65001]}},
                {"setPriority": {"value": 1}},
            ],
        }
    )
    (rule,) = made.rules("import", 4)
    assert (rule.prefixLength.min, rule.prefixLength.max, rule.asPathPrefix) == (0, 24, (65000, 65537))
    assert made.rules("export", 4) == made.rules("import", 6) == ()
    assert [operation.setPriority and operation.setPriority.value for operation in rule.operations] == [None, None, 1]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({}, "importV4[0].action is missing. Write Accept or Reject."),
        (
            {"cidr": "10.0.0.0/8"},
            "importV4[0].matchOperator is missing beside cidr. Write Equal, NotEqual, In or NotIn.",
        ),
        (
            {"matchOperator": "In"},
            "importV4[0].matchOperator In stands without cidr. Add the range to compare with, or remove it.",
        ),
        (
            {"prefixLength": {"min": 9}},
            "importV4[0].prefixLength stands without cidr. Add the range that it is about, or remove it.",
        ),
        (
            {"cidr": "10.0.0.1", "matchOperator": "Equal"},
            "importV4[0].cidr 10.0.0.1 is not a range of IPv4 addresses. Write it as address/prefix length, without "
            "address bits beyond the prefix, for example 10.1.0.0/16.",
        ),
        (
            {"cidr": "fd00::/8", "matchOperator": "In"},
            "importV4[0].cidr fd00::/8 is not a range of IPv4 addresses. Write it as address/prefix length, without "
            "address bits beyond the prefix, for example 10.1.0.0/16.",
        ),
        (
            {"action": "Reject", "operations": [{"setPriority": {"value": 9}}]},
            "importV4[0].operations stands beside action Reject. Change what is accepted, or remove it.",
        ),
        (
            {"operations": [{"setPriority": {"value": 9}, "addCommunity": {"value": "1:1"}}]},
            "importV4[0].operations[0] addCommunity, setPriority is not exactly one operation. Write addCommunity, "
            "prependASPath or setPriority, each as an entry of the list.",
        ),
        (
            {"operations": [{"setPriority": {"value": 9}}] * 11},
            "importV4[0].operations has more than 10 entries. Use fewer operations.",
        ),
        (
            {"operations": [{"prependASPath": {"prefix": []}}]},
            "importV4[0].operations[0].prependASPath.prefix [] is not a list of 1 to 10 AS numbers. Write for example "
            "[65000, 65000].",
        ),
        (
            {"operations": [{"setPriority": {}}]},
            "importV4[0].operations[0].setPriority.value is missing. Write a number from 1 to 2147483646, lower ones "
            "win.",
        ),
        (
            {"operations": [{"addCommunity": {"value": "green"}}]},
            "importV4[0].operations[0].addCommunity.value green is not a BGP community. Write 65000:100, two "
            "numbers of 16 bits, or 65000:1:100, three of 32 bits.",
        ),
        (
            {"communities": {"values": ["1:1", "1:2"]}},
            'importV4[0].communities.values ["1:1", "1:2"] is not a list of one community. Write one rule for each '
            "community.",
        ),
        ({"priority": 0}, "importV4[0].priority 0 is out of range. Choose a number from 1 to 2147483646."),
        (
            {"peerType": "ibgp"},
            "importV4[0].peerType ibgp is not one of eBGP, iBGP. Did you mean iBGP?",
        ),
        (
            {"interface": "not a device"},
            "importV4[0].interface not a device cannot match a device's name. Use at most 15 letters, digits, '-', "
            "'_', '.' and '*'.",
        ),
        # Rules that Calico accepts, and that BIRD cannot read or that never match.
        (
            {"cidr": "10.0.0.0/8", "matchOperator": "Equal", "prefixLength": {"max": 16}},
            "importV4[0].prefixLength stands beside matchOperator Equal, which compares the whole prefix. Write "
            "matchOperator In, or remove it.",
        ),
        (
            {"cidr": "10.0.0.0/16", "matchOperator": "In", "prefixLength": {"max": 15}},
            "importV4[0].prefixLength.max 15 is less than 16, the shortest prefix that this rule could match: it never "
            "does. Write at least 16, or remove it.",
        ),
    ],
)
def test_an_invalid_rule_is_refused_with_its_reason(rule: dict[str, t.Any], said: str) -> None:
    whole = rule if not rule else {**RULE, **rule}
    with pytest.raises(resources.ResourceError) as caught:
        of(whole)
    assert str(caught.value) == f"BGPFilter tor: {said}"


def test_rules_of_ipv6_have_prefixes_of_ipv6() -> None:
    (rule,) = of({**RULE, "cidr": "fd00::/8", "matchOperator": "In", "prefixLength": {"min": 128}}, "exportV6").exportV6
    assert rule.prefixLength.min == 128
    (rule,) = of({**RULE, "cidr": "::/0", "matchOperator": "In", "prefixLength": {"max": 0}}, "exportV6").exportV6
    assert rule.prefixLength.max == 0
    with pytest.raises(resources.ResourceError, match=r"exportV6\[0\].cidr fd00::1 is not a range of IPv6"):
        of({**RULE, "cidr": "fd00::1", "matchOperator": "In"}, "exportV6")
    with pytest.raises(resources.ResourceError, match=r"exportV6\[0\].cidr 10.0.0.0/8 is not a range of IPv6"):
        of({**RULE, "cidr": "10.0.0.0/8", "matchOperator": "In"}, "exportV6")
    with pytest.raises(resources.ResourceError, match=r"importV4\[0\].prefixLength.min 33 is out of range"):
        of({**RULE, "cidr": "10.0.0.0/8", "matchOperator": "In", "prefixLength": {"min": 33}})


@pytest.mark.parametrize(("list_name", "longest"), [("importV4", 32), ("exportV4", 32), ("importV6", 128)])
@pytest.mark.parametrize("bound", ["min", "max"])
def test_a_prefix_length_is_at_most_that_of_an_address(list_name: str, longest: int, bound: str) -> None:
    """A least or greatest prefix length goes from 0 to the number of bits of an address."""
    cidr = "0.0.0.0/0" if longest == 32 else "::/0"
    for length in (0, longest):
        made = of({**RULE, "cidr": cidr, "matchOperator": "In", "prefixLength": {bound: length}}, list_name)
        (rule,) = getattr(made, list_name)
        assert getattr(rule.prefixLength, bound) == length
    for length in (-1, longest + 1):
        with pytest.raises(resources.ResourceError):
            of({**RULE, "cidr": cidr, "matchOperator": "In", "prefixLength": {bound: length}}, list_name)


def test_each_rule_of_a_filter_is_checked() -> None:
    """A rule without a prefixLength hides nothing of the rules after it."""
    wrong = {**RULE, "cidr": "10.0.0.0/16", "matchOperator": "In", "prefixLength": {"max": 15}}
    made = t.cast(
        resources.BGPFilter, resources.parse_flat("BGPFilter", {"name": "tor", "importV4": [RULE, wrong, wrong]})
    )
    with pytest.raises(resources.ResourceError, match=r"importV4\[1\].prefixLength.max 15 is less than 16"):
        resources.check_supported(made, flat=True)
