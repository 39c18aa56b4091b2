# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy that is converted back to resources, which must equal the original ones and have the same effect."""

from __future__ import annotations

import dataclasses
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.documents import (
    from_resources,
    to_resources,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import Evaluator
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint, Policy, policy_set
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.api import Resource, ResourceError, parse
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.policy.random_policies import random_flow, random_world


def read(kind: str, name: str, spec: dict, **metadata: t.Any) -> Resource:
    return parse({"kind": kind, "metadata": {"name": name, **metadata}, "spec": spec})


RULES = {
    "tier": "platform",
    "order": 7.5,
    "selector": "app == 'web' && zone == 'a'",
    "types": ["Ingress", "Egress"],
    "performanceHints": ["AssumeNeededOnEveryNode"],
    "ingress": [
        {"action": "Allow", "protocol": "TCP", "source": {"selector": "app == 'app'"},
         "destination": {"ports": ["sql", 80, "1:9"]}},
        {"action": "Deny", "source": {"notSelector": "has(x)", "nets": ["10.0.0.0/8"], "notNets": ["10.1.0.0/16"]}},
        {"action": "Log", "protocol": "ICMP", "icmp": {"type": 8, "code": 0}, "metadata": {"annotations": {"a": "b"}}},
        {"action": "Pass", "protocol": 58, "ipVersion": 4},
        {"action": "Allow", "notProtocol": "UDPLite", "ipVersion": 6, "source": {"selector": "all()"}},
        {"action": "Allow", "protocol": "ICMPv6", "notICMP": {"type": 135}},
        {"action": "Allow", "source": {"namespaceSelector": "team == 'a' || !has(team)", "selector": "has(y)"}},
        {"action": "Allow", "source": {"namespaceSelector": "all()"}},
        {"action": "Allow", "source": {"namespaceSelector": "global()", "notSelector": "has(z)"}},
    ],
    "egress": [{"action": "Deny", "protocol": "SCTP", "destination": {"notPorts": [22]}}],
}  # fmt: skip


@pytest.mark.parametrize(
    "resource",
    [
        read("NetworkPolicy", "platform.web", RULES, namespace="n"),
        read("NetworkPolicy", "all", {}),
        read("GlobalNetworkPolicy", "web", {**RULES, "tier": "default", "applyOnForward": True, "doNotTrack": True}),
        read("GlobalNetworkPolicy", "web", {"preDNAT": True, "applyOnForward": True, "ingress": [{"action": "Deny"}]}),
        read("StagedNetworkPolicy", "web", {"selector": "a == 'b'"}, namespace="n"),
        read("StagedGlobalNetworkPolicy", "web", {"egress": [{"action": "Deny"}]}),
    ],
    ids=lambda found: f"{found.KIND} {found.name}",
)
def test_a_policy_comes_back(resource: t.Any) -> None:
    value = from_resources.policy(resource)
    back = to_resources.policy(value)
    assert (back.KIND, back.metadata) == (resource.KIND, resource.metadata)
    assert from_resources.policy(back) == value
    assert to_resources.policy(from_resources.policy(back)) == back


def test_a_converted_policy_names_other_namespaces_and_not_its_own() -> None:
    """A namespaced policy as a resource does not name its own namespace in selectors.

    Other namespaces are in namespaceSelector, not labels in `selector`.
    """
    document = to_resources.policy(
        from_resources.policy(read("NetworkPolicy", "web", RULES, namespace="n"))
    ).to_document()
    assert document["spec"]["selector"] == '(app == "web" && zone == "a")'
    sources = [rule.get("source") for rule in document["spec"]["ingress"]]
    assert sources == [
        {"selector": 'app == "app"'},
        {"nets": ["10.0.0.0/8"], "notNets": ["10.1.0.0/16"], "notSelector": "has(x)"},
        None,
        None,
        {"selector": "all()"},
        None,
        {"namespaceSelector": '(team == "a" || !has(team))', "selector": "has(y)"},
        {"namespaceSelector": "all()"},
        {"namespaceSelector": "global()", "notSelector": "has(z)"},
    ]


def test_service_accounts_stay_labels_and_mean_the_same_namespace() -> None:
    accounts = {"source": {"serviceAccounts": {"names": ["b", "a"], "selector": "team == 'x'"}}}
    value = from_resources.policy(read("NetworkPolicy", "web", {"ingress": [{"action": "Allow", **accounts}]}))
    back = to_resources.policy(value).to_document()["spec"]["ingress"][0]["source"]
    assert back == {"selector": '(pcsa.team == "x" && projectcalico.org/serviceaccount in {"a", "b"})'}
    # This selector takes service accounts by their labels in any namespace, so the namespaceSelector excludes none.
    selector = 'pcsa.team == "x"'
    rule = dataclasses.replace(value.ingress[0], source=dataclasses.replace(value.ingress[0].source, selector=selector))
    anywhere = dataclasses.replace(value, ingress=(rule,))
    back = to_resources.policy(anywhere).to_document()["spec"]["ingress"][0]["source"]
    assert back == {
        "selector": selector,
        "namespaceSelector": "has(projectcalico.org/name) || !has(projectcalico.org/name)",
    }


@pytest.mark.parametrize("selector", ["has(pcns.)", 'pcns. == "x"', 'pcns.a == "global("', '!(pcns. in {"x"})'])
@pytest.mark.parametrize("further", ["", " && has(b)"])
def test_a_selector_without_a_namespace_form_stays_a_selector(selector: str, further: str) -> None:
    """A selector of labels with the prefix of namespaces comes back as it is where no namespaceSelector means it."""
    text = selector + further
    value = from_resources.policy(
        read("GlobalNetworkPolicy", "web", {"ingress": [{"action": "Allow", "source": {"selector": text}}]})
    )
    back = to_resources.policy(value)
    assert back.to_document()["spec"]["ingress"][0]["source"] == {"selector": value.ingress[0].source.selector}
    assert from_resources.policy(t.cast(t.Any, back)) == value


def test_all_else_comes_back() -> None:
    tier = from_resources.policy_set([read("Tier", "t", {"order": 3, "defaultAction": "Pass"})]).tiers[0]
    assert from_resources.policy_set([to_resources.tier(tier)]).tiers[0] == tier
    profile = from_resources.profile(
        t.cast(t.Any, read("Profile", "p", {"labelsToApply": {"a": "b"}, "ingress": RULES["ingress"][:5]}))
    )
    assert from_resources.profile(t.cast(t.Any, to_resources.profile(profile))) == profile
    for resource in (
        read("NetworkSet", "s", {"nets": ["192.0.2.0/24"]}, namespace="n", labels={"a": "b"}),
        read("GlobalNetworkSet", "s", {"nets": ["2001:db8::/32"]}, labels={"a": "b"}),
    ):
        value = from_resources.network_set(t.cast(t.Any, resource))
        back = to_resources.network_set(value)
        assert back == resource and from_resources.network_set(t.cast(t.Any, back)) == value
    host = read(
        "HostEndpoint", "h",
        {"node": "node1", "interfaceName": "eth0", "expectedIPs": ["10.0.0.1"], "profiles": ["p"],
         "ports": [{"name": "ssh", "protocol": "TCP", "port": 22}]},
        labels={"a": "b"},
    )  # fmt: skip
    assert to_resources.host_endpoint(from_resources.host_endpoint(t.cast(t.Any, host))) == host


def back_and_forth(value: Policy) -> Policy:
    """Return a policy after conversion to a resource and back, with its old name; unchanged if it cannot be converted.

    Rules with ranges of two IP versions or of another one than theirs, notNets of all addresses, and egress before
    DNAT, cannot. Raise AssertionError if a resource is refused for another reason.
    """
    try:
        resource = to_resources.policy(value)
    except ResourceError as error:
        assert any(part in str(error) for part in ("IPv", "preDNAT", "excludes all addresses")), error
        return value
    return dataclasses.replace(from_resources.policy(t.cast(t.Any, resource)), name=value.name)


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_a_converted_random_policy_gives_the_same_verdicts(seed: int) -> None:
    rng = random.Random(seed)
    world = random_world(rng)
    before = Evaluator(world.policy_set, world.endpoints)
    again = [back_and_forth(one) for one in world.policy_set.policies]
    found = policy_set(world.policy_set.tiers, again, world.policy_set.profiles, world.policy_set.network_sets)
    after = Evaluator(found, world.endpoints)
    for _ in range(10):
        endpoint: Endpoint = rng.choice(world.local_workloads)
        direction = rng.choice(("Ingress", "Egress"))
        flow = random_flow(rng, world, endpoint, direction)
        assert after.verdict(endpoint, direction, flow).trace == before.verdict(endpoint, direction, flow).trace
