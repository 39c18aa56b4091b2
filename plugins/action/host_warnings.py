# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results as readers
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import remark_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import run_results


class ActionModule(GuardedAction):
    """The action host_warnings, which warns of what earlier results of all hosts remark, each remark once.

    The task does not fail. A host that failed says its warnings by itself.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec({"results": {"type": "str", "required": True}})
        hosts = list(task_vars.get("ansible_play_hosts_all", []))
        found = run_results.of_hosts(task_vars, args["results"], hosts, readers.REMARKS)
        remarks = {host: answer["remarks"] for host, answer in found.items() if answer.get("remarks")}
        return {"warnings": remark_lines.grouped(remarks)}
