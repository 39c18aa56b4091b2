# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Updates of policy for workloads: the reconciler gets changed ones, and new ones are admitted before their route.

One write of sets and chains serves all adds that wait for it (group commit). What is refused of that write fails those
adds alone that it is about: a bad rule of another policy does not keep workloads from being added.
"""

from __future__ import annotations

import typing as t

from ...dataplane.change import Change
from ...dataplane.registry import REGISTRY
from ...state.node_state import VethEndpoint
from ..api import protocol
from ..api.protocol import AgentError
from ..desired_state import DesiredState
from ..reconcile import repair
from ..reconcile.reconcile import Reconciler
from .commit import GroupCommit, Write


class _NotAllWritten(Exception):
    """Sets, or tables as wholes, that could not be written: [(change, reason)]."""

    def __init__(self, failed: t.Sequence[tuple[Change, str]]) -> None:
        super().__init__(failed)
        self.failed = failed


class PolicyUpdates:
    """What adds and deletes ask of policy. Belongs to the event loop."""

    def __init__(self, desired: DesiredState, reconciler: Reconciler) -> None:
        self._desired = desired
        self._reconciler = reconciler
        self._admissions = GroupCommit(self._write)

    def workloads_changed(self) -> None:
        """Have what is desired made anew, and policy brought to it soon: it lets through only what it knows."""
        self._desired.changed()
        if self._desired.has_policy:
            self._reconciler.expect(REGISTRY.guards)

    def begin_admission(self) -> t.Optional[Write]:
        """Have policy learn of all workloads that are coming; return the write to wait for, None without policy."""
        return self._admissions.written() if self._desired.has_policy else None

    async def admitted(self, write: Write, endpoint: VethEndpoint) -> None:
        """Wait until policy knows the workload. Raises AgentError."""
        refused = f"policy for workload {endpoint.namespace}/{endpoint.name} cannot be put in force"
        try:
            await write
        except _NotAllWritten as error:
            reason = _reason(error.failed, endpoint)
            if reason is not None:
                raise AgentError(protocol.KERNEL, f"{refused}: {reason}") from error
        except repair.ERRORS as error:
            raise AgentError(protocol.KERNEL, f"{refused}: {error}") from error

    async def _write(self, write: Write) -> None:
        def stands() -> None:
            write.stands = True

        state = self._desired.for_policy()
        if state is not None:
            applied = await self._reconciler.admit(state, stands)
            if applied.failed:
                raise _NotAllWritten(applied.failed)


def _reason(failed: t.Iterable[tuple[Change, str]], endpoint: VethEndpoint) -> t.Optional[str]:
    """Return why policy does not know this workload, None if it does."""
    about = (f"{change.kind} {change.subject}: {reason}" for change, reason in failed if _concerns(change, endpoint))
    return next(about, None)


def _concerns(change: Change, endpoint: VethEndpoint) -> bool:
    if change.kind != "ipset" or change.new is None:
        return True
    _name, want = change.new
    return any(member.partition(",")[0] in endpoint.addresses for member in want.members)
