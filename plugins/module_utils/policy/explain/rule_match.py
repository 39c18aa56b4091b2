# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decision whether a rule matches a flow, with the reason in words if it does not.

This is the reference implementation: tests compare the compiled chains with it.
"""

from __future__ import annotations

import re
import typing as t

from ...base import selectors
from ...base.addresses import cidr, family_of
from ...base.naming import NAMESPACE_LABEL
from ..index.address_index import AddressIndex, AddressOwner
from ..model import (
    ICMP_NUMBERS,
    PROTOCOL_NAMES,
    Entity,
    Flow,
    Icmp,
    NamedPort,
    PolicyRule,
    Port,
    Protocol,
    protocol_number,
)
from ..sets.needed_sets import named_port_key

#: The canonical form of a selector in a rule of a NetworkPolicy: the policy's namespace, and further conditions. A
#: selector that begins like this is one conjunction.
_IN_NAMESPACE = re.compile(rf'\({re.escape(NAMESPACE_LABEL)} == "([^"]*)" && (.*)\)', re.DOTALL)


def mismatch(rule: PolicyRule, flow: Flow, index: AddressIndex) -> str:
    """Return the first reason why `rule` does not match `flow`, in words, or "" if it matches.

    A flow between addresses of different IP versions matches no rule. `index` knows the owners of addresses. Raise
    SelectorError for a selector of the rule that is not valid, or KeyError for an unknown name of a protocol.
    """
    return (
        _version_mismatch(rule, flow)
        or _protocol_mismatch(rule, flow)
        or _icmp_mismatch(rule, flow)
        or _entity_mismatch("source", rule.source, flow.source, flow.source_port, rule.protocol, index)
        or _entity_mismatch(
            "destination", rule.destination, flow.destination, flow.destination_port, rule.protocol, index
        )
    )


def _version_mismatch(rule: PolicyRule, flow: Flow) -> str:
    if family_of(flow.source) != family_of(flow.destination):
        return f"{flow.source} and {flow.destination} are of different families"
    if rule.ip_version not in (None, flow.ip_version):
        return f"IPv{flow.ip_version} is not IPv{rule.ip_version}"
    return ""


def _protocol_mismatch(rule: PolicyRule, flow: Flow) -> str:
    if rule.protocol is not None and protocol_number(rule.protocol) != flow.protocol:
        return f"{_protocol(flow.protocol)} is not {_protocol(rule.protocol)}"
    if rule.not_protocol is not None and protocol_number(rule.not_protocol) == flow.protocol:
        return f"{_protocol(flow.protocol)} is the notProtocol"
    return ""


def _icmp_mismatch(rule: PolicyRule, flow: Flow) -> str:
    if rule.icmp is None and rule.not_icmp is None:
        return ""
    # ICMP over IPv6 and ICMPv6 over IPv4 do not exist, so no rule about ICMP matches them.
    if flow.protocol != ICMP_NUMBERS[flow.ip_version]:
        return f"{_protocol(flow.protocol)} is not IPv{flow.ip_version}'s ICMP"
    if rule.icmp is not None and not _is_message(flow, rule.icmp):
        return f"{_message(flow.icmp_type, flow.icmp_code)} is not {_message(rule.icmp.type, rule.icmp.code)}"
    if rule.not_icmp is not None and _is_message(flow, rule.not_icmp):
        return f"{_message(flow.icmp_type, flow.icmp_code)} is in notICMP"
    return ""


def _is_message(flow: Flow, icmp: Icmp) -> bool:
    return icmp.type in (None, flow.icmp_type) and icmp.code in (None, flow.icmp_code)


def _entity_mismatch(
    side: str,
    entity: Entity,
    address: str,
    port: t.Optional[int],
    protocol: t.Optional[Protocol],
    index: AddressIndex,
) -> str:
    if entity.nets and not any(cidr(net).contains(cidr(address)) for net in entity.nets):
        return f"{side} {address} is not in {', '.join(entity.nets)}"
    for net in entity.not_nets:
        if cidr(net).contains(cidr(address)):
            return f"{side} {address} is in {net} of notNets"
    selector = entity.selects
    if selector and not index.match(selector, address):
        whom = _owners(address, selector, index)
        return f"{side} {whom} is not selected by {_selector_text(selector)}"
    if entity.excludes and index.match(entity.excludes, address):
        whom = _owners(address, entity.excludes, index)
        return f"{side} {whom} is selected by the notSelector {_selector_text(entity.excludes)}"
    if (entity.ports or entity.not_ports) and port is None:
        return f"there is no {side} port"

    def among(ports: tuple[Port, ...]) -> bool:
        return any(_is_port(one, entity, address, port, protocol, index) for one in ports)

    def words(ports: tuple[Port, ...]) -> str:
        return ", ".join(_meant(one, address, protocol, index) for one in ports)

    if entity.ports and not among(entity.ports):
        return f"{side} port {port} is not {words(entity.ports)}"
    if entity.not_ports and among(entity.not_ports):
        return f"{side} port {port} is among notPorts {words(entity.not_ports)}"
    return ""


def _is_port(
    port: Port,
    entity: Entity,
    address: str,
    number: t.Optional[int],
    protocol: t.Optional[Protocol],
    index: AddressIndex,
) -> bool:
    if isinstance(port, NamedPort):
        return index.have_port(named_port_key(port, protocol, entity), address, number)
    return number is not None and port.first <= number <= port.last


def _protocol(protocol: Protocol) -> str:
    name = PROTOCOL_NAMES.get(protocol) if isinstance(protocol, int) else protocol
    return name or f"protocol {protocol}"


def _message(kind: t.Optional[int], code: t.Optional[int]) -> str:
    words = [] if kind is None else [f"type {kind}"]
    words += [] if code is None else [f"code {code}"]
    return f"ICMP {' '.join(words)}" if words else "any ICMP message"


def _meant(port: Port, address: str, protocol: t.Optional[Protocol], index: AddressIndex) -> str:
    """Return a port as text, a named one with its numbers at the address: "sql (5432)", "sql (no such port there)"."""
    if not isinstance(port, NamedPort):
        return str(port.plain)
    named = (one for owner in index.of(address) for one in owner.ports)
    numbers = sorted({one.port for one in named if (one.name, one.protocol) == (port.name, protocol)})
    return f"{port.name} ({', '.join(map(str, numbers)) or 'no such port there'})"


def _owners(address: str, selector: str, index: AddressIndex) -> str:
    """Return the address with its owners and their values of the labels in `selector` other than the namespace.

    For example "10.65.0.1 (default/web: app=web, no tier)", or "10.65.0.1 (of no endpoint and no network set)".
    """
    found = [_labelled(owner, selector) for owner in index.of(address)]
    return f"{address} ({'; '.join(found) or 'of no endpoint and no network set'})"


def _labelled(owner: AddressOwner, selector: str) -> str:
    asked = sorted(selectors.parse(selector).labels - {NAMESPACE_LABEL})
    words = [f"{name}={owner.labels[name]}" if name in owner.labels else f"no {name}" for name in asked]
    return f"{owner.name}: {', '.join(words)}" if words else owner.name


def _selector_text(selector: str) -> str:
    """Return a selector for people, with "in namespace web" in place of the test of that label."""
    match = _IN_NAMESPACE.fullmatch(selector)
    return f"{match.group(2)} in namespace {match.group(1)}" if match else selector
