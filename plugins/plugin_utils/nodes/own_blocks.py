# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blocks that the lockfile assigns to each node: a node's answer is trusted only about addresses in them."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ..sources import inventory_source, lockfile_store


def of_lockfile(task_vars: t.Mapping[str, t.Any]) -> dict[str, tuple[str, ...]]:
    """Return a mapping from node to its blocks (CIDRs) in the lockfile, spare ones included.

    Raise FleetError if the lockfile is missing, or if it or a variable of the inventory cannot be read or is invalid.
    """
    chosen = variables.of_fleet(inventory_source.hosts(task_vars), "calico_lockfile")
    path = lockfile_store.path_for(chosen, task_vars)
    plan = lockfile_store.read(path)
    if plan is None:
        raise FleetError(
            "lockfile",
            path,
            "does not exist: without it nobody can tell whether the addresses that a node tells of are its own.",
            "Restore it from version control, or run playbooks/site.yml, which writes it. No node was told anything.",
        )
    return {
        name: tuple(grant.cidr for grant in (*part.blocks, *part.spare_blocks)) for name, part in plan.nodes.items()
    }
