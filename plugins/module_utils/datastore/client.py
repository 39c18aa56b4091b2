# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of an etcd cluster: calls and watches at one member at a time, and another member when one fails.

Each member is asked for a token of its own, as a token is known to the member that gave it alone, and expires there. A
call whose token is refused authenticates once more, after a random pause: after a restart of a member, many clients do.

A token names the entry of the members' log at which it was given. A member that was restored, or is of another cluster,
does not refuse an old token: it keeps the call waiting until its log is as long. So a token is dropped when the member
has closed a connection, and whenever another member is chosen.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import typing as t

from . import gateway
from .gateway import AskLater, Json, PermissionDenied, TooManyOperations, Unauthenticated, Unavailable
from .keys import DOCUMENTS, DOCUMENTS_BYTES, MOST_DOCUMENTS, KeyRange, share_of, under
from .transport import AnswerTooLarge, Lines, NoAnswer, RefusedStream, Transport, TransportError

#: Seconds for a call. etcd itself gives up after 7 (5 and twice its time of an election).
CALL_SECONDS = 10.0
#: The keys of one page of a listing, and of its first one. Larger pages cost the member less and the client more
#: memory. Before a member answers it has all values of a page in memory several times, whatever is sent of them. A node
#: can make its own values as large as etcd takes them.
PAGE, _FIRST_PAGE = 256, 8
#: The bytes of a page as far as the page before tells; so many times fewer keys are asked for after a failure.
_PAGE_BYTES, _SMALLER = 4 << 20, 8
#: A page that took longer than this part of the time that a call may take is followed by a smaller one.
_SLOW_PART = 4
#: The most keys that are asked for by their names at once, and ranges that are counted: gates pass so many.
_AT_ONCE = 64
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
_T = t.TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class Credentials:
    """A user of etcd."""

    user: str
    password: str = dataclasses.field(repr=False)


class ShareLimits(t.NamedTuple):
    """The most keys that are read of one share in a listing, and the most bytes of their values."""

    keys: int
    bytes: int


#: How much is read of all live documents.
DOCUMENT_LIMITS = ShareLimits(MOST_DOCUMENTS, DOCUMENTS_BYTES)


class Unreachable(Exception):
    """No member answered. `reasons` says why, by address."""

    def __init__(self, reasons: t.Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        listed = "; ".join(f"{address}: {reason}" for address, reason in self.reasons.items())
        super().__init__(f"no member of the etcd cluster answers ({listed})")


class Member:
    """One member, with the token that it gave. Calls raise EtcdError, or TransportError without an answer."""

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
        """Return the answer to a call.

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
        """Yield the lines of a watch of a range from `revision` on."""
        token = await self._known_token(seconds)
        headers = {**_NEEDS_LEADER, **({"Authorization": token} if token else {})}
        try:
            async with self._transport.watch(
                "/v3/watch", gateway.watch_request(keys, revision), headers, seconds
            ) as lines:
                yield lines
        except RefusedStream as refused:
            raise gateway.error_of(refused.status, refused.body) from None

    async def release(self, seconds: float = CALL_SECONDS) -> str:
        """Return the release of etcd. A member tells it without a user; not all let a node's user ask its status."""
        status, data = await self._transport.call("/version", b"", {}, seconds)
        if status != 200:
            raise gateway.error_of(status, data)
        return gateway.release_of(gateway.decode(data))

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
                self._token = gateway.token_of(await self._patiently(body, seconds))
            return self._token

    async def _patiently(self, body: bytes, seconds: float) -> Json:
        """Return the answer to an authentication. A gate that is busy is asked again when it says, for `seconds`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            try:
                return await self._call(AUTHENTICATE, body, "", seconds)
            except AskLater as later:
                pause = later.seconds * random.uniform(1, 2)
                if loop.time() + pause > end:
                    raise
            await asyncio.sleep(pause)

    async def close(self) -> None:
        await self._transport.close()


class EtcdClient:
    """A client of all members. `transports` maps a member's address, for people, to the way to it.

    Calls raise EtcdError for a refusal, and Unreachable if no member answers. The first member is chosen at random, so
    that the clients of a fleet spread over the members.
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

    @property
    def count(self) -> int:
        """The number of members."""
        return len(self._members)

    def rotate(self) -> None:
        """Ask another member from now on, with a new token."""
        self._members.append(self._members.pop(0))
        self.member.drop_token()

    async def call(self, path: str, body: bytes) -> Json:
        """Return the first answer of a member. Each is asked once: a call that changes something must be repeatable."""
        try:
            return await self._answer(path, body)
        except AnswerTooLarge as error:
            raise self._too_large(error) from None

    def _too_large(self, error: AnswerTooLarge) -> Unreachable:
        name = self.member.name
        self.rotate()
        return Unreachable({name: str(error)})

    async def _answer(self, path: str, body: bytes, divisible: bool = False) -> Json:
        """Return what `call` does, and raise AnswerTooLarge, which is no reason to ask another member.

        A question that is `divisible` can be put as several smaller ones: NoAnswer to it is raised at once.
        """
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
                if divisible and isinstance(error, NoAnswer):
                    raise
        raise Unreachable(reasons)

    async def pages(
        self, keys: KeyRange, size: int = PAGE, keys_only: bool = False, bounds: t.Optional[ShareLimits] = None
    ) -> t.AsyncIterator[gateway.Page]:
        """Yield a range in pages, all of them at the revision of the first.

        A page has at most `size` keys, and fewer where values are large or a member is slow. With `keys_only` the
        values are b"". What a node has below its prefix of workloads beyond `bounds` is left out, as are live documents
        beyond DOCUMENT_LIMITS, and the next page says so. Without `bounds` everything is read. If the members no longer
        keep the revision, Compacted is raised in the middle.
        """
        start, revision, limit = keys.start, 0, min(size, _FIRST_PAGE)
        share, left = _Share(bounds), 0
        while True:
            began = asyncio.get_running_loop().time()
            rest = KeyRange(start, keys.end)
            request = gateway.range_request(rest, limit=limit, revision=revision, keys_only=keys_only)
            try:
                page = gateway.page_of(await self._answer("/v3/kv/range", request, divisible=limit > 1))
            except (AnswerTooLarge, NoAnswer) as error:
                if limit > 1:
                    limit = max(1, limit // _SMALLER)
                    continue
                if not isinstance(error, AnswerTooLarge):
                    raise
                raise self._too_large(error) from None
            slow = asyncio.get_running_loop().time() - began > self._seconds / _SLOW_PART
            revision = revision or page.header.revision
            skipped = max(0, left - page.total) if share.ended else 0
            yield page._replace(
                header=page.header._replace(revision=revision), left_out=skipped, share=share.ended if skipped else ""
            )
            if not page.more or not page.entries:
                return
            left = page.total - len(page.entries)
            start = share.after(page.entries)
            largest = max(len(entry.key) + len(entry.value) for entry in page.entries)
            limit = min(size, max(1, limit // 4) if slow else limit * 2, max(1, _PAGE_BYTES // largest))

    async def named(self, names: t.Sequence[str]) -> list[gateway.KeyValue]:
        """Return those of the keys `names` that exist."""
        found: list[gateway.KeyValue] = []
        async for part, answer in self._parts(names, _AT_ONCE, gateway.values_request):
            found += gateway.values_of(answer, part)
        return found

    async def counts(self, ranges: t.Sequence[KeyRange]) -> list[int]:
        """Return the number of keys in each range; no value is read."""
        found: list[int] = []
        async for part, answer in self._parts(ranges, _AT_ONCE, gateway.counts_request):
            found += gateway.counts_of(answer, len(part))
        return found

    async def _parts(
        self, asked: t.Sequence[_T], most: int, request: t.Callable[[t.Sequence[_T]], bytes]
    ) -> t.AsyncIterator[tuple[t.Sequence[_T], Json]]:
        """Yield parts of `asked`, in order, each with the answer to its `request`.

        A part has at most `most`. One that is too large for a member or for an answer is halved.
        """
        waiting = [asked[at : at + most] for at in range(0, len(asked), most)][::-1]
        while waiting:
            part = waiting.pop()
            try:
                answer = await self._answer("/v3/kv/txn", request(part), divisible=len(part) > 1)
            except (AnswerTooLarge, NoAnswer, TooManyOperations) as error:
                if len(part) == 1:
                    raise self._too_large(error) if isinstance(error, AnswerTooLarge) else error from None
                waiting += [part[len(part) // 2 :], part[: len(part) // 2]]
                continue
            yield part, answer

    async def get(self, key: str) -> t.Optional[gateway.KeyValue]:
        """Return a key, None if it does not exist."""
        page = gateway.page_of(await self.call("/v3/kv/range", gateway.get_request(key)))
        return page.entries[0] if page.entries else None

    async def history(self, keys: KeyRange, known: t.Sequence[str], revision: int) -> gateway.History:
        """Return how many keys a range had at a revision, and the keys `known` then. AnswerTooLarge is raised, too."""
        request = gateway.history_request(keys, known, revision)
        return gateway.history_of(await self._answer("/v3/kv/txn", request))

    async def last_change(self, keys: KeyRange, bounds: t.Optional[ShareLimits] = None) -> gateway.Page:
        """Return a page whose only entry is the key of a range that was changed last, without its value.

        Keys beyond `bounds` are not looked at. The page has no entry if the range has no key.
        """
        last: t.Optional[gateway.Page] = None
        newest: t.Optional[gateway.KeyValue] = None
        async for page in self.pages(keys, bounds=bounds):  # with values, whose sizes say how large a page may be
            last = last or page
            for entry in page.entries:
                if newest is None or entry.mod_revision > newest.mod_revision:
                    newest = entry._replace(value=b"")
        if last is None:
            raise gateway.InvalidAnswer("the listing has no page")
        return last._replace(entries=(newest,) if newest is not None else (), more=False)

    async def write(
        self, operations: t.Sequence[gateway.Operation], conditions: t.Sequence[gateway.Condition] = ()
    ) -> bool:
        """Do all `operations`, at most 128 by default, at once if all `conditions` hold; return whether they did."""
        return gateway.succeeded(await self.call("/v3/kv/txn", gateway.transaction_request(operations, conditions)))

    async def lease(self, seconds: int) -> int:
        """Return the id of a new lease: keys that are written with it go after so many seconds."""
        return gateway.lease_of(await self.call(gateway.LEASE_GRANT, gateway.lease_request(seconds)))

    async def revoke(self, lease: int) -> None:
        """End a lease, and remove the keys that have it."""
        await self.call(gateway.LEASE_REVOKE, gateway.revoke_request(lease))

    async def delete(self, keys: KeyRange) -> None:
        """Delete all keys of a range, without reading them."""
        await self.call(gateway.DELETE_RANGE, gateway.delete_request(keys))

    async def status(self) -> gateway.MemberStatus:
        return gateway.status_of(await self.call("/v3/maintenance/status", b"{}"))

    async def releases(self) -> dict[str, str]:
        """Return the release of etcd of each member that answers, by the member's address."""
        found = {}
        for member in self._members:
            with contextlib.suppress(TransportError, Unavailable):
                found[member.name] = await member.release(self._seconds)
        return found

    async def close(self) -> None:
        for member in self._members:
            await member.close()


class _Share:
    """The part of a listing that keys with one prefix have. `ended` is that whose further keys are left out, or ""."""

    def __init__(self, bounds: t.Optional[ShareLimits]) -> None:
        self._bounds = bounds
        self._prefix: t.Optional[str] = None
        self._keys = self._bytes = 0
        self.ended = ""

    def after(self, entries: t.Sequence[gateway.KeyValue]) -> str:
        """Return where the next page begins."""
        self.ended = ""
        for entry in entries if self._bounds is not None else ():
            prefix = share_of(entry.key)
            if prefix != self._prefix:
                self._prefix, self._keys, self._bytes = prefix, 0, 0
            self._keys += 1
            self._bytes += len(entry.value)
        if self._bounds is not None and self._prefix is not None:
            most = DOCUMENT_LIMITS if self._prefix == DOCUMENTS else self._bounds
            if self._keys >= most.keys or self._bytes >= most.bytes:
                self.ended = self._prefix
                return under(self._prefix).end
        return f"{entries[-1].key}\x00"
