# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The turns of requests: who is served when more come than the gate and its member can serve at once."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import typing as t

from ..gateway import LATEST_SECONDS
from .buckets import Buckets
from .places import ConnectionPlace

#: Authentications at the same time. Each one takes 70 ms of a processor of the member (bcrypt).
AUTHENTICATIONS = 2
#: Requests that one source may have waiting, and the most seconds that one waits before it is put off.
_WAITING, _WAITING_SECONDS = 8, 5.0
#: Authentications of one address in a second, and how many may come at once.
_RATE, _BURST = 2.0, 32.0
#: Requests of one user at the same time, from the reading of the body until the last byte of the answer is sent.
_OF_A_USER = 4
#: Requests of all users at the same time. Each one costs at most 1 MiB, as do parts of its answer.
_OF_ALL = 32

#: Gives a turn to others before its end. It may be called more than once.
GiveTurn = t.Callable[[], None]


class PutOff(Exception):
    """A request that is not served now. `seconds` says when it may be."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it is busy; ask again in {_rounded(seconds)} s")
        self.seconds = _rounded(seconds)


class FairTurns:
    """Turns that few have at the same time. Those who wait have them by source: one of each after another."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._running = 0
        self._took = 0.1  # seconds, of one in the mean
        #: Those who wait, by source; the sources that are served first, and others.
        self._queues: dict[bool, dict[str, collections.deque[asyncio.Future[None]]]] = {True: {}, False: {}}

    @contextlib.asynccontextmanager
    async def turn(self, source: str, is_first: bool = True, wait: float = 0.0) -> t.AsyncIterator[GiveTurn]:
        """Wait for the turn of a source: the body of the statement, or less if that calls what is yielded.

        Raise PutOff if it does not come within a few seconds, or if the source has to `wait` for so many seconds.
        """
        loop = asyncio.get_running_loop()
        queue = self._queues[is_first].setdefault(source, collections.deque())
        if wait or len(queue) >= _WAITING:
            self._tidy()
            raise PutOff(max(wait, self._expected()))
        mine: asyncio.Future[None] = loop.create_future()
        queue.append(mine)
        self._next()
        timer = loop.call_later(_WAITING_SECONDS, self._put_off, mine)
        try:
            await mine
        except BaseException:
            if mine.done() and not mine.cancelled() and mine.exception() is None:
                self._end()  # The turn came together with a cancellation.
            raise
        finally:
            timer.cancel()
            self._tidy()
        began, ended = loop.time(), False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                self._took += (min(loop.time() - began, 10.0) - self._took) / 8
                self._end()

        try:
            yield end
        finally:
            end()

    def _put_off(self, waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            waiting.set_exception(PutOff(self._expected()))

    def _expected(self) -> float:
        waiting = sum(len(queue) for queues in self._queues.values() for queue in queues.values())
        return waiting * self._took / self._at_once

    def _end(self) -> None:
        self._running -= 1
        self._next()

    def _next(self) -> None:
        while self._running < self._at_once:
            waiting = self._first()
            if waiting is None:
                return
            self._running += 1
            waiting.set_result(None)

    def _first(self) -> t.Optional[asyncio.Future[None]]:
        """Return the next one that waits, and move its source to the end of the order."""
        for queues in (self._queues[True], self._queues[False]):
            for source, queue in list(queues.items()):
                while queue:
                    waiting = queue.popleft()
                    if not waiting.done():
                        queues[source] = queues.pop(source)
                        return waiting
        return None

    def _tidy(self) -> None:
        for queues in self._queues.values():
            for source in [source for source, queue in queues.items() if not any(not one.done() for one in queue)]:
                del queues[source]


class Newcomers:
    """The turns of those who have no token, by address: the fleet's addresses first."""

    def __init__(self, at_once: int = AUTHENTICATIONS) -> None:
        self._turns = FairTurns(at_once)
        self._rates = Buckets(_BURST, _RATE)

    def turn(self, place: ConnectionPlace) -> t.AsyncContextManager[GiveTurn]:
        """Return the turn of a connection, as `FairTurns.turn` does."""
        wait = self._rates.take(place.source, asyncio.get_running_loop().time())
        return self._turns.turn(place.source, place.of_fleet, wait)


class Users:
    """The turns of users, whose requests are served side by side, but few of one at the same time."""

    def __init__(self) -> None:
        self._turns: dict[str, tuple[asyncio.Semaphore, int]] = {}
        self._all = asyncio.Semaphore(_OF_ALL)

    @contextlib.asynccontextmanager
    async def turn(self, user: str) -> t.AsyncIterator[None]:
        """Wait for the turn of a user's request, which is the body of the statement."""
        semaphore, count = self._turns.get(user) or (asyncio.Semaphore(_OF_A_USER), 0)
        self._turns[user] = semaphore, count + 1
        try:
            async with semaphore, self._all:
                yield
        finally:
            count = self._turns[user][1] - 1
            if count:
                self._turns[user] = semaphore, count
            else:
                del self._turns[user]


def _rounded(seconds: float) -> int:
    return int(min(LATEST_SECONDS, max(1, seconds + 0.5)))
