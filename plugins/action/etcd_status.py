# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import (
    cluster_members,
    seen_hosts,
    status_table,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines


class ActionModule(GuardedAction):
    """The action etcd_status: it prints etcd's members as a table or JSON. With `strict` it fails for a problem."""

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "seen": {"type": "str", "required": True},
                "days_left": {"type": "dict", "required": True},
                "output": {"type": "str", "choices": ["text", "json"], "default": "text"},
                "strict": {"type": "bool", "default": False},
            }
        )
        hosts = [
            seen_hosts.of_run(host, task_vars["hostvars"][host.name].get(args["seen"]))
            for host in cluster_members.of(task_vars)
        ]
        days = {str(name): int(left) for name, left in args["days_left"].items()}
        problems, warned = status_table.problems(hosts, days), status_table.warnings(hosts)
        if args["output"] == "json":
            members = {seen.name: dataclasses.asdict(seen) for seen in hosts}
            answer = {"good": not problems, "problems": problems, "warnings": warned, "days": days, "members": members}
            lines = json.dumps(answer, indent=2).splitlines()
        else:
            lines = status_table.text(hosts, days, problems, warned)
        shown_lines.show(lines)
        answer = {"changed": False, "good": not problems, "problems": problems}
        if problems and args["strict"]:
            count = "1 thing is" if len(problems) == 1 else f"{len(problems)} things are"
            return {**answer, "failed": True, "msg": f"{count} not well with the etcd cluster, see above."}
        return answer
