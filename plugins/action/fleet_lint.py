# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import answer
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import lint_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import lint_source


class ActionModule(GuardedAction):
    """The action fleet_lint, which prints the settings of an inventory that cannot work or are probably a mistake.

    The result has `lines` and the keys of the JSON document. The task fails for an error, with `strict` for a warning.
    """

    TRANSFERS_FILES = False
    _requires_connection = False

    def act(self, result: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "strict": {"type": "bool", "default": False},
                **answer.OPTIONS,
            }
        )
        looked = lint_source.lint(task_vars)
        document, lines = looked.document(args["strict"]), lint_lines.text(looked)
        answer.give(args, document, lines)
        if not document["good"]:
            result.update(failed=True, msg=lint_lines.failure(looked, printed=args["output"] != "none"))
        else:
            result.update(changed=False, lines=lines, **document)
        return result
