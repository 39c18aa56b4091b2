# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import pool_entry
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.written import role_variables

#: The most errors in one message.
_FIRST = 5


class ActionModule(GuardedAction):
    """The action run_check, which checks what a run is asked, before any host is contacted.

    The task fails, with one message for the whole fleet, if a variable of a role has a wrong type or value on any host
    of the play, if the inventory has no `pool` of that name, or if `mode` is no mode. It changes nothing.
    """

    TRANSFERS_FILES = False
    _requires_connection = False

    def act(self, result: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec({"pool": {"type": "str"}, "mode": {"type": "str"}})
        try:
            errors = role_variables.of_hosts(task_vars)
            if args["pool"] is not None:
                errors += role_variables.of_choice("pool", args["pool"], role_variables.pools(task_vars))
            if args["mode"] is not None:
                errors += role_variables.of_choice("mode", args["mode"], list(pool_entry.FIELDS))
        except FleetError as error:
            errors = [error]
        result["changed"] = False
        if errors:
            more = len(errors) - _FIRST
            parts = [*map(str, errors[:_FIRST]), *([f"And {more} more errors."] if more > 0 else [])]
            result.update(failed=True, msg=" ".join([*parts, "No host was contacted."]))
        return result
