# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's policy compiled once, without a cache."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.compile import Compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.tables import Tables
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.node_policy import NodePolicy


def compile_node(node: NodePolicy, settings: ChainSettings, family: int) -> Tables:
    """Return the tables and sets of a node's policy in IP version `family`."""
    return Compiler(settings, family).compile(node)
