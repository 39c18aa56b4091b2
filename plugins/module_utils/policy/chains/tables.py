# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a compilation comes to: per table of iptables our chains, and the rules that lead to them from the kernel's."""

from __future__ import annotations

import dataclasses
import typing as t

from ..sets.ip_sets import PolicyIpSet
from .rules.rule import Chains, IptablesRule

RAW, MANGLE, FILTER = "raw", "mangle", "filter"


class HookRule(t.NamedTuple):
    """A rule of ours in a chain of the kernel's: first in it, or with `last` at its end."""

    chain: str
    rule: IptablesRule
    last: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """`chains` are all that can be reached from `hooks`, and no other."""

    name: str
    chains: Chains
    hooks: tuple[HookRule, ...]


@dataclasses.dataclass(frozen=True)
class Tables:
    """For IP version `family`, 4 or 6. A table without hooks is left out: nothing of ours belongs into it. `sets` are
    all that the rules refer to but `all-hosts-net`, which every node has.
    """

    family: int
    tables: t.Mapping[str, Table]
    sets: tuple[PolicyIpSet, ...]

    def count(self) -> int:
        """Rules, those in the kernel's chains included."""
        return sum(
            len(table.hooks) + sum(len(rules) for rules in table.chains.values()) for table in self.tables.values()
        )


def targets(rules: t.Iterable[IptablesRule]) -> tuple[str, ...]:
    """The chains of ours that rules lead to."""
    return tuple({target for rule in rules for target in rule.targets()})


def reachable(
    hooks: t.Iterable[HookRule],
    chains: t.Mapping[str, tuple[IptablesRule, ...]],
    other: t.Callable[[str], tuple[IptablesRule, ...]],
    targets_of: t.Callable[[str, tuple[IptablesRule, ...]], tuple[str, ...]],
) -> Chains:
    """The chains that `hooks` lead to, sorted: from `chains`, and what is not there from `other`. `targets_of` says
    where the rules of a chain lead.
    """
    found: dict[str, tuple[IptablesRule, ...]] = {}
    waiting = list(targets(hook.rule for hook in hooks))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = chains[name] if name in chains else other(name)
            waiting += targets_of(name, found[name])
    return dict(sorted(found.items()))
