# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module remote_endpoints sets what a node knows of other nodes' workloads."""

from __future__ import annotations

import typing as t

from ...dataplane.change import change_lines
from ...node import machine
from ...node.errors import ERRORS
from ...node.write import endpoint_sync
from ...state.answers.left_out import sentences
from ...wire import running_agent
from ..module_call import ModuleCall


def run(module: ModuleCall) -> t.NoReturn:
    """Store what a node knows of other nodes' workloads, apply its policy with them, and answer as remote_endpoints.

    If the node's policy cannot be compiled, the workloads are stored by then. Those that are not accepted are warnings.
    """
    here = machine.here(running_agent.connect)
    try:
        result = endpoint_sync.store_reports(
            here,
            module.params["told"] or {},
            module.params["nodes"] or [],
            who=module.params["who"],
            check=module.check_mode,
            lock_timeout=module.params["lock_timeout"],
        )
    except (*ERRORS, endpoint_sync.ReportsUnreadable) as error:
        module.fail_json(msg=str(error))
    except ValueError as error:
        module.fail_json(
            msg="the workloads of other nodes are stored, but this node's policy cannot be compiled with them: "
            f"{error} Correct the policy in the inventory, then run playbooks/site.yml."
        )
    finally:
        here.kernel.close()
    for sentence in sentences(result.left_out):
        module.warn(sentence)
    lines = change_lines(result.changes)
    answer = {
        "changed": result.changed,
        "plan": lines,
        "changes": [{"action": change.action, "subject": change.subject} for change in result.changes],
    }
    if module._diff and lines:
        answer["diff"] = {"prepared": "".join(f"{line}\n" for line in lines)}
    module.exit_json(**answer)
