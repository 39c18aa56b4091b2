# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module workload_info reads the workloads of a node."""

from __future__ import annotations

import typing as t

from ...base import selectors
from ...cli.commands import workloads
from ...cli.errors import CommandError
from ...cli.sources import Sources
from ...node import machine
from ..module_call import ModuleCall


def chosen(found: t.Sequence[dict[str, t.Any]], params: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the workloads of `found` that have the name, namespace and labels asked for; None asks for any.

    So does "" as the selector. Raise selectors.SelectorError for an invalid one.
    """
    selector = selectors.parse(params["selector"] or "all()")
    return [
        entry
        for entry in found
        if params["name"] in (None, entry["name"])
        and params["namespace"] in (None, entry["namespace"])
        and selector.matches(entry["labels"])
    ]


def run(module: ModuleCall) -> t.NoReturn:
    """Read the workloads of a node, and answer as the module workload_info.

    Without an agent, those that it attached are read from the disk, with a warning; unreadable ones are left out.
    """
    with Sources(machine.here(), module.warn) as sources:
        try:
            found = chosen(workloads.listed(sources), module.params)
        except (CommandError, selectors.SelectorError) as error:
            module.fail_json(msg=str(error))
        running = sources.agent.runs()
    module.exit_json(changed=False, workloads=found, agent_running=running)
