# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import bgp_load
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import load_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.answer_action import AnswerAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_fleet


class ActionModule(AnswerAction):
    """The action fleet_load, which prints the cost of BGP in an inventory's fleet.

    The result has `lines` and the keys of the JSON document. The task fails without a valid fleet that has BGP.
    """

    def answer(self, task_vars: dict[str, t.Any], args: dict[str, t.Any]) -> tuple[dict[str, t.Any], list[str]]:
        found = bgp_load.of_fleet(inventory_fleet.planned(task_vars))
        return load_lines.document(found), load_lines.text(found)
