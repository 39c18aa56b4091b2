# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common part of actions that answer a question about an inventory: their output, and cli/inventory_playbook's."""

from __future__ import annotations

import abc
import json
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.garbage import uncollected
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ..lines import shown_lines
from .guarded_action import GuardedAction

Data = dict[str, t.Any]


class AnswerAction(GuardedAction):
    """An action that answers on the controller, with a document and with lines for people.

    The option `output` prints the lines as "text", or the document as "json". The file `answer_file` gets both, or the
    text of the FleetError or CommandError that fails the task; an OSError, if it cannot be written, fails it as well.
    """

    _requires_connection = False
    #: The action's own options, as validate_argument_spec takes them.
    OPTIONS: t.Mapping[str, t.Any] = {}

    @abc.abstractmethod
    def answer(self, task_vars: Data, args: Data) -> tuple[Data, list[str]]:
        """Return the document and the lines. Raise FleetError or CommandError if there is no answer."""

    def outcome(self, document: Data, lines: list[str], args: Data) -> Data:
        """Return the keys of the task's result."""
        return {"changed": False, "lines": lines, **document}

    def act(self, task_vars: Data) -> Data:
        dummy, args = self.validate_argument_spec(
            {
                **self.OPTIONS,
                "output": {"type": "str", "choices": ["text", "json", "none"], "default": "text"},
                "answer_file": {"type": "path"},
            }
        )
        try:
            with uncollected():  # the process ends with the task
                document, lines = self.answer(task_vars, args)
        except (FleetError, CommandError) as error:
            _write(args["answer_file"], {"error": str(error)})
            return {"failed": True, "msg": str(error)}
        _write(args["answer_file"], {"lines": lines, "answer": document})
        shown_lines.show({"text": lines, "json": json.dumps(document, indent=2).splitlines()}.get(args["output"], ()))
        return self.outcome(document, lines, args)


def _write(path: t.Optional[str], content: t.Mapping[str, t.Any]) -> None:
    if path:
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(content, stream)
