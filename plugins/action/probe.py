# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import untried
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.probe_paths import Untried
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import PROBE_TOS
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.state_action import StateAction

_PROOF_COUNT = 3
#: The least and the most milliseconds between two probes of a path by which it is proven. In between there is 1 ms for
#: each path, which makes 1,000 probes a second.
_PROOF_INTERVAL = (50, 200)
#: The most rounds of _PROOF_COUNT probes by which a path is proven: one round without a loss suffices. The first rounds
#: may have to resolve neighbours' addresses.
_PROOF_ATTEMPTS = 3
#: Seconds by which a watch outlives the given waits: for the tasks from the proof to the soak, and for each batch of
#: hosts that Ansible runs at a time.
_MARGIN, _BATCH_MARGIN = 60, 20


def watch_limit(waits: int, task_vars: t.Mapping[str, t.Any]) -> int:
    """Return the seconds until a watch ends by itself: `waits`, 60, and 20 for each batch of `ansible_forks` hosts."""
    hosts = len(task_vars.get("ansible_play_hosts_all", ()))
    batches = -(-hosts // max(1, int(task_vars.get("ansible_forks", 1))))
    return waits + _MARGIN + _BATCH_MARGIN * batches


class ActionModule(StateAction):
    """The controller's part of the module probe: with the option `fleet` it determines from the fleet what to probe.

    If the fleet has nothing to probe, the module does not run, and the result has empty `targets`. The task fails if
    the host's state cannot be determined or the module fails. Lost probes do not fail it.
    """

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        args = dict(self._task.args)
        fleet = args.pop("fleet", None)
        observed = args.pop("observed", None)
        proof = args.pop("proof", False)
        sample = int(args.pop("sample", 0) or 0)
        gaps: list[Untried] = []
        if fleet:
            host = task_vars["inventory_hostname"]
            # During a change the paths are those of the new mode, whose routes and MTUs the phase flip has.
            phase = Phase.FLIP if proof or "watch" in args else Phase.CONVERGE
            state = self.host_state(task_vars, fleet, observed, phase)
            (paths, gaps), secret = self.plan_probes(state, fleet, sample, proof=bool(proof))
            args.update(targets=self.probed(paths), endpoint=True, secret=secret)
            if proof:
                interval = min(_PROOF_INTERVAL[1], max(_PROOF_INTERVAL[0], len(paths)))
                args.update(tos=PROBE_TOS, count=_PROOF_COUNT, attempts=_PROOF_ATTEMPTS, interval=interval)
            if args.get("watch") == "start":
                args["limit"] = watch_limit(int(args.get("limit", 0)), task_vars)
            if not paths:
                msg = f"{host} has no path to another node's probe endpoint."
                return {"changed": False, "targets": [], "untried": untried.to_data(gaps), "msg": msg}
        answer = self.ask_to_probe("probe", args, task_vars)
        return {**answer, "untried": untried.to_data(gaps)} if fleet else answer
