# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import outcome
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results as readers
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import run_results


def _settled(answer: t.Optional[t.Mapping[str, t.Any]]) -> bool:
    """Return whether a host answered, changed nothing, has all sessions and routes, and lost no probe."""
    found = outcome.settled(answer)
    return answer is not None and bool(found) and not answer.get("changed") and not found.get("lost")


class ActionModule(GuardedAction):
    """The action settle_gate: it returns in `ok` whether all hosts of the batch have converged.

    A host has converged if it changed nothing, has all sessions and routes, and lost no probe. The task does not fail.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec({"results": {"type": "str", "required": True}})
        hosts = list(task_vars.get("ansible_play_batch", []))
        results = run_results.of_hosts(task_vars, args["results"], hosts, readers.PLAN)
        return {"ok": all(_settled(results.get(host)) for host in hosts)}
