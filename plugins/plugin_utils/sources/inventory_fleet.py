# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet of an inventory and its lockfile. No host is asked for what it has."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.garbage import uncollected
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import Merged

from ..etcd import cluster_members
from . import fleet_documents, lockfile_store


class PlannedFleet(t.NamedTuple):
    """A fleet, the path of its lockfile, whether that exists, and the hosts and documents that it is made of."""

    fleet: Fleet
    lockfile: str
    exists: bool
    sources: Merged


def planned(task_vars: t.Mapping[str, t.Any]) -> Fleet:
    """Return the fleet with the blocks of its lockfile and of a run. Raise FleetError if it cannot be planned."""
    return with_lockfile(task_vars).fleet


def with_lockfile(task_vars: t.Mapping[str, t.Any]) -> PlannedFleet:
    """Return the fleet as `planned` does, with its lockfile. Raise what `planned` raises."""
    return planned_from(fleet_documents.read(task_vars), task_vars)


def planned_from(merged: Merged, task_vars: t.Mapping[str, t.Any]) -> PlannedFleet:
    """Return the fleet of hosts and documents that are read already. Raise what `planned` raises but for reading."""
    hosts = merged.hosts
    with uncollected():
        path = lockfile_store.path_for(variables.of_fleet(hosts, "calico_lockfile"), task_vars)
        previous = lockfile_store.read(path)
        found = inventory.read(hosts, merged.policies, cluster_members.host_addresses(task_vars))
        return PlannedFleet(Fleet.build(found, previous), path, previous is not None, merged)
