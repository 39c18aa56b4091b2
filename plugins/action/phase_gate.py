# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import (
    lockfile_store,
    phase_lines,
    run_results,
    targets,
)


class ActionModule(ActionBase):
    """Hold the fleet at a barrier and say in one line what the phase did; see the module of this name."""

    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: t.Optional[dict[str, t.Any]] = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        dummy, args = self.validate_argument_spec(
            {
                "fleet": {"type": "str", "required": True},
                "phase": {"type": "str", "required": True},
                "results": {"type": "str", "required": True},
                "failed": {"type": "list", "elements": "str", "default": []},
                "problems": {"type": "list", "elements": "str", "default": []},
                "without": {"type": "list", "elements": "str", "default": []},
                "loss_limit": {"type": "int", "default": 0},
            }
        )
        hosts = [host for host in task_vars.get("ansible_play_hosts_all", []) if host not in args["without"]]
        results = run_results.of_hosts(task_vars, args["results"], hosts)
        fleet = targets.load(args["fleet"])
        back = all(run_results.usable(results.get(host)) for host in hosts)
        # The gate of the last phase comes after the soak: all live packets take the new mode, whoever failed to retire.
        if args["phase"] == "retire" or (args["phase"] == "return" and back):
            self._remember(fleet, result)
        if args["phase"] == "return":
            causes = list(args["problems"])
            for name in args["failed"]:
                for host, answer in run_results.of_hosts(task_vars, name, hosts).items():
                    if answer.get("failed") or answer.get("unreachable"):
                        causes.append(f"{host}: {run_results.reason(answer)}")
            result["failed"] = True
            result["msg"] = phase_lines.returned(hosts, results, causes, fleet.hold)
            return result
        line, problems = phase_lines.phase(args["phase"], hosts, results, fleet, args["loss_limit"])
        Display().display(line, color=None if not problems else "red")
        result.update(ok=not problems, line=line, problems=problems)
        return result

    def _remember(self, fleet: targets.Targets, result: dict[str, t.Any]) -> None:
        if not fleet.lockfile or self._task.check_mode:
            return
        try:
            result["changed"] = lockfile_store.remember(fleet.lockfile, fleet.encapsulations)
        except FleetError as error:
            # The next run over all nodes finds out by itself; the change is done either way.
            result["warnings"] = [str(error)]
