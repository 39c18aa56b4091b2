# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of iptables-save as values, and the mark by which we recognize our rules.

The kernel does not return rules in the form in which they were written, so their texts are never compared. Each of our
rules carries a comment with a hash of its chain and itself. The hashes of a chain in their order identify its content.
(Felix also hashes the rules before each rule, so that one rule inserted at the beginning changes all hashes behind it.)
The comment begins with another word than a real Calico's, which finds its own rules by `cali:`.
"""

from __future__ import annotations

import base64
import hashlib
import re
import typing as t

PREFIX = "cali-"
COMMENT = "host-routing:"

_HASH = re.compile(r'--comment "?' + COMMENT + r"([A-Za-z0-9_-]{16})")
_COMMENTED = re.compile(r'-m comment --comment "?' + COMMENT + r'[A-Za-z0-9_-]{16}"? ?')


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


def hashes(chain: str, rules: t.Iterable[str]) -> tuple[str, ...]:
    """Return one hash per rule, of 16 characters, over the chain's name and the rule."""
    start = hashlib.sha224(chain.encode("utf-8", "surrogatepass") + b" ")
    found = []
    for rule in rules:
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


def parse(output: str) -> Saved:
    """Return the tables in iptables-save's output, of any number of tables, and its messages about unreadable ones.

    Raise KeyError for a rule of a chain that its table does not declare before it, and ValueError for a rule or a chain
    with nothing behind the chain's name.
    """
    tables: dict[str, dict[str, list[SavedRule]]] = {}
    incompatible: dict[str, str] = {}
    current: dict[str, list[SavedRule]] = {}
    search = _HASH.search
    for line in output.splitlines():
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
