# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module drain stops a node from accepting new workloads."""

from __future__ import annotations

import os
import typing as t

from ...cli.errors import CommandError
from ...cli.sources import Sources
from ...node import drain, machine
from ...node.store.atomic_file import FileError
from ..error_report import errors_reported
from ..module_call import ModuleCall


def run(module: ModuleCall) -> t.NoReturn:
    """Stop a node from accepting new workloads, and answer as the module drain.

    A node that has no folder for its state gets no mark. Without an agent, its records say which workloads it has.
    """
    here = machine.here()
    drained = drain.load(here.store) is not None
    changed = not drained and os.path.isdir(here.store)
    with errors_reported(module, here, CommandError, FileError):
        if changed and not module.check_mode:
            drain.drain(here.store, module.params["who"])
        with Sources(here, module.warn) as sources:
            running = [workload.id for workload in sources.workloads()]
    answer = {"changed": changed, "workloads": running}
    if module._diff and changed:
        answer["diff"] = {"prepared": f"+ file {drain.path(here.store)}    takes no new workloads\n"}
    module.exit_json(**answer)
