# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import bgp_secrets


class ActionModule(GuardedAction):
    """The controller's part of the module node_info: it sends the inventory's passwords to the node.

    The node names those that differ. The task fails if calico_bgp_secrets is invalid or the module fails.
    """

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        args = dict(self._task.args)
        args["bgp_passwords"] = bgp_secrets.packed(task_vars)
        return self._execute_module(
            module_name="baremetal.host_routing.node_info", module_args=args, task_vars=task_vars
        )
