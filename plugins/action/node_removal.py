# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import outcome
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run import node_removal
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines.shown_path import shown_path
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import run_results
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import fleet_documents
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.given_inventory import CLUSTER_GROUP


class ActionModule(GuardedAction):
    """The action node_removal, which checks whether a fleet can do without a node, and lists what to delete.

    The result has the known `places` where the inventory has the node. The task fails if the fleet needs the node, if
    the node is not in it, or if it is done and a gate of the etcd cluster has no new list of revoked certificates.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "node": {"type": "str", "required": True},
                "done": {"type": "bool", "default": False},
                "gates": {"type": "str", "default": ""},
            }
        )
        node = args["node"]
        if not node:
            return {"failed": True, "msg": "No node is named. Name it: -e node=node7. Nothing was changed."}
        removal = node_removal.of(fleet_documents.read(task_vars).hosts, node)
        places = [shown_path(place) for place in removal.places]
        if args["done"]:
            where = f" ({', '.join(places)})" if places else ""
            text = (
                f"{node} {'would leave' if self._task.check_mode else 'left'} the fleet. Delete it from the inventory"
                f"{where}: else the next run of playbooks/site.yml takes it back. Its blocks are in quarantine until a "
                f"run with calico_release_blocks: [{node}]."
            )
            shown_lines.show([text])
        answer = {"changed": False, "places": places}
        missing = _without_list(task_vars, args["gates"], node) if args["gates"] else []
        if missing:
            return {
                **answer,
                "failed": True,
                "msg": f"{node} left the fleet, but these hosts do not have the list of revoked certificates, so that "
                f"their gates let it connect: {', '.join(missing)}. Run playbooks/etcd.yml when they are back.",
            }
        return answer


def _without_list(task_vars: dict[str, t.Any], name: str, node: str) -> list[str]:
    """Return the hosts of the etcd cluster whose gates lack a list that others have got, without the node itself.

    `name` is what each of them registered for writing it.
    """
    hosts = [str(host) for host in task_vars.get("groups", {}).get(CLUSTER_GROUP, ()) if host != node]
    results = run_results.of_hosts(task_vars, name, hosts)
    asked = {host: result for host, result in results.items() if not result.get("skipped")}
    return [host for host in hosts if not outcome.usable(asked.get(host))] if asked else []
