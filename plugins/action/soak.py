# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import untried
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.probe_paths import Untried
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.state_action import StateAction


class ActionModule(StateAction):
    """The controller's part of the module soak: it fills in what to wait for and what to probe.

    Both are those of this host's state in the phase flip, unless the option `state` is given. What needs a host that is
    not in the play, or failed in it, is not waited for. The task fails if the state cannot be determined.
    """

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        args = dict(self._task.args)
        gaps: list[Untried] = []
        if "state" not in args:
            fleet, observed = args.pop("fleet", None), args.pop("observed", None)
            sample = int(args.pop("sample", 0) or 0)
            state = self.host_state(task_vars, fleet, observed, Phase.FLIP)
            args["state"] = self.without_absent(state, task_vars)
            (paths, gaps), secret = self.plan_probes(state, fleet, sample)
            args.update(targets=self.probed(paths), endpoint=True, secret=secret)
        answer = self.ask_to_probe("soak", args, task_vars)
        return {**answer, "untried": untried.to_data(gaps)}
