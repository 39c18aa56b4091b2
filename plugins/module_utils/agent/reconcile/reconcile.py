# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciler: it keeps the kernel at the desired state, whatever program changes it.

    monitor, polling, timers ── mark(kind) ──► dirty kinds ──► look ──► repair
                                                               reads    plans again and applies, under `turn`

A mark says only where to look, not what happened (stages.py). All additions of a pass come first, stage by stage, in
the drivers' order. Removals follow in reverse order, if they are allowed and nothing they could cut off has failed.
`turn`, the exclusive lock of all writers of the kernel, is released between the stages.

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
import typing as t

from ...dataplane.change import Change
from ...dataplane.drivers import workload
from ...dataplane.kernel.port import Kernel
from ...dataplane.planning.cached_drivers import CachedDrivers
from ...dataplane.planning.plan import NodePlan, plan_node
from ...state.node_state import NodeState
from ..concurrency.driver_thread import DriverThread, Worker
from ..known.policy_compilers import Make
from ..log.transactions import QuotedNames, transaction
from . import repair
from .kind_state import KindStates
from .pace import Pace
from .stages import Listener, Refresh, Stages, Wanted

_T = t.TypeVar("_T")

_TICK = 10.0  # the most seconds between two calls of on_tick while no pass is under way
_INTERIORS = 50  # the most network namespaces that a resync has one pass look into
_WITHHELD = 1.0  # the most seconds between two checks whether objects may be removed, or a desired state is known


class PassOutcome(t.NamedTuple):
    """The outcome of a pass: the changes made, and texts that say what failed and why, and what waits for a device.

    The texts are about all kinds, by the last attempt at each. `in_sync` is False if there are such failures, or if a
    kind that was not marked during the pass was never found with nothing missing since the start. Waiting objects,
    members left out of sets, and removals that are not allowed yet do not count against it; such members are not in
    `problems` either.
    """

    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()
    in_sync: bool = False
    waiting: tuple[str, ...] = ()


class Reconciler:
    """The reconciler of one node.

    It belongs to the running event loop; the coroutine `run()` must be a task for as long as the agent lives.

    `wanted` says what the node must have; `listener` is called with what is done. `turn` is the exclusive lock of all
    writers of the kernel. The desired state is read before a look, and again under `turn`. A caller that changes the
    desired state and the kernel holds or shares `turn` over both changes. Kinds are names of drivers. The parameter
    `run` is the Worker of the drivers' thread.
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

    # ---- for the other parts of the agent

    def mark(self, kind: t.Optional[str] = None, interiors: t.Collection[str] = ()) -> None:
        """Schedule a look at a kind (None: every kind), because its objects may have changed in the kernel.

        Do not wait.

        `interiors` are host ends of workloads whose namespaces the next look at workloads reads as well. Raise KeyError
        for an unknown kind.
        """
        kinds = self._kinds.names if kind is None else (kind,)
        self._kinds.doubt(kinds)
        self._stages.look_inside(interiors)
        self.expect(kinds)

    def expect(self, kinds: t.Iterable[str]) -> None:
        """Schedule a look at these kinds, because other objects of them may be desired than before. Do not wait.

        Raise KeyError for an unknown kind.
        """
        self._kinds.mark(kinds)
        self._wake.set()

    def desired(self) -> t.Optional[NodeState]:
        """Return what the node must have, without what takes time to compile; None before that is known."""
        return self._wanted.state()

    def whole(self, state: NodeState) -> Make:
        """Return a function that blocks and returns `state` with all that takes time to compile.

        Call that function in the drivers' thread. It raises PolicyNotCompiled if the policy cannot be compiled.
        """
        return self._wanted.whole(state)

    @property
    def state(self) -> t.Optional[NodeState]:
        """The desired state, without compiled policy, at the last look of a pass; None before the first one."""
        return self._stages.state

    @property
    def devices(self) -> t.Collection[str]:
        """The names of the devices that the desired routes lead through, as of the last pass that read the routes.

        It is empty before the first one.
        """
        return self._stages.devices

    @property
    def changed(self) -> t.Mapping[str, int]:
        """A mapping from kind (name of a driver) to the number of changes made; 0 for a kind that is not in it."""
        return self._stages.changed

    @property
    def in_sync(self) -> bool:
        """Whether no kind is marked for a look, none failed last, and each was once found with nothing missing.

        A refused single chain is a failure. Waiting objects, members left out of sets, and removals that are not
        allowed yet do not count against it.
        """
        return self._in_sync_but_for(()) and not self._kinds.dirty

    def brought_to(self, kind: str) -> t.Optional[NodeState]:
        """Return the last desired state whose objects of this kind were in the kernel.

        Objects that waited for their device, ended workloads, refused single chains, and members left out of sets may
        have been missing. Return None if there was no such state, or if the kind has other problems. Raise KeyError for
        an unknown kind.
        """
        return None if self._kinds[kind].problems else self._kinds[kind].complete

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """A mapping from kind (name of a driver) to what failed at the last attempt, and why; {} if nothing did.

        It includes refused single chains, and members that were left out of sets.
        """
        return _with(self._failures, self._drivers.sets.STEP.name, self._drivers.sets.left_out)

    @property
    def _failures(self) -> dict[str, tuple[str, ...]]:
        """A mapping from kind to what failed, and why, without members that were left out of sets."""
        return _with(self._kinds.problems, self._drivers.tables.STEP.name, self._drivers.tables.set_aside)

    def rules_mark(self, kernel: Kernel) -> t.Hashable:
        """Return a token that changes when this or another program may have written rules.

        It is None until rules were read, and without iptables. Call it in the drivers' thread; see CachedTables.mark.
        Raise KernelError if the kernel cannot be read.
        """
        return self._drivers.tables.mark(kernel)

    @property
    def waiting(self) -> dict[str, tuple[str, ...]]:
        """A mapping from kind to texts about objects that wait for their device, for kinds with any."""
        return self._kinds.waiting

    @property
    def dirty(self) -> tuple[str, ...]:
        """The kinds of objects that the next look reads."""
        return self._kinds.dirty

    async def run(self) -> None:
        """Look and repair until cancelled. What has begun in the drivers' thread is finished first."""
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
        """Look at all kinds now, or at these and those that are marked, and repair them.

        Return the outcome: all changes, and the problems at the end, those of other kinds too. Errors of reading or
        writing the node and of compiling policy become problems, and so does a desired state that is not known. Raise
        KeyError for an unknown kind.

        Unless `kinds` lacks workloads, their namespaces are looked into as well, in batches: an urgent repair need not
        wait for all of them.
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
        self._wake.set()  # for `run`, because a retry may be due
        return outcome

    async def ask(self, question: t.Callable[[Kernel], _T]) -> _T:
        """Call `question` with the kernel in the drivers' thread, and return its result or raise its error."""
        return await self._stages.ask(question)

    async def admit(self, state: NodeState, stands: t.Callable[[], None]) -> repair.Applied:
        """Add and correct the sets and rules that `state` and the workloads being added need; superfluous ones stay.

        Return what was applied. If the kernel refused a set or a whole table, `failed` is not empty. If it refused only
        single chains, they are in `aside`, and all else was written. `stands` is called in the drivers' thread if
        `failed` is empty. Raise PolicyNotCompiled if policy cannot be compiled, and ObserveError or KernelError if the
        kernel cannot be read or written at all.
        """
        return await self._stages.admit(state, stands)

    async def plan(self, wanted: t.Callable[[], NodeState]) -> NodePlan:
        """Return the changes that would bring the node to the state that `wanted` returns; make none.

        `wanted` is called on the loop before each look. If the first look finds changes, a second one is made, under
        `turn`. Raise ObserveError or KernelError if the kernel cannot be read, ObserveError too if an address of the
        node is on no interface, PolicyNotCompiled, and what `wanted` raises.
        """
        found = await self.look(wanted)
        if not found.changed:
            return found
        async with self._turn:
            return await self.look(wanted)

    async def look(self, wanted: t.Callable[[], NodeState]) -> NodePlan:
        """Return what `plan` returns, by one look without `turn`: objects half made by others may be in it.

        Raise ObserveError or KernelError if the kernel cannot be read, ObserveError too if an address of the node is on
        no interface, PolicyNotCompiled, and what `wanted` raises.
        """
        make = self._wanted.whole(wanted())
        return await self.ask(lambda kernel: plan_node(kernel, make(), registry=self._drivers.uncached))

    # ---- passes

    async def _sleep(self, seconds: float) -> None:
        """Return after `seconds`, at most 10, or earlier when `mark` or `expect` is called or a requested resync ends.

        Return after 1 second at most while removals are withheld, or while kinds are dirty and no state is known. If
        there is a look to do already, return at once.
        """
        self._wake.clear()
        if self._kinds.dirty and self._wanted.state() is not None:
            return
        seconds = min(seconds, _WITHHELD if self._kinds.withheld or self._kinds.dirty else _TICK)
        # asyncio.wait_for() is not used: before Python 3.12 it may lose a cancellation that coincides with the event.
        alarm = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    async def _pass(self, kinds: t.Collection[str] = ()) -> PassOutcome:
        """Look at the dirty kinds and `kinds`, and repair them. Return the outcome.

        Errors of reading or writing the node and of compiling policy become problems. While no desired state is known,
        the kinds only stay marked; the outcome says so. Raise KeyError for an unknown kind.
        """
        async with self._passing:
            self._kinds.mark(kinds)
            self._wake.clear()
            if self._wanted.state() is None:
                return PassOutcome(problems=("What this node shall have is not known yet.",))
            taken = self._kinds.take_dirty()
            async with transaction("repair pass", more=sorted(taken)) as lines:
                try:
                    changes = await self._through_stages(taken)
                except asyncio.CancelledError:
                    self._kinds.mark(taken)
                    raise
                # `problems` is a dict, because the same text may be a problem of several kinds and is reported once.
                known, waiting = self._failures, self._kinds.waiting
                problems = dict.fromkeys(text for kind in self._kinds.names for text in known.get(kind, ()))
                changed = QuotedNames(f"{change.kind} {change.subject}" for change in changes)
                lines.ends("%d problems, %d changes %s", len(problems), len(changes), changed)
            return PassOutcome(
                tuple(changes),
                tuple(problems),
                self._in_sync_but_for(self._kinds.dirty),
                tuple(text for texts in waiting.values() for text in texts),
            )

    async def _through_stages(self, taken: set[str]) -> list[Change]:
        """Look at the kinds `taken`, stage by stage, and repair them. Return the changes made.

        Kinds that follow what was changed are added to `taken`, and looked at as well if their stage is a later one.
        """
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
        """Return whether no failure stands and every kind but `marked` was found with nothing missing since the start.

        The failures of each kind's last attempt count, in whatever pass it was, and those of `marked` too; refused
        single chains are failures. Only that kinds were marked during a pass is not a fault of that pass.
        """
        return not self._failures and self._kinds.completed(but_for=marked)


def _with(problems: t.Mapping[str, tuple[str, ...]], kind: str, more: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return `problems` with the texts `more` added to one kind, each text once."""
    if not more:
        return dict(problems)
    return {**problems, kind: tuple(dict.fromkeys([*problems.get(kind, ()), *more]))}
