# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the reconciler knows of each kind of object: what it found last, what failed, when to look and to retry."""

from __future__ import annotations

import dataclasses
import typing as t

from ...state.node_state import NodeState


@dataclasses.dataclass
class KindState:
    """One kind of object, which is what one driver writes."""

    #: It is to be looked at.
    dirty: bool = True
    #: Somebody else may have written it.
    doubted: bool = False
    #: The last state of which nothing was missing.
    complete: t.Optional[NodeState] = None
    #: The last state of which there was nothing too much.
    lean: t.Optional[NodeState] = None
    #: Kind and subject of what is too much and stays for somebody who uses it. That it goes afterwards is no drift.
    kept: frozenset[tuple[str, str]] = frozenset()
    #: What failed, and why.
    problems: tuple[str, ...] = ()
    #: Only removing failed.
    only_removing_failed: bool = False
    #: What waits for its device.
    waiting: tuple[str, ...] = ()
    #: There is too much of it, and removing is not allowed yet.
    withheld: bool = False
    #: There is too much of it, and something failed that may still need it.
    blocked: bool = False
    #: Failures in a row.
    attempts: int = 0
    #: When to try again, in seconds of the loop's clock.
    retry_at: t.Optional[float] = None

    @property
    def hinders_removals(self) -> bool:
        """Whether something of it may be missing that still leads over what another kind has too much of."""
        return bool(self.problems) and not self.only_removing_failed


class KindStates:
    """All kinds, in the order of the drivers."""

    def __init__(self, names: t.Iterable[str]) -> None:
        self._states = {name: KindState() for name in names}

    def __getitem__(self, name: str) -> KindState:
        """Return the state of a kind. Raises KeyError."""
        return self._states[name]

    @property
    def names(self) -> tuple[str, ...]:
        """All kinds."""
        return tuple(self._states)

    @property
    def dirty(self) -> tuple[str, ...]:
        """The kinds of objects that the next look reads."""
        return self.those(lambda state: state.dirty)

    @property
    def withheld(self) -> tuple[str, ...]:
        """The kinds with superfluous objects that may not be removed yet."""
        return self.those(lambda state: state.withheld)

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """{kind: what failed, and why}, of kinds with problems."""
        return {name: state.problems for name, state in self._states.items() if state.problems}

    @property
    def waiting(self) -> dict[str, tuple[str, ...]]:
        """{kind: what waits for its device}, of kinds with any."""
        return {name: state.waiting for name, state in self._states.items() if state.waiting}

    def those(self, are: t.Callable[[KindState], bool]) -> tuple[str, ...]:
        """Return the kinds whose state `are` is true of."""
        return tuple(name for name, state in self._states.items() if are(state))

    def mark(self, names: t.Iterable[str]) -> None:
        """Have these kinds looked at."""
        for name in names:
            self._states[name].dirty = True

    def doubt(self, names: t.Iterable[str]) -> None:
        """Note that somebody else may have written these kinds."""
        for name in names:
            self._states[name].doubted = True

    def take_dirty(self) -> set[str]:
        """Return the kinds to be looked at; they are not dirty afterwards."""
        taken = set(self.dirty)
        for name in taken:
            self._states[name].dirty = False
        return taken

    def take_doubted(self, names: t.Iterable[str]) -> set[str]:
        """Return those of these kinds that are doubted; they are not afterwards."""
        taken = {name for name in names if self._states[name].doubted}
        for name in taken:
            self._states[name].doubted = False
        return taken

    def overdue(self, now: float) -> tuple[str, ...]:
        """Return the kinds that are to be tried again by `now`."""
        return self.those(lambda state: state.retry_at is not None and state.retry_at <= now)

    def next_retry(self, otherwise: float) -> float:
        """Return when the next kind is tried again, at the latest `otherwise`."""
        return min([otherwise, *(state.retry_at for state in self._states.values() if state.retry_at is not None)])

    def completed(self, but_for: t.Collection[str] = ()) -> bool:
        """Return whether all kinds, but for these, were once found with nothing missing."""
        return all(state.complete is not None for name, state in self._states.items() if name not in but_for)

    def well(self, name: str) -> None:
        """Note that nothing of a kind failed."""
        state = self._states[name]
        if state.problems:
            # What had to wait for it can go now.
            for other in self._states.values():
                other.dirty = other.dirty or other.blocked
                other.blocked = False
        state.problems, state.waiting = (), ()
        state.attempts, state.retry_at, state.only_removing_failed = 0, None, False

    def failed(self, name: str, texts: t.Iterable[str], retry_at: float) -> None:
        """Note what failed of a kind, and when to try again."""
        state = self._states[name]
        state.attempts += 1
        state.problems = tuple(texts)
        state.retry_at = retry_at
