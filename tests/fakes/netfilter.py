# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iptables and ipset of a FakeKernel: both backends, both IP versions, and the programs' answers to bad input.

The tables of nft are transactions with a generation. Sets are not: `ipset restore` stops at a refused line, and the
lines before it have taken effect. Rules are returned as iptables-save prints them, which is not always as written.
"""

from __future__ import annotations

import functools
import ipaddress
import itertools
import re
import socket
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import Completed

_BUILTIN = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "raw": ("PREROUTING", "OUTPUT"),
}
_TARGETS = {
    "ACCEPT", "DROP", "RETURN", "MASQUERADE", "SNAT", "DNAT", "MARK", "CONNMARK", "NOTRACK", "CT", "LOG", "NFLOG",
    "REJECT", "TCPMSS",
}  # fmt: skip
_PROGRAM = re.compile(r"(ip6?tables)(?:-(nft|legacy))?(?:-(save|restore))?")
_DEFAULT_MAXELEM = 65536
_made = itertools.count(1)

PROGRAMS = frozenset(
    ["ipset"]
    + [
        f"{family}{backend}{verb}"
        for family in ("iptables", "ip6tables")
        for backend in ("", "-nft", "-legacy")
        for verb in ("", "-save", "-restore")
    ]
)

#: {table: {chain: rules}}
Tables = dict[str, dict[str, list[str]]]


class _Refused(Exception):
    """A refused line.

    `late` is False if a restore stops at the line, and True if it reads on and fails at COMMIT (legacy) or at the end
    of its input (nft).
    """

    def __init__(self, words: str, late: bool = False) -> None:
        super().__init__(words)
        self.late = late


class FakeSet(t.NamedTuple):
    type: str
    family: str
    maxelem: int
    members: dict[str, None]
    made: int = 0  # a number that no other set has


class FakeNetfilter:
    """The rules and sets of one network namespace.

    `default` is the backend of programs without a suffix, such as `iptables`: "nft" or "legacy". `default6` is that of
    `ip6tables...` where it is another one. `generation` starts at 1 and grows by 1 with each successful restore of the
    nft backend that has more than two lines.
    """

    def __init__(self) -> None:
        self.default = "nft"
        self.default6: t.Optional[str] = None
        self.generation = 1
        #: {generation: (IP version, table, chain) of each chain that its restore changed; chain "" for a new table}
        self.changes: dict[int, frozenset[tuple[int, str, str]]] = {}
        self.tables: dict[tuple[str, str], Tables] = {
            (backend, program): {} for backend in ("nft", "legacy") for program in ("iptables", "ip6tables")
        }
        self.sets: dict[str, FakeSet] = {}

    def snapshot(self) -> dict[str, t.Any]:
        """Return {"tables": ..., "sets": ...}: a copy of all tables and sets that can be compared with `==`.

        "tables" maps "backend program table", such as "nft iptables filter", to a mapping from chain to rules. "sets"
        maps a name to (type, family, maxelem, sorted members).
        """
        return {
            "tables": {
                f"{backend} {program} {name}": chains
                for (backend, program), tables in self.tables.items()
                for name, chains in _copy(tables).items()
            },
            "sets": {
                name: (found.type, found.family, found.maxelem, sorted(found.members))
                for name, found in self.sets.items()
            },
        }

    def backend(self, program: str) -> str:
        """Return the backend of the program of this name, "" for a program that is not one of iptables."""
        found = _PROGRAM.fullmatch(program)
        if found is None:
            return ""
        return found.group(2) or ((found.group(1) == "ip6tables" and self.default6) or self.default)

    def legacy_sizes(self) -> t.Hashable:
        """Return (program, table, ((chain, number of its rules), ...)) for each table of the legacy backend."""
        return tuple(
            (program, table, tuple((chain, len(rules)) for chain, rules in sorted(chains.items())))
            for (backend, program), tables in sorted(self.tables.items())
            for table, chains in sorted(tables.items())
            if backend == "legacy"
        )

    def run(self, argv: t.Sequence[str], stdin: str, written: t.Callable[[], None]) -> t.Optional[Completed]:
        """Return the result of a save, a restore, ipset, or `iptables...` with -V or -t TABLE -S CHAIN, else None.

        Input that is refused raises nothing: the result has a code other than 0. A line that lacks a word may raise
        ValueError or IndexError. `written` is called after a restore of tables that succeeded, and after each accepted
        line of ipset other than save.
        """
        if argv[0] == "ipset":
            return self._ipset(argv, stdin, written)
        found = _PROGRAM.fullmatch(argv[0])
        if found is None:
            return None
        backend, verb = self.backend(argv[0]), found.group(3)
        place = backend, found.group(1)
        version = f"v1.8.9 ({'nf_tables' if backend == 'nft' else 'legacy'})"
        if verb is None and argv[1:2] == ["-t"] and argv[3] == "-S":
            return self._listed(place, argv[0], argv[2], argv[4])
        if verb is None:
            return Completed(0, f"{argv[0]} {version}\n", "") if "-V" in argv else None
        if verb == "save":
            chosen = argv[2:] if argv[1:2] == ["-t"] else list(self.tables[place])
            tables = {name: chains for name, chains in self.tables[place].items() if name in chosen}
            return Completed(0, _save(tables, version), "")
        done = self._restore(place, f"{argv[0]} {version}", stdin)
        if done.code == 0:
            written()
        return done

    # ---- iptables

    def _restore(self, place: tuple[str, str], program: str, text: str) -> Completed:
        tables = _copy(self.tables[place])
        current: t.Optional[dict[str, list[str]]] = None
        late = ""
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                if line.startswith("*"):
                    name = line[1:]
                    if name not in _BUILTIN:
                        raise _Refused(f"can't initialize iptables table `{name}'")
                    current = tables.setdefault(name, {chain: [] for chain in _BUILTIN[name]})
                    builtin = _BUILTIN[name]
                elif line == "COMMIT":
                    if current is not None:
                        _check_jumps(current)
                    if late and place[0] == "legacy":
                        return Completed(1, "", f"{program.split()[0]}: line {number} failed\n")
                    current = None
                elif line.startswith(":") and current is not None:
                    chain = line[1:].split()[0]
                    if chain not in builtin:
                        current[chain] = []
                elif line and not line.startswith("#") and current is not None:
                    self._line(current, builtin, name, line)
            except _Refused as refused:
                if not refused.late:
                    return Completed(2, "", f"{program}: {refused}\nError occurred at line: {number}\n")
                chain = line.split()[1]
                late += f"line {number}: RULE_APPEND failed ({refused}): rule in chain {chain}\n"
        if late:
            return Completed(4, "", f"{program}:\n{late}")
        before, self.tables[place] = self.tables[place], tables
        if place[0] == "nft" and text.count("\n") > 2:
            self.generation += 1
            version = 6 if place[1] == "ip6tables" else 4
            self.changes[self.generation] = frozenset(
                (version, name, chain) for name in tables for chain in _changed(before.get(name), tables[name])
            )
        return Completed(0, "", "")

    def _listed(self, place: tuple[str, str], program: str, table: str, chain: str) -> Completed:
        rules = self.tables[place].get(table, {}).get(chain)
        if rules is None:
            return Completed(1, "", f"{program}: No chain/target/match by that name.\n")
        first = f"-P {chain} ACCEPT" if chain in _BUILTIN[table] else f"-N {chain}"
        return Completed(0, "\n".join([first, *(f"-A {chain} {rule}" for rule in rules), ""]), "")

    def _line(self, chains: dict[str, list[str]], builtin: t.Sequence[str], table: str, line: str) -> None:
        command, chain, *words = line.split(None, 2)
        rest = words[0] if words else ""
        if command == "-N":
            if chain in chains:
                raise _Refused("Chain already exists.")
            chains[chain] = []
            return
        if chain not in chains:
            raise _Refused("No chain/target/match by that name.")
        rules = chains[chain]
        if command == "-F":
            rules.clear()
        elif command == "-X":
            if chain in builtin or rules:
                raise _Refused("Directory not empty")
            jump = re.compile(rf"-[jg] {re.escape(chain)}(?: |$)")
            if any(jump.search(rule) for rules in chains.values() for rule in rules):
                raise _Refused("CHAIN_DEL failed (Device or resource busy)")
            del chains[chain]
        elif command in ("-I", "-R") or (command == "-D" and rest.isdigit()):
            found = re.match(r"(\d+)(?: (.*)|$)", rest)
            number, rule = (int(found.group(1)), found.group(2)) if found else (1, rest)
            if not 1 <= number <= len(rules) + (command == "-I"):
                raise _Refused("Index of insertion too big.")
            if command != "-I":
                del rules[number - 1]
            if command != "-D":
                rules.insert(number - 1, self._normal(rule, table))
        elif command == "-A":
            rules.append(self._normal(rest, table))
        elif command == "-D":
            try:
                rules.remove(self._normal(rest, table))
            except ValueError:
                raise _Refused("Bad rule (does a matching rule exist in that chain?).") from None
        else:
            raise _Refused(f"unknown option {command}")

    def _normal(self, rule: str, table: str) -> str:
        """Return a rule as iptables-save prints it: addresses, interfaces and protocol come before all other words.

        A `!` stays before its word. Raise _Refused for a set that does not exist, a port above 65535, TCPMSS without
        `-p tcp`, and MASQUERADE in another table than nat. Nothing else is checked here.
        """
        named = _named(rule)
        for name in named.sets:
            if name not in self.sets:
                raise _Refused(f"Set {name} doesn't exist.")
        for number in named.ports:
            if int(number) > 65535:
                raise _Refused(f"invalid port/service `{number}' specified")
        if ("-j TCPMSS" in rule and "-p tcp" not in rule) or ("-j MASQUERADE" in rule and table != "nat"):
            raise _Refused("Invalid argument", late=True)
        return _ordered(rule)

    # ---- ipset

    def _ipset(self, argv: t.Sequence[str], stdin: str, written: t.Callable[[], None]) -> Completed:
        words = [word for word in argv[1:] if word != "-exist"]
        exist = "-exist" in argv
        if words[0] == "save":
            return Completed(0, self._ipset_save(), "")
        lines = stdin.splitlines() if words[0] == "restore" else [" ".join(words)]
        for number, line in enumerate(lines, start=1):
            try:
                self._ipset_line(line.split(), exist)
            except _Refused as refused:
                where = f"Error in line {number}: " if words[0] == "restore" else ""
                return Completed(1, "", f"ipset v7.17: {where}{refused}\n")
            written()
        return Completed(0, "", "")

    def _ipset_save(self) -> str:
        lines = []
        for name, found in self.sets.items():
            lines.append(f"create {name} {found.type} family {found.family} hashsize 1024 maxelem {found.maxelem}")
            lines += [f"add {name} {member}" for member in found.members]
        return "\n".join(lines) + ("\n" if lines else "")

    def _ipset_line(self, words: list[str], exist: bool) -> None:
        if not words:
            return
        command, name, *rest = words
        exist = exist or "-exist" in rest
        if command == "create":
            self._create(name, rest, exist)
            return
        if name not in self.sets:
            raise _Refused("The set with the given name does not exist")
        found = self.sets[name]
        if command == "add":
            member = _member(rest[0], found)
            if member in found.members:
                if not exist:
                    raise _Refused("Element cannot be added to the set: it's already added")
            elif len(found.members) >= found.maxelem:
                raise _Refused("Hash is full, cannot add more elements")
            found.members[member] = None
        elif command == "del":
            member = _member(rest[0], found)
            if member not in found.members and not exist:
                raise _Refused("Element cannot be deleted from the set: it's not added")
            found.members.pop(member, None)
        elif command == "flush":
            found.members.clear()
        elif command == "swap":
            other = self.sets.get(rest[0])
            if other is None:
                raise _Refused("The second set with the given name does not exist")
            if (other.type, other.family) != (found.type, found.family):
                raise _Refused("The sets cannot be swapped: their type does not match")
            self.sets[name], self.sets[rest[0]] = other, found
        elif command == "destroy":
            if self._in_use(name):
                raise _Refused("Set cannot be destroyed: it is in use by a kernel component")
            del self.sets[name]
        else:
            raise _Refused(f"unknown command {command}")

    def _create(self, name: str, rest: t.Sequence[str], exist: bool) -> None:
        if not rest or not rest[0].startswith("hash:"):
            raise _Refused("Syntax error: unknown settype")
        if len(name) > 31:
            raise _Refused(f"Syntax error: setname '{name}' is longer than 31 characters")
        options = dict(zip(rest[1::2], rest[2::2]))
        made = FakeSet(
            rest[0], options.get("family", "inet"), int(options.get("maxelem", _DEFAULT_MAXELEM)), {}, next(_made)
        )
        found = self.sets.get(name)
        if found is None:
            self.sets[name] = made
        elif not exist or found[:3] != made[:3]:
            raise _Refused("Set cannot be created: set with the same name already exists")

    def _in_use(self, name: str) -> bool:
        return any(
            f"--match-set {name} " in rule
            for tables in self.tables.values()
            for chains in tables.values()
            for rules in chains.values()
            for rule in rules
        )


@functools.lru_cache(maxsize=1 << 16)
def _ordered(rule: str) -> str:
    """Return a rule with addresses, interfaces and protocol before all other words, each with the `!` before it."""
    words = rule.split()
    first: list[str] = []
    rest: list[str] = []
    while words:
        inverted = words[0] == "!"
        if words[inverted:][:1] and words[inverted] in ("-s", "-d", "-i", "-o", "-p") and len(words) > 1 + inverted:
            first += words[: 2 + inverted]
            words = words[2 + inverted :]
        else:
            rest.append(words.pop(0))
    return " ".join(first + rest)


def _changed(before: t.Optional[t.Mapping[str, list[str]]], after: t.Mapping[str, list[str]]) -> set[str]:
    """Return the chains that differ; {""} for a new table."""
    if before is None:
        return {""}
    return {chain for chain in {*before, *after} if before.get(chain) != after.get(chain)}


def _copy(tables: Tables) -> Tables:
    return {name: {chain: list(rules) for chain, rules in chains.items()} for name, chains in tables.items()}


def _member(text: str, into: FakeSet) -> str:
    """Return a member as `ipset save` prints it.

    Raise _Refused for an invalid address, one of the other family, prefix length 0, and, in a hash:ip,port, a member
    without a port or with an unknown protocol.
    """
    address, comma, rest = text.partition(",")
    try:
        network = ipaddress.ip_network(address, strict=False)
    except ValueError:
        raise _Refused(f"Syntax error: cannot parse {address}: resolving failed") from None
    if (network.version == 6) != (into.family == "inet6"):
        raise _Refused(f"Syntax error: cannot parse {address}: it is not of family {into.family}")
    if network.prefixlen == 0:
        raise _Refused("The value of the CIDR parameter of the IP address is invalid")
    if into.type == "hash:ip,port" and not comma:
        raise _Refused("Syntax error: Second element is missing from " + text)
    if into.type == "hash:ip,port" and rest.partition(":")[0] not in ("tcp", "udp", "sctp", "udplite", "icmp"):
        raise _Refused(f"Syntax error: cannot parse '{rest.partition(':')[0]}' as a protocol")
    shown = socket.inet_ntop(
        socket.AF_INET6 if network.version == 6 else socket.AF_INET, network.network_address.packed
    )
    if network.prefixlen != network.max_prefixlen:
        shown += f"/{network.prefixlen}"
    return shown + comma + rest


def _save(tables: Tables, version: str) -> str:
    lines = []
    for table, chains in tables.items():
        lines += [f"# Generated by iptables-save {version}", f"*{table}"]
        lines += [f":{chain} {'ACCEPT' if chain in _BUILTIN[table] else '-'} [0:0]" for chain in chains]
        lines += [f"-A {chain} {rule}" for chain, rules in chains.items() for rule in rules]
        lines += ["COMMIT", "# Completed"]
    return "\n".join(lines) + "\n"


class _Named(t.NamedTuple):
    """What a rule names: IP sets, single ports as texts, and the chain or target that it leads to, "" for none."""

    sets: tuple[str, ...]
    ports: tuple[str, ...]
    target: str


@functools.lru_cache(maxsize=1 << 14)  # A test writes the same rules again and again.
def _named(rule: str) -> _Named:
    target = re.search(r"-[jg] (\S+)", rule)
    return _Named(
        tuple(re.findall(r"--match-set (\S+)", rule)),
        tuple(re.findall(r"--[sd]port (\d+)", rule)),
        target.group(1) if target else "",
    )


def _check_jumps(chains: dict[str, list[str]]) -> None:
    for rules in chains.values():
        for rule in rules:
            target = _named(rule).target
            if target and target not in chains and target not in _TARGETS:
                raise _Refused(f"Couldn't load target `{target}':No such file or directory")
