# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calico's documents converted to policy values, as Calico's own conversion reads them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import selectors
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.documents import from_resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.documents.from_resources import (
    host_endpoint,
    network_set,
    policy,
    policy_set,
    profile,
    workload_endpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import Evaluator
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.labels import namespaced_labels
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
    PolicyTier,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.policy.random_policies import LABELS, random_selector

NAMESPACE = "projectcalico.org/namespace"


def parse(kind: str, name: str, spec: dict | None = None, **metadata: t.Any) -> t.Any:
    return resources.parse({"kind": kind, "metadata": {"name": name, **metadata}, "spec": spec or {}})


def entity(source: dict, kind: str = "NetworkPolicy") -> Entity:
    return policy(parse(kind, "p", {"ingress": [{"action": "Allow", "source": source}]})).ingress[0].source


def test_all_fields_of_a_policy() -> None:
    spec = {
        "tier": "platform",
        "order": 12.5,
        "selector": "role=='web'",
        "types": ["Ingress", "Egress"],
        "applyOnForward": True,
        "doNotTrack": True,
        "performanceHints": ["AssumeNeededOnEveryNode"],
        "ingress": [
            {
                "action": "Allow",
                "ipVersion": 4,
                "protocol": "ICMP",
                "icmp": {"type": 8, "code": 0},
                "notICMP": {"type": 3},
                "notProtocol": 253,
                "metadata": {"annotations": {"b": "2", "a": "1"}},
            },
            {
                "action": "Deny",
                "protocol": 6,
                "source": {"nets": ["10.0.0.0/8", "10.0.0.0/8"], "notNets": ["10.1.0.0/16"], "notSelector": "has(x)"},
                "destination": {"ports": [80, "8000:8999", "http"], "notPorts": ["8080"]},
            },
        ],
        "egress": [{"action": "Pass", "protocol": "UDPLite", "icmp": None}, {"action": "Log", "protocol": 254}],
    }
    assert policy(parse("GlobalNetworkPolicy", "platform.web", spec), staged=True) == Policy(
        name="platform.web",
        kind="GlobalNetworkPolicy",
        tier="platform",
        order=12.5,
        selector='role == "web"',
        types=("Ingress", "Egress"),
        ingress=(
            PolicyRule("Allow", 4, "icmp", 253, Icmp(8, 0), Icmp(3), annotations=(("a", "1"), ("b", "2"))),
            PolicyRule(
                "Deny",
                protocol="tcp",
                source=Entity(nets=("10.0.0.0/8",), not_nets=("10.1.0.0/16",), not_selector="has(x)"),
                destination=Entity(
                    ports=(PortRange(80, 80), PortRange(8000, 8999), NamedPort("http")),
                    not_ports=(PortRange(8080, 8080),),
                ),
            ),
        ),
        egress=(PolicyRule("Pass", protocol="udplite"), PolicyRule("Log", protocol=254)),
        do_not_track=True,
        apply_on_forward=True,
        performance_hints=("AssumeNeededOnEveryNode",),
        staged=True,
    )


@pytest.mark.parametrize(
    ("ingress", "egress", "types"),
    [
        ([], [], ("Ingress",)),
        ([{"action": "Allow"}], [], ("Ingress",)),
        ([], [{"action": "Allow"}], ("Egress",)),
        ([{"action": "Allow"}], [{"action": "Allow"}], ("Ingress", "Egress")),
    ],
)
def test_10_types_follow_from_the_rules(ingress: list, egress: list, types: tuple) -> None:
    """A policy without types has Egress if it has egress rules, and Ingress unless these are its only rules.

    This is LINES[10] of tests/integration/policy/semantics.py.
    """
    assert policy(parse("NetworkPolicy", "p", {"ingress": ingress, "egress": egress})).types == types


def test_a_network_policy_is_for_its_namespace() -> None:
    found = policy(parse("NetworkPolicy", "p", {"selector": "a == 'x' || has(b)"}, namespace="prod"))
    assert (found.name, found.kind) == ("prod/p", "NetworkPolicy")
    assert found.selector == f'((a == "x" || has(b)) && {NAMESPACE} == "prod")'
    assert policy(parse("NetworkPolicy", "p", {}, namespace="prod")).selector == f'{NAMESPACE} == "prod"'


@pytest.mark.parametrize(
    ("spec", "selector"),
    [
        ({}, "all()"),
        ({"namespaceSelector": "env == 'x'"}, 'pcns.env == "x"'),
        ({"selector": "has(a)", "namespaceSelector": "env == 'x'"}, '(has(a) && pcns.env == "x")'),
        ({"namespaceSelector": "all()"}, f"has({NAMESPACE})"),
        ({"serviceAccountSelector": "all()"}, "has(projectcalico.org/serviceaccount)"),
        (
            {"selector": "has(a)", "namespaceSelector": "!has(b)", "serviceAccountSelector": "c in {'d'}"},
            '(has(a) && !has(pcns.b) && pcsa.c in {"d"})',
        ),
    ],
)
def test_a_global_policys_selector(spec: dict, selector: str) -> None:
    assert policy(parse("GlobalNetworkPolicy", "p", spec)).selector == selector


@pytest.mark.parametrize(
    ("source", "of_namespaced", "of_global"),
    [
        ({}, "", ""),
        ({"nets": ["10.0.0.0/8"]}, "", ""),
        ({"selector": "has(a)"}, f'({NAMESPACE} == "default" && has(a))', "has(a)"),
        ({"selector": "all()"}, f'{NAMESPACE} == "default"', "all()"),
        # A notSelector also limits a namespaced policy's match to its namespace, but is not part of the selector.
        # `of_global` is "" then, because a global policy has no namespace.
        ({"notSelector": "has(a)"}, f'{NAMESPACE} == "default"', ""),
        ({"namespaceSelector": "env == 'x'"}, 'pcns.env == "x"', 'pcns.env == "x"'),
        ({"namespaceSelector": "all()"}, f"has({NAMESPACE})", f"has({NAMESPACE})"),
        ({"namespaceSelector": "global()"}, f"!has({NAMESPACE})", f"!has({NAMESPACE})"),
        (
            {"selector": "has(a)", "namespaceSelector": "has(b) || c != 'd'"},
            '((has(pcns.b) || pcns.c != "d") && has(a))',
            '((has(pcns.b) || pcns.c != "d") && has(a))',
        ),
        (
            {"serviceAccounts": {"names": ["y", "x"]}},
            f'({NAMESPACE} == "default" && projectcalico.org/serviceaccount in {{"x", "y"}})',
            'projectcalico.org/serviceaccount in {"x", "y"}',
        ),
        (
            {"selector": "has(a)", "serviceAccounts": {"names": ["x"], "selector": "has(b)"}},
            f'({NAMESPACE} == "default" && has(pcsa.b) && projectcalico.org/serviceaccount in {{"x"}} && has(a))',
            '(has(pcsa.b) && projectcalico.org/serviceaccount in {"x"} && has(a))',
        ),
    ],
)
def test_selectors_of_a_rule_entity_become_one_selector(source: dict, of_namespaced: str, of_global: str) -> None:
    assert entity(source).selector == of_namespaced
    assert entity(source, "GlobalNetworkPolicy").selector == of_global


@pytest.mark.parametrize("scope", ["namespaceSelector", "serviceAccountSelector"])
def test_the_longest_label_of_a_scope_gives_a_selector(scope: str) -> None:
    """A label of 507 characters, the most that is accepted, is still a label with its prefix."""
    text = f"has({'a' * 507})"
    source = {"namespaceSelector": text} if scope == "namespaceSelector" else {"serviceAccounts": {"selector": text}}
    found = policy(parse("GlobalNetworkPolicy", "p", {scope: text, "ingress": [{"action": "Allow", "source": source}]}))
    for selector in (found.selector, found.ingress[0].source.selector):
        assert [len(label) for label in selectors.parse(selector).labels] == [512]


@settings(max_examples=40, deadline=None)
@given(
    st.randoms(use_true_random=False).map(random_selector),
    st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in LABELS.items()}),
)
def test_a_namespace_selector_matches_prefixed_labels_of_endpoints(text: str, labels: dict) -> None:
    found = selectors.parse(entity({"namespaceSelector": text}).selector)
    inside = {NAMESPACE: "n", **{f"pcns.{label}": value for label, value in labels.items()}}
    assert found.matches(inside) is selectors.parse(text).matches(labels)


def test_profile_and_network_sets() -> None:
    spec = {"labelsToApply": {"b": "2", "a": "1"}, "ingress": [{"action": "Allow", "source": {"selector": "has(x)"}}]}
    assert profile(parse("Profile", "kns.prod", spec)) == PolicyProfile(
        "kns.prod", (("a", "1"), ("b", "2")), ingress=(PolicyRule("Allow", source=Entity(selector="has(x)")),)
    )
    nets = ["10.1.2.3/8", "10.0.0.0/8", "192.0.2.1", "FD00::1"]
    canonical = ("10.0.0.0/8", "192.0.2.1/32", "fd00::1/128")
    found = network_set(parse("GlobalNetworkSet", "s", {"nets": nets}, labels={"a": "b"}))
    assert found == PolicyNetworkSet("s", nets=canonical, labels=(("a", "b"),))
    found = network_set(parse("NetworkSet", "s", {"nets": nets}, labels={"a": "b"}, namespace="prod"))
    assert found == PolicyNetworkSet(
        "prod/s", "prod", canonical, (("a", "b"), ("pcns.projectcalico.org/name", "prod"), (NAMESPACE, "prod"))
    )


def test_host_endpoint() -> None:
    spec = {
        "node": "node1",
        "interfaceName": "eth0",
        "expectedIPs": ["192.0.2.1", "FD00::1"],
        "profiles": ["open"],
        "ports": [{"name": "ssh", "protocol": 6, "port": 22}],
    }
    assert host_endpoint(parse("HostEndpoint", "h", spec, labels={"a": "b"})) == Endpoint(
        "HostEndpoint", "h", "node1", "eth0", ("192.0.2.1", "fd00::1"), (("a", "b"),), ("open",),
        (DefinedPort("ssh", "tcp", 22),),
    )  # fmt: skip


WORKLOAD = {
    "node": "node1",
    "orchestrator": "cni",
    "workload": "w",
    "interfaceName": "cali1",
    "ipNetworks": ["10.65.0.1/32", "fd65:0::1"],
    "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
}


def test_workload_endpoint() -> None:
    found = workload_endpoint(parse("WorkloadEndpoint", "node1-cni-w-eth0", WORKLOAD, labels={"a": "b"}, namespace="n"))
    assert found == Endpoint(
        "WorkloadEndpoint", "n/node1-cni-w-eth0", "node1", "cali1", ("10.65.0.1", "fd65::1"),
        (("a", "b"), ("pcns.projectcalico.org/name", "n"), (NAMESPACE, "n"), ("projectcalico.org/orchestrator", "cni")),
        (), (DefinedPort("http", "tcp", 80),), "n",
    )  # fmt: skip


def test_a_workload_cannot_pretend_to_be_elsewhere() -> None:
    own = {NAMESPACE: "kube-system", "pcns.env": "prod", "pcsa.x": "y", "projectcalico.org/serviceaccount": "root"}
    assert namespaced_labels({**own, "a": "b"}, "n") == (
        ("a", "b"), ("pcns.projectcalico.org/name", "n"), (NAMESPACE, "n"),
    )  # fmt: skip
    assert dict(namespaced_labels({}, "n", "sa")) == {
        NAMESPACE: "n",
        "pcns.projectcalico.org/name": "n",
        "pcsa.projectcalico.org/name": "sa",
        "projectcalico.org/serviceaccount": "sa",
    }


def test_a_policy_set_of_documents() -> None:
    documents = [
        parse("NetworkPolicy", "p", {"order": 1}, namespace="n"),
        parse("Tier", "late"),
        parse("Tier", "first", {"order": 5, "defaultAction": "Pass"}),
        parse("GlobalNetworkPolicy", "first.q", {"tier": "first"}),
        parse("IPPool", "pool", {"cidr": "10.0.0.0/16"}),
    ]
    made = policy_set(documents, staged={"n/p"})
    assert made.tiers == (PolicyTier("first", 5.0, "Pass"), PolicyTier("default", 1e6), PolicyTier("late", 1e6))
    assert [(one.name, one.tier, one.staged) for one in made.policies] == [
        ("first.q", "first", False),
        ("n/p", "default", True),
    ]


def refusal(*documents: t.Any) -> str:
    with pytest.raises(resources.ResourceError) as caught:
        policy_set(documents)
    return str(caught.value)


def test_a_policy_in_a_tier_that_does_not_exist() -> None:
    assert refusal(parse("GlobalNetworkPolicy", "p", {"tier": "gone"})) == (
        "GlobalNetworkPolicy p: spec.tier gone does not exist. "
        "Define the Tier gone, or leave it out for the tier default."
    )


def test_staged_kinds_stand_beside_what_is_in_force() -> None:
    spec = {"ingress": [{"action": "Deny"}]}
    documents = [
        parse("NetworkPolicy", "web", spec, namespace="n"),
        parse("StagedNetworkPolicy", "web", spec, namespace="n"),
        parse("StagedGlobalNetworkPolicy", "all", spec),
        parse("StagedGlobalNetworkPolicy", "gone", {"stagedAction": "Delete"}),
    ]
    in_force, *staged = policy_set(documents).policies[::-1]
    assert {one.name: (one.kind, one.staged) for one in (in_force, *staged)} == {
        "n/web": ("NetworkPolicy", False),
        "n/staged:web": ("NetworkPolicy", True),
        "staged:all": ("GlobalNetworkPolicy", True),
    }


def test_not_icmp_without_a_protocol() -> None:
    rules = [{"action": "Allow"}, {"action": "Deny", "notICMP": {"type": 8}}]
    assert refusal(parse("NetworkPolicy", "p", {"egress": rules})) == (
        "NetworkPolicy p: spec.egress[1].notICMP is given without a protocol. Set protocol to ICMP or ICMPv6, by name."
    )
    # A notICMP excludes nothing from packets of another protocol.
    rule = {"action": "Deny", "protocol": "TCP", "notICMP": {"type": 8}}
    assert policy(parse("NetworkPolicy", "p", {"egress": [rule]})).egress == (PolicyRule("Deny", protocol="tcp"),)


def test_an_unsupported_field_is_refused_with_its_reason() -> None:
    rules = [{"action": "Allow", "http": {"methods": ["GET"]}}]
    assert refusal(parse("NetworkPolicy", "p", {"ingress": rules})) == (
        "NetworkPolicy p: spec.ingress[0].http is not supported here. "
        "Nothing on a node reads HTTP: match addresses and ports, and leave the rest to the server."
    )


def test_from_documents_to_a_verdict() -> None:
    """Documents lead to the right verdicts: only the policy's namespace and those of prod reach its web servers."""
    made = policy_set(
        [
            parse("Profile", "kns.prod", {"labelsToApply": {"pcns.env": "prod"}}),
            parse(
                "NetworkPolicy",
                "web",
                {
                    "selector": "role == 'web'",
                    "ingress": [
                        {"action": "Allow", "source": {"selector": "all()"}},
                        {"action": "Allow", "source": {"namespaceSelector": "env == 'prod'"}},
                    ],
                },
                namespace="n",
            ),
        ]
    )
    web = workload_endpoint(parse("WorkloadEndpoint", "web", WORKLOAD, labels={"role": "web"}, namespace="n"))
    others = [
        Endpoint(
            "WorkloadEndpoint", f"{name}/x", "node2", f"cali{name}", (address,), namespaced_labels({}, name), profiles
        )
        for name, address, profiles in (
            ("n", "10.65.1.1", ()),
            ("m", "10.65.1.2", ()),
            ("p", "10.65.1.3", ("kns.prod",)),
        )
    ]
    found = [
        Evaluator(made, [web, *others]).verdict(web, "Ingress", Flow(6, one.addresses[0], "10.65.0.1", 1, 80)).action
        for one in others
    ]
    assert found == ["allow", "deny", "allow"]
    assert from_resources.policy_name(parse("NetworkPolicy", "web", {}, namespace="n")) == "n/web"
