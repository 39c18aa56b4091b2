# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module teardown removes everything of the collection from a node."""

from __future__ import annotations

import typing as t

from ...dataplane.change import change_lines
from ...node import machine
from ...node.errors import ERRORS, InTheWay
from ...node.removal import container_networks, teardown
from ..error_report import errors_reported
from ..module_call import ModuleCall


def run(module: ModuleCall) -> t.NoReturn:
    """Remove everything of the collection from a node, and answer as the module teardown."""
    here = machine.here()
    with errors_reported(module, here, *ERRORS, InTheWay):
        plan = teardown.tear_down(
            here,
            who=module.params["who"],
            check=module.check_mode,
            lock_timeout=module.params["lock_timeout"],
            force=module.params["force"],
        )
    lines = change_lines(plan.shown)
    answer = {
        "changed": bool(plan.changes),
        "plan": lines,
        "containers": [str(container) for container in plan.containers.containers],
        "refusal": container_networks.refusal(plan.containers),
        "kept": [f"{change.subject} {change.note}" for change in plan.node.kept],
    }
    if module._diff and plan.changes:
        answer["diff"] = {"prepared": "".join(f"{line}\n" for line in lines)}
    module.exit_json(**answer)
