# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop of the reconciler, which keeps the kernel at the desired state: it says when a pass is made.

    monitor, polling, timers ── mark(kind) ──► dirty kinds ──► look ──► repair
                                                               reads    plans again and applies, under `write_lock`

A mark says only where to look, not what happened (stages.py). passes.py says what a pass looks at and repairs.

A kind that failed is retried after 0.1 s, 0.2 s and so on up to 10 s, and at once when it is marked; the others
continue. An object that waits for its device is not a failure, because an event announces the device. If the kernel
refuses a single chain, the others are written all the same. That chain is reported as a problem and delays nothing. It
is retried when its rules change, after sets were added, and by a resync. Passes follow events at once after quiet
times, and about ten times a second at most in a storm of events (pace.py).

Sets and rules are cached as they were last read and written. After `mark` they are read again as far as necessary.
`expect` is for callers that have changed only the desired state.
"""

from __future__ import annotations

import asyncio
import logging
import typing as t

from ...dataplane.drivers import iptables
from ...dataplane.kernel.port import KernelError
from ...dataplane.planning.cached_drivers import CachedDrivers
from ..known.host import AgentHost
from ..known.known import Known
from .pace import Pace
from .passes import Passes
from .stages import Listener, Refresh, Stages, Wanted

_log = logging.getLogger("calico.agent")

_BETWEEN_ATTEMPTS = 1.0  # seconds between two looks whether the rules are in force after the start

_TICK = 10.0  # the most seconds between two calls of on_tick while no pass is under way
_WITHHELD = 1.0  # the most seconds between two checks whether objects may be removed, or a desired state is known


class Loop:
    """The loop that makes `passes`. The coroutine `run()` must be a task for as long as the agent lives."""

    def __init__(self, passes: Passes) -> None:
        self.passes = passes
        self._stages = passes.stages
        self._kinds = passes.stages.kinds
        self._pace = passes.stages.pace

    @classmethod
    def from_host(
        cls, host: AgentHost, known: Known, excluded: t.Callable[[], t.Collection[str]], listener: Listener
    ) -> Loop:
        """Return the loop for what is `known` of a host; see Wanted for `excluded`."""
        stages = Stages(
            host.kernels(),
            Wanted(known.desired.without_policy, known.may_remove, excluded, known.desired.with_policy),
            host.rwlock,
            listener,
            drivers=CachedDrivers(host.clock),
            run=host.thread("drivers"),
            pace=Pace(host.settings.resync_interval),
        )
        return cls(Passes(stages))

    async def run(self, on_tick: t.Callable[[], None] = lambda: None) -> None:
        """Look and repair until cancelled; `on_tick` is called after each pass, and every ten seconds without one."""
        loop = asyncio.get_running_loop()
        resync_at = loop.time() + self._pace.resync()
        self._stages.listener.on_resync("start")
        while True:
            now = loop.time()
            if now >= resync_at:
                resync_at = now + self._pace.resync()
                self._stages.mark()
                self._stages.refresh(Refresh.REFUSED)
                self._stages.listener.on_resync("timer")
            self._kinds.mark(self._kinds.overdue(now))
            withheld = self._kinds.withheld
            if not self._kinds.dirty and withheld and self._stages.wanted.may_remove():
                self._kinds.mark(withheld)
            if not self._kinds.dirty or self._stages.wanted.state() is None:
                await self._sleep(self._kinds.next_retry(resync_at) - now)
                on_tick()
                continue
            delay = self._pace.delay(now)
            if delay:
                await asyncio.sleep(delay)
            self._pace.passed()
            await self.passes.make()
            on_tick()

    async def _sleep(self, seconds: float) -> None:
        """Return after `seconds`, at most 10, or earlier when `mark` or `expect` is called or a requested resync ends.

        Return after 1 second at most while removals are withheld, or while kinds are dirty and no state is known.
        """
        self._stages.wake.clear()
        if self._kinds.dirty and self._stages.wanted.state() is not None:
            return
        seconds = min(seconds, _WITHHELD if self._kinds.withheld or self._kinds.dirty else _TICK)
        # asyncio.wait_for() is not used: before Python 3.12 it may lose a cancellation that coincides with the event.
        alarm = asyncio.get_running_loop().call_later(seconds, self._stages.wake.set)
        try:
            await self._stages.wake.wait()
        finally:
            alarm.cancel()

    async def mark_after(self, seconds: float) -> None:
        """Mark everything for a look after this time, because removals may be allowed then. Never return."""
        await asyncio.sleep(seconds)
        self._stages.mark()
        await asyncio.Event().wait()

    async def end_stale_flows(self) -> None:
        """Delete connections that NAT translates otherwise, once the rules are in force after the start. Never return.

        The last agent may have been killed between a write of the rules and this, and other programs may have flushed
        and restored the rules meanwhile. After its own writes, the driver does the same.
        """
        while (state := self.passes.brought_to(iptables.STEP.name)) is None:
            await asyncio.sleep(_BETWEEN_ATTEMPTS)
        tables = state.iptables
        try:
            await self._stages.ask(lambda kernel: iptables.delete_stale(kernel, tables))
        except KernelError as error:
            _log.warning("Running flows may keep a translation from before the start of the agent: %s", error)
        await asyncio.Event().wait()
