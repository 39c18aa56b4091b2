# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import shapes
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight import judge
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.state_action import StateAction


class ActionModule(StateAction):
    """Check, on the controller, whether the observed host can take its state; see the module of this name."""

    _requires_connection = False

    def act(self, result: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "fleet": {"type": "str", "required": True},
                "observed": {"type": "str", "required": True},
                "cni": {"type": "bool", "default": False},
            }
        )
        host = task_vars["inventory_hostname"]
        try:
            state = self.host_state(task_vars, args["fleet"], args["observed"], Phase.CONVERGE)
        except FleetError as error:
            result.update(failed=True, msg=str(error))
            return result
        try:
            facts = shapes.plain(task_vars[args["observed"]].get("preflight"))
            findings = judge.judge(facts, state)
            missing = judge.missing_packages(facts, state, args["cni"])
        except (shapes.Unreadable, LookupError, TypeError, ValueError, AttributeError) as error:
            what = error if isinstance(error, shapes.Unreadable) else "a part is missing, or is something else"
            result.update(
                failed=True,
                msg=f"{host}: what it says of itself cannot be judged: {what}. Its modules do not answer so. Look at "
                "the node. Nothing was changed on it.",
            )
            return result
        errors = [finding for finding in findings if finding.severity == "error"]
        result["findings"] = [str(finding) for finding in findings]
        result["warnings"] = [f"{host}: {finding}" for finding in findings if finding.severity != "error"]
        result["missing_packages"] = missing
        if self._task.check_mode and result["missing_packages"]:
            # In check mode, the installation of packages itself is left out, because apt needs its own package for
            # that. The plan names the packages.
            lines = [f"  + package  {name}" for name in result["missing_packages"]]
            result["changed"] = True
            result["diff"] = {"prepared": "\n".join([f"{host}  packages to install", *lines]) + "\n"}
        if errors:
            result["failed"] = True
            result["msg"] = "\n".join(f"{host}: {finding}" for finding in errors)
        return result
