# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the differences in policy, as people read them: by name and rule by rule; chains and sets are counted."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import Change
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import policy_diff
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    DefinedPort,
    Endpoint,
    Entity,
    Failsafe,
    NamedPort,
    Policy,
    PolicyNetworkSet,
    PolicyRule,
    PolicyTier,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
    allow_all,
)
from hypothesis import given, settings

from tests.unit.policy.random_policies import NODE, World, worlds

FROM_WEB = PolicyRule(
    "Allow", protocol="tcp", source=Entity(selector='app == "web"'), destination=Entity(ports=(PortRange(80, 80),))
)
DB = Policy("default/db", "NetworkPolicy", selector='app == "db"', ingress=(FROM_WEB, PolicyRule("Deny")))
W1 = Endpoint("WorkloadEndpoint", "default/w1", "node1", "cali1", ("10.65.0.1",), (("app", "web"),))
W2 = dataclasses.replace(W1, name="default/w2", node="node2", addresses=("10.65.1.1",))
HOST = Endpoint("HostEndpoint", "node1-eth0", "node1", "eth0")


def state(*policies: Policy, endpoints: tuple[Endpoint, ...] = (W1, W2, HOST), **others: object) -> PolicyState:
    sets = [PolicyNetworkSet("office", nets=("192.0.2.0/28",), labels=(("net", "office"),))]
    found = policy_set([PolicyTier("platform", 10, "Pass")], policies, [allow_all()], sets)
    return PolicyState(found, endpoints, PolicySettings(**others))  # type: ignore[arg-type]


def lines(old: PolicyState | None, new: PolicyState | None) -> list[str]:
    return [change.line(22) for change in policy_diff.changes(old, new, "node1")]


def test_policy_comes_into_force() -> None:
    assert lines(None, state(DB)) == [
        "+ policy   tier platform           order 10, default action Pass",
        "+ policy   default/db              2 rules",
        "+ policy   network set office      1 net",
        "+ policy   host endpoint node1-eth0  eth0",
        "+ policy   workloads of this node  1",
        "+ policy   endpoints of other nodes  1",
        "+ policy   settings",
    ]
    assert [line.replace("+", "-", 1) for line in lines(None, state(DB))] == lines(state(DB), None)


def test_equal_policies_have_no_differences() -> None:
    assert policy_diff.changes(state(DB), state(DB), "node1") == []
    assert policy_diff.changes(None, None, "node1") == []


def test_a_changed_policy_is_shown_rule_by_rule() -> None:
    named = dataclasses.replace(FROM_WEB, destination=Entity(ports=(PortRange(80, 81), NamedPort("http"))))
    other = dataclasses.replace(DB, order=5.5, ingress=(named, *DB.ingress[1:], PolicyRule("Log")))
    (change,) = policy_diff.changes(state(DB), state(other), "node1")
    assert change.line(22) == "~ policy   default/db              2 rules  ->  3 rules    3 added, 1 removed"
    assert change.detail.splitlines() == [
        "--- policy default/db",
        "+++ policy default/db",
        "@@ -1,6 +1,8 @@",
        " kind NetworkPolicy",
        " tier default",
        "+order 5.5",
        ' selector app == "db"',
        " types Ingress",
        '-ingress  Allow tcp from app == "web" to ports 80',
        '+ingress  Allow tcp from app == "web" to ports 80:81, http',
        " ingress  Deny",
        "+ingress  Log",
    ]


def test_reordered_rules_are_shown_as_another_order() -> None:
    other = dataclasses.replace(DB, ingress=DB.ingress[::-1])
    assert lines(state(DB), state(other)) == [
        "~ policy   default/db              2 rules  ->  2 rules    in another order"
    ]


def test_settings_and_endpoints() -> None:
    moved = dataclasses.replace(W2, addresses=("10.65.1.2",))
    changes = policy_diff.changes(state(DB), state(DB, endpoints=(W1, moved, HOST), audit=True), "node1")
    assert [(change.subject, change.note) for change in changes] == [
        ("endpoints of other nodes", "1 added, 1 removed"),
        ("settings", "1 added, 1 removed"),
    ]
    assert "+default/w2 10.65.1.2 app=web" in changes[0].detail
    assert "-audit off\n+audit on" in changes[1].detail


def test_a_policy_named_settings_is_shown_beside_the_settings() -> None:
    """A GlobalNetworkPolicy may have the name under which the settings are shown: both have changes of their own."""
    allow = Policy("settings", "GlobalNetworkPolicy", ingress=(PolicyRule("Allow"),), types=("Ingress",))
    deny = dataclasses.replace(allow, ingress=(PolicyRule("Deny"),))
    assert lines(state(allow), state(deny)) == [
        "~ policy   settings                1 rule  ->  1 rule    1 added, 1 removed"
    ]
    (policy, settings) = policy_diff.changes(state(allow), state(deny, audit=True), "node1")
    assert (policy.subject, settings.subject) == ("settings", "settings")
    assert "-ingress  Allow\n+ingress  Deny" in policy.detail and "-audit off\n+audit on" in settings.detail


def test_the_settings_of_a_policy_are_listed_line_by_line() -> None:
    """The settings have lines; that connections are cut is said only where they are."""
    given = PolicyState(
        policy_set([], []),
        (),
        PolicySettings(
            failsafe_inbound=(Failsafe("tcp", 22), Failsafe("udp", 68, "192.0.2.0/24")),
            failsafe_outbound=(Failsafe("tcp", 53),),
            workload_profiles=(),
            nflog_group=0,
            audit=True,
        ),
    )
    cutting = dataclasses.replace(given, settings=dataclasses.replace(given.settings, cut_denied_flows=True))
    before, after = (policy_diff.changes(None, one, "node1")[-1].detail.splitlines()[3:] for one in (given, cutting))
    assert before == [
        "+audit on",
        "+workloads to their host: Drop",
        "+allowed: Accept, denied: Drop",
        "+failsafe inbound tcp 22",
        "+failsafe inbound udp 68 192.0.2.0/24",
        "+failsafe outbound tcp 53",
        "+profiles of workloads without any: none",
        "+NFLOG group 0",
        "+mark mask 0xffff0000",
    ]
    assert [line for line in after if line not in before] == ["+connections that a new policy denies are cut"]


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(PolicySettings)])
def test_each_setting_that_changes_is_shown(field: str) -> None:
    old = PolicySettings(default_endpoint_to_host_action="Accept")
    value = getattr(old, field)
    other = {bool: lambda: not value, int: lambda: value // 2, str: lambda: "Return", tuple: lambda: value[1:]}
    new = dataclasses.replace(old, **{field: other[type(value)]()})
    before, after = (PolicyState(policy_set([], []), (), settings) for settings in (old, new))
    (change,) = policy_diff.changes(before, after, "node1")
    assert (change.subject, change.action) == ("settings", "~")


@pytest.mark.parametrize(
    ("order", "words"),
    [(None, "none"), (0, "0"), (0.5, "0.5"), (999999, "999999"), (1e6, "1000000"), (1e9, "1000000000")],
)
def test_an_order_is_written_without_an_exponent(order: float | None, words: str) -> None:
    """A tier's order is written in decimal digits without an exponent, and a missing one as `none`."""
    (change,) = policy_diff.changes(None, PolicyState(policy_set([PolicyTier("t", order)], []), ()), "node1")[:1]
    assert (change.subject, change.after) == ("tier t", f"order {words}, default action Deny")


def test_an_endpoint_line_omits_labels_that_calico_adds() -> None:
    """An endpoint's line has its addresses, labels, profiles and ports, without the labels that Calico adds itself."""
    labels = (("app", "web"), ("pcns.team", "a"), ("projectcalico.org/namespace", "default"))
    port = DefinedPort("http", "tcp", 80)
    one = dataclasses.replace(W1, labels=labels, profiles=("open",), ports=(port,))
    (change,) = policy_diff.changes(state(endpoints=(W1,)), state(endpoints=(one,)), "node1")
    assert change.detail.splitlines()[3:] == [
        "-default/w1 10.65.0.1 app=web",
        "+default/w1 10.65.0.1 app=web profile open port http=80/tcp",
    ]


def test_a_host_endpoint_that_gets_another_interface():
    moved = dataclasses.replace(HOST, interface="eth1")
    (change,) = policy_diff.changes(state(endpoints=(HOST,)), state(endpoints=(moved,)), "node1")
    assert (change.before, change.after, change.note) == ("eth0", "eth1", "1 added, 1 removed")
    assert "-interface eth0\n+interface eth1" in change.detail


def test_a_host_endpoint_of_another_node_is_none_of_this_one_s() -> None:
    """A HostEndpoint of this node is an object of its own; the others are lines among the endpoints of other nodes."""
    there = dataclasses.replace(HOST, name="node2-eth0", node="node2")
    assert lines(state(endpoints=(HOST,)), state(endpoints=(HOST, there))) == ["+ policy   endpoints of other nodes  1"]
    unnamed = dataclasses.replace(HOST, interface="", addresses=("192.0.2.1", "192.0.2.2"))
    assert "+ policy   host endpoint node1-eth0  192.0.2.1, 192.0.2.2" in lines(None, state(endpoints=(unnamed,)))


@settings(max_examples=15)
@given(worlds(), worlds())
def test_exactly_the_policies_that_differ_are_listed(one: World, other: World) -> None:
    old, new = (PolicyState(world.policy_set, world.endpoints) for world in (one, other))
    told = {change.subject for change in policy_diff.changes(old, new, NODE)}
    before, after = ({policy.name: policy for policy in world.policy_set.policies} for world in (one, other))
    for name in before.keys() | after.keys():
        # Everything of a policy is in its words, except annotations, which no random world has.
        assert (name in told) == (before.get(name) != after.get(name))


def test_chains_and_sets_are_counted() -> None:
    plan = [
        Change("route", "+", "10.0.0.0/8"),
        Change("iptables", "~", "filter cali-INPUT", "2 rules", "3 rules"),
        Change("iptables", "+", "filter cali-pi-web (IPv6)", None, "3 rules"),
        Change("iptables", "-", "raw cali-x", "1 rule"),
        Change("iptables", "+", "nat cali-POSTROUTING", None, "1 rule"),
        Change("ipset", "-", "cali40s:abc", "1 member"),
        Change("ipset", "~", "cali40all-hosts-net", "1 member", "2 members"),
    ]
    assert [change.line() for change in policy_diff.folded(plan)] == [
        "+ route    10.0.0.0/8",
        "+ iptables nat cali-POSTROUTING  1 rule",
        "~ ipset    cali40all-hosts-net  1 member  ->  2 members",
        "~ iptables chains of policy  2 written, 1 removed",
        "- ipset    sets of policy  1 removed",
    ]
