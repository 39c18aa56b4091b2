# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciler's knowledge of each kind of object: what it last found and what failed, when to look and retry."""

from __future__ import annotations

import dataclasses
import typing as t

from ...state.node_state import NodeState


@dataclasses.dataclass
class KindState:
    """The state of one kind of object, which is what one driver writes."""

    #: Whether the next look reads objects of this kind.
    dirty: bool = True
    #: Whether another program may have written objects of this kind, so that what is cached of them is not valid.
    maybe_stale: bool = False
    #: The last desired state whose objects of this kind were in the kernel, except those that waited for their device,
    #: ended workloads, refused single chains and members left out of sets; None before the first one.
    nothing_missing: t.Optional[NodeState] = None
    #: The last desired state beside which the kernel had nothing superfluous of this kind but objects kept on purpose
    #: and workloads that another part of the agent was removing; None before the first one.
    nothing_extra: t.Optional[NodeState] = None
    #: (kind, subject) of objects that are kept or left out on purpose, such as sets in use. Their later removal is not
    #: drift.
    kept: frozenset[tuple[str, str]] = frozenset()
    #: (kind, subject) of objects that were made since `nothing_extra` was noted. Their removal is not drift: a desired
    #: state between that one and the present one had them.
    made: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    #: What could not be read, added or corrected at the last attempt, and why, a text for each.
    additions_failed: tuple[str, ...] = ()
    #: What could not be removed at the last attempt, and why, a text for each.
    removals_failed: tuple[str, ...] = ()
    #: Objects that wait for their device, a text for each.
    waiting: tuple[str, ...] = ()
    #: Whether there are superfluous objects that stay because removing is not allowed yet.
    withheld: bool = False
    #: Whether there are superfluous objects that stay because something that may still need them failed.
    blocked: bool = False
    #: The number of failures in a row; several before the next attempt count once.
    attempts: int = 0
    #: When to retry, in seconds of the loop's clock; None: no retry is set.
    retry_at: t.Optional[float] = None

    @property
    def no_drift(self) -> frozenset[tuple[str, str]]:
        """The (kind, subject) of objects whose removal is not drift: those of `kept` and `made`."""
        return self.kept.union(self.made)

    @property
    def problems(self) -> tuple[str, ...]:
        """The texts of all that failed at the last attempts to read or add, and to remove, each once; () for none."""
        return tuple(dict.fromkeys((*self.additions_failed, *self.removals_failed)))

    @property
    def hinders_removals(self) -> bool:
        """Whether reading, adding or correcting failed at the last attempt: superfluous objects may still be needed."""
        return bool(self.additions_failed)

    def retry(self, at: float) -> None:
        """Count a failure and set the next retry to `at`, a time of the loop's clock, unless a retry is set already."""
        if self.retry_at is None:
            self.attempts += 1
            self.retry_at = at

    def end_retries(self) -> None:
        """Forget the failures in a row and the retry, unless something is still a problem."""
        if not self.problems:
            self.attempts, self.retry_at = 0, None


class KindStates:
    """The states of all kinds, by the names of their drivers and in the drivers' order.

    An unknown kind raises KeyError. Times are in seconds of the loop's clock. A failure is counted unless a retry is
    set already: several in one pass count once. The retry and the failures in a row are forgotten when no problem is
    left.
    """

    def __init__(self, names: t.Iterable[str]) -> None:
        self._states = {name: KindState() for name in names}

    def __getitem__(self, name: str) -> KindState:
        """Return the state of a kind."""
        return self._states[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all kinds."""
        return tuple(self._states)

    @property
    def dirty(self) -> tuple[str, ...]:
        """The names of the kinds that the next look reads."""
        return self.those(lambda state: state.dirty)

    @property
    def withheld(self) -> tuple[str, ...]:
        """The names of the kinds with superfluous objects that may not be removed yet."""
        return self.those(lambda state: state.withheld)

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """A mapping from kind to what failed, and why, for kinds with problems only."""
        return {name: state.problems for name, state in self._states.items() if state.problems}

    @property
    def waiting(self) -> dict[str, tuple[str, ...]]:
        """A mapping from kind to texts about objects that wait for their device, for kinds with any."""
        return {name: state.waiting for name, state in self._states.items() if state.waiting}

    def those(self, are: t.Callable[[KindState], bool]) -> tuple[str, ...]:
        """Return the names of the kinds for whose state `are` returns true, in the drivers' order."""
        return tuple(name for name, state in self._states.items() if are(state))

    def mark(self, names: t.Iterable[str]) -> None:
        """Mark these kinds dirty, so that the next look reads them."""
        for name in names:
            self._states[name].dirty = True

    def suspect(self, names: t.Iterable[str]) -> None:
        """Note that another program may have written these kinds."""
        for name in names:
            self._states[name].maybe_stale = True

    def take_dirty(self) -> set[str]:
        """Return the names of the dirty kinds, mark them clean, and unset their retries, due or not."""
        dirty = set(self.dirty)
        for name in dirty:
            self._states[name].dirty = False
            self._states[name].retry_at = None
        return dirty

    def take_maybe_stale(self, names: t.Iterable[str]) -> set[str]:
        """Return the names of the kinds among `names` that may be stale, and mark them as current."""
        stale = {name for name in names if self._states[name].maybe_stale}
        for name in stale:
            self._states[name].maybe_stale = False
        return stale

    def overdue(self, now: float) -> tuple[str, ...]:
        """Return the names of the kinds whose retry is due at `now`."""
        return self.those(lambda state: state.retry_at is not None and state.retry_at <= now)

    def next_retry(self, otherwise: float) -> float:
        """Return the time of the next retry or `otherwise`, whichever is earlier."""
        return min([otherwise, *(state.retry_at for state in self._states.values() if state.retry_at is not None)])

    def completed(self, but_for: t.Collection[str] = ()) -> bool:
        """Return whether every kind but those in `but_for` was complete once, as `KindState.nothing_missing` says."""
        return all(state.nothing_missing is not None for name, state in self._states.items() if name not in but_for)

    def note_complete(self, name: str, whole: NodeState, waiting: t.Iterable[str] = ()) -> None:
        """Note that nothing of `whole` is missing of a kind but objects that wait for their device, a text for each.

        If additions had failed, that is no problem any more, and the kinds whose removals were blocked become dirty.
        """
        state = self._states[name]
        if state.additions_failed:
            # Failed additions of this kind may have blocked removals of other kinds, which may be possible now.
            for other in self._states.values():
                other.dirty = other.dirty or other.blocked
                other.blocked = False
        state.nothing_missing, state.waiting, state.additions_failed = whole, tuple(waiting), ()
        state.end_retries()

    def note_lean(self, name: str, whole: NodeState) -> None:
        """Note that nothing of a kind is superfluous beside `whole`: no removal fails, is withheld or blocked."""
        state = self._states[name]
        state.nothing_extra, state.removals_failed = whole, ()
        state.made = set()
        state.withheld = state.blocked = False
        state.end_retries()

    def note_not_added(self, name: str, texts: t.Iterable[str], retry_at: float) -> None:
        """Note what of a kind could not be read or added, and when to retry. Failed removals stay problems."""
        self._states[name].additions_failed = tuple(texts)
        self._states[name].retry(retry_at)

    def note_not_removed(self, name: str, texts: t.Iterable[str], retry_at: float) -> None:
        """Note what of a kind could not be removed, and when to retry. Failed additions stay problems."""
        self._states[name].removals_failed = tuple(texts)
        self._states[name].retry(retry_at)
