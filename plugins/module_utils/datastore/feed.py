# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The feed: what a range of keys has, and every change of it, for as long as the process lives.

    position known ──► is the history the same? ──yes──► watch from there
                                │ no, or compacted
    no position ────────────────┴──► list in pages ──► watch from the revision of the listing

The mirror keeps what the feed reads, also while no member answers. A store that was restored to an earlier revision, or
is another cluster, is listed anew.

etcd compares nothing when a watch begins: from a revision of the future it is silent, and after a restore it skips what
happened in between. So the feed asks first for the number of keys and for some that it knows, at the revision of the
last change that it has read.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import random
import time
import typing as t
import zlib

from . import gateway
from .client import EtcdClient, Member, Unreachable
from .gateway import Compacted, EtcdError, FutureRevision, Header, KeyChange, KeyValue, Unauthenticated
from .keys import KeyRange
from .mirror import KnownKey, Mirror, Position
from .settings import PROGRESS_SECONDS
from .transport import AnswerTooLarge, Lines, TransportError

#: So many intervals without a message mean that the member is dead or stopped.
_MISSED = 5
#: Seconds between two questions to a member whose interval of progress is not known.
_ASK_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 4.0  # seconds between two attempts, before they are made random
#: The most seconds of the random pause before a range is listed anew, while all other nodes may do the same.
_LISTING_JITTER = 2.0
_HELLO_SECONDS = 10.0  # until the first message of a watch
_OTHER_HISTORY = "the datastore has another history than what this node has read"
#: Keys of a listing that the mirror takes in one step: it is about four milliseconds long.
_STEP = 100
#: Changes of a watch that the mirror takes in one step. Adds of workloads, which take several turns of the event loop,
#: wait for a step in each.
_WATCHED = 16
#: Keys that are compared with the store before a watch continues.
_COMPARED = 8


@dataclasses.dataclass(frozen=True)
class FeedStatus:
    """How fresh the content is. `synced`: all changes arrive as they happen.

    `since` is when `synced` changed last, and `heard` when a member was heard last, both in seconds of time.time(), 0.0
    for never. `member` is watched, "" for none. `problem` is why there is none, or what was wrong last.
    """

    synced: bool = False
    since: float = 0.0
    heard: float = 0.0
    member: str = ""
    problem: str = ""
    listings: int = 0
    resumptions: int = 0


class _AnotherStore(Exception):
    """The content and the store have no common history."""


class Feed:
    """The feed of `keys` into `mirror`. `progress` is the members' interval of progress in seconds, None if not known.

    `on_status` is called after each change of `status`, except `heard`, and `on_read` with changes that the mirror has
    taken, () for a listing. `give_way` is awaited between two steps of work: it lets urgent tasks finish. `clock` is
    time.time.
    """

    def __init__(
        self,
        client: EtcdClient,
        keys: KeyRange,
        mirror: Mirror,
        *,
        progress: t.Optional[float] = PROGRESS_SECONDS,
        listing_jitter: float = _LISTING_JITTER,
        on_status: t.Callable[[FeedStatus], None] = lambda status: None,
        on_read: t.Callable[[t.Sequence[KeyChange]], None] = lambda changes: None,
        give_way: t.Callable[[], t.Awaitable[None]] = functools.partial(asyncio.sleep, 0),
        clock: t.Callable[[], float] = time.time,
    ) -> None:
        self.status = FeedStatus()
        self._client = client
        self._keys = keys
        self._mirror = mirror
        self._progress = progress
        self._listing_jitter = listing_jitter
        self._on_status = on_status
        self._on_read = on_read
        self._give_way = give_way
        self._clock = clock
        self._failures = 0
        self._refused_tokens = 0

    async def run(self) -> None:
        """Read for the mirror until this is cancelled. A failure is noted in `status`, and the next attempt follows."""
        while True:
            try:
                await self._follow()
            except (_AnotherStore, Compacted, FutureRevision) as error:
                self._lost(str(error))
                await self._list()
            except Unauthenticated as error:
                self._lost(error.message)
                self._refused_tokens += 1
                await self._client.member.forget_token()
                if self._refused_tokens > 1:
                    await self._pause()
            except (EtcdError, TransportError) as error:
                self._lost(f"{self._client.member.name}: {error}")
                self._client.rotate()
                await self._pause()
            except Unreachable as error:
                self._lost(str(error))
                await self._pause()

    async def _pause(self) -> None:
        self._failures += 1
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self._failures, 10))
        await asyncio.sleep(random.uniform(longest / 2, longest))

    # --- the content ---

    async def _list(self) -> None:
        await asyncio.sleep(random.uniform(0, self._listing_jitter))
        try:
            await self._listed()
        except (EtcdError, Unreachable) as error:
            self._lost(str(error))
            await self._pause()

    async def _listed(self) -> Position:
        first = True
        position: t.Optional[Position] = None
        async for page in self._client.pages(self._keys, bounds=self._mirror.bounds):
            revision = page.header.revision
            if page.left_out:
                self._mirror.leave_out(page.share, page.left_out)
            position = Position(page.header.cluster, revision, revision)
            for at in range(0, max(1, len(page.entries)), _STEP):
                self._mirror.list_part(page.entries[at : at + _STEP], first)
                first = False
                await self._give_way()
        if position is None:
            raise gateway.InvalidAnswer("the listing has no page")
        with contextlib.closing(self._mirror.list_end(position)) as steps:
            for dummy in steps:
                await self._give_way()
        self._on_read(())
        self._set(listings=self.status.listings + 1)
        return position

    async def _start(self) -> int:
        """Return the revision from which a watch misses nothing. Raise _AnotherStore if there is none."""
        position = self._mirror.position
        if position is None:
            return (await self._listed()).revision + 1
        revision = position.changed
        try:
            await self._compared(position, revision)
        except (Compacted, FutureRevision) as error:
            page = await self._client.last_change(self._keys, self._mirror.bounds)
            self._same_store(page.header, position.cluster, position.revision)
            if isinstance(error, FutureRevision):
                raise _AnotherStore(_OTHER_HISTORY) from None
            if any(entry.mod_revision > revision for entry in page.entries) or page.total != self._mirror.count:
                raise _AnotherStore("the datastore no longer has the changes that this node has missed") from None
            revision = page.header.revision
            await self._compared(position, revision)
        self._set(resumptions=self.status.resumptions + 1)
        return revision + 1

    async def _compared(self, position: Position, revision: int) -> None:
        """Raise _AnotherStore if the store at `revision` differs from the mirror."""
        known = self._mirror.newest(_COMPARED)
        try:
            found = await self._client.history(self._keys, [one.key for one in known], revision)
        except AnswerTooLarge:
            raise _AnotherStore(_OTHER_HISTORY) from None
        self._same_store(found.header, position.cluster, position.revision)
        if found.total != self._mirror.count or _known(found.entries) != known:
            raise _AnotherStore(_OTHER_HISTORY)

    # --- changes ---

    async def _follow(self) -> None:
        """Watch one member until something fails, which is raised."""
        revision = await self._start()
        position = self._mirror.position
        if position is None:
            raise _AnotherStore("the mirror has lost its position")
        member = self._client.member
        async with member.watch(self._keys, revision) as lines:
            begun = gateway.watch_answer_of(await lines.next(_HELLO_SECONDS))
            if begun.canceled:
                raise gateway.cancellation_of(begun)
            if not begun.created:
                raise gateway.InvalidAnswer("the watch begins with another message")
            self._same_store(begun.header, position.cluster, revision - 1)
            self._failures = self._refused_tokens = 0
            self._set(member=member.name, problem="")
            await self._read(member, lines, begun.header, revision)

    def _same_store(self, header: Header, cluster: int, revision: int) -> None:
        if header.cluster != cluster:
            raise _AnotherStore("the datastore is another etcd cluster than before")
        if header.revision < revision:
            raise _AnotherStore("the datastore went back to an earlier revision")

    async def _read(self, member: Member, lines: Lines, header: Header, revision: int) -> None:
        if self._progress is not None:
            await self._read_lines(lines, header, revision, self._progress * _MISSED)
        asking = asyncio.ensure_future(self._ask(member))
        reading = asyncio.ensure_future(self._read_lines(lines, header, revision, float("inf")))
        try:
            done, _pending = await asyncio.wait({asking, reading}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (asking, reading):
                task.cancel()
            await asyncio.gather(asking, reading, return_exceptions=True)

    async def _read_lines(self, lines: Lines, begun: Header, revision: int, silence: float) -> None:
        """Take the messages after a watch's first one, whose header is `begun`, in steps of a few milliseconds."""
        if begun.revision < revision:
            self._synced()
        while True:
            answer = gateway.watch_answer_of(await lines.next(min(silence, 86_400.0)))
            self.status = dataclasses.replace(self.status, heard=self._clock())
            if answer.canceled:
                raise gateway.cancellation_of(answer)
            position = self._mirror.position
            if not answer.changes:
                if answer.header.revision and position is not None:
                    # Progress: everything up to this revision was sent.
                    self._mirror.change((), Position(begun.cluster, answer.header.revision, position.changed))
                    self._synced()
                continue
            # A member that catches up puts its newest revision into the header, which is beyond these changes.
            for first in range(0, len(answer.changes), _WATCHED):
                changes = answer.changes[first : first + _WATCHED]
                read = changes[-1].mod_revision
                if answer.fragment or first + _WATCHED < len(answer.changes):
                    read -= 1  # The rest of this revision follows.
                self._mirror.change(changes, Position(begun.cluster, read, read))
                self._on_read(changes)
                await self._give_way()
            if read >= begun.revision:
                self._synced()  # A member sends no progress to a watch that has changes all the time.

    async def _ask(self, member: Member) -> None:
        """Ask the member again and again whether it lives; raise its failure.

        Until the mirror is in sync, ask also what was changed last, for which a member reads the whole range.
        """
        while True:
            await member.call("/v3/kv/range", gateway.range_request(self._keys, limit=1, keys_only=True, local=True))
            self.status = dataclasses.replace(self.status, heard=self._clock())
            if not self.status.synced:
                page = await self._client.last_change(self._keys, self._mirror.bounds)
                position = self._mirror.position
                if position is not None and all(entry.mod_revision <= position.revision for entry in page.entries):
                    self._synced()
            await asyncio.sleep(_ASK_SECONDS)

    # --- status ---

    def _synced(self) -> None:
        now = self._clock()
        if not self.status.synced:
            self._set(synced=True, since=now, heard=now)

    def _lost(self, problem: str) -> None:
        since = self._clock() if self.status.synced or not self.status.since else self.status.since
        self._set(synced=False, since=since, member="", problem=problem)

    def _set(self, **changes: t.Any) -> None:
        self.status = dataclasses.replace(self.status, **changes)
        self._on_status(self.status)


def _known(entries: t.Iterable[KeyValue]) -> list[KnownKey]:
    return [KnownKey(entry.key, entry.mod_revision, zlib.crc32(entry.value)) for entry in entries]
