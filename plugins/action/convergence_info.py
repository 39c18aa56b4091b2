# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.state_action import StateAction


class ActionModule(StateAction):
    """Fill in which sessions and routes to wait for; see the module of this name."""

    def run(self, tmp: t.Any = None, task_vars: t.Optional[dict[str, t.Any]] = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        args = dict(self._task.args)
        if "state" not in args:
            own = {name: args.pop(name, None) for name in ("fleet", "observed")}
            phase = args.pop("phase", None) or "converge"
            try:
                args["state"] = self.host_state(task_vars, own["fleet"], own["observed"], phase).to_dict()
            except FleetError as error:
                result.update(failed=True, msg=str(error))
                return result
        result.update(
            self._execute_module(
                module_name="baremetal.host_routing.convergence_info", module_args=args, task_vars=task_vars
            )
        )
        return result
