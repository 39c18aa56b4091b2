# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results as readers
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import sync_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import run_results


class ActionModule(GuardedAction):
    """The action endpoint_sync_report, which prints a few lines about the workloads that nodes reported to each other.

    The result has the `lines` and the `problems`. With `strict` the task fails if there is a problem.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "asked": {"type": "str", "required": True},
                "taken": {"type": "str", "required": True},
                "datastore": {"type": "bool", "default": False},
                "strict": {"type": "bool", "default": False},
            }
        )
        hosts = list(task_vars.get("ansible_play_hosts_all", []))
        asked = run_results.of_hosts(task_vars, args["asked"], hosts)
        taken = run_results.of_hosts(task_vars, args["taken"], hosts, readers.EXCHANGED)
        lines = sync_lines.lines(hosts, asked, taken, self._task.check_mode, args["datastore"])
        shown_lines.show(lines)
        problems = sync_lines.problems(hosts, asked, taken)
        if problems and args["strict"]:
            count = "1 node is" if len(problems) == 1 else f"{len(problems)} nodes are"
            return {"failed": True, "msg": f"{count} not in step with the others, see above."}
        return {"changed": False, "lines": lines, "problems": problems}
