# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether policy knows a workload, before anybody can reach it: an add is answered when its sets and chains stand.

One writing of sets and chains serves all adds that wait for it (commit.py). What of it is refused fails those alone
whom it is about: another policy's bad rule keeps nobody from being added.
"""

from __future__ import annotations

import typing as t

from ...dataplane.change import Change
from ...state.node_state import WorkloadEndpoint
from ..api import protocol
from ..api.protocol import AgentError
from ..reconcile import repair
from .commit import Write


class NotAllWritten(Exception):
    """Sets, or tables as wholes, that could not be written: [(change, reason)]."""

    def __init__(self, failed: t.Sequence[tuple[Change, str]]) -> None:
        super().__init__(failed)
        self.failed = failed

    def about(self, endpoint: WorkloadEndpoint) -> t.Optional[str]:
        """Why policy does not know this workload; None where it does."""
        return next(
            (
                f"{change.kind} {change.subject}: {reason}"
                for change, reason in self.failed
                if _is_about(change, endpoint)
            ),
            None,
        )


def _is_about(change: Change, endpoint: WorkloadEndpoint) -> bool:
    if change.kind != "ipset" or change.new is None:
        return True
    _name, want = change.new
    return any(member.partition(",")[0] in endpoint.addresses for member in want.members)


async def admitted(write: Write, endpoint: WorkloadEndpoint) -> None:
    """Waits until policy knows the workload. Raises AgentError."""
    try:
        await write
    except NotAllWritten as error:
        reason = error.about(endpoint)
        if reason is not None:
            raise AgentError(
                protocol.KERNEL, f"policy for {_name(endpoint)} cannot be put in force: {reason}"
            ) from error
    except repair.ERRORS as error:
        raise AgentError(protocol.KERNEL, f"policy for {_name(endpoint)} cannot be put in force: {error}") from error


def _name(endpoint: WorkloadEndpoint) -> str:
    return f"workload {endpoint.namespace}/{endpoint.name}"
