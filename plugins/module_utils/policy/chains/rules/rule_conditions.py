# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A policy's rule as conditions of iptables, which must all hold.

One condition has at most 15 ports. So a list of ports, where one must match, may become several alternatives. A list of
several CIDRs may become a set.
"""

from __future__ import annotations

import typing as t

from ....base import iptables_encoding as encoding
from ....base.ports import PortRange
from ...model import ICMP_NUMBERS, Entity, Icmp, NamedPort, PolicyRule, Port, Protocol, protocol_number
from ...sets import ip_sets
from ...sets.needed_sets import named_port_key
from .rule import in_set

#: The most ports in one condition (XT_MULTI_PORTS of the kernel). A range counts as two.
_PORT_SLOTS = 15

_ALL = {4: "0.0.0.0/0", 6: "::/0"}
_DIRECTLY = {"tcp", "udp"}


class Conditions(t.NamedTuple):
    """The conditions under which a packet matches a rule.

    `all_of` must all hold, first the protocol if there is one. `any_of` are up to two groups of alternatives, each a
    tuple of conditions; in each group, one alternative must hold. `nets` are the lists of CIDRs that need a set each.
    """

    all_of: tuple[str, ...]
    any_of: tuple[tuple[tuple[str, ...], ...], ...] = ()
    nets: tuple[tuple[str, ...], ...] = ()


class _Never(Exception):
    """The signal that no packet of this IP version can match."""


def conditions(rule: PolicyRule, family: int) -> t.Optional[Conditions]:
    """Return the conditions of a rule for IP version `family`, 4 or 6; None only if no such packet can match.

    Raise KeyError for a name of a protocol that is not in model.PROTOCOL_NUMBERS.
    """
    if rule.ip_version not in (None, family):
        return None
    try:
        protocol = _protocol(rule)
        all_of = [*protocol, *_icmp(rule, family)]
        any_of: list[tuple[tuple[str, ...], ...]] = []
        nets: list[tuple[str, ...]] = []
        for entity, side in ((rule.source, "src"), (rule.destination, "dst")):
            all_of += _addresses(entity, side, family, nets)
            all_of += _no_ports(entity, rule.protocol, side, family)
            # An alternative is a rule without the other conditions, so it repeats the protocol, which ports need.
            alternatives = _ports(entity, rule.protocol, side, family)
            if len(alternatives) == 1:
                all_of += alternatives[0]
            elif alternatives:
                any_of.append(tuple((*protocol, *alternative) for alternative in alternatives))
    except _Never:
        return None
    return Conditions(tuple(all_of), tuple(any_of), tuple(nets))


def _protocol(rule: PolicyRule) -> list[str]:
    if rule.protocol is not None:
        if rule.not_protocol is not None and protocol_number(rule.protocol) == protocol_number(rule.not_protocol):
            raise _Never
        return [f"-p {_protocol_text(rule.protocol)}"]
    return [] if rule.not_protocol is None else [f"! -p {_protocol_text(rule.not_protocol)}"]


def _protocol_text(protocol: Protocol) -> str:
    """Return "tcp" and "udp" unchanged, any other as its number: other names depend on /etc/protocols of the host."""
    return str(protocol) if protocol in _DIRECTLY else str(protocol_number(protocol))


def _icmp(rule: PolicyRule, family: int) -> t.Iterator[str]:
    if rule.icmp is None and rule.not_icmp is None:
        return
    if rule.protocol is None or protocol_number(rule.protocol) != ICMP_NUMBERS[family]:
        raise _Never
    match = "-m icmp %s--icmp-type %s" if family == 4 else "-m icmp6 %s--icmpv6-type %s"
    if rule.icmp is not None and rule.icmp.type is not None:
        if _is_any(rule.icmp, family):
            raise _Never
        yield match % ("", _message(rule.icmp))
    if rule.not_icmp is not None:
        if rule.not_icmp.type is None:
            raise _Never
        if not _is_any(rule.not_icmp, family):
            yield match % ("! ", _message(rule.not_icmp))


def _is_any(icmp: Icmp, family: int) -> bool:
    """Return whether iptables would read the type as any type, which it does for ICMP type 255 in IPv4."""
    return family == 4 and icmp.type == 255


def _message(icmp: Icmp) -> str:
    return str(icmp.type) if icmp.code is None else f"{icmp.type}/{icmp.code}"


def _addresses(entity: Entity, side: str, family: int, nets: list[tuple[str, ...]]) -> t.Iterator[str]:
    inline = False
    for given, negated in ((entity.nets, False), (entity.not_nets, True)):
        ours = tuple(dict.fromkeys(net for net in given if ip_sets.is_of(family, net)))
        if not ours:
            # A packet is never in networks of the other family: excluding them is no condition, requiring them fails.
            if given and not negated:
                raise _Never
        elif _ALL[family] in ours:
            if negated:
                raise _Never
        elif len(ours) == 1 and not inline:
            # An iptables rule can have only one -s and one -d.
            inline = True
            yield f"{'! ' if negated else ''}{'-s' if side == 'src' else '-d'} {encoding.cidr(ours[0])}"
        else:
            nets.append(ours)
            yield in_set(ip_sets.nets_set(ours, family), side, negated)
    selector = entity.selects
    if selector:
        yield in_set(ip_sets.selector_set(selector, family), side)
    elif entity.excludes:
        yield in_set(ip_sets.selector_set(entity.excludes, family), side, negated=True)


def _ports(entity: Entity, protocol: t.Optional[Protocol], side: str, family: int) -> list[tuple[str, ...]]:
    """Return the alternatives for an entity's ports, each a tuple of conditions without the protocol."""
    ranges, names = _kinds(entity.ports)
    alternatives: list[tuple[str, ...]] = [(_port_condition(chunk, protocol, side),) for chunk in _chunks(ranges)]
    for name in names:
        set_name = ip_sets.named_port_set(named_port_key(name, protocol, entity), family)
        alternatives.append((in_set(set_name, f"{side},{side}"),))
    return alternatives


def _no_ports(entity: Entity, protocol: t.Optional[Protocol], side: str, family: int) -> t.Iterator[str]:
    ranges, names = _kinds(entity.not_ports)
    for chunk in _chunks(ranges):
        yield _port_condition(chunk, protocol, side, negated=True)
    for name in names:
        set_name = ip_sets.named_port_set(named_port_key(name, protocol, entity), family)
        yield in_set(set_name, f"{side},{side}", negated=True)


def _kinds(ports: t.Iterable[Port]) -> tuple[list[PortRange], list[NamedPort]]:
    """Return (ranges, sorted and merged where they touch or overlap; names, each once)."""
    ranges: list[PortRange] = []
    for port in sorted((port for port in ports if isinstance(port, PortRange)), key=lambda port: port.first):
        if ranges and port.first <= ranges[-1].last + 1:
            ranges[-1] = PortRange(ranges[-1].first, max(ranges[-1].last, port.last))
        else:
            ranges.append(port)
    return ranges, list(dict.fromkeys(port for port in ports if isinstance(port, NamedPort)))


def _chunks(ranges: t.Iterable[PortRange]) -> list[list[PortRange]]:
    chunks: list[list[PortRange]] = []
    slots = _PORT_SLOTS
    for port in ranges:
        needed = 1 if port.first == port.last else 2
        if slots + needed > _PORT_SLOTS:
            chunks.append([])
            slots = 0
        chunks[-1].append(port)
        slots += needed
    return chunks


def _port_condition(ranges: list[PortRange], protocol: t.Optional[Protocol], side: str, negated: bool = False) -> str:
    ports = ",".join(str(port.plain) for port in ranges)
    # Both backends of iptables match one tcp or udp range natively. multiport is for everything else.
    if len(ranges) == 1 and protocol in _DIRECTLY:
        return f"-m {protocol} {'! ' if negated else ''}--{'sport' if side == 'src' else 'dport'} {ports}"
    return f"-m multiport {'! ' if negated else ''}--{'sports' if side == 'src' else 'dports'} {ports}"
