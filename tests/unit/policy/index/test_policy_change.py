# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The differences between two policy sets, with the endpoints that they concern."""

from __future__ import annotations

import dataclasses
import random

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import Evaluator
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index import policy_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Endpoint,
    Entity,
    Policy,
    PolicyNetworkSet,
    PolicyProfile,
    PolicyRule,
    PolicySet,
    PolicyTier,
    policy_set,
)


def endpoint(name: str, *profiles: str, **labels: str) -> Endpoint:
    return Endpoint("WorkloadEndpoint", f"default/{name}", "node1", labels=tuple(labels.items()), profiles=profiles)


ENDPOINTS = [endpoint("web", app="web"), endpoint("db", app="db"), endpoint("old", "legacy")]
LEGACY = PolicyProfile("legacy", labels=(("era", "old"),))


def said(old: PolicySet, new: PolicySet) -> list[tuple[str, str, str, list[str]]]:
    return [
        (one.kind, one.name, one.action, sorted(name.removeprefix("default/") for _kind, name in one.endpoints))
        for one in policy_change.changes(old, new, ENDPOINTS)
    ]


def test_a_policy_concerns_what_it_selects_before_or_after() -> None:
    web = Policy("web", selector="app == 'web'")
    staged = Policy("default/staged:web", "NetworkPolicy", selector="era == 'old'", staged=True)
    empty, old = policy_set(profiles=[LEGACY]), policy_set([], [web], [LEGACY])
    new = policy_set([], [dataclasses.replace(web, selector="app == 'db'"), staged], [LEGACY])
    assert said(empty, old) == [("GlobalNetworkPolicy", "web", "+", ["web"])]
    assert said(old, new) == [
        ("StagedNetworkPolicy", "default/web", "+", ["old"]),
        ("GlobalNetworkPolicy", "web", "~", ["db", "web"]),
    ]
    assert said(new, empty)[0] == ("StagedNetworkPolicy", "default/web", "-", ["old"])
    assert said(new, new) == []


def test_a_tier_concerns_the_endpoints_of_its_policies() -> None:
    web = Policy("web", tier="a", selector="app == 'web'")
    old, new = (policy_set([PolicyTier("a", order)], [web]) for order in (1.0, 2.0))
    assert said(old, new) == [("Tier", "a", "~", ["web"])]


@pytest.mark.parametrize("side", ["source", "destination"])
@pytest.mark.parametrize("field", ["selector", "not_selector"])
def test_a_set_concerns_the_endpoints_whose_rules_may_refer_to_it(side: str, field: str) -> None:
    rule = PolicyRule("Deny", **{side: Entity(**{field: "bad == 'yes'"})})
    web, profile = Policy("web", selector="app == 'web'", egress=(rule,)), dataclasses.replace(LEGACY, ingress=(rule,))
    nets = PolicyNetworkSet("bad", nets=("192.0.2.0/24",), labels=(("bad", "yes"),))
    other = PolicyNetworkSet("default/x", "default", ("192.0.2.0/24",), (("bad", "no"),))
    old, new = policy_set([], [web], [profile]), policy_set([], [web], [profile], [nets, other])
    assert said(old, new) == [("GlobalNetworkSet", "bad", "+", ["old", "web"]), ("NetworkSet", "default/x", "+", [])]
    relabelled = policy_set([], [web], [profile], [dataclasses.replace(nets, labels=()), other])
    assert said(new, relabelled) == [("GlobalNetworkSet", "bad", "~", ["old", "web"])]


@pytest.mark.parametrize("seed", range(20))
def test_endpoints_that_no_change_concerns_have_the_same_policies(seed: int) -> None:
    chance = random.Random(seed)

    def some() -> PolicySet:
        tiers = [PolicyTier(name, float(chance.randint(1, 3))) for name in ("a", "b")]
        policies = [
            Policy(
                f"p{number}",
                tier=chance.choice(["a", "b"]),
                order=float(chance.randint(1, 2)),
                selector=chance.choice(["app == 'web'", "app == 'db'", "era == 'old'", "has(app)"]),
            )
            for number in range(5)
            if chance.random() < 0.7
        ]
        return policy_set(tiers, policies, [LEGACY])

    old, new = some(), some()
    concerned = {one for change in policy_change.changes(old, new, ENDPOINTS) for one in change.endpoints}
    for one in ENDPOINTS:
        if (one.kind, one.name) not in concerned:
            assert Evaluator(old).selecting(one) == Evaluator(new).selecting(one)
