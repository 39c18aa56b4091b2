# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.answer_action import AnswerAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import lint_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import lint_source


class ActionModule(AnswerAction):
    """The action fleet_lint, which prints the settings of an inventory that cannot work or are probably a mistake.

    The result has `lines` and the keys of the JSON document. The task fails for an error, with `strict` for a warning.
    """

    OPTIONS = {"strict": {"type": "bool", "default": False}}

    def answer(self, task_vars: dict[str, t.Any], args: dict[str, t.Any]) -> tuple[dict[str, t.Any], list[str]]:
        self._looked = lint_source.lint(task_vars)
        return self._looked.document(args["strict"]), lint_lines.text(self._looked)

    def outcome(self, document: dict[str, t.Any], lines: list[str], args: dict[str, t.Any]) -> dict[str, t.Any]:
        if not document["good"]:
            return {"failed": True, "msg": lint_lines.failure(self._looked, printed=args["output"] != "none")}
        return super().outcome(document, lines, args)
