# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.fleet import (
    fleet_check,
    held_answers,
    published_fleet,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import outcome
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.left_out import LeftOut, sentences
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.answer_action import AnswerAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import access, cluster_calls
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.cluster_calls import (
    DatastoreAway,
    DatastoreRefused,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import own_blocks, run_results
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_source

_FAILURES = (DatastoreAway, DatastoreRefused, FleetError, *published_fleet.FAILURES)


class ActionModule(AnswerAction):
    """The action fleet_ipam_check, which compares what nodes hold with the fleet's datastore, or with its lockfile.

    The task fails if neither can be read. A node without a usable answer is a problem that the result names.
    """

    NEEDS_ALL_HOSTS = True
    OPTIONS = {"asked": {"type": "str", "required": True}, "workloads": {"type": "str", "required": True}}

    def answer(self, task_vars: dict[str, t.Any], args: dict[str, t.Any]) -> tuple[dict[str, t.Any], list[str]]:
        holds, silent, left_out = _answers(task_vars, args)
        source, blocks, published, complaints = _known(task_vars)
        known = fleet_check.FleetKnowledge(
            source, blocks, published, holds, silent, complaints=(*complaints, *sentences(left_out))
        )
        found = fleet_check.check(known).to_dict()
        return found, found["lines"]

    def outcome(self, document: dict[str, t.Any], lines: list[str], args: dict[str, t.Any]) -> dict[str, t.Any]:
        return {"changed": False, "lines": lines, "problems": document["problems"], "answer": document}


def _answers(
    task_vars: dict[str, t.Any], args: t.Mapping[str, t.Any]
) -> tuple[dict[str, fleet_check.NodeHolds], dict[str, str], list[LeftOut]]:
    """Return what the hosts of the play hold, why others gave no usable answer, and what is left out of answers."""
    hosts = list(task_vars.get("ansible_play_hosts_all", []))
    asked, workloads = (run_results.of_hosts(task_vars, args[name], hosts) for name in ("asked", "workloads"))
    holds: dict[str, fleet_check.NodeHolds] = {}
    silent: dict[str, str] = {}
    left_out: list[LeftOut] = []
    for host in hosts:
        both = (asked.get(host), workloads.get(host))
        for one in both:
            # The playbook does not count a failure of these tasks (failed_when: false), which leaves its message alone.
            if host not in silent and (one is None or not outcome.usable(one)):
                silent[host] = outcome.reason(one)
            elif host not in silent and not {"blocks", "endpoints"} & set(one or ()):
                silent[host] = outcome.reason({**(one or {}), "failed": True})
        if host not in silent:
            try:
                holds[host], odd = held_answers.read(host, both[0] or {}, both[1] or {})
            except Unreadable as error:
                silent[host] = f"its answer cannot be used: {error}"
            else:
                left_out += odd
    return holds, silent, left_out


def _known(
    task_vars: dict[str, t.Any],
) -> tuple[str, t.Mapping[str, tuple[str, ...]], t.Optional[dict[str, dict[str, tuple[str, ...]]]], tuple[str, ...]]:
    """Return the source of blocks, the blocks, what nodes have published, and complaints about documents.

    Without a datastore, and of one that cannot be read, the blocks are the lockfile's. Raise FleetError if that cannot
    be read either.
    """
    complaints: tuple[str, ...] = ()
    try:
        datastore = access.of(inventory_source.hosts(task_vars), task_vars)
        if datastore is not None:
            found = cluster_calls.ask(datastore, access.operator(task_vars), published_fleet.listed)
            return "etcd", found.blocks, fleet_check.knowledge_of(found), found.complaints
    except _FAILURES as error:
        complaints = (f"the datastore is not compared, as it cannot be read: {str(error).rstrip('.')}.",)
    return "the lockfile", own_blocks.of_lockfile(task_vars), None, complaints
