# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.defaults import SOURCE_PORT
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.flow_answer import FlowAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.flow_question import Asked, question
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import answer
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines.shown_path import shown_path
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import fleet_source
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.inventory_network import known_network

_OPTIONS = ("from", "to", "port")


class ActionModule(GuardedAction):
    """The action policy_explain, which prints how policy judges a flow, by the inventory and the lockfile alone.

    The result has `verdict`, `lines` and `answer`. The task fails if the inventory, the lockfile or the question is
    invalid, or if the verdict is not the one in `expect`.
    """

    TRANSFERS_FILES = False
    _requires_connection = False

    def act(self, result: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                **{option: {"type": "str", "required": True} for option in _OPTIONS},
                "source_port": {"type": "int", "default": SOURCE_PORT},
                "verbose": {"type": "bool", "default": False},
                **answer.OPTIONS,
                "expect": {"type": "str", "choices": ["allow", "deny"]},
            }
        )
        try:
            said = _ask(task_vars, args)
        except (FleetError, CommandError) as error:
            answer.refuse(args, error)
            result.update(failed=True, msg=str(error))
            if isinstance(error, FleetError):
                result.update(variable=error.variable, origin=error.origin)
            return result
        document, lines = said.document(), said.lines(args["verbose"])
        answer.give(args, document, lines)
        verdict = document["verdict"]
        if args["expect"] not in (None, verdict):
            # The failure repeats only the first of the lines, which are printed above it if the output is "text".
            result.update(failed=True, msg=f"expected {args['expect']}: {lines[0]}", verdict=verdict)
            return result
        result.update(changed=False, verdict=verdict, lines=lines, answer=document)
        return result


def _ask(task_vars: dict[str, t.Any], args: t.Mapping[str, t.Any]) -> FlowAnswer:
    """Return policy's answer for the flow that the options describe, with a notice if there is no lockfile."""
    source, destination, port = (args[option] for option in _OPTIONS)
    asked = Asked(source, destination, port, args["source_port"], _OPTIONS)
    asked.kind()
    run = fleet_source.planned(task_vars, may_be_new=True)
    notices = []
    if not run.before:
        lockfile = shown_path(run.lockfile)
        notices.append(f"{lockfile} does not exist yet: addresses are those that a first run would plan")
    return FlowAnswer(question(known_network(run.fleet), asked), notices)
