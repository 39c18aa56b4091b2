# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's policy, updated incrementally: the cost of a change grows with what it affects, not with the fleet."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ..hooks import FORWARD, NORMAL, PRE_DNAT, UNTRACKED, applies_at
from ..host_endpoints import Interfaces, governing
from ..model import (
    EGRESS,
    HOST_ENDPOINT,
    INGRESS,
    WORKLOAD_ENDPOINT,
    Endpoint,
    Policy,
    PolicyNetworkSet,
    PolicyProfile,
    PolicySet,
    SetKey,
)
from ..node_policy import LocalEndpoint, NodePolicy, TierPolicies
from ..sets.needed_sets import RulesInUse
from ..sets.set_members import MemberChange
from .label_index import LabelIndex, Match
from .sets_in_use import Id, SetsInUse

_NETWORK_SET = "NetworkSet"

V = t.TypeVar("V", PolicyNetworkSet, PolicyProfile)


@dataclasses.dataclass(frozen=True)
class Changes:
    """The parts of a node's policy that changed and have to be programmed again.

    `sets_added` and `sets_removed` are keys of whole sets, `members` the changes in other sets. `interfaces`, maybe
    with "*", are those whose endpoint was added, removed or changed, or has other policies, another order of them or
    another default action of a tier. `policies` and `profiles` are the names of those that came into use, changed, or
    went out of use.
    """

    sets_added: frozenset[SetKey] = frozenset()
    sets_removed: frozenset[SetKey] = frozenset()
    members: t.Mapping[SetKey, MemberChange] = dataclasses.field(default_factory=dict)
    interfaces: frozenset[str] = frozenset()
    policies: frozenset[str] = frozenset()
    profiles: frozenset[str] = frozenset()

    @property
    def chains(self) -> bool:
        return bool(self.interfaces or self.policies or self.profiles)

    def __bool__(self) -> bool:
        return bool(self.chains or self.sets_added or self.sets_removed or self.members)


class PolicyIndex:
    """The policy that `node` has to program, derived from the endpoints of all nodes and the policy set.

    Call the update methods and `remove_endpoint` in any order. Then `commit` makes one new state and returns what
    changed, and `node_policy` returns the whole state. `interfaces` are the host's own, without those of workloads.
    After a SelectorError the index must not be used again.
    """

    def __init__(self, node: str, interfaces: t.Optional[Interfaces] = None) -> None:
        self.node = node
        self._interfaces: Interfaces = interfaces or {}
        self._policy_set = PolicySet()
        self._policies_by_name: dict[str, Policy] = {}  # of `_policy_set`, as are the next
        self._profiles_by_name: dict[str, PolicyProfile] = {}
        self._place: dict[str, int] = {}
        self._by_selector: dict[str, list[Policy]] = {}
        self._local: dict[Id, Endpoint] = {}
        # the local endpoints by (kind, name), and the selectors of policies that are matched against them
        self._applying: LabelIndex[Id] = LabelIndex()
        self._sets = SetsInUse()
        self._unsettled: set[Id] = set()
        self._all_unsettled = False
        self._rules_unsettled = False
        # The state as of the last commit.
        self._endpoints: dict[str, LocalEndpoint] = {}
        self._policies: RulesInUse[Policy] = RulesInUse()
        self._profiles: RulesInUse[PolicyProfile] = RulesInUse()

    def update_endpoint(self, endpoint: Endpoint, key: t.Optional[Id] = None) -> None:
        """Add an endpoint of any node, or replace the one of this key.

        The key is (kind, name) by default, and has to be that for an endpoint of this node.
        """
        key = key or (endpoint.kind, endpoint.name)
        self._sets.update_owner(key, endpoint)
        if endpoint.node != self.node:
            self._remove_local(key)
        elif self._local.get(key) != endpoint:
            self._local[key] = endpoint
            self._applying.update_item(key, endpoint.labels, endpoint.profiles)
            self._unsettled.add(key)

    def remove_endpoint(self, *key: str) -> None:
        """Remove the endpoint of this key. An unknown one is ignored."""
        self._sets.remove_owner(key)
        self._remove_local(key)

    def _remove_local(self, key: Id) -> None:
        if self._local.pop(key, None):
            self._applying.remove_item(key)
            self._unsettled.add(key)

    def update_interfaces(self, interfaces: Interfaces) -> None:
        """Replace the host's interfaces and their addresses, without interfaces of workloads."""
        if interfaces == self._interfaces:
            return
        self._interfaces = interfaces
        self._unsettled |= {key for key in self._local if key[0] == HOST_ENDPOINT}

    def update_policy_set(self, policy_set: PolicySet) -> None:
        """Replace all policies, tiers, profiles and network sets.

        Raise SelectorError if the selector of a policy is not valid.
        """
        before, self._policy_set = self._policy_set, policy_set
        if before is policy_set:
            return
        self._policies_by_name = {policy.name: policy for policy in policy_set.policies}
        self._profiles_by_name = {profile.name: profile for profile in policy_set.profiles}
        self._rules_unsettled = self._rules_unsettled or before != policy_set
        for network_set in _gone(before.network_sets, policy_set.network_sets):
            self._sets.remove_owner((_NETWORK_SET, network_set.name))
        for network_set in _new(before.network_sets, policy_set.network_sets):
            self._sets.update_owner((_NETWORK_SET, network_set.name), network_set)
        for profile in _gone(before.profiles, policy_set.profiles):
            self._sets.remove_profile(profile.name)
            self._unsettle(self._applying.remove_profile(profile.name))
        for profile in _new(before.profiles, policy_set.profiles):
            self._sets.update_profile(profile)
            self._unsettle(self._applying.update_profile(profile.name, dict(profile.labels)))
        if (before.tiers, before.policies) != (policy_set.tiers, policy_set.policies):
            self._update_policies(policy_set)

    def _update_policies(self, policy_set: PolicySet) -> None:
        self._place = {policy.name: place for place, policy in enumerate(policy_set.policies)}
        by_selector: dict[str, list[Policy]] = collections.defaultdict(list)
        for policy in policy_set.policies:
            by_selector[policy.selector].append(policy)
        for selector in self._by_selector.keys() - by_selector.keys():
            self._applying.remove_selector(selector)
        for selector in by_selector:
            self._applying.add_selector(selector)
        self._by_selector = dict(by_selector)
        self._all_unsettled = True

    def _unsettle(self, matches: t.Iterable[Match]) -> None:
        self._unsettled.update(match.item for match in matches)

    # --- results

    def commit(self) -> Changes:
        """Make all updates effective, and return what changed since the last commit.

        Raise SelectorError if a selector in a rule of a policy or profile in use is not valid.
        """
        interfaces = self._settle() if self._unsettled or self._all_unsettled else frozenset()
        if not interfaces and not self._rules_unsettled:
            # The common case is a change of an endpoint on another node: it adds and removes neither rules nor sets.
            return Changes(members=self._sets.take_changes()[2])
        self._rules_unsettled = False
        policies = self._policies.settle(self._policies_by_name)
        profiles = self._profiles.settle(self._profiles_by_name)
        # Use before release, so that a set which other rules need now is not deleted and created again.
        self._sets.use([*policies.needed, *profiles.needed])
        self._sets.release([*policies.released, *profiles.released])
        added, removed, members = self._sets.take_changes()
        return Changes(added, removed, members, interfaces, policies.changed, profiles.changed)

    def _settle(self) -> frozenset[str]:
        """Update the endpoints and their use of policies and profiles. Return `Changes.interfaces`."""
        governed = self._governed()
        changed = set()
        for interface in self._endpoints.keys() - governed.keys():
            del self._endpoints[interface]
            self._use(interface, None)
            changed.add(interface)
        for interface, endpoint in governed.items():
            before = self._endpoints.get(interface)
            if before and before.endpoint is endpoint and not self._all_unsettled:
                if (endpoint.kind, endpoint.name) not in self._unsettled:
                    continue
            after = self._local_endpoint(interface, endpoint)
            if before != after:
                self._endpoints[interface] = after
                self._use(interface, after)
                changed.add(interface)
        self._unsettled = set()
        self._all_unsettled = False
        return frozenset(changed)

    def _governed(self) -> dict[str, Endpoint]:
        """Return a mapping from interface, or "*", to the local endpoint that governs it.

        If several workloads claim an interface, the one with the lowest name gets it, as in Felix.
        """
        governed: dict[str, Endpoint] = {}
        for (kind, _name), endpoint in sorted(self._local.items()):
            if kind == WORKLOAD_ENDPOINT:
                governed.setdefault(endpoint.interface, endpoint)
        host_endpoints = [endpoint for endpoint in self._local.values() if endpoint.kind == HOST_ENDPOINT]
        return {**governing(host_endpoints, self._interfaces), **governed}

    def _use(self, interface: str, local: t.Optional[LocalEndpoint]) -> None:
        self._policies.replace(interface, _policies_of(local) if local else ())
        self._profiles.replace(interface, local.profiles if local else ())

    def _local_endpoint(self, interface: str, endpoint: Endpoint) -> LocalEndpoint:
        selectors = self._applying.selectors((endpoint.kind, endpoint.name))
        policies = [policy for selector in selectors for policy in self._by_selector[selector]]
        policies.sort(key=lambda policy: self._place[policy.name])
        tiers = {hook: self._tiers(policies, endpoint, hook) for hook in (NORMAL, FORWARD, PRE_DNAT, UNTRACKED)}
        return LocalEndpoint(endpoint, interface, tiers[NORMAL], tiers[FORWARD], tiers[PRE_DNAT], tiers[UNTRACKED])

    def _tiers(self, policies: t.Sequence[Policy], endpoint: Endpoint, hook: str) -> tuple[TierPolicies, ...]:
        names: dict[tuple[str, str], list[str]] = {}
        for policy in policies:
            for direction in (INGRESS, EGRESS):
                if applies_at(policy, direction, hook, endpoint):
                    names.setdefault((policy.tier, direction), []).append(policy.name)
        return tuple(
            TierPolicies(
                tier.name,
                tier.default_action,
                tuple(names.get((tier.name, INGRESS), ())),
                tuple(names.get((tier.name, EGRESS), ())),
            )
            for tier in self._policy_set.tiers
            if (tier.name, INGRESS) in names or (tier.name, EGRESS) in names
        )

    def node_policy(self) -> NodePolicy:
        """Return the policy as of the last commit, but with members of sets that already contain later updates."""
        endpoints = sorted(self._endpoints.values(), key=lambda local: (local.endpoint.kind, local.interface))
        return NodePolicy(
            endpoints=tuple(endpoints),
            policies=self._policies.values(),
            profiles=self._profiles.values(),
            selector_members=self._sets.by_selector(),
            named_port_members=self._sets.by_named_port(),
        )


def _policies_of(local: LocalEndpoint) -> t.Iterable[str]:
    for tiers in (local.tiers, local.forward, local.pre_dnat, local.untracked):
        for tier in tiers:
            yield from tier.ingress
            yield from tier.egress


def _gone(before: t.Sequence[V], after: t.Sequence[V]) -> list[V]:
    names = {value.name for value in after}
    return [value for value in before if value.name not in names]


def _new(before: t.Sequence[V], after: t.Sequence[V]) -> list[V]:
    known = set(before)
    return [value for value in after if value not in known]
