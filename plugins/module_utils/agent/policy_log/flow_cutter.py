# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of connections that a new policy or new labels deny, once in force (`calico_policy_cut_denied_flows`).

A thread of its own searches the connections, while the loop and the drivers go on. It does not know workloads that are
added meanwhile, so the connections that it would cut are judged again by the state of that later moment.
"""

from __future__ import annotations

import asyncio
import logging
import typing as t

from ...dataplane.kernel.port import Connection, Kernel, KernelError
from ...node.change.verdicts import denied_flows
from ...state.node_state import NodeState
from ...state.other_endpoints import OtherEndpoints
from ...state.policy_state import PolicyState
from ..concurrency.driver_thread import Worker

_log = logging.getLogger("calico.policy")


class FlowCutter:
    """The cutter of connections that policy denies. `on_cut` gets the number of connections that were cut, if any.

    `problem` says why the last cut failed, with the remedy; it is "" after a run to its end.
    """

    def __init__(self, kernel: Kernel, run: Worker, on_cut: t.Callable[[int], None] = lambda count: None) -> None:
        self._kernel = kernel
        self._run = run
        self._on_cut = on_cut
        self._turn = asyncio.Lock()
        self._done_for: t.Optional[_DoneFor] = None
        self.problem = ""

    def due(self, state: t.Optional[NodeState], version: t.Optional[int], labels: int = 0) -> bool:
        """Return whether policy wants cuts, and the last finished run did not judge by this policy and these labels.

        `version` is that of the other nodes' endpoints; with None they do not matter. `labels` is a number that changes
        whenever labels of attached workloads change.
        """
        if state is None or state.policy is None or not state.policy.settings.cut_denied_flows:
            return False
        done = self._done_for
        if done is None or version not in (None, done.version) or done.labels != labels:
            return True
        return done.policy is not state.policy and done.policy != state.policy

    async def cut(self, present: t.Callable[[], t.Optional[NodeState]], others: OtherEndpoints, labels: int = 0) -> int:
        """Cut the connections that policy denies, and return the number of those that were not cut already.

        It is 0 if no run is due. `present` is called on the event loop and returns the state with all workloads that
        can be reached, or None while its policy is not in force. A KernelError is logged and becomes the `problem`. The
        next call repeats a run that failed or during which the policy changed.
        """
        async with self._turn:
            state, version = present(), others.version
            if state is None or not self.due(state, version, labels):
                return 0
            try:
                count = await self._cut(state, present, others)
            except KernelError as error:
                self.problem = str(denied_flows.NotCut(error, "The agent tries again every ten seconds at least."))
                _log.warning("%s", self.problem)
                return 0
            if count is None:
                return 0
            self.problem = ""
            if state.policy is not None:
                self._done_for = _DoneFor(state.policy, version, labels)
            if count:
                _log.info("%d connection%s that policy denies now %s cut.", count, *_plural(count))
                self._on_cut(count)
            return count

    async def _cut(
        self, before: NodeState, present: t.Callable[[], t.Optional[NodeState]], others: OtherEndpoints
    ) -> t.Optional[int]:
        """Cut the connections that policy denies, and return the number; None, and cut none, if policy has changed."""
        kernel, version = self._kernel, others.version
        judged = await self._run(lambda: _judged(kernel, before, others))
        state = present()
        if state is None or state.policy is not before.policy:
            return None
        if not judged.ending and not judged.returning:
            return 0

        def work() -> int:
            if state is before and others.version == version:
                return judged.carry_out(kernel)
            return _judged(kernel, state, others, judged.in_question).carry_out(kernel)

        return await self._run(work)


class _DoneFor(t.NamedTuple):
    """The policy, version of other nodes' endpoints and labels by which connections were judged last."""

    policy: PolicyState
    version: int
    labels: int


def _judged(
    kernel: Kernel,
    state: NodeState,
    others: OtherEndpoints,
    connections: t.Optional[t.Iterable[Connection]] = None,
) -> denied_flows.Judged:
    return denied_flows.judged(kernel, state, others.endpoints(state.node), connections, others.live)


def _plural(count: int) -> tuple[str, str]:
    return ("", "was") if count == 1 else ("s", "were")
