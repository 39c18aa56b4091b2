# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import tables
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.resource_key import with_version
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.answer_action import AnswerAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines.shown_path import shown_path
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_fleet, inventory_resources
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.written import role_variables


class ActionModule(AnswerAction):
    """The action fleet_resources, which prints the resources of an inventory and its lockfile.

    The result has `lines`, `as_number`, `resources` and `ipam`. The task fails if the fleet cannot be planned.
    """

    def answer(self, task_vars: dict[str, t.Any], args: dict[str, t.Any]) -> tuple[dict[str, t.Any], list[str]]:
        found = inventory_fleet.with_lockfile(task_vars)
        fleet = found.fleet
        ipam = inventory_resources.ipam(fleet)
        agents = [node.name for node in fleet.nodes.values() if node.workload_node]
        cooldown = role_variables.number_of("calico_node_agent_address_cooldown", agents, task_vars)
        resources = {
            kind: [with_version(document) for document in documents]
            for kind, documents in inventory_resources.resources(fleet, found.sources).items()
        }
        document = {
            "as_number": fleet.settings.as_number,
            "resources": resources,
            "ipam": {
                **ipam,
                "configuration": {**ipam["configuration"], "IPCooldownSeconds": cooldown},
                "lockfile": shown_path(found.lockfile),
                "planned": found.exists,
            },
        }
        rows = [(kind, str(len(documents))) for kind, documents in resources.items() if documents]
        return document, tables.columns(("KIND", "COUNT"), rows).splitlines()
