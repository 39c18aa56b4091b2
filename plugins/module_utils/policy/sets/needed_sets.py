# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of the sets of selectors and named ports that rules refer to, and that those in use on a node need."""

from __future__ import annotations

import collections
import typing as t

from ..model import (
    EGRESS,
    INGRESS,
    Entity,
    NamedPort,
    NamedPortKey,
    Policy,
    PolicyProfile,
    PolicyRule,
    Protocol,
    SetKey,
)


def named_port_key(port: NamedPort, protocol: t.Optional[Protocol], entity: Entity) -> NamedPortKey:
    """Return the key of the set that a named port in a rule refers to. A protocol of None counts as "tcp".

    The entity's selector also limits ports among `not_ports`, because a rule with a selector can only match its members
    (Felix, rule_scanner.go).
    """
    return NamedPortKey(port.name, str(protocol or "tcp"), entity.selects)


def of_rule(rule: PolicyRule) -> t.Iterator[SetKey]:
    """Yield the keys of all sets of selectors and named ports that a rule refers to. A key may repeat."""
    for entity in (rule.source, rule.destination):
        selector = entity.selects or entity.excludes  # never both
        if selector:
            yield selector
        for port in (*entity.ports, *entity.not_ports):
            if isinstance(port, NamedPort):
                yield named_port_key(port, rule.protocol, entity)


def of_rules(owner: t.Union[Policy, PolicyProfile]) -> frozenset[SetKey]:
    """Return the keys of the sets of selectors and named ports that the rules in force of an owner refer to."""
    directions = owner.types if isinstance(owner, Policy) else (INGRESS, EGRESS)
    return frozenset(key for direction in directions for rule in owner.rules(direction) for key in of_rule(rule))


V = t.TypeVar("V", Policy, PolicyProfile)


class Settled(t.NamedTuple):
    """The difference between two states of RulesInUse.

    `changed` are the names of policies or profiles that came into use, went out of use or have other content. `needed`
    are the keys of the sets that their new rules need, `released` of those that their old rules needed, once for each.
    """

    changed: frozenset[str]
    needed: list[SetKey]
    released: list[SetKey]


class RulesInUse(t.Generic[V]):
    """The policies or profiles that interfaces use, by name."""

    def __init__(self) -> None:
        self._of: dict[str, frozenset[str]] = {}
        self._users: collections.Counter[str] = collections.Counter()
        self._touched: set[str] = set()  # names that began or ceased to be used since the last `settle`
        self._known: t.Mapping[str, V] = {}
        self._in_use: dict[str, V] = {}
        self._sorted: t.Optional[dict[str, V]] = None  # `_in_use` sorted by names; None: to be sorted again

    def replace(self, interface: str, names: t.Iterable[str]) -> None:
        """Record that `interface` uses exactly the policies or profiles `names`. `settle` makes it effective."""
        before, after = self._of.pop(interface, frozenset()), frozenset(names)
        if after:
            self._of[interface] = after
        for name in after - before:
            self._users[name] += 1
            self._touched.add(name)
        for name in before - after:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name]
                self._touched.add(name)

    def settle(self, known: t.Mapping[str, V]) -> Settled:
        """Put into use those of `known`, by name, that an interface uses, and no others. Return what changed.

        If `known` is the same object as in the last call, it must not have changed; only names whose use changed are
        looked at.
        """
        touched: t.Collection[str] = self._touched
        if known is not self._known:
            touched = self._users.keys() | self._in_use.keys()
        used = {name: known[name] for name in touched if name in self._users and name in known}
        changed = {name for name in touched if used.get(name) != self._in_use.get(name)}
        needed = [key for name in sorted(changed & used.keys()) for key in of_rules(used[name])]
        released = [key for name in sorted(changed & self._in_use.keys()) for key in of_rules(self._in_use[name])]
        if known is not self._known:
            self._in_use = used
        else:
            for name in changed:
                self._in_use.pop(name, None)
            self._in_use.update((name, used[name]) for name in changed & used.keys())
        if changed or known is not self._known:
            self._sorted = None
        self._known, self._touched = known, set()
        return Settled(frozenset(changed), needed, released)

    def values(self) -> dict[str, V]:
        """Return the policies or profiles in use as of the last `settle`, sorted by name; not to be changed."""
        if self._sorted is None:
            self._sorted = dict(sorted(self._in_use.items()))
        return self._sorted
