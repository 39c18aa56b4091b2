# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate before a member of etcd: it passes what agents ask, and nothing else.

    agent ──TLS──► gate ──TLS──► etcd, which listens where no agent reaches it

The etcd of Debian 12 and 13 does not confine its users: a transaction inside a transaction is not checked
(CVE-2026-33343), an alarm needs no right and switches all checks off (CVE-2026-33413, etcd's pull request 22386), and
leases, compaction and leadership are open to everybody. So a request is read, and written anew from the fields that
agents use; a path or a field that is not known is refused. etcd then checks the token's rights.

Anybody can fill the database with keys of its own, and while its space is exceeded etcd checks no rights of deletions.
So the gate also remembers whose the tokens are, and passes a write below the user's own two prefixes alone.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import ssl
import typing as t

from . import gateway, keys
from .gateway import Json
from .transport import MemberAddress, MemberConnection, TlsFiles, TransportError, within

#: The most bytes of a request: a transaction of workloads of the largest kind.
REQUEST_LIMIT = 1 << 20
#: The most connections of one address at the same time.
CONNECTIONS = 32
_HEADER_LIMIT = 16 << 10
_REQUEST_SECONDS = 10.0  # from the first byte of a request to its last
_IDLE_SECONDS = 120.0
_ANSWER_SECONDS = 15.0
_OPERATIONS = 128
#: gRPC's codes for a right that is missing, a server that cannot be asked, and a token that is not known.
_REFUSED, _UNAVAILABLE, _UNAUTHENTICATED = 7, 14, 16
#: The most tokens of a user that are remembered: a node's agent has one, and each command another.
_TOKENS = 16


class RequestNotPassed(Exception):
    """A request that is not passed. The text says why."""


class _Fields:
    """The fields of an object of a request; each is taken once, and what is left over is refused."""

    def __init__(self, body: t.Any) -> None:
        if not isinstance(body, dict):
            raise RequestNotPassed("a part of the request is no object")
        self._body = dict(body)
        self.taken: Json = {}

    def key(self, name: str) -> None:
        """Take a key or a value in base64."""
        self._take(name, _base64)

    def number(self, name: str) -> None:
        """Take a number of 64 bits."""
        self._take(name, _number)

    def flag(self, name: str) -> None:
        """Take true or false."""
        self._take(name, _flag)

    def one_of(self, name: str, *values: str) -> None:
        """Take one of some words."""

        def check(value: t.Any) -> str:
            if value not in values:
                raise RequestNotPassed(f"{name} is none of {', '.join(values)}")
            return str(value)

        self._take(name, check)

    def listed(self, name: str, read: t.Callable[[t.Any], Json]) -> None:
        """Take a list of at most 128 objects."""

        def check(value: t.Any) -> list[Json]:
            if not isinstance(value, list) or len(value) > _OPERATIONS:
                raise RequestNotPassed(f"{name} is no list of at most {_OPERATIONS}")
            return [read(one) for one in value]

        self._take(name, check)

    def part(self, name: str, read: t.Callable[[t.Any], Json]) -> None:
        """Take an object."""
        self._take(name, read)

    def text(self, name: str) -> None:
        """Take a short text."""
        self._take(name, _text)

    def _take(self, name: str, check: t.Callable[[t.Any], t.Any]) -> None:
        if name in self._body:
            self.taken[name] = check(self._body.pop(name))

    def end(self) -> Json:
        """Return what was taken. Raise RequestNotPassed if anything is left."""
        if self._body:
            raise RequestNotPassed(f"{ascii(min(self._body))[:40]} is not passed")
        return self.taken


def _base64(value: t.Any) -> str:
    try:
        return base64.b64encode(base64.b64decode(value, validate=True)).decode()
    except (TypeError, ValueError, binascii.Error):
        raise RequestNotPassed("a key or a value is not base64") from None


def _number(value: t.Any) -> str:
    if isinstance(value, str) and 0 < len(value) <= 20 and value.isascii() and value.isdigit():
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return str(value)
    raise RequestNotPassed("a number is none")


def _flag(value: t.Any) -> bool:
    if not isinstance(value, bool):
        raise RequestNotPassed("a field is neither true nor false")
    return value


def _text(value: t.Any) -> str:
    if not isinstance(value, str) or len(value) > 512:
        raise RequestNotPassed("a field is no short text")
    return value


def _range(body: t.Any) -> Json:
    fields = _Fields(body)
    _keys(fields)
    for name in ("limit", "revision"):
        fields.number(name)
    for name in ("keys_only", "count_only", "serializable"):
        fields.flag(name)
    fields.one_of("sort_order", "NONE", "ASCEND", "DESCEND")
    fields.one_of("sort_target", "KEY", "MOD")
    return fields.end()


def _keys(fields: _Fields) -> None:
    """Take a key and the end of a range. An end of one zero byte means all keys, which etcd does not check."""
    fields.key("key")
    if "key" not in fields.taken:
        raise RequestNotPassed("the request has no key")
    fields.key("range_end")
    if fields.taken.get("range_end") == base64.b64encode(b"\x00").decode():
        raise RequestNotPassed("a range without an end is not passed")


def _compare(body: t.Any) -> Json:
    fields = _Fields(body)
    fields.one_of("target", "MOD", "VERSION")
    fields.one_of("result", "EQUAL")
    fields.key("key")
    for name in ("mod_revision", "version"):
        fields.number(name)
    return fields.end()


def _operation(body: t.Any) -> Json:
    def put(inner: t.Any) -> Json:
        values = _Fields(inner)
        values.key("key")
        values.key("value")
        return values.end()

    def delete(inner: t.Any) -> Json:
        values = _Fields(inner)
        _keys(values)
        return values.end()

    fields = _Fields(body)
    fields.part("request_range", _range)
    fields.part("request_put", put)
    fields.part("request_delete_range", delete)
    if len(fields.taken) != 1:
        raise RequestNotPassed("an operation is not one of those that are passed")
    return fields.end()


def _transaction(body: t.Any) -> Json:
    fields = _Fields(body)
    fields.listed("compare", _compare)
    fields.listed("success", _operation)
    return fields.end()


def _authenticate(body: t.Any) -> Json:
    fields = _Fields(body)
    fields.text("name")
    fields.text("password")
    return fields.end()


def _watch(body: t.Any) -> Json:
    def create(inner: t.Any) -> Json:
        values = _Fields(inner)
        _keys(values)
        values.number("start_revision")
        values.flag("progress_notify")
        values.flag("fragment")
        return values.end()

    fields = _Fields(body)
    fields.part("create_request", create)
    if not fields.taken:
        raise RequestNotPassed("a watch begins with create_request")
    return fields.end()


WATCH, _TRANSACTION, _AUTHENTICATE = "/v3/watch", "/v3/kv/txn", "/v3/auth/authenticate"
_READERS: t.Mapping[str, t.Callable[[t.Any], Json]] = {
    "/v3/kv/range": _range,
    _TRANSACTION: _transaction,
    _AUTHENTICATE: _authenticate,
    "/v3/maintenance/status": lambda body: _Fields(body).end(),
    WATCH: _watch,
}


def passed(path: str, body: bytes) -> bytes:
    """Return a request as it is passed on. Raise RequestNotPassed for one that agents do not make."""
    read = _READERS.get(path)
    if read is None:
        raise RequestNotPassed("this call is not passed")
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestNotPassed("the request is not JSON") from None
    return gateway.to_bytes(read(parsed))


def writes(request: bytes) -> list[Json]:
    """Return the puts and deletions of a transaction that `passed` returned."""
    operations = json.loads(request).get("success", ())
    return [one for operation in operations for name, one in operation.items() if name != "request_range"]


def check_writes(found: t.Iterable[Json], user: str) -> None:
    """Raise RequestNotPassed if one of the writes is not below the two prefixes of the node that is the user."""
    try:
        own = [keys.under(prefix) for prefix in (keys.endpoints_of(user), keys.heartbeats_of(user))]
    except keys.InvalidKey:
        own = []
    for one in found:
        start, end = (base64.b64decode(one.get(name, "")) for name in ("key", "range_end"))
        if not any(
            prefix.start.encode() <= start < prefix.end.encode() and end <= prefix.end.encode() for prefix in own
        ):
            raise RequestNotPassed("a write beside the user's own keys is not passed")


class _Tokens:
    """The users of the tokens that went through the gate."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}
        self._of: dict[str, list[str]] = {}

    def note(self, request: bytes, answer: bytes) -> None:
        """Remember the token in the answer to an authentication, and forget the user's oldest one."""
        try:
            token = gateway.token_of(gateway.decode(answer))
        except gateway.EtcdError:
            return
        user = str(json.loads(request).get("name", ""))
        mine = self._of.setdefault(user, [])
        mine.append(token)
        self._users[token] = user
        if len(mine) > _TOKENS:
            self._users.pop(mine.pop(0), None)

    def user(self, token: str) -> t.Optional[str]:
        """Return the user of a token, None if it is not known."""
        return self._users.get(token)


class Gate:
    """A server for agents before the member at `member`; `tls` is the gate's own way to it.

    `connections` is the most of one address at the same time.
    """

    def __init__(self, member: MemberAddress, tls: t.Optional[TlsFiles], connections: int = CONNECTIONS) -> None:
        self._connections = connections
        self._member = member
        self._tls = tls
        self._open: dict[str, int] = {}
        self._tokens = _Tokens()

    async def listen(self, host: str, port: int, tls: t.Optional[ssl.SSLContext]) -> asyncio.AbstractServer:
        """Return a server that serves agents at an address. Raise OSError."""
        handshake = _REQUEST_SECONDS if tls else None
        return await asyncio.start_server(
            self._serve, host, port, ssl=tls, ssl_handshake_timeout=handshake, limit=_HEADER_LIMIT
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str((writer.get_extra_info("peername") or ("",))[0])
        self._open[peer] = self._open.get(peer, 0) + 1
        try:
            if self._open[peer] <= self._connections:
                await self._requests(reader, writer)
        except (TransportError, OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            pass  # The agent, or the member, has gone; the agent asks again.
        finally:
            self._open[peer] -= 1
            if not self._open[peer]:
                del self._open[peer]
            with contextlib.suppress(Exception):
                writer.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: t.Optional[MemberConnection] = None
        try:
            while True:
                head = await within(_IDLE_SECONDS, reader.readuntil(b"\r\n\r\n"))
                path, headers, length = _head(head)
                body = await within(_REQUEST_SECONDS, reader.readexactly(length))
                try:
                    request = passed(path, body)
                    wanted = writes(request) if path == _TRANSACTION else []
                    user = self._tokens.user(headers.get("Authorization", ""))
                    if wanted and user is None:
                        why = {"code": _UNAUTHENTICATED, "message": "the gate does not know this token"}
                        await _answer(writer, 401, gateway.to_bytes(why))
                        continue
                    check_writes(wanted, user or "")
                except RequestNotPassed as refusal:
                    await _answer(writer, 403, gateway.to_bytes({"code": _REFUSED, "message": f"the gate: {refusal}"}))
                    continue
                try:
                    if upstream is None or not upstream.usable:
                        upstream = await within(_ANSWER_SECONDS, MemberConnection.to(self._member, self._tls))
                    status, header = await within(_ANSWER_SECONDS, upstream.ask(self._member, path, request, headers))
                except TransportError as error:
                    # The connection ends, by which the agent knows that the member may not know its token any more.
                    silent = {"code": _UNAVAILABLE, "message": f"the gate cannot ask its member: {error}"}
                    await _answer(writer, 503, gateway.to_bytes(silent))
                    return
                if path == WATCH and status == 200:
                    await self._stream(reader, writer, upstream, header)
                    return
                answer = await within(_ANSWER_SECONDS, upstream.body(header))
                if path == _AUTHENTICATE and status == 200:
                    self._tokens.note(request, answer)
                await _answer(writer, status, answer)
        finally:
            if upstream is not None:
                upstream.close()

    async def _stream(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: MemberConnection,
        header: t.Mapping[str, str],
    ) -> None:
        """Pass a watch on until either side ends it."""

        async def send() -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            async for part in upstream.parts(header):
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()

        sending = asyncio.ensure_future(send())
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)


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


async def _answer(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Refused'}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body)
    await writer.drain()
