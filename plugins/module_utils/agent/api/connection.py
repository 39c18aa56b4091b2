# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One client's connection to the agent: it cuts bytes into requests and answers one after the other.

What a client can cost is limited: the size of a request, the time until it is complete, unread bytes in either
direction, and the bytes of incomplete requests over all connections (Bounds.admit_bytes). A connection that is one too
many, or whose request finds no room, receives a refusal. It is then only read until the client closes it or a moment
has passed: closing it at once could lose the refusal. The server itself closes what is one too many of another caller
than root, and Bounds.admit what is far too many. A connection that is idle, or whose answers are not read, for too
long is closed without a word. Requests that are refused for unread answers or too many streams leave it open.

Root's requests are read and answered as they come. The requests of others wait for turns (fair_share.py): the
connection waits for a turn after each piece that it has read, and once more before it parses a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import typing as t

from ...wire import plugin_errors, protocol, shim_framing
from ...wire.peer import Peer
from ...wire.plugin_errors import CniError
from ...wire.protocol import AgentError
from ...wire.shim_framing import Framing
from ..concurrency.fair_share import FairShare
from .bounds import Bounds
from .calls import Calls, Method, internal, stopping

_log = logging.getLogger("calico.api")

# The most seconds that one connection too many has for its first request, and that any has after it is turned away.
_LINGER = 2.0
_CHUNK = 64 << 10  # the most bytes that are read at once from root
_CHUNK_OTHERS = 16 << 10  # the most bytes that are read at once from other callers

#: The bytes read last, until they are in a connection's own buffer. All connections share it, because the loop reads
#: from one connection at a time.
_scratch = bytearray(_CHUNK)


class ApiConnection(asyncio.BufferedProtocol):
    """One client's connection: it decides when a request is answered; `calls` gives the answer."""

    def __init__(self, calls: Calls, bounds: Bounds[ApiConnection], share: FairShare) -> None:
        self._calls = calls
        self._bounds = bounds
        self._share = share
        self.peer = Peer(0, -1, -1)
        self.busy = False  # True while a request is being answered, or waits for its turn to be
        self.lost = False
        self.streaming = False
        self.task: t.Optional[asyncio.Task[None]] = None
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._seen = 0  # bytes at the beginning of the buffer that contain no end of a line
        # The framing of a shim's connection, None without one, False while it is not known yet.
        self._framing: t.Union[Framing, t.Literal[False], None] = False
        self._deaf = False  # True: bytes that the client still sends are discarded
        self._turned_away = False  # True: the connection has had its last answer and is closed in a moment
        self._ended = False  # True: the client sends no more, or the agent stops
        self._stopped = False  # True: the agent stops, and later requests are refused
        self._stuck = False  # True: the client does not read its answers, and the buffer for them is full
        self._root = False
        # This is True while a request of root that is no stream, or one of a shim, is answered. Meanwhile each turn of
        # other callers is delayed by up to 0.1 s, for slow methods by up to 1 s.
        self._urgent = False
        self._writable: t.Optional[asyncio.Future[None]] = None
        self._timer: t.Optional[asyncio.TimerHandle] = None
        self._refusal: t.Optional[AgentError] = None  # why requests are refused (too many connections), or None
        self._to_tell: t.Optional[AgentError] = None  # the refusal to send after the answer under way

    # --- callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = t.cast(asyncio.Transport, transport)
        try:
            self.peer = Peer.from_socket(transport.get_extra_info("socket"))
        except OSError:  # the client has disconnected already
            self._transport.abort()
        self._root = self._bounds.is_root(self.peer)
        self._refusal = self._bounds.admit(self)
        self._arm()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(_scratch)[: _CHUNK if self._root else _CHUNK_OTHERS]

    def buffer_updated(self, nbytes: int) -> None:
        if not self._root:
            self._transport.pause_reading()
        if self._deaf:
            self._read_on()
        elif not self._bounds.admit_bytes(self.peer, nbytes):
            self._refuse(
                AgentError(protocol.TRY_AGAIN, "the agent holds too many requests that are not complete. Try again."),
                bytes(_scratch[:nbytes]),
            )
        else:
            self._buffer += memoryview(_scratch)[:nbytes]
            self._serve()

    def eof_received(self) -> bool:
        self._ended = True
        if self.streaming and self.task is not None:
            self.task.cancel()
        if self._deaf and not self.busy:
            self._transport.close()
        self._serve()
        return True  # keeps the connection open: a request may be left to answer, or an answer to read

    def pause_writing(self) -> None:
        self._stuck = True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._bounds.limits.idle, self._transport.abort)

    def resume_writing(self) -> None:
        self._stuck = False
        if not self._turned_away:
            self._disarm()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if not self.busy and not self.lost and not self._turned_away:
            self._arm()
            self._serve()

    def connection_lost(self, exc: t.Optional[Exception]) -> None:
        self.lost = True
        self._disarm()
        self._drop(len(self._buffer))
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        # A request of root that has begun is completed, because half-done work is useless. Streams and the requests of
        # others are cancelled.
        if self.task is not None and (self.streaming or not self._root):
            self.task.cancel()
        if not self.busy:
            self._bounds.gone(self)

    # --- methods for the server

    def abort(self) -> None:
        """Close the connection at once, and discard what was not sent."""
        self._transport.abort()

    def stop(self) -> None:
        """Discard the requests that have not begun; close the connection once the answer under way is sent.

        It does not wait. A stream is cancelled. Requests that are read during that answer are refused as `unavailable`.
        From a caller other than root, at most one more piece is read; what it sends after that gets no answer.
        """
        self._ended = self._stopped = True
        if self.streaming and self.task is not None:
            self.task.cancel()
        self._drop(len(self._buffer))
        self._serve()

    @property
    def unread(self) -> int:
        """The number of bytes of answers that wait in the agent because the client does not read them."""
        return self._transport.get_write_buffer_size()

    # --- requests

    def _serve(self) -> None:
        """Begin to answer the next complete request, unless one is being answered or too much of answers is unread.

        If nothing is left to answer, and the client sends no more or the agent stops, close the connection. While a
        request is answered, stop reading if more bytes wait than a request may have.
        """
        if not self._root:
            self._serve_in_turn()
            return
        while not (self.busy or self._stuck or self._deaf or self.lost):
            if self._framing is False:
                self._find_framing()
            if self._framing:
                self._serve_shim(self._framing)
                break
            line = self._take_line()
            if line is None:
                break
            if line.strip():
                self._disarm()
                self._handle(line)
                if not self.busy:
                    self._arm()
        if self.lost or self._deaf:
            return
        if self._ended and not self.busy and not self._buffer and not self._stuck:
            self._transport.close()
        elif self.busy and len(self._buffer) > self._limit:
            self._transport.pause_reading()

    def _serve_in_turn(self) -> None:
        """Do for a client other than root what `_serve` does; reading on and answering wait for turns."""
        if self.busy and not self._ended:
            # More is read while a request is answered, because that shows when the client disconnects. These bytes
            # belong to later requests. Beyond `_limit` bytes, reading stops until the answer is given; a stream has no
            # such end, so its connection is closed at once.
            if len(self._buffer) <= self._limit:
                self._read_on()
            elif self.streaming:
                self._transport.abort()
        if self.busy or self._stuck or self._deaf or self.lost:
            return
        if self._framing is False:
            self._find_framing()
        if self._framing:
            self._serve_shim(self._framing)
        elif self._has_line():
            self._disarm()
            self._begin(self._answer_in_turn())
            return
        self._await_more()

    def _await_more(self) -> None:
        """Read on, or close the connection if the client sends no more or the agent stops and no bytes are left."""
        if self._deaf:
            return
        if not self._ended:
            self._read_on()
        elif not self._buffer:
            self._transport.close()

    def _has_line(self) -> bool:
        """Return whether the buffer has a whole line, or more bytes than a line may have.

        If the client sends no more, any bytes are a whole line.
        """
        if self._buffer.find(b"\n", self._seen) >= 0 or len(self._buffer) > self._limit:
            return True
        self._seen = len(self._buffer)
        return self._ended and bool(self._buffer)

    def _read_on(self) -> None:
        if self._root:
            self._resume()
        elif not self.lost:
            self._share.soon(self.peer.uid, self._resume)

    def _resume(self) -> None:
        if not self.lost and not self._transport.is_closing():
            self._transport.resume_reading()

    @property
    def _limit(self) -> int:
        return self._bounds.line_limit(self.peer)

    def _find_framing(self) -> None:
        self._framing = shim_framing.find(bytes(self._buffer[: shim_framing.ENOUGH]), self._ended)

    def _take_line(self) -> t.Optional[bytes]:
        limit = self._limit
        end = self._buffer.find(b"\n", self._seen) + 1
        if end > limit or (not end and len(self._buffer) > limit):
            self._refuse(
                AgentError(
                    protocol.TOO_LARGE, f"the request is longer than {limit} bytes. Ask for less in one request."
                )
            )
            return None
        if not end:
            if not self._ended:
                self._seen = len(self._buffer)
                return None
            end = len(self._buffer)  # The client sends no more: the last line needs no newline.
            if not end:
                return None
        line = bytes(self._buffer[:end])
        self._drop(end)
        if self._root:
            self._resume()
        return line

    def _handle(self, line: bytes) -> None:
        found = self._understood(line)
        if found is not None:
            request, method = found
            if method.stream:
                self.streaming = True
                self._begin(self._stream(request))
            else:
                self._begin(self._answer(request), urgent=True)

    def _understood(self, line: bytes) -> t.Optional[tuple[protocol.Request, Method]]:
        """Parse a request and check its caller: return (request, method), or None after writing the refusal.

        If this connection was one too many when it was made, the refusal is its last answer.
        """
        id: protocol.Id = None
        try:
            request = protocol.parse(line)
            id = request.id
            if self._refusal is not None:
                raise self._refusal
            if self._stopped:
                raise stopping()
            method = self._calls.method(request.method, self.peer, request.params)
            self._bounds.check_unread(self.peer)
            if method.stream:
                self._bounds.check_streams(self.peer)
            return request, method
        except AgentError as error:
            self._write(protocol.failure(error.id if isinstance(error, protocol.BadRequest) else id, error))
            if self._refusal is not None:
                self._turn_away()
            return None

    async def _answer_in_turn(self) -> None:
        uid = self.peer.uid
        found = None
        try:
            async with self._share.turn(uid):
                line = self._take_line()
                if line is not None and line.strip():
                    found = self._understood(line)
                    if found is not None and not found[1].slow and not found[1].stream:
                        await self._answer(found[0])
                        return
            if found is not None:
                self._serve()
            if found is not None and found[1].stream:
                self.streaming = True
                await self._stream(found[0])
            elif found is not None:
                await self._answer(found[0], in_turn=True)
        except asyncio.CancelledError:  # The task was cancelled while it waited for a turn.
            self._write(protocol.failure(None if found is None else found[0].id, stopping()))
            raise

    def _begin(self, answering: t.Coroutine[t.Any, t.Any, None], urgent: bool = False) -> None:
        self.busy = True
        self._urgent = urgent
        if urgent:
            self._share.begin_urgent()
            self._calls.begin_urgent()
        self.task = asyncio.get_running_loop().create_task(answering)
        self.task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.busy = False
        self.streaming = False
        self.task = None
        if self._urgent:
            self._urgent = False
            self._share.end_urgent()
            self._calls.end_urgent()
        if not task.cancelled() and task.exception() is not None:
            _log.error("Cannot answer a request of the API", exc_info=task.exception())
            self._transport.abort()
        if self.lost:
            self._bounds.gone(self)
        elif self._to_tell is not None:
            self._refuse(self._to_tell)
        elif not self._deaf:
            self._arm()
            self._serve()

    async def _answer(self, request: protocol.Request, in_turn: bool = False) -> None:
        """Call the method of a request, report the outcome to `Calls.observe`, and write the result or the error.

        `in_turn` makes the encoding of the result wait for a turn, and refuses it if too many answers are unread by
        then.
        """
        began = time.perf_counter()
        outcome = "ok"
        try:
            result = await self._calls.call(request, self.peer)
            if in_turn:
                async with self._share.turn(self.peer.uid):
                    self._bounds.check_unread(self.peer)
                    answer = protocol.result(request.id, result)
            else:
                answer = protocol.result(request.id, result)
        except AgentError as error:
            outcome = error.code
            answer = protocol.failure(request.id, error)
        except (TypeError, ValueError, RecursionError):
            _log.exception("the answer of method %s is no JSON", request.method)
            outcome = protocol.INTERNAL
            answer = protocol.failure(request.id, internal(request.method))
        self._calls.observe(request.method, outcome, time.perf_counter() - began)
        self._write(answer)

    async def _stream(self, request: protocol.Request) -> None:
        outcome = "ok"
        began = time.perf_counter()
        events = None
        try:
            events = self._calls.stream(request, self.peer)
            async for event in events:
                self._write(protocol.event(request.id, event))
                if self._stuck:
                    self._writable = asyncio.get_running_loop().create_future()
                    await self._writable
            last = protocol.result(request.id, {})
        except asyncio.CancelledError:  # the client sends no more or has disconnected, or the agent stops
            last = protocol.failure(request.id, stopping())
        except AgentError as error:
            outcome = error.code
            last = protocol.failure(request.id, error)
        except Exception:  # noqa: BLE001  any error becomes an answer, and the agent goes on
            _log.exception("method %s failed", request.method)
            outcome = protocol.INTERNAL
            last = protocol.failure(request.id, internal(request.method))
        finally:
            if events is not None:
                await events.aclose()
        self._calls.observe(request.method, outcome, time.perf_counter() - began)
        self._write(last)

    # --- requests of shims

    def _serve_shim(self, framing: Framing) -> None:
        limit = self._limit
        if not self._buffer:
            return
        greeting, newline, rest = bytes(self._buffer[: len(framing.greeting)]).partition(b"\n")
        if not newline and len(self._buffer) < len(framing.greeting) and not self._ended:
            return
        if greeting + newline != framing.greeting or rest:
            self._refuse_shim(
                framing,
                CniError(
                    plugin_errors.INTERNAL,
                    f"the agent does not know this form of request: {greeting[:60]!r}",
                    "The plugin and the agent are of different releases. The role installs both: run site.yml.",
                ),
            )
        elif self.peer.uid != self._bounds.root:
            self._refuse_shim(
                framing,
                CniError(plugin_errors.FORBIDDEN, f"uid {self.peer.uid} may not attach workloads", framing.root_only),
            )
        elif self._refusal is not None:
            self._refuse_shim(framing, CniError(plugin_errors.TRY_AGAIN, self._refusal.message))
        elif len(self._buffer) > limit:
            self._refuse_shim(
                framing,
                CniError(
                    plugin_errors.NOT_DECODED,
                    f"the request is longer than {limit} bytes",
                    "Shorten the network configuration or what the runtime adds to it.",
                ),
            )
        elif self._ended:
            data = bytes(self._buffer[len(framing.greeting) :])
            self._drop(len(self._buffer))
            self._disarm()
            self._begin(self._answer_shim(framing, data), urgent=True)

    async def _answer_shim(self, framing: Framing, data: bytes) -> None:
        stdin = b""
        try:
            environment, stdin = shim_framing.parse(data)
            status, output = await self._calls.call_shim(framing, environment, stdin)
            self._write(shim_framing.answer(status, output))
        except CniError as refused:
            self._write(framing.refusal(refused, stdin))

    def _refuse_shim(self, framing: Framing, refused: CniError) -> None:
        self._write(framing.refusal(refused, bytes(self._buffer).partition(b"\n\n")[2]))
        self._turn_away()

    # --- refusals, bytes and time

    def _refuse(self, error: AgentError, beyond: bytes = b"") -> None:
        """Send a refusal after the answer under way, in the framing of the request, and take no more requests.

        `beyond` are bytes that were read and are not in the buffer.
        """
        framing = self._framing
        if framing is False:
            framing = shim_framing.may_become(bytes(self._buffer[: shim_framing.ENOUGH]) + beyond)
        if framing:
            self._refuse_shim(framing, CniError(plugin_errors.TRY_AGAIN, error.message))
        elif self.busy:  # The answer under way has to be sent first.
            self._deaf = True
            self._to_tell = error
        else:
            self._write(protocol.failure(None, error))
            self._turn_away()

    def _turn_away(self) -> None:
        """Discard all that the client still sends; close the connection when the client does, after 2 seconds at most.

        Closing it at once, with bytes unread, would reset it, and the client would lose the answer (unix(7)).
        """
        self._deaf = True
        self._drop(len(self._buffer))
        if self.lost or self._transport.is_closing():
            return
        if self._ended:
            self._transport.close()
            return
        with contextlib.suppress(OSError):  # The client has disconnected, and asyncio has not noticed yet.
            self._transport.write_eof()
        self._read_on()
        self._disarm()
        self._turned_away = True
        self._timer = asyncio.get_running_loop().call_later(
            min(_LINGER, self._bounds.limits.idle), self._transport.abort
        )

    def _write(self, data: bytes) -> None:
        if not self.lost and not self._transport.is_closing():
            self._transport.write(data)

    def _drop(self, count: int) -> None:
        del self._buffer[:count]
        self._seen = 0
        self._bounds.drop_bytes(self.peer, count)

    def _arm(self) -> None:
        self._disarm()
        seconds = self._bounds.limits.idle if self._refusal is None else min(_LINGER, self._bounds.limits.idle)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._idle)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _idle(self) -> None:
        self._timer = None
        if not self.busy:
            self._transport.abort()
