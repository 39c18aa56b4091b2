# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which sets of addresses rules speak of: by selector, and by named port."""

from __future__ import annotations

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
