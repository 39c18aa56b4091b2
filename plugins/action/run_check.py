# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import refusals
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import lint_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.report import report_file
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import lint_source, pool_entry
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.written import role_variables


class ActionModule(GuardedAction):
    """The action run_check, which checks what a run is asked, before any host is contacted.

    The task fails, with one message for the whole fleet, if a variable of a role has a wrong type or value in the play
    or on any host of it, if the inventory has no `pool` of that name, or if `mode` is no mode. If there are several
    errors, those of the inventory among them, they are printed before the message. It changes nothing.
    """

    _requires_connection = False
    NEEDS_ALL_HOSTS = True

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {"pool": {"type": "str"}, "mode": {"type": "str"}, "report": {"type": "str", "default": ""}}
        )
        errors = role_variables.of_hosts(task_vars)
        errors += role_variables.of_play(task_vars, self._templar.template)
        found = [lint_source.of_role(error) for error in errors]
        try:
            pools = role_variables.pools(task_vars) if args["pool"] is not None else []
        except FleetError:
            pools = []  # The run itself says what is wrong with the inventory.
        asked = role_variables.of_choice("pool", args["pool"], pools) if args["pool"] is not None else []
        if args["mode"] is not None:
            asked += role_variables.of_choice("mode", args["mode"], list(pool_entry.FIELDS))
        if args["report"]:
            try:
                report_file.path_for(args["report"])
            except FleetError as error:
                asked.append(error)
        errors += asked
        found += map(refusals.finding, asked)
        if not errors:
            return {"changed": False}
        found += lint_source.refused(task_vars)
        msg = f"{lint_lines.first_of(str(errors[0]), found)} This collection contacted no host."
        return {"changed": False, "failed": True, "msg": msg}
