# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.state_action import StateAction


class ActionModule(StateAction):
    """The controller's part of the module convergence_info: it fills in the sessions and routes to wait for.

    Without the option `state` they are those of this host's state in `phase`, except those that need a host which is
    not in the play or failed in it. The task fails if the state cannot be determined. The result also has
    `external_sessions`, the number of expected sessions with routers outside the fleet.
    """

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        args = dict(self._task.args)
        if "state" not in args:
            own = {name: args.pop(name, None) for name in ("fleet", "observed")}
            phase = self.phase_of(args)
            state = self.host_state(task_vars, own["fleet"], own["observed"], phase)
            args["state"] = self.without_absent(state, task_vars)
        answer = self._execute_module(
            module_name="baremetal.host_routing.convergence_info", module_args=args, task_vars=task_vars
        )
        return {**answer, "external_sessions": self.external_sessions(args["state"])}
