# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciler: keeps the kernel at what is desired, whoever changes it.

    monitor, polling, timers ── mark(kind) ──► dirty kinds ──► look ──► repair
                                                               reads    plans again and applies, under `turn`

It is not told what happened, only where to look (stages.py). All additions of a pass come first, stage by stage, in the
drivers' order; then removals the other way, if they are allowed and nothing they could cut off has failed. The turn is
released between the stages.

A kind that failed is tried again after 0.1 s, 0.2 s and so on up to 10 s, and at once when it is marked; the others go
on. What waits for its device is not a failure: the device's coming is an event. Nor is a chain that the kernel refused
and all others stand beside: it is reported as a problem, holds nothing up, and is tried again when it is another one,
and by a resync. Passes follow at once on an event after quiet times, and at most ten a second in a storm of them
(pace.py).

Sets and rules are cached as they were read and written last. To `mark` them has them read again as far as that is
needed to know what is there; `expect` is for a caller that has changed only what is desired.
"""

from __future__ import annotations

import asyncio
import typing as t

from ...dataplane.cached_drivers import CachedDrivers
from ...dataplane.change import Change
from ...dataplane.drivers import workload
from ...dataplane.kernel.port import Kernel
from ...dataplane.plan import NodePlan, plan_node
from ...state.node_state import NodeState
from . import repair
from .driver_thread import DriverThread, Worker
from .kind_state import KindStates
from .pace import Pace
from .stages import Listener, Make, Refresh, Stages, Wanted

_T = t.TypeVar("_T")

_TICK = 10.0  # seconds without a sign of life at most
_INTERIORS = 50  # namespaces looked into in a pass, when it is all of them
_WITHHELD = 1.0  # seconds until it is asked again whether what is too much may go


class PassOutcome(t.NamedTuple):
    """Of a pass: what was changed, what could not be done and why, what waits for a device, and whether all is well.

    `in_sync` is False while something failed; what waits or is withheld from removal does not count against it.
    """

    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()
    in_sync: bool = False
    waiting: tuple[str, ...] = ()


class Reconciler:
    """Belongs to the running event loop; `run` is to be a task of it for as long as the agent lives.

    `wanted` says what the node shall have, `listener` hears what is done. What is desired is asked for while looking,
    and again under `turn`: a caller that changes both what is desired and the kernel holds `turn` over both changes.
    """

    def __init__(
        self,
        kernel: Kernel,
        wanted: Wanted,
        turn: t.AsyncContextManager[t.Any],
        listener: Listener,
        *,
        drivers: t.Optional[CachedDrivers] = None,
        run: t.Optional[Worker] = None,
        pace: t.Optional[Pace] = None,
    ) -> None:
        self._wanted = wanted
        self._turn = turn
        self._listener = listener
        self._drivers = CachedDrivers() if drivers is None else drivers
        self._pace = Pace() if pace is None else pace
        worker = DriverThread() if run is None else run
        self._kinds = KindStates(self._drivers.registry.names)
        self._stages = Stages(kernel, wanted, turn, listener, self._kinds, self._drivers, worker, self._pace)
        self._wake = asyncio.Event()
        self._passing = asyncio.Lock()

    # ---- for others

    def mark(self, kind: t.Optional[str] = None, interiors: t.Collection[str] = ()) -> None:
        """Have a kind looked at soon (None: every kind), because something of it may have changed in the kernel.

        `interiors` are host ends of workloads whose namespaces are looked into as well.
        """
        kinds = self._kinds.names if kind is None else (kind,)
        self._kinds.doubt(kinds)
        self._stages.look_inside(interiors)
        self.expect(kinds)

    def expect(self, kinds: t.Iterable[str]) -> None:
        """Have these kinds looked at soon, because something else of them may be desired than before."""
        self._kinds.mark(kinds)
        self._wake.set()

    def desired(self) -> t.Optional[NodeState]:
        """Return what the node shall have now, None before that is known."""
        return self._wanted.state()

    def whole(self, state: NodeState) -> Make:
        """Return what puts into a state, in the drivers' thread, all that takes time to make."""
        return self._wanted.whole(state)

    @property
    def state(self) -> t.Optional[NodeState]:
        """What was desired at the last look."""
        return self._stages.state

    @property
    def devices(self) -> t.Collection[str]:
        """Devices through which routes of `state` lead."""
        return self._stages.devices

    @property
    def changed(self) -> t.Mapping[str, int]:
        """{kind: changes made}, 0 for any other."""
        return self._stages.changed

    @property
    def in_sync(self) -> bool:
        """Everything was looked at, and nothing is known to be other than desired."""
        return self._in_sync_but_for(()) and not self._kinds.dirty

    def brought_to(self, kind: str) -> t.Optional[NodeState]:
        """Return the state of which nothing of this kind was missing at the last look, None if something was."""
        return None if self._kinds[kind].problems else self._kinds[kind].complete

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """{kind: what could not be done, and why}. What sets are without counts, though nothing waits for it."""
        return _with(self._failures, self._drivers.sets.STEP.name, self._drivers.sets.left_out)

    @property
    def _failures(self) -> dict[str, tuple[str, ...]]:
        """{kind: what failed, and why}"""
        return _with(self._kinds.problems, self._drivers.tables.STEP.name, self._drivers.tables.set_aside)

    def rules_mark(self, kernel: Kernel) -> t.Hashable:
        """Return a token that changes when rules may have been written. For the drivers' thread; see CachedTables."""
        return self._drivers.tables.mark(kernel)

    @property
    def waiting(self) -> dict[str, tuple[str, ...]]:
        """{kind: what waits for its device}"""
        return self._kinds.waiting

    @property
    def dirty(self) -> tuple[str, ...]:
        """The kinds of objects that the next look reads."""
        return self._kinds.dirty

    async def run(self) -> None:
        """Until cancelled. A pass that has begun in the driver thread is finished first."""
        loop = asyncio.get_running_loop()
        resync_at = loop.time() + self._pace.resync()
        self._listener.on_resync("start")
        while True:
            now = loop.time()
            if now >= resync_at:
                resync_at = now + self._pace.resync()
                self.mark()
                self._stages.refresh(Refresh.REFUSED)
                self._listener.on_resync("timer")
            self._kinds.mark(self._kinds.overdue(now))
            withheld = self._kinds.withheld
            if not self._kinds.dirty and withheld and self._wanted.may_remove():
                self._kinds.mark(withheld)
            if not self._kinds.dirty or self._wanted.state() is None:
                await self._sleep(self._kinds.next_retry(resync_at) - now)
                self._listener.on_tick()
                continue
            delay = self._pace.delay(now)
            if delay:
                await asyncio.sleep(delay)
            self._pace.passed()
            await self._pass()
            self._listener.on_tick()

    async def resync(self, kinds: t.Optional[t.Collection[str]] = None) -> PassOutcome:
        """Look at everything (or these kinds) once, now, namespaces included, and repair it.

        Namespaces are looked into some at a time, so that a repair that is urgent need not wait for all of them.
        """
        if kinds is None:
            self._listener.on_resync("request")
            self._stages.refresh(Refresh.ALL)
            kinds = self._kinds.names
        self._kinds.doubt(kinds)
        outcome = await self._pass(kinds)
        state = self._wanted.state()
        if state is not None and workload.STEP.name in kinds:
            interfaces = [endpoint.interface for endpoint in state.workloads]
            for start in range(0, len(interfaces), _INTERIORS):
                self._stages.look_inside(interfaces[start : start + _INTERIORS])
                inside = await self._pass((workload.STEP.name,))
                outcome = inside._replace(changes=outcome.changes + inside.changes)
        self._wake.set()  # there may be something to try again
        return outcome

    async def ask(self, question: t.Callable[[Kernel], _T]) -> _T:
        """Return the answer to a question that is put to the kernel in the drivers' thread."""
        return await self._stages.ask(question)

    async def admit(self, state: NodeState, stands: t.Callable[[], None]) -> repair.Applied:
        """Have sets and rules let through whom they shall in `state`, before that one can be reached.

        The caller has the turn for it, which others may share. `stands` is called in the drivers' thread when all of it
        is done. Raises one of repair.ERRORS.
        """
        return await self._stages.admit(state, stands)

    async def plan(self, wanted: t.Callable[[], NodeState]) -> NodePlan:
        """Return what it would take to bring the node to the state `wanted`; changes nothing.

        `wanted` is asked on the loop for each look. Raises ObserveError or KernelError, and what `wanted` raises.
        """
        found = await self.look(wanted)
        if not found.changed:
            return found
        async with self._turn:
            return await self.look(wanted)

    async def look(self, wanted: t.Callable[[], NodeState]) -> NodePlan:
        """Return what `plan` does, but what others have half done at the moment may be in it. Raises as `plan`."""
        make = self._wanted.whole(wanted())
        return await self.ask(lambda kernel: plan_node(kernel, make(), registry=self._drivers.uncached))

    # ---- passes

    async def _sleep(self, seconds: float) -> None:
        """Return when marked, or after so long; while something may be removed later only until that may be so."""
        self._wake.clear()
        if self._kinds.dirty and self._wanted.state() is not None:
            return
        seconds = min(seconds, _WITHHELD if self._kinds.withheld or self._kinds.dirty else _TICK)
        # Not wait_for: before Python 3.12 it forgets a cancellation that comes with the event.
        alarm = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    async def _pass(self, kinds: t.Collection[str] = ()) -> PassOutcome:
        """Look at what is dirty, and at these kinds, and repair it."""
        async with self._passing:
            self._kinds.mark(kinds)
            self._wake.clear()
            if self._wanted.state() is None:
                return PassOutcome(problems=("What this node shall have is not known yet.",))
            taken = self._kinds.take_dirty()
            try:
                changes = await self._through_stages(taken)
            except asyncio.CancelledError:
                self._kinds.mark(taken)
                raise
            # One reason may have kept several kinds from being read.
            known, waiting = self._failures, self._kinds.waiting
            problems = dict.fromkeys(text for kind in self._kinds.names for text in known.get(kind, ()))
            return PassOutcome(
                tuple(changes),
                tuple(problems),
                self._in_sync_but_for(self._kinds.dirty),
                tuple(text for texts in waiting.values() for text in texts),
            )

    async def _through_stages(self, taken: set[str]) -> list[Change]:
        """Repair the kinds `taken`, to which their followers are added. Return what was done."""
        registry = self._drivers.registry
        changes: list[Change] = []
        superfluous: set[str] = set()
        for stage in registry.stages:
            here = taken.intersection(stage)
            found = await self._stages.look(here) if here else None
            if found is None:
                continue
            superfluous |= found.removed
            if found.added:
                done = await self._stages.add(stage, found)
                changes += done
                taken |= registry.followers(map(registry.name_of, done))
        for stage in reversed(registry.stages):
            going = superfluous.intersection(stage)
            if going:
                changes += await self._stages.remove(going)
        return changes

    def _in_sync_but_for(self, marked: t.Collection[str]) -> bool:
        """Return whether all is well but for these kinds: what is marked during a pass is no fault of that pass."""
        return not self._failures and self._kinds.completed(but_for=marked)


def _with(problems: t.Mapping[str, tuple[str, ...]], kind: str, more: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return `problems` with `more` of one kind, each text once."""
    if not more:
        return dict(problems)
    return {**problems, kind: tuple(dict.fromkeys([*problems.get(kind, ()), *more]))}
