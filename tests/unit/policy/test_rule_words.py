# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of rules, which has their whole content in one line."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Entity,
    Icmp,
    NamedPort,
    Policy,
    PolicyRule,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.rule_words import rule_count, rule_text
from hypothesis import given, settings

from tests.unit.policy.random_policies import World, worlds


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (PolicyRule("Allow"), "Allow"),
        (PolicyRule("Pass", 6, "icmpv6", icmp=Icmp(128, 0)), "Pass IPv6 icmpv6 type 128 code 0"),
        (PolicyRule("Deny", protocol=253), "Deny protocol 253"),
        (PolicyRule("Deny", protocol="icmp", not_icmp=Icmp(8)), "Deny icmp not type 8"),
        (PolicyRule("Deny", not_protocol="udp"), "Deny not udp"),
        (
            PolicyRule(
                "Allow",
                protocol="tcp",
                source=Entity(("10.0.0.0/8",), ("10.1.0.0/16", "10.2.0.0/16"), "has(a)", 'b == "c"'),
                destination=Entity(ports=(PortRange(1, 2), NamedPort("http")), not_ports=(PortRange(2, 2),)),
                annotations=(("why", "because"),),
            ),
            'Allow tcp from has(a) and not (b == "c") and nets 10.0.0.0/8 and not nets 10.1.0.0/16, 10.2.0.0/16 '
            "to ports 1:2, http and not ports 2 # why: because",
        ),
        (
            PolicyRule("Deny", annotations=(("by", "ops"), ("why", "first line\nDeny all\x1b[2J"))),
            r"Deny # by: ops # why: first line\nDeny all\x1b[2J",
        ),
    ],
)
def test_a_rule_has_one_line_of_text(rule: PolicyRule, text: str) -> None:
    assert rule_text(rule) == text


@settings(max_examples=20)
@given(worlds())
def test_rules_that_differ_read_differently(world: World) -> None:
    rules = {rule for policy in world.policy_set.policies for rule in (*policy.ingress, *policy.egress)}
    assert len({rule_text(rule) for rule in rules}) == len(rules)


def test_rules_that_are_not_in_force_do_not_count() -> None:
    assert (
        rule_count(Policy("a", types=("Ingress",), ingress=(PolicyRule("Allow"),), egress=(PolicyRule("Deny"),)))
        == "1 rule"
    )
