# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import inventory_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.document_text import (
    NotReadable,
    documents_of,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction

_VERBS = {"present": "apply", "absent": "delete"}


class ActionModule(GuardedAction):
    """The action resource, which changes the files of an inventory's resources as `calicoctl apply` and `delete` do.

    The result has `changed`, `files`, `lines` and, with diff mode, `diff`. In check mode nothing is written. The task
    fails if the change is refused.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "inventory": {"type": "path", "required": True},
                "definition": {"type": "raw", "required": True},
                "state": {"type": "str", "choices": list(_VERBS), "default": "present"},
                "adopt": {"type": "bool", "default": False},
                "vault_password_file": {"type": "path"},
            }
        )
        try:
            request = {
                "verb": _VERBS[args["state"]],
                "namespace": "",
                "skip": args["state"] == "absent",
                "dry_run": self._task.check_mode,
                "adopt": args["adopt"],
                "documents": _documents(args["definition"]),
            }
            answer = inventory_change.ask(request, [args["inventory"]], args["vault_password_file"] or "")
        except CommandError as error:
            return {"failed": True, "msg": str(error)}
        found = answer["answer"]
        if "refused" in found:
            return {"failed": True, "msg": found["refused"]}
        result = {"changed": found["changed"], "files": found["files"], "lines": answer["lines"]}
        if self._task.diff and found["changed"]:
            result["diff"] = {"prepared": "".join(f"{line}\n" for line in found["differences"])}
        return result


def _documents(definition: t.Any) -> list[dict[str, t.Any]]:
    """Return the documents of a definition, each with its place. Raise CommandError if there are none."""
    is_text = isinstance(definition, str)
    # A text of Ansible is of a class of its own, which PyYAML's parser in C does not take.
    text = "".join(list(definition)) if is_text else json.dumps(definition, default=str)
    try:
        found = [content for content, dummy in documents_of(text, "definition" if is_text else "definition.json")]
    except NotReadable as error:
        where = f"definition:{error.line}" if is_text and error.line else "definition"
        raise CommandError(f"{where}: {error} Write Calico's documents, or read them from a file.") from error
    if not found:
        raise CommandError("definition has no document. Write kind, metadata and spec of at least one resource.")
    return [{"content": content, "place": f"definition[{index}]"} for index, content in enumerate(found)]
