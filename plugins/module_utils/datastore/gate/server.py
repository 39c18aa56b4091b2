# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of the gate: the way of agents' requests to the member and back.

Without a token that the gate knows, a client can authenticate and ask for the member's status, in turn with all others
(`turns.Newcomers`). The body of any other request is not read. With a token, a few requests of each user are served at
the same time, and their bodies are read in that user's turn only.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import typing as t

from .. import gateway
from ..gateway import Json
from ..transport import MemberAddress, MemberConnection, TlsFiles, TransportError, within
from . import replays
from .connections import AgentListener
from .lists import ListFile, address, fingerprint
from .member import ANSWER_SECONDS, GatedMember, say
from .places import ConnectionPlace, ConnectionPlaces
from .quotas import WORKLOADS, Quotas, TooMuch
from .replays import Replay, TooFarBack
from .requests import (
    AUTHENTICATE,
    RANGE,
    STATUS,
    TRANSACTION,
    WATCH,
    RequestNotPassed,
    check_writes,
    first_key,
    passed,
    starts_at,
    writes,
)
from .stream import PART, AgentStream
from .tokens import Tokens
from .turns import FairTurns, Newcomers, PutOff, Users

#: The most bytes of a request: a transaction of workloads of the largest kind.
REQUEST_LIMIT = 1 << 20
#: The most bytes of a request without a token that is known: a name and a password.
NEWCOMER_LIMIT = 2 << 10
_HEADER_LIMIT = 4 << 10
_HANDSHAKE_SECONDS = 5.0
_REQUEST_SECONDS = 10.0  # from the first byte of a body to its last
#: Seconds until a connection's next request: of a client that never had a token, and of others.
_NEWCOMER_SECONDS, _IDLE_SECONDS = 10.0, 120.0
_READ_SECONDS = 15.0  # until an agent has read an answer of the gate's own, or a part of a watch
_SEND_SECONDS = 60.0  # until an agent has read an answer
_REST_SECONDS = 2.0  # for a body that is not read, after its refusal
_PUT_OFF_SECONDS = 1.0  # until the gate tells one to ask later
_REGULAR_SECONDS = 1.0  # between two looks at the files of the fleet's addresses and of revoked certificates
_LOOK_SECONDS = 5.0  # between two looks at the member
#: The most seconds between two questions whether a watch's user may still read: etcd itself never ends an open watch.
RIGHTS_SECONDS = 60.0
#: Connections whose memory is given back to the kernel together.
_FREED = 64
#: gRPC's codes for a right that is missing, a bound, a server that cannot be asked, and a token that is not known.
_REFUSED, _EXHAUSTED, _UNAVAILABLE, _UNAUTHENTICATED = 7, 8, 14, 16


_Turn = contextlib.AsyncExitStack


class RequestHead(t.NamedTuple):
    """The head of a request. `user` is None for an unknown token. `reads`: the member reads keys for its answer."""

    path: str
    headers: dict[str, str]
    length: int
    user: t.Optional[str]
    reads: bool = False


class Gate:
    """A server for agents before the member at `member`; `tls` is the gate's own way to it. It needs a running loop.

    `fleet` is the path of a file with the addresses of the fleet, and `revoked` of one with the SHA-256 fingerprints of
    certificates that are no longer accepted; "" means none. There is room for so many `workloads` of each node. `free`
    is called when many connections have ended. A watch ends at most `rights_seconds` after its user may not read.
    """

    def __init__(
        self,
        member: MemberAddress,
        tls: t.Optional[TlsFiles] = None,
        fleet: str = "",
        revoked: str = "",
        workloads: int = WORKLOADS,
        free: t.Callable[[], None] = lambda: None,
        rights_seconds: float = RIGHTS_SECONDS,
    ) -> None:
        self._member = GatedMember(member, tls)
        self._looking: t.Optional[asyncio.Task[None]] = None
        self._next_look = 0.0
        self._tokens = Tokens()
        self._newcomers = {AUTHENTICATE: Newcomers(), STATUS: Newcomers()}
        self._users = Users()
        self._replays = FairTurns(1)
        self._quotas = Quotas(workloads)
        self._places = ConnectionPlaces()
        self._fleet = ListFile(fleet, address)
        self._revoked = ListFile(revoked, fingerprint)
        self._open: dict[AgentStream, str] = {}  # with the fingerprints of their certificates
        self._free = free
        self._rights_seconds = rights_seconds
        self._most = 0  # connections since `free` was called

    async def listen(self, host: str, port: int, tls: t.Optional[ssl.SSLContext]) -> AgentListener:
        """Return a listener that serves agents at an address. Raise OSError."""
        self._regularly()

        async def serve(stream: AgentStream, place: ConnectionPlace) -> None:
            await self._serve(stream, place, tls)

        return AgentListener(host, port, self._places, serve, self._regularly, _REGULAR_SECONDS)

    def _regularly(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._next_look and (self._looking is None or self._looking.done()):
            self._next_look = now + _LOOK_SECONDS
            self._looking = asyncio.ensure_future(self._member.observe())
        if self._fleet.changed():
            self._places.fleet = self._fleet.entries
            say(self._fleet.problem)
        if self._revoked.changed():
            say(self._revoked.problem)
            for stream, certificate in list(self._open.items()):
                if certificate in self._revoked.entries:
                    stream.abort()
        self._most = max(self._most, self._places.taken)
        if self._places.taken <= self._most - _FREED:
            self._free()
            self._most = self._places.taken

    async def _serve(self, stream: AgentStream, place: ConnectionPlace, tls: t.Optional[ssl.SSLContext]) -> None:
        with contextlib.suppress(TransportError, OSError, EOFError, ValueError):  # The agent asks again.
            if tls is not None:
                with stream.limit(_HANDSHAKE_SECONDS):
                    await stream.secure(tls)
            place.established()
            if stream.fingerprint in self._revoked.entries:
                return
            self._open[stream] = stream.fingerprint
            try:
                await self._requests(stream, place)
            finally:
                del self._open[stream]

    async def _requests(self, stream: AgentStream, place: ConnectionPlace) -> None:
        goes_on = True
        while goes_on:
            with stream.limit(_IDLE_SECONDS if stream.is_known else _NEWCOMER_SECONDS):
                head = await stream.until(b"\r\n\r\n", _HEADER_LIMIT)
            path, headers, length = _head(head)
            request = RequestHead(path, headers, length, self._tokens.user(headers.get("Authorization", "")))
            if request.user is None:
                goes_on = await self._newcomer(stream, place, request)
                continue
            stream.is_known = True
            async with contextlib.AsyncExitStack() as turn:
                await turn.enter_async_context(self._users.turn(request.user))
                goes_on = await self._user(stream, request.user, request, turn)

    async def _newcomer(self, stream: AgentStream, place: ConnectionPlace, request: RequestHead) -> bool:
        """Answer a request without a token that is known, and return whether the connection goes on."""
        if request.path not in self._newcomers or request.length > NEWCOMER_LIMIT:
            why = {"code": _UNAUTHENTICATED, "message": "the gate does not know this token"}
            await _answer(stream, 401, gateway.to_bytes(why), ends=True)
            with stream.limit(_REST_SECONDS):
                await stream.rest()
            return False
        with stream.limit(_REQUEST_SECONDS):
            body = await stream.exactly(request.length)
        try:
            asked = passed(request.path, body)
            async with contextlib.AsyncExitStack() as turn:
                await turn.enter_async_context(self._newcomers[request.path].turn(place))
                return await self._ask(stream, request, asked, turn)
        except RequestNotPassed as refusal:
            return await _refuse(stream, refusal)
        except PutOff as later:
            return await _put_off(stream, later)

    async def _user(self, stream: AgentStream, user: str, request: RequestHead, turn: _Turn) -> bool:
        """Answer a request of a user, and return whether the connection goes on."""
        with stream.limit(_REQUEST_SECONDS):
            body = await stream.exactly(request.length)
        replay: t.Optional[Replay] = None
        async with contextlib.AsyncExitStack() as taken:
            try:
                asked = passed(request.path, body)
                wanted = writes(asked) if request.path == TRANSACTION else []
                check_writes(wanted, user)
                request = request._replace(reads=request.path == RANGE or (request.path == TRANSACTION and not wanted))
                if request.path == WATCH:
                    taken.enter_context(self._quotas.of(user).watch(stream.abort))
                    replay = await self._catch_up(user, starts_at(asked), turn, taken)
                else:
                    await self._take(request, user, wanted, taken)
            except RequestNotPassed as refusal:
                return await _refuse(stream, refusal)
            except PutOff as later:
                return await _put_off(stream, later)
            except TooFarBack as compacted:
                return await _list_instead(stream, compacted)
            except gateway.Unauthenticated as error:
                self._tokens.forget(request.headers.get("Authorization", ""))
                await _answer(stream, 401, gateway.to_bytes({"code": _UNAUTHENTICATED, "message": error.message}))
                return True
            except (TransportError, gateway.EtcdError) as error:
                return await _silent(stream, error)
            return await self._ask(stream, request, asked, turn, replay)

    async def _catch_up(
        self, user: str, start: int, turn: _Turn, taken: contextlib.AsyncExitStack
    ) -> t.Optional[Replay]:
        """Return the replay of a watch from the old revision `start`, when it has its turn, and None for other watches.

        Other requests of the user go on while it waits. 0 is the next revision. Raise TooFarBack or PutOff.
        """
        if not start or start > await self._member.newest():
            return None
        size = self._member.history.since(start)
        if size > replays.MOST_BYTES:
            raise TooFarBack(self._member.history.newest)
        if size <= replays.RECENT_BYTES:
            return None
        await turn.aclose()
        return Replay(await taken.enter_async_context(self._replays.turn(user)))

    async def _take(
        self, request: RequestHead, user: str, wanted: t.Sequence[Json], taken: contextlib.AsyncExitStack
    ) -> None:
        """Take what a request with the writes `wanted` needs from its user's quota, until `taken` is left."""

        async def ask(path: str, body: bytes) -> Json:
            return await self._answer_to(request._replace(path=path, reads=True), body)

        if wanted:
            await self._quotas.of(user).write(wanted, ask)
        elif request.reads:
            await taken.enter_async_context(self._quotas.of(user).read())

    async def _answer_to(self, call: RequestHead, body: bytes) -> Json:
        """Return the member's answer to a call of the gate's own. Raise EtcdError or TransportError."""
        upstream, status, header = await self._begin(call, body)
        try:
            answer = await within(ANSWER_SECONDS, upstream.body(header))
        except BaseException:
            upstream.close()
            raise
        self._member.keep(upstream)
        if status != 200:
            raise gateway.error_of(status, answer)
        return gateway.decode(answer)

    async def _rights_end(self, watch: RequestHead, asked: bytes) -> None:
        """Wait until the user of a watch may not read the watch's first key any more.

        etcd checks rights when a watch begins only. A member that does not answer says nothing about rights.
        """
        call = watch._replace(path=RANGE, reads=False)
        body = gateway.to_bytes({"key": first_key(asked), "serializable": True})
        while True:
            await asyncio.sleep(self._rights_seconds * random.uniform(0.5, 1.0))
            try:
                await self._answer_to(call, body)
            except (gateway.PermissionDenied, gateway.Unauthenticated):
                return
            except (TransportError, gateway.EtcdError):
                continue

    async def _ask(
        self, stream: AgentStream, request: RequestHead, asked: bytes, turn: _Turn, replay: t.Optional[Replay] = None
    ) -> bool:
        """Ask the member, pass its answer on, and return whether the agent's connection goes on.

        Without an answer it ends, by which the agent knows that the member may not know its token any more.
        """
        try:
            upstream, status, header = await self._begin(request, asked)
        except TransportError as error:
            return await _silent(stream, error)
        is_whole = False
        try:
            if request.path == WATCH and status == 200:
                await turn.aclose()
                await _pass_watch(stream, upstream, header, replay, self._rights_end(request, asked))
                return False
            if request.path == AUTHENTICATE:
                answer = await within(ANSWER_SECONDS, upstream.body(header))
                if status == 200:
                    self._tokens.note(asked, answer)
                    stream.is_known = True
                await _answer(stream, status, answer)
            else:
                if status == 401:
                    self._tokens.forget(request.headers.get("Authorization", ""))
                await _pass_answer(stream, upstream, status, header)
            is_whole = True
            return True
        finally:
            if is_whole:
                self._member.keep(upstream)
            else:
                upstream.close()

    async def _begin(self, request: RequestHead, asked: bytes) -> tuple[MemberConnection, int, dict[str, str]]:
        """Ask the member, and return the connection with the status and the header of its answer."""
        upstream = await self._member.connection()
        try:
            async with self._quotas.answer(request.user if request.reads else None):
                asking = upstream.ask(self._member.address, request.path, asked, request.headers)
                status, header = await within(ANSWER_SECONDS, asking)
        except BaseException:
            upstream.close()
            raise
        return upstream, status, header


async def _pass_answer(
    stream: AgentStream, upstream: MemberConnection, status: int, header: t.Mapping[str, str]
) -> None:
    waiting = _begun(status)
    with stream.limit(_SEND_SECONDS):
        async for part in upstream.parts(header):
            waiting += _chunk(part)
            if len(waiting) >= PART:
                await stream.send(waiting)
                waiting = b""
        await stream.send(waiting + _chunk(b""))


async def _pass_watch(
    stream: AgentStream,
    upstream: MemberConnection,
    header: t.Mapping[str, str],
    replay: t.Optional[Replay],
    rights_end: t.Coroutine[t.Any, t.Any, None],
) -> None:
    """Pass on a watch until either side ends it, the agent does not read it for long, or `rights_end` returns."""

    async def send() -> None:
        await stream.send(_begun(200))
        async for part in upstream.parts(header):
            limit = stream.limit(_READ_SECONDS) if replay is None or replay.ended else replay.sending(stream)
            with limit:
                await stream.send(_chunk(part))
        await stream.send(_chunk(b""))

    tasks = [asyncio.ensure_future(one) for one in (send(), stream.sends_or_ends(), rights_end)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _head(head: bytes) -> tuple[str, dict[str, str], int]:
    """Return the path, the headers to pass on, and the length of the body. Raise ValueError for another request."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, version = first.split(" ")
    if method != "POST" or version != "HTTP/1.1":
        raise ValueError("not a request of an agent")
    headers: dict[str, str] = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon or name.strip().lower() in headers or not value.isprintable():
            raise ValueError("a header is none")
        headers[name.strip().lower()] = value.strip()
    length = headers.get("content-length", "")
    if not length.isascii() or not length.isdigit() or len(length) > 8 or int(length) > REQUEST_LIMIT:
        raise ValueError("the request has no length, or is too long")
    if "transfer-encoding" in headers:
        raise ValueError("the request has no length")
    names = {"authorization": "Authorization", "grpc-metadata-hasleader": "Grpc-Metadata-hasleader"}
    return path, {names[name]: value for name, value in headers.items() if name in names}, int(length)


def _status_line(status: int) -> str:
    return f"HTTP/1.1 {status} {'OK' if status == 200 else 'Refused'}\r\nContent-Type: application/json\r\n"


def _begun(status: int) -> bytes:
    return f"{_status_line(status)}Transfer-Encoding: chunked\r\n\r\n".encode("ascii")


def _chunk(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


async def _answer(stream: AgentStream, status: int, body: bytes, ends: bool = False) -> None:
    head = f"{_status_line(status)}Content-Length: {len(body)}\r\n{'Connection: close' if ends else ''}"
    with stream.limit(_READ_SECONDS):
        await stream.send(f"{head.rstrip()}\r\n\r\n".encode("ascii") + body)


async def _refuse(stream: AgentStream, refusal: RequestNotPassed) -> bool:
    """Answer a request that is not passed; the connection goes on."""
    body: Json = {"code": _REFUSED, "message": f"the gate: {refusal}"}
    if isinstance(refusal, TooMuch):
        body.update(code=_EXHAUSTED, **({"retry_seconds": refusal.seconds} if refusal.seconds else {}))
    await _answer(stream, 429 if isinstance(refusal, TooMuch) else 403, gateway.to_bytes(body))
    return True


async def _put_off(stream: AgentStream, later: PutOff) -> bool:
    """Tell when to ask again; the connection goes on."""
    await asyncio.sleep(_PUT_OFF_SECONDS)  # One that does not wait by itself waits here.
    why = {"code": _UNAVAILABLE, "message": f"the gate: {later}", "retry_seconds": later.seconds}
    await _answer(stream, 429, gateway.to_bytes(why))
    return True


async def _list_instead(stream: AgentStream, compacted: TooFarBack) -> bool:
    """Answer a watch as etcd does after a compaction, so that the agent lists; the connection ends."""
    body = {"result": {"header": {}, "canceled": True, "compact_revision": str(compacted.newest)}}
    await _answer(stream, 200, gateway.to_bytes(body) + b"\n", ends=True)
    return False


async def _silent(stream: AgentStream, error: Exception) -> bool:
    """Say that the member cannot be asked; the connection ends."""
    body = {"code": _UNAVAILABLE, "message": f"the gate cannot ask its member: {error}"}
    await _answer(stream, 503, gateway.to_bytes(body))
    return False
