# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP server of metrics: GET and HEAD of /metrics, /liveness and /readiness, and nothing else (RFC 9110, 9112).

It is small on purpose: no request bodies, one answer per connection, little memory per client. It listens on the
configured address, loopback by default, and serves only these three pages.

Every local user can connect, so its work is done in turns of a FairShare, and a client that has not sent its
request is dropped when another one needs its place. One page is made for all clients that ask at the same time.
"""

from __future__ import annotations

import asyncio
import enum
import http
import logging
import socket
import typing as t

from ..concurrency.fair_share import FairShare
from . import metrics
from .metrics import Registry

ADDRESS = "127.0.0.1"
PORT = 9091  # the default port of Felix's metrics

_log = logging.getLogger("calico.http")

_HEAD_LIMIT = 8 << 10  # the most bytes of a request's first line and header
_END = b"\r\n\r\n"
_CONNECTIONS = 64  # the most clients at a time
_BACKLOG = 1024  # the most connections that wait to be accepted; the kernel lowers it to net.core.somaxconn
_NO_MORE_FILES = 1.0  # seconds until the next attempt after a connection could not be accepted
_KEY = "http"  # the key of the server's turns, which all its clients share
_VERSIONS = (b"HTTP/1.0", b"HTTP/1.1")

Check = t.Callable[[], t.Optional[str]]


class HttpAnswer(t.NamedTuple):
    status: http.HTTPStatus
    body: str
    content_type: str = "text/plain; charset=utf-8"
    header: str = ""


class MetricsServer:
    """The HTTP server of a registry and two checks.

    `liveness` and `readiness` return what is wrong in words, or None. A client has `seconds` for its request, and again
    for reading the answer. `share` is the part of the loop that all of this may use.
    """

    def __init__(
        self,
        registry: Registry,
        liveness: Check,
        readiness: Check,
        *,
        address: str = ADDRESS,
        port: int = PORT,
        seconds: float = 5.0,
        share: t.Optional[FairShare] = None,
    ) -> None:
        self.share = share if share is not None else FairShare()
        self.seconds = seconds
        self._registry = registry
        self._checks = {b"/liveness": liveness, b"/readiness": readiness}
        self._address = address
        self._port = port
        self._listeners: t.List[socket.socket] = []
        self._accepting: t.List[asyncio.Task[None]] = []
        self._clients: dict[_Client, None] = {}  # in the order of their connections
        self._asking: t.List[_Client] = []

    async def start(self) -> None:
        """Listen on all addresses of the configured host ("": all of this machine), or on none and raise OSError."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                self._address or None, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except UnicodeError as error:  # of the codec "idna", with which Python encodes the name
            raise socket.gaierror(
                socket.EAI_NONAME, "a label of this host name is empty, longer than 63 characters or invalid"
            ) from error
        try:
            for family, kind, protocol, dummy, address in dict.fromkeys(found):
                listener = socket.socket(family, kind, protocol)
                self._listeners.append(listener)
                listener.setblocking(False)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind(address)
                listener.listen(_BACKLOG)
        except OSError:
            self._close_listeners()
            raise
        self._accepting = [loop.create_task(self._accept(listener)) for listener in self._listeners]

    @property
    def port(self) -> int:
        """The TCP port on which this server listens, at its first address, between `start` and `stop`."""
        return int(self.listens_at[1])

    @property
    def listens_at(self) -> tuple[t.Any, ...]:
        """The first socket address that it listens on, (address, port, ...), between `start` and `stop`."""
        if not self._listeners:
            raise AssertionError("it has no address before `start`")
        return t.cast("tuple[t.Any, ...]", self._listeners[0].getsockname())

    async def stop(self) -> None:
        """Stop listening and abort all connections; unfinished answers are lost."""
        for task in self._accepting:
            task.cancel()
        if self._accepting:
            await asyncio.wait(self._accepting)
        self._close_listeners()
        for client in list(self._clients):
            client.abort()
        await asyncio.sleep(0)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners = []

    async def _accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled, one in each turn; the others wait in the kernel."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, dummy = await loop.sock_accept(listener)
            except OSError as error:
                _log.error("No connection can be accepted for metrics: %s.", error.strerror)
                await asyncio.sleep(_NO_MORE_FILES)
                continue
            try:
                async with self.share.turn(_KEY):
                    await loop.connect_accepted_socket(lambda: _Client(self), connection)
            except OSError:
                connection.close()  # This connection failed meanwhile; the server goes on to accept others.
            except BaseException:
                connection.close()
                raise

    # --- for clients

    def admit(self, client: _Client) -> bool:
        """Register a client; return False if 64 clients are connected and none can be dropped for it.

        The dropped one is the oldest that has its answer, or else has not sent its request, or else does not read its
        answer.
        """
        if len(self._clients) >= _CONNECTIONS:
            for idle in (_Stage.ANSWERED, _Stage.HEAD, _Stage.READING):
                victim = next((one for one in self._clients if one.stage is idle), None)
                if victim is not None:
                    self.gone(victim)
                    victim.abort()
                    break
            else:
                return False
        self._clients[client] = None
        return True

    def gone(self, client: _Client) -> None:
        self._clients.pop(client, None)

    def ask(self, client: _Client) -> None:
        """Schedule an answer to a client, in one turn with all other clients that wait for one."""
        self._asking.append(client)
        if len(self._asking) == 1:
            self.share.soon(_KEY, self._answer)

    def _answer(self) -> None:
        asking, self._asking = self._asking, []
        pages: dict[bytes, HttpAnswer] = {}
        for client in asking:
            client.answer(*self._answer_to(client.head, pages))

    def _answer_to(self, head: t.Optional[bytes], pages: dict[bytes, HttpAnswer]) -> tuple[HttpAnswer, bool]:
        """Return (answer, whether its body is sent) for the head of a request; None stands for a head that is too long.

        `pages` has the pages made in this turn, by path. Errors, and what a check finds wrong (503), become answers.
        """
        if head is None:
            status = http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            return _refusal(status, f"the header is longer than {_HEAD_LIMIT} bytes"), True
        if not head.endswith(_END):
            return _refusal(http.HTTPStatus.BAD_REQUEST, "the request ends early"), True
        lines = head.split(b"\r\n")
        words = lines[0].split(b" ")
        if len(words) != 3 or words[2] not in _VERSIONS or not words[1].startswith(b"/"):
            return _refusal(http.HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1.1"), True
        if words[2] != _VERSIONS[0] and sum(line[:5].lower() == b"host:" for line in lines[1:]) != 1:
            return _refusal(http.HTTPStatus.BAD_REQUEST, "it needs one Host"), True
        method, target, dummy = words
        with_body = method != b"HEAD"
        path = target.partition(b"?")[0]
        if path != b"/metrics" and path not in self._checks:
            return _refusal(http.HTTPStatus.NOT_FOUND, "there are /metrics, /liveness and /readiness"), with_body
        if method not in (b"GET", b"HEAD"):
            return _refusal(http.HTTPStatus.METHOD_NOT_ALLOWED, "GET and HEAD are", "Allow: GET, HEAD\r\n"), True
        if path not in pages:
            try:
                pages[path] = self._page(path)
            except Exception:  # noqa: BLE001  no error of a page may end the agent
                _log.exception("%s could not be made", path.decode("ascii", "replace"))
                pages[path] = _refusal(http.HTTPStatus.INTERNAL_SERVER_ERROR, "see the agent's journal")
        return pages[path], with_body

    def _page(self, path: bytes) -> HttpAnswer:
        if path == b"/metrics":
            return HttpAnswer(http.HTTPStatus.OK, metrics.text(self._registry), metrics.CONTENT_TYPE)
        wrong = self._checks[path]()
        if wrong is None:
            return HttpAnswer(http.HTTPStatus.OK, "ok\n")
        return HttpAnswer(http.HTTPStatus.SERVICE_UNAVAILABLE, f"{wrong}\n")


class _Stage(enum.Enum):
    HEAD = "head"  # the client's request is not complete
    ASKED = "asked"  # the request is complete, too long or cut short, and the answer is not made yet
    READING = "reading"  # the answer is made, and a part of it waits in the agent until the client reads
    ANSWERED = "answered"  # the kernel has taken the whole answer


class _Client(asyncio.Protocol):
    """One connection, with one request and one answer. After each piece that it reads, it waits for a turn to go on."""

    def __init__(self, server: MetricsServer) -> None:
        self.server = server
        self.stage = _Stage.HEAD
        self.head: t.Optional[bytes] = b""  # the bytes of the request so far; None if it is too long
        self._transport: asyncio.Transport
        self._timer: t.Optional[asyncio.TimerHandle] = None
        self._lost = False
        self._ended = False  # the client sends no more

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = t.cast(asyncio.Transport, transport)
        if self.server.admit(self):
            self._arm()
        else:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._transport.pause_reading()
        if self.stage is _Stage.HEAD and self.head is not None:
            self.head += data
            end = self.head.find(_END)
            if 0 <= end <= _HEAD_LIMIT - len(_END):
                self.head = self.head[: end + len(_END)]
                self._ask()
            elif len(self.head) > _HEAD_LIMIT:
                self.head = None
                self._ask()
        self.server.share.soon(_KEY, self._read_on)

    def eof_received(self) -> bool:
        self._ended = True
        if self.stage is _Stage.HEAD and self.head:
            self._ask()
        elif self.stage in (_Stage.HEAD, _Stage.ANSWERED):
            self._transport.close()
        return True

    def pause_writing(self) -> None:
        """Do nothing: the timer that `answer` starts limits how long the client may take to read."""

    def resume_writing(self) -> None:
        self._answered()

    def connection_lost(self, exc: t.Optional[Exception]) -> None:
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
        self.server.gone(self)

    def answer(self, answer: HttpAnswer, with_body: bool) -> None:
        if self._lost or self._transport.is_closing():
            return
        self._arm()
        self.stage = _Stage.READING
        self._transport.set_write_buffer_limits(high=0)
        self._transport.write(_message(answer, with_body))
        if self._ended:
            self._transport.close()
            return
        # Only the sending side is shut down. To close with bytes of the client unread would reset the connection, and
        # the client would lose the answer.
        try:
            self._transport.write_eof()
        except OSError:  # The client has disconnected, and asyncio has not noticed yet.
            self._transport.abort()
        if not self._transport.get_write_buffer_size():
            self._answered()

    def abort(self) -> None:
        self._transport.abort()

    def _ask(self) -> None:
        self.stage = _Stage.ASKED
        self.server.ask(self)

    def _answered(self) -> None:
        self.stage = _Stage.ANSWERED

    def _read_on(self) -> None:
        if not self._lost and not self._transport.is_closing():
            self._transport.resume_reading()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self.server.seconds, self._transport.abort)


def _refusal(status: http.HTTPStatus, why: str, header: str = "") -> HttpAnswer:
    return HttpAnswer(status, f"{status.phrase}: {why}.\n", header=header)


def _message(answer: HttpAnswer, with_body: bool) -> bytes:
    body = answer.body.encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        f"{answer.header}"
        "Connection: close\r\n"
        "\r\n"
    )
    return head.encode() + (body if with_body else b"")
