# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules as one line of text for people, in Calico's words: `Allow tcp from app == "web" to ports 80, 443`."""

from __future__ import annotations

import typing as t

from ..base import terminal_text
from .model import EGRESS, INGRESS, Entity, Icmp, Policy, PolicyProfile, PolicyRule, Protocol


def rule_text(rule: PolicyRule) -> str:
    """Return the rule as one line of text, annotations included, such as "Allow tcp to ports 80, 443 # owner: web".

    Control characters are escaped.
    """
    words = [rule.action, *_protocol(rule)]
    for preposition, entity in (("from", rule.source), ("to", rule.destination)):
        text = _entity(entity)
        if text:
            words += [preposition, text]
    words += [f"# {key}: {value}" for key, value in rule.annotations]
    # An annotation's value may have several lines.
    return terminal_text.line(" ".join(words))


def rule_count(owner: t.Union[Policy, PolicyProfile]) -> str:
    """Return the number of rules in force as text, "1 rule" or "3 rules"."""
    directions = owner.types if isinstance(owner, Policy) else (INGRESS, EGRESS)
    count = sum(len(owner.rules(direction)) for direction in directions)
    return f"{count} rule{'' if count == 1 else 's'}"


def flags(policy: Policy) -> list[str]:
    """Return Calico's names of the fields by which a policy applies elsewhere than at the usual hook."""
    given = {
        "doNotTrack": policy.do_not_track,
        "preDNAT": policy.pre_dnat,
        "applyOnForward": policy.apply_on_forward,
    }
    return [name for name, is_given in given.items() if is_given]


def _protocol(rule: PolicyRule) -> t.Iterator[str]:
    if rule.ip_version is not None:
        yield f"IPv{rule.ip_version}"
    if rule.protocol is not None:
        yield _name(rule.protocol)
    if rule.not_protocol is not None:
        yield f"not {_name(rule.not_protocol)}"
    if rule.icmp is not None:
        yield _icmp(rule.icmp)
    if rule.not_icmp is not None:
        yield f"not {_icmp(rule.not_icmp)}"


def _name(protocol: Protocol) -> str:
    return protocol if isinstance(protocol, str) else f"protocol {protocol}"


def _icmp(icmp: Icmp) -> str:
    if icmp.type is None:
        return "any type"
    return f"type {icmp.type}" + ("" if icmp.code is None else f" code {icmp.code}")


def _entity(entity: Entity) -> str:
    parts = []
    if entity.selector:
        parts.append(entity.selector)
    if entity.not_selector:
        parts.append(f"not ({entity.not_selector})")
    if entity.nets:
        parts.append(f"nets {', '.join(entity.nets)}")
    if entity.not_nets:
        parts.append(f"not nets {', '.join(entity.not_nets)}")
    if entity.ports:
        parts.append(f"ports {', '.join(str(port.plain) for port in entity.ports)}")
    if entity.not_ports:
        parts.append(f"not ports {', '.join(str(port.plain) for port in entity.not_ports)}")
    return " and ".join(parts)
