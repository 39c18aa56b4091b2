# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time at which connections that policy denies are cut: once the desired policy and labels are in force."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import typing as t

from ...dataplane.planning.registry import REGISTRY
from ...state.node_state import NodeState
from ...state.remote_endpoints import RemoteEndpoints
from ..known.host import AgentHost
from ..known.known import Known
from ..reconcile.passes import Passes
from .flow_cutter import FlowCutter

_PAUSE = 10.0  # seconds between two cuts because of other nodes' workloads; many of these may come and go


class FlowCuts:
    """The decision when connections that policy denies are cut, on the event loop. `on_cut` gets their number.

    `is_trying` returns whether a trial of live policy is in force. It may end, so no connection is cut meanwhile.
    """

    def __init__(
        self,
        host: AgentHost,
        known: Known,
        passes: Passes,
        on_cut: t.Callable[[int], None],
        is_trying: t.Callable[[], bool],
    ) -> None:
        self._cutter = FlowCutter(host.kernels(), host.thread("flows"), on_cut)
        self._persisted = known.persisted
        self._table = known.table
        self._desired = known.desired
        self._passes = passes
        self._is_trying = is_trying
        self._clock = host.clock
        self._cut_at = host.clock() - _PAUSE
        self._task: t.Optional[asyncio.Future[None]] = None

    async def cut(self) -> None:
        """Cut the connections that policy denies if policy wants that and is in force, and return when that is done.

        Connections that were cut before and that policy allows go on. Do nothing if that was done for the present
        policy, labels and other nodes' endpoints. A failure of the kernel is logged and becomes the `problem`; the next
        call retries.
        """
        remote, labels = self._persisted.remote, self._table.relabellings
        if self._due() and self._in_force(remote) is not None:
            self._cut_at = self._clock()
            await self._cutter.cut(functools.partial(self._in_force, remote), self._persisted.others, labels)

    def cut_soon(self) -> None:
        """Start `cut` in the background if connections are to be judged and the last one that this started has ended.

        Endpoints of other nodes alone are a reason ten seconds after the last cut at the earliest, because each cut has
        to judge all connections.
        """
        if self._task is not None and not self._task.done():
            return
        rested = self._clock() - self._cut_at >= _PAUSE
        if self._due() if rested else self._due(but_for_others=True):
            self._task = asyncio.ensure_future(self.cut())

    @property
    def problem(self) -> str:
        """Why connections that policy denies could not be cut, with the remedy; "" if that was done or is not due."""
        return self._cutter.problem if self._cutter.problem and self._due() else ""

    def _due(self, but_for_others: bool = False) -> bool:
        if self._is_trying():
            return False
        version = None if but_for_others else self._persisted.others.version
        return self._cutter.due(self._desired.cached, version, self._table.relabellings)

    def _in_force(self, remote: RemoteEndpoints) -> t.Optional[NodeState]:
        """Return the desired state with the workloads that are being added, which may be reachable already.

        Return None unless sets and rules are of the present policy and labels, and of `remote`, the present reports of
        other nodes. Refused single chains do not matter.
        """
        desired = self._desired.without_policy() if remote is self._persisted.remote else None
        if desired is None:
            return None
        labels = {one.interface: one.labels for one in desired.workloads}
        for state in (self._passes.brought_to(kind) for kind in REGISTRY.guards):
            if state is None or state.policy is not desired.policy or self._desired.is_outdated(state):
                return None
            if any(labels.get(one.interface, one.labels) != one.labels for one in state.workloads):
                return None
        coming = self._table.coming()
        return dataclasses.replace(desired, workloads=(*desired.workloads, *coming)) if coming else desired
