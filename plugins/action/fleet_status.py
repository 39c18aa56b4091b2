# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results as readers
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines, status_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import run_results
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import given_inventory


class ActionModule(GuardedAction):
    """The action fleet_status, which prints the status of all nodes as one table or as JSON.

    The result has `lines`, `good`, `problems`, `warnings_found` and `nodes`. With `strict` the task fails if there is a
    problem, without these keys; warnings change nothing. It also fails if Ansible could not read a part of the
    inventory.
    """

    _requires_connection = False

    def check(self, task_vars: dict[str, t.Any]) -> None:
        given_inventory.check_parsed(task_vars)

    def act(self, result: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "status": {"type": "str", "required": True},
                "output": {"type": "str", "choices": ["text", "json"], "default": "text"},
                "strict": {"type": "bool", "default": False},
            }
        )
        hosts = list(task_vars.get("ansible_play_hosts_all", []))
        found = run_results.of_hosts(task_vars, args["status"], hosts, readers.status)
        problems, warned = status_lines.problems(hosts, found), status_lines.warnings(hosts, found)
        nodes = {host: status_lines.known(found.get(host)) for host in hosts}
        if args["output"] == "json":
            answer = {"good": not problems, "problems": problems, "warnings": warned, "nodes": nodes}
            lines = json.dumps(answer, indent=2).splitlines()
        else:
            lines = status_lines.text(hosts, found)
        shown_lines.show(lines)
        if problems and args["strict"]:
            # The failure does not repeat the lines that are printed above it.
            count = "1 thing is" if len(problems) == 1 else f"{len(problems)} things are"
            result.update(failed=True, msg=f"{count} not well with the fleet, see above.")
            return result
        result.update(lines=lines, good=not problems, problems=problems, warnings_found=warned, nodes=nodes)
        return result
