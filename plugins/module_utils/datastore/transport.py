# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection to one member of the cluster: HTTP/1.1 over TLS by asyncio (RFC 9112).

The gateway answers a call with one JSON object, and a watch with a line for each message. What a member sends is
bounded: the lines of a header, the bytes of an answer and of a line of a watch.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import typing as t

#: The most bytes of an answer. A page of 500 workloads with 24 labels each has 1 MB, one key of etcd's default limit 2.
ANSWER_LIMIT = 16 << 20
#: The most bytes of a line of a watch. etcd takes requests of 1.5 MB, and cuts larger messages of a watch into parts.
LINE_LIMIT = 16 << 20
_HEADER_LINES = 100
_BUFFER = 64 << 10  # bytes of a line of a header, and of what is read at once
#: The most connections that are kept for the next call.
_KEPT = 2
_IDLE_SECONDS = 60.0

Headers = t.Mapping[str, str]


#: What to do about a certificate that is not yet valid.
SET_CLOCKS = "set the clocks of this host and of the controller"


class TransportError(Exception):
    """A member that cannot be reached, breaks off, is too slow, or does not speak HTTP. The text says which."""


class AnswerTooLarge(TransportError):
    """An answer of more than ANSWER_LIMIT bytes. The question was too large, and the member need not be left for it."""


class NoAnswer(TransportError):
    """A member that took too long or closed the connection: it is dead or busy, or the question was too large for it.

    A gate closes the connection when its member's answer has more than ANSWER_LIMIT bytes.
    """


class Lines(t.Protocol):
    """The messages of a watch."""

    async def next(self, seconds: float) -> bytes:
        """Return the next line. Raise TransportError if none comes within `seconds`, or the member ends the watch."""


class Transport(t.Protocol):
    """A way to ask one member."""

    async def call(self, path: str, body: bytes, headers: Headers, seconds: float) -> tuple[int, bytes]:
        """Return the HTTP status and the body of the answer to a POST, or to a GET with the body b"".

        Raise TransportError if it is not there within `seconds`. The member may have done what it was asked to do.
        """

    def watch(self, path: str, body: bytes, headers: Headers, seconds: float) -> t.AsyncContextManager[Lines]:
        """Return a context with the lines of the answer to a POST, on a connection of its own.

        Entering it raises TransportError if the answer has not begun within `seconds`.
        """

    def broke(self) -> bool:
        """Return whether the member has closed a kept connection, as at its end, since this was asked last."""

    async def close(self) -> None:
        """Close the connections that are kept."""


class RefusedStream(Exception):
    """The refusal of a watch before its first line: an HTTP status other than 200, and the body."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status
        self.body = body


class MemberAddress(t.NamedTuple):
    """Where a member listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class TlsFiles:
    """The files of TLS: the CA of the members, and a certificate of the client's own with its key, "" for none.

    Files that change count for the next connection. While the new ones cannot be used, those before them do.
    """

    def __init__(self, ca: str, certificate: str = "", key: str = "") -> None:
        """Read the files. Raise OSError, also as ssl.SSLError, for files that cannot be used."""
        self._names = (ca, certificate, key)
        self._stamps = self._stamped()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """Return the settings of TLS: members have a certificate of the CA, with their name or address."""
        with contextlib.suppress(OSError):
            stamps = self._stamped()
            if stamps != self._stamps:
                self._context, self._stamps = self._read(), stamps
        return self._context

    def _read(self) -> ssl.SSLContext:
        ca, certificate, key = self._names
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies certificates and names
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(cafile=ca)
        if certificate:
            context.load_cert_chain(certificate, key or None, password="")  # an encrypted key is refused, not asked for
        return context

    def _stamped(self) -> list[tuple[int, int, int]]:
        found = [os.stat(name) for name in self._names if name]
        return [(one.st_ino, one.st_size, one.st_mtime_ns) for one in found]


class MemberConnection:
    """One connection to a member: a request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.keeps = True  # whether another request may follow
        self.idle_since = 0.0

    @classmethod
    async def to(cls, address: MemberAddress, tls: t.Optional[TlsFiles]) -> MemberConnection:
        """Return a new connection to a member. Raise OSError, also as ssl.SSLError."""
        reader, writer = await asyncio.open_connection(
            address.host,
            address.port,
            ssl=tls.context() if tls is not None else None,
            server_hostname=address.host if tls is not None else None,
            limit=_BUFFER,
        )
        return cls(reader, writer)

    @property
    def usable(self) -> bool:
        """Whether the member has neither closed the connection nor sent anything that was not asked for."""
        return self.keeps and not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._writer.transport.abort()

    async def ask(self, address: MemberAddress, path: str, body: bytes, headers: Headers) -> tuple[int, dict[str, str]]:
        """Send a request, a GET without a body, and return the status and the header of the answer."""
        lines = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", f"Host: {address}", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(body)}", "", ""]
        self._writer.write("\r\n".join(lines).encode("latin-1") + body)
        await self._writer.drain()
        return await self._head()

    async def _head(self) -> tuple[int, dict[str, str]]:
        first = (await self._line()).split(b" ", 2)
        if len(first) < 2 or first[0] not in (b"HTTP/1.1", b"HTTP/1.0") or not first[1].isdigit():
            raise TransportError("the answer is not HTTP")
        found: dict[str, str] = {}
        for dummy in range(_HEADER_LINES):
            line = await self._line()
            if not line:
                self.keeps = first[0] == b"HTTP/1.1" and found.get("connection", "").lower() != "close"
                return int(first[1]), found
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon:
                raise TransportError("the header of the answer is not HTTP")
            found[name.strip().lower()] = value.strip()
        raise TransportError("the header of the answer is too long")

    async def _line(self) -> bytes:
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            raise NoAnswer("the member closed the connection") from None
        except asyncio.LimitOverrunError:
            raise TransportError("a line of the answer is too long") from None
        return line.rstrip(b"\r\n")

    async def body(self, header: t.Mapping[str, str]) -> bytes:
        """Return the whole body of an answer."""
        parts, size = [], 0
        async for part in self.parts(header):
            size += len(part)
            if size > ANSWER_LIMIT:
                raise AnswerTooLarge(f"the answer has more than {ANSWER_LIMIT} bytes")
            parts.append(part)
        return b"".join(parts)

    async def parts(self, header: t.Mapping[str, str]) -> t.AsyncIterator[bytes]:
        """Yield the body of an answer in parts."""
        if header.get("transfer-encoding", "").lower() == "chunked":
            while True:
                digits = (await self._line()).partition(b";")[0].strip()
                if not digits or len(digits) > 8 or digits.strip(b"0123456789abcdefABCDEF"):
                    raise TransportError("a part of the answer has no proper beginning")
                left = int(digits, 16)
                if not left:
                    break
                async for part in self._bytes(left):
                    yield part
                if await self._line():
                    raise TransportError("a part of the answer has no proper end")
            while await self._line():
                pass  # trailers
            return
        length = header.get("content-length")
        if length is None:
            self.keeps = False
            while True:
                part = await self._reader.read(_BUFFER)
                if not part:
                    return
                yield part
        if not length.isascii() or not length.isdigit() or len(length) > 12:
            raise TransportError("the length of the answer is not a number")
        async for part in self._bytes(int(length)):
            yield part

    async def _bytes(self, left: int) -> t.AsyncIterator[bytes]:
        while left:
            part = await self._reader.read(min(left, _BUFFER))
            if not part:
                raise NoAnswer("the member closed the connection")
            left -= len(part)
            yield part


class _StreamLines:
    """The lines of a body that does not end."""

    def __init__(self, connection: MemberConnection, header: t.Mapping[str, str]) -> None:
        self._parts = connection.parts(header)
        self._waiting: list[bytes] = []
        self._begun = bytearray()

    async def next(self, seconds: float) -> bytes:
        if not self._waiting:
            await within(seconds, self._more())
        return self._waiting.pop(0)

    async def _more(self) -> None:
        async for part in self._parts:
            self._begun += part
            if b"\n" in part:
                *whole, rest = bytes(self._begun).split(b"\n")
                self._begun = bytearray(rest)
                self._waiting = [line for line in whole if line.strip()]
                if self._waiting:
                    return
            if len(self._begun) > LINE_LIMIT:
                raise TransportError(f"a line of the watch has more than {LINE_LIMIT} bytes")
        last = bytes(self._begun).strip()
        if not last:
            raise TransportError("the member ended the watch")
        self._begun.clear()
        self._waiting = [last]  # etcd 3.4 ends the reason of an end with no newline


class HttpTransport:
    """The Transport to the member at `address`; `tls` None means none, for tests on one machine."""

    def __init__(self, address: MemberAddress, tls: t.Optional[TlsFiles]) -> None:
        self.address = address
        self._tls = tls
        self._idle: list[MemberConnection] = []

    async def call(self, path: str, body: bytes, headers: Headers, seconds: float) -> tuple[int, bytes]:
        return await within(seconds, self._call(path, body, headers))

    async def _call(self, path: str, body: bytes, headers: Headers) -> tuple[int, bytes]:
        connection = self._kept() or await MemberConnection.to(self.address, self._tls)
        try:
            status, header = await connection.ask(self.address, path, body, headers)
            answer = await connection.body(header)
        except BaseException:
            connection.close()
            raise
        if connection.keeps and len(self._idle) < _KEPT:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.close()
        return status, answer

    def _kept(self) -> t.Optional[MemberConnection]:
        """Return a connection of an earlier call that can be used again, None without one."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.idle_since < _IDLE_SECONDS:
                return connection
            connection.close()
        return None

    @contextlib.asynccontextmanager
    async def watch(self, path: str, body: bytes, headers: Headers, seconds: float) -> t.AsyncIterator[Lines]:
        """Yield the lines of the answer; see Transport. Entering it raises RefusedStream for any status but 200."""
        connection: t.Optional[MemberConnection] = None

        async def begin() -> tuple[MemberConnection, dict[str, str]]:
            nonlocal connection
            connection = await MemberConnection.to(self.address, self._tls)
            status, header = await connection.ask(self.address, path, body, headers)
            if status != 200:
                raise RefusedStream(status, await connection.body(header))
            return connection, header

        try:
            yield _StreamLines(*await within(seconds, begin()))
        finally:
            if connection is not None:
                connection.close()

    def broke(self) -> bool:
        closed = [connection for connection in self._idle if not connection.usable]
        for connection in closed:
            self._idle.remove(connection)
            connection.close()
        return bool(closed)

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


_T = t.TypeVar("_T")


async def within(seconds: float, work: t.Coroutine[t.Any, t.Any, _T]) -> _T:
    """Return the result of `work`. Raise TransportError if it takes longer, or the network or TLS fails.

    A cancellation of the caller always ends in CancelledError, after `work` has ended. Before Python 3.12,
    asyncio.wait_for() returns the result instead if both come at the same time, and a task that waits for the caller's
    end waits for ever.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _ended(task)
        raise
    if not task.done():
        await _ended(task)
        raise NoAnswer(f"no answer within {seconds:g} s")
    try:
        return task.result()
    except ssl.SSLCertVerificationError as error:
        # An invalid certificate of the future was made by a clock that is ahead, or is read by one that is behind.
        remedy = f" ({SET_CLOCKS})" if "not yet valid" in error.verify_message else ""
        raise TransportError(f"its certificate is refused: {error.verify_message}{remedy}") from None
    except ssl.SSLError as error:
        alert = (error.reason or "").partition("_ALERT_")[2].lower().replace("_", " ")
        if alert:  # such as: certificate expired
            raise TransportError(f"it refuses this client's certificate or TLS: {alert}") from None
        raise TransportError(f"TLS failed: {error.reason or 'the connection broke'}") from None
    except OSError as error:
        raise TransportError(_reason(error)) from None
    except (EOFError, ValueError) as error:
        raise TransportError(f"the answer is not HTTP: {type(error).__name__}") from None


def _reason(error: OSError) -> str:
    """Return why the network failed; asyncio's own texts do not say it."""
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    if error.strerror:  # of a name that cannot be resolved
        return error.strerror
    return "the connection broke" if isinstance(error, ConnectionError) else str(error) or type(error).__name__


async def _ended(task: asyncio.Task[t.Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
