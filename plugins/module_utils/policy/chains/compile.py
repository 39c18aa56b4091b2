# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compiler: what one node must program, as chains of iptables and IP sets of one IP version. Pure."""

from __future__ import annotations

import typing as t

from ..node_policy import LocalEndpoint, NodePolicy
from ..sets.ip_sets import IpSet, is_of
from . import filter_table
from .memory import Memory
from .node_chains import NodeChains, member_sets, sorted_out
from .raw_and_mangle import mangle_table, raw_table
from .rules.marks import marks
from .settings import Settings
from .tables import Table, Tables
from .workload_groups import Group, Groups


class Compiler:
    """Compiles for IP version 4 or 6, again and again: what has not changed since the last time is not made anew, and
    is the same object then. Workloads that come to groups and leave them change sets alone, and cost no more than that.
    """

    def __init__(self, settings: Settings, family: int) -> None:
        """Raises ValueError when the mark mask of `settings` is too narrow."""
        self.settings = settings
        self.family = family
        self._marks = marks(settings.mark_mask)
        self._groups = Groups()
        self._of_chains, self._of_sets = Memory(), Memory()
        self._made_of: t.Any = None  # all that the chains depend on
        self._tables: t.Mapping[str, Table] = {}
        self._nets: tuple[IpSet, ...] = ()

    def compile(self, node: NodePolicy) -> Tables:
        """Raises KeyError when an endpoint names a policy that `node` does not have."""
        hosts, workloads = sorted_out(node.endpoints)
        # Of others nothing could be looked up: their packets of this family find no group, and need no chains.
        here = [one for one in workloads if any(is_of(self.family, address) for address in one.endpoint.addresses)]
        groups = self._groups.of(here)
        # Workloads that route have a rule for each interface.
        routing = [one.interface for one in here] if self.settings.workload_source_spoofing else []
        made_of = list(groups), hosts, node.policies, node.profiles, routing
        if made_of != self._made_of:
            self._made_of = None
            self._make_chains(node, hosts, groups)
            self._made_of = made_of
        self._of_sets.begin()
        sets = {one.name: one for one in self._nets}
        sets.update((one.name, one) for one in member_sets(node, groups, self.family, self._of_sets))
        return Tables(self.family, self._tables, tuple(sets[name] for name in sorted(sets)))

    def _make_chains(self, node: NodePolicy, hosts: t.Sequence[LocalEndpoint], groups: t.Mapping[str, Group]) -> None:
        self._of_chains.begin()
        chains = NodeChains(node, hosts, groups, self.settings, self._marks, self.family, self._of_chains)
        tables = [table(chains) for table in (raw_table, mangle_table, filter_table.table)]
        self._tables = {table.name: table for table in tables if table.hooks}
        self._nets = chains.sets()


def compile_node(node: NodePolicy, settings: Settings, family: int) -> Tables:
    """Once, from nothing. Raises as Compiler does."""
    return Compiler(settings, family).compile(node)
