# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compiler of a node's policy to iptables chains and IP sets of one IP version."""

from __future__ import annotations

import copy
import typing as t

from ...base.result_cache import ResultCache
from ..node_policy import LocalEndpoint, NodePolicy
from ..sets.ip_sets import PolicyIpSet, is_of
from . import filter_table
from .node_chains import ChainCache, NodeChains, member_sets, sorted_out
from .raw_and_mangle import mangle_table, raw_table
from .rules.marks import marks
from .settings import ChainSettings
from .tables import Table, Tables
from .workload_groups import Group, Groups


class Compiler:
    """A compiler for IP version 4 or 6 that reuses results of its last compilation.

    Sets and chains are the same objects as before if they were made from equal values. Workloads that join or leave a
    group that keeps other members change only sets, and then no chain is compiled, unless workloads may send from any
    address. The constructor raises ValueError if the mark mask has fewer than five bits.
    """

    def __init__(self, settings: ChainSettings, family: int) -> None:
        self.settings = settings
        self.family = family
        self._marks = marks(settings.mark_mask)
        self._groups = Groups()
        self._chains, self._sets = ChainCache(), ResultCache[str, t.Any, PolicyIpSet]()
        self._made_of: t.Any = None  # what the present chains were made from; None before them and after an error
        self._tables: t.Mapping[str, Table] = {}
        self._nets: tuple[PolicyIpSet, ...] = ()

    def copy(self) -> Compiler:
        made = copy.copy(self)
        made._groups = copy.copy(self._groups)
        made._chains, made._sets = self._chains.copy(), self._sets.copy()
        return made

    def compile(self, node: NodePolicy) -> Tables:
        """Return the tables and sets for a node's policy in the compiler's IP version.

        Of several workloads, or several host endpoints, on one interface, only the first counts. Raise KeyError if the
        chains need a policy that `node` does not have, and ValueError for a protocol name that model.PROTOCOL_NUMBERS
        lacks.
        """
        hosts, workloads = sorted_out(node.endpoints)
        # A workload without an address of this family is in no set, so it needs no group and no chains.
        here = [one for one in workloads if any(is_of(self.family, address) for address in one.endpoint.addresses)]
        groups = self._groups.of(here)
        # If workloads may send from any address, the chains have a rule for each interface.
        routing = [one.interface for one in here] if self.settings.workload_source_spoofing else []
        made_of = list(groups), hosts, node.policies, node.profiles, routing
        if made_of != self._made_of:
            self._made_of = None
            self._make_chains(node, hosts, groups)
            self._made_of = made_of
        sets = {one.name: one for one in self._nets}
        sets.update(member_sets(node, groups, self.family, self._sets))
        return Tables(self.family, self._tables, tuple(sets[name] for name in sorted(sets)))

    def _make_chains(self, node: NodePolicy, hosts: t.Sequence[LocalEndpoint], groups: t.Mapping[str, Group]) -> None:
        chains = NodeChains(node, hosts, groups, self.settings, self._marks, self.family, self._chains)
        tables = [table(chains) for table in (raw_table, mangle_table, filter_table.table)]
        self._tables = {table.name: table for table in tables if table.hooks}
        self._nets = chains.sets()
