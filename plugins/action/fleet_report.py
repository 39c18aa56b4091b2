# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Reader
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results as readers
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import untried
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import verdict as path_verdict
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import report_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import run_results
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import targets


class ActionModule(GuardedAction):
    """The action fleet_report, which prints whether the fleet has converged, or in check mode what a run would change.

    The result has the `lines`, `paths`, those that lost probes, and `not_tried`, those that were not tried. A host that
    failed has a line, and does not fail this task. The task fails by the verdict on the paths (fleet/paths/verdict.py).
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "fleet": {"type": "str"},
                "plan": {"type": "str", "required": True},
                "convergence": {"type": "str"},
                "reachability": {"type": "str"},
                "started": {"type": "float"},
                "max_lost_probes": {"type": "int", "default": 0},
            }
        )
        hosts = list(task_vars.get("ansible_play_hosts_all", []))

        def read(name: str, reader: Reader) -> dict[str, t.Mapping[str, t.Any]]:
            return run_results.of_hosts(task_vars, args[name], hosts, reader) if args[name] else {}

        plans = read("plan", readers.PLAN)
        if self._task.check_mode:
            lines = report_lines.plan(hosts, plans)
            if self._task.diff:
                lines += report_lines.new_files(plans)
            shown_lines.show(lines)
            return {"lines": lines}
        # Without results of convergence_info and probe, the hosts were found settled by `node`. Its field `settled`
        # has what both modules would have found.
        settled = {host: plan["settled"] for host, plan in plans.items() if plan.get("settled")}
        convergence = read("convergence", readers.CONVERGENCE) or settled
        reachability = read("reachability", readers.PROBES) or settled
        elapsed = time.time() - args["started"] if args["started"] else None
        fleet = args["fleet"] or ""
        verdict = report_lines.converged(
            hosts,
            plans,
            convergence,
            reachability,
            elapsed,
            targets.members(fleet, task_vars),
            args["max_lost_probes"],
            targets.names(fleet),
        )
        shown_lines.show([*(report_lines.new_files(plans) if self._task.diff else ()), *verdict.lines])
        failure = {"failed": True, "msg": verdict.problem} if verdict.problem else {}
        return {
            "lines": verdict.lines,
            "paths": path_verdict.to_data(verdict.paths),
            "not_tried": untried.to_data(verdict.untried),
            **failure,
        }
