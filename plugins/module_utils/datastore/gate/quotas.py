# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of its member a user may take: keys and bytes below its prefixes, writes, and reads at the same time.

A node's agent stays far below each bound. A stolen node must neither fill the database nor the members' memory, where
each byte that is written takes three: in the log of changes, in the database, and in what Go has not freed yet.

A gate counts what goes through it, so it knows nothing of writes through other gates, and takes each one for a new key.
When a sum reaches its bound, the gate asks its member how much there really is, with the user's own token.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
import typing as t

from .. import gateway, keys
from ..gateway import Json
from .buckets import Bucket
from .requests import PAGE_KEYS, RANGE, RequestNotPassed

#: The workloads of a node that a gate makes room for by default.
WORKLOADS = 1_000
#: The bytes of a workload of the largest kind, with its key: 64 labels, ports, profiles and addresses of each kind.
_LARGEST = 40 << 10
#: What a user may write at once and within a second, in bytes for each workload that there is room for. Each operation
#: counts _OPERATION bytes beside its key and its value, so small ones are bounded in number.
_BURST, _RATE, _OPERATION = 2 << 10, 6, 512
#: Heartbeats that a user may write at once, and within a second. An agent writes one in ten seconds.
_BEATS, _BEAT_RATE = 10.0, 0.2
#: What a user may say of its live policy at once, and within a second. An agent says it at most twice a second.
_POLICY_BEATS, _POLICY_BEAT_RATE = 10.0, 2.0
#: The most watches of a user; the oldest one ends for another one, as its agent may have gone without a word. So many
#: may begin at once, and so many within a second: for each one, the member has all that was changed since its first
#: revision in memory.
_WATCHES, _BEGINNING, _BEGIN_RATE = 2, 6.0, 0.1
#: Seconds in which the member may make answers to reads of a user at once, and within a second; and the longest pause
#: before another one. A list of 10,000 workloads takes it half a second.
_READING, _READ_RATE, _READ_PAUSE = 10.0, 0.25, 5.0
#: Answers that the member makes at the same time. One of 64 keys of the largest kind costs it 45 MiB.
_ANSWERS = 2
#: Seconds between two questions to the member how many bytes there are, for which it reads them all.
_RECOUNT_SECONDS = 10.0

#: Asks the member for the answer to a call in the user's name. Raises EtcdError or TransportError.
Ask = t.Callable[[str, bytes], t.Awaitable[Json]]


class TooMuch(RequestNotPassed):
    """A request beyond a bound of its user. `seconds` says when it may be passed, 0 if something has to go first."""

    def __init__(self, why: str, seconds: int = 0) -> None:
        super().__init__(why)
        self.seconds = seconds


class Quota:
    """What one user has and may take. `workloads` is the number for which there is room."""

    def __init__(self, user: str, workloads: int, clock: t.Callable[[], float]) -> None:
        self._user, self._workloads, self._clock = user, workloads, clock
        self._keys = self._bytes = self._answers = 0
        self._recounted = float("-inf")
        now = clock()
        self._written = Bucket(workloads * _BURST, workloads * _RATE, now)
        self._beats = Bucket(_BEATS, _BEAT_RATE, now)
        self._policy_beats = Bucket(_POLICY_BEATS, _POLICY_BEAT_RATE, now)
        self._beginning = Bucket(_BEGINNING, _BEGIN_RATE, now)
        self._answered = Bucket(_READING, _READ_RATE, now)
        self._reading, self._writing = asyncio.Lock(), asyncio.Lock()
        self._watches: list[t.Callable[[], None]] = []

    @contextlib.asynccontextmanager
    async def read(self) -> t.AsyncIterator[None]:
        """Wait for the user's other reads, longer if they took the member long; the statement's body is the read."""
        async with self._reading:
            await asyncio.sleep(min(_READ_PAUSE, self._answered.wait(0.0, self._clock())))
            yield

    @contextlib.contextmanager
    def answer(self) -> t.Iterator[None]:
        """Count the seconds of the statement's body, in which the member makes an answer."""
        began = self._clock()
        try:
            yield
        finally:
            self._answered.wait(0.0, self._clock())
            self._answered.take(self._clock() - began)

    @contextlib.contextmanager
    def watch(self, end: t.Callable[[], None]) -> t.Iterator[None]:
        """Count a watch, the statement's body; `end` the oldest of too many. Raise TooMuch if one begins too soon."""
        self._check(self._beginning, 1.0, "begins watches")
        self._beginning.take(1.0)
        if len(self._watches) >= _WATCHES:
            self._watches.pop(0)()
        self._watches.append(end)
        try:
            yield
        finally:
            if end in self._watches:
                self._watches.remove(end)

    async def write(self, writes: t.Sequence[Json], ask: Ask) -> None:
        """Count the puts and deletions of a transaction. Raise TooMuch if they have to wait, and what `ask` raises."""
        async with self._writing:
            await self._write(writes, ask)

    async def _write(self, writes: t.Sequence[Json], ask: Ask) -> None:
        beats = policy_beats = cost = puts = size = answers = 0
        for one in writes:
            key = base64.b64decode(one["key"])
            length = len(key) + len(one.get("value", "")) * 3 // 4
            name = key.decode("utf-8", "surrogateescape")
            if name == keys.heartbeat_key(self._user):
                beats += 1
                continue
            if name == keys.policy_heartbeat_key(self._user):
                policy_beats += 1
                continue
            cost += _OPERATION + length
            if "value" in one and key.startswith(keys.ANSWERS.encode()):
                answers += 1
            elif "value" in one:
                puts, size = puts + 1, size + length
        self._check(self._beats, beats, "writes heartbeats")
        self._check(self._policy_beats, policy_beats, "says what it has of live documents")
        self._check(self._written, cost, "writes")
        if puts:
            await self._make_room(puts, size, ask)
        if answers:
            await self._make_room_for_answers(answers, ask)
        self._beats.take(beats)
        self._policy_beats.take(policy_beats)
        self._written.take(cost)
        self._keys += puts
        self._bytes += size
        self._answers += answers

    def _check(self, bucket: Bucket, amount: float, what: str) -> None:
        wait = bucket.wait(amount, self._clock())
        if wait > 0:
            raise self._later(f"this user {what} faster than it may", wait)

    def _later(self, why: str, wait: float) -> TooMuch:
        seconds = min(gateway.LATEST_SECONDS, int(wait) + 1)
        return TooMuch(f"{why}; the next time is in {seconds} s", seconds)

    async def _make_room(self, puts: int, size: int, ask: Ask) -> None:
        """Compare the sums with their bounds, and with what the member has if they reach them.

        Keys that are written again are no new ones, so a user that is not beyond a bound may write whatever it is.
        """
        most_keys, most_bytes = self._workloads + 1, self._workloads * _LARGEST
        if self._keys + puts > most_keys:
            self._keys = await self._count(keys.endpoints_of(self._user), ask)
            if self._keys > most_keys:
                raise self._full(f"{self._keys} keys", f"{most_keys}")
        if self._bytes + size > most_bytes:
            wait = self._recounted + _RECOUNT_SECONDS - self._clock()
            if wait > 0:
                raise self._later("this user's bytes were counted a moment ago", wait)
            self._bytes = await self._measure(ask)
            self._recounted = self._clock()
        if self._bytes > most_bytes:
            raise self._full(f"{self._bytes} bytes", f"{most_bytes}")

    async def _make_room_for_answers(self, puts: int, ask: Ask) -> None:
        if self._answers + puts > keys.MOST_ANSWERS:
            self._answers = await self._count(keys.answers_of(self._user), ask)
            if self._answers > keys.MOST_ANSWERS:
                raise TooMuch(
                    f"node {self._user} has {self._answers} answers to changes in the datastore, and at most "
                    f"{keys.MOST_ANSWERS} are passed: its agent removes those to earlier changes"
                )

    def _full(self, found: str, most: str) -> TooMuch:
        return TooMuch(
            f"node {self._user} has {found} of workloads in the datastore, and at most {most} are passed: remove "
            f"workloads, or raise calico_etcd_node_workloads (it is {self._workloads}) and run playbooks/etcd.yml"
        )

    async def _count(self, prefix: str, ask: Ask) -> int:
        own = keys.under(prefix)
        request = {"key": gateway.encoded(own.start), "range_end": gateway.encoded(own.end), "count_only": True}
        return gateway.page_of(await ask(RANGE, gateway.to_bytes(request))).total

    async def _measure(self, ask: Ask) -> int:
        total, after = 0, ""
        while True:
            answer = await ask(RANGE, gateway.to_bytes({**self._range(after), "limit": str(PAGE_KEYS)}))
            page = gateway.page_of(answer)
            total += sum(len(entry.key) + len(entry.value) for entry in page.entries)
            if not page.more or not page.entries:
                return total
            after = f"{page.entries[-1].key}\x00"

    def _range(self, start: str) -> Json:
        own = keys.under(keys.endpoints_of(self._user))
        return {"key": gateway.encoded(start or own.start), "range_end": gateway.encoded(own.end)}


class Quotas:
    """The quotas of all users."""

    def __init__(self, workloads: int = WORKLOADS, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._workloads, self._clock = workloads, clock
        self._of: dict[str, Quota] = {}
        self._answers: t.Optional[asyncio.Semaphore] = None

    @contextlib.asynccontextmanager
    async def answer(self, reader: t.Optional[str]) -> t.AsyncIterator[None]:
        """Wait until the member makes few answers; the statement's body is one. A `reader` of None need not wait."""
        if reader is None:
            yield
            return
        if self._answers is None:  # of the loop that runs
            self._answers = asyncio.Semaphore(_ANSWERS)
        async with self._answers:
            with self.of(reader).answer():
                yield

    def of(self, user: str) -> Quota:
        quota = self._of.get(user)
        if quota is None:
            quota = self._of[user] = Quota(user, self._workloads, self._clock)
        return quota
