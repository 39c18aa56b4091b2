# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a compilation: for each iptables table, our chains and the rules that lead to them."""

from __future__ import annotations

import dataclasses
import typing as t

from ..sets.ip_sets import PolicyIpSet
from .rules.rule import IptablesRule

RAW, MANGLE, FILTER = "raw", "mangle", "filter"


class HookRule(t.NamedTuple):
    """A rule of ours in a built-in chain of the kernel: first in it, or with `last` at its end."""

    chain: str
    rule: IptablesRule
    last: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """An iptables table: our rules in it. `chains` are exactly those of ours that can be reached from `hooks`.

    Their rules are texts, as `IptablesRule.render` returns them: of thousands of rules nothing else needs to stay in
    memory. `titles` names the policy or profile of a chain: {"cali-pi-default/web": "NetworkPolicy default/web,
    ingress"}.
    """

    name: str
    chains: t.Mapping[str, tuple[str, ...]]
    hooks: tuple[HookRule, ...]
    titles: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


class Chain(t.NamedTuple):
    """A chain of ours: its rules as texts, the names of our chains they lead to, and the sets for CIDRs in them."""

    rules: tuple[str, ...]
    targets: tuple[str, ...]
    sets: tuple[PolicyIpSet, ...] = ()


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


def chain_of(rules: tuple[IptablesRule, ...], sets: tuple[PolicyIpSet, ...] = ()) -> Chain:
    """Return the chain with these rules; `sets` are those for the lists of CIDRs in them."""
    return Chain(tuple([rule.render() for rule in rules]), targets(rules), sets)


def reachable(hooks: t.Iterable[HookRule], chain: t.Callable[[str], Chain]) -> dict[str, Chain]:
    """Return {name: chain} of all chains that `hooks` lead to, directly or not, sorted by name."""
    found: dict[str, Chain] = {}
    waiting = list(targets(hook.rule for hook in hooks))
    while waiting:
        name = waiting.pop()
        if name not in found:
            made = found[name] = chain(name)
            waiting += made.targets
    return dict(sorted(found.items()))
