# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of a pass: kinds that are looked at, repaired, and freed of superfluous objects together.

A look reads without the lock, so it may see an attachment half made. A repair therefore plans again once it holds
`write_lock`, the exclusive lock of all writers, and reads the desired state then. So no repair compares the kernel with
a desired state that is older than the kernel's content.

Policy's kinds, which guard the others, need no lock, because only the drivers' thread writes them, for `admit` and for
`settle`. Each reads the desired state in the step of the event loop that submits its work to the thread, and the thread
works in that order. So no work removes what an earlier one has added for a newer desired state.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import enum
import functools
import typing as t

from ...dataplane.change import Change
from ...dataplane.driver import DriverRegistry
from ...dataplane.drivers import ipset, iptables, route, workload
from ...dataplane.kernel.port import Kernel, KernelError
from ...dataplane.planning.cached_drivers import CachedDrivers
from ...dataplane.planning.plan import NodePlan
from ...state.node_state import NodeState, VethEndpoint
from ...state.published_ports import WORKLOAD_CHAIN
from ..concurrency.driver_thread import DriverThread, Worker
from ..concurrency.locks import RWLock
from ..known.policy_compilers import StateThunk
from . import repair
from .kind_state import KindStates
from .pace import Pace

_T = t.TypeVar("_T")

_SWITCHES = 3  # how often an admission begins again because the host's iptables was changed to another backend
_YIELDS = 5  # how often a `settle` that has planned lets adds that wait go first


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What the node must have. All four functions are called on the event loop.

    `state` returns what the node must have now, None before that is known. `may_remove` returns whether objects that
    are not desired may be removed now. `excluded` returns host ends and workloads (<namespace>/<name>) that another
    part of the agent is removing.

    `with_policy` is for what takes time to compile from a state: policy's rules and sets. It is called in the step that
    read its argument, so that its other inputs are from the same moment. The function that it returns is called in the
    drivers' thread and returns the state with the compiled parts.
    """

    state: t.Callable[[], t.Optional[NodeState]]
    may_remove: t.Callable[[], bool]
    excluded: t.Callable[[], t.Collection[str]] = tuple
    with_policy: t.Callable[[NodeState], StateThunk] = lambda state: lambda: state


@dataclasses.dataclass(frozen=True)
class Listener:
    """The functions that the reconciler calls, on the event loop.

    `on_change(change, drift)` is called for every change that is known to be made. A change is drift if the desired
    state did not ask for it: the desired state before this one would need it as well. What the first look finds is not
    drift. `on_step(kinds, seconds)` gets the time for which a repair or removal held the lock. `on_failure(kind)` gets
    the name of a driver, once for each attempt of a pass that failed for it, however many objects. `on_ended(change)`
    is called when a look finds a workload, or a reason, that the one before did not find: it is not repaired because
    its network namespace is gone, or because its name or path leads to another one. The change's note has the reason.
    `on_resync(reason)` is called when `Loop.run` starts (start), each time that it marks all kinds because the interval
    is over (timer), and by `Passes.resync` for all kinds (request).
    """

    on_change: t.Callable[[Change, bool], None]
    on_step: t.Callable[[tuple[str, ...], float], None] = lambda kinds, seconds: None
    on_failure: t.Callable[[str], None] = lambda kind: None
    on_ended: t.Callable[[Change], None] = lambda change: None
    on_resync: t.Callable[[str], None] = lambda reason: None


class Refresh(enum.IntEnum):
    """What the next look at iptables does besides reading what may have changed."""

    NONE = 0
    #: Retry chains that the kernel refused before.
    REFUSED = 1
    #: Retry refused chains, and read all rules and sets instead of what is cached.
    ALL = 2


class SettleResult(t.NamedTuple):
    """The result of `Stages.settle`: the changes made, and the kinds with superfluous objects that are still there."""

    changes: list[Change]
    extra: set[str]


class _Once(t.NamedTuple):
    """The result of one piece of work of `settle`: the plan, the state that it leads to, and what was applied of it."""

    planned: NodePlan
    whole: NodeState
    added: repair.Applied
    removed: t.Optional[repair.Applied]
    drift: set[repair.Same]


class Found(t.NamedTuple):
    """The findings of a look: `added` are kinds with missing or wrong objects, `removed` kinds with superfluous ones.

    Kinds are names of drivers. Workloads that another part of the agent is removing do not count. `additions` are the
    changes for the missing or wrong objects.
    """

    added: set[str]
    removed: set[str]
    additions: tuple[Change, ...]


class Stages:
    """The reader and writer of the kernel through the drivers, in the Worker `run`. It keeps `kinds` up to date.

    It belongs to the running event loop. `wanted` says what the node must have; `listener` is called with what is done.
    `write_lock` is the exclusive lock of all writers of the kernel. The desired state is read before a look, and again
    under it. A caller that changes the desired state and the kernel holds or shares it over both changes. What fails,
    repair.ERRORS, becomes problems of the kinds, except in `ask` and `admit`. An unknown kind raises KeyError.

    `state` is the desired state, without compiled policy, at the last look of a pass, None before the first one.
    `devices` are the names of the devices that the desired routes lead through, as of the last look at routes; it is
    empty before. `settling` says whether a `settle` is under way. `changed` maps a kind, the name of a driver, to the
    number of changes made to its objects. `wake` is set when there may be a look to do.
    """

    def __init__(
        self,
        kernel: Kernel,
        wanted: Wanted,
        write_lock: RWLock,
        listener: Listener,
        *,
        drivers: t.Optional[CachedDrivers] = None,
        run: t.Optional[Worker] = None,
        pace: t.Optional[Pace] = None,
    ) -> None:
        self.wanted = wanted
        self.write_lock = write_lock
        self.listener = listener
        self.drivers = CachedDrivers() if drivers is None else drivers
        self.pace = Pace() if pace is None else pace
        self.kinds = KindStates(self.drivers.registry.names)
        self.wake = asyncio.Event()
        self._kernel = kernel
        self._run = DriverThread() if run is None else run
        self._refresh = Refresh.NONE
        self.settling = False
        # KindState.nothing_missing and nothing_extra of the guarding kinds, for drift, as the drivers' thread has
        # brought them about: the event loop may not know of its last work yet.
        self._written: dict[str, NodeState] = {}
        self._lean: dict[str, NodeState] = {}
        self._admitting = 0  # the number of calls of `admit` that wait for the thread
        self._interiors: set[str] = set()  # host ends of workloads whose namespaces are read next
        self._ended: set[tuple[str, str]] = set()  # (subject, reason) of workloads that ended
        self.state: t.Optional[NodeState] = None
        self.devices: t.Collection[str] = ()  # devices that the desired routes lead through
        self.changed: collections.Counter[str] = collections.Counter()  # {name of a driver: number of changes made}

    @property
    def registry(self) -> DriverRegistry:
        """The registry of the drivers that write."""
        return self.drivers.registry

    def mark(self, kind: t.Optional[str] = None, interiors: t.Collection[str] = ()) -> None:
        """Schedule a look at a kind (None: every kind), because its objects may have changed in the kernel.

        It does not wait. `interiors` are host ends of workloads whose namespaces the next look at workloads reads as
        well.
        """
        kinds = self.kinds.names if kind is None else (kind,)
        self.kinds.suspect(kinds)
        self.observe_namespace(interiors)
        self.expect(kinds)

    def expect(self, kinds: t.Iterable[str]) -> None:
        """Schedule a look at these kinds, because other objects may be desired than before. Do not wait."""
        self.kinds.mark(kinds)
        self.wake.set()

    def policy_changed(self) -> None:
        """Schedule a look at policy's kinds, because other sets or rules may be desired than before. Do not wait."""
        self.expect(self.registry.guards)

    def observe_namespace(self, interiors: t.Iterable[str]) -> None:
        """Schedule a read of the namespaces of the workloads with these host ends, for the next look at workloads."""
        self._interiors.update(interiors)

    def refresh(self, what: Refresh) -> None:
        """Schedule `what` for the next look at iptables. The largest request since the last one counts."""
        self._refresh = max(self._refresh, what)

    async def ask(self, question: t.Callable[[Kernel], _T]) -> _T:
        """Call `question` with the kernel in the drivers' thread, and return its result or raise its error."""
        return await self._run(lambda: question(self._kernel))

    def rules_mark(self, kernel: Kernel) -> t.Hashable:
        """Return the token of CachedTables.mark; see PolledStages. Call it in the drivers' thread."""
        return self.drivers.tables.mark(kernel)

    def are_sets_doubtful(self, kernel: Kernel) -> bool:
        """Return CachedSets.is_doubtful; see PolledStages. Call it in the drivers' thread."""
        return self.drivers.sets.is_doubtful(kernel)

    async def admit(
        self, state: NodeState, on_written: t.Callable[[], None], adding: t.Sequence[VethEndpoint] = ()
    ) -> repair.Applied:
        """Add and correct the sets and rules that `state` and the workloads being added need; superfluous ones stay.

        The addresses of the workloads `adding` are written to all their sets, even if they are known to be there:
        another program may have written since. If the kernel refuses a write to sets, all is read and planned once
        more.

        Return what was applied. If the kernel refused a set or a whole table, `failed` is not empty; otherwise
        `on_written` is called in the drivers' thread. Single chains that were refused are in `aside`. Raise
        PolicyNotCompiled, or ObserveError or KernelError if the kernel cannot be read or written at all.
        """
        compiled, guards = self.wanted.with_policy(state), self.registry.guards

        def work() -> tuple[NodeState, repair.Applied, set[repair.Same], bool]:
            backend = self.drivers.tables.backend
            whole, before = compiled(), self._written
            if whole.ipsets:
                self.drivers.sets.check(self._kernel)
            drift, done = set[repair.Same](), list[Change]()

            def add() -> repair.Applied:
                planned = repair.plan(self._kernel, whole, guards, self.registry)
                drift.update(self._drift(planned.additions, whole, before))
                applied = repair.additions(self._kernel, planned)
                done.extend(applied.done)
                return applied

            applied = add()
            for _attempt in range(_SWITCHES):
                if not self.drivers.tables.is_switched(self._kernel):
                    break
                applied = add()  # Rules may have been written to a backend that the host does not use any more.
            refused = any(change.kind == "ipset" for change, _reason in applied.failed)
            try:
                if not applied.failed:
                    self.drivers.sets.write_memberships(self._kernel, adding, done)
            except KernelError:
                refused = True
            if refused:  # Another program may have deleted a set a moment ago.
                self.drivers.sets.forget()
                applied = add()
            applied = applied._replace(done=tuple(done))
            if not applied.failed:
                self._written = {**before, **dict.fromkeys(guards, whole)}
                on_written()
            return whole, applied, drift, backend not in ("", self.drivers.tables.backend)

        self._admitting += 1
        try:
            whole, applied, drift, switched = await self._run(work)
        finally:
            self._admitting -= 1
        if switched:
            self.policy_changed()  # for the rules in the other backend, which a pass removes
        if not applied.failed:
            for kind in guards:
                self.kinds[kind].nothing_missing = whole
        self._tell(applied.done, drift)
        return applied

    async def look(self, kinds: t.Collection[str]) -> t.Optional[Found]:
        """Read these kinds from the kernel; note and return what differs from the desired state.

        Workloads that ended since the last look are reported. A kind that cannot be read, or whose policy cannot be
        compiled, is not in the result. Return None if that is so for all of them. Return None too if the desired state
        is not known; the kinds are dirty again then.
        """
        state = self.wanted.state()
        if state is None:
            self.kinds.mark(kinds)
            return None
        self.state = state
        compiled, interiors = self._compiler(state, kinds), self._take_interiors(state, kinds)
        refreshed = self._refreshed(kinds)

        def work() -> tuple[NodeState, NodePlan]:
            refreshed()
            whole = compiled()
            return whole, repair.plan(self._kernel, whole, kinds, self.registry, interiors)

        try:
            whole, planned = await self._run(work)
        except repair.ERRORS as error:
            self._interiors |= interiors
            if len(kinds) == 1:
                self._not_added(kinds, [str(error)])
                return None
            alone = [await self.look([kind]) for kind in kinds]
            return _together([found for found in alone if found is not None])
        self._interiors.update(_interfaces(planned.additions))  # The repair plans again, and must look there too.
        if route.STEP.name in kinds:
            self.devices = {wanted.device for wanted in planned.state.routes if wanted.device}
        if workload.STEP.name in kinds:
            self._note_ended([change for change in planned.kept if change.kind == "workload"])
        return self._note_look(planned, whole, kinds)

    def _refreshed(self, kinds: t.Collection[str]) -> t.Callable[[], None]:
        """Return a function, for the drivers' thread, that discards what is cached of these kinds and may be stale.

        Further calls of that function do nothing.
        """
        maybe_stale, refresh = self.kinds.take_maybe_stale(kinds), Refresh.NONE
        if iptables.STEP.name in kinds:
            refresh, self._refresh = self._refresh, Refresh.NONE

        def discard() -> None:
            nonlocal refresh
            if refresh == Refresh.ALL:
                self.drivers.forget()
            if refresh != Refresh.NONE:
                self.drivers.tables.retry()
            self.drivers.suspect(maybe_stale)
            refresh = Refresh.NONE
            maybe_stale.clear()

        return discard

    async def settle(self, kinds: t.Collection[str], removing: bool) -> SettleResult:
        """Bring guarding kinds, IP sets and rules, to the desired state, without `write_lock`.

        Superfluous objects go as well if `removing` is true, removals are allowed and no addition fails. What is
        planned is applied by the same piece of work of the drivers' thread. Adds and deletes that are under way go
        first, and so do adds that wait for that thread when the plan is finished: then another plan is made. The thread
        is free as well while the kernel still holds a set that rules referred to. A kind that fails is noted with its
        problems, as `look`, `add` and `remove` do.
        """
        if self.wanted.state() is None:
            self.kinds.mark(kinds)
            return SettleResult([], set())
        self.settling = True
        try:
            return await self._settle(kinds, removing)
        finally:
            self.settling = False

    async def _settle(self, kinds: t.Collection[str], removing: bool) -> SettleResult:
        changes: list[Change] = []
        refreshed = self._refreshed(kinds)
        pauses = iter(ipset.PATIENCE)
        while True:
            try:
                once = await self._settled_once(kinds, removing, refreshed)
            except repair.ERRORS as error:
                if len(kinds) > 1:
                    alone = [await self._settle([kind], removing) for kind in kinds]
                    more = [change for one in alone for change in one.changes]
                    return SettleResult(changes + more, set[str]().union(*(one.extra for one in alone)))
                self._not_added(kinds, [str(error)])
                return SettleResult(changes, set())
            if once is None:  # The desired state is not known any more.
                self.kinds.mark(kinds)
                return SettleResult(changes, set())
            done = once.added.done if once.removed is None else once.added.done + once.removed.done
            changes += self._tell(done, once.drift)
            for kind in _by_kind(once.added.aside, self.registry):
                self.listener.on_failure(kind)
            in_use = once.removed is not None and any(change.kind == "ipset" for change, _why in once.removed.failed)
            pause = next(pauses, None) if in_use else None
            if pause is None:
                break
            await asyncio.sleep(pause)
        extra = self._note_settled(kinds, once)
        if removing:
            for kind in extra:
                self.kinds[kind].withheld, self.kinds[kind].blocked = once.removed is None, once.removed is not None
        return SettleResult(changes, set() if removing else extra)

    async def _settled_once(
        self, kinds: t.Collection[str], removing: bool, refreshed: t.Callable[[], None]
    ) -> t.Optional[_Once]:
        """Plan and apply in one piece of work, after adds that wait; return None if no desired state is known."""
        loop = asyncio.get_running_loop()
        for yields in range(_YIELDS, -1, -1):
            await self.write_lock.give_way()
            state = self.wanted.state()
            if state is None:
                return None
            self.state = state
            kept = frozenset[tuple[str, str]]().union(*(self.kinds[kind].no_drift for kind in kinds))
            may_remove = removing and self.wanted.may_remove()
            compiled, began = self._compiler(state, kinds), loop.time()
            once = await self._run(
                functools.partial(self._work, kinds, refreshed, compiled, may_remove, kept, yielding=yields > 0)
            )
            if once is not None:
                if once.planned.changed:
                    self.listener.on_step(tuple(kinds), loop.time() - began)
                return once
        raise AssertionError("the last attempt does not yield")

    def _work(
        self,
        kinds: t.Collection[str],
        refreshed: t.Callable[[], None],
        compiled: StateThunk,
        may_remove: bool,
        kept: t.Collection[tuple[str, str]],
        yielding: bool,
    ) -> t.Optional[_Once]:
        """Plan and apply, in the drivers' thread; return None if `yielding`, adds wait and there is something to do."""
        refreshed()
        whole = compiled()
        planned = repair.plan(self._kernel, whole, kinds, self.registry)
        extra = planned.removals if may_remove else _of_ended_ports(planned.removals)
        if yielding and self._admitting and (planned.additions or extra):
            return None
        drift = self._drift(planned.additions, whole, self._written)
        others = [change for change in extra if (change.kind, change.subject) not in kept]
        drift |= self._drift(repair.unwanted(others, self._lean), whole, self._lean)
        again = functools.partial(repair.plan, self._kernel, whole, kinds, self.registry)
        added, removed = repair.both(self._kernel, planned, extra, again)
        failed = _by_kind(added.failed, self.registry)
        stay = failed.keys() | _by_kind(removed.failed, self.registry)
        if failed or not may_remove:
            stay |= set(map(self.registry.name_of, planned.removals))
        self._written = {**self._written, **{kind: whole for kind in kinds if kind not in failed}}
        self._lean = {**self._lean, **{kind: whole for kind in kinds if kind not in stay}}
        return _Once(planned, whole, added, removed if may_remove else None, drift)

    def _note_settled(self, kinds: t.Collection[str], once: _Once) -> set[str]:
        """Note the result of `settle` for each kind; return the kinds whose superfluous objects are still there."""
        found = self._note_look(once.planned, once.whole, kinds)
        self._note_repair(kinds, found.added, once.added._replace(aside=()), once.whole)
        if once.removed is None or once.added.failed:
            return found.removed
        failed = _by_kind(once.removed.failed, self.registry)
        for kind in found.removed:
            self.kinds[kind].withheld = False
            if kind in failed:
                self._not_removed([kind], failed[kind])
            else:
                self.kinds.note_lean(kind, once.whole)
        return set()

    def _note_ended(self, over: t.Sequence[Change]) -> None:
        """Report each change of `over`, all workloads that ended, that the last call did not have with this reason."""
        for change in over:
            if (change.subject, change.note) not in self._ended:
                self.listener.on_ended(change)
        self._ended = {(change.subject, change.note) for change in over}

    def _note_look(self, planned: NodePlan, whole: NodeState, kinds: t.Iterable[str]) -> Found:
        """Note for each kind whether objects are missing or superfluous; return the findings."""
        name_of = self.registry.name_of
        added = {name_of(change) for change in planned.additions}
        removed = {name_of(change) for change in _left(planned.removals, self.wanted.excluded())}
        for kind in kinds:
            state = self.kinds[kind]
            to_remove = _subjects(planned.removals, kind, self.registry)
            state.kept = _subjects(planned.kept, kind, self.registry) | (state.kept & to_remove)
            if kind not in removed:
                self.kinds.note_lean(kind, whole)
            if kind not in added:
                self.kinds.note_complete(kind, whole)
        return Found(added, removed, planned.additions)

    async def add(self, stage: t.Sequence[str], found: Found) -> list[Change]:
        """Add and correct objects of the stage's kinds that are in `found` or follow one in it.

        Return the changes made. `found` is the last look's result; these kinds are planned again under `write_lock`.
        There may be thousands of workloads and sysctls: if no other kind is planned with them, only those that
        `repair.narrowed` leaves are read again. If reading, adding or correcting failed at the last attempt for a kind
        that guards one of these, nothing is made, which is a problem too. Nothing is made either if the desired state
        is not known; the kinds are dirty again then.
        """
        followers = self.registry.followers(found.added)
        kinds = [kind for kind in stage if kind in found.added or kind in followers]
        for kind in kinds:
            blocking = [other for other in self.registry.step(kind).guarded_by if self.kinds[other].additions_failed]
            if blocking:
                self._not_added([kind], [f"{kind}: not before {' and '.join(blocking)} stand, which guard it."])
                return []
        loop = asyncio.get_running_loop()
        async with self.write_lock:
            began = loop.time()
            state = self.wanted.state()
            if state is None:
                self.kinds.mark(kinds)
                return []
            compiled, before = self._compiler(state, kinds), {kind: self.kinds[kind].nothing_missing for kind in kinds}
            interiors = self._take_interiors(state, kinds)

            def work() -> tuple[NodeState, repair.Applied, set[repair.Same]]:
                whole = compiled()
                part = repair.narrowed(whole, kinds, found.additions)
                planned = repair.plan(self._kernel, part, kinds, self.registry, interiors, part is whole)
                drift = self._drift(planned.additions, whole, before)
                return whole, repair.additions(self._kernel, planned), drift

            try:
                whole, applied, drift = await self._run(work)
            except repair.ERRORS as error:
                self._interiors |= interiors
                self._not_added(kinds, [str(error)])
                return []
            finally:
                self.listener.on_step(tuple(kinds), loop.time() - began)
        # A fault inside a network namespace is not visible from outside it. So the retry has to look into it again.
        self._interiors.update(_interfaces([change for change, _reason in applied.failed]))
        self._note_repair(kinds, found.added, applied, whole)
        return self._tell(applied.done, drift)

    def _note_repair(
        self, kinds: t.Collection[str], looked_at: t.Collection[str], applied: repair.Applied, whole: NodeState
    ) -> None:
        """Note the result of a repair for kinds that were `looked_at` or failed; report failures and refused chains."""
        failed = _by_kind(applied.failed, self.registry)
        for kind in _by_kind(applied.aside, self.registry):
            self.listener.on_failure(kind)
        for kind in kinds:
            changes = [change for change in applied.waiting if self.registry.name_of(change) == kind]
            waiting = tuple(f"{change.kind} {change.subject} waits for its device." for change in changes)
            if kind in failed:
                self._not_added([kind], failed[kind])
                self.kinds[kind].waiting = waiting
            elif kind in looked_at:
                self.kinds.note_complete(kind, whole, waiting)

    async def remove(self, kinds: t.Collection[str]) -> list[Change]:
        """Remove extra objects of these kinds after planning again under `write_lock`. Return the changes made.

        Left out are kinds whose removals are not allowed yet or blocked by failures, which is noted, and workloads that
        another part of the agent is removing.
        """
        ready = [kind for kind in kinds if self.removable(kind)]
        if not ready:
            return []
        loop = asyncio.get_running_loop()
        async with self.write_lock:
            began = loop.time()
            state = self.wanted.state()
            if state is None or not self.wanted.may_remove():
                for kind in ready:
                    self.kinds[kind].withheld = True
                return []
            compiled, before = self._compiler(state, ready), {kind: self.kinds[kind].nothing_extra for kind in ready}
            excluded = frozenset(self.wanted.excluded())
            kept = frozenset[tuple[str, str]]().union(*(self.kinds[kind].no_drift for kind in ready))

            def work() -> tuple[NodeState, repair.Applied, set[repair.Same]]:
                whole = compiled()
                planned = repair.plan(self._kernel, whole, ready, self.registry)
                extra = _left(planned.removals, excluded)
                others = [change for change in extra if (change.kind, change.subject) not in kept]
                drift = self._drift(others, whole, before)
                return whole, repair.removals(self._kernel, planned, extra), drift

            try:
                whole, applied, drift = await self._run(work)
            except repair.ERRORS as error:
                self._not_removed(ready, [str(error)])
                return []
            finally:
                self.listener.on_step(tuple(ready), loop.time() - began)
        failed = _by_kind(applied.failed, self.registry)
        for kind in ready:
            self.kinds[kind].withheld = False
            if kind in failed:
                self._not_removed([kind], failed[kind])
            else:
                self.kinds.note_lean(kind, whole)
        return self._tell(applied.done, drift)

    def removable(self, kind: str) -> bool:
        """Return whether superfluous objects of a kind may be removed now, and note the reason if not."""
        needed = [other for other in self.registry.step(kind).needs if self.kinds[other].hinders_removals]
        if not self.wanted.may_remove():
            self.kinds[kind].withheld = True
        elif needed:
            self.kinds[kind].blocked = True
        else:
            return True
        return False

    def _compiler(self, state: NodeState, kinds: t.Collection[str]) -> StateThunk:
        """Return a function, for the drivers' thread, that returns `state`, with policy compiled if `kinds` need it."""
        return (lambda: state) if set(kinds).isdisjoint(self.registry.guards) else self.wanted.with_policy(state)

    def _take_interiors(self, state: NodeState, kinds: t.Collection[str]) -> set[str]:
        """Return the host ends whose namespaces to look into, and clear the list of requested ones.

        They are the requested ones, and those of workloads that `state` has with other values than the last state to
        which workloads were brought. Return an empty set, and clear nothing, if `kinds` has no workloads.
        """
        if workload.STEP.name not in kinds:
            return set()
        interiors, self._interiors = self._interiors, set()
        earlier = self.kinds[workload.STEP.name].nothing_missing
        if earlier is None:
            return interiors
        if earlier.workloads is not state.workloads or earlier.probe_endpoint != state.probe_endpoint:
            known = {endpoint.interface: endpoint for endpoint in earlier.endpoints}
            for endpoint in state.endpoints:
                if known.get(endpoint.interface, endpoint) != endpoint:
                    interiors.add(endpoint.interface)
        return interiors

    def _drift(
        self, changes: t.Sequence[Change], state: NodeState, before: t.Mapping[str, t.Optional[NodeState]]
    ) -> set[repair.Same]:
        """Return the keys of those of `changes` that are drift, and of no others."""
        found = repair.drift(self._kernel, changes, state, before, self.drivers.others, _interfaces(changes))
        return found.intersection(map(repair.same, changes))

    def _tell(self, done: t.Sequence[Change], drift: set[repair.Same]) -> list[Change]:
        """Count and report the changes that were made; return them as a list."""
        for change in done:
            name = self.registry.name_of(change)
            self.changed[name] += 1
            if change.action == "+":
                self.kinds[name].made.add((change.kind, change.subject))
            self.listener.on_change(change, repair.same(change) in drift)
        return list(done)

    def _not_added(self, kinds: t.Iterable[str], texts: t.Sequence[str]) -> None:
        """Note that these kinds could not be read or added, and when to retry; report each kind."""
        for kind in kinds:
            self.kinds.note_not_added(kind, texts, self._retry_at(kind))
            self.listener.on_failure(kind)

    def _not_removed(self, kinds: t.Iterable[str], texts: t.Sequence[str]) -> None:
        """Note that superfluous objects of these kinds could not be removed, and when to retry; report each kind."""
        for kind in kinds:
            self.kinds.note_not_removed(kind, texts, self._retry_at(kind))
            self.listener.on_failure(kind)

    def _retry_at(self, kind: str) -> float:
        """Return when to retry a kind that fails now, in seconds of the loop's clock."""
        return asyncio.get_running_loop().time() + self.pace.retry(self.kinds[kind].attempts)


def _together(parts: t.Sequence[Found]) -> t.Optional[Found]:
    """Return the combined findings of looks at single kinds, or None if there are none."""
    if not parts:
        return None
    return Found(
        set().union(*(part.added for part in parts)),
        set().union(*(part.removed for part in parts)),
        tuple(change for part in parts for change in part.additions),
    )


def _left(removals: t.Sequence[Change], excluded: t.Collection[str]) -> list[Change]:
    """Return the removals without those of workloads that another part of the agent is removing."""
    return [
        change
        for change in removals
        if change.kind != "workload"
        or (change.subject not in excluded and (change.old.link is None or change.old.link.name not in excluded))
    ]


def _of_ended_ports(removals: t.Iterable[Change]) -> list[Change]:
    """Return the deletions of chains of published ports. No rule leads to such a chain once its workload has none."""
    return [
        change
        for change in removals
        if change.kind == "iptables" and change.subject.startswith(f"nat {WORKLOAD_CHAIN}")
    ]


def _interfaces(changes: t.Iterable[Change]) -> set[str]:
    return {change.new.interface for change in changes if change.kind == "workload" and change.new is not None}


def _by_kind(failed: t.Iterable[tuple[Change, str]], registry: DriverRegistry) -> dict[str, list[str]]:
    """Return {name of a driver: texts that say what failed of it and why}, without drivers that did not fail."""
    texts: dict[str, list[str]] = {}
    for change, reason in failed:
        texts.setdefault(registry.name_of(change), []).append(f"{change.kind} {change.subject}: {reason}")
    return texts


def _subjects(changes: t.Iterable[Change], kind: str, registry: DriverRegistry) -> frozenset[tuple[str, str]]:
    return frozenset((change.kind, change.subject) for change in changes if registry.name_of(change) == kind)
