# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a compilation: for each iptables table, our chains and the rules that lead to them."""

from __future__ import annotations

import dataclasses
import typing as t

from ..sets.ip_sets import PolicyIpSet
from .rules.rule import Chains, IptablesRule

RAW, MANGLE, FILTER = "raw", "mangle", "filter"


class HookRule(t.NamedTuple):
    """A rule of ours in a built-in chain of the kernel: first in it, or with `last` at its end."""

    chain: str
    rule: IptablesRule
    last: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """An iptables table: our rules in it. `chains` are exactly those of ours that can be reached from `hooks`."""

    name: str
    chains: Chains
    hooks: tuple[HookRule, ...]


@dataclasses.dataclass(frozen=True)
class Tables:
    """The tables and sets for IP version `family`, 4 or 6. A table without rules of ours is left out.

    `sets` are sorted by name: all to which the rules refer, except those of fleet/firewall.py.
    """

    family: int
    tables: t.Mapping[str, Table]
    sets: tuple[PolicyIpSet, ...]

    def count(self) -> int:
        """Return the number of rules in all tables, including those in built-in chains."""
        return sum(
            len(table.hooks) + sum(len(rules) for rules in table.chains.values()) for table in self.tables.values()
        )


def targets(rules: t.Iterable[IptablesRule]) -> tuple[str, ...]:
    """Return the names of our chains to which `rules` jump or go, each once, in no particular order."""
    return tuple({target for rule in rules for target in rule.targets()})


def reachable(
    hooks: t.Iterable[HookRule],
    chains: t.Mapping[str, tuple[IptablesRule, ...]],
    other: t.Callable[[str], tuple[IptablesRule, ...]],
    targets_of: t.Callable[[str, tuple[IptablesRule, ...]], tuple[str, ...]],
) -> Chains:
    """Return a mapping from name to rules of all chains that `hooks` lead to, directly or not, sorted by name.

    The rules of a chain are those in `chains`, else `other(name)`. `targets_of(name, rules)` returns the chains to
    which they lead.
    """
    found: dict[str, tuple[IptablesRule, ...]] = {}
    waiting = list(targets(hook.rule for hook in hooks))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = chains[name] if name in chains else other(name)
            waiting += targets_of(name, found[name])
    return dict(sorted(found.items()))
