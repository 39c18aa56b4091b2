# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compiler: what one node must program, as chains of iptables and IP sets of one IP version. Pure."""

from __future__ import annotations

from ..node_policy import NodePolicy
from . import filter_table, mangle_table, raw_table
from .marks import marks
from .memory import Memory
from .node_chains import NodeChains
from .settings import Settings
from .tables import Tables


class Compiler:
    """Compiles for IP version 4 or 6, again and again: what has not changed since the last time is not made anew, and
    is the same object then.
    """

    def __init__(self, settings: Settings, family: int) -> None:
        """Raises ValueError when the mark mask of `settings` is too narrow."""
        self.settings = settings
        self.family = family
        self._marks = marks(settings.mark_mask)
        self._memory = Memory()

    def compile(self, node: NodePolicy) -> Tables:
        """Raises KeyError when an endpoint names a policy that `node` does not have."""
        self._memory.begin()
        chains = NodeChains(node, self.settings, self._marks, self.family, self._memory)
        tables = [one.table(chains) for one in (raw_table, mangle_table, filter_table)]
        return Tables(self.family, {table.name: table for table in tables if table.hooks}, chains.sets())


def compile_node(node: NodePolicy, settings: Settings, family: int) -> Tables:
    """Once, from nothing. Raises as Compiler does."""
    return Compiler(settings, family).compile(node)
