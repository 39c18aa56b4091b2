# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory's policy by the states that nodes have stored. Some nodes may lie."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import packed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import (
    live_policy,
    stored_policy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy import model
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Failsafe,
    Policy,
    PolicyTier,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)

from tests.unit.fleet.fleets import build, pool, states

BGP, SSH = Failsafe("tcp", 179), Failsafe("tcp", 2222)
SETTINGS = PolicySettings(live=True, failsafe_inbound=(BGP,), failsafe_outbound=(BGP,))
SECURITY = model.policy_set([PolicyTier("security", 100)], [Policy("web", tier="security")])
OTHER = model.policy_set([PolicyTier("security", 200)])
EXPECTED = live_policy.of_inventory(SECURITY, SETTINGS)


def packed(policies: model.PolicySet = SECURITY, **settings: t.Any) -> str:
    return packed_json.pack(PolicyState(policies, settings=dataclasses.replace(SETTINGS, **settings)).to_dict())


def read(policies: t.Mapping[str, t.Any], whole: bool = True, **plans: str) -> stored_policy.RestoredPolicy:
    return stored_policy.read({host: plans.get(host, "a") for host in policies}, policies, whole)


def test_what_all_nodes_have_stored_is_what_their_run_had_published() -> None:
    """The port of SSH of one node is in its own settings alone."""
    own = packed(failsafe_inbound=(SSH, BGP), audit=True)
    assert read({"n1": own, "n2": packed()}) == ((EXPECTED,), "")
    fleet = build(
        pool("ipip"),
        nodes={"n1": "10.10.1.11/24", "n2": "10.10.1.12/24"},
        workloads=[],
        policies=[
            {"kind": "Tier", "name": "security"},
            {"kind": "GlobalNetworkSet", "name": "all", "nets": ["10.0.0.0/8"]},
        ],
        live_policy=True,
    )
    assert fleet.policy is not None
    published = live_policy.of_inventory(fleet.policy.policy.policy_set, fleet.policy.policy.settings)
    stored = {name: state.to_wire()["policy"] for name, state in states(fleet).items()}
    assert read(stored).each[0] == published


def test_states_without_policy_or_without_live_policy() -> None:
    for stored in ({"n1": None, "n2": None}, {"n1": packed(live=False), "n2": None}):
        found = read(stored)
        assert found == ((None,), "") and not found.has_live_policy


def test_parts_of_a_fleet_and_nodes_of_different_plans() -> None:
    assert read({"n1": packed()}, whole=False) == ((EXPECTED,), "not all nodes return")
    different = read({"n1": packed(), "n2": packed(OTHER)}, n2="b")
    assert len(different.each) == 2 and different.has_live_policy
    assert different.reason == "nodes return to 2 plans, which differ in policy"
    assert read({"n1": packed(), "n2": packed()}, n2="b") == ((EXPECTED,), "")
    many = {f"n{number}": packed() for number in range(9)}
    assert read(many, **{host: host for host in many}).reason == "nodes return to 9 plans, which differ in policy"


def test_what_a_single_node_makes_up_is_not_published() -> None:
    found = read({"n1": packed(), "n2": packed(OTHER), "n3": packed()})
    assert found.reason == "n1, n2, n3 say different things about the policy of the same plan"
    assert read({"n1": packed(), "n2": None}).reason


@pytest.mark.parametrize(
    "hostile",
    [
        7,
        {},
        "",
        "rubbish",
        packed_json.pack([]),
        packed_json.pack({"tiers": []}),
        packed(model.PolicySet(policies=(Policy("\x1b[2J", selector="(("),))),
        packed(model.policy_set([], [Policy("a", kind="IPPool", types=("x",))])),
        packed(model.policy_set([PolicyTier("../../../blocks/n1")])),
    ],
)
def test_hostile_states_are_named_and_nothing_is_published(hostile: t.Any) -> None:
    found = read({"n1": packed(), "n2": hostile})
    assert found.reason in (
        "the policy that is stored on n2 cannot be read",
        "n1, n2 say different things about the policy of the same plan",
    )
    assert EXPECTED in found.each


def test_only_some_nodes_of_a_large_fleet_are_read() -> None:
    asked: list[int] = []

    def last(hosts: t.Sequence[str], count: int) -> t.Sequence[str]:
        asked.append(count)
        return hosts[-count:]

    stored = {"n1": "rubbish", **{f"n{number}": packed() for number in range(2, 8)}}
    plans = dict.fromkeys(stored, "a")
    assert stored_policy.read(plans, stored, True, choice=last) == ((EXPECTED,), "") and asked == [4]
    assert stored_policy.read(plans, dict.fromkeys(stored, ""), True).reason.endswith(" cannot be read")
