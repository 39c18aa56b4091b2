# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file with all that the agent knows, for the analysis of faults: SIGUSR1 requests it."""

from __future__ import annotations

import asyncio
import json
import logging
import typing as t

from ...node.store import atomic_file
from ...wire.protocol import AgentError
from ..known.desired_state import DesiredState
from ..known.policy_compilers import PolicyNotCompiled
from ..metrics.reports import plain
from ..workloads.transactions import Transactions
from .changes import NodeChanges
from .status import AgentStatus

_log = logging.getLogger("calico.dump")
_running: set[asyncio.Future[None]] = set()


def dump(
    status: AgentStatus, desired: DesiredState, transactions: Transactions, changes: NodeChanges, path: str
) -> None:
    """Start writing the dump to `path`, readable by root only, and return at once. A failure is logged."""
    task = asyncio.ensure_future(_dump(status, desired, transactions, changes, path))
    _running.add(task)
    task.add_done_callback(_running.discard)


async def _dump(
    status: AgentStatus, desired: DesiredState, transactions: Transactions, changes: NodeChanges, path: str
) -> None:
    """Write the dump, with the reason in place of a part that fails. Compiling policy may block for seconds."""
    known: dict[str, t.Any] = {"status": status.to_dict()}
    try:
        whole = desired.whole()
        known["desired"] = whole.to_dict() if whole else None
    except PolicyNotCompiled as error:
        known["desired"] = str(error)
    known["workloads"] = [workload.to_dict() for workload in transactions.list()]
    try:
        planned = await changes.plan()
        known["plan"] = [plain(change) for change in planned.shown()]
    except AgentError as error:
        known["plan"] = str(error)
    try:
        atomic_file.write(path, json.dumps(known, indent=1) + "\n", 0o600)
    except atomic_file.FileError as error:
        _log.error("%s", error)
        return
    _log.info("What the agent knows is in %s.", path)
