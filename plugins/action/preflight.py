# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import remark_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.state_action import StateAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import host_check


class ActionModule(StateAction):
    """The action preflight, which checks on the controller whether the observed host can take its state.

    The result has `findings`, `warnings` and `missing_packages`. The task fails if a finding is an
    error, if the host's answer cannot be judged, if its state cannot be determined, or if a network of podman is wrong.
    In check mode, packages that a run would install make it changed, and its diff lists them.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "fleet": {"type": "str", "required": True},
                "observed": {"type": "str", "required": True},
                "cni": {"type": "bool", "default": False},
                "cni_default": {"type": "bool", "default": False},
                "install_packages": {"type": "bool", "default": True},
                "podman": {"type": "str", "choices": ["no", "auto", "yes"], "default": "no"},
                "podman_networks": {"type": "raw", "default": []},
            }
        )
        host = task_vars["inventory_hostname"]
        state = self.host_state(task_vars, args["fleet"], args["observed"], Phase.CONVERGE)
        podman = host_check.podman_wish(args["podman"], args["podman_networks"])
        try:
            answer = task_vars[args["observed"]]
            findings, missing = host_check.check(answer, state, args["cni"], args["cni_default"], podman)
        except host_check.NotJudged as error:
            return {
                "failed": True,
                "msg": f"{host}: what it says of itself cannot be judged: {error}. Its modules do not answer so. Look "
                "at the node. Nothing was changed on it.",
            }
        errors = [finding for finding in findings if finding.severity == "error"]
        result: dict[str, t.Any] = {
            "findings": [str(finding) for finding in findings],
            "missing_packages": list(missing),
        }
        if self._task.check_mode and args["install_packages"] and missing:
            # In check mode, the task that installs packages is skipped: Ansible's module apt needs python3-apt for a
            # prediction, and cannot install it then. So the plan names the packages here.
            lines = [f"  + package  {name}" for name in missing]
            diff = {"prepared": "\n".join([f"{host}  packages to install", *lines]) + "\n"}
            result.update(changed=True, diff=diff)
        warned = [str(finding) for finding in findings if finding.severity != "error"]
        if errors:
            warnings = [f"{host}: {text}" for text in warned]
            result.update(failed=True, msg="\n".join(f"{host}: {finding}" for finding in errors), warnings=warnings)
        elif warned:
            result["remarks"] = remark_lines.bounded(warned)
        return result
