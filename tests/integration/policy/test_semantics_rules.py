# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of rules' matches with real packets: each tests the line of semantics.py with its number."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources

from tests.integration.policy.documents import (
    ALLOW,
    WORKLOADS,
    Document,
    global_policy,
    network_policy,
    network_set,
    profile,
    workload,
)
from tests.integration.policy.policed_node import (
    ELSEWHERE,
    OUTSIDE,
    OUTSIDE_V6,
    W0,
    W0_V6,
    W1,
    W1_V6,
    W2,
    PolicedNode,
    icmp,
    of_protocol,
    ping,
    tcp,
    udp,
)

ONLY_W0 = 'name == "w0"'
UDP = {"action": "Allow", "protocol": "UDP"}


def to_w0(*rules: Document) -> Document:
    """Return a GlobalNetworkPolicy of type Ingress with these rules for w0."""
    return global_policy("to-w0", ONLY_W0, types=["Ingress"], ingress=list(rules))


def port(name: str, number: int, protocol: str = "UDP") -> Document:
    return {"name": name, "protocol": protocol, "port": number}


def ports(*entries: t.Union[int, str], **more: t.Any) -> Document:
    return {**UDP, "destination": {"ports": list(entries), **more}}


def test_49_one_owner_of_an_address_has_to_match_the_selector_and_not_the_not_selector(policed: PolicedNode) -> None:
    """The address of w1 is also in a network set, so that it has two owners."""
    held = network_set("held", f"{W1}/32", kind="held")
    others = (*WORKLOADS, workload(2), held)

    def from_(namespace: str = "", **source: str) -> Document:
        rule = {"types": ["Ingress"], "ingress": [{**UDP, "source": source}]}
        return network_policy("to-w0", ONLY_W0, **rule) if namespace else global_policy("to-w0", ONLY_W0, **rule)

    # w1 is selected, although the set, which has the same address, is not.
    policed.apply(*others, from_(selector="has(name)", notSelector="has(kind)"))
    policed.expect([udp(W1, W0), udp(W2, W0)], denied=[udp(OUTSIDE, W0)])
    # The set is selected, although w1 is not.
    policed.node.forget_connections()
    policed.apply(*others, from_(selector="all()", notSelector='name == "w1"'))
    policed.expect([udp(W1, W0), udp(W2, W0)], denied=[udp(OUTSIDE, W0)])
    # Without the set, the address has no owner that is selected.
    policed.node.forget_connections()
    policed.apply(*WORKLOADS, workload(2), from_(selector="all()", notSelector='name == "w1"'))
    policed.expect([udp(W2, W0)], denied=[udp(W1, W0), udp(OUTSIDE, W0)])
    # A notSelector alone excludes an address that any owner has, and matches strangers.
    policed.node.forget_connections()
    policed.apply(*others, from_(notSelector="has(kind)"))
    policed.expect([udp(W2, W0), udp(OUTSIDE, W0)], denied=[udp(W1, W0)])
    # In a NetworkPolicy it is joined to the namespace, so that strangers do not match, and w1 does.
    policed.node.forget_connections()
    policed.apply(*others, from_("default", notSelector="has(kind)"))
    policed.expect([udp(W1, W0), udp(W2, W0)], denied=[udp(OUTSIDE, W0)])
    # A named port is that of the endpoints that are selected.
    policed.node.forget_connections()
    web = [workload(index, ports=[port("web", 80)], **{"class": "gold"}) for index in (1, 2)]
    named = {"selector": 'class == "gold"', "notSelector": 'name == "w2"', "ports": ["web"]}
    to_web = global_policy("p", ONLY_W0, types=["Egress"], egress=[{**UDP, "destination": named}])
    policed.apply(workload(0), *web, held, to_web)
    policed.expect([udp(W0, W1, 80)], denied=[udp(W0, W1, 81), udp(W0, W2, 80)])


def test_28_labels_of_profiles_are_inherited_and_an_own_one_wins(policed: PolicedNode) -> None:
    gold = profile("gold", labelsToApply={"class": "gold"}, ingress=[ALLOW], egress=[ALLOW])
    inheriting = workload(1, profiles=["gold"])
    own = workload(2, profiles=["gold"], **{"class": "iron"})
    for rank, by in (("gold", W1), ("iron", W2)):
        policed.apply(
            workload(0), inheriting, own, gold, to_w0({**ALLOW, "source": {"selector": f'class == "{rank}"'}})
        )
        policed.expect([udp(by, W0)], denied=[udp({W1: W2, W2: W1}[by], W0)])


def test_29_a_named_port_is_that_of_the_endpoint_and_of_its_protocol(policed: PolicedNode) -> None:
    named = workload(0, ports=[port("http", 8080), port("http", 8081), port("http", 9090, "TCP"), port("sql", 5432)])
    policed.apply(named, workload(1), to_w0(ports("http")))
    policed.expect(
        [udp(W1, W0, 8080), udp(W1, W0, 8081)], denied=[udp(W1, W0, 9090), tcp(W1, W0, 9090), tcp(W1, W0, 8080)]
    )
    policed.apply(named, workload(1), to_w0(ports("http", 53, "6000:6001")))
    policed.expect(
        [udp(W1, W0, number) for number in (8080, 8081, 53, 6000, 6001)], denied=[udp(W1, W0, 5432), udp(W1, W0, 6002)]
    )
    # No workload has a port of this name, so the rule allows nothing.
    policed.apply(named, workload(1), to_w0(ports("nobodys")))
    policed.expect([udp(W0, W1)], denied=[udp(W1, W0, 8080), udp(W1, W0, 53)])
    # A named port stands for the number that each destination gives it: 80 at w1, and 81 at w2.
    to_http = global_policy("out", ONLY_W0, types=["Egress"], egress=[ports("http")])
    policed.apply(workload(0), workload(1, ports=[port("http", 80)]), workload(2, ports=[port("http", 81)]), to_http)
    policed.expect([udp(W0, W1, 80), udp(W0, W2, 81)], denied=[udp(W0, W1, 81), udp(W0, W2, 80), udp(W0, OUTSIDE, 80)])


def test_30_named_ports_exclude_and_go_together_with_selectors(policed: PolicedNode) -> None:
    ends = (
        workload(0),
        workload(1, ports=[port("http", 80)], role="web"),
        workload(2, ports=[port("http", 80)], role="db"),
    )
    excluding = {**UDP, "destination": {"notPorts": ["http", 53]}}
    policed.apply(*ends, global_policy("out", ONLY_W0, types=["Egress"], egress=[excluding]))
    policed.expect([udp(W0, W1, 81), udp(W0, OUTSIDE, 80)], denied=[udp(W0, W1, 80), udp(W0, W2, 80), udp(W0, W1, 53)])
    both = ports("http", selector='role == "web"')
    policed.apply(*ends, global_policy("out", ONLY_W0, types=["Egress"], egress=[both]))
    policed.expect([udp(W0, W1, 80)], denied=[udp(W0, W2, 80), udp(W0, W1, 81)])


def test_31_lists_are_any_of_fields_are_all_of_and_negated_lists_none_of(policed: PolicedNode) -> None:
    odd = list(range(5001, 5041, 2))
    assert len(odd) > 15
    policed.apply(*WORKLOADS, to_w0(ports(*odd)))
    policed.expect([udp(W1, W0, number) for number in odd], denied=[udp(W1, W0, number + 1) for number in odd])
    policed.apply(*WORKLOADS, to_w0({**UDP, "destination": {"notPorts": odd}}))
    policed.expect([udp(W1, W0, number + 1) for number in odd], denied=[udp(W1, W0, number) for number in odd])
    nets = ["192.0.2.0/28", "198.51.100.0/24"]
    policed.apply(*WORKLOADS, to_w0({**UDP, "source": {"nets": nets}, "destination": {"ports": odd}}))
    policed.expect(
        [udp(OUTSIDE, W0, 5001), udp(ELSEWHERE, W0, 5039)], denied=[udp(OUTSIDE, W0, 5002), udp(W1, W0, 5001)]
    )
    policed.apply(*WORKLOADS, to_w0({**UDP, "source": {"notNets": nets}}))
    policed.expect([udp(W1, W0), udp("192.0.2.16", W0)], denied=[udp(OUTSIDE, W0), udp(ELSEWHERE, W0)])
    # If a rule has a net and a selector, an address has to match both.
    office = network_set("office", "192.0.2.0/24", net="office")
    both = {**UDP, "source": {"nets": ["192.0.2.0/28"], "selector": 'net == "office"'}}
    policed.apply(*WORKLOADS, office, to_w0(both))
    policed.expect([udp(OUTSIDE, W0)], denied=[udp("192.0.2.16", W0), udp(ELSEWHERE, W0)])
    without = {
        **UDP,
        "source": {"selector": 'net == "office"', "notSelector": 'name == "w1"', "notNets": [f"{OUTSIDE}/32"]},
    }
    policed.apply(*WORKLOADS, office, to_w0(without))
    policed.expect([udp("192.0.2.16", W0)], denied=[udp(OUTSIDE, W0), udp(W1, W0)])


def test_32_addresses_of_one_family_say_nothing_of_the_other(policed: PolicedNode) -> None:
    v4_only = {**UDP, "source": {"nets": ["10.65.0.0/24"]}}
    policed.apply(*WORKLOADS, to_w0(v4_only))
    policed.expect([udp(W1, W0)], denied=[udp(W1_V6, W0_V6)])
    # A Deny rule with only an IPv4 net cannot match IPv6. It is left out there, and not written without the net.
    policed.apply(*WORKLOADS, to_w0({**v4_only, "action": "Deny"}, UDP))
    policed.expect([udp(W1_V6, W0_V6), udp(OUTSIDE, W0)], denied=[udp(W1, W0)])
    # An IPv6 source is not in an excluded IPv4 net, so the rule matches it. Felix leaves such a rule out.
    policed.apply(*WORKLOADS, to_w0({**UDP, "source": {"notNets": ["10.65.0.0/24"]}}))
    policed.expect([udp(W1_V6, W0_V6), udp(OUTSIDE, W0)], denied=[udp(W1, W0)])
    policed.apply(*WORKLOADS, to_w0({**ALLOW, "ipVersion": 6}))
    policed.expect([udp(OUTSIDE_V6, W0_V6)], denied=[udp(OUTSIDE, W0)])
    policed.apply(*WORKLOADS, to_w0({**ALLOW, "ipVersion": 4}))
    policed.expect([udp(OUTSIDE, W0)], denied=[udp(OUTSIDE_V6, W0_V6)])
    mixed = {**UDP, "source": {"nets": ["10.65.0.0/24"]}, "destination": {"nets": ["fd65::/64"]}}
    with pytest.raises(resources.ResourceError, match="Write a rule for each version of IP"):
        policed.apply(*WORKLOADS, to_w0(mixed))


def test_33_protocols_by_name_or_number_and_those_without_ports_by_themselves(policed: PolicedNode) -> None:
    policed.apply(*WORKLOADS, to_w0({**ALLOW, "protocol": 254}))
    policed.expect([of_protocol(254, W1, W0)], denied=[of_protocol(253, W1, W0), udp(W1, W0)])
    policed.apply(*WORKLOADS, to_w0({**ALLOW, "protocol": 17, "destination": {"ports": [5000]}}))
    policed.expect([udp(W1, W0, 5000)], denied=[udp(W1, W0, 5001), tcp(W1, W0, 5000)])
    policed.apply(*WORKLOADS, to_w0({**ALLOW, "notProtocol": "UDP"}))
    policed.expect([tcp(W1, W0), of_protocol(253, W1, W0)], denied=[udp(W1, W0)])
    policed.apply(*WORKLOADS, to_w0({**ALLOW, "protocol": "ICMP", "icmp": {"type": 8}}))
    policed.expect([ping(W1, W0)], denied=[icmp(13, W1, W0), ping(W1_V6, W0_V6), udp(W1, W0)])
    policed.apply(*WORKLOADS, to_w0({**ALLOW, "protocol": "ICMPv6", "notICMP": {"type": 128}}))
    policed.expect([icmp(139, W1_V6, W0_V6)], denied=[ping(W1_V6, W0_V6), ping(W1, W0)])
