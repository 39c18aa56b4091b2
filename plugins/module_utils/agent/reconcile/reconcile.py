# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciler: keeps the kernel at what is desired, whoever changes it.

    monitor, polling, timers ── mark(kind) ──► dirty kinds ──► look ──► repair
                                                               reads    plans again and applies, under `turn`

Nobody tells it what happened, only where to look. A look reads without holding anything up; what it finds may be half
of an attachment that is just being made, so a repair plans afresh once it has the turn, and reads what is desired then:
nothing is judged by a desired state that is older than the kernel it is compared with. All additions of a pass come
first, kind by kind, in the drivers' order; then removals the other way, if they are allowed and nothing they could
cut off has failed. The turn is let go between the kinds.

A kind that failed is tried again after 0.1 s, 0.2 s and so on up to 10 s, and at once when it is marked; the others go
on. What waits for its device is not a failure: the device's coming is an event. Nor is a chain that the kernel refused
and all others stand beside: it is told as a problem, holds nothing up, and is tried again when it is another one, and
by a resync. Passes follow at once on an event after quiet times, and at most ten a second, by a leaky bucket, in a
storm of them.

Sets and rules are remembered as they were read and written last; to `mark` them is to have them read again as far as
that is needed to know what is there, and `expect` is for who has changed what is desired alone.
"""

from __future__ import annotations

import asyncio
import collections
import random
import typing as t

from ...dataplane.cached_drivers import CachedDrivers
from ...dataplane.change import Change
from ...dataplane.driver import Registry
from ...dataplane.kernel.port import Kernel
from ...dataplane.plan import NodePlan, plan_node
from ...state.node_state import NodeState
from . import repair
from .driver_thread import DriverThread, Worker

_T = t.TypeVar("_T")

#: Makes a state in the drivers' thread, of what was true on the loop at one moment.
Make = t.Callable[[], NodeState]

RESYNC = 90.0  # seconds between two looks at everything, on the average

_FIRST_RETRY, _LAST_RETRY = 0.1, 10.0  # seconds
_RATE = 10.0  # passes a second in the long run
_WINDOW = 0.1  # seconds that marks are gathered at most
_TICK = 10.0  # seconds without a sign of life at most
_INTERIORS = 50  # namespaces looked into in a pass, when it is all of them
_WITHHELD = 1.0  # seconds until it is asked again whether what is too much may go


class Outcome(t.NamedTuple):
    """Of a pass: what was changed, what could not be done and why, what waits for a device, and whether all is well.

    `in_sync` is False while something failed; what waits or is withheld from removal does not count against it.
    """

    changes: tuple[Change, ...] = ()
    problems: tuple[str, ...] = ()
    in_sync: bool = False
    waiting: tuple[str, ...] = ()


class _Bucket:
    """Lets single passes through at once and slows a stream of them down to `_RATE`."""

    def __init__(self) -> None:
        self._level = 0.0
        self._at = 0.0

    def delay(self, now: float) -> float:
        """Seconds to wait before a pass."""
        self._level = max(0.0, self._level - (now - self._at) * _RATE)
        self._at = now
        return min(_WINDOW, self._level * _WINDOW / 10) if self._level >= 1 else 0.0

    def passed(self) -> None:
        self._level = min(self._level + 1, 20.0)


class Reconciler:
    """Belongs to the running event loop; `run` is to be a task of it for as long as the agent lives.

    `desired` gives what the node shall have now, None before that is known; it is asked on the loop, while looking and
    again under `turn`. Whoever changes both what is desired and the kernel holds `turn` over both changes. `whole` is
    for what follows from that and takes time to make, policy's rules and sets. It is called on the loop, in one step
    with `desired`: what else it depends on is that of the same moment. What it gives is called in the drivers' thread,
    and puts them in.
    `removals`: whether what is not desired may go now. `on_change(change, drift)` is told of every change made; drift
    is what nobody asked for: a change that the desired state before this one would have brought as well. What is found
    by the first look after the start is not. `on_step(kinds, seconds)` is told how long `turn` was held, and `on_tick`
    is called after each pass, and every ten seconds at least. `excluded` are host ends
    and workloads (<namespace>/<name>) that somebody else is removing.
    `on_resync(reason)` is told when all is to be looked at (start, timer, request), `on_failure(kind)` of each failure,
    `on_ended(change)` once of each workload that is not repaired because its namespace is gone, with the reason.
    """

    def __init__(
        self,
        kernel: Kernel,
        desired: t.Callable[[], t.Optional[NodeState]],
        turn: t.AsyncContextManager[t.Any],
        *,
        removals: t.Callable[[], bool],
        on_change: t.Callable[[Change, bool], None],
        on_step: t.Callable[[tuple[str, ...], float], None] = lambda kinds, seconds: None,
        on_tick: t.Callable[[], None] = lambda: None,
        on_resync: t.Callable[[str], None] = lambda reason: None,
        on_failure: t.Callable[[str], None] = lambda kind: None,
        on_ended: t.Callable[[Change], None] = lambda change: None,
        excluded: t.Callable[[], t.Collection[str]] = tuple,
        whole: t.Callable[[NodeState], Make] = lambda state: lambda: state,
        run: t.Optional[Worker] = None,
        interval: float = RESYNC,
        chance: t.Callable[[], float] = random.random,
        drivers: t.Optional[CachedDrivers] = None,
    ) -> None:
        self._kernel = kernel
        self.desired = desired
        self._turn = turn
        self._may_remove = removals
        self._on_change = on_change
        self._on_step = on_step
        self._on_tick = on_tick
        self._on_resync = on_resync
        self._on_failure = on_failure
        self._on_ended = on_ended
        self._excluded = excluded
        self.whole = whole
        self._drivers = CachedDrivers() if drivers is None else drivers
        self._registry = self._drivers.registry
        self._run: Worker = run if run is not None else DriverThread()
        self._interval = interval
        self._chance = chance
        self._wake = asyncio.Event()
        self._passing = asyncio.Lock()
        self._bucket = _Bucket()
        self._dirty: set[str] = set(self._registry.names)
        self._doubted: set[str] = set()  # kinds that somebody else may have written
        self._retry = False  # what was refused is to be tried again
        self._anew = False  # and nothing that is remembered is to be believed
        self._interiors: set[str] = set()
        self._problems: dict[str, tuple[str, ...]] = {}
        self._waiting: dict[str, tuple[str, ...]] = {}
        self._withheld: set[str] = set()  # has too much of it, and that may not go yet
        self._blocked: set[str] = set()  # has too much of it, and something failed that needs it
        self._removing: set[str] = set()  # of the kinds with problems, those where only removing fails
        self._attempts: dict[str, int] = {}
        self._retry_at: dict[str, float] = {}
        # The last states of which nothing was missing, and of which nothing was too much.
        self._ended: set[tuple[str, str]] = set()  # workloads that ended with their namespace, and why
        self._complete: dict[str, NodeState] = {}
        self._lean: dict[str, NodeState] = {}
        # {kind: what is too much of it and stays for somebody who uses it}: that it goes afterwards is nobody's doing
        self._kept: dict[str, set[tuple[str, str]]] = {}
        self.state: t.Optional[NodeState] = None  # what was desired at the last look
        self.devices: t.Collection[str] = ()  # through which its routes lead
        self.changed: collections.Counter[str] = collections.Counter()  # {kind: changes made}

    # ---- for others

    def mark(self, kind: t.Optional[str] = None, interiors: t.Collection[str] = ()) -> None:
        """Something of this kind (of any kind: None) may have changed: look at it soon.

        `interiors`: host ends of workloads whose namespaces are to be looked into as well.
        """
        kinds = self._registry.names if kind is None else (kind,)
        self._doubted.update(kinds)
        self._interiors.update(interiors)
        self.expect(kinds)

    def expect(self, kinds: t.Iterable[str]) -> None:
        """Something else of these kinds may be desired than before: look at them soon."""
        self._dirty.update(kinds)
        self._wake.set()

    @property
    def in_sync(self) -> bool:
        """Everything was looked at, and nothing is known to be other than desired."""
        return self._in_sync_but_for(()) and not self._dirty

    def brought_to(self, kind: str) -> t.Optional[NodeState]:
        """The state of which nothing of this kind was missing when it was looked at last."""
        return None if kind in self._problems else self._complete.get(kind)

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """{kind: what could not be done, and why}. What sets are without counts, though nothing waits for it."""
        left_out = self._drivers.sets.left_out
        return _with(self._failures, "ipset", left_out) if left_out else self._failures

    @property
    def _failures(self) -> dict[str, tuple[str, ...]]:
        """{kind: what failed, and why}"""
        return _with(self._problems, "iptables", self._drivers.tables.set_aside)

    def rules_mark(self, kernel: Kernel) -> t.Hashable:
        """In the drivers' thread: another one when somebody may have written rules since; see CachedTables.mark."""
        return self._drivers.tables.mark(kernel)

    @property
    def waiting(self) -> dict[str, tuple[str, ...]]:
        """{kind: what waits for its device}"""
        return dict(self._waiting)

    @property
    def dirty(self) -> tuple[str, ...]:
        """Kinds that will be looked at next."""
        return tuple(kind for kind in self._registry.names if kind in self._dirty)

    async def run(self) -> None:
        """Until cancelled. A pass that has begun in the driver thread is finished first."""
        loop = asyncio.get_running_loop()
        resync_at = loop.time() + self._jittered(self._interval)
        self._on_resync("start")
        while True:
            now = loop.time()
            if now >= resync_at:
                resync_at = now + self._jittered(self._interval)
                self.mark()
                self._retry = True
                self._on_resync("timer")
            self._dirty.update(kind for kind, at in self._retry_at.items() if at <= now)
            if not self._dirty and self._withheld and self._may_remove():
                self._dirty |= self._withheld
            if not self._dirty or self.desired() is None:
                await self._sleep(min([resync_at, *self._retry_at.values()]) - now)
                self._on_tick()
                continue
            delay = self._bucket.delay(now)
            if delay:
                await asyncio.sleep(delay)
            self._bucket.passed()
            await self._pass()
            self._on_tick()

    async def resync(self, kinds: t.Optional[t.Collection[str]] = None) -> Outcome:
        """Looks at everything (or these kinds) once, now, namespaces included, and repairs it.

        Namespaces are looked into some at a time, so that a repair that is urgent need not wait for all of them.
        """
        if kinds is None:
            self._on_resync("request")
            self._anew = True
            kinds = self._registry.names
        self._doubted.update(kinds)
        outcome = await self._pass(kinds)
        state = self.desired()
        if state is not None and "workload" in kinds:
            interfaces = [endpoint.interface for endpoint in state.workloads]
            for start in range(0, len(interfaces), _INTERIORS):
                self._interiors.update(interfaces[start : start + _INTERIORS])
                inside = await self._pass(("workload",))
                outcome = inside._replace(changes=outcome.changes + inside.changes)
        self._wake.set()  # there may be something to try again
        return outcome

    async def ask(self, question: t.Callable[[Kernel], _T]) -> _T:
        """Has something read in the driver thread."""
        return await self._run(lambda: question(self._kernel))

    async def admit(self, state: NodeState, stands: t.Callable[[], None]) -> repair.Applied:
        """Has sets and rules let through whom they shall in `state`, before that one can be reached: all that is to be
        added or changed of them. Whoever calls has the turn for it, which others may share.

        `stands` is called in the drivers' thread when all of it is done. Raises one of repair.ERRORS.
        """
        make = self.whole(state)
        before = {kind: self._complete.get(kind) for kind in self._registry.guards}

        def work() -> tuple[NodeState, repair.Applied, set[tuple[t.Any, ...]]]:
            whole = make()
            planned = repair.plan(self._kernel, whole, self._registry.guards, self._registry)
            drift = self._drift(planned.additions, whole, before)
            applied = repair.additions(self._kernel, planned)
            if not applied.failed:
                stands()
            return whole, applied, drift

        whole, applied, drift = await self._run(work)
        if not applied.failed:
            self._complete.update(dict.fromkeys(self._registry.guards, whole))
        self._told(applied.done, drift)
        return applied

    async def plan(self, wanted: t.Callable[[], NodeState]) -> NodePlan:
        """What it would take to bring the node to the state `wanted`, which is asked on the loop for each look; changes
        nothing. Raises ObserveError or KernelError, and what `wanted` raises."""

        found = await self.look(wanted)
        if not found.changed:
            return found
        async with self._turn:
            return await self.look(wanted)

    async def look(self, wanted: t.Callable[[], NodeState]) -> NodePlan:
        """Like plan(), but what others have half done at the moment may be in it."""
        make = self.whole(wanted())
        return await self._run(lambda: plan_node(self._kernel, make()))

    # ---- passes

    async def _sleep(self, seconds: float) -> None:
        """Until marked, or for so long; while something may be removed later only until that may be so."""
        self._wake.clear()
        if self._dirty and self.desired() is not None:
            return
        seconds = min(seconds, _WITHHELD if self._withheld or self._dirty else _TICK)
        # Not wait_for: before Python 3.12 it forgets a cancellation that comes with the event.
        alarm = asyncio.get_running_loop().call_later(seconds, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    def _jittered(self, seconds: float) -> float:
        """Nodes that started together do not stay together."""
        return seconds * (0.9 + 0.2 * self._chance())

    async def _pass(self, kinds: t.Collection[str] = ()) -> Outcome:
        async with self._passing:
            self._dirty.update(kinds)
            self._wake.clear()
            if self.desired() is None:
                return Outcome(problems=("What this node shall have is not known yet.",))
            taken, self._dirty = self._dirty, set()
            changes: list[Change] = []
            superfluous: set[str] = set()
            try:
                for step in self._registry.stages:
                    here = taken.intersection(step)
                    if here:
                        found = await self._look(here)
                        if found is None:
                            continue
                        superfluous |= found.removed
                        if found.added:
                            done = await self._repair(step, found.added, found.additions)
                            changes += done
                            taken.update(self._registry.followers(map(self._registry.name_of, done)))
                for step in reversed(self._registry.stages):
                    going = superfluous.intersection(step)
                    if going:
                        changes += await self._remove(going)
            except asyncio.CancelledError:
                self._dirty |= taken
                raise
            # One reason may have kept several kinds from being read.
            known = self._failures
            problems = tuple(dict.fromkeys(text for kind in self._registry.names for text in known.get(kind, ())))
            waiting = tuple(text for kind in self._registry.names for text in self._waiting.get(kind, ()))
            return Outcome(tuple(changes), problems, self._in_sync_but_for(self._dirty), waiting)

    def _in_sync_but_for(self, marked: t.Collection[str]) -> bool:
        """What was marked during a pass is no fault of that pass."""
        return not self._failures and all(kind in self._complete for kind in self._registry.names if kind not in marked)

    async def _look(self, kinds: t.Collection[str]) -> t.Optional[_Found]:
        """Reads these kinds. None when that failed: they are tried again later."""
        state = self.desired()
        if state is None:
            self._dirty.update(kinds)
            return None
        self.state = state
        make, interiors = self._making(state, kinds), self._inside(state) if "workload" in kinds else set()
        doubted, self._doubted = self._doubted.intersection(kinds), self._doubted.difference(kinds)
        anew = retry = False
        if "iptables" in kinds:
            (anew, retry), (self._anew, self._retry) = (self._anew, self._retry), (False, False)

        def look() -> tuple[NodeState, NodePlan]:
            if anew:
                self._drivers.forget()
            if anew or retry:
                self._drivers.tables.retry()
            self._drivers.doubt(doubted)
            whole = make()
            return whole, repair.plan(self._kernel, whole, kinds, self._registry, interiors)

        try:
            whole, planned = await self._run(look)
        except repair.ERRORS as error:
            self._interiors |= interiors
            if len(kinds) == 1:
                self._failed(kinds, [str(error)])
                return None
            alone = [await self._look([kind]) for kind in kinds]
            return _together([found for found in alone if found is not None])
        self._interiors.update(_interfaces(planned.additions))  # to be seen again by the repair
        if "route" in kinds:
            self.devices = {route.device for route in planned.state.routes if route.device}
        self._keep(planned, kinds)
        if "workload" in kinds:
            over = [change for change in planned.kept if change.kind == "workload"]
            for change in over:
                if (change.subject, change.note) not in self._ended:
                    self._on_ended(change)
            self._ended = {(change.subject, change.note) for change in over}
        added = {self._registry.name_of(change) for change in planned.additions}
        removed = {self._registry.name_of(change) for change in _left(planned.removals, self._excluded())}
        for kind in kinds:
            if kind not in removed:
                self._lean[kind] = whole
                self._withheld.discard(kind)
                self._blocked.discard(kind)
            if kind not in added:
                self._complete[kind] = whole
                if kind not in removed:
                    self._well(kind)
        return _Found(added, removed, planned.additions)

    def _keep(self, planned: NodePlan, kinds: t.Iterable[str]) -> None:
        for kind in kinds:
            going = _subjects(planned.removals, kind, self._registry)
            self._kept[kind] = _subjects(planned.kept, kind, self._registry) | self._kept.get(kind, set()).intersection(
                going
            )

    async def _repair(self, step: t.Sequence[str], kinds: t.Collection[str], found: t.Sequence[Change]) -> list[Change]:
        """Plans these kinds of a step again, now that nobody else writes, and makes what is missing.

        `found` is what was missing a moment ago: of workloads and sysctls, of which there may be thousands, it is all
        that is read again.
        """
        looked_at, kinds = kinds, [kind for kind in step if kind in kinds or kind in self._registry.followers(kinds)]
        for kind in kinds:
            blocking = [other for other in self._registry.step(kind).guarded_by if other in self._problems]
            if blocking:
                self._failed([kind], [f"{kind}: not before {' and '.join(blocking)} stand, which guard it."])
                return []
        loop = asyncio.get_running_loop()
        async with self._turn:
            began = loop.time()
            state = self.desired()
            if state is None:
                self._dirty.update(kinds)
                return []
            make, before = self._making(state, kinds), {kind: self._complete.get(kind) for kind in kinds}
            interiors = self._inside(state) if "workload" in kinds else set()

            def work() -> tuple[NodeState, repair.Applied, set[tuple[t.Any, ...]]]:
                whole = make()
                part = repair.narrowed(whole, kinds, found)
                planned = repair.plan(self._kernel, part, kinds, self._registry, interiors, part is whole)
                drift = self._drift(planned.additions, whole, before)
                return whole, repair.additions(self._kernel, planned), drift

            try:
                whole, applied, drift = await self._run(work)
            except repair.ERRORS as error:
                self._interiors |= interiors
                self._failed(kinds, [str(error)])
                return []
            finally:
                self._on_step(tuple(kinds), loop.time() - began)
        # What is wrong inside is not seen from outside: another try has to look there again.
        self._interiors.update(_interfaces([change for change, _reason in applied.failed]))
        self._note(kinds, looked_at, applied, whole)
        return self._told(applied.done, drift)

    def _inside(self, state: NodeState) -> set[str]:
        """The namespaces to look into: those marked, and those of which something else is desired than last."""
        interiors, self._interiors = self._interiors, set()
        earlier = self._complete.get("workload")
        if earlier is not None and earlier.workloads is not state.workloads:
            known = {endpoint.interface: endpoint for endpoint in earlier.workloads}
            for endpoint in state.workloads:
                if known.get(endpoint.interface, endpoint) != endpoint:
                    interiors.add(endpoint.interface)
        return interiors

    async def _remove(self, kinds: t.Collection[str]) -> list[Change]:
        """Removes what is too much of these kinds, unless that may not be yet."""
        ready = []
        for kind in kinds:
            needed = [
                other
                for other in self._registry.step(kind).needs
                if other in self._problems and other not in self._removing
            ]
            if not self._may_remove():
                self._withheld.add(kind)
            elif needed:
                self._blocked.add(kind)
            else:
                ready.append(kind)
        if not ready:
            return []
        loop = asyncio.get_running_loop()
        async with self._turn:
            began = loop.time()
            state = self.desired()
            if state is None or not self._may_remove():
                self._withheld.update(ready)
                return []
            make, before = self._making(state, ready), {kind: self._lean.get(kind) for kind in ready}
            excluded = frozenset(self._excluded())

            def work() -> tuple[NodeState, repair.Applied, set[tuple[t.Any, ...]]]:
                whole = make()
                planned = repair.plan(self._kernel, whole, ready, self._registry)
                superfluous = _left(planned.removals, excluded)
                kept = set[tuple[str, str]]().union(*(self._kept.get(kind, ()) for kind in ready))
                others = [change for change in superfluous if (change.kind, change.subject) not in kept]
                drift = self._drift(others, whole, before)
                return whole, repair.removals(self._kernel, planned, superfluous), drift

            try:
                whole, applied, drift = await self._run(work)
            except repair.ERRORS as error:
                self._failed(ready, [str(error)])
                return []
            finally:
                self._on_step(tuple(ready), loop.time() - began)
        failed = _by_kind(applied.failed, self._registry)
        for kind in ready:
            self._withheld.discard(kind)
            if kind in failed:
                self._failed([kind], failed[kind])
                self._removing.add(kind)
            else:
                self._lean[kind] = whole
                self._well(kind)
        return self._told(applied.done, drift)

    def _making(self, state: NodeState, kinds: t.Collection[str]) -> Make:
        """What of these kinds is desired; the state itself where that does not depend on what takes time to make."""
        return (lambda: state) if set(kinds).isdisjoint(self._registry.guards) else self.whole(state)

    def _drift(
        self, changes: t.Sequence[Change], state: NodeState, before: t.Mapping[str, t.Optional[NodeState]]
    ) -> set[tuple[t.Any, ...]]:
        return _drift(self._kernel, changes, state, before, self._drivers.others)

    # ---- what became of it

    def _told(self, done: t.Sequence[Change], drift: t.Collection[tuple[t.Any, ...]]) -> list[Change]:
        for change in done:
            self.changed[self._registry.name_of(change)] += 1
            self._on_change(change, repair.same(change) in drift)
        return list(done)

    def _note(
        self, kinds: t.Collection[str], looked_at: t.Collection[str], applied: repair.Applied, state: NodeState
    ) -> None:
        """Of what went along with a kind that was looked at, no more is known than what was done."""
        failed = _by_kind(applied.failed, self._registry)
        for kind in _by_kind(applied.aside, self._registry):
            self._on_failure(kind)
        for kind in kinds:
            if kind in failed:
                self._failed([kind], failed[kind])
                continue
            if kind not in looked_at:
                continue
            self._complete[kind] = state
            self._well(kind)
            waiting = [change for change in applied.waiting if self._registry.name_of(change) == kind]
            if waiting:
                self._waiting[kind] = tuple(f"{c.kind} {c.subject} waits for its device." for c in waiting)

    def _well(self, kind: str) -> None:
        if self._problems.pop(kind, None):
            # What had to wait for it can go now.
            self._dirty |= self._blocked
            self._blocked.clear()
        self._attempts.pop(kind, None)
        self._retry_at.pop(kind, None)
        self._waiting.pop(kind, None)
        self._removing.discard(kind)

    def _failed(self, kinds: t.Iterable[str], texts: t.Sequence[str]) -> None:
        now = asyncio.get_running_loop().time()
        for kind in kinds:
            attempt = self._attempts.get(kind, 0)
            self._attempts[kind] = attempt + 1
            self._problems[kind] = tuple(texts)
            self._on_failure(kind)
            self._retry_at[kind] = now + self._jittered(min(_LAST_RETRY, _FIRST_RETRY * 2 ** min(attempt, 10)))


def _with(problems: t.Mapping[str, tuple[str, ...]], kind: str, more: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return `problems` with `more` of one kind, each text once."""
    if not more:
        return dict(problems)
    return {**problems, kind: tuple(dict.fromkeys([*problems.get(kind, ()), *more]))}


class _Found(t.NamedTuple):
    """Kinds of which something is missing or wrong, kinds of which there is too much, and what is missing or wrong."""

    added: set[str]
    removed: set[str]
    additions: tuple[Change, ...]


def _together(parts: t.Sequence[_Found]) -> t.Optional[_Found]:
    """Of kinds that were looked at one by one."""
    if not parts:
        return None
    return _Found(
        set().union(*(part.added for part in parts)),
        set().union(*(part.removed for part in parts)),
        tuple(change for part in parts for change in part.additions),
    )


def _left(removals: t.Sequence[Change], excluded: t.Collection[str]) -> list[Change]:
    """Without those that somebody else is at."""
    return [
        change
        for change in removals
        if change.kind != "workload"
        or (change.subject not in excluded and (change.old.link is None or change.old.link.name not in excluded))
    ]


def _interfaces(changes: t.Iterable[Change]) -> set[str]:
    return {change.new.interface for change in changes if change.kind == "workload" and change.new is not None}


def _by_kind(failed: t.Iterable[tuple[Change, str]], registry: Registry) -> dict[str, list[str]]:
    """{kind: what failed and why}"""
    texts: dict[str, list[str]] = {}
    for change, reason in failed:
        texts.setdefault(registry.name_of(change), []).append(f"{change.kind} {change.subject}: {reason}")
    return texts


def _subjects(changes: t.Iterable[Change], kind: str, registry: Registry) -> set[tuple[str, str]]:
    return {(change.kind, change.subject) for change in changes if registry.name_of(change) == kind}


def _drift(
    kernel: Kernel,
    changes: t.Sequence[Change],
    state: NodeState,
    before: t.Mapping[str, t.Optional[NodeState]],
    registry: Registry,
) -> set[tuple[t.Any, ...]]:
    """`same` of these changes that the state which each kind was last brought to would bring as well."""
    kinds = {registry.name_of(change) for change in changes}
    if not kinds:
        return set()
    drift = set()
    asked: list[tuple[NodeState, list[str]]] = []
    for kind in kinds:
        earlier = before.get(kind)
        if earlier is None:
            continue
        if earlier is state or earlier == state:
            drift |= {repair.same(change) for change in changes if registry.name_of(change) == kind}
            continue
        same = next((kinds_ for state_, kinds_ in asked if state_ is earlier), None)
        if same is None:
            asked.append((earlier, [kind]))
        else:
            same.append(kind)
    for earlier, kinds_ in asked:
        planned = repair.plan(kernel, earlier, kinds_, registry, _interfaces(changes))
        drift |= {repair.same(change) for change in planned.changes}
    return drift
