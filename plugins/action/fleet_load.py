# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import bgp_load
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import answer, inventory_fleet, load_lines


class ActionModule(ActionBase):
    """Count what BGP costs in an inventory's fleet; see the module of this name."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: t.Optional[dict[str, t.Any]] = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        dummy, args = self.validate_argument_spec(answer.OPTIONS)
        try:
            found = bgp_load.of_fleet(inventory_fleet.planned(task_vars or {}))
        except FleetError as error:
            answer.refuse(args, error)
            result.update(failed=True, msg=str(error), variable=error.variable, origin=error.origin)
            return result
        document, lines = load_lines.document(found), load_lines.text(found)
        answer.give(args, document, lines)
        result.update(changed=False, lines=lines, **document)
        return result
