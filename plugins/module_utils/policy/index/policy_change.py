# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The differences between two policy sets, and the endpoints that each of them concerns. Pure."""

from __future__ import annotations

import typing as t

from ...base import selectors
from ..model import Endpoint, Policy, PolicyNetworkSet, PolicyProfile, PolicyRule, PolicySet, PolicyTier
from .labels import Labels, effective_labels, labels_by_profile

_STAGED = "staged:"  # in the name of a policy of a staged kind, after the namespace

#: The kind and name of an endpoint.
Concerned = tuple[str, str]
_Owner = t.Union[Policy, PolicyProfile]
_V = t.TypeVar("_V", Policy, PolicyTier, PolicyNetworkSet)


class PolicyChange(t.NamedTuple):
    """A policy, tier or network set that comes (+), changes (~) or goes (-), by Calico's kind and its name.

    `name` is "<namespace>/<name>" for a kind with namespaces. A policy concerns the endpoints that it selects, before
    or after the change. A tier concerns those of its policies, and a set those of rules that may refer to the set.
    """

    kind: str
    name: str
    action: str
    endpoints: frozenset[Concerned]


def changes(old: PolicySet, new: PolicySet, endpoints: t.Iterable[Endpoint]) -> t.Iterator[PolicyChange]:
    """Yield what turns `old` into `new`, with those of `endpoints` that it concerns: tiers, sets, then policies.

    Raise SelectorError for a selector that is not valid.
    """
    selected = _Selected(endpoints, new)
    policies = (*old.policies, *new.policies)
    for name, action, dummy in _differing(old.tiers, new.tiers):
        yield PolicyChange("Tier", name, action, selected.by(one for one in policies if one.tier == name))
    sets = list(_differing(old.network_sets, new.network_sets))
    owners = _with_selectors((*policies, *old.profiles, *new.profiles)) if sets else []
    for name, action, versions in sets:
        kind = "NetworkSet" if versions[0].namespace else "GlobalNetworkSet"
        labels = [selected.labels(one.labels, one.profiles) for one in versions]
        concerned = selected.by(owner for owner, texts in owners if _refer(texts, labels))
        yield PolicyChange(kind, name, action, concerned)
    for name, action, found in _differing(old.policies, new.policies):
        staged = "Staged" if found[0].staged else ""
        plain = name.replace(_STAGED, "", 1) if staged else name
        yield PolicyChange(f"{staged}{found[0].kind}", plain, action, selected.by(found))


class _Selected:
    """The endpoints that selectors select."""

    def __init__(self, endpoints: t.Iterable[Endpoint], policy_set: PolicySet) -> None:
        self._given = labels_by_profile(policy_set.profiles)
        self._endpoints = [
            ((one.kind, one.name), self.labels(one.labels, one.profiles), one.profiles) for one in endpoints
        ]
        self._known: dict[str, frozenset[Concerned]] = {}

    def labels(self, own: t.Iterable[tuple[str, str]], profiles: t.Sequence[str]) -> Labels:
        return effective_labels(own, profiles, self._given)

    def by(self, owners: t.Iterable[_Owner]) -> frozenset[Concerned]:
        """Return the endpoints to which one of the policies or profiles applies."""
        found: set[Concerned] = set()
        for owner in owners:
            if isinstance(owner, Policy):
                found |= self._by_selector(owner.selector)
            else:
                found.update(key for key, dummy, profiles in self._endpoints if owner.name in profiles)
        return frozenset(found)

    def _by_selector(self, text: str) -> frozenset[Concerned]:
        known = self._known.get(text)
        if known is None:
            matches = selectors.parse(text).matches
            known = self._known[text] = frozenset(key for key, labels, dummy in self._endpoints if matches(labels))
        return known


def _differing(old: t.Iterable[_V], new: t.Iterable[_V]) -> t.Iterator[tuple[str, str, tuple[_V, ...]]]:
    """Yield name, action and the one or two versions of each object that differs."""
    before, after = {one.name: one for one in old}, {one.name: one for one in new}
    for name in sorted(before.keys() | after.keys()):
        was, will = before.get(name), after.get(name)
        if was != will:
            action = "+" if was is None else "-" if will is None else "~"
            yield name, action, tuple(one for one in (will, was) if one is not None)


def _with_selectors(owners: t.Iterable[_Owner]) -> list[tuple[_Owner, frozenset[str]]]:
    """Return the owners of rules that have selectors, with the texts of these."""
    found = []
    for owner in dict.fromkeys(owners):
        texts = frozenset(text for rule in (*owner.ingress, *owner.egress) for text in _selectors_of(rule) if text)
        if texts:
            found.append((owner, texts))
    return found


def _selectors_of(rule: PolicyRule) -> tuple[str, ...]:
    return tuple(text for one in (rule.source, rule.destination) for text in (one.selector, one.not_selector))


def _refer(texts: t.Iterable[str], labels: t.Sequence[Labels]) -> bool:
    return any(selectors.parse(text).matches(one) for text in texts for one in labels)
