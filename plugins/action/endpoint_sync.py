# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import endpoint_sync
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.clock import now
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import sync_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.left_out import (
    LeftOut,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.left_out import (
    sentences as left_out_sentences,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import access
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import (
    own_blocks,
    run_results,
    sync_parts,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_source


class ActionModule(GuardedAction):
    """The action endpoint_sync, which determines on the controller which workloads of others each node lacks.

    It writes what each node is to receive into a private folder. The result has the folder's `path`, the hosts that
    `answered`, whether the fleet has a `datastore`, and sentences about what was `left_out`. The task fails if the
    lockfile is missing or cannot be read, or if calico_lockfile or a template of the inventory is invalid.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec({"asked": {"type": "str", "required": True}})
        hosts = list(task_vars.get("ansible_play_hosts_all", []))
        asked = run_results.of_hosts(task_vars, args["asked"], hosts)
        nodes = {*task_vars.get("groups", {}).get(inventory_source.NODES_GROUP, ()), *hosts}
        blocks = own_blocks.of_lockfile(task_vars)
        datastore = access.of(inventory_source.hosts(task_vars), task_vars)
        tellers: dict[str, endpoint_sync.Teller] = {}
        left_out: list[LeftOut] = []
        for host, answer in asked.items():
            if sync_lines.answered(host, answer):
                tellers[host], odd = endpoint_sync.teller(host, answer, blocks.get(host, ()))
                left_out += odd
        parts = endpoint_sync.parts(tellers, nodes, now())
        sentences = left_out_sentences(left_out)
        return {
            "changed": False,
            "path": sync_parts.save(parts),
            "answered": sorted(tellers),
            "datastore": datastore is not None,
            "left_out": sentences,
            "warnings": sentences,
        }
