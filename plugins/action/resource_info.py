# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import inventory_resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.connection.datastore_ways import DatastoreWays
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.fleet import live_resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import kinds
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.kind import (
    Document,
    Kind,
    namespace_of,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import LIVE_KINDS
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines


class ActionModule(GuardedAction):
    """The action resource_info, which returns resources as `calicoctl get` does.

    They are those of an inventory, or policy in the datastore. The result has `resources`. The task fails if the kind
    is unknown, the fleet cannot be planned, or the datastore cannot be read.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "inventory": {"type": "path"},
                "datastore": {"type": "path"},
                "kind": {"type": "str", "required": True},
                "name": {"type": "str"},
                "namespace": {"type": "str"},
                "vault_password_file": {"type": "path"},
            },
            mutually_exclusive=[["inventory", "datastore"]],
            required_one_of=[["inventory", "datastore"]],
        )
        try:
            kind = kinds.find(args["kind"])
            documents = _live(args["datastore"], kind) if args["datastore"] else _of_inventory(args, kind)
        except CommandError as error:
            return {"failed": True, "msg": str(error)}
        name, namespace = args["name"], args["namespace"]
        chosen = [
            document
            for document in documents
            if name in (None, document["metadata"]["name"]) and namespace in (None, namespace_of(document))
        ]
        return {"changed": False, "resources": chosen}


def _of_inventory(args: dict[str, t.Any], kind: Kind) -> list[Document]:
    return inventory_resources.ask([args["inventory"]], args["vault_password_file"] or "").documents(kind)


def _live(path: str, kind: Kind) -> list[Document]:
    """Return the documents of a kind of policy in the datastore. Raise CommandError."""
    if kind.name not in LIVE_KINDS:
        raise CommandError(f"a {kind.name} is not in the datastore. Name the inventory.")
    found = live_resources.of_kind(DatastoreWays(path, "", "", {}, shown_lines.warn), kind)
    if found is None:
        raise CommandError(f"{path} leads to no datastore.")
    for complaint in found.complaints:
        shown_lines.warn(complaint)
    return found.documents
