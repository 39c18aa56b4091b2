# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module soak ends a flip: it waits for the node's sessions and routes, then counts what packets are lost."""

from __future__ import annotations

import typing as t

from ...node.probe import probing
from ..module_call import ModuleCall
from ..specs.nodes import ONE_ROUND
from . import convergence_info, probe


def run(module: ModuleCall) -> t.NoReturn:
    """Wait for the node's sessions and routes, then count what packets are lost, and answer as the module soak.

    Without targets, and in check mode, no packet is sent. The module does not fail if probes are lost, but if sessions
    or routes are missing after `timeout` seconds. A watch is ended only after probes were sent.
    """
    params = module.params
    answer = convergence_info.waited(module, fail=True)
    targets = probe.targets_of(params)
    lost: list[probe.Found] = []
    clock = probe.Clock()
    try:
        if targets and not module.check_mode:
            lost, answer["watch"] = probe.collect(
                {**ONE_ROUND, **{name: params[name] for name in ("seconds", "endpoint", "secret")}}, targets, clock
            )
    except probing.ProbeError as error:
        module.fail_json(msg=str(error), **answer)
    module.exit_json(**answer, **probe.counted(lost), clock=clock.read())
