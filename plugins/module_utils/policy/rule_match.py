# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a rule matches a flow, and if not why, in words. The plain reading, against which others are held."""

from __future__ import annotations

import re
import typing as t

from ..base import selectors
from .index.address_index import Bearer, Bearers, contains
from .model import PROTOCOL_NAMES, Entity, Flow, Icmp, NamedPort, Port, Protocol, Rule, protocol_number
from .sets.needed_sets import named_port_key

_ICMP_NUMBERS = {4: 1, 6: 58}
#: The label by which a namespace is known to selectors.
_NAMESPACE = "projectcalico.org/namespace"
#: Canonical form of what is folded into a NetworkPolicy's selectors; one that begins so is a conjunction as a whole.
_IN_NAMESPACE = re.compile(rf'\({re.escape(_NAMESPACE)} == "([^"]*)" && (.*)\)', re.DOTALL)


def mismatch(rule: Rule, flow: Flow, bearers: Bearers) -> str:
    """The first thing in which `flow` is not what `rule` is for, "" where it matches.

    A flow from one family to the other matches no rule.
    """
    return (
        _version_mismatch(rule, flow)
        or _protocol_mismatch(rule, flow)
        or _icmp_mismatch(rule, flow)
        or _entity_mismatch("source", rule.source, flow.source, flow.source_port, rule.protocol, bearers)
        or _entity_mismatch(
            "destination", rule.destination, flow.destination, flow.destination_port, rule.protocol, bearers
        )
    )


def _version_mismatch(rule: Rule, flow: Flow) -> str:
    if (":" in flow.source) != (":" in flow.destination):
        return f"{flow.source} and {flow.destination} are of different families"
    if rule.ip_version not in (None, flow.ip_version):
        return f"IPv{flow.ip_version} is not IPv{rule.ip_version}"
    return ""


def _protocol_mismatch(rule: Rule, flow: Flow) -> str:
    if rule.protocol is not None and protocol_number(rule.protocol) != flow.protocol:
        return f"{_protocol(flow.protocol)} is not {_protocol(rule.protocol)}"
    if rule.not_protocol is not None and protocol_number(rule.not_protocol) == flow.protocol:
        return f"{_protocol(flow.protocol)} is the notProtocol"
    return ""


def _icmp_mismatch(rule: Rule, flow: Flow) -> str:
    if rule.icmp is None and rule.not_icmp is None:
        return ""
    # ICMP in IPv6 and ICMPv6 in IPv4 are no messages at all.
    if flow.protocol != _ICMP_NUMBERS[flow.ip_version]:
        return f"{_protocol(flow.protocol)} is not IPv{flow.ip_version}'s ICMP"
    if rule.icmp is not None and not _is_message(flow, rule.icmp):
        return f"{_message(flow.icmp_type, flow.icmp_code)} is not {_message(rule.icmp.type, rule.icmp.code)}"
    if rule.not_icmp is not None and _is_message(flow, rule.not_icmp):
        return f"{_message(flow.icmp_type, flow.icmp_code)} is in notICMP"
    return ""


def _is_message(flow: Flow, icmp: Icmp) -> bool:
    return icmp.type in (None, flow.icmp_type) and icmp.code in (None, flow.icmp_code)


def _entity_mismatch(
    side: str, entity: Entity, address: str, port: t.Optional[int], protocol: t.Optional[Protocol], bearers: Bearers
) -> str:
    if entity.nets and not any(contains(net, address) for net in entity.nets):
        return f"{side} {address} is not in {', '.join(entity.nets)}"
    for net in entity.not_nets:
        if contains(net, address):
            return f"{side} {address} is in {net} of notNets"
    if entity.selector and not bearers.match(entity.selector, address):
        whom = _bearers(address, entity.selector, bearers)
        return f"{side} {whom} is not selected by {_selector_text(entity.selector)}"
    if entity.not_selector and bearers.match(entity.not_selector, address):
        whom = _bearers(address, entity.not_selector, bearers)
        return f"{side} {whom} is selected by the notSelector {_selector_text(entity.not_selector)}"
    if (entity.ports or entity.not_ports) and port is None:
        return f"there is no {side} port"

    def among(ports: tuple[Port, ...]) -> bool:
        return any(_is_port(one, entity, address, port, protocol, bearers) for one in ports)

    def words(ports: tuple[Port, ...]) -> str:
        return ", ".join(_meant(one, address, protocol, bearers) for one in ports)

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
    bearers: Bearers,
) -> bool:
    if isinstance(port, NamedPort):
        return bearers.have_port(named_port_key(port, protocol, entity), address, number)
    return number is not None and port.first <= number <= port.last


def port_text(port: Port) -> str:
    """As Calico writes it: 80, 8000:8999 or a name."""
    if isinstance(port, NamedPort):
        return port.name
    return str(port.first) if port.first == port.last else f"{port.first}:{port.last}"


def _protocol(protocol: Protocol) -> str:
    name = PROTOCOL_NAMES.get(protocol) if isinstance(protocol, int) else protocol
    return name or f"protocol {protocol}"


def _message(kind: t.Optional[int], code: t.Optional[int]) -> str:
    words = [] if kind is None else [f"type {kind}"]
    words += [] if code is None else [f"code {code}"]
    return f"ICMP {' '.join(words)}" if words else "any ICMP message"


def _meant(port: Port, address: str, protocol: t.Optional[Protocol], bearers: Bearers) -> str:
    """A port; of a named one with the number that it has at the address: `sql (5432)`."""
    if not isinstance(port, NamedPort):
        return port_text(port)
    named = (one for bearer in bearers.of(address) for one in bearer.ports)
    numbers = sorted({one.port for one in named if (one.name, one.protocol) == (port.name, protocol)})
    return f"{port.name} ({', '.join(map(str, numbers)) or 'no such port there'})"


def _bearers(address: str, selector: str, bearers: Bearers) -> str:
    """Who has the address, with the labels that `selector` asks for: `10.65.0.1 (default/web: app=web, no tier)`."""
    found = [_labelled(bearer, selector) for bearer in bearers.of(address)]
    return f"{address} ({'; '.join(found) or 'of no endpoint and no network set'})"


def _labelled(bearer: Bearer, selector: str) -> str:
    asked = sorted(selectors.parse(selector).labels - {_NAMESPACE})
    words = [f"{name}={bearer.labels[name]}" if name in bearer.labels else f"no {name}" for name in asked]
    return f"{bearer.name}: {', '.join(words)}" if words else bearer.name


def _selector_text(selector: str) -> str:
    """As people write it: the namespace that a NetworkPolicy's selectors are about stands apart."""
    match = _IN_NAMESPACE.fullmatch(selector)
    return f"{match.group(2)} in namespace {match.group(1)}" if match else selector
