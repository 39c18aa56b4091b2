# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import sync_parts


class ActionModule(GuardedAction):
    """The controller's part of the module remote_endpoints: it sends a node the endpoints of other nodes.

    With the option `exchange` and without `told`, the task is skipped for a host that told nothing in this run.
    """

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        args = dict(self._task.args)
        folder = args.pop("exchange", None)
        if folder is not None and "told" not in args:
            part = sync_parts.load(folder, task_vars["inventory_hostname"])
            if part is None:
                return {"skipped": True, "skip_reason": "This host told nothing of itself in this run."}
            args.update(part)
        elif folder is not None:
            args["exchange"] = folder
        answer = self._execute_module(
            module_name="baremetal.host_routing.remote_endpoints", module_args=args, task_vars=task_vars
        )
        answer.pop("invocation", None)  # it would show the workloads sent, for each host again
        return answer
