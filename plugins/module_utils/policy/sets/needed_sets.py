# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sets of addresses that rules refer to, and which of them the rules in use on a node need."""

from __future__ import annotations

import collections
import typing as t

from ..model import EGRESS, INGRESS, Entity, NamedPort, NamedPortKey, Policy, Profile, Protocol, Rule, SetKey


def named_port_key(port: NamedPort, protocol: t.Optional[Protocol], entity: Entity) -> NamedPortKey:
    """What a named port in a rule stands for. The entity's selector narrows those among `not_ports` as well, since a
    rule with a selector can only match its members (Felix, rule_scanner.go).
    """
    return NamedPortKey(port.name, str(protocol or "tcp"), entity.selector)


def of_rule(rule: Rule) -> t.Iterator[SetKey]:
    """All that this rule needs; some may come twice."""
    for entity in (rule.source, rule.destination):
        if entity.selector:
            yield entity.selector
        if entity.not_selector:
            yield entity.not_selector
        for port in (*entity.ports, *entity.not_ports):
            if isinstance(port, NamedPort):
                yield named_port_key(port, rule.protocol, entity)


def of_rules(owner: t.Union[Policy, Profile]) -> frozenset[SetKey]:
    """All that a policy's or profile's rules need, in those directions in which they are in force."""
    directions = owner.types if isinstance(owner, Policy) else (INGRESS, EGRESS)
    return frozenset(key for direction in directions for rule in owner.rules(direction) for key in of_rule(rule))


V = t.TypeVar("V", Policy, Profile)


class Settled(t.NamedTuple):
    """Names of those that came, went or are other ones now; the sets that these need, and those that they needed."""

    changed: frozenset[str]
    needed: list[SetKey]
    released: list[SetKey]


class RulesInUse(t.Generic[V]):
    """Policies or profiles by name, and which interfaces use them."""

    def __init__(self) -> None:
        self._of: dict[str, frozenset[str]] = {}
        self._users: collections.Counter[str] = collections.Counter()
        self._in_use: dict[str, V] = {}

    def replace(self, interface: str, names: t.Iterable[str]) -> None:
        """The interface uses these, and no others."""
        before, after = self._of.pop(interface, frozenset()), frozenset(names)
        if after:
            self._of[interface] = after
        self._users.update(after - before)
        for name in before - after:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name]

    def settle(self, known: t.Mapping[str, V]) -> Settled:
        """Those of `known` that are used are in use from now on, and no others."""
        used = {name: known[name] for name in self._users if name in known}
        changed = {name for name in used.keys() | self._in_use.keys() if used.get(name) != self._in_use.get(name)}
        needed = [key for name in sorted(changed & used.keys()) for key in of_rules(used[name])]
        released = [key for name in sorted(changed & self._in_use.keys()) for key in of_rules(self._in_use[name])]
        self._in_use = used
        return Settled(frozenset(changed), needed, released)

    def values(self) -> dict[str, V]:
        """Those in use, by name."""
        return dict(sorted(self._in_use.items()))
