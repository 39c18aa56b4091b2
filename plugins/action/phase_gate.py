# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import outcome
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results as readers
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import phase_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import run_results
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import lockfile_store, targets


def _settled(answer: t.Optional[t.Mapping[str, t.Any]]) -> bool:
    """Return whether a host had all sessions and routes and lost no probe after a phase that left bird.cfg alone.

    If BIRD reads another configuration on one host, another host's sessions may change after it has looked.
    """
    changes = (answer or {}).get("changes", ())
    found = outcome.settled(answer)
    return bool(found) and not found.get("lost") and all(change["kind"] != "bird" for change in changes)


class ActionModule(GuardedAction):
    """The action phase_gate, which checks the results of all hosts in a phase and prints a line about them.

    The result has `ok`, `line`, `problems`, `settled` and the time `at`; a problem does not fail the task. With the
    phase `return` it always fails, without these keys, and says why the change was not made. After `retire`, and after
    `return` if all hosts could be put back, it records the modes of `fleet` in its lockfile, if it has one, except in
    check mode.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "fleet": {"type": "str", "required": True},
                "phase": {"type": "str", "required": True},
                "results": {"type": "str", "required": True},
                "failed": {"type": "list", "elements": "str", "default": []},
                "problems": {"type": "list", "elements": "str", "default": []},
                "reachability": {"type": "str"},
                "without": {"type": "list", "elements": "str", "default": []},
                "max_lost_probes": {"type": "int", "default": 0},
            }
        )
        hosts = [host for host in task_vars.get("ansible_play_hosts_all", []) if host not in args["without"]]
        results = run_results.of_hosts(task_vars, args["results"], hosts, readers.any_phase)
        fleet = targets.load(args["fleet"])
        back = all(outcome.usable(results.get(host)) for host in hosts)
        # The modes are recorded once the fleet runs them. At the gate of the last phase, after the soak, all packets
        # take the new mode, even if a node failed to retire. After a return, all nodes must be back in the old mode.
        ends = args["phase"] == Phase.RETIRE or (args["phase"] == "return" and back)
        recorded = self._record_modes(fleet) if ends else {}
        if args["phase"] == "return":
            causes = list(args["problems"])
            for name in args["failed"]:
                for host, answer in run_results.of_hosts(task_vars, name, hosts, readers.any_phase).items():
                    if answer.get("failed") or answer.get("unreachable"):
                        causes.append(f"{host}: {outcome.reason(answer)}")
            tried = args["reachability"]
            probes = run_results.of_hosts(task_vars, tried, hosts, readers.PROBES) if tried else {}
            limit = args["max_lost_probes"]
            text = phase_lines.returned(hosts, results, causes, fleet, probes, limit, fleet.names())
            return {**recorded, "failed": True, "msg": text}
        line, problems = phase_lines.phase(args["phase"], hosts, results, fleet, args["max_lost_probes"], fleet.names())
        shown_lines.show([line], color=None if not problems else "red")
        settled = all(_settled(results.get(host)) for host in hosts)
        answer = {"ok": not problems, "line": line, "problems": problems, "settled": settled, "at": time.time()}
        return {**recorded, **answer}

    def _record_modes(self, fleet: Targets) -> dict[str, t.Any]:
        """Write the modes into the lockfile, and return the keys of the result that say so."""
        if not fleet.lockfile or self._task.check_mode:
            return {}
        try:
            return {"changed": lockfile_store.remember(fleet.lockfile, fleet.encapsulations)}
        except FleetError as error:
            # An unwritten lockfile is a warning only: the change is done, and the next run over all nodes reports it.
            return {"warnings": [str(error)]}
