# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import heartbeats
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import exchange
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import access, cluster_calls
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.cluster_calls import (
    DatastoreAway,
    DatastoreRefused,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_source


class ActionModule(GuardedAction):
    """The action datastore_info, which reads the heartbeats of a fleet's nodes from its datastore, on the controller.

    A datastore that does not answer or cannot be used is `reachable` False, with the reason. The task fails for an
    invalid variable, and for a file or secret of the controller that cannot be used.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec({"heartbeats": {"type": "bool", "default": True}})
        answer: dict[str, t.Any] = {"reachable": None, "reason": "", "version": "", "nodes": {}, "refused": {}}
        answer.update(members=0, silent_members={})
        try:
            datastore = access.of(inventory_source.hosts(task_vars), task_vars)
            if datastore is not None:
                silent = cluster_calls.silent_members(datastore, access.operator(task_vars))
                answer.update(members=len(datastore.endpoints), silent_members=silent)
            if datastore is not None and args["heartbeats"]:
                version, found = cluster_calls.ask(datastore, access.operator(task_vars), _read)
                answer.update(reachable=True, version=version)
                nodes, answer["refused"] = heartbeats.decode_all(found)
                now = time.time()
                answer["nodes"] = {
                    node: {**dataclasses.asdict(one), "age": one.age(now)} for node, one in nodes.items()
                }
        except (DatastoreAway, DatastoreRefused) as error:
            answer.update(reachable=False, reason=str(error))
        return {"changed": False, **answer}


async def _read(client: EtcdClient) -> tuple[str, dict[str, bytes]]:
    return await exchange.check(client), await exchange.heartbeats(client)
