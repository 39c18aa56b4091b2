# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import PlainAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import given_inventory


class ActionModule(PlainAction):
    """The controller's part of the module teardown: it calls the node and filters the answer.

    The task fails without a call if Ansible could not read a part of the inventory.
    """

    def check(self, task_vars: dict[str, t.Any]) -> None:
        given_inventory.check_parsed(task_vars)
