# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of workloads under policy with real packets: each tests the line of semantics.py with its number."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicySettings

from tests.integration.policy.documents import (
    ALLOW,
    DENY,
    OPEN,
    WORKLOADS,
    global_policy,
    host_endpoint,
    network_policy,
    profile,
    tier,
    workload,
)
from tests.integration.policy.policed_node import (
    HOST,
    HOST_V6,
    OUTSIDE,
    OUTSIDE_V6,
    W0,
    W0_V6,
    W1,
    W1_V6,
    W2,
    PolicedNode,
    icmp,
    interface_of,
    of_protocol,
    ping,
    tcp,
    udp,
)

THREE = (*WORKLOADS, workload(2))
ONLY_W0 = 'name == "w0"'
FROM_W1 = {"action": "Allow", "source": {"selector": 'name == "w1"'}}
TO_W1 = {"action": "Allow", "destination": {"selector": 'name == "w1"'}}


def test_01_without_policy_a_profile_that_allows_all_lets_workloads_reach_each_other(policed: PolicedNode) -> None:
    policed.apply(*WORKLOADS)
    policed.expect([udp(W0, W1), udp(W1, W0), tcp(W0, W1), ping(W1, W0), udp(W0_V6, W1_V6), udp(W0, OUTSIDE)])


def test_02_without_policy_and_profile_nothing_passes(policed: PolicedNode) -> None:
    policed.apply(workload(0, profiles=[]), workload(1))
    policed.expect(
        allowed=[udp(W1, OUTSIDE), udp(OUTSIDE, W1)],
        denied=[udp(W0, W1), udp(W1, W0), udp(W0, OUTSIDE), udp(OUTSIDE, W0), udp(W0_V6, W1_V6), ping(W1, W0)],
    )


def test_03_an_unknown_endpoint_neither_receives_nor_sends(policed: PolicedNode) -> None:
    policed.apply(workload(0))
    policed.expect(
        allowed=[udp(W0, OUTSIDE), udp(OUTSIDE, W0)],
        denied=[udp(W1, OUTSIDE), udp(W1, W0), udp(W0, W1), udp(OUTSIDE, W1), udp(W1_V6, OUTSIDE_V6)],
    )


def test_04_an_ingress_policy_admits_whom_it_names_and_leaves_egress_to_the_profile(policed: PolicedNode) -> None:
    policed.apply(*THREE, global_policy("in", ONLY_W0, types=["Ingress"], ingress=[FROM_W1]))
    policed.expect([udp(W1, W0), udp(W0, W2), udp(W0, OUTSIDE)], denied=[udp(W2, W0), udp(OUTSIDE, W0)])


def test_05_an_egress_policy_leaves_ingress_to_the_profile(policed: PolicedNode) -> None:
    policed.apply(*THREE, global_policy("out", ONLY_W0, types=["Egress"], egress=[TO_W1]))
    policed.expect([udp(W1, W0), udp(W2, W0), udp(OUTSIDE, W0), udp(W0, W1)], denied=[udp(W0, W2), udp(W0, OUTSIDE)])


def test_06_rules_for_ingress_and_both_types_deny_all_egress(policed: PolicedNode) -> None:
    policed.apply(*THREE, global_policy("both", ONLY_W0, types=["Ingress", "Egress"], ingress=[FROM_W1]))
    policed.expect([udp(W1, W0)], denied=[udp(W2, W0), udp(W0, W1), udp(W0, OUTSIDE)])


@pytest.mark.parametrize(("number", "types"), [(7, ["Ingress"]), (8, ["Ingress", "Egress"])])
def test_07_08_a_denying_egress_rule_counts_with_the_type_egress_only(
    policed: PolicedNode, number: int, types: list[str]
) -> None:
    policed.apply(*THREE, global_policy("p", ONLY_W0, types=types, ingress=[FROM_W1], egress=[DENY]))
    out = [udp(W0, W1), udp(W0, OUTSIDE)]
    policed.expect([udp(W1, W0), *(out if number == 7 else [])], denied=[udp(W2, W0), *(out if number == 8 else [])])


def test_09_an_ingress_policy_without_rules_admits_nothing(policed: PolicedNode) -> None:
    policed.apply(*THREE, global_policy("nobody", ONLY_W0, types=["Ingress"]))
    policed.expect([udp(W0, W1), udp(W2, W1)], denied=[udp(W1, W0), udp(W2, W0), udp(OUTSIDE, W0), ping(W1, W0)])


@pytest.mark.parametrize(
    ("rules", "ingress_passes", "egress_passes"),
    [
        ({}, False, True),
        ({"ingress": [FROM_W1]}, False, True),
        ({"egress": [TO_W1]}, True, False),
        ({"ingress": [FROM_W1], "egress": [TO_W1]}, False, False),
    ],
    ids=["none", "ingress", "egress", "both"],
)
def test_10_types_are_those_of_the_rules_where_none_are_given(
    policed: PolicedNode, rules: dict[str, t.Any], ingress_passes: bool, egress_passes: bool
) -> None:
    policed.apply(*THREE, global_policy("p", ONLY_W0, **rules))
    both = {udp(W2, W0): ingress_passes, udp(W0, W2): egress_passes}
    policed.expect([flow for flow in both if both[flow]], denied=[flow for flow in both if not both[flow]])


def test_11_policies_are_asked_by_order_then_by_name_and_those_without_order_last(policed: PolicedNode) -> None:
    def both(first: dict[str, t.Any], second: dict[str, t.Any]) -> list[dict[str, t.Any]]:
        """Return two policies for w0: `first`, which denies and comes last in the list, and `second`, which allows.

        Remove `name` from both arguments.
        """
        return [
            global_policy(second.pop("name"), ONLY_W0, ingress=[ALLOW], **second),
            global_policy(first.pop("name"), ONLY_W0, ingress=[DENY], **first),
        ]

    for first, second in (
        ({"name": "z", "order": 9}, {"name": "a", "order": 10}),
        ({"name": "z", "order": -1}, {"name": "a"}),
        ({"name": "a", "order": 5}, {"name": "b", "order": 5}),
        ({"name": "a"}, {"name": "b"}),
    ):
        policed.apply(*THREE, *both(first, second))
        policed.expect([udp(W1, W2)], denied=[udp(W1, W0)])
    # Within a policy the first rule that matches decides.
    policed.apply(*THREE, global_policy("p", ONLY_W0, ingress=[FROM_W1, DENY, ALLOW]))
    policed.expect([udp(W1, W0)], denied=[udp(W2, W0)])


@pytest.mark.parametrize("first", ["Deny", "Allow"])
def test_12_what_an_earlier_policy_decides_a_later_one_does_not_change(policed: PolicedNode, first: str) -> None:
    second = {"Deny": "Allow", "Allow": "Deny"}[first]
    policed.apply(
        *THREE,
        global_policy("one", ONLY_W0, order=1, ingress=[{"action": first, "source": {"selector": 'name == "w1"'}}]),
        global_policy("two", ONLY_W0, order=2, ingress=[{"action": second}]),
    )
    flows = {"Deny": udp(W1, W0), "Allow": udp(W2, W0)}
    if first == "Allow":
        flows = {"Allow": flows["Deny"], "Deny": flows["Allow"]}
    policed.expect([flows["Allow"]], denied=[flows["Deny"]])


def test_13_pass_leaves_it_to_the_next_tier_and_profiles_and_log_goes_on(policed: PolicedNode) -> None:
    passing = global_policy("a", ONLY_W0, order=1, ingress=[{"action": "Log"}, {"action": "Pass"}])
    denying = global_policy("b", ONLY_W0, order=2, ingress=[DENY])
    policed.apply(*THREE, passing, denying)
    with policed.logged() as log:
        policed.expect([udp(W1, W0)])
    assert len(log) == 1
    # If another tier follows, Pass leaves the decision to that tier.
    first = {**passing, "spec": {**passing["spec"], "tier": "first"}}
    for ingress, allowed in (([ALLOW], True), ([DENY], False)):
        policed.apply(*THREE, tier("first", 1), first, global_policy("b", ONLY_W0, ingress=ingress))
        policed.expect(*(([udp(W1, W0)], []) if allowed else ([], [udp(W1, W0)])))


def test_14_what_policies_apply_to_and_do_not_decide_is_denied_whatever_profiles_say(policed: PolicedNode) -> None:
    policed.apply(*THREE, global_policy("p", ONLY_W0, ingress=[{"action": "Allow", "protocol": "TCP"}]))
    policed.expect([tcp(W1, W0)], denied=[udp(W1, W0), ping(W1, W0)])
    # A policy of another namespace applies to no workload here.
    policed.apply(*THREE, network_policy("p", ONLY_W0, "elsewhere", ingress=[DENY]))
    policed.expect([tcp(W1, W0), udp(W1, W0)])


def test_16_profiles_are_asked_in_turn_and_a_missing_one_denies(policed: PolicedNode) -> None:
    udp_only = profile("udp-only", ingress=[{"action": "Allow", "protocol": "UDP"}], egress=[ALLOW])
    no_dns = profile(
        "no-dns", ingress=[{"action": "Deny", "protocol": "UDP", "destination": {"ports": [53]}}], egress=[ALLOW]
    )
    policed.apply(workload(0, profiles=["udp-only"]), workload(1), udp_only, no_dns)
    policed.expect([udp(W1, W0), udp(W1, W0, 53)], denied=[tcp(W1, W0)])
    policed.apply(workload(0, profiles=["udp-only", OPEN]), workload(1), udp_only, no_dns)
    policed.expect([udp(W1, W0), tcp(W1, W0)])
    policed.apply(workload(0, profiles=["no-dns", "udp-only"]), workload(1), udp_only, no_dns)
    policed.expect([udp(W1, W0)], denied=[udp(W1, W0, 53), tcp(W1, W0)])
    # The first profile with a rule that matches decides.
    policed.apply(workload(0, profiles=["udp-only", "no-dns"]), workload(1), udp_only, no_dns)
    policed.expect([udp(W1, W0), udp(W1, W0, 53)], denied=[tcp(W1, W0)])
    policed.apply(workload(0, profiles=["missing", OPEN]), workload(1))
    policed.expect([udp(W1, OUTSIDE)], denied=[udp(W1, W0), udp(W0, W1)])


def test_17_between_two_workloads_of_the_host_both_have_to_allow(policed: PolicedNode) -> None:
    deny_out, deny_in = (
        global_policy(f"no-{kind.lower()}", f'name == "{name}"', types=[kind])
        for kind, name in (("Egress", "w0"), ("Ingress", "w1"))
    )
    policed.apply(*THREE)
    policed.expect([udp(W0, W1)])
    policed.apply(*THREE, deny_out)
    policed.expect([udp(W2, W1)], denied=[udp(W0, W1)])
    policed.apply(*THREE, deny_in)
    policed.expect([udp(W0, W2)], denied=[udp(W0, W1)])


@pytest.mark.parametrize(
    ("own", "forged", "outside"), [(W0, W1, OUTSIDE), (W0_V6, W1_V6, OUTSIDE_V6)], ids=["IPv4", "IPv6"]
)
def test_21_a_source_that_is_not_the_workloads_own_is_dropped(
    policed: PolicedNode, own: str, forged: str, outside: str
) -> None:
    policed.apply(*WORKLOADS)
    policed.expect([udp(own, outside)])
    interface = interface_of(own)
    for source in (forged, outside.replace("9", "8"), HOST_V6 if ":" in own else HOST):
        flow = udp(source, outside)
        assert policed.see({flow: None}, by=interface) == {flow: None}, source
    # A forged packet is dropped even if it belongs to an established connection of the workload that it claims to come
    # from, although policy is not evaluated for established connections.
    theirs = udp(forged, outside)
    policed.establish(theirs)
    assert policed.see({theirs: None}, by=interface) == {theirs: None}
    policed.expect([theirs])


def test_22_workloads_send_no_encapsulated_packets_unless_they_may(policed: PolicedNode) -> None:
    encapsulated = [of_protocol(4, W0, OUTSIDE), udp(W0, OUTSIDE, 4789)]
    to_workload = [of_protocol(4, OUTSIDE, W1), udp(OUTSIDE, W0, 4789)]
    policed.apply(*WORKLOADS)
    policed.expect(to_workload, denied=encapsulated)
    settings = PolicySettings(allow_ipip_from_workloads=True, allow_vxlan_from_workloads=True)
    policed.apply(*WORKLOADS, settings=settings)
    policed.expect([*to_workload, *encapsulated])


@pytest.mark.parametrize(("action", "passes"), [("Drop", False), ("Return", True), ("Accept", True)])
def test_23_to_the_host_egress_policy_comes_first_then_what_is_set(
    policed: PolicedNode, action: str, passes: bool
) -> None:
    settings = PolicySettings(default_endpoint_to_host_action=action)
    policy = global_policy("out", ONLY_W0, types=["Egress"], egress=[{"action": "Allow", "protocol": "TCP"}])
    policed.apply(*WORKLOADS, policy, settings=settings)
    to_host = [tcp(W0, HOST), udp(W1, HOST)]
    policed.expect(to_host if passes else [], denied=[udp(W0, HOST), *([] if passes else to_host)])
    neighbors = [(135, W0_V6, HOST_V6), (136, W0_V6, HOST_V6), (133, W0_V6, HOST_V6)]
    policed.expect([icmp(*one) for one in neighbors], denied=[icmp(128, W0_V6, HOST_V6)])


def test_24_the_host_reaches_its_workloads_whatever_policy_says(policed: PolicedNode) -> None:
    nothing = global_policy("nothing", types=["Ingress", "Egress"])
    for interface in ("eth0", "*"):
        policed.apply(*WORKLOADS, host_endpoint(interface), nothing)
        policed.expect([udp(HOST, W0), tcp(HOST, W1), udp(HOST_V6, W0_V6)], denied=[udp(HOST, OUTSIDE), udp(W1, W0)])
