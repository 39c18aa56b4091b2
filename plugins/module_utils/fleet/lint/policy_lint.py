# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is allowed in an inventory's policy and hardly meant: rules that nothing reaches, names that look mistyped.

Workloads come to nodes between runs with labels that no inventory knows, so a selector that finds nothing is no
finding; one that finds nothing and nearly says what others are called is.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing as t

from ...base import selectors
from ...policy.index.labels import effective_labels, labels_by_profile
from ...policy.model import (
    EGRESS,
    HOST_ENDPOINT,
    INGRESS,
    LOG,
    Endpoint,
    Entity,
    NamedPortKey,
    NetworkSet,
    Policy,
    PolicySet,
    Rule,
)
from ...policy.sets.needed_sets import of_rules

#: How long a name is at least of which another is taken for a misspelling: with two letters changed over (wbe), with
#: one too many or too few, with another one. Short names are too near to one another: app, api.
_SWAPPED, _ONE_LESS, _REPLACED = 3, 4, 6
#: Of more names than that some are alike by chance.
_MANY = 1000
_DIGITS = re.compile(r"\d+")


class Finding(t.NamedTuple):
    """`kind` and `name` are those of the resource; `text` says what is odd about it and how to go on."""

    kind: str
    name: str
    text: str


def findings(policy_set: PolicySet, endpoints: t.Sequence[Endpoint]) -> list[Finding]:
    """In the order of evaluation. The work is linear in rules, endpoints and distinct selectors."""
    bearers: list[t.Union[Endpoint, NetworkSet]] = [*endpoints, *policy_set.network_sets]
    vocabulary = _Vocabulary(policy_set, bearers)
    ports = {(port.name, port.protocol) for endpoint in endpoints for port in endpoint.ports}
    conditions = _Conditions()
    found: list[Finding] = []
    for policy in policy_set.policies:
        texts = [*_unreached_rules(policy, conditions), *_misspelt(policy, vocabulary), *_unknown_ports(policy, ports)]
        found += [Finding(policy.kind, policy.name, text) for text in texts]
    found += _unasked(policy_set)
    used = {policy.tier for policy in policy_set.policies}
    for tier in policy_set.tiers:
        if tier.name not in used and tier.name != "default":
            found.append(Finding("Tier", tier.name, "has no policy and decides nothing. Remove it, or give it one."))
    return [*found, *_closed_hosts(policy_set, endpoints)]


def _directions(policy: Policy) -> t.Iterator[tuple[str, tuple[Rule, ...]]]:
    return ((direction, policy.rules(direction)) for direction in (INGRESS, EGRESS) if direction in policy.types)


# --- rules that an earlier one covers ---------------------------------------------------------------------------------


class _Conditions:
    """What rules match on, as keys that are quickly compared, and the keys of all that matches the same and more."""

    def __init__(self) -> None:
        self._numbers: dict[Entity, int] = {}
        self._wider: dict[Entity, tuple[int, ...]] = {}

    def of(self, rule: Rule) -> _Key:
        """The key of exactly these conditions."""
        return next(self.covering(rule))

    def covering(self, rule: Rule) -> t.Iterator[_Key]:
        """Of rules with some of these conditions and no others; its own key first.

        A condition on ports or messages stands together with the protocol that has them.
        """
        return itertools.product(
            _or_any(rule.ip_version),
            _or_any((rule.protocol, rule.not_protocol)),
            _or_any((rule.icmp, rule.not_icmp)),
            self._wider_than(rule.source),
            self._wider_than(rule.destination),
        )

    def _wider_than(self, entity: Entity) -> tuple[int, ...]:
        if entity not in self._wider:
            whoever = Entity(ports=entity.ports, not_ports=entity.not_ports)
            without_ports = dataclasses.replace(entity, ports=(), not_ports=())
            self._wider[entity] = tuple(
                self._numbers.setdefault(one, len(self._numbers))
                for one in dict.fromkeys((entity, without_ports, whoever, Entity()))
            )
        return self._wider[entity]


_Key = tuple[t.Any, ...]
_ANY = (None, (None, None))


def _or_any(condition: t.Any) -> tuple[t.Any, ...]:
    if condition in _ANY:
        return (condition,)
    return (condition, (None, None) if isinstance(condition, tuple) else None)


def _unreached_rules(policy: Policy, conditions: _Conditions) -> t.Iterator[str]:
    for direction, rules in _directions(policy):
        earlier: dict[_Key, int] = {}
        for number, rule in enumerate(rules, 1):
            if earlier:
                covering = min((earlier[key] for key in conditions.covering(rule) if key in earlier), default=0)
                if covering:
                    yield (
                        f"rule {number} of {direction} is never reached: rule {covering} "
                        f"({rules[covering - 1].action}) matches all that it does. Move it before that, or remove it."
                    )
            if rule.action != LOG and number < len(rules):
                earlier.setdefault(conditions.of(rule), number)


def _unasked(policy_set: PolicySet) -> t.Iterator[Finding]:
    """Policies of a tier behind one that decides on everything, for the same endpoints or for all."""
    ends: dict[tuple[t.Any, ...], str] = {}
    for policy in policy_set.policies:
        for direction, rules in _directions(policy):
            where = (policy.tier, direction, policy.do_not_track, policy.pre_dnat, policy.apply_on_forward)
            before = ends.get((*where, policy.selector)) or ends.get((*where, "all()"))
            if before and rules:
                yield Finding(
                    policy.kind,
                    policy.name,
                    f"is never asked about {direction}: {before}, before it in tier {policy.tier}, decides on "
                    "everything. Give it a lower order than that.",
                )
            if not before and not policy.staged:
                number = next((n for n, rule in enumerate(rules, 1) if _decides_on_all(rule)), 0)
                if number:
                    ends[(*where, policy.selector)] = f"{policy.name}#{number} ({rules[number - 1].action})"


def _decides_on_all(rule: Rule) -> bool:
    return rule.action != LOG and rule == Rule(rule.action, annotations=rule.annotations)


# --- names ------------------------------------------------------------------------------------------------------------


class _Vocabulary:
    """All labels and their values that somebody in the inventory has."""

    def __init__(self, policy_set: PolicySet, bearers: t.Iterable[t.Union[Endpoint, NetworkSet]]) -> None:
        given = labels_by_profile(policy_set.profiles)
        self.values: dict[str, set[str]] = {}
        for bearer in bearers:
            for name, value in effective_labels(bearer.labels, bearer.profiles, given).items():
                self.values.setdefault(name, set()).add(value)
        self._known: dict[str, list[str]] = {}

    def misspelt(self, selector: str) -> list[str]:
        """What is odd about a selector, one text for each of its parts."""
        if selector not in self._known:
            leaves = selectors.leaves(selectors.parse(selector).root)
            self._known[selector] = [text for text in map(self._of_leaf, leaves) if text]
        return self._known[selector]

    def _of_leaf(self, leaf: selectors.Leaf) -> str:
        if not isinstance(leaf, (selectors.Has, selectors.LabelEquals, selectors.LabelIn)):
            return ""
        known = self.values.get(leaf.label)
        if known is None:
            near = _nearly(leaf.label, self.values)
            return f"nothing in the inventory has a label {leaf.label}. Did you mean {near}?" if near else ""
        wanted = (leaf.value,) if isinstance(leaf, selectors.LabelEquals) else getattr(leaf, "values", ())
        for value in wanted:
            near = "" if value in known else _nearly(value, known)
            if near:
                return f"nothing in the inventory has {leaf.label} == '{value}'. Did you mean '{near}'?"
        return ""


def _nearly(name: str, known: t.Collection[str]) -> str:
    """The first of `known` of which `name` looks misspelt, or "". web-2 is no misspelling of web-1."""
    if len(known) > _MANY:
        return ""
    digits = _DIGITS.findall(name)
    return next((one for one in sorted(known) if _DIGITS.findall(one) == digits and _misspells(name, one)), "")


def _misspells(name: str, other: str) -> bool:
    """Whether they are one slip of the fingers apart (Damerau)."""
    long, short = (name, other) if len(name) >= len(other) else (other, name)
    if len(long) == len(short):
        differing = [index for index in range(len(long)) if long[index] != short[index]]
        if len(differing) == 1:
            return len(long) >= _REPLACED
        first, last = (differing[0], differing[-1]) if differing else (0, 0)
        swapped = len(differing) == 2 and last == first + 1 and long[first : last + 1] == short[first : last + 1][::-1]
        return swapped and len(long) >= _SWAPPED
    return len(long) == len(short) + 1 >= _ONE_LESS + 1 and any(
        long[:index] + long[index + 1 :] == short for index in range(len(long))
    )


def _misspelt(policy: Policy, vocabulary: _Vocabulary) -> t.Iterator[str]:
    for text in vocabulary.misspelt(policy.selector):
        yield f"its selector: {text}"
    for direction, rules in _directions(policy):
        for number, rule in enumerate(rules, 1):
            for side, entity in (("source", rule.source), ("destination", rule.destination)):
                for text in vocabulary.misspelt(entity.selector) if entity.selector else ():
                    yield f"rule {number} of {direction}, {side}: {text}"


def _unknown_ports(policy: Policy, ports: t.Collection[tuple[str, str]]) -> t.Iterator[str]:
    """Only the inventory's workloads have named ports."""
    for key in dict.fromkeys(of_rules(policy)):
        if isinstance(key, NamedPortKey) and (key.name, key.protocol) not in ports:
            near = _nearly(key.name, {name for name, protocol in ports if protocol == key.protocol})
            remedy = f"Did you mean {near}?" if near else "Give it to workloads (ports), or write its number."
            yield f"nobody has a port {key.name} of {key.protocol.upper()}, so that no packet matches. {remedy}"


# --- hosts ------------------------------------------------------------------------------------------------------------


def _closed_hosts(policy_set: PolicySet, endpoints: t.Iterable[Endpoint]) -> t.Iterator[Finding]:
    """HostEndpoints that nobody says anything about, as one sees them who has only just made them."""
    given = labels_by_profile(policy_set.profiles)
    for endpoint in endpoints:
        if endpoint.kind != HOST_ENDPOINT or endpoint.profiles:
            continue
        labels = effective_labels(endpoint.labels, endpoint.profiles, given)
        applying = (one for one in policy_set.policies if not one.staged)
        if not any(selectors.parse(one.selector).matches(labels) for one in applying):
            yield Finding(
                HOST_ENDPOINT,
                endpoint.name,
                f"has no profile and no policy applies to it: nothing but failsafe ports reaches {endpoint.node} "
                "there, or leaves it. Write a policy that selects it, or give it the profile "
                "projectcalico-default-allow.",
            )
