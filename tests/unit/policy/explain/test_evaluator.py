# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts at one endpoint, and their explanations.

The numbers in names of tests are those of LINES in tests/integration/policy/semantics.py.
"""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.selectors import SelectorError
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import (
    EvaluationStep,
    Evaluator,
    Verdict,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.hooks import FORWARD, PRE_DNAT, UNTRACKED
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    DefinedPort,
    Endpoint,
    Entity,
    Flow,
    Icmp,
    NamedPort,
    Policy,
    PolicyNetworkSet,
    PolicyProfile,
    PolicyRule,
    PolicySet,
    PolicyTier,
    policy_set,
)

from tests.unit.policy.random_policies import random_flow, random_world

OPEN = PolicyProfile("open", ingress=(PolicyRule("Allow"),), egress=(PolicyRule("Allow"),))
BOTH = ("Ingress", "Egress")


def workload(number: int, role: str = "", profiles: tuple[str, ...] = ("open",), **fields: t.Any) -> Endpoint:
    fields.setdefault("addresses", (f"10.65.0.{number}", f"fd65::1{number}"))
    labels = fields.pop("labels", (("role", role or f"w{number}"),))
    return Endpoint(
        "WorkloadEndpoint", f"default/w{number}", "node1", f"cali{number}", labels=labels, profiles=profiles, **fields
    )


W0, W1, W2 = workload(0), workload(1), workload(2)
FROM_W1 = Entity(selector='role == "w1"')


def tcp(source: Endpoint | str, destination: Endpoint | str, port: int = 80, **fields: t.Any) -> Flow:
    ends = (end if isinstance(end, str) else end.addresses[0] for end in (source, destination))
    return Flow(6, *ends, source_port=40000, destination_port=port, **fields)


def port(number: int) -> PortRange:
    return PortRange(number, number)


class Asked:
    """An evaluator of these policies for `endpoints`.

    `parts` are further arguments of policy_set; without `profiles` the only profile is `open`.
    """

    def __init__(self, *policies: Policy, endpoints: t.Iterable[Endpoint] = (W0, W1, W2), **parts: t.Any) -> None:
        parts.setdefault("profiles", [OPEN])
        self.evaluator = Evaluator(policy_set(policies=policies, **parts), endpoints)

    def into(self, endpoint: Endpoint, flow: Flow) -> str:
        return self.evaluator.verdict(endpoint, "Ingress", flow).action

    def out_of(self, endpoint: Endpoint, flow: Flow) -> str:
        return self.evaluator.verdict(endpoint, "Egress", flow).action


def on(rule: PolicyRule, flow: Flow, **parts: t.Any) -> str:
    """Return the action of the verdict on a flow to W0 under one policy with only this ingress rule.

    `parts` are further arguments of Asked.
    """
    return Asked(Policy("p", ingress=(rule,)), **parts).into(W0, flow)


# --- workload basics -------------------------------------------------------------------------------------------------


def test_01_a_profile_that_allows_all_and_no_policy() -> None:
    asked = Asked()
    for one, other in ((W0, W1), (W1, W0)):
        assert (asked.out_of(one, tcp(one, other)), asked.into(other, tcp(one, other))) == ("allow", "allow")


def test_02_no_profile_and_no_policy() -> None:
    bare = workload(3, profiles=())
    asked = Asked(endpoints=(W1, bare))
    assert (asked.into(bare, tcp(W1, bare)), asked.out_of(bare, tcp(bare, W1))) == ("deny", "deny")


@pytest.mark.parametrize(
    ("types", "ingress", "egress", "expected"),
    [
        # The last value has the verdicts on W1 to W0, W2 to W0, W0 to W1, and W0 to W2.
        pytest.param(("Ingress",), (PolicyRule("Allow", source=FROM_W1),), (), "allow deny allow allow", id="04"),
        pytest.param(("Egress",), (), (PolicyRule("Allow", destination=FROM_W1),), "allow allow allow deny", id="05"),
        pytest.param(BOTH, (PolicyRule("Allow", source=FROM_W1),), (), "allow deny deny deny", id="06"),
        pytest.param(("Ingress",), (PolicyRule("Allow"),), (PolicyRule("Deny"),), "allow allow allow allow", id="07"),
        pytest.param(BOTH, (PolicyRule("Allow"),), (PolicyRule("Deny"),), "allow allow deny deny", id="08"),
        pytest.param(("Ingress",), (), (), "deny deny allow allow", id="09"),
    ],
)
def test_types_say_which_direction_a_policy_is_for(types: tuple, ingress: tuple, egress: tuple, expected: str) -> None:
    asked = Asked(Policy("p", selector='role == "w0"', types=types, ingress=ingress, egress=egress))
    verdicts = [asked.into(W0, tcp(W1, W0)), asked.into(W0, tcp(W2, W0))]
    verdicts += [asked.out_of(W0, tcp(W0, W1)), asked.out_of(W0, tcp(W0, W2))]
    assert " ".join(verdicts) == expected
    # The policy has no effect on an endpoint that it does not select.
    assert asked.into(W2, tcp(W1, W2)) == "allow"


def test_11_order_then_name_and_no_order_last() -> None:
    policies = [Policy("c"), Policy("b", order=10.0), Policy("a", order=10.0), Policy("z", order=-1.5), Policy("0")]
    assert [policy.name for policy in policy_set(policies=policies).policies] == ["z", "a", "b", "0", "c"]


def test_11_tiers_go_by_order_too() -> None:
    tiers = [PolicyTier("late"), PolicyTier("b", 5.0), PolicyTier("a", 5.0)]
    policies = [Policy("p1", tier="late"), Policy("p2", order=99.0, tier="a"), Policy("p3", order=1.0)]
    made = policy_set(tiers, policies)
    assert [tier.name for tier in made.tiers] == ["a", "b", "default", "late"]
    assert [policy.name for policy in made.policies] == ["p2", "p3", "p1"]


@pytest.mark.parametrize(("first", "second", "expected"), [("Deny", "Allow", "deny"), ("Allow", "Deny", "allow")])
def test_12_the_earlier_policy_wins(first: str, second: str, expected: str) -> None:
    asked = Asked(
        Policy("b", order=1.0, ingress=(PolicyRule(first),)), Policy("a", order=2.0, ingress=(PolicyRule(second),))
    )
    assert asked.into(W0, tcp(W1, W0)) == expected


def test_13_pass_skips_what_is_left_of_the_tier_and_log_goes_on() -> None:
    passing = Policy("a", order=1.0, ingress=(PolicyRule("Log"), PolicyRule("Pass"), PolicyRule("Deny")))
    denying = Policy("b", order=2.0, ingress=(PolicyRule("Deny"),))
    assert Asked(passing, denying).into(W0, tcp(W1, W0)) == "allow"
    assert Asked(passing, denying, profiles=[]).into(W0, tcp(W1, W0)) == "deny"


def test_13_pass_leads_to_the_next_tier() -> None:
    tiers = [PolicyTier("first", 1.0), PolicyTier("second", 2.0)]
    passing = Policy("a", tier="first", ingress=(PolicyRule("Pass", protocol="tcp"),))
    denying = Policy("b", tier="second", ingress=(PolicyRule("Deny"),))
    assert Asked(passing, denying, tiers=tiers).into(W0, tcp(W1, W0)) == "deny"
    assert Asked(passing, tiers=tiers).into(W0, tcp(W1, W0)) == "allow"


def test_14_what_applies_and_does_not_decide_denies() -> None:
    policy = Policy("p", ingress=(PolicyRule("Log"), PolicyRule("Allow", protocol="udp")))
    assert Asked(policy).into(W0, tcp(W1, W0)) == "deny"


@pytest.mark.parametrize(("default_action", "expected"), [("Deny", "deny"), ("Pass", "allow")])
def test_14_unless_the_tier_passes_by_default(default_action: str, expected: str) -> None:
    tiers = [PolicyTier("first", 1.0, default_action)]
    policies = [Policy("p", tier="first"), Policy("q", ingress=(PolicyRule("Allow"),))]
    assert Asked(*policies, tiers=tiers).into(W0, tcp(W1, W0)) == expected


def test_16_profiles_are_tried_in_turn() -> None:
    no_udp = PolicyProfile("no-udp", ingress=(PolicyRule("Pass", protocol="tcp"), PolicyRule("Deny", protocol="udp")))
    several = workload(3, profiles=("no-udp", "open"))
    parts: dict = {"profiles": [OPEN, no_udp], "endpoints": (several,)}
    assert Asked(**parts).into(several, tcp(W1, several)) == "allow"
    assert Asked(**parts).into(several, Flow(17, "1.1.1.1", "10.65.0.3", 1, 2)) == "deny"
    closed = workload(4, profiles=("no-udp",))
    assert Asked(**parts).into(closed, tcp(W1, closed)) == "deny"


def test_16_a_profile_that_is_missing_denies_when_its_turn_comes() -> None:
    missing_first, missing_last = workload(3, profiles=("gone", "open")), workload(4, profiles=("open", "gone"))
    assert Asked().into(missing_first, tcp(W1, missing_first)) == "deny"
    assert Asked().into(missing_last, tcp(W1, missing_last)) == "allow"


def test_17_both_ends_have_a_say() -> None:
    asked = Asked(Policy("p", selector='role == "w2"', ingress=()))
    flow = tcp(W1, W2)
    assert (asked.out_of(W1, flow), asked.into(W2, flow)) == ("allow", "deny")


# --- selectors, sets, ports ------------------------------------------------------------------------------------------


def test_25_a_selector_finds_endpoints_of_all_nodes_and_network_sets() -> None:
    remote = Endpoint("WorkloadEndpoint", "default/r", "node9", "calir", ("10.65.9.9",), (("role", "w1"),))
    host = Endpoint("HostEndpoint", "h", "node9", "eth0", ("192.0.2.1",), (("role", "w1"),))
    outside = PolicyNetworkSet("out", nets=("198.51.100.0/24",), labels=(("role", "w1"),))
    rule = PolicyRule("Allow", source=FROM_W1)
    parts: dict = {"endpoints": (W0, W1, W2, remote, host), "network_sets": [outside]}
    sources = ("10.65.0.1", "10.65.9.9", "192.0.2.1", "198.51.100.7", "10.65.0.2", "203.0.113.1")
    found = [on(rule, tcp(source, W0), **parts) for source in sources]
    assert found == ["allow", "allow", "allow", "allow", "deny", "deny"]
    # all() matches all known endpoints. Without a selector, a rule matches all addresses.
    everybody = PolicyRule("Allow", source=Entity(selector="all()"))
    assert [on(everybody, tcp(source, W0), **parts) for source in sources[-2:]] == ["allow", "deny"]
    assert on(PolicyRule("Allow"), tcp(sources[-1], W0)) == "allow"


def test_27_the_last_network_set_that_matches_goes() -> None:
    rule = PolicyRule("Allow", source=Entity(selector="has(trusted)"))
    trusted = PolicyNetworkSet("t", nets=("198.51.100.0/24",), labels=(("trusted", ""),))
    flow = tcp("198.51.100.7", W0)
    assert [on(rule, flow, network_sets=sets) for sets in ([trusted], [], [trusted])] == ["allow", "deny", "allow"]


def test_28_labels_are_inherited_and_the_own_one_wins() -> None:
    parts: dict = {
        "profiles": [
            OPEN,
            PolicyProfile("blue", labels=(("color", "blue"), ("from", "blue"))),
            PolicyProfile("red", labels=(("color", "red"), ("only", "red"))),
        ],
        "endpoints": (
            W0,
            workload(1, profiles=("blue", "red", "gone")),
            workload(2, profiles=("blue",), labels=(("color", "green"),)),
        ),
        "network_sets": [PolicyNetworkSet("n", nets=("198.51.100.0/24",), profiles=("red",))],
    }

    def reached_by(selector: str) -> list[str]:
        rule = PolicyRule("Allow", source=Entity(selector=selector))
        sources = ("10.65.0.1", "10.65.0.2", "198.51.100.7")
        return [source for source in sources if on(rule, tcp(source, W0), **parts) == "allow"]

    assert reached_by('color == "blue"') == ["10.65.0.1"]
    assert reached_by('color == "green"') == ["10.65.0.2"]
    assert reached_by('from == "blue"') == ["10.65.0.1", "10.65.0.2"]
    assert reached_by('only == "red"') == ["10.65.0.1", "198.51.100.7"]


HTTP = (DefinedPort("http", "tcp", 80), DefinedPort("http", "tcp", 8080), DefinedPort("http", "udp", 81))
SERVER, OTHER = workload(5, role="server", ports=HTTP), workload(6, role="other", ports=HTTP[:1])


def out_to(rule: PolicyRule, *flows: Flow) -> list[str]:
    asked = Asked(Policy("p", types=("Egress",), egress=(rule,)), endpoints=(W0, SERVER, OTHER))
    return [asked.out_of(W0, flow) for flow in flows]


def test_29_named_ports_are_those_of_the_destination_for_that_protocol() -> None:
    rule = PolicyRule("Allow", protocol="tcp", destination=Entity(ports=(NamedPort("http"), port(443))))
    found = out_to(
        rule, *(tcp(W0, SERVER, number) for number in (80, 8080, 443, 81)),
        tcp(W0, OTHER, 8080), tcp(W0, "1.1.1.1", 80), tcp(W0, "1.1.1.1", 443),
    )  # fmt: skip
    assert found == ["allow", "allow", "allow", "deny", "deny", "deny", "allow"]


def test_30_not_ports_with_a_name_exclude_just_these_pairs() -> None:
    rule = PolicyRule("Allow", protocol="tcp", destination=Entity(not_ports=(NamedPort("http"),)))
    assert out_to(rule, tcp(W0, SERVER, 8080), tcp(W0, OTHER, 8080), tcp(W0, "1.1.1.1", 80)) == [
        "deny",
        "allow",
        "allow",
    ]


def test_30_a_named_port_and_a_selector_are_what_both_mean() -> None:
    entity = Entity(selector='role == "server"', ports=(NamedPort("http"),))
    rule = PolicyRule("Allow", protocol="tcp", destination=entity)
    assert out_to(rule, tcp(W0, SERVER, 80), tcp(W0, OTHER, 80)) == ["allow", "deny"]


def test_30_of_two_at_one_address_the_port_is_that_of_the_selected() -> None:
    twins = (
        workload(7, role="server", addresses=("10.65.0.7",)),
        workload(8, role="other", addresses=("10.65.0.7",), ports=HTTP),
    )
    entity = Entity(selector='role == "server"', ports=(NamedPort("http"),))
    asked = Asked(
        Policy("p", types=("Egress",), egress=(PolicyRule("Allow", protocol="tcp", destination=entity),)),
        endpoints=(W0, *twins),
    )
    assert asked.out_of(W0, tcp(W0, "10.65.0.7", 80)) == "deny"


def test_31_or_inside_a_field_and_between_fields_and_none_of_the_negated() -> None:
    many = tuple(port(number) for number in range(1000, 1040))
    entity = Entity(nets=("10.65.0.0/30", "10.99.0.0/16"), not_nets=("10.99.1.0/24",), not_ports=(port(7),))
    rule = PolicyRule("Allow", protocol="tcp", source=entity, destination=Entity(ports=many))
    assert on(rule, tcp("10.65.0.1", W0, 1039)) == "allow"
    assert on(rule, tcp("10.99.2.1", W0, 1000)) == "allow"
    assert on(rule, tcp("10.99.1.1", W0, 1000)) == "deny"
    assert on(rule, tcp("10.65.0.4", W0, 1000)) == "deny"
    assert on(rule, tcp("10.65.0.1", W0, 1040)) == "deny"
    assert on(rule, Flow(6, "10.65.0.1", "10.65.0.0", 7, 1000)) == "deny"
    narrowed = PolicyRule("Allow", source=Entity(nets=("10.65.0.0/16",), selector='role == "w1"'))
    assert [on(narrowed, tcp(source, W0)) for source in (W1, W2)] == ["allow", "deny"]
    but = PolicyRule("Allow", source=Entity(not_selector='role == "w1"'))
    assert [on(but, tcp(source, W0)) for source in (W1, W2, "1.1.1.1")] == ["deny", "allow", "allow"]


def test_49_one_owner_of_an_address_matches_the_selector_and_not_the_not_selector() -> None:
    held = PolicyNetworkSet("held", nets=(f"{W1.addresses[0]}/32",), labels=(("kind", "held"),))

    def sources(**selectors: str) -> list[str]:
        rule = PolicyRule("Allow", source=Entity(**selectors))
        return [on(rule, tcp(source, W0), network_sets=[held]) for source in (W1, W2, "1.1.1.1")]

    assert sources(selector="has(role)", not_selector="has(kind)") == ["allow", "allow", "deny"]
    assert sources(selector="all()", not_selector='role == "w1"') == ["allow", "allow", "deny"]
    assert sources(selector="has(kind)", not_selector='role == "w1"') == ["allow", "deny", "deny"]
    assert sources(selector="has(role)", not_selector='role == "w1"') == ["deny", "allow", "deny"]
    assert sources(not_selector="has(kind)") == ["deny", "allow", "allow"]
    rule = PolicyRule("Allow", source=Entity(selector='role == "w1" || role == "w2"', not_selector="!has(kind)"))
    asked = Asked(Policy("p", ingress=(rule,)), network_sets=[held])
    assert asked.evaluator.verdict(W0, "Ingress", tcp(W2, W0)).trace[0].reason == (
        "source 10.65.0.2 (default/w2: no kind, role=w2) is not selected by "
        '((role == "w1" || role == "w2") && !!has(kind))'
    )


def test_a_combined_selector_is_one_conjunction() -> None:
    entity = Entity(selector='(has(a) && b == "1")', not_selector="(has(c) && has(d))")
    assert (entity.selects, entity.excludes) == ('(has(a) && b == "1" && !(has(c) && has(d)))', "")
    assert (Entity(selector="has(a)").selects, Entity(not_selector="has(a)").selects) == ("has(a)", "")
    assert Entity(not_selector="has(a)").excludes == "has(a)"
    with pytest.raises(SelectorError):
        assert Entity(selector="has(a)", not_selector="has(").selects


def test_32_families() -> None:
    v4, v6 = tcp("10.65.0.1", W0), tcp("fd65::11", "fd65::10")
    only_v4 = PolicyRule("Allow", source=Entity(nets=("0.0.0.0/0",)))
    assert [on(only_v4, flow) for flow in (v4, v6)] == ["allow", "deny"]
    assert [on(PolicyRule("Allow", ip_version=6), flow) for flow in (v4, v6)] == ["deny", "allow"]
    mixed = PolicyRule("Allow", source=Entity(nets=("10.0.0.0/8",)), destination=Entity(nets=("fd00::/8",)))
    assert [on(mixed, flow) for flow in (v4, v6, tcp("10.0.0.1", "fd65::10"))] == ["deny", "deny", "deny"]
    # Excluding ranges of one IP version excludes nothing in the other, unlike in Felix.
    assert on(PolicyRule("Allow", source=Entity(not_nets=("10.0.0.0/8",))), v6) == "allow"


def test_33_protocols_by_number_and_name() -> None:
    def flow(number: int) -> Flow:
        return Flow(number, "10.65.0.1", "10.65.0.0")

    assert [on(PolicyRule("Allow", protocol=254), flow(number)) for number in (253, 254)] == ["deny", "allow"]
    assert [on(PolicyRule("Allow", not_protocol="sctp"), flow(number)) for number in (132, 254)] == ["deny", "allow"]
    # A flow without ports matches no rule with ports or notPorts.
    for entity in (Entity(ports=(port(80),)), Entity(not_ports=(port(80),))):
        assert on(PolicyRule("Allow", destination=entity), flow(253)) == "deny"


def test_icmp_types_and_codes() -> None:
    def ping(kind: int, code: int = 0, v6: bool = False) -> Flow:
        ends = ("fd65::11", "fd65::10") if v6 else ("10.65.0.1", "10.65.0.0")
        return Flow(58 if v6 else 1, *ends, icmp_type=kind, icmp_code=code)

    echo = PolicyRule("Allow", protocol="icmp", icmp=Icmp(8))
    assert [
        on(echo, flow) for flow in (ping(8), ping(8, 1), ping(0), ping(8, v6=True))
    ] == "allow allow deny deny".split()
    exact = PolicyRule("Allow", protocol="icmp", icmp=Icmp(3, 1))
    assert [on(exact, flow) for flow in (ping(3, 1), ping(3, 2))] == ["allow", "deny"]
    but = PolicyRule("Allow", protocol="icmpv6", not_icmp=Icmp(128))
    assert [on(but, ping(kind, v6=True)) for kind in (128, 129)] == ["deny", "allow"]


# --- hooks of host endpoints, staged policies, traces, policy sets, random flows -------------------------------------

HOST = Endpoint("HostEndpoint", "eth0", "node1", "eth0", ("192.0.2.1",), profiles=("open",))
WILDCARD = Endpoint("HostEndpoint", "all", "node1", "*")


def at(endpoint: Endpoint, hook: str, *policies: Policy, direction: str = "Ingress", **parts: t.Any) -> str:
    evaluator = Evaluator(policy_set(policies=policies, profiles=[OPEN], **parts), (endpoint,))
    return evaluator.verdict(endpoint, direction, tcp("198.51.100.1", "192.0.2.1"), hook).action


def test_37_what_is_forwarded_is_asked_of_apply_on_forward_only() -> None:
    assert at(HOST, FORWARD, Policy("p", ingress=(PolicyRule("Deny"),))) == "allow"
    forwarding = Policy("p", apply_on_forward=True, ingress=(PolicyRule("Deny", protocol="tcp"),))
    assert (at(HOST, FORWARD, forwarding), at(HOST, "normal", forwarding)) == ("deny", "deny")
    assert at(HOST, FORWARD, forwarding, direction="Egress") == "allow"
    passing = Policy("p", apply_on_forward=True, ingress=(PolicyRule("Pass"),))
    assert at(HOST, FORWARD, passing) == "allow"
    assert at(HOST, FORWARD, Policy("p", apply_on_forward=True)) == "deny"


@pytest.mark.parametrize(("hook", "flag"), [(PRE_DNAT, "pre_dnat"), (UNTRACKED, "do_not_track")])
def test_38_39_policies_before_routing_decide_there_and_nowhere_else(hook: str, flag: str) -> None:
    def policy(*rules: PolicyRule) -> Policy:
        return Policy("p", apply_on_forward=True, ingress=rules, **{flag: True})

    assert [at(HOST, hook, policy(PolicyRule(action))) for action in ("Allow", "Deny", "Pass")] == [
        "allow",
        "deny",
        "none",
    ]
    # Nothing is denied by default, because policy at later hooks decides.
    assert (at(HOST, hook, policy()), at(HOST, hook)) == ("none", "none")
    for other in ("normal", FORWARD):
        assert at(HOST, other, policy(PolicyRule("Deny"))) == "allow"
    # The HostEndpoint "*" has preDNAT policy, but no untracked policy.
    assert at(WILDCARD, hook, policy(PolicyRule("Deny"))) == ("deny" if hook == PRE_DNAT else "none")
    # The policy has no effect on workloads.
    assert Asked(policy(PolicyRule("Deny"))).into(W0, tcp(W1, W0)) == "allow"


def test_a_staged_policy_is_watched_and_decides_nothing() -> None:
    staged = Policy("s", order=1.0, staged=True, ingress=(PolicyRule("Deny", protocol="tcp"),))
    found = Asked(staged).evaluator.verdict(W0, "Ingress", tcp(W1, W0))
    assert found.action == "allow"
    assert [(step.policy, step.rule) for step in found.would_deny] == [("s", 1)]
    # The Allow rules of a staged policy do not decide either.
    allowing = Policy("s", order=1.0, staged=True, ingress=(PolicyRule("Allow"),))
    denying = Policy("d", order=2.0, ingress=(PolicyRule("Deny"),))
    assert Asked(allowing, denying).into(W0, tcp(W1, W0)) == "deny"


def test_a_staged_policy_brings_no_default_deny_and_says_where_it_would() -> None:
    staged = Policy("s", staged=True, ingress=(PolicyRule("Allow", protocol="udp"),))
    found = Asked(staged).evaluator.verdict(W0, "Ingress", tcp(W1, W0))
    assert found.action == "allow"
    assert [(step.tier, step.policy, step.action) for step in found.would_deny] == [("default", "", "Deny")]
    allowed = Asked(staged).evaluator.verdict(W0, "Ingress", Flow(17, "1.1.1.1", "10.65.0.0", 1, 2))
    assert (allowed.action, allowed.would_deny) == ("allow", ())


def test_the_trace_names_all_that_was_tried() -> None:
    policies = [
        Policy("dns", order=1.0, ingress=(PolicyRule("Allow", protocol="udp"), PolicyRule("Log"))),
        Policy("web", order=2.0, ingress=(PolicyRule("Allow", source=FROM_W1),)),
        Policy("never", order=3.0, ingress=(PolicyRule("Deny"),)),
    ]
    evaluator = Evaluator(policy_set(policies=policies, profiles=[OPEN]), (W0, W1))
    found = evaluator.verdict(W0, "Ingress", tcp(W1, W0))
    assert found == Verdict(
        "allow",
        (
            EvaluationStep("Allow", False, "tcp is not udp", "default", "dns", rule=1),
            EvaluationStep("Log", True, "", "default", "dns", rule=2),
            EvaluationStep("Allow", True, "", "default", "web", rule=1),
        ),
    )


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (PolicyRule("Allow", ip_version=6), "IPv4 is not IPv6"),
        (PolicyRule("Allow", protocol=254), "tcp is not protocol 254"),
        (PolicyRule("Allow", not_protocol="tcp"), "tcp is the notProtocol"),
        (PolicyRule("Allow", protocol="tcp", icmp=Icmp(8)), "tcp is not IPv4's ICMP"),
        (
            PolicyRule("Allow", source=Entity(nets=("10.9.0.0/16", "fd00::/8"))),
            "source 10.65.0.1 is not in 10.9.0.0/16, fd00::/8",
        ),
        (PolicyRule("Allow", source=Entity(not_nets=("10.0.0.0/8",))), "source 10.65.0.1 is in 10.0.0.0/8 of notNets"),
        (
            PolicyRule("Allow", source=Entity(selector="has(x)")),
            "source 10.65.0.1 (default/w1: no x) is not selected by has(x)",
        ),
        (
            PolicyRule("Allow", destination=Entity(not_selector="has(role)")),
            "destination 10.65.0.0 (default/w0: role=w0) is selected by the notSelector has(role)",
        ),
        (
            PolicyRule(
                "Allow", protocol="tcp", destination=Entity(ports=(port(53), PortRange(1, 9), NamedPort("http")))
            ),
            "destination port 80 is not 53, 1:9, http (no such port there)",
        ),
        (
            PolicyRule("Allow", protocol="tcp", source=Entity(not_ports=(PortRange(1, 65535),))),
            "source port 40000 is among notPorts 1:65535",
        ),
    ],
)
def test_why_a_rule_does_not_match(rule: PolicyRule, reason: str) -> None:
    found = Asked(Policy("p", ingress=(rule,))).evaluator.verdict(W0, "Ingress", tcp(W1, W0))
    assert found.trace[0].reason == reason


def test_why_messages_do_not_match() -> None:
    flow = Flow(1, "10.65.0.1", "10.65.0.0", icmp_type=8, icmp_code=0)
    rules = (
        PolicyRule("Allow", protocol="icmp", icmp=Icmp(3, 1)),
        PolicyRule("Allow", protocol="icmp", not_icmp=Icmp(8)),
        PolicyRule("Allow", destination=Entity(ports=(port(1),))),
    )
    found = Asked(Policy("p", ingress=rules)).evaluator.verdict(W0, "Ingress", flow)
    assert [step.reason for step in found.trace] == [
        "ICMP type 8 code 0 is not ICMP type 3 code 1",
        "ICMP type 8 code 0 is in notICMP",
        "there is no destination port",
        "no policy of the tier that applies decides",
    ]


def test_a_policy_in_no_tier_and_two_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^policy p is in tier gone, which does not exist$"):
        policy_set(policies=[Policy("p", tier="gone")])
    with pytest.raises(ValueError, match=r"^there are 2 policies p$"):
        policy_set(policies=[Policy("p"), Policy("p", order=1.0), Policy("q")])


def test_the_empty_policy_set_leaves_everything_to_profiles() -> None:
    assert Evaluator(PolicySet(profiles=(OPEN,)), (W0,)).verdict(W0, "Egress", tcp(W0, W1)).action == "allow"


def test_random_flows_meet_what_rules_are_about_about_half_the_time() -> None:
    """Rules decide on 35 to 75 per cent of random flows, since comparing denials by default would prove little."""
    decided_by_rule = []
    for seed in range(40):
        rng = random.Random(seed)
        world = random_world(rng)
        evaluator = Evaluator(world.policy_set, world.endpoints)
        for endpoint in world.local_workloads:
            for direction in BOTH:
                for _dummy in range(5):
                    flow = random_flow(rng, world, endpoint, direction)
                    assert flow is not None
                    decided_by_rule.append(evaluator.verdict(endpoint, direction, flow).decided_by.rule > 0)
    assert 0.35 < sum(decided_by_rule) / len(decided_by_rule) < 0.75
