# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import report_lines, run_results


class ActionModule(ActionBase):
    """Say in a few lines what a run did to the fleet, or would do; see the module of this name."""

    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: t.Optional[dict[str, t.Any]] = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        dummy, args = self.validate_argument_spec(
            {
                "plan": {"type": "str", "required": True},
                "convergence": {"type": "str"},
                "reachability": {"type": "str"},
                "started": {"type": "float"},
            }
        )
        hosts = list(task_vars.get("ansible_play_hosts_all", []))
        plans = run_results.of_hosts(task_vars, args["plan"], hosts)
        if self._task.check_mode:
            lines = report_lines.plan(hosts, plans)
        else:
            convergence = run_results.of_hosts(task_vars, args["convergence"], hosts) if args["convergence"] else {}
            reachability = run_results.of_hosts(task_vars, args["reachability"], hosts) if args["reachability"] else {}
            elapsed = time.time() - args["started"] if args["started"] else None
            lines = report_lines.converged(hosts, plans, convergence, reachability, elapsed)
        for line in lines:
            Display().display(line)
        result["lines"] = lines
        return result
