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
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import open_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import outcome, task_result
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.outcome import WriteOptions
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.durations import whole_seconds
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction

_VERBS = {"present": "apply", "absent": "delete"}


class ActionModule(GuardedAction):
    """The action resource, which changes resources as `calicoctl apply` and `delete` do.

    They are those of the files of an inventory, or live policy. The result has `changed`, `lines` and, with diff mode,
    `diff`; of an inventory also `files`, and of live policy `change`, `revision` and `documents`. In check mode nothing
    is written. The task fails if the change is refused, or if nodes do not have it in force in time.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "inventory": {"type": "path"},
                "datastore": {"type": "path"},
                "definition": {"type": "raw"},
                "src": {"type": "path"},
                "state": {"type": "str", "choices": list(_VERBS), "default": "present"},
                "adopt": {"type": "bool", "default": False},
                "owner": {"type": "str"},
                "prune": {"type": "bool", "default": False},
                "wait": {"type": "float"},
                "force": {"type": "bool", "default": False},
                "ask": {"type": "bool"},
                "plan": {"type": "str"},
                "confirm": {"type": "str"},
                "vault_password_file": {"type": "path"},
            },
            mutually_exclusive=[["inventory", "datastore"], ["definition", "src"], ["datastore", "adopt"]],
            required_one_of=[["inventory", "datastore"], ["definition", "src"]],
            required_by={name: ["datastore"] for name in ("owner", "wait", "ask", "plan", "confirm")},
        )
        try:
            request = {
                "verb": _VERBS[args["state"]],
                "namespace": "",
                "skip": args["state"] == "absent",
                "dry_run": self._task.check_mode,
                "adopt": args["adopt"],
                "documents": _documents(args),
            }
            if args["datastore"]:
                return self._live({**request, "owner": args["owner"] or "", "prune": args["prune"]}, args)
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

    def _live(self, request: dict[str, t.Any], args: dict[str, t.Any]) -> dict[str, t.Any]:
        """Return the result of a change of live policy. Raise CommandError."""
        if args["prune"] and not args["owner"]:
            raise CommandError("prune deletes the documents of one owner: name it by owner.")
        confirm = 0 if args["confirm"] is None else whole_seconds(args["confirm"], open_change.MOST_SECONDS)
        if confirm is None:
            raise CommandError(f"confirm takes seconds, such as 60s, from 1 to {open_change.MOST_SECONDS}.")
        wait = outcome.WAIT_AFTER_TRIAL if confirm and args["wait"] is None else args["wait"]
        ask = bool(args["ask"])
        options = WriteOptions(request["dry_run"], args["force"], wait, ask, args["plan"], confirm)
        result = task_result.result_of(args["datastore"], request, options)
        differences = result.pop("differences")
        if self._task.diff and differences:
            result["diff"] = {"prepared": differences}
        return result


def _documents(args: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the documents that a task gives, each with its place. Raise CommandError if there are none."""
    if args["src"]:
        return inventory_change.documents_in([args["src"]], True, False)
    definition = args["definition"]
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
