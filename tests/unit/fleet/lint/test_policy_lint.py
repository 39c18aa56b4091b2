# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of likely mistakes in an inventory's policy, with their whole texts, and of policy without any."""

from __future__ import annotations

import itertools
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.policies import policy_lint
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import Evaluator
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    DefinedPort,
    Endpoint,
    Entity,
    Flow,
    NamedPort,
    Policy,
    PolicyRule,
    PolicyTier,
    Port,
    policy_set,
)

from tests.unit.policy.random_policies import random_flow, random_world

WEB = Endpoint(
    "WorkloadEndpoint", "default/web", "node1", "caliweb", ("10.65.0.1",), (("app", "web"), ("tier", "front")),
    ports=(DefinedPort("http", "tcp", 80),),
)  # fmt: skip
HOST = Endpoint("HostEndpoint", "node1-eth0", "node1", "eth0", labels=(("role", "host"),))


def port(number: int) -> Entity:
    return Entity(ports=(PortRange(number, number),))


AT = port(1)


def ports(*given: t.Union[str, int]) -> tuple[Port, ...]:
    return tuple(NamedPort(one) if isinstance(one, str) else PortRange(one, one) for one in given)


def named(*given: t.Union[str, int]) -> PolicyRule:
    return PolicyRule("Allow", protocol="tcp", destination=Entity(ports=ports(*given)))


def without(*given: t.Union[str, int]) -> PolicyRule:
    return PolicyRule("Allow", protocol="tcp", source=Entity(not_ports=ports(*given)))


def texts(*parts: t.Union[Policy, PolicyTier, Endpoint]) -> list[str]:
    policies = [part for part in parts if isinstance(part, Policy)]
    tiers = [part for part in parts if isinstance(part, PolicyTier)]
    endpoints = [WEB, *(part for part in parts if isinstance(part, Endpoint))]
    found = policy_lint.findings(policy_set(tiers, policies), endpoints)
    return [f"{one.kind} {one.name}: {one.text}" for one in found]


@pytest.mark.parametrize(
    ("policy", "finding"),
    [
        (
            Policy("p", ingress=(PolicyRule("Deny"), PolicyRule("Allow", protocol="tcp", destination=port(80)))),
            "rule 2 of Ingress is never reached: rule 1 (Deny) matches all that it does. Move it before that, or "
            "remove it.",
        ),
        (
            Policy(
                "p",
                ingress=(
                    PolicyRule("Allow", protocol="tcp"),
                    PolicyRule("Log"),
                    PolicyRule("Deny", 4, "tcp", source=AT),
                ),
            ),
            "rule 3 of Ingress is never reached: rule 1 (Allow) matches all that it does. Move it before that, or "
            "remove it.",
        ),
        (
            Policy("p", selector='app == "wbe"'),
            "its selector: nothing in the inventory has app == 'wbe'. Did you mean 'web'?",
        ),
        (
            Policy("p", ingress=(PolicyRule("Allow", source=Entity(selector='teir == "front"')),)),
            "rule 1 of Ingress, source: nothing in the inventory has a label teir. Did you mean tier?",
        ),
        (
            Policy("p", ingress=(named("https"),)),
            "rule 1 of Ingress, destination: nobody has a port https of TCP, so that no packet matches. Did you mean "
            "http?",
        ),
        (
            Policy("p", ingress=(named("sql"),)),
            "rule 1 of Ingress, destination: nobody has a port sql of TCP, so that no packet matches. Give it to "
            "workloads (ports), or write its number.",
        ),
        (
            Policy("p", ingress=(named("sql", "http", 8080),)),
            "rule 1 of Ingress, destination: nobody has a port sql of TCP, so that ports matches only http, 8080. "
            "Give it to workloads (ports), or write its number.",
        ),
        (
            Policy("p", types=("Egress",), egress=(named("http"), without("sql"))),
            "rule 2 of Egress, source: nobody has a port sql of TCP, so that notPorts excludes no port, as if it were "
            "left out. Give it to workloads (ports), or write its number.",
        ),
        (
            Policy("p", ingress=(without("https", 22),)),
            "rule 1 of Ingress, source: nobody has a port https of TCP, so that notPorts excludes only 22. Did you "
            "mean http?",
        ),
    ],
)
def test_a_likely_mistake_in_a_policy_is_a_finding(policy: Policy, finding: str) -> None:
    assert texts(policy) == [f"GlobalNetworkPolicy p: {finding}"]


@pytest.mark.parametrize(
    "policy",
    [
        Policy("p", ingress=(PolicyRule("Allow", protocol="tcp", destination=port(80)), PolicyRule("Deny"))),
        Policy(
            "p", ingress=(PolicyRule("Log"), PolicyRule("Allow", protocol="tcp"), PolicyRule("Allow", protocol="udp"))
        ),
        Policy("p", types=("Egress",), ingress=(PolicyRule("Deny"), PolicyRule("Allow"))),
        Policy("p", ingress=(PolicyRule("Deny", source=Entity(nets=("10.0.0.0/8",))), PolicyRule("Allow"))),
        Policy("p", selector='app == "jobs"'),  # nothing matches, but an agent may attach a workload between runs
        Policy("p", selector='app != "wbe"'),
        Policy("p", selector='app in {"web", "cache"} && !has(colour)'),
        Policy("p", ingress=(named("http"), without("http"))),
        Policy("p", ingress=(named("http"),), egress=(without("sql"),)),  # no rule of Egress is in force
    ],
)
def test_a_policy_without_a_mistake_has_no_finding(policy: Policy) -> None:
    assert texts(policy, Policy("web-2", selector='app == "web"')) == []


def test_each_list_that_names_an_unknown_port_gets_its_own_sentence() -> None:
    """A port without an owner closes a rule in ports and excludes nothing in notPorts: each rule is named."""
    assert [text.partition(". ")[0] for text in texts(Policy("p", ingress=(without("sql"), named("sql", "ftp"))))] == [
        "GlobalNetworkPolicy p: rule 1 of Ingress, source: nobody has a port sql of TCP, so that notPorts excludes no "
        "port, as if it were left out",
        "GlobalNetworkPolicy p: rule 2 of Ingress, destination: nobody has a port sql of TCP, so that no packet "
        "matches",
        "GlobalNetworkPolicy p: rule 2 of Ingress, destination: nobody has a port ftp of TCP, so that no packet "
        "matches",
    ]


@pytest.mark.parametrize(
    ("given", "matched"), [(named("sql"), False), (named("sql", 81), True), (without("sql"), True)]
)
def test_the_texts_about_unknown_ports_are_true(given: PolicyRule, matched: bool) -> None:
    """The evaluator matches a flow to port 81 where no finding says that no packet matches."""
    policy = Policy("p", selector="all()", ingress=(given,))
    [text] = texts(policy)
    flow = Flow(6, "10.65.0.9", "10.65.0.1", 40000, 81)
    trace = Evaluator(policy_set([], [policy]), [WEB]).verdict(WEB, "Ingress", flow).trace
    assert (trace[0].matched, "no packet matches" in text) == (matched, not matched)


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("wbe", "web", True),
        ("frontned", "frontend", True),
        ("frontnd", "frontend", True),
        ("frontends", "frontend", True),
        ("frontemd", "frontend", True),
        ("cach", "cache", True),
        ("cachhe", "cache", True),
        ("bakend", "backnd", False),
        ("stores", "stored", True),
        ("store", "stork", False),
        ("rat", "tar", False),
        ("frontxxd", "frontend", False),
        ("backend2", "backend1", False),
        ("api", "app", False),
        ("webs", "web", False),
        ("bd", "db", False),
        ("db", "db", False),
        ("backend", "frontend", False),
    ],
)
def test_misspellings(name: str, known: str, meant: bool) -> None:
    one = Endpoint("WorkloadEndpoint", "default/w1", "node1", labels=(("name", known),))
    assert bool(texts(Policy("p", selector=f'name == "{name}"'), one)) == meant


@pytest.mark.parametrize(("count", "meant"), [(1000, True), (1001, False)])
def test_among_more_than_a_thousand_names_none_is_meant(count: int, meant: bool) -> None:
    """A similar name is proposed among 1,000, and none among 1,001: among many names some are similar by chance."""
    letters = itertools.islice(itertools.product("abcdefghijk", repeat=3), count - 1)
    values = ["frontend", *("".join(word) for word in letters)]
    many = [Endpoint("WorkloadEndpoint", f"default/w{n}", "node1", labels=(("x", v),)) for n, v in enumerate(values)]
    assert bool(texts(Policy("p", selector='x == "frontned"'), *many)) == meant


def test_numbers_are_no_misspellings() -> None:
    one = Endpoint("WorkloadEndpoint", "default/w1", "node1", labels=(("name", "worker-1"),))
    assert texts(Policy("p", selector='name == "worker-2"'), one) == []


def test_policies_behind_one_that_decides_on_everything() -> None:
    deny = Policy(
        "deny",
        order=1.0,
        selector="all()",
        types=("Ingress", "Egress"),
        ingress=(PolicyRule("Log"), PolicyRule("Deny")),
    )
    web = Policy(
        "web", order=2.0, selector='app == "web"', ingress=(PolicyRule("Allow"),), egress=(PolicyRule("Allow"),)
    )
    assert texts(deny, web) == [
        "GlobalNetworkPolicy web: is never asked about Ingress: deny#2 (Deny), before it in tier default, decides on "
        "everything. Give it a lower order than that."
    ]
    assert texts(deny, PolicyTier("first", 1.0), Policy("f", tier="first", ingress=(PolicyRule("Allow"),))) == []
    assert texts(Policy("s", order=1.0, ingress=(PolicyRule("Deny"),), staged=True), web) == []


CLOSED = (
    "HostEndpoint node1-eth0: has no profile, and no policy without preDNAT applies to it: nothing but failsafe ports "
    "reaches node1 there, or leaves it. Write a policy that selects it, or give it the profile "
    "projectcalico-default-allow."
)


def test_tiers_and_hosts() -> None:
    assert texts(PolicyTier("platform", 1.0), HOST, Policy("web", selector='app == "web"')) == [
        "Tier platform: has no policy and decides nothing. Remove it, or give it one.",
        CLOSED,
    ]
    before_dnat = Policy("dnat", selector="has(role)", pre_dnat=True, apply_on_forward=True)
    assert texts(HOST, before_dnat) == [CLOSED]
    assert texts(HOST, before_dnat, Policy("hosts", selector="has(role)")) == []


def test_a_rule_that_is_found_decides_on_no_flow() -> None:
    """The evaluator never decides on random flows by a rule that is reported as never reached."""
    chance = random.Random(4)
    asked = reached = 0
    for _world in range(60):
        world = random_world(chance)
        found = {
            (one.name, int(one.text.split()[1]), one.text.split()[3])
            for one in policy_lint.findings(world.policy_set, world.endpoints)
            if one.text.startswith("rule ") and "is never reached" in one.text
        }
        evaluator = Evaluator(world.policy_set, world.endpoints)
        for endpoint, direction in itertools.product(world.endpoints if found else (), ("Ingress", "Egress")):
            asked += 1
            flow = random_flow(chance, world, endpoint, direction)
            for step in evaluator.verdict(endpoint, direction, flow).trace if flow else ():
                reached += step.matched
                assert not step.matched or (step.policy, step.rule, direction) not in found
    assert asked and reached
