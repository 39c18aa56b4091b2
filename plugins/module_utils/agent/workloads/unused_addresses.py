# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The release of addresses whose workload never came back after a reboot, or was forgotten by a container runtime.

They are free again after a grace period, like those that Calico's kube-controllers release (leakGracePeriod, 15
minutes). If the workload comes back earlier, it keeps its address.
"""

from __future__ import annotations

import asyncio
import logging
import typing as t

from .context import WorkloadContext
from .delete import release_unused, uses

_log = logging.getLogger("calico.unused_addresses")

#: The most seconds between two checks.
_INTERVAL = 60.0


class UnusedAddresses:
    """The periodic release of unused addresses. `grace` is the grace period in seconds of `clock`."""

    def __init__(self, on: WorkloadContext, grace: float, clock: t.Callable[[], float]) -> None:
        self._on = on
        self._grace = grace
        self._clock = clock
        self._noticed: dict[str, float] = {}  # handle without a workload: when that was first noticed, by the clock

    async def run(self) -> None:
        """Call `look` until cancelled, every 60 seconds, or once per grace period if that is shorter.

        The pause is 1 second at least.
        """
        while True:
            await self.look()
            await asyncio.sleep(min(_INTERVAL, max(self._grace, 1.0)))

    async def look(self) -> None:
        """Check every allocation once, and release those that no check of the whole grace period found in use.

        The period begins when a call first finds an allocation without a workload, at the earliest at the agent's
        start. Do nothing while the journal or the records cannot be read. Refusals of the disk are logged and retried
        by the next call.
        """
        if self._on.persisted.broken.keys() & {"ipam", "records"}:
            return  # an address whose record cannot be read may be in use
        now = self._clock()
        handles = [allocation.handle for allocation in self._on.persisted.ipam.allocations()]
        self._noticed = {handle: self._noticed.get(handle, now) for handle in handles if not uses(self._on, handle)}
        for handle, noticed in list(self._noticed.items()):
            if now - noticed >= self._grace and await release_unused(self._on, handle):
                _log.warning("The address of %s is free again: no such workload for %g s.", handle, self._grace)
