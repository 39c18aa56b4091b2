# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run plans from: the hosts of the inventory, its files of resources, its lockfile and its datastore."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.garbage import uncollected
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host, locate
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import Document
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers.observed_nodes import (
    ObservedNodes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.plan_run import FleetRun, plan_run
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.request import Lockfile, RunRequest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ..datastore import access
from ..datastore.access import FleetDatastore
from ..etcd import cluster_members
from . import fleet_documents, lockfile_store


class RunSources(t.NamedTuple):
    """What a run plans from. `hosts` are those of `RunRequest.hosts_of`."""

    hosts: t.Sequence[Host]
    documents: t.Sequence[Document]
    lockfile: Lockfile
    datastore: t.Optional[FleetDatastore]


def read(task_vars: t.Mapping[str, t.Any], request: RunRequest) -> RunSources:
    """Return what the run of this request plans from. No host is asked for what it has.

    Raise FleetError, with known file and line, if a source cannot be read, or if the fleet cannot be as requested.
    """
    merged = fleet_documents.read(task_vars)
    hosts = request.hosts_of(merged.hosts)
    try:
        with uncollected():
            path = lockfile_store.path_for(variables.of_fleet(hosts, "calico_lockfile"), task_vars)
            lockfile = Lockfile(path, lockfile_store.read(path))
            return RunSources(hosts, merged.policies, lockfile, access.of(hosts, task_vars))
    except FleetError as error:
        locate(error, hosts)
        raise


def request(task_vars: t.Mapping[str, t.Any], **asked: t.Any) -> RunRequest:
    """Return the request with the fields `asked`, and those that Ansible's variables tell."""
    return RunRequest(
        play_hosts=tuple(task_vars.get("ansible_play_hosts_all") or ()),
        etcd_members=tuple(cluster_members.host_addresses(task_vars)),
        **asked,
    )


def planned(task_vars: t.Mapping[str, t.Any], answers: t.Optional[ObservedNodes] = None, **asked: t.Any) -> FleetRun:
    """Return the plan of a run with these answers of nodes; without them no node is asked. No file is written.

    `asked` are fields of RunRequest. Raise FleetError and warn as `read` and `plan_run`.
    """
    wanted = request(task_vars, nodes_asked=answers is not None, **asked)
    found = read(task_vars, wanted)
    return plan_run(found.hosts, found.documents, found.lockfile, answers or ObservedNodes(), wanted)
