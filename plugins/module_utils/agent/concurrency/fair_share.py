# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bounded share of the event loop for callers other than root.

Most work that other users can cause on the loop, such as accepting a connection or parsing a request, is done in turns
of a FairShare. The events of a stream are written, and slow methods are called, outside of these turns. Root's
requests never wait for a turn:

    share = FairShare()
    async with share.turn(uid):        # waits until it is this caller's turn
        answer()
    share.soon(uid, resume)            # calls one plain function in a turn

One turn is given at a time, to the waiting caller that has used the least time. A turn begins only while no urgent work
is under way (`begin_urgent`), or when the last turn began `patience` seconds ago. After each turn the next one waits
until turns have used no more than `share` of the time, but at most `pause` seconds. By default a turn is charged for
processor time, not for the time in which other processes of a busy machine had the processor.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import json
import time
import typing as t

_T = t.TypeVar("_T")

Key = t.Hashable
_Begin = t.Callable[[], bool]  # begins a turn; returns False if the turn is over already

_OVERHEAD = 0.0001  # seconds that the loop spends around each turn and the turn cannot measure
_REMEMBERED = 512  # If the used times of more callers are kept, those of callers that do not wait are forgotten.
_LONG = 0.002  # seconds after which a turn with more to do pauses

#: The turn that the running task holds, or None. A task inherits that of the task that began it, and does not hold it.
_current: contextvars.ContextVar[t.Optional[Turn]] = contextvars.ContextVar("turn", default=None)


class FairShare:
    """Turns on the event loop, one at a time, that use at most a given share of its time, except very long turns.

    `share` is a fraction of 1. `patience` is in seconds: urgent work delays turns by no more than that each. `pause` is
    in seconds: no turn waits longer for the time that the last one used. `clock` returns seconds. `meter` returns the
    seconds that turns are charged for: by default the processor time of the loop's thread. A FairShare belongs to the
    event loop that runs when it is first used.
    """

    def __init__(
        self,
        share: float = 0.2,
        patience: float = 0.1,
        pause: float = 5.0,
        clock: t.Callable[[], float] = time.perf_counter,
        meter: t.Callable[[], float] = time.thread_time,
    ) -> None:
        self._factor = 1 / share - 1
        self._patience = patience
        self._pause = pause
        self._clock = clock
        self._meter = meter
        self._lines: dict[Key, collections.deque[_Begin]] = {}  # the waiting steps of each caller
        # The seconds used by each caller. When a caller begins to wait, its seconds are raised to those that the caller
        # served last had used before its turn.
        self._spent: dict[Key, float] = {}
        self._floor = 0.0
        self._key: Key = None  # the caller that has the turn, or had the last one
        self._urgent = 0
        self._held = False
        self._began = 0.0  # on the clock
        self._charged = 0.0  # The turn that is held is charged up to here, on the meter.
        self._free_at = 0.0
        self._timer: t.Optional[asyncio.TimerHandle] = None

    def turn(self, key: Key) -> Turn:
        """Return a turn of the caller `key`; `async with` waits for it and holds it."""
        return Turn(self, key)

    def soon(self, key: Key, step: t.Callable[[], None]) -> None:
        """Call `step` soon, in a turn of the caller `key`. Its errors go to the loop's exception handler."""

        def begin() -> bool:
            step()
            return False

        self._put(key, begin)

    def begin_urgent(self) -> None:
        """Delay turns until `end_urgent`, by at most `patience` seconds each. Calls are counted."""
        self._urgent += 1

    def end_urgent(self) -> None:
        """End one `begin_urgent`."""
        self._urgent -= 1
        if not self._urgent and self._lines and not self._held:
            self._plan()

    # --- for Turn

    async def acquire(self, key: Key) -> None:
        """Wait for a turn of the caller `key`; it is held until `release`."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> bool:
            if granted.done():  # the caller was cancelled while it waited
                return False
            granted.set_result(None)
            return True

        self._put(key, begin)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.release()
            raise
        self._begin(self._clock())  # What the loop did since the grant is not charged to this turn.

    def release(self) -> None:
        """End the turn that is held, and plan the next one."""
        self._charge()
        self._held = False
        self._forget()
        self._plan()

    async def rest(self) -> None:
        """Pause until the next turn may begin. Keep the turn, so that only one unfinished request holds resources."""
        self._charge()
        while True:
            delay = self._due() - self._clock()
            if delay <= 0:
                break
            await asyncio.sleep(delay)
        self._begin(self._clock())

    @property
    def used(self) -> float:
        """The seconds that the turn that is held has used since it began, or went on after a pause."""
        return self._meter() - self._charged

    # ---

    def _begin(self, now: float) -> None:
        self._began = now
        self._charged = self._meter()

    def _charge(self) -> None:
        used = self.used + _OVERHEAD
        self._free_at = self._clock() + min(used * self._factor, self._pause)
        self._spent[self._key] += used

    def _put(self, key: Key, begin: _Begin) -> None:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = collections.deque()
            self._spent[key] = max(self._spent.get(key, 0.0), self._floor)
        line.append(begin)
        if not self._held and self._timer is None:
            self._plan()

    def _forget(self) -> None:
        """Forget the used times: all of them if no caller waits; those of absent callers if too many are kept."""
        if not self._lines:
            self._spent.clear()
            self._floor = 0.0
        elif len(self._spent) > _REMEMBERED:
            self._spent = {key: self._spent[key] for key in self._lines}

    def _due(self) -> float:
        return max(self._free_at, self._began + self._patience) if self._urgent else self._free_at

    def _plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            delay = max(0.0, self._due() - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._next)

    def _next(self) -> None:
        self._timer = None
        now = self._clock()
        if now < self._due():
            self._plan()
            return
        self._key = min(self._lines, key=self._spent.__getitem__)
        self._floor = self._spent[self._key]
        line = self._lines[self._key]
        begin = line.popleft()
        if not line:
            del self._lines[self._key]
        self._begin(now)
        self._held = True
        try:
            goes_on = begin()
        except BaseException:
            self.release()
            raise
        if not goes_on:
            self.release()


class Turn:
    """One turn of one caller, as an async context manager: entering waits for the turn, leaving ends it."""

    def __init__(self, share: FairShare, key: Key) -> None:
        self._share = share
        self._key = key
        self._holds = False
        self._token: t.Optional[contextvars.Token[t.Optional[Turn]]] = None
        self._task: t.Optional[asyncio.Task[t.Any]] = None

    async def __aenter__(self) -> Turn:
        await self._share.acquire(self._key)
        self._holds = True
        self._task = asyncio.current_task()
        self._token = _current.set(self)
        return self

    async def __aexit__(self, *dummy: object) -> None:
        if self._token is not None:
            _current.reset(self._token)
        if self._holds:
            self._holds = False
            self._share.release()

    async def give_way(self) -> None:
        """Pause and keep the turn, if the running task holds it and used 2 ms or more since it began or paused."""
        if self._holds and self._task is asyncio.current_task() and self._share.used >= _LONG:
            await self._share.rest()


async def give_way() -> None:
    """Let root's requests and the agent's other work run; for long loops in a handler.

    It pauses, by default for 5 seconds at most, only if this task holds a turn that has used 2 milliseconds of
    processor time or more since it began or last paused. The turn is kept. A request of root holds no turn and never
    pauses.
    """
    turn = _current.get()
    if turn is not None:
        await turn.give_way()


class Coalesced:
    """Work that keeps a thread busy: one piece runs at a time, and callers that ask the same share a piece.

    A caller shares a piece only until the piece begins; after that it gets a new one. A piece is not begun if all its
    callers were cancelled before. One that has begun runs to its end even if all are cancelled.
    """

    def __init__(self, share: FairShare) -> None:
        self._share = share
        self._waiting: dict[str, _Piece] = {}  # pieces that have not begun, by method and parameters

    def __len__(self) -> int:
        """Return the number of pieces of work that have not begun."""
        return len(self._waiting)

    async def __call__(
        self, key: Key, method: str, params: t.Mapping[str, t.Any], work: t.Callable[[], t.Awaitable[_T]]
    ) -> _T:
        """Return the result of `work`, or of equal work that was asked for before and has not begun.

        Work is equal if `method` and `params`, which has to be JSON, are equal. It runs in a turn of the caller `key`
        that asked first; all get the same object or error.
        """
        asked = f"{method} {json.dumps(params, sort_keys=True)}"
        piece = self._waiting.get(asked)
        if piece is None:
            piece = self._waiting[asked] = _Piece(asyncio.ensure_future(self._run(key, asked, work)))
        piece.callers += 1
        try:
            # Not asyncio.shield: from Python 3.14 it logs a traceback for an error that comes after its caller left.
            await asyncio.wait((piece.task,))
            return t.cast(_T, piece.task.result())
        finally:
            piece.callers -= 1
            if not piece.callers and self._waiting.get(asked) is piece:
                del self._waiting[asked]
                piece.task.cancel()

    async def _run(self, key: Key, asked: str, work: t.Callable[[], t.Awaitable[_T]]) -> _T:
        async with self._share.turn(key):
            del self._waiting[asked]
            return await work()


class _Piece:
    def __init__(self, task: asyncio.Future[t.Any]) -> None:
        self.task = task
        self.callers = 0
        task.add_done_callback(_seen)


def _seen(task: asyncio.Future[t.Any]) -> None:
    """Fetch the error of a finished task, because asyncio logs a traceback for an error that no caller fetched."""
    if not task.cancelled():
        task.exception()
