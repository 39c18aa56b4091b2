# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A search for likely mistakes in an inventory's policy: rules that are never reached, names that look mistyped.

Agents attach workloads between runs, with labels that the inventory does not have. So a selector that matches nothing
is no finding, unless its label or value nearly equals one in the inventory.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing as t

from ....base import selectors
from ....policy.index.labels import effective_labels, labels_by_profile
from ....policy.model import (
    EGRESS,
    HOST_ENDPOINT,
    INGRESS,
    LOG,
    Endpoint,
    Entity,
    NamedPort,
    Policy,
    PolicyNetworkSet,
    PolicyRule,
    PolicySet,
)
from ....policy.sets.needed_sets import named_port_key

#: The least lengths of names that count as misspellings of each other: with two adjacent letters swapped (wbe, web),
#: of the shorter name with one letter missing, and with one letter replaced. Shorter names are similar by chance: app,
#: api.
_SWAPPED, _ONE_LESS, _REPLACED = 3, 4, 6
#: The number of names above which some are similar by chance, so that no misspellings are searched.
_MANY = 1000
_DIGITS = re.compile(r"\d+")


class PolicyFinding(t.NamedTuple):
    """A likely mistake in the resource `kind` `name`. `text` says what is wrong and then the remedy."""

    kind: str
    name: str
    text: str


def findings(policy_set: PolicySet, endpoints: t.Sequence[Endpoint]) -> list[PolicyFinding]:
    """Return the likely mistakes: in selectors and rules, then policies never asked, then in tiers and HostEndpoints.

    Policies are in the order of evaluation. The rules of profiles are not examined, nor names in the notSelectors of
    rules. `endpoints` are all endpoints of the inventory. Raise SelectorError if a selector is not valid.
    """
    owners: list[t.Union[Endpoint, PolicyNetworkSet]] = [*endpoints, *policy_set.network_sets]
    vocabulary = _Vocabulary(policy_set, owners)
    ports = {(port.name, port.protocol) for endpoint in endpoints for port in endpoint.ports}
    conditions = _Conditions()
    found: list[PolicyFinding] = []
    for policy in policy_set.policies:
        texts = [*_unreached_rules(policy, conditions), *_misspelt(policy, vocabulary), *_unknown_ports(policy, ports)]
        found += [PolicyFinding(policy.kind, policy.name, text) for text in texts]
    found += _unasked(policy_set)
    used = {policy.tier for policy in policy_set.policies}
    for tier in policy_set.tiers:
        if tier.name not in used and tier.name != "default":
            found.append(
                PolicyFinding("Tier", tier.name, "has no policy and decides nothing. Remove it, or give it one.")
            )
    return [*found, *_closed_hosts(policy_set, endpoints)]


def _directions(policy: Policy) -> t.Iterator[tuple[str, tuple[PolicyRule, ...]]]:
    return ((direction, policy.rules(direction)) for direction in (INGRESS, EGRESS) if direction in policy.types)


# --- rules that an earlier one covers ---------------------------------------------------------------------------------


class _Conditions:
    """A factory of keys for the conditions of rules. Equal conditions have equal keys, which are quick to compare."""

    def __init__(self) -> None:
        self._numbers: dict[Entity, int] = {}
        self._wider: dict[Entity, tuple[int, ...]] = {}

    def covering(self, rule: PolicyRule) -> t.Iterator[_Key]:
        """Yield keys of rules that match every packet that `rule` matches, because they leave out some conditions.

        The first one is the key of `rule` itself. Other conditions that cover those of `rule` are not considered.
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
            keys = tuple(conditions.covering(rule))
            covering = min((earlier[key] for key in keys if key in earlier), default=0)
            if covering:
                yield (
                    f"rule {number} of {direction} is never reached: rule {covering} "
                    f"({rules[covering - 1].action}) matches all that it does. Move it before that, or remove it."
                )
            if rule.action != LOG:
                earlier.setdefault(keys[0], number)


def _unasked(policy_set: PolicySet) -> t.Iterator[PolicyFinding]:
    """Yield a finding for each policy and direction with rules behind a policy of its tier that decides on all packets.

    The earlier policy is not staged, has the same doNotTrack, preDNAT and applyOnForward, and has the same selector or
    "all()". It decides on all packets if a rule without conditions has another action than Log.
    """
    ends: dict[tuple[t.Any, ...], str] = {}
    for policy in policy_set.policies:
        for direction, rules in _directions(policy):
            where = (policy.tier, direction, policy.do_not_track, policy.pre_dnat, policy.apply_on_forward)
            before = ends.get((*where, policy.selector)) or ends.get((*where, "all()"))
            if before and rules:
                yield PolicyFinding(
                    policy.kind,
                    policy.name,
                    f"is never asked about {direction}: {before}, before it in tier {policy.tier}, decides on "
                    "everything. Give it a lower order than that.",
                )
            if not before and not policy.staged:
                number = next((n for n, rule in enumerate(rules, 1) if _decides_on_all(rule)), 0)
                if number:
                    ends[(*where, policy.selector)] = f"{policy.name}#{number} ({rules[number - 1].action})"


def _decides_on_all(rule: PolicyRule) -> bool:
    return rule.action != LOG and rule == PolicyRule(rule.action, annotations=rule.annotations)


# --- names ------------------------------------------------------------------------------------------------------------


class _Vocabulary:
    """All labels and values that endpoints and network sets in the inventory have."""

    def __init__(self, policy_set: PolicySet, owners: t.Iterable[t.Union[Endpoint, PolicyNetworkSet]]) -> None:
        given = labels_by_profile(policy_set.profiles)
        self.values: dict[str, set[str]] = {}
        for owner in owners:
            for name, value in effective_labels(owner.labels, owner.profiles, given).items():
                self.values.setdefault(name, set()).add(value)
        self._known: dict[str, list[str]] = {}

    def misspelt(self, selector: str) -> list[str]:
        """Return a sentence for each part of `selector` whose label or value looks misspelt, [] if there is none.

        Only has(), == and in are examined, also under a negation; of an `in`, only the first such value is named.
        """
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
    """Return the first in sorted `known` that `name` seems to misspell, "" if none or if `known` has more than _MANY.

    Names whose digits differ do not count: web-2 is no misspelling of web-1.
    """
    if len(known) > _MANY:
        return ""
    digits = _DIGITS.findall(name)
    return next((one for one in sorted(known) if _DIGITS.findall(one) == digits and _misspells(name, one)), "")


def _misspells(name: str, other: str) -> bool:
    """Return whether two names differ by one typing error (Damerau) and are long enough for it."""
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
    for where, dummy, entity in _entities(policy):
        for text in vocabulary.misspelt(entity.selector) if entity.selector else ():
            yield f"{where}: {text}"


def _unknown_ports(policy: Policy, ports: t.Collection[tuple[str, str]]) -> t.Iterator[str]:
    """Yield a sentence for each named port in a list of `policy` that is not in `ports`, (name, protocol) pairs."""
    for where, rule, entity in _entities(policy):
        for negated, given in ((False, entity.ports), (True, entity.not_ports)):
            keys = {port: named_port_key(port, rule.protocol, entity) for port in given if isinstance(port, NamedPort)}
            if not keys:
                continue
            unknown = {port: key for port, key in keys.items() if (key.name, key.protocol) not in ports}
            others = ", ".join(str(port.plain) for port in given if port not in unknown)
            effect = _effect(others, negated)
            for key in unknown.values():
                near = _nearly(key.name, {name for name, protocol in ports if protocol == key.protocol})
                remedy = f"Did you mean {near}?" if near else "Give it to workloads (ports), or write its number."
                yield f"{where}: nobody has a port {key.name} of {key.protocol.upper()}, so that {effect}. {remedy}"


def _effect(others: str, negated: bool) -> str:
    """Return the effect of ports (notPorts if `negated`) with only `others`, text or "", beside unknown ports."""
    if negated:
        return f"notPorts excludes only {others}" if others else "notPorts excludes no port, as if it were left out"
    return f"ports matches only {others}" if others else "no packet matches"


def _entities(policy: Policy) -> t.Iterator[tuple[str, PolicyRule, Entity]]:
    """Yield ("rule 1 of Ingress, source", rule, entity) for the source and the destination of each rule in force."""
    for direction, rules in _directions(policy):
        for number, rule in enumerate(rules, 1):
            for side, entity in (("source", rule.source), ("destination", rule.destination)):
                yield f"rule {number} of {direction}, {side}", rule, entity


# --- hosts ------------------------------------------------------------------------------------------------------------


def _closed_hosts(policy_set: PolicySet, endpoints: t.Iterable[Endpoint]) -> t.Iterator[PolicyFinding]:
    """Yield a finding for each HostEndpoint without a profile that no enforced policy without preDNAT selects."""
    given = labels_by_profile(policy_set.profiles)
    for endpoint in endpoints:
        if endpoint.kind != HOST_ENDPOINT or endpoint.profiles:
            continue
        labels = effective_labels(endpoint.labels, endpoint.profiles, given)
        applying = (one for one in policy_set.policies if not one.staged and not one.pre_dnat)
        if not any(selectors.parse(one.selector).matches(labels) for one in applying):
            yield PolicyFinding(
                HOST_ENDPOINT,
                endpoint.name,
                f"has no profile, and no policy without preDNAT applies to it: nothing but failsafe ports reaches "
                f"{endpoint.node} there, or leaves it. Write a policy that selects it, or give it the profile "
                "projectcalico-default-allow.",
            )
