# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import bounded
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.answer_action import AnswerAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.written import resource_change


class ActionModule(AnswerAction):
    """The action resource_change, which changes the inventory's files of resources as calicoctl asks.

    The result has `changed`, `files`, `differences` and `lines`. In check mode and for a dry run nothing is written.
    The task fails if the change is refused; in the file `answer_file`, `refused` says why.
    """

    OPTIONS = {"request_file": {"type": "path", "required": True}}

    def answer(self, task_vars: dict[str, t.Any], args: dict[str, t.Any]) -> tuple[dict[str, t.Any], list[str]]:
        try:
            request = bounded.read_json(args["request_file"])
        except (OSError, ValueError) as error:
            raise CommandError(f"{args['request_file']} is no request of calicoctl: {error}.") from error
        write = not (self._task.check_mode or request["dry_run"])
        try:
            found = resource_change.change(task_vars, request, write)
        except CommandError as error:
            return {"changed": False, "files": [], "differences": [], "refused": str(error)}, []
        files = list(found.files)
        return {"changed": bool(files), "files": files, "differences": found.differences}, found.lines

    def outcome(self, document: dict[str, t.Any], lines: list[str], args: dict[str, t.Any]) -> dict[str, t.Any]:
        if "refused" in document:
            return {"failed": True, "msg": document["refused"]}
        return super().outcome(document, lines, args)
