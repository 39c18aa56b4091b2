# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.defaults import SOURCE_PORT
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.flow_answer import FlowAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.flow_question import Asked
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.flow_sweep import FlowSweep, answer
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.answer_action import AnswerAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import attached_workloads, live_network
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines.shown_path import shown_path
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import fleet_source
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.inventory_network import known_network

_OPTIONS = ("from", "to", "port")


class ActionModule(AnswerAction):
    """The action policy_explain, which prints how policy judges a flow, by the inventory and the lockfile.

    Ends that these do not know are looked up in the fleet's datastore, if it has one: agents attach workloads. With
    live policy, live documents are read there, and the answer says if they are not. The result has `verdict`, `lines`
    and `answer`. The task fails if the inventory, the lockfile or the question is invalid, or if the verdict is not the
    one in `expect`.
    """

    OPTIONS = {
        **{option: {"type": "str", "required": True} for option in _OPTIONS[:2]},
        "port": {"type": "str", "default": ""},
        "source_port": {"type": "int", "default": SOURCE_PORT},
        "verbose": {"type": "bool", "default": False},
        "expect": {"type": "str", "choices": ["allow", "deny"]},
    }

    def answer(self, task_vars: dict[str, t.Any], args: dict[str, t.Any]) -> tuple[dict[str, t.Any], list[str]]:
        said = _ask(task_vars, args)
        return said.document(), said.lines(args["verbose"])

    def outcome(self, document: dict[str, t.Any], lines: list[str], args: dict[str, t.Any]) -> dict[str, t.Any]:
        verdict = document["verdict"]
        if args["expect"] not in (None, verdict):
            # The failure repeats only the first of the lines, which are printed above it if the output is "text".
            return {"failed": True, "msg": f"expected {args['expect']}: {lines[0]}", "verdict": verdict}
        return {"changed": False, "verdict": verdict, "lines": lines, "answer": document}


def _ask(task_vars: dict[str, t.Any], args: t.Mapping[str, t.Any]) -> t.Union[FlowAnswer, FlowSweep]:
    """Return policy's answer for the flow that the options describe, with a notice if there is no lockfile."""
    source, destination, port = (args[option] for option in _OPTIONS)
    asked = Asked(source, destination, port, args["source_port"], _OPTIONS)
    asked.check()
    run = fleet_source.planned(task_vars, may_be_new=True)
    notices = []
    if not run.before:
        lockfile = shown_path(run.lockfile)
        notices.append(f"{lockfile} does not exist yet: addresses are those that a first run would plan")
    network, live = live_network.of_question(known_network(run.fleet), run.fleet, task_vars)
    known, more = attached_workloads.of_question(network, asked, task_vars)
    return answer(known, asked, [*notices, *live, *more])
