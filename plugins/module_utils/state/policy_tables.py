# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of the policy compiler as parts of a NodeState: tables of rendered rules, and IP sets."""

from __future__ import annotations

import typing as t

from ..base.result_cache import ResultCache
from ..policy.chains.tables import Table, Tables
from ..policy.sets.ip_sets import PolicyIpSet
from .node_state import Hook, IpSet, IptablesTable


class PolicyTables:
    """A renderer that reuses its last results.

    A chain or set that has not changed since the last call is the same object, and so are all tables if `compiled` has
    the same ones. Drivers recognize them by that.
    """

    def __init__(self) -> None:
        self._sets = ResultCache[str, PolicyIpSet, IpSet]()
        self._rendered: tuple[list[t.Any], tuple[IptablesTable, ...]] = ([], ())  # compiled tables, rendered tables

    def copy(self) -> PolicyTables:
        made = PolicyTables()
        made._sets, made._rendered = self._sets.copy(), self._rendered
        return made

    def render(self, compiled: t.Sequence[Tables]) -> tuple[tuple[IptablesTable, ...], list[IpSet]]:
        """Return (iptables tables, IP sets) of `compiled`, a node's policy for one or both IP versions."""
        sets = self._sets.map({found.name: found for one in compiled for found in one.sets}, _set)
        return self._all_tables(compiled), list(sets.values())

    def _all_tables(self, compiled: t.Sequence[Tables]) -> tuple[IptablesTable, ...]:
        made_of = [one.tables for one in compiled]
        known, tables = self._rendered
        if len(known) != len(made_of) or any(one is not other for one, other in zip(known, made_of)):
            tables = tuple(_table(one.family, table) for one in compiled for table in one.tables.values())
            self._rendered = made_of, tables
        return tables


def _table(family: int, table: Table) -> IptablesTable:
    hooks = tuple(Hook(hook.chain, hook.rule.render(), hook.last) for hook in table.hooks)
    return IptablesTable(table.name, table.chains, hooks, family, table.titles)


def _set(name: str, found: PolicyIpSet) -> IpSet:
    return IpSet(name, found.type, found.members)
