# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's interfaces and their addresses, for HostEndpoints that are identified by an address."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import typing as t

from ...dataplane.change import ObserveError
from ...dataplane.kernel.port import KernelError
from ...node import desired
from ...state.node_policy_tables import needs_interfaces
from ...state.node_state import NodeState
from ..known.known import Known
from ..reconcile.stages import Stages
from ..workloads.admission import PolicyUpdates

_log = logging.getLogger("calico.agent")


class HostInterfaces:
    """The updater of DesiredState.interfaces. It reads them at least every `interval` seconds if policy needs them."""

    def __init__(self, known: Known, policy: PolicyUpdates, stages: Stages, interval: float) -> None:
        self._persisted = known.persisted
        self._desired = known.desired
        self._policy = policy
        self._stages = stages
        self._interval = interval
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Note that an address of the host changed, so that `run` reads the interfaces soon. Do not wait."""
        self._changed.set()

    async def look(self, state: t.Optional[NodeState]) -> None:
        """Read the interfaces if the policy of `state` needs them, and update policy if they changed. Log failures."""
        if state is None or not needs_interfaces(state):
            return
        try:
            seen = await self._stages.ask(lambda kernel: desired.interfaces_of(kernel, state))
        except (ObserveError, KernelError) as error:
            _log.warning("The host's interfaces cannot be read: %s", error)
            return
        if seen != self._desired.interfaces:
            self._desired.interfaces = seen
            self._policy.workloads_changed()

    async def run(self) -> None:
        """Read the interfaces as `look` does, after reported changes of addresses, or an interval after the last read.

        It never returns. Changes of link-local IPv6 addresses are not reported: the interval is for those.
        """
        while True:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self._interval)
            self._changed.clear()
            await self.look(self._persisted.state)
