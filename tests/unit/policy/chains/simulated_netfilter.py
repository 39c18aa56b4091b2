# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulation of the kernel's handling of a packet by our tables. It reads the input of iptables-restore.

It supports the parts of iptables that the compiler uses, and raises an error for all others. The results of
connection tracking, of reverse path filtering and of looking up the host's addresses are fields of the packet.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import shlex
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.tables import Tables
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.sets.ip_sets import PolicyIpSet

NUMBERS = {"icmp": 1, "tcp": 6, "udp": 17}
#: The numbers of the protocols that may have conditions on ports here.
WITH_PORTS = {6, 17, 132, 136}
SET_PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp", 136: "udplite"}


@dataclasses.dataclass
class Packet:
    protocol: int
    source: str
    destination: str
    source_port: t.Optional[int] = None
    destination_port: t.Optional[int] = None
    icmp_type: t.Optional[int] = None
    icmp_code: t.Optional[int] = None
    comes_in_by: str = ""
    goes_out_by: str = ""
    state: str = "NEW"
    dnat: bool = False
    spoofed: bool = False
    source_is_local: bool = False
    destination_is_local: bool = False
    mark: int = 0
    log: list[str] = dataclasses.field(default_factory=list)


Condition = t.Callable[[Packet], bool]


class Rule(t.NamedTuple):
    conditions: tuple[Condition, ...]
    verb: str  # "-j" or "-g"
    target: str
    words: tuple[str, ...]


class Netfilter:
    """A simulated network namespace with these tables and sets. `run` sends a packet through built-in chains.

    Its constructor raises AssertionError, KeyError or ValueError for tables and sets that are not supported, and for
    some that the kernel would refuse.
    """

    def __init__(self, tables: Tables, other_sets: t.Iterable[PolicyIpSet] = ()) -> None:
        self.family = tables.family
        self.sets = {one.name: Members(one) for one in (*tables.sets, *other_sets)}
        self.chains: dict[tuple[str, str], list[Rule]] = {}
        for table in tables.tables.values():
            for name, rules in table.chains.items():
                assert len(name) <= 28 and name.startswith("cali-")
                self.chains[table.name, name] = [self._parsed(rule) for rule in rules]
            for hook in sorted(table.hooks, key=lambda hook: hook.last):
                self.chains.setdefault((table.name, hook.chain), []).append(self._parsed(hook.rule.render()))
        self._at_end = {
            (table.name, hook.chain): 1 for table in tables.tables.values() for hook in table.hooks if hook.last
        }
        for (table_name, chain), rules in self.chains.items():
            for rule in rules:
                assert not rule.target.startswith("cali-") or (table_name, rule.target) in self.chains, (chain, rule)

    def add_rule_of_others(self, table: str, chain: str, rule: str) -> None:
        """Add another program's rule to a built-in chain, before our rule that belongs at its end.

        Without such a rule, it becomes the last one. Raise KeyError if the chain has no rule of ours, and
        AssertionError for a rule that is not supported.
        """
        rules = self.chains[table, chain]
        rules.insert(len(rules) - self._at_end.get((table, chain), 0), self._parsed(rule))

    def run(self, packet: Packet, *places: tuple[str, str]) -> bool:
        """Return whether the packet passes all `places`, which are pairs of table and built-in chain.

        A place without rules passes, and the first place that drops the packet is the last. The packet's mark, state
        and log are updated. Raise what `_chain` raises.
        """
        return not any(place in self.chains and self._chain(place, packet) == "DROP" for place in places)

    def forwarded(self, packet: Packet) -> bool:
        places = (("raw", "PREROUTING"), ("mangle", "PREROUTING"), ("filter", "FORWARD"), ("mangle", "POSTROUTING"))
        return self.run(packet, *places)

    def received(self, packet: Packet) -> bool:
        return self.run(packet, ("raw", "PREROUTING"), ("mangle", "PREROUTING"), ("filter", "INPUT"))

    def sent(self, packet: Packet) -> bool:
        return self.run(packet, ("raw", "OUTPUT"), ("filter", "OUTPUT"), ("mangle", "POSTROUTING"))

    # --- chains

    def _chain(self, place: tuple[str, str], packet: Packet) -> str:
        """Return "ACCEPT", "DROP" (also for REJECT), or "" if the packet returns from the chain.

        Update the packet's mark, state and log. Raise AssertionError for a target that is not supported, a log prefix
        of more than 63 characters, and CT outside table raw or without --notrack.
        """
        for rule in self.chains[place]:
            if not all(condition(packet) for condition in rule.conditions):
                continue
            if rule.target in ("ACCEPT", "DROP"):
                return rule.target
            if rule.target == "REJECT":
                return "DROP"
            if rule.target == "RETURN":
                return ""
            if rule.target.startswith("cali-"):
                verdict = self._chain((place[0], rule.target), packet)
                if verdict or rule.verb == "-g":
                    return verdict
            elif rule.target == "MARK":
                value, mask = (int(number, 16) for number in rule.words[1].split("/"))
                packet.mark = (packet.mark & ~mask & 0xFFFFFFFF) ^ value
            elif rule.target == "NFLOG":
                prefix = rule.words[rule.words.index("--nflog-prefix") + 1]
                assert len(prefix) <= 63
                packet.log.append(prefix)
            elif rule.target == "CT":
                assert place[0] == "raw" and rule.words == ("--notrack",)
                packet.state = "UNTRACKED"
            else:
                raise AssertionError(rule)
        return ""

    # --- texts to conditions

    def _parsed(self, text: str) -> Rule:
        words = shlex.split(text)
        conditions: list[Condition] = []
        protocol: t.Optional[int] = None
        negated = False
        matches: set[str] = set()
        once: set[str] = set()
        while words[0] not in ("-j", "-g"):
            word = words.pop(0)
            if word == "!":
                negated = True
                continue
            if word == "-m":
                matches.add(words.pop(0))
                continue
            assert word not in once, f"{word} twice in {text}"
            if len(word) == 2:
                once.add(word)
            found: t.Optional[Condition] = None
            if word == "-p":
                number = NUMBERS.get(words[0]) or int(words[0])
                protocol = None if negated else number
                found = functools.partial(_is, "protocol", number)
            elif word in ("-s", "-d"):
                assert not words[0].endswith("/0")
                net = ipaddress.ip_network(words[0])
                assert net.version == self.family, f"iptables-restore refuses {text}"
                found = functools.partial(_in_net, word, net)
            elif word in ("-i", "-o"):
                found = functools.partial(_by, word, words[0])
            elif word in ("--sport", "--dport", "--sports", "--dports"):
                assert protocol in WITH_PORTS
                assert word.endswith("s") or {6: "tcp", 17: "udp"}[protocol] in matches
                ranges = [tuple(map(int, part.split(":"))) for part in words[0].split(",")]
                assert sum(map(len, ranges)) <= 15
                found = functools.partial(_port, word[2] == "s", [(one[0], one[-1]) for one in ranges])
            elif word in ("--icmp-type", "--icmpv6-type"):
                assert protocol == (1 if word == "--icmp-type" else 58)
                found = functools.partial(_message, *map(int, words[0].split("/")))
            elif word == "--match-set":
                found = functools.partial(self.sets[words.pop(0)].has, words[0])
            elif word == "--mark":
                value, mask = (int(number, 16) for number in words[0].split("/"))
                found = functools.partial(_marked, value, mask)
            elif word == "--ctstate":
                found = functools.partial(_state, words[0].split(","))
            elif word in ("--dst-type", "--src-type"):
                assert words[0] == "LOCAL"
                found = functools.partial(_is, "source_is_local" if word[2] == "s" else "destination_is_local", True)
            elif word == "--invert":
                assert "rpfilter" in matches
                conditions.append(functools.partial(_is, "spoofed", True))
                continue
            elif word == "--validmark":
                continue
            elif word not in ("--comment", "--limit", "--limit-burst"):  # no test exceeds a limit
                raise AssertionError(f"{word} in {text}")
            words.pop(0)
            if found is not None:
                conditions.append(functools.partial(_not, found) if negated else found)
            negated = False
        return Rule(tuple(conditions), words[0], words[1], tuple(words[2:]))


def _not(condition: Condition, packet: Packet) -> bool:
    return not condition(packet)


def _is(attribute: str, value: object, packet: Packet) -> bool:
    return bool(getattr(packet, attribute) == value)


@functools.lru_cache(maxsize=65536)
def _address(text: str) -> t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]:
    return ipaddress.ip_address(text)


def _in_net(side: str, net: t.Any, packet: Packet) -> bool:
    return _address(packet.source if side == "-s" else packet.destination) in net


def _by(side: str, interface: str, packet: Packet) -> bool:
    name = packet.comes_in_by if side == "-i" else packet.goes_out_by
    return name.startswith(interface[:-1]) if interface.endswith("+") else name == interface


def _port(source: bool, ranges: list[tuple[int, int]], packet: Packet) -> bool:
    port = packet.source_port if source else packet.destination_port
    return port is not None and any(first <= port <= last for first, last in ranges)


def _message(*args: t.Any) -> bool:
    *numbers, packet = args
    return packet.icmp_type == numbers[0] and (len(numbers) == 1 or packet.icmp_code == numbers[1])


def _marked(value: int, mask: int, packet: Packet) -> bool:
    return packet.mark & mask == value


def _state(states: list[str], packet: Packet) -> bool:
    return packet.state in states or ("DNAT" in states and packet.dnat)


class Members:
    """The members of an IP set, for the match `-m set`.

    The constructor raises AssertionError or ValueError for a name, an IP version or a prefix length that the kernel
    would refuse, and AssertionError if the members are not sorted, or one is there twice.
    """

    def __init__(self, ipset: PolicyIpSet) -> None:
        assert len(ipset.name) <= 31
        assert list(ipset.members) == sorted(set(ipset.members))
        self.type = ipset.type
        self.members = frozenset(ipset.members)
        self.nets = [ipaddress.ip_network(member) for member in ipset.members] if ipset.type == "hash:net" else []
        assert all(net.prefixlen for net in self.nets)
        assert all((":" in member) == (ipset.family == "inet6") for member in map(_first, ipset.members))

    def has(self, sides: str, packet: Packet) -> bool:
        first = sides.split(",")[0]
        source = first == "src"
        address = packet.source if source else packet.destination
        if self.type == "hash:net":
            assert sides in ("src", "dst")
            return any(_address(address) in net for net in self.nets)
        assert sides in ("src,src", "dst,dst")
        if self.type == "hash:net,iface":
            return f"{address},{packet.comes_in_by if source else packet.goes_out_by}" in self.members
        port = packet.source_port if source else packet.destination_port
        protocol = SET_PROTOCOLS.get(packet.protocol)
        return protocol is not None and f"{address},{protocol}:{port}" in self.members


def _first(member: str) -> str:
    return member.split(",")[0]
