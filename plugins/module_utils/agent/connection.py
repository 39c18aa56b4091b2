# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One client's connection to the agent: its bytes are cut into requests, which are answered one after the other.

What a client can cost is bounded: a request's size, the time until it is complete, what lies unread in either
direction, and over all connections the bytes that wait (Server.admit_bytes). A connection that breaks a bound is told
so and then only read until it ends or a moment has passed, so that the client is not cut off from the answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
import typing as t

from . import cni_framing, protocol
from .cni_framing import CniRefusal
from .peer import Peer
from .protocol import AgentError

if t.TYPE_CHECKING:
    from .server import Server

_log = logging.getLogger("calico.api")

_LINGER = 2.0  # seconds that a refused client is still read from


class Connection(asyncio.Protocol):
    """`Server` says what is answered; this says when, and in which framing."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.peer = Peer(0, -1, -1)
        self.busy = False  # a request is being answered
        self.lost = False
        self.task: t.Optional[asyncio.Task[None]] = None
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._seen = 0  # bytes of the buffer that hold no end of a line
        self._cni: t.Optional[bool] = None  # which framing; None until the first line tells
        self._deaf = False  # what still comes is thrown away
        self._ended = False  # the client has sent all that it will
        self._stuck = False  # the client does not read its answers
        self._streaming = False
        self._writable: t.Optional[asyncio.Future[None]] = None
        self._timer: t.Optional[asyncio.TimerHandle] = None
        self._refusal: t.Optional[AgentError] = None  # one connection too many
        self._to_tell: t.Optional[AgentError] = None

    # --- what asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = t.cast(asyncio.Transport, transport)
        try:
            self.peer = Peer.of(transport.get_extra_info("socket"))
        except OSError:  # gone already
            self._transport.abort()
        self._refusal = self.server.admit(self)
        self._arm()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if not self.server.admit_bytes(len(data)):
            self._refuse(
                AgentError(protocol.TRY_AGAIN, "the agent holds too many requests that are not complete. Try again.")
            )
            return
        self._buffer += data
        self._serve()

    def eof_received(self) -> bool:
        self._ended = True
        if self._streaming and self.task is not None:
            self.task.cancel()
        if self._deaf and not self.busy:
            self._transport.close()
        self._serve()
        return True  # there may be something to answer; _serve() closes when there is not

    def pause_writing(self) -> None:
        self._stuck = True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.server.limits.idle, self._transport.abort)

    def resume_writing(self) -> None:
        self._stuck = False
        self._disarm()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if not self.busy and not self.lost:
            self._arm()
            self._serve()

    def connection_lost(self, exc: t.Optional[Exception]) -> None:
        self.lost = True
        self._disarm()
        self._drop(len(self._buffer))
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if self._streaming and self.task is not None:
            self.task.cancel()
        # Another request that has begun is finished: what is half done is of no use to anybody.
        if not self.busy:
            self.server.gone(self)

    # --- what the server tells

    def abort(self) -> None:
        self._transport.abort()

    def stop(self) -> None:
        """Once what is being answered has been, this connection ends."""
        self._ended = True
        if self._streaming and self.task is not None:
            self.task.cancel()
        self._drop(len(self._buffer))
        self._serve()

    # --- requests

    def _serve(self) -> None:
        """Starts on the next request if there is a whole one and none is being answered."""
        while not (self.busy or self._stuck or self._deaf or self.lost):
            if self._cni is None:
                self._find_framing()
            if self._cni:
                self._serve_cni()
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
        elif self.busy and len(self._buffer) > self.server.limits.line:
            self._transport.pause_reading()

    def _find_framing(self) -> None:
        begin = bytes(self._buffer[: len(cni_framing.PREFIX)])
        if len(begin) < len(cni_framing.PREFIX) and cni_framing.PREFIX.startswith(begin) and not self._ended:
            return
        self._cni = begin == cni_framing.PREFIX

    def _take_line(self) -> t.Optional[bytes]:
        limit = self.server.limits.line
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
            end = len(self._buffer)  # JSON says where it ends: the last line may go without its newline
            if not end:
                return None
        line = bytes(self._buffer[:end])
        self._drop(end)
        if not self._transport.is_closing():
            self._transport.resume_reading()
        return line

    def _handle(self, line: bytes) -> None:
        id: protocol.Id = None
        try:
            request = protocol.parse(line)
            id = request.id
            if self._refusal is not None:
                raise self._refusal
            method = self.server.method(request.method, self.peer, request.params)
        except AgentError as error:
            self._write(protocol.failure(error.id if isinstance(error, protocol.BadRequest) else id, error))
            if self._refusal is not None:
                self._turn_away()
        else:
            self._streaming = method.stream
            answering = self._stream(request, method.handler) if method.stream else self._answer(request)
            self._begin(answering)

    def _begin(self, answering: t.Coroutine[t.Any, t.Any, None]) -> None:
        self.busy = True
        self.task = asyncio.get_running_loop().create_task(answering)
        self.task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.busy = False
        self._streaming = False
        self.task = None
        if not task.cancelled() and task.exception() is not None:
            _log.error("an answer could not be given", exc_info=task.exception())
            self._transport.abort()
        if self.lost:
            self.server.gone(self)
        elif self._to_tell is not None:
            self._refuse(self._to_tell)
        elif not self._deaf:
            self._arm()
            self._serve()

    async def _answer(self, request: protocol.Request) -> None:
        began = time.perf_counter()
        outcome = "ok"
        try:
            answer = protocol.result(request.id, await self.server.call(request, self.peer))
        except AgentError as error:
            outcome = error.code
            answer = protocol.failure(request.id, error)
        except (TypeError, ValueError, RecursionError):
            _log.exception("the answer of method %s is no JSON", request.method)
            outcome = protocol.INTERNAL
            answer = protocol.failure(request.id, self.server.internal(request.method))
        self.server.observe(request.method, outcome, time.perf_counter() - began)
        self._write(answer)

    async def _stream(self, request: protocol.Request, handler: t.Callable[..., t.Any]) -> None:
        outcome = "ok"
        began = time.perf_counter()
        events = None
        try:
            events = handler(request.params, self.peer)
            async for event in events:
                self._write(protocol.event(request.id, event))
                if self._stuck:
                    self._writable = asyncio.get_running_loop().create_future()
                    await self._writable
            last = protocol.result(request.id, {})
        except asyncio.CancelledError:  # the client has gone, or the agent stops
            last = protocol.failure(request.id, self.server.stopping())
        except AgentError as error:
            outcome = error.code
            last = protocol.failure(request.id, error)
        except Exception:  # noqa: BLE001  whatever it is, the client is told and the agent lives
            _log.exception("method %s failed", request.method)
            outcome = protocol.INTERNAL
            last = protocol.failure(request.id, self.server.internal(request.method))
        finally:
            if events is not None:
                await events.aclose()
        self.server.observe(request.method, outcome, time.perf_counter() - began)
        self._write(last)

    # --- CNI

    def _serve_cni(self) -> None:
        limit = self.server.limits.line
        if not self._buffer:
            return
        greeting, newline, rest = bytes(self._buffer[: len(cni_framing.GREETING)]).partition(b"\n")
        if not newline and len(self._buffer) < len(cni_framing.GREETING) and not self._ended:
            return
        if greeting + newline != cni_framing.GREETING or rest:
            self._refuse_cni(
                CniRefusal(
                    cni_framing.INTERNAL,
                    f"the agent does not know this form of request: {greeting[:60]!r}",
                    "The plugin and the agent are of different releases. The role installs both: run site.yml.",
                )
            )
        elif self.peer.uid != self.server.root:
            self._refuse_cni(
                CniRefusal(
                    cni_framing.FORBIDDEN,
                    f"uid {self.peer.uid} may not attach workloads",
                    "Only root may. Run the container runtime as root.",
                )
            )
        elif self._refusal is not None:
            self._refuse_cni(CniRefusal(cni_framing.TRY_AGAIN, self._refusal.message))
        elif len(self._buffer) > limit:
            self._refuse_cni(
                CniRefusal(
                    cni_framing.NOT_DECODED,
                    f"the request is longer than {limit} bytes",
                    "Shorten the network configuration or what the runtime adds to it.",
                )
            )
        elif self._ended:
            data = bytes(self._buffer[len(cni_framing.GREETING) :])
            self._drop(len(self._buffer))
            self._disarm()
            self._begin(self._answer_cni(data))

    async def _answer_cni(self, data: bytes) -> None:
        stdin = b""
        try:
            environment, stdin = cni_framing.parse(data)
            status, output = await self.server.call_cni(environment, stdin)
            self._write(cni_framing.answer(status, output))
        except CniRefusal as error:
            self._write(cni_framing.refusal(error, stdin))

    def _refuse_cni(self, error: CniRefusal) -> None:
        self._write(cni_framing.refusal(error, bytes(self._buffer).partition(b"\n\n")[2]))
        self._turn_away()

    # --- bytes and time

    def _refuse(self, error: AgentError) -> None:
        if self._cni or (self._cni is None and self._buffer.startswith(cni_framing.PREFIX)):
            self._refuse_cni(CniRefusal(cni_framing.TRY_AGAIN, error.message))
        elif self.busy:  # the answer under way comes first
            self._deaf = True
            self._to_tell = error
        else:
            self._write(protocol.failure(None, error))
            self._turn_away()

    def _turn_away(self) -> None:
        """No more is taken from this client. Closing with bytes unread would lose it the answer: unix(7) resets."""
        self._deaf = True
        self._drop(len(self._buffer))
        if self.lost or self._transport.is_closing():
            return
        if self._ended:
            self._transport.close()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        self._disarm()
        self._timer = asyncio.get_running_loop().call_later(
            min(_LINGER, self.server.limits.idle), self._transport.abort
        )

    def _write(self, data: bytes) -> None:
        if not self.lost and not self._transport.is_closing():
            self._transport.write(data)

    def _drop(self, count: int) -> None:
        del self._buffer[:count]
        self._seen = 0
        self.server.drop_bytes(count)

    def _arm(self) -> None:
        self._disarm()
        seconds = self.server.limits.idle if self._refusal is None else min(_LINGER, self.server.limits.idle)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._idle)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _idle(self) -> None:
        self._timer = None
        if not self.busy:
            self._transport.abort()
