# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of the policy compiler as parts of a NodeState: tables of rendered rules, and IP sets."""

from __future__ import annotations

import typing as t

from ..base.result_cache import ResultCache
from ..policy.chains.rules import names
from ..policy.chains.rules.rule import IptablesRule
from ..policy.chains.tables import Tables
from ..policy.model import EGRESS, INGRESS
from ..policy.node_policy import NodePolicy
from .node_state import Hook, IpSet, IptablesTable


class PolicyTables:
    """A renderer that reuses its last results.

    A chain or set that has not changed since the last call is the same object, and so are all tables if `compiled` has
    the same ones. Drivers recognize them by that.
    """

    def __init__(self) -> None:
        self._of_chains, self._of_sets = ResultCache(), ResultCache()
        self._rendered: tuple[list[t.Any], tuple[IptablesTable, ...]] = ([], ())  # compiled tables, rendered tables

    def copy(self) -> PolicyTables:
        made = PolicyTables()
        made._of_chains, made._of_sets, made._rendered = self._of_chains.copy(), self._of_sets.copy(), self._rendered
        return made

    def render(self, node: NodePolicy, compiled: t.Sequence[Tables]) -> tuple[tuple[IptablesTable, ...], list[IpSet]]:
        """Return (iptables tables, IP sets) of `compiled`, the policy of `node` for one or both IP versions."""
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
    """Return titles for the chains of policies and profiles, by chain: `NetworkPolicy default/web, ingress`."""
    titles = {}
    for direction in (INGRESS, EGRESS):
        for policy in node.policies.values():
            titles[names.policy_chain(policy.name, direction)] = f"{policy.kind} {policy.name}, {direction.lower()}"
        for profile in node.profiles.values():
            titles[names.profile_chain(profile.name, direction)] = f"Profile {profile.name}, {direction.lower()}"
    return titles
