# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of an etcd cluster: calls and watches at one member at a time, and another member when one fails.

A token is known to the member that gave it and expires there, so each member is asked for its own. A call whose token
is refused authenticates once more, after a random pause: after a restart of a member, many clients do.

A token names the entry of the members' log at which it was given. A member that was restored, or is of another cluster,
does not refuse an old token: it keeps the call waiting until its log is as long. So a token is dropped when the member
has closed a connection, as at its end, and whenever another member is chosen, as after a call without an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import typing as t

from . import gateway
from .gateway import Json, PermissionDenied, Unauthenticated, Unavailable
from .keys import KeyRange
from .transport import ANSWER_LIMIT, AnswerTooLarge, Lines, RefusedStream, Transport, TransportError

#: Seconds for a call. etcd itself gives up after 7 (5 and twice its time of an election).
CALL_SECONDS = 10.0
#: The keys of one page of a listing. Larger pages cost the member less and the client more memory.
PAGE = 500
#: The most seconds of the random pause before a refused token is replaced.
JITTER = 1.0
#: The call that answers a name and a password with a token.
AUTHENTICATE = "/v3/auth/authenticate"
#: The calls on users and roles, which only root may make.
_ADMINISTRATION = "/v3/auth/"
#: How often such a call is attempted while it is denied, and the seconds between two attempts.
_ATTEMPTS, _DENIED_PAUSE = 6, 0.2
#: A watch at a member without a leader ends instead of being silent (etcd's metadata `hasleader`).
_NEEDS_LEADER = {"Grpc-Metadata-hasleader": "true"}


@dataclasses.dataclass(frozen=True)
class Credentials:
    """A user of etcd."""

    user: str
    password: str = dataclasses.field(repr=False)


class Unreachable(Exception):
    """No member answered. `reasons` says why, by address."""

    def __init__(self, reasons: t.Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        listed = "; ".join(f"{address}: {reason}" for address, reason in self.reasons.items())
        super().__init__(f"no member of the etcd cluster answers ({listed})")


class Member:
    """One member, with the token that it gave."""

    def __init__(
        self,
        name: str,
        transport: Transport,
        credentials: t.Optional[Credentials],
        pause: t.Callable[[], t.Awaitable[None]],
    ) -> None:
        self.name = name
        self._transport = transport
        self._credentials = credentials
        self._pause = pause
        self._token = ""
        self._asking = asyncio.Lock()

    async def call(self, path: str, body: bytes, seconds: float = CALL_SECONDS) -> Json:
        """Return the answer to a call. Raise EtcdError, or TransportError without an answer.

        A denied call on users and roles is repeated for a second. After a user was written, etcd 3.5 may read an old
        state of root, without its role, until the next commit 0.1 s later: `bucketBuffer.Range` in
        server/mvcc/backend/tx_buffer.go reads an entry behind those in use.
        """
        denied = 0
        while True:
            try:
                return await self._answered(path, body, seconds)
            except PermissionDenied:
                denied += 1
                if denied == _ATTEMPTS or not path.startswith(_ADMINISTRATION):
                    raise
            await asyncio.sleep(_DENIED_PAUSE)

    async def _answered(self, path: str, body: bytes, seconds: float) -> Json:
        """Return the answer to a call, with a new token if the member refuses the one that it gave."""
        token = await self._known_token(seconds)
        try:
            return await self._call(path, body, token, seconds)
        except Unauthenticated:
            if self._credentials is None:
                raise
        return await self._call(path, body, await self._new_token(token, seconds), seconds)

    async def _call(self, path: str, body: bytes, token: str, seconds: float) -> Json:
        headers = {"Authorization": token} if token else {}
        status, data = await self._transport.call(path, body, headers, seconds)
        if status != 200:
            raise gateway.error_of(status, data)
        return gateway.decode(data)

    @contextlib.asynccontextmanager
    async def watch(self, keys: KeyRange, revision: int, seconds: float = CALL_SECONDS) -> t.AsyncIterator[Lines]:
        """Yield the lines of a watch of a range from `revision` on. Raise EtcdError or TransportError."""
        token = await self._known_token(seconds)
        headers = {**_NEEDS_LEADER, **({"Authorization": token} if token else {})}
        try:
            async with self._transport.watch(
                "/v3/watch", gateway.watch_request(keys, revision), headers, seconds
            ) as lines:
                yield lines
        except RefusedStream as refused:
            raise gateway.error_of(refused.status, refused.body) from None

    async def forget_token(self) -> None:
        """Ask for another token before the next call or watch, after a random pause."""
        await self._pause()
        self.drop_token()

    def drop_token(self) -> None:
        """Ask for another token before the next call or watch."""
        self._token = ""

    async def _known_token(self, seconds: float) -> str:
        if self._credentials is None:
            return ""
        if self._transport.broke() or not self._token:
            self.drop_token()
        else:
            return self._token
        return await self._authenticated("", seconds)

    async def _new_token(self, refused: str, seconds: float) -> str:
        await self._pause()
        return await self._authenticated(refused, seconds)

    async def _authenticated(self, refused: str, seconds: float) -> str:
        """Return a token other than `refused`. Calls that need one at the same time share it."""
        async with self._asking:
            if self._token == refused:
                credentials = self._credentials
                if credentials is None:
                    raise Unauthenticated("this client has no user")
                body = gateway.to_bytes({"name": credentials.user, "password": credentials.password})
                answer = await self._call(AUTHENTICATE, body, "", seconds)
                self._token = gateway.token_of(answer)
            return self._token

    async def close(self) -> None:
        """Close the member's connections."""
        await self._transport.close()


class EtcdClient:
    """A client of all members. `transports` maps a member's address, for people, to the way to it.

    The first member is chosen at random, so that the clients of a fleet spread over the members.
    """

    def __init__(
        self,
        transports: t.Mapping[str, Transport],
        credentials: t.Optional[Credentials] = None,
        seconds: float = CALL_SECONDS,
        jitter: float = JITTER,
    ) -> None:
        async def pause() -> None:
            await asyncio.sleep(random.uniform(0, jitter))

        self._members = [Member(name, transport, credentials, pause) for name, transport in transports.items()]
        random.shuffle(self._members)
        self._seconds = seconds

    @property
    def member(self) -> Member:
        """The member that is asked next."""
        return self._members[0]

    def rotate(self) -> None:
        """Ask another member from now on, with a new token."""
        self._members.append(self._members.pop(0))
        self.member.drop_token()

    async def call(self, path: str, body: bytes) -> Json:
        """Return the answer of the first member that gives one. Raise EtcdError for a refusal, or Unreachable.

        Each member is asked once. A call that changes something may have been done by a member whose answer was lost,
        so it has to be one that may be repeated.
        """
        try:
            return await self._answer(path, body)
        except AnswerTooLarge as error:
            raise self._too_large(error) from None

    def _too_large(self, error: AnswerTooLarge) -> Unreachable:
        """Ask another member from now on, and return the error that says why."""
        name = self.member.name
        self.rotate()
        return Unreachable({name: str(error)})

    async def _answer(self, path: str, body: bytes) -> Json:
        """Return what `call` does. Raise AnswerTooLarge, too, which is no reason to ask another member."""
        reasons: dict[str, str] = {}
        for dummy in range(len(self._members)):
            member = self.member
            try:
                return await member.call(path, body, self._seconds)
            except AnswerTooLarge:
                raise
            except (TransportError, Unavailable) as error:
                reasons[member.name] = str(error)
                self.rotate()
        raise Unreachable(reasons)

    async def pages(self, keys: KeyRange, size: int = PAGE, keys_only: bool = False) -> t.AsyncIterator[gateway.Page]:
        """Yield a range in pages, all of them at the revision of the first. Raise EtcdError or Unreachable.

        A page has at most `size` keys, and fewer where values are large. With `keys_only` the values are b"". If the
        members no longer keep that revision, Compacted is raised in the middle.
        """
        start, revision, limit = keys.start, 0, size
        while True:
            request = gateway.range_request(
                KeyRange(start, keys.end), limit=limit, revision=revision, keys_only=keys_only
            )
            try:
                page = gateway.page_of(await self._answer("/v3/kv/range", request))
            except AnswerTooLarge as error:
                if limit == 1:
                    raise self._too_large(error) from None
                limit = max(1, limit // 4)
                continue
            revision = revision or page.header.revision
            yield page._replace(header=page.header._replace(revision=revision))
            if not page.more or not page.entries:
                return
            start = f"{page.entries[-1].key}\x00"
            if sum(len(entry.value) for entry in page.entries) < ANSWER_LIMIT // 8:
                limit = min(size, limit * 2)

    async def get(self, key: str) -> t.Optional[gateway.KeyValue]:
        """Return a key, None if it does not exist. Raise EtcdError or Unreachable."""
        page = gateway.page_of(await self.call("/v3/kv/range", gateway.get_request(key)))
        return page.entries[0] if page.entries else None

    async def history(self, keys: KeyRange, known: t.Sequence[str], revision: int) -> gateway.History:
        """Return how many keys a range had at a revision, and the keys `known` as they were then.

        Raise EtcdError, such as Compacted, AnswerTooLarge or Unreachable.
        """
        request = gateway.history_request(keys, known, revision)
        return gateway.history_of(await self._answer("/v3/kv/txn", request))

    async def newest(self, keys: KeyRange, most: int) -> gateway.Page:
        """Return the keys of a range that were changed last, the newest first, at most `most` of them, without values.

        Raise EtcdError or Unreachable.
        """
        request = gateway.range_request(keys, limit=most, keys_only=True, newest_first=True)
        return gateway.page_of(await self.call("/v3/kv/range", request))

    async def write(
        self, operations: t.Sequence[gateway.Operation], conditions: t.Sequence[gateway.Unchanged] = ()
    ) -> bool:
        """Do all `operations` in one transaction if all `conditions` hold, and return whether they did.

        Raise EtcdError or Unreachable. etcd takes at most 128 operations by default.
        """
        return gateway.succeeded(await self.call("/v3/kv/txn", gateway.transaction_request(operations, conditions)))

    async def status(self) -> gateway.MemberStatus:
        """Return the status of a member. Raise EtcdError or Unreachable."""
        return gateway.status_of(await self.call("/v3/maintenance/status", b"{}"))

    async def close(self) -> None:
        """Close all connections."""
        for member in self._members:
            await member.close()
