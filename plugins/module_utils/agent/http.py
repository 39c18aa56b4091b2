# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a monitoring system asks by HTTP: GET /metrics, /liveness and /readiness (RFC 9110, RFC 9112), and nothing else.

Small on purpose: no bodies of requests, one answer per connection, little memory per client. It listens where it is
told to, on loopback by default, and tells nothing but these three pages.
"""

from __future__ import annotations

import asyncio
import http
import logging
import typing as t

from . import exposition
from .metrics import Registry

ADDRESS = "127.0.0.1"
PORT = 9091  # Felix's own default

_log = logging.getLogger("calico.http")

_HEAD_LIMIT = 8 << 10  # bytes of request line and header
_CONNECTIONS = 64
_VERSIONS = (b"HTTP/1.0", b"HTTP/1.1")

Check = t.Callable[[], t.Optional[str]]


class Answer(t.NamedTuple):
    status: http.HTTPStatus
    body: str
    content_type: str = "text/plain; charset=utf-8"
    header: str = ""


class MetricsServer:
    """`liveness` and `readiness` say what is wrong, or None. `seconds` is what a client has for its request."""

    def __init__(
        self,
        registry: Registry,
        liveness: Check,
        readiness: Check,
        *,
        address: str = ADDRESS,
        port: int = PORT,
        seconds: float = 10.0,
    ) -> None:
        self._registry = registry
        self._checks = {b"/liveness": liveness, b"/readiness": readiness}
        self._address = address
        self._port = port
        self._seconds = seconds
        self._server: t.Optional[asyncio.Server] = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Raises OSError where it cannot listen."""
        self._server = await asyncio.start_server(self._serve, self._address, self._port, limit=_HEAD_LIMIT)

    @property
    def port(self) -> int:
        """The one that it listens on; of interest when 0 was asked for."""
        if self._server is None:
            raise AssertionError("it has no port before `start`")
        return t.cast(int, self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._open):
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _CONNECTIONS:
            writer.transport.abort()
            return
        task = t.cast("asyncio.Task[None]", asyncio.current_task())
        self._open.add(task)
        timer = asyncio.get_running_loop().call_later(self._seconds, writer.transport.abort)
        try:
            answer, with_body = await self._answer(reader)
            if answer is not None:
                writer.write(_message(answer, with_body))
                await writer.drain()
                # Closing with bytes unread would reset the connection, and with it the answer.
                writer.write_eof()
                while await reader.read(_HEAD_LIMIT):
                    pass
        except (OSError, asyncio.CancelledError):
            pass  # the client is gone, or the agent stops: nobody to tell
        finally:
            timer.cancel()
            writer.transport.abort() if writer.transport.is_closing() else writer.close()
            self._open.discard(task)

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[t.Optional[Answer], bool]:
        """The answer, None where nothing was asked, and whether its body is wanted."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            return (_refusal(http.HTTPStatus.BAD_REQUEST, "the request ends early") if error.partial else None), True
        except asyncio.LimitOverrunError:
            status = http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            return _refusal(status, f"the header is longer than {_HEAD_LIMIT} bytes"), True
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
        try:
            return self._page(path), with_body
        except Exception:  # noqa: BLE001  a scrape must not cost the agent
            _log.exception("%s could not be made", path.decode("ascii", "replace"))
            return _refusal(http.HTTPStatus.INTERNAL_SERVER_ERROR, "see the agent's journal"), with_body

    def _page(self, path: bytes) -> Answer:
        if path == b"/metrics":
            return Answer(http.HTTPStatus.OK, exposition.text(self._registry), exposition.CONTENT_TYPE)
        wrong = self._checks[path]()
        if wrong is None:
            return Answer(http.HTTPStatus.OK, "ok\n")
        return Answer(http.HTTPStatus.SERVICE_UNAVAILABLE, f"{wrong}\n")


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
