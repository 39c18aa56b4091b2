# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP/1.1 server on the plugin's socket: one request per call of Docker, connections kept, everything bounded.

It is the standard library's server with a thread for each connection. A request has REQUEST_SECONDS to be complete,
also the first of a connection, and BODY_LIMIT bytes; a connection may be idle for IDLE_SECONDS afterwards. Only the
user `owner` is answered.

dockerd gives up a container whose request is refused, and after a reboot it starts all of them at once. So a connection
too many is not closed: it waits in the kernel's queue until another one ends.
"""

from __future__ import annotations

import contextlib
import http
import http.server
import io
import json
import logging
import re
import socket
import socketserver
import threading
import time
import typing as t

from ...base import terminal_text
from ...wire.peer import Peer

_log = logging.getLogger("calico.docker")

BODY_LIMIT = 1 << 20  # bytes
CONNECTIONS = 256
LARGE = 64 << 10  # bytes; only LARGE_BODIES bodies with more are in memory at once
LARGE_BODIES = 2
REQUEST_SECONDS = 30.0
IDLE_SECONDS = 600.0
_CHUNK_LINE = 256  # bytes of the line that begins a chunk
_TRAILERS = 32  # lines after the last chunk
_PAUSE = 0.2  # seconds between two looks for a connection that has ended
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")
_LENGTH = re.compile(r"[0-9]{1,10}", re.ASCII)

Answer = tuple[int, dict[str, t.Any]]


class _Refused(Exception):
    """The refusal of a request's form: an HTTP status and a text. The connection is closed."""

    def __init__(self, status: http.HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class _Reader(io.RawIOBase):
    """The bytes of a connection, until a point in time (`end`, of time.monotonic()); then socket.timeout is raised."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.end = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: t.Any) -> int:
        left = self.end - time.monotonic()
        if left <= 0:
            raise socket.timeout("the request took too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class PluginServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """The server on `listening`, a socket that listens already.

    `answer` returns the status and the JSON object for a path and a body, in the thread of the connection. `served` is
    called after each answer. `owner` is the uid that is answered.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        listening: socket.socket,
        answer: t.Callable[[str, bytes], Answer],
        owner: int,
        served: t.Callable[[], None] = lambda: None,
        connections: int = CONNECTIONS,
        request_seconds: float = REQUEST_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        super().__init__("", _Connection, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.answer = answer
        self.served = served
        self.request_seconds = request_seconds
        self.idle_seconds = idle_seconds
        self._owner = owner
        self._free = threading.BoundedSemaphore(connections)
        self.large = threading.BoundedSemaphore(LARGE_BODIES)
        self.closing = False
        self._idle: set[socket.socket] = set()
        self._busy = 0
        self._changed = threading.Condition()

    def wait_begins(self, connection: socket.socket) -> None:
        """Count a connection as idle. At the end of the server, only what was sent already can be read from it."""
        with self._changed:
            self._idle.add(connection)
            if self.closing:
                _take_no_more(connection)

    def wait_ends(self, connection: socket.socket, request: bool) -> None:
        """Count a connection as idle no more, and with `request` a request as under way, until `request_ends`."""
        with self._changed:
            self._idle.discard(connection)
            self._busy += request
            self._changed.notify_all()

    def request_ends(self) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def finish(self, seconds: float) -> bool:
        """Take no more requests, and wait at most `seconds` until none is under way; return whether none is.

        Idle connections are closed, so that dockerd opens new ones. It repeats a request whose connection breaks
        without its body, so what it has sent already is answered.
        """
        with self._changed:
            self.closing = True
            for connection in self._idle:
                _take_no_more(connection)
            return self._changed.wait_for(lambda: not self._busy and not self._idle, seconds)

    def get_request(self) -> tuple[socket.socket, t.Any]:
        """Accept a connection; raise OSError, and leave it where it is, if there are as many as there may be."""
        if not self._free.acquire(timeout=_PAUSE):
            raise BlockingIOError("as many connections as there may be")
        try:
            return super().get_request()
        except OSError:
            self._free.release()
            raise

    def verify_request(self, request: t.Any, client_address: t.Any) -> bool:
        """Return whether the process at the other end is the owner's; a refusal is logged."""
        try:
            peer = Peer.from_socket(request)
        except OSError:
            peer = None
        if peer is not None and peer.uid == self._owner:
            return True
        if peer is not None:
            _log.warning(
                "A connection of user %d (pid %d) is refused: only root's dockerd may ask.", peer.uid, peer.pid
            )
        self._free.release()
        return False

    def process_request(self, request: t.Any, client_address: t.Any) -> None:
        """Answer a connection in a thread of its own. Raise RuntimeError if there can be no more threads."""
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            self._free.release()
            raise

    def process_request_thread(self, request: t.Any, client_address: t.Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Log an error of a connection. One that the other side has closed is not worth a line."""
        _log.debug("A connection ended with an error.", exc_info=True)


class _Connection(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PluginServer

    def setup(self) -> None:
        super().setup()
        self._reader = _Reader(self.connection)
        self._buffered = io.BufferedReader(self._reader, 65536)
        self.rfile = self._buffered
        self._patience = self.server.request_seconds  # until the first request has begun
        self._large = False

    def handle_one_request(self) -> None:
        """Wait for a request, then answer it; close the connection if it does not come, or not in time."""
        self.close_connection = True
        self.server.wait_begins(self.connection)
        waiting = b""
        self._reader.end = time.monotonic() + self._patience
        try:
            waiting = self._buffered.peek(1)
        except (OSError, ValueError):
            return
        finally:
            self.server.wait_ends(self.connection, bool(waiting))
        if not waiting:
            return
        self._patience = self.server.idle_seconds
        try:
            self._reader.end = time.monotonic() + self.server.request_seconds
            super().handle_one_request()
        finally:
            if self._large:
                self._large = False
                self.server.large.release()
            self.server.request_ends()

    def do_POST(self) -> None:
        try:
            body = self._body()
        except _Refused as refused:
            self.close_connection = True
            self._send(refused.status, {"Err": refused.text})
            return
        status, answer = self.server.answer(self.path, body)
        self._send(status, answer)
        self.server.served()

    def _body(self) -> bytes:
        lengths, codings = self.headers.get_all("Content-Length", []), self.headers.get_all("Transfer-Encoding", [])
        if codings:
            if lengths or [coding.strip().lower() for coding in codings] != ["chunked"]:
                raise _Refused(http.HTTPStatus.BAD_REQUEST, "The request's Transfer-Encoding is not understood.")
            return self._chunks()
        if not lengths:
            return b""
        if len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0].strip()):
            raise _Refused(http.HTTPStatus.BAD_REQUEST, "The request's Content-Length is not a number.")
        return self._exactly(self._admitted(int(lengths[0])))

    def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            line = self.rfile.readline(_CHUNK_LINE + 1)
            size = _CHUNK_SIZE.fullmatch(line.partition(b";")[0].strip())
            if size is None or not line.endswith(b"\n"):
                raise _Refused(http.HTTPStatus.BAD_REQUEST, "A chunk of the request has no proper beginning.")
            length = int(size[0], 16)
            if length == 0:
                break
            self._admitted(len(body) + length)
            body += self._exactly(length)
            if self.rfile.readline(3).strip():
                raise _Refused(http.HTTPStatus.BAD_REQUEST, "A chunk of the request has no proper end.")
        for dummy in range(_TRAILERS):
            if not self.rfile.readline(_CHUNK_LINE + 1).strip():
                return bytes(body)
        raise _Refused(http.HTTPStatus.BAD_REQUEST, "The request has too many lines after its last chunk.")

    def _admitted(self, length: int) -> int:
        """Return `length`, the bytes of a body, once there is memory for it, within the time of the request."""
        if length > BODY_LIMIT:
            raise _Refused(
                http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body of a request has at most {BODY_LIMIT} bytes."
            )
        if length > LARGE and not self._large:
            self._large = self.server.large.acquire(timeout=max(self._reader.end - time.monotonic(), 0.0))
            if not self._large:
                raise _Refused(http.HTTPStatus.SERVICE_UNAVAILABLE, "Too many large requests are under way. Try again.")
            self._reader.end = time.monotonic() + self.server.request_seconds
        return length

    def _exactly(self, length: int) -> bytes:
        body = self.rfile.read(length)
        if len(body) != length:
            raise _Refused(http.HTTPStatus.BAD_REQUEST, "The request ended before its body was complete.")
        return body

    def _send(self, status: int, answer: t.Mapping[str, t.Any]) -> None:
        data = json.dumps(answer).encode("ascii") + b"\n"
        self.connection.settimeout(self.server.request_seconds)
        self.send_response_only(status)
        self.send_header("Content-Type", "application/vnd.docker.plugins.v1.2+json")
        self.send_header("Content-Length", str(len(data)))
        if self.server.closing:
            self.close_connection = True
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def send_error(self, code: int, message: t.Optional[str] = None, explain: t.Optional[str] = None) -> None:
        """Answer a request that is no HTTP, or of another method, in Docker's form, and close the connection."""
        self.close_connection = True
        if self.request_version == "HTTP/0.9":
            return  # Nothing can be said in it.
        self._send(code, {"Err": f"The request is refused (HTTP status {int(code)}): it is not one of Docker's."})

    def log_message(self, format: str, *arguments: t.Any) -> None:
        _log.debug("%s", terminal_text.line(format % arguments))


def _take_no_more(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RD)
