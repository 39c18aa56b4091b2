# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of iptables-save as values, and the mark by which we recognize our rules.

The kernel does not return rules in the form in which they were written, so their texts are never compared. Each of our
rules carries a comment with a hash of its chain and itself. The hashes of a chain in their order identify its content.
(Felix also hashes the rules before each rule, so that one rule inserted at the beginning changes all hashes behind it.)
The comment begins with another word than a real Calico's, which finds its own rules by `cali:`.

One part of a text is compared: the target, which iptables-save prints as it was written. A rule keeps its comment when
its chain is renamed (`iptables -E`), and where somebody edits saved rules and restores them.
"""

from __future__ import annotations

import base64
import hashlib
import re
import types
import typing as t

PREFIX = "cali-"
COMMENT = "host-routing:"

_LINE = re.compile(r"[^\n]+")
_HASH = re.compile(r'--comment "?' + COMMENT + r"([A-Za-z0-9_-]{16})")
_COMMENTED = re.compile(r'-m comment --comment "?' + COMMENT + r'[A-Za-z0-9_-]{16}"? ?')
_TARGET = re.compile(r"(?<!\S)-[jg] \S+")


class TablePlace(t.NamedTuple):
    """A table and the program that writes it: iptables, ip6tables, or one of another backend (ip6tables-legacy)."""

    program: str
    table: str


class SavedRule(t.NamedTuple):
    hash: str  # in our comment; "" for a rule without one
    text: str  # as iptables-save prints it, without -A and the chain


#: The chains of a table, {chain: its rules in their order}; also those that are not ours.
Chains = dict[str, tuple[SavedRule, ...]]


class Saved(t.NamedTuple):
    """The tables that iptables-save prints, and {table: message} for those that it cannot read (`incompatible`)."""

    tables: dict[str, Chains]
    incompatible: dict[str, str]


def hashes(
    chain: str, rules: t.Iterable[str], known: t.Mapping[str, str] = types.MappingProxyType({})
) -> tuple[str, ...]:
    """Return one hash per rule, of 16 characters, over the chain's name and the rule; `known` has some by rule."""
    start = hashlib.sha224(chain.encode("utf-8", "surrogatepass") + b" ")
    found = []
    for rule in rules:
        if rule in known:
            found.append(known[rule])
            continue
        state = start.copy()
        state.update(rule.encode("utf-8", "surrogatepass"))
        found.append(base64.urlsafe_b64encode(state.digest()[:12]).decode())
    return tuple(found)


def commented(digest: str, rule: str) -> str:
    """Return the rule with the comment that carries its hash.

    The comment comes last: the kernel checks the matches of a rule in order for every packet, and a comment is one.
    """
    return f'{rule} -m comment --comment "{COMMENT}{digest}"'


def bare(text: str) -> str:
    """Return the rule without our comment, if it has one, and without white space at its end."""
    return _COMMENTED.sub("", text, count=1).rstrip()


def as_ours(have: tuple[SavedRule, ...], wanted: t.Iterable[tuple[str, str]]) -> tuple[SavedRule, ...]:
    """Return the saved rules `have`; one whose target is not that of the desired rule with its hash has no hash there.

    `wanted` are the desired rules of the chain, each as (hash, rule). The result is `have` itself if no rule differs.
    """
    texts = dict(wanted)
    altered = {rule for rule in have if rule.hash in texts and not _has_target(rule.text, texts[rule.hash])}
    return tuple(rule._replace(hash="") if rule in altered else rule for rule in have) if altered else have


def _has_target(saved: str, wanted: str) -> bool:
    if saved is wanted:
        return True  # as ComparedChains.written leaves it
    one, other = _TARGET.search(saved), _TARGET.search(wanted)
    return (one and one[0]) == (other and other[0])


def parse(output: str) -> Saved:
    """Return the tables in iptables-save's output, of any number of tables, and its messages about unreadable ones.

    Raise KeyError for a rule of a chain that its table does not declare before it, and ValueError for a rule or a chain
    with nothing behind the chain's name.
    """
    tables: dict[str, dict[str, list[SavedRule]]] = {}
    incompatible: dict[str, str] = {}
    current: dict[str, list[SavedRule]] = {}
    search = _HASH.search
    # A list of 30,000 lines would take as much memory as the output.
    for match in _LINE.finditer(output):
        line = match[0]
        if line.startswith("-A "):
            end = line.index(" ", 3)
            found = search(line)
            current[line[3:end]].append(SavedRule(found.group(1) if found else "", line[end + 1 :]))
        elif line.startswith(":"):
            current.setdefault(line[1 : line.index(" ")], [])
        elif line.startswith("*"):
            current = tables.setdefault(line[1:].strip(), {})
        elif line.startswith("#") and "is incompatible" in line:
            incompatible[line.split("`")[-1].split("'")[0]] = line.strip("# .")
    return Saved(
        {name: {chain: tuple(rules) for chain, rules in chains.items()} for name, chains in tables.items()},
        incompatible,
    )


class _Compared(t.NamedTuple):
    """A chain that was compared: its desired rules with their hashes, and `equal`, its saved rules if they are those.

    `equal` is None if the chain was missing or had other rules.
    """

    rules: tuple[str, ...]
    hashes: tuple[str, ...]
    equal: t.Optional[tuple[SavedRule, ...]]


class Different(t.NamedTuple):
    """A chain that differs: the hashes of its desired rules, and its own as `as_ours` returns them, None without it."""

    hashes: tuple[str, ...]
    have: t.Optional[tuple[SavedRule, ...]]


class ComparedChains:
    """The chains of the last comparison, so that the next one need not compare or hash what has not changed.

    A chain is recognized by its objects: the same tuple of desired rules, and the same tuple of saved ones.
    """

    def __init__(self) -> None:
        self._compared: dict[TablePlace, dict[str, _Compared]] = {}
        self._equal: dict[TablePlace, tuple[t.Any, t.Optional[Chains]]] = {}  # a desired table, and what equals it

    def is_known_equal(self, place: TablePlace, desired: object, have: t.Optional[Chains]) -> bool:
        """Return whether these objects are those of the last `note_equal` for this place; None stands for no table."""
        known = self._equal.get(place)
        return known is not None and known[0] is desired and known[1] is have

    def note_equal(self, place: TablePlace, desired: object, have: t.Optional[Chains]) -> None:
        """Record that a comparison of this desired table with these saved chains has found no difference."""
        self._equal[place] = desired, have

    def maybe_different(self, place: TablePlace, desired: t.Mapping[str, tuple[str, ...]], have: Chains) -> list[str]:
        """Return the chains of `desired` that are not known to have their desired rules in `have`."""
        compared = self._compared.get(place, {})
        return [
            chain
            for chain, rules in desired.items()
            if (one := compared.get(chain)) is None
            or one.rules is not rules
            or one.equal is None
            or one.equal is not have.get(chain)
        ]

    def hashes(self, place: TablePlace, chain: str, rules: tuple[str, ...]) -> tuple[str, ...]:
        """Return the hashes of a chain's desired rules."""
        one = self._compared.get(place, {}).get(chain)
        if one is None:
            return hashes(chain, rules)
        return one.hashes if one.rules is rules else hashes(chain, rules, dict(zip(one.rules, one.hashes)))

    def compare(
        self,
        place: TablePlace,
        chain: str,
        rules: tuple[str, ...],
        have: t.Optional[tuple[SavedRule, ...]],
        ordered: bool = True,
    ) -> t.Optional[Different]:
        """Return how a chain differs from its desired rules, None if it has these.

        If it is not `ordered`, the same rules in another order are equal.
        """
        wanted = self.hashes(place, chain, rules)
        ours = as_ours(have, zip(wanted, rules)) if have is not None else None
        found = tuple([rule.hash for rule in ours or ()])
        same = have is not None and found == wanted
        if have is not None and not same and not ordered:
            same = len(found) == len(wanted) and set(found) == set(wanted)  # desired rules differ from each other
        # The strings of `found` are those of `have`: no others are kept.
        self._compared.setdefault(place, {})[chain] = _Compared(
            rules, found if found == wanted else wanted, have if same else None
        )
        return None if same else Different(wanted, ours)

    def written(self, tables: t.Mapping[TablePlace, Chains]) -> dict[TablePlace, Chains]:
        """Return the saved `tables` with the texts of the desired rules, which are in memory already, where known."""
        found = {
            place: {chain: self._written(place, chain, rules) for chain, rules in chains.items()}
            for place, chains in tables.items()
        }
        for place, (desired, have) in self._equal.items():
            if have is tables.get(place):
                self._equal[place] = desired, found.get(place)
        return found

    def _written(self, place: TablePlace, chain: str, have: tuple[SavedRule, ...]) -> tuple[SavedRule, ...]:
        compared = self._compared.get(place, {})
        one = compared.get(chain)
        if one is None or one.equal is not have:
            return have
        rules = dict(zip(one.hashes, one.rules))
        same = tuple([SavedRule(rule.hash, rules[rule.hash]) for rule in have])  # in the order of the kernel
        compared[chain] = one._replace(equal=same)
        return same

    def keep_tables(self, places: t.Container[TablePlace], tables: t.Mapping[TablePlace, Chains]) -> None:
        """Forget what was compared of tables that are not in `places`, except for chains that the kernel still has."""
        self._equal = {place: equal for place, equal in self._equal.items() if place in places or equal[0] is None}
        for place in list(self._compared):
            if place not in places:
                left = tables.get(place, {}).keys() & self._compared[place].keys()
                self.keep(place, left)
                if not left:
                    del self._compared[place]

    def forget(self, place: TablePlace, chain: str) -> None:
        """Forget what was compared of a chain, which was deleted."""
        self._compared.get(place, {}).pop(chain, None)
        self._equal.pop(place, None)

    def keep(self, place: TablePlace, chains: t.Collection[str]) -> None:
        """Forget what was compared of other chains of this table."""
        compared = self._compared.get(place, {})
        if len(compared) > len(chains):
            self._compared[place] = {chain: one for chain, one in compared.items() if chain in chains}
