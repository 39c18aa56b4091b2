# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The release of addresses whose workload never came back after a reboot, or was forgotten by a container runtime.

They are free again after a grace period, like those that Calico's kube-controllers release (leakGracePeriod, 15
minutes). If the workload comes back earlier, it keeps its address. A workload that was handed over is forgotten, and
deleted, if no container has its inner end.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import typing as t

from ....dataplane.drivers.workload import left_here
from ....ipam.allocations import RESERVED
from ....wire.protocol import AgentError
from ..context import WorkloadContext
from ..delete import delete, release_unused, uses

_log = logging.getLogger("calico.unused_addresses")

#: The most seconds between two checks.
_INTERVAL = 60.0
#: The least seconds of grace for what a container engine asked for: it takes and moves it in calls of its own.
_ENGINES = 10.0


class UnusedAddresses:
    """The periodic release of unused addresses. `grace` is the grace period in seconds of `clock`."""

    def __init__(self, on: WorkloadContext, grace: float, clock: t.Callable[[], float]) -> None:
        self._on = on
        self._grace = grace
        self._engines = max(grace, _ENGINES)
        self._clock = clock
        self._forgotten: frozenset[str] = frozenset()  # handles and ids from before the start of their engine
        self._asked = asyncio.Event()
        self._noticed: dict[str, float] = {}  # handle without a workload: when that was first noticed, by the clock
        self._left: dict[str, float] = {}  # the same for ids of workloads that were handed over and are in no container

    def engine_started(self) -> None:
        """Shorten the grace period to 10 seconds for what a container engine asked for until now, and look at once.

        An engine that has just started knows neither the addresses that are reserved nor the workloads that are in no
        container: it deletes what it knows of by itself.
        """
        if "ipam" in self._on.persisted.broken:
            return
        handles = [allocation.handle for allocation in self._on.persisted.ipam.allocations()]
        self._forgotten = frozenset(
            [handle for handle in handles if handle.startswith(RESERVED)]
            + [workload.id for workload in self._on.table if workload.handed_over]
        )
        self._asked.set()

    async def run(self) -> None:
        """Call `look` every 60 seconds until cancelled, or more often with a shorter grace period or a new engine."""
        while True:
            self._asked.clear()
            await self.look()
            pause = min(_INTERVAL, max(self._grace, 1.0))
            if self._forgotten & (self._noticed.keys() | self._left.keys()):
                pause = min(pause, _ENGINES)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._asked.wait(), pause)

    async def look(self) -> None:
        """Check every allocation once, and release those that no check of the whole grace period found in use.

        The period begins when a call first finds an allocation without a workload. Do nothing while the journal or the
        records cannot be read; records are read again. Refusals of the disk are logged and retried by the next call.
        """
        if self._on.persisted.recheck_records(functools.partial(uses, self._on)):
            self._on.policy.workloads_changed()  # They are published again, and leftovers may go.
        if self._on.persisted.broken.keys() & {"ipam", "records"}:
            return  # an address whose record cannot be read may be in use
        now = self._clock()
        handles = [allocation.handle for allocation in self._on.persisted.ipam.allocations()]
        self._noticed = {handle: self._noticed.get(handle, now) for handle in handles if not uses(self._on, handle)}
        for handle, noticed in list(self._noticed.items()):
            grace = self._grace_of(handle) if handle.startswith(RESERVED) else self._grace
            if now - noticed >= grace and await release_unused(self._on, handle):
                _log.warning("The address of %s is free again: no such workload for %g s.", handle, grace)
        await self._look_at_handed_over(now)

    def _grace_of(self, id: str) -> float:
        """Return the seconds of grace of a reservation, or of a workload that was handed over."""
        return _ENGINES if id in self._forgotten else self._engines

    async def _look_at_handed_over(self, now: float) -> None:
        """Delete the workloads that were handed over and that no look of the grace period found in a container."""
        table = self._on.table
        endpoints = {one.id: table.endpoint(one) for one in table if one.handed_over}
        if not endpoints:
            self._left = {}
            return
        try:
            left = await self._on.in_kernel(left_here, list(endpoints.values()))
            self._left = {id: self._left.get(id, now) for id, one in endpoints.items() if one.interface in left}
            for id, noticed in list(self._left.items()):
                if now - noticed >= self._grace_of(id):
                    addresses = table.need(id).addresses
                    await delete(self._on, id)
                    for address in addresses:
                        await self._on.addresses.unreserve(address)
                    _log.warning("Workload %s is deleted: it was in no container for %g s.", id, now - noticed)
        except AgentError as error:
            _log.warning("Workloads that were handed over cannot be checked: %s", error)
