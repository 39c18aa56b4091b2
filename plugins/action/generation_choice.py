# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import node_info
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import given_inventory


class ActionModule(GuardedAction):
    """The action generation_choice, which chooses the stored generation of a host for a rollback.

    The result has its number `generation` and the hash of its `plan`. The task fails, and lists the generations, if no
    generation is of the wanted plan or none was named. It also fails if these or the inventory cannot be read.
    """

    _requires_connection = False

    def check(self, task_vars: dict[str, t.Any]) -> None:
        given_inventory.check_parsed(task_vars)

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {"observed": {"type": "str", "required": True}, "plan": {"type": "str", "default": ""}}
        )
        host = task_vars["inventory_hostname"]
        try:
            generations = node_info.generations(task_vars[args["observed"]])
        except Unreadable as error:
            return {"failed": True, "msg": f"{host}: its generations cannot be read: {error}. Look at the node."}
        chosen = choose(generations, args["plan"])
        if chosen is None:
            wanted = f"has no generation of plan {args['plan']}" if args["plan"] else "can return to"
            msg = f"{host} {wanted}{':' if not args['plan'] else '. It has:'}\n{table(generations)}"
            if not args["plan"]:
                msg += "\nName one: -e plan=<plan>, or -e plan=previous."
            return {"failed": True, "msg": msg}
        return {"generation": chosen["n"], "plan": chosen["plan"]}


def choose(generations: t.Sequence[t.Mapping[str, t.Any]], plan: str) -> t.Optional[t.Mapping[str, t.Any]]:
    """Return the generation that `plan` names, None if there is none; `generations` are sorted from old to new.

    `plan` is "previous" for the last but one, or the beginning of a plan's hash; if several match, the newest counts.
    """
    if plan == "previous":
        return generations[-2] if len(generations) > 1 else None
    if not plan:
        return None
    return next((entry for entry in reversed(generations) if str(entry["plan"]).startswith(plan)), None)


def table(generations: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    lines = [f"  {'GENERATION':<11} {'WHEN':<21} {'PLAN':<13} WHO"]
    for entry in reversed(generations):
        lines.append(f"  {entry['n']:<11} {entry['when']:<21} {entry['plan']:<13} {entry['who']}")
    return "\n".join(lines if generations else ["  nothing yet"])
