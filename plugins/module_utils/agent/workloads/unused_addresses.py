# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses whose workload never came back: after a reboot, or because a container runtime forgot about it.

They are free again after a time of grace, as Calico's kube-controllers do it (leakGracePeriod, 15 minutes), unless the
workload comes back by then: it has the same address then.
"""

from __future__ import annotations

import asyncio
import logging
import typing as t

from .context import WorkloadContext
from .delete import release_unused, uses

_log = logging.getLogger("calico.unused_addresses")

#: Seconds between two looks.
_INTERVAL = 60.0


class UnusedAddresses:
    """`grace` is in seconds of `clock`."""

    def __init__(self, on: WorkloadContext, grace: float, clock: t.Callable[[], float]) -> None:
        self._on = on
        self._grace = grace
        self._clock = clock
        self._noticed: dict[str, float] = {}  # handle: when

    async def run(self) -> None:
        """For ever."""
        while True:
            await self.look()
            await asyncio.sleep(min(_INTERVAL, max(self._grace, 1.0)))

    async def look(self) -> None:
        if self._on.persisted.broken.keys() & {"ipam", "records"}:
            return  # what has no record to be seen may be in use
        now = self._clock()
        handles = [allocation.handle for allocation in self._on.persisted.ipam.allocations()]
        self._noticed = {handle: self._noticed.get(handle, now) for handle in handles if not uses(self._on, handle)}
        for handle, noticed in list(self._noticed.items()):
            if now - noticed >= self._grace and await release_unused(self._on, handle):
                _log.warning("The address of %s is free again: no such workload for %g s.", handle, self._grace)
