# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy of a NodeState: stored and read back without loss, and absent if there is none."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import packed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    DefinedPort,
    Endpoint,
    Entity,
    Failsafe,
    Icmp,
    NamedPort,
    Policy,
    PolicyNetworkSet,
    PolicyRule,
    PolicyTier,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
    allow_all,
)
from hypothesis import given, settings

from tests.unit.fleet.fleets import stored
from tests.unit.policy.random_policies import World, worlds


def state(policy: t.Optional[PolicyState]) -> NodeState:
    return NodeState("node1", "10.10.1.11/24", policy=policy)


EVERYTHING = PolicyState(
    policy_set(
        [PolicyTier("platform", 10.5, "Pass")],
        [
            Policy(
                "default/web",
                "NetworkPolicy",
                "platform",
                1.5,
                'app == "web"',
                ("Ingress", "Egress"),
                (
                    PolicyRule(
                        "Allow",
                        4,
                        "tcp",
                        not_protocol=253,
                        source=Entity(("10.0.0.0/8",), ("10.1.0.0/16",), 'app == "app"', "has(b)"),
                        destination=Entity(ports=(PortRange(80, 80), NamedPort("http")), not_ports=(PortRange(1, 9),)),
                        annotations=(("why", "clients"),),
                    ),
                ),
                (PolicyRule("Deny", protocol="icmp", icmp=Icmp(8, 0), not_icmp=Icmp(3)),),
                performance_hints=("AssumeNeededOnEveryNode",),
                staged=True,
            )
        ],
        [allow_all()],
        [PolicyNetworkSet("office", nets=("192.0.2.0/28",), labels=(("net", "office"),))],
    ),
    (
        Endpoint(
            "WorkloadEndpoint",
            "default/w1",
            "node1",
            "cali1",
            ("10.65.0.1", "fd65::1"),
            (("app", "web"),),
            ("projectcalico-default-allow",),
            (DefinedPort("http", "tcp", 8080),),
            "default",
        ),
    ),
    PolicySettings(audit=True, failsafe_inbound=(Failsafe("tcp", 22, "10.0.0.0/8"),), workload_profiles=()),
)


def test_all_that_it_may_hold_is_stored_and_read_back() -> None:
    assert stored(state(EVERYTHING)) == state(EVERYTHING)


@settings(max_examples=25)
@given(worlds())
def test_any_world_is_stored_and_read_back(world: World) -> None:
    policy = PolicyState(world.policy_set, world.endpoints)
    assert stored(state(policy)) == state(policy)


def test_a_stored_policy_has_readable_fields() -> None:
    (policy,) = EVERYTHING.to_dict()["policies"]
    assert policy["ingress"][0] == {
        "action": "Allow",
        "ip_version": 4,
        "protocol": "tcp",
        "not_protocol": 253,
        "source": {
            "nets": ["10.0.0.0/8"],
            "not_nets": ["10.1.0.0/16"],
            "selector": 'app == "app"',
            "not_selector": "has(b)",
        },
        "destination": {"ports": [80, "http"], "not_ports": ["1:9"]},
        "annotations": {"why": "clients"},
    }


def test_a_state_without_policy_says_nothing_of_it() -> None:
    """A state without policy has no key for it, so states from before policy existed are read as the same state."""
    assert "policy" not in state(None).to_dict()
    assert stored(state(None)) == state(None)
    assert state(None).digest == NodeState("node1", "10.10.1.11/24").digest


def test_policy_is_part_of_what_a_node_has_to_have() -> None:
    digests = {state(policy).digest for policy in (None, PolicyState(), EVERYTHING)}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 1}, "PolicyState has no field 'colour'"),
        ({"policies": [{"name": "a", "colour": 1}]}, "Policy has no field 'colour'"),
        ({"policies": [{"name": "a", "ingress": [{}]}]}, "PolicyRule: __init__() missing 1 required positional"),
        ({"policies": [{"name": "a", "tier": "x"}]}, "policy a is in tier x, which does not exist"),
        ({"policies": [[]]}, "[] is not an object"),
        ({"endpoints": None}, "null is not a list"),
        ({"policies": [{"name": "a", "selector": ["all()"]}]}, "[all()] is not of the type str"),
        ({"policies": [{"name": "a", "selector": 7}]}, "7 is not of the type str"),
        ({"policies": [{"name": "a", "order": True}]}, "true is not of the type float"),
        ({"policies": [{"name": "a", "types": "Ingress"}]}, "Ingress is not a list"),
        ({"policies": [{"name": "a", "order": float("nan")}]}, "nan is not a finite number"),
        ({"profiles": [{"name": "a", "labels": {"a": 1}}]}, "{a: 1} is not an object of texts"),
    ],
)
def test_an_unknown_field_or_type_of_another_release_is_refused(change: t.Mapping[str, t.Any], message: str) -> None:
    data = json.loads(json.dumps(state(EVERYTHING).to_dict()))
    data["policy"].update(change)
    with pytest.raises(ValueError) as caught:
        NodeState.from_dict(data)
    assert message in str(caught.value).replace("PolicyRule.__init__", "__init__")


def test_a_policy_without_tiers_is_refused() -> None:
    data = state(EVERYTHING).to_dict()
    del data["policy"]["tiers"]
    with pytest.raises(ValueError, match="PolicyState lacks 'tiers'"):
        NodeState.from_dict(data)


def test_on_the_wire_policy_is_one_text() -> None:
    state = NodeState("node1", "10.10.1.11/24", policy=PolicyState(settings=PolicySettings(nflog_group=7)))
    wire = json.loads(json.dumps(state.to_wire()))
    assert isinstance(wire["policy"], str)
    assert NodeState.from_dict(wire) == state == NodeState.from_dict(state.to_dict())
    assert "policy" not in NodeState("node1", "10.10.1.11/24").to_wire()


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("x", "it is not packed data: "),
        (packed_json.pack([1]), "policy is neither a PolicyState nor a packed one"),
        (7, "policy is neither a PolicyState nor a packed one"),
        (packed_json.pack({}), "PolicyState lacks 'tiers'"),
    ],
)
def test_a_policy_that_is_none_is_refused(policy: object, words: str) -> None:
    plain = {**NodeState("node1", "10.10.1.11/24").to_dict(), "policy": policy}
    with pytest.raises(ValueError, match="^" + words):
        NodeState.from_dict(plain)


def test_equal_parts_of_a_stored_policy_become_one_object():
    rules = [PolicyRule("Allow", source=Entity(selector="a == 'b'"), protocol=6) for _number in range(2)]
    policies = [Policy(f"p{number}", ingress=(rule,)) for number, rule in enumerate(rules)]
    known = PolicyState.from_dict(PolicyState(policy_set(policies=policies)).to_dict())
    first, second = (policy.ingress[0] for policy in known.policy_set.policies)
    assert first == rules[0]
    assert first is second
