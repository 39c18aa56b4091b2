# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import inventory_resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import kinds
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.kind import namespace_of
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction


class ActionModule(GuardedAction):
    """The action resource_info, which returns resources of an inventory as `calicoctl get` does.

    The result has `resources`. The task fails if the kind is unknown, or the fleet cannot be planned.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "inventory": {"type": "path", "required": True},
                "kind": {"type": "str", "required": True},
                "name": {"type": "str"},
                "namespace": {"type": "str"},
                "vault_password_file": {"type": "path"},
            }
        )
        try:
            kind = kinds.find(args["kind"])
            found = inventory_resources.ask([args["inventory"]], args["vault_password_file"] or "")
        except CommandError as error:
            return {"failed": True, "msg": str(error)}
        name, namespace = args["name"], args["namespace"]
        chosen = [
            document
            for document in found.documents(kind)
            if name in (None, document["metadata"]["name"]) and namespace in (None, namespace_of(document))
        ]
        return {"changed": False, "resources": chosen}
