# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replays: watches that begin at an old revision, for which the member reads everything that was written since then.

All of it is in the member's memory several times, whatever keys the watch has, until the agent has read it. So a replay
is bounded in bytes, and one begins after another. An agent whose revision is older lists its keys in pages.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import typing as t

from .stream import AgentStream

#: The most bytes of history that are replayed, and how many need no turn. A replay takes a member six times as much.
MOST_BYTES, RECENT_BYTES = 8 << 20, 1 << 20
#: A watch has caught up when nothing has come for so many seconds; etcd looks ten times a second for those behind.
_QUIET_SECONDS = 0.5
#: The most seconds of a turn. The connection of an agent that has not read by then ends; it goes on where it was.
_TURN_SECONDS = 10.0
#: A smaller change of the database's size is none: pages are freed and used again all the time.
_PART = 128 << 10


class TooFarBack(Exception):
    """A watch from a revision with too much history since. `newest` is the newest revision."""

    def __init__(self, newest: int) -> None:
        super().__init__(newest)
        self.newest = newest


class _Size(t.NamedTuple):
    """The size of the history at a revision, in bytes, with what was compacted since the gate began."""

    revision: int
    written: int


class RevisionSizes:
    """How much was written since a revision, from the sizes that the member's database had at revisions."""

    def __init__(self) -> None:
        self._sizes: collections.deque[_Size] = collections.deque()
        self._compacted = self._size = self.newest = 0

    def note(self, revision: int, size: int) -> None:
        """Note the newest revision, and the bytes of the database that are in use."""
        if revision < self.newest:  # The store went back.
            self._sizes.clear()
        if self._size - size >= _PART:
            self._compacted += self._size - size
        self.newest, self._size = revision, size
        written = size + self._compacted
        if not self._sizes or written - self._sizes[-1].written >= _PART:
            self._sizes.append(_Size(revision, written))
        while self._sizes[0].written < written - 2 * MOST_BYTES:
            self._sizes.popleft()

    def since(self, revision: int) -> int:
        """Return the most bytes that were written from a revision on."""
        before = [found.written for found in self._sizes if found.revision < revision]
        return min(self._size, self._size + self._compacted - before[-1]) if before else self._size


class Replay:
    """A replay that has its turn. `end` gives the turn to others; it may be called more than once."""

    def __init__(self, end: t.Callable[[], None]) -> None:
        self.ended = False
        self._given = end
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + _TURN_SECONDS
        self._quiet = self._loop.call_later(_TURN_SECONDS, self.end)

    def end(self) -> None:
        self.ended = True
        self._quiet.cancel()
        self._given()

    @contextlib.contextmanager
    def sending(self, stream: AgentStream) -> t.Iterator[None]:
        """Send a part, the body of the statement. It ends with the turn."""
        self._quiet.cancel()
        with stream.limit(max(0.0, self._until - self._loop.time())):
            yield
        left = self._until - self._loop.time()
        self._quiet = self._loop.call_later(max(0.0, min(_QUIET_SECONDS, left)), self.end)
