# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import endpoint_exchange
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import now
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import (
    exchange_lines,
    exchange_parts,
    inventory_source,
    run_results,
)


class ActionModule(ActionBase):
    """Work out what each node lacks of the others' workloads, on the controller; see the module of this name."""

    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: t.Optional[dict[str, t.Any]] = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        dummy, args = self.validate_argument_spec({"asked": {"type": "str", "required": True}})
        hosts = list(task_vars.get("ansible_play_hosts_all", []))
        asked = run_results.of_hosts(task_vars, args["asked"], hosts)
        answers = {
            host: inventory_source.plain({name: answer[name] for name in ("endpoints", "digest", "known")})
            for host, answer in asked.items()
            if exchange_lines.answered(answer)
        }
        nodes = {*task_vars.get("groups", {}).get(inventory_source.NODES_GROUP, ()), *hosts}
        parts = endpoint_exchange.parts(answers, nodes, now())
        result.update(changed=False, path=exchange_parts.save(parts), answered=sorted(answers))
        return result
