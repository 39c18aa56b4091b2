# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Updates of policy for workloads: changed ones go to the reconciler, new ones are admitted before their route.

One write of sets and chains serves all adds that wait for it (group commit). If a set or a whole table is refused, only
the adds that it concerns fail. A single chain that is refused, such as one with a bad rule, makes no add fail.
"""

from __future__ import annotations

import typing as t

from ...dataplane.change import Change
from ...dataplane.drivers import route
from ...state.node_state import VethEndpoint
from ...wire import protocol
from ...wire.protocol import AgentError
from ..known.desired_state import DesiredState
from ..log.transactions import transaction
from ..reconcile import repair
from ..reconcile.stages import Stages
from .commit import GroupCommit, Write


class _NotAllWritten(Exception):
    """The error for sets or whole tables that could not be written.

    `failed` has pairs (change, reason); `unmade` are further changes that were not made because of one of `failed`.
    """

    def __init__(self, failed: t.Sequence[tuple[Change, str]], unmade: t.Sequence[Change]) -> None:
        super().__init__(failed, unmade)
        self.failed = failed
        self.unmade = unmade


class PolicyUpdates:
    """The updates of policy that adds and deletes request. It belongs to the event loop.

    Writes are made even if they are not awaited. Await them by `in_force` or `admitted`, which raise AgentError with
    code `kernel` if policy cannot be compiled, if the kernel cannot be read or written, or if it refused a set or a
    table that concerns the workload.
    """

    def __init__(self, desired: DesiredState, stages: Stages) -> None:
        self._desired = desired
        self._stages = stages
        self._admissions = GroupCommit(self._write)
        self._waiting: list[str] = []  # ids of the workloads that the next write is for
        self._adding: list[VethEndpoint] = []  # those of them that are being added

    def workloads_changed(self, later: bool = False) -> None:
        """Forget the cached desired state; call `update`, unless the caller does that `later`."""
        self._desired.changed()
        if not later:
            self.update()

    def update(self) -> None:
        """Let the reconciler update the policy later, if the node has one; do not wait for it."""
        if self._desired.has_policy:
            self._stages.policy_changed()

    def blocks_opened(self) -> None:
        """Let the reconciler write the blackhole routes of blocks that an add opened before it failed. Do not wait."""
        self._stages.expect((route.STEP.name,))

    def ports_changed(self, id: str) -> Write:
        """Request a write of the rules for published ports, after those of the workload `id` changed; return it."""
        self._desired.changed()
        self._waiting.append(id)
        return self._admissions.written()

    def look_again(self) -> None:
        """Let the reconciler look at sets and rules, for what a write left superfluous or undone. Do not wait."""
        self._stages.policy_changed()

    async def in_force(self, write: Write, what: str, endpoint: t.Optional[VethEndpoint] = None) -> None:
        """Wait until `write` has put all rules, or those of `endpoint`, in force. `what` names them in the error."""
        refused = f"{what} cannot be put in force"
        try:
            await write
        except _NotAllWritten as error:
            reason = _reason(error, endpoint)
            if reason is not None:
                raise AgentError(protocol.KERNEL, f"{refused}: {reason}") from error
        except repair.ERRORS as error:
            raise AgentError(protocol.KERNEL, f"{refused}: {error}") from error

    def begin_admission(self, id: str, endpoint: VethEndpoint) -> t.Optional[Write]:
        """Request a write of policy with all workloads being added, among them `id`, which is `endpoint`.

        Return the write, None without policy.
        """
        if not self._desired.has_policy:
            return None
        self._waiting.append(id)
        self._adding.append(endpoint)
        return self._admissions.written()

    async def admitted(self, write: Write, endpoint: VethEndpoint) -> None:
        """Wait until `write` has put policy for the workload `endpoint` in force, but for refused single chains."""
        await self.in_force(write, f"policy for workload {endpoint.namespace}/{endpoint.name}", endpoint)

    async def _write(self, write: Write) -> None:
        """Write sets and chains for all workloads; set `write.in_force` if no set and no whole table was refused."""

        def written() -> None:
            write.in_force = True

        ids, self._waiting = self._waiting, []
        adding, self._adding = self._adding, []
        state = self._desired.for_policy()
        if state is not None:
            async with transaction("policy apply", more=ids) as lines:
                applied = await self._stages.admit(state, written, adding)
                lines.ends("%d changes, %d refused", len(applied.done), len(applied.failed) + len(applied.aside))
            if applied.failed:
                raise _NotAllWritten(applied.failed, applied.unmade)


def _reason(error: _NotAllWritten, endpoint: t.Optional[VethEndpoint]) -> t.Optional[str]:
    """Return the first failed change that affects a workload, and why it failed; None without one.

    Without a workload every change counts. Sets that were not made because of another one count; single chains do not.
    """
    _change, reason = error.failed[-1]
    sets = [(change, reason) for change in error.unmade if change.kind == "ipset"]
    found = ((change, why) for change, why in (*error.failed, *sets) if endpoint is None or _concerns(change, endpoint))
    return next((f"{change.kind} {change.subject}: {why}" for change, why in found), None)


def _concerns(change: Change, endpoint: VethEndpoint) -> bool:
    """Return whether the failed change may affect this workload: all but sets of other workloads' addresses may."""
    if change.kind != "ipset" or change.new is None:
        return True
    _name, want = change.new
    return any(member.partition(",")[0] in endpoint.addresses for member in want.members)
