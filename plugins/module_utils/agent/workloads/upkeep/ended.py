# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The deletion of workloads whose container ended without a DEL or a teardown.

A runtime that is killed between the answer of its plugin and its own record forgets the attachment, and removes the
namespace. No call names that container again, so its address would stay allocated until the next reboot.
"""

from __future__ import annotations

import asyncio
import logging
import typing as t

from ....dataplane.drivers.workload import without_trace
from ....wire.protocol import AgentError
from ..context import WorkloadContext
from ..delete import delete

_log = logging.getLogger("calico.ended")

#: The most seconds between two looks.
_INTERVAL = 60.0


class EndedWorkloads:
    """The periodic deletion of ended workloads. `grace` is the grace period in seconds of `clock`.

    Workloads of container runtimes alone are deleted: a user's namespace may come back under its name.
    """

    def __init__(self, on: WorkloadContext, grace: float, clock: t.Callable[[], float]) -> None:
        self._on = on
        self._grace = grace
        self._clock = clock
        self._noticed: dict[tuple[str, str], float] = {}  # id and attachment time: when its end was first noticed

    async def run(self) -> None:
        """Call `look` every 60 seconds until cancelled, or once per grace period if that is shorter."""
        while True:
            await self.look()
            await asyncio.sleep(min(_INTERVAL, max(self._grace, 1.0)))

    async def look(self) -> None:
        """Delete the workloads that every look of the whole grace period found ended. Log failures, to be retried."""
        now = self._clock()
        table = self._on.table
        found = {(one.id, one.since): table.endpoint(one) for one in table if one.container and not one.handed_over}
        try:
            ended = await self._on.in_kernel(without_trace, list(found.values())) if found else set()
            self._noticed = {key: self._noticed.get(key, now) for key, one in found.items() if one.interface in ended}
            for (id, since), noticed in list(self._noticed.items()):
                workload = table.get(id)
                if workload is None or workload.since != since or id in self._on.locks:
                    continue  # The runtime has begun a call for it meanwhile.
                if now - noticed >= self._grace:
                    await delete(self._on, id)
                    _log.warning("Workload %s is deleted: its namespace has been gone for %g s.", id, now - noticed)
        except AgentError as error:
            _log.warning("Workloads that ended cannot be checked: %s", error)
