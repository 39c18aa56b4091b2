# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the policy compiler made, as a NodeState says it: tables of rendered rules, and sets."""

from __future__ import annotations

import typing as t

from ..policy.chains.result_cache import ResultCache
from ..policy.chains.rules import names
from ..policy.chains.rules.rule import IptablesRule
from ..policy.chains.tables import Tables
from ..policy.model import EGRESS, INGRESS
from ..policy.node_policy import NodePolicy
from .node_state import Hook, IpSet, IptablesTable


class PolicyTables:
    """Renders again and again: what has not changed since the last time is the same object then, which is how the
    drivers know it."""

    def __init__(self) -> None:
        self._of_chains, self._of_sets = ResultCache(), ResultCache()
        self._rendered: tuple[list[t.Any], tuple[IptablesTable, ...]] = ([], ())  # what of, and the tables

    def render(self, node: NodePolicy, compiled: t.Sequence[Tables]) -> tuple[tuple[IptablesTable, ...], list[IpSet]]:
        """`compiled`: of both families, or one, from `node`."""
        self._of_sets.begin()
        sets = [self._set(found) for one in compiled for found in one.sets]
        return self._all_tables(node, compiled), sets

    def _all_tables(self, node: NodePolicy, compiled: t.Sequence[Tables]) -> tuple[IptablesTable, ...]:
        made_of = [one.tables for one in compiled]
        known, tables = self._rendered
        if len(known) != len(made_of) or any(one is not other for one, other in zip(known, made_of)):
            self._of_chains.begin()
            titles = _titles(node)
            tables = tuple(self._table(one, name, titles) for one in compiled for name in one.tables)
            self._rendered = made_of, tables
        return tables

    def _table(self, compiled: Tables, name: str, titles: t.Mapping[str, str]) -> IptablesTable:
        table = compiled.tables[name]
        chains = {
            chain: self._of_chains.recall((compiled.family, name, chain), rules, lambda: _rendered(rules))  # noqa: B023
            for chain, rules in table.chains.items()
        }
        hooks = tuple(Hook(hook.chain, hook.rule.render(), hook.last) for hook in table.hooks)
        known = {chain: titles[chain] for chain in chains if chain in titles}
        return IptablesTable(name, chains, hooks, compiled.family, known)

    def _set(self, found: t.Any) -> IpSet:
        return self._of_sets.recall(found.name, found, lambda: IpSet(found.name, found.type, found.members))


def _rendered(rules: tuple[IptablesRule, ...]) -> tuple[str, ...]:
    return tuple(rule.render() for rule in rules)


def _titles(node: NodePolicy) -> dict[str, str]:
    """{chain: `NetworkPolicy default/web, ingress`} of policies and profiles."""
    titles = {}
    for direction in (INGRESS, EGRESS):
        for policy in node.policies.values():
            titles[names.policy_chain(policy.name, direction)] = f"{policy.kind} {policy.name}, {direction.lower()}"
        for profile in node.profiles.values():
            titles[names.profile_chain(profile.name, direction)] = f"Profile {profile.name}, {direction.lower()}"
    return titles
