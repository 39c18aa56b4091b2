# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What iptables-save prints, as values, and the mark by which we know a rule of ours again.

Rules do not come back from the kernel as they went in, so their texts are never compared. Each carries a comment with a
hash of its chain and itself; the hashes of a chain in their order say all of it. (Felix hashes the rules before it as
well, so that one rule put in front changes all behind it. The order of a list is compared with the list.) The comment
begins with another word than a real Calico's, which finds its own rules by `cali:`.
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
    """A table and the program that writes it: iptables, ip6tables, or of another backend ip6tables-legacy."""

    program: str
    table: str


class SavedRule(t.NamedTuple):
    hash: str  # "" for a rule without our comment
    text: str  # as iptables-save prints it, without -A and the chain


#: {chain: its rules}; of chains that are not ours too
Chains = dict[str, tuple[SavedRule, ...]]


class Saved(t.NamedTuple):
    """`tables` {table: chains}; `incompatible` {table: what the program says of a table that it cannot read}."""

    tables: dict[str, Chains]
    incompatible: dict[str, str]


def hashes(chain: str, rules: t.Iterable[str]) -> tuple[str, ...]:
    """One hash per rule, over the chain's name and the rule."""
    start = hashlib.sha224(chain.encode("utf-8", "surrogatepass") + b" ")
    found = []
    for rule in rules:
        state = start.copy()
        state.update(rule.encode("utf-8", "surrogatepass"))
        found.append(base64.urlsafe_b64encode(state.digest()[:12]).decode())
    return tuple(found)


def commented(digest: str, rule: str) -> str:
    """The comment last: the kernel asks a rule's matches in their order, for every packet, and a comment is one."""
    return f'{rule} -m comment --comment "{COMMENT}{digest}"'


def bare(text: str) -> str:
    """The rule without our comment."""
    return _COMMENTED.sub("", text, count=1).rstrip()


def parse(output: str) -> Saved:
    """`output` is that of iptables-save for any number of tables."""
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
