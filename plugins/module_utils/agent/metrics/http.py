# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a monitoring system asks by HTTP: GET /metrics, /liveness and /readiness (RFC 9110, RFC 9112), and nothing else.

Small on purpose: no bodies of requests, one answer per connection, little memory per client. It listens where it is
told to, on loopback by default, and tells nothing but these three pages.

Every local user reaches it, so all that it does is done in turns of a FairShare, and a client who has not said what he
wants makes room for the next one. One page is made for all who ask at the same time.
"""

from __future__ import annotations

import asyncio
import enum
import http
import logging
import socket
import typing as t

from ..api.fair_share import FairShare
from . import metrics
from .metrics import Registry

ADDRESS = "127.0.0.1"
PORT = 9091  # Felix's own default

_log = logging.getLogger("calico.http")

_HEAD_LIMIT = 8 << 10  # bytes of request line and header
_END = b"\r\n\r\n"
_CONNECTIONS = 64
_BACKLOG = 1024  # the kernel's net.core.somaxconn may be lower
_NO_MORE_FILES = 1.0  # seconds until a connection is accepted again after that failed
_KEY = "http"  # who has the turns
_VERSIONS = (b"HTTP/1.0", b"HTTP/1.1")

Check = t.Callable[[], t.Optional[str]]


class Answer(t.NamedTuple):
    status: http.HTTPStatus
    body: str
    content_type: str = "text/plain; charset=utf-8"
    header: str = ""


class MetricsServer:
    """`liveness` and `readiness` say what is wrong, or None. `seconds` is what a client has for its request, and then
    for reading the answer. `share` is what all of this may have of the loop."""

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
        self._clients: dict[_Client, None] = {}  # in the order in which they came
        self._asking: t.List[_Client] = []

    async def start(self) -> None:
        """Raises OSError where it cannot listen."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            self._address or None, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
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
        """The one that it listens on; of interest when 0 was asked for."""
        return int(self.listens_at[1])

    @property
    def listens_at(self) -> tuple[t.Any, ...]:
        """The first address that it listens on, as the family of the socket has it."""
        if not self._listeners:
            raise AssertionError("it has no address before `start`")
        return t.cast("tuple[t.Any, ...]", self._listeners[0].getsockname())

    async def stop(self) -> None:
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
        """A few connections in each turn: what others connect faster than that waits in the kernel."""
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
            except BaseException:
                connection.close()
                raise

    # --- for clients

    def admit(self, client: _Client) -> bool:
        """Make room if there is none: by the oldest of those who have the answer, or have not asked, or do not read."""
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
        """Have the client answered in a turn, together with all others who wait for one."""
        self._asking.append(client)
        if len(self._asking) == 1:
            self.share.soon(_KEY, self._answer)

    def _answer(self) -> None:
        asking, self._asking = self._asking, []
        pages: dict[bytes, Answer] = {}
        for client in asking:
            client.answer(*self._answer_to(client.head, pages))

    def _answer_to(self, head: t.Optional[bytes], pages: dict[bytes, Answer]) -> tuple[Answer, bool]:
        """The answer, and whether its body is wanted. `pages` are those that were made in this turn."""
        if head is None:
            status = http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            return _refusal(status, f"the header is longer than {_HEAD_LIMIT} bytes"), True
        if not head.endswith(_END):
            return _refusal(http.HTTPStatus.BAD_REQUEST, "the request ends early"), True
        lines = head.split(b"\r\n")
        words = lines[0].split(b" ")
        if len(words) != 3 or words[2] not in _VERSIONS or not words[1].startswith(b"/"):
            return _refusal(http.HTTPStatus.BAD_REQUEST, "this is no request of HTTP/1.1"), True
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
            except Exception:  # noqa: BLE001  a scrape must not cost the agent
                _log.exception("%s could not be made", path.decode("ascii", "replace"))
                pages[path] = _refusal(http.HTTPStatus.INTERNAL_SERVER_ERROR, "see the agent's journal")
        return pages[path], with_body

    def _page(self, path: bytes) -> Answer:
        if path == b"/metrics":
            return Answer(http.HTTPStatus.OK, metrics.text(self._registry), metrics.CONTENT_TYPE)
        wrong = self._checks[path]()
        if wrong is None:
            return Answer(http.HTTPStatus.OK, "ok\n")
        return Answer(http.HTTPStatus.SERVICE_UNAVAILABLE, f"{wrong}\n")


class _Stage(enum.Enum):
    HEAD = "head"  # its request is not complete
    ASKED = "asked"  # it waits for the answer
    READING = "reading"  # it has some of the answer
    ANSWERED = "answered"  # it has it, and the kernel too


class _Client(asyncio.Protocol):
    """One connection: a request, an answer, the end. After each piece that was read it waits for a turn to read on."""

    def __init__(self, server: MetricsServer) -> None:
        self.server = server
        self.stage = _Stage.HEAD
        self.head: t.Optional[bytes] = b""  # None: too long
        self._transport: asyncio.Transport
        self._timer: t.Optional[asyncio.TimerHandle] = None
        self._lost = False
        self._ended = False  # the client has sent all that it will

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
        """The answer does not fit into the kernel's buffer: the client has the time of a request to read it."""

    def resume_writing(self) -> None:
        self._answered()

    def connection_lost(self, exc: t.Optional[Exception]) -> None:
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
        self.server.gone(self)

    def answer(self, answer: Answer, with_body: bool) -> None:
        if self._lost or self._transport.is_closing():
            return
        self._arm()
        self.stage = _Stage.READING
        self._transport.set_write_buffer_limits(high=0)
        self._transport.write(_message(answer, with_body))
        if self._ended:
            self._transport.close()
            return
        # Closing with bytes unread would reset the connection, and with it the answer.
        try:
            self._transport.write_eof()
        except OSError:  # it has gone, which asyncio has yet to learn
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


def _refusal(status: http.HTTPStatus, why: str, header: str = "") -> Answer:
    return Answer(status, f"{status.phrase}: {why}.\n", header=header)


def _message(answer: Answer, with_body: bool) -> bytes:
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
