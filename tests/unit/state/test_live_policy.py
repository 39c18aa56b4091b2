# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live policy beside the inventory's: who wins, what refers to what, and what is kept."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy import model
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Policy,
    PolicyNetworkSet,
    PolicyRule,
    PolicyTier,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.live_policy import (
    NO_LIVE_POLICY,
    Unresolved,
    merged,
    resolve,
    without_effect,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)
from hypothesis import given
from hypothesis import strategies as st

SECURITY = PolicyTier("security", 10.0)
INVENTORY = model.policy_set(
    [SECURITY], [Policy("web", tier="security"), Policy("db")], network_sets=[PolicyNetworkSet("offices")]
)
ALLOWED = PolicyState(INVENTORY, settings=PolicySettings(live=True))
DENY = (PolicyRule("Deny"),)


def names(state: PolicyState) -> list[str]:
    return [policy.name for policy in state.policy_set.policies]


def test_live_values_are_beside_those_of_the_inventory_in_calicos_order() -> None:
    early = PolicyTier("early", 1.0)
    values = [early, Policy("first", tier="early"), Policy("a", tier="security", order=1.0), PolicyNetworkSet("bad")]
    state = merged(ALLOWED, resolve(INVENTORY, values))
    assert names(state) == ["first", "a", "web", "db"]
    assert [tier.name for tier in state.policy_set.tiers] == ["early", "security", "default"]
    assert [one.name for one in state.policy_set.network_sets] == ["bad", "offices"]


def test_the_inventory_wins_and_says_so() -> None:
    live = resolve(
        INVENTORY, [Policy("db", ingress=DENY), PolicyTier("security", 99.0, "Pass"), PolicyNetworkSet("offices")]
    )
    assert merged(ALLOWED, live) is ALLOWED
    assert without_effect(INVENTORY, live) == (("Tier", "security"), ("policy", "db"), ("network set", "offices"))


def test_policies_of_one_name_in_different_kinds_are_different() -> None:
    live = resolve(INVENTORY, [Policy("staged:db", staged=True), Policy("blue/db", kind="NetworkPolicy")])
    assert names(merged(ALLOWED, live)) == ["web", "blue/db", "db", "staged:db"]
    assert without_effect(INVENTORY, live) == ()


def test_without_permission_or_documents_nothing_changes() -> None:
    forbidden = PolicyState(INVENTORY)
    live = resolve(INVENTORY, [Policy("more")])
    assert merged(forbidden, live) is forbidden
    assert merged(ALLOWED, NO_LIVE_POLICY) is ALLOWED


def test_a_policy_in_a_missing_tier_is_not_resolved() -> None:
    with pytest.raises(Unresolved) as error:
        resolve(INVENTORY, [Policy("b", tier="gone"), Policy("a", tier="lost"), Policy("c")])
    assert str(error.value) == (
        "policy a is in tier lost, which does not exist, and 1 more policies are in missing tiers"
    )
    assert error.value.tiers == {"a": "lost", "b": "gone"}


def test_policies_stay_if_the_inventory_loses_their_tier() -> None:
    live = resolve(INVENTORY, [Policy("a", tier="security")])
    assert live.referred == (SECURITY,)
    later = dataclasses.replace(ALLOWED, policy_set=model.policy_set([], [Policy("db")]))
    state = merged(later, live)
    assert names(state) == ["a", "db"]
    assert state.policy_set.tiers[0] is SECURITY


def test_the_setting_is_stored_only_where_it_is_on() -> None:
    assert "live" not in PolicySettings().to_dict()
    assert PolicyState.from_dict(ALLOWED.to_dict()).settings.live


NAMES = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.lists(
    st.builds(Policy, NAMES, tier=st.sampled_from(["default", "x", "y"]), order=st.sampled_from([None, 1.0, 2.0]))
    | st.builds(PolicyTier, st.sampled_from(["x", "y"]), st.sampled_from([None, 1.0]))
    | st.builds(PolicyNetworkSet, NAMES)
)


def last_of(values: list[Policy | PolicyTier | PolicyNetworkSet]) -> dict[tuple[type, str], object]:
    return {(type(one), one.name): one for one in values}


@given(VALUES, VALUES)
def test_together_is_each_name_once_the_inventorys_first(
    own: list[Policy | PolicyTier | PolicyNetworkSet], live: list[Policy | PolicyTier | PolicyNetworkSet]
) -> None:
    mine, theirs = last_of(own), last_of(live)
    tiers = [one for one in mine.values() if isinstance(one, PolicyTier)]
    known = {tier.name for tier in tiers} | {"default"}
    policies = [one for one in mine.values() if isinstance(one, Policy) and one.tier in known]
    sets = [one for one in mine.values() if isinstance(one, PolicyNetworkSet)]
    inventory = PolicyState(model.policy_set(tiers, policies, network_sets=sets), settings=PolicySettings(live=True))
    mine = last_of([*tiers, *policies, *sets])
    try:
        resolved = resolve(inventory.policy_set, live)
    except Unresolved as error:
        assert any(one.tier not in known for one in theirs.values() if isinstance(one, Policy))
        assert error.tiers
        return
    found = merged(inventory, resolved).policy_set
    expected = {**theirs, **mine}
    assert last_of([*found.policies, *found.network_sets]) == {
        key: one for key, one in expected.items() if key[0] is not PolicyTier
    }
    assert {tier.name for tier in found.tiers} == known | {key[1] for key in theirs if key[0] is PolicyTier}
    assert found == model.policy_set(found.tiers, found.policies, found.profiles, found.network_sets)
