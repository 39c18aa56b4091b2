# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of tracked connections whose translation is no longer what our rules of the table nat say.

The kernel consults the table nat for the first packet of a flow only. A client that sends without a pause keeps its
connection, and with it the translation of that moment, or the lack of one: for ever, because nothing tells it to open
another connection. So after rules of nat were written, such connections of protocols other than TCP are deleted, and
the next packet is translated by the new rules. TCP connections go on, as everywhere in Linux.

Deleted are only connections that one of our rules decides on:

    a rule of ours translates the connection              and it has another translation, or none
    no rule of ours does, but one that was removed did    and it has the translation of that rule

Translations by other programs' rules stay, and so do connections that the host's rules for other traffic decide on.
"""

from __future__ import annotations

import functools
import typing as t

from ...base import addresses, published_port
from ...base.naming import INTERFACE_PREFIX
from ...policy.model import PROTOCOL_NUMBERS, Flow
from ...state import published_ports
from ...state.derived import outgoing_nat
from ..kernel.port import Connection, ConnectionFilter, Kernel

#: The table with the rules of translations.
TABLE = "nat"
#: The chain with the rules for what the host itself sends into tunnels.
_POSTROUTING = "cali-POSTROUTING"
_TCP = PROTOCOL_NUMBERS["tcp"]
# The protocols whose connections are looked for if a rule is for all: UDP, ICMP, SCTP, UDP-Lite, DCCP, GRE, ESP, AH,
# and IP in IP. The kernel lists one protocol at a time.
_OTHERS = {4: (17, 1, 132, 136, 33, 47, 50, 51, 4, 41), 6: (17, 58, 132, 136, 33, 47, 50, 51, 4, 41)}
#: The protocols other than TCP whose ports can be published.
_PUBLISHED = tuple(PROTOCOL_NUMBERS[name] for name in published_port.PROTOCOLS if name != "tcp")
_NUMBERS = {**PROTOCOL_NUMBERS, "ipv6-icmp": 58, "dccp": 33}
# Connections are looked for again as long as some were found: one that was being opened while the rules were written
# may appear only after the first look.
_LOOKS = 3

#: Rules in their order as (hash, text). The text is that of iptables-restore or of iptables-save.
Rules = t.Sequence[tuple[str, str]]


class ChainRules(t.NamedTuple):
    """A chain of table nat whose rules were written: those before and after."""

    chain: str
    before: Rules
    after: Rules


class _Target(t.NamedTuple):
    """The address, as a number, and the port of a DNAT; port 0 stands for that of the packet."""

    address: int
    port: int


_MASQUERADE = "MASQUERADE"
_Translation = t.Union[_Target, str]


class _Rule(t.NamedTuple):
    """One of our rules: what it matches (0, None and "" for all), and its translation; None if it is to return."""

    protocol: int = 0
    port: int = 0
    last_port: int = 0  # the end of a range that begins with `port`, 0 for that port alone
    source: t.Optional[addresses.Network] = None
    destination: t.Optional[addresses.Network] = None
    destination_set: str = ""
    device: str = ""
    from_host: bool = False
    translation: t.Optional[_Translation] = None

    def matches(self, flow: Flow, host: _Host) -> bool:
        if self.protocol and flow.protocol != self.protocol:
            return False
        if self.port and not self.port <= (flow.destination_port or 0) <= (self.last_port or self.port):
            return False
        for network, address in ((self.source, flow.source), (self.destination, flow.destination)):
            if network is not None and not network.holds(_network(address)):
                return False
        if self.destination_set and not host.set_has(self.destination_set, flow.destination):
            return False
        if self.device and host.device_to(flow.destination) != self.device:
            return False
        return not self.from_host or host.has_elsewhere(flow.source, self.device)


_network = functools.lru_cache(maxsize=4096)(addresses.network)


class _Host:
    """The host's own addresses and its ways to others, each looked up once."""

    def __init__(self, kernel: Kernel, family: int) -> None:
        self._kernel = kernel
        self._family = family
        self._routes: dict[str, tuple[str, str]] = {}
        self._devices: t.Optional[dict[str, set[str]]] = None
        self._sets: dict[str, frozenset[str]] = {}

    def _route(self, address: str) -> tuple[str, str]:
        found = self._routes.get(address)
        if found is None:
            route = self._kernel.route_to(address)
            found = self._routes[address] = ("", "") if route is None else (route.type, route.device or "")
        return found

    def is_own(self, address: str) -> bool:
        return self._route(address)[0] == "local"

    def forwards_to(self, address: str) -> bool:
        return self._route(address)[0] == "unicast"

    def device_to(self, address: str) -> str:
        return self._route(address)[1]

    def set_has(self, name: str, address: str) -> bool:
        """Return whether an IP set of hosts' addresses has this one; a set that is missing has none."""
        if name not in self._sets:
            self._sets[name] = self._kernel.ipset_members(name) or frozenset()
        return address in self._sets[name]

    def has_elsewhere(self, address: str, device: str) -> bool:
        """Return whether an address is the host's own, but not one of `device`."""
        if self._devices is None:
            self._devices = {}
            for found in self._kernel.addresses(family=self._family):
                self._devices.setdefault(found.address, set()).add(found.device)
        return self.is_own(address) and device not in self._devices.get(address, ())


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> t.Optional[_Rule]:
    """Return a rule of ours as values, or None if it neither translates nor returns, or is none that we write."""
    rule, negated = _Rule(), False
    words = iter(text.split())
    for word in words:
        if word in ("!", "--random-fully", "--limit-iface-out"):
            negated = word == "!"
            continue
        value = next(words, "")
        if negated and word != "--src-type":
            return None
        negated = False
        if word in ("-m", "--comment"):
            continue
        if word == "-p":
            number = _NUMBERS.get(value, int(value) if value.isdecimal() else 0)
            rule = rule._replace(protocol=number)
        elif word == "--dport":
            first, _colon, last = value.partition(":")
            if not first.isdecimal() or not (last or first).isdecimal():
                return None
            rule = rule._replace(port=int(first), last_port=int(last or 0))
        elif word == "-s":
            rule = rule._replace(source=addresses.network(value))
        elif word == "-d":
            rule = rule._replace(destination=addresses.network(value))
        elif word == "--match-set":
            if next(words, "") != "dst":
                return None
            rule = rule._replace(destination_set=value)
        elif word == "-o":
            rule = rule._replace(device=value)
        elif word == "--src-type" and value == "LOCAL":
            rule = rule._replace(from_host=True)
        elif word == "-j" and value == _MASQUERADE:
            rule = rule._replace(translation=_MASQUERADE)
        elif word == "--to-destination":
            target = _target(value)
            if target is None:
                return None
            rule = rule._replace(translation=target)
        elif word != "-j" or value not in ("DNAT", "RETURN"):
            return None
    return rule


def _target(text: str) -> t.Optional[_Target]:
    """Return the target of --to-destination: `ADDRESS`, or `ADDRESS:PORT` with brackets for IPv6; None for another."""
    address, _colon, port = text.rpartition(":") if text.startswith("[") or text.count(":") == 1 else (text, "", "0")
    return _Target(addresses.number(address.strip("[]")), int(port)) if port.isdecimal() else None


class _RuleIndex:
    """The rules of a chain, found by protocol and port: a node may publish thousands of ports."""

    def __init__(self, rules: Rules) -> None:
        self._by_port: dict[tuple[int, int], list[tuple[int, _Rule]]] = {}
        self._others: list[tuple[int, _Rule]] = []
        for position, (_hash, text) in enumerate(rules):
            rule = _parsed(text)
            if rule is None:
                continue
            if rule.protocol and rule.port and not rule.last_port:
                self._by_port.setdefault((rule.protocol, rule.port), []).append((position, rule))
            else:
                self._others.append((position, rule))

    def translation(self, flow: Flow, host: _Host) -> t.Optional[_Translation]:
        """Return the translation of the first rule that matches, or None."""
        here = self._by_port.get((flow.protocol, flow.destination_port or 0), [])
        for _position, rule in sorted([*here, *self._others]) if here and self._others else here or self._others:
            if rule.matches(flow, host):
                return rule.translation
        return None


class StaleConnections:
    """The connections of one IP version whose translation is no longer what the rules say."""

    def __init__(self, chains: t.Sequence[ChainRules], kernel: Kernel, family: int) -> None:
        self._family = family
        self._host = _Host(kernel, family)
        self._chains = [chain for chain in chains if _passing(chain.chain) is not None]

    @functools.cached_property
    def _indexes(self) -> list[tuple[str, _RuleIndex, _RuleIndex]]:
        return [(one.chain, _RuleIndex(one.before), _RuleIndex(one.after)) for one in self._chains]

    def filters(self) -> list[ConnectionFilter]:
        """Return which connections to look at: one filter per protocol, except TCP, of the rules that differ."""
        ports: dict[int, set[int]] = {}
        different = {one.chain: list(_different(one.before, one.after)) for one in self._chains}
        if any(rules for chain, rules in different.items() if _is_published(chain)):
            # The rules for the sources of published ports are about the same connections as those for destinations.
            different.pop(published_ports.SNAT_CHAIN, None)
        for chain, rules in different.items():
            protocols = _PUBLISHED if chain == published_ports.SNAT_CHAIN else _OTHERS[self._family]
            for rule in filter(None, (_parsed(text) for _hash, text in rules)):
                for protocol in (rule.protocol,) if rule.protocol else protocols:
                    ports.setdefault(protocol, set()).add(0 if rule.last_port else rule.port)
        ports.pop(_TCP, None)
        return [
            ConnectionFilter(self._family, protocol, next(iter(some)) or None if len(some) == 1 else None)
            for protocol, some in ports.items()
        ]

    def has(self, connection: Connection) -> bool:
        """Return whether this connection is one of them."""
        if connection.master or connection.sent.protocol == _TCP:
            return False
        for chain, before, after in self._indexes:
            flow = connection.sent if _is_published(chain) else connection.flow
            wanted = after.translation(flow, self._host)
            if wanted is not None:
                is_stale = not _has(connection, wanted)
            else:
                former = before.translation(flow, self._host)
                is_stale = former is not None and _has(connection, former)
            passing = _passing(chain)
            if is_stale and passing is not None and passing(connection, self._host):
                return True
        return False


def _different(before: Rules, after: Rules) -> t.Iterator[tuple[str, str]]:
    """Yield the rules that only one of the two has, and all rules of `after` if they are in another order."""
    old, new = [digest for digest, _text in before], [digest for digest, _text in after]
    remaining, known = set(new), set(old)
    for digest, text in before:
        if digest not in remaining:
            yield digest, text
    moved = [digest for digest in old if digest in remaining] != [digest for digest in new if digest in known]
    for digest, text in after:
        if moved or digest not in known:
            yield digest, text


def _has(connection: Connection, translation: _Translation) -> bool:
    """Return whether a connection has this translation; any other source counts as masqueraded."""
    if isinstance(translation, _Target):
        flow = connection.flow
        port = translation.port or connection.sent.destination_port
        return (addresses.number(flow.destination), flow.destination_port) == (translation.address, port)
    return bool(connection.reply_to)


# ---- which connections pass a chain: the conditions of the rules that lead to it


def _to_own_address(connection: Connection, host: _Host) -> bool:
    destination = connection.sent.destination
    return destination != "::1" and host.is_own(destination)


def _forwarded(connection: Connection, host: _Host) -> bool:
    return host.forwards_to(connection.flow.destination) and not host.is_own(connection.sent.source)


def _sent_out(connection: Connection, host: _Host) -> bool:
    return host.forwards_to(connection.flow.destination)


def _to_published_workload(connection: Connection, host: _Host) -> bool:
    sent, flow = connection.sent, connection.flow
    translated = (sent.destination, sent.destination_port) != (flow.destination, flow.destination_port)
    return translated and host.device_to(flow.destination).startswith(INTERFACE_PREFIX)


def _is_published(chain: str) -> bool:
    """Return whether a chain has rules for the destinations of published ports: that of a workload, or of all."""
    return chain == published_ports.CHAIN or chain.startswith(published_ports.WORKLOAD_CHAIN)


def _passing(chain: str) -> t.Optional[t.Callable[[Connection, _Host], bool]]:
    """Return what tells whether a connection passes a chain, None for a chain without translations."""
    return _to_own_address if _is_published(chain) else _PASSING.get(chain)


_PASSING: dict[str, t.Callable[[Connection, _Host], bool]] = {
    published_ports.SNAT_CHAIN: _to_published_workload,
    outgoing_nat.CHAIN: _forwarded,
    _POSTROUTING: _sent_out,
}


def delete_stale(kernel: Kernel, chains: t.Sequence[ChainRules], family: int) -> int:
    """Delete the connections whose translation is no longer what the rules of these chains say; return their number."""
    stale = StaleConnections(chains, kernel, family)
    deleted = 0
    for wanted in stale.filters():
        for _look in range(_LOOKS):
            found = [connection for connection in kernel.connections(wanted) if stale.has(connection)]
            if not found:
                break
            deleted += kernel.connections_delete(found)
    return deleted
