# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import bgp_load
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import load_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import answer
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_fleet


class ActionModule(GuardedAction):
    """The action fleet_load, which prints the cost of BGP in an inventory's fleet.

    The result has `lines` and the keys of the JSON document. The task fails without a valid fleet that has BGP.
    """

    TRANSFERS_FILES = False
    _requires_connection = False

    def act(self, result: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(answer.OPTIONS)
        try:
            found = bgp_load.of_fleet(inventory_fleet.planned(task_vars))
        except FleetError as error:
            answer.refuse(args, error)
            result.update(failed=True, msg=str(error), variable=error.variable, origin=error.origin)
            return result
        document, lines = load_lines.document(found), load_lines.text(found)
        answer.give(args, document, lines)
        result.update(changed=False, lines=lines, **document)
        return result
