# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live policy: policies, tiers and network sets that the datastore has beside those of the inventory. Pure.

The inventory wins: a live value with the name of one of the inventory's has no effect until that goes. The inventory
refers to nothing live. Live policy has an effect only where the inventory switched policy on and allows it.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..policy import model
from ..policy.model import LiveNames, Policy, PolicyNetworkSet, PolicySet, PolicyTier
from .policy_state import PolicyState

#: What a live document is for policy.
Value = t.Union[PolicyTier, Policy, PolicyNetworkSet]


class Unresolved(ValueError):
    """Live policies whose tiers do not exist. `tiers` maps the names of these policies to their tiers."""

    def __init__(self, tiers: t.Mapping[str, str]) -> None:
        self.tiers = dict(tiers)
        name, tier = min(self.tiers.items())
        more = f", and {len(self.tiers) - 1} more policies are in missing tiers" if len(self.tiers) > 1 else ""
        super().__init__(f"policy {name} is in tier {tier}, which does not exist{more}")


@dataclasses.dataclass(frozen=True)
class LivePolicy:
    """The live values that a node has in force.

    `referred` are the tiers of the inventory in which some of the policies are, as they were when that was found out:
    by them the policies stay in force also if a later inventory lacks the tier.
    """

    tiers: tuple[PolicyTier, ...] = ()
    policies: tuple[Policy, ...] = ()
    network_sets: tuple[PolicyNetworkSet, ...] = ()
    referred: tuple[PolicyTier, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.tiers or self.policies or self.network_sets)


NO_LIVE_POLICY = LivePolicy()


def resolve(inventory: PolicySet, values: t.Iterable[Value]) -> LivePolicy:
    """Return live values, each with the tier that it refers to, from the inventory or from `values`.

    Raise Unresolved if a policy is in a tier that neither has.
    """
    tiers: dict[str, PolicyTier] = {}
    policies: dict[str, Policy] = {}
    sets: dict[str, PolicyNetworkSet] = {}
    for value in values:
        if isinstance(value, PolicyTier):
            tiers[value.name] = value
        elif isinstance(value, Policy):
            policies[value.name] = value
        else:
            sets[value.name] = value
    known = {tier.name: tier for tier in inventory.tiers}
    exist = known.keys() | tiers.keys() | {model.DEFAULT_TIER}
    missing = {name: policy.tier for name, policy in policies.items() if policy.tier not in exist}
    if missing:
        raise Unresolved(missing)
    referred = {policy.tier for policy in policies.values()} - tiers.keys() - {model.DEFAULT_TIER}
    return LivePolicy(
        tuple(tiers[name] for name in sorted(tiers)),
        tuple(policies[name] for name in sorted(policies)),
        tuple(sets[name] for name in sorted(sets)),
        tuple(known[name] for name in sorted(referred)),
    )


def merged(policy: PolicyState, live: LivePolicy) -> PolicyState:
    """Return the inventory's policy together with the live one; `policy` itself if nothing live has an effect."""
    if not policy.settings.live or live.is_empty:
        return policy
    own = policy.policy_set
    tiers = _beside(own.tiers, (*live.tiers, *live.referred))
    policies, sets = _beside(own.policies, live.policies), _beside(own.network_sets, live.network_sets)
    if not (tiers or policies or sets):
        return policy
    together = model.policy_set(
        (*own.tiers, *tiers), (*own.policies, *policies), own.profiles, (*own.network_sets, *sets)
    )
    return dataclasses.replace(policy, policy_set=together)


def without_effect(policy: PolicySet, live: LivePolicy) -> tuple[tuple[str, str], ...]:
    """Return kind and name of each live value in whose place the inventory's of that kind and name is in force."""
    pairs: tuple[tuple[str, tuple[Value, ...], tuple[Value, ...]], ...] = (
        ("Tier", policy.tiers, live.tiers),
        ("policy", policy.policies, live.policies),
        ("network set", policy.network_sets, live.network_sets),
    )
    found = []
    for kind, own, others in pairs:
        names = {value.name for value in own} - {model.DEFAULT_TIER} if others else frozenset()
        found += [(kind, one.name) for one in others if one.name in names]
    return tuple(found)


def names_with_effect(policy: PolicySet, live: LivePolicy) -> LiveNames:
    """Return the names of the live values that are in force beside the inventory's `policy`."""
    return LiveNames(
        frozenset(one.name for one in _beside(policy.tiers, live.tiers)),
        frozenset(one.name for one in _beside(policy.policies, live.policies)),
    )


_V = t.TypeVar("_V", PolicyTier, Policy, PolicyNetworkSet)


def _beside(own: t.Iterable[_V], live: t.Iterable[_V]) -> tuple[_V, ...]:
    """Return those of `live` whose name none of `own` has."""
    names = {one.name for one in own}
    found: dict[str, _V] = {}
    for one in live:
        if one.name not in names:
            found.setdefault(one.name, one)
    return tuple(found.values())
