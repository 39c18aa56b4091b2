# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A blocking client of the agent's socket.

It needs the standard library alone and is cheap to import:

    with AgentClient() as agent:
        agent.call("workload.get", id="default/web")
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
import types
import typing as t

from ..base import typed_json
from ..sockets.line_socket import Hangup, LineSocket, LineTooLong
from . import protocol
from .protocol import AgentError

#: Bytes of the longest answer that the client accepts. Requests have the limits protocol.LINE_LIMIT (root) and
#: READER_LINE_LIMIT.
ANSWER_LIMIT = 256 << 20
_OBJECT = typed_json.by_name(typed_json.anything)
# Agents of later releases may add fields.
_ERROR = typed_json.open_table({"code": typed_json.text(), "message": typed_json.text(ANSWER_LIMIT), "data": _OBJECT})
_ANSWER = typed_json.open_table(
    {"id": typed_json.anything}, {"error": typed_json.maybe(_ERROR), "event": _OBJECT, "result": _OBJECT}
)


class NotRunning(AgentError):
    """The error that no agent answers at the socket `path`, or that its answer cannot be used, for the given reason."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(
            protocol.UNAVAILABLE,
            f"the agent of this node does not answer. Its socket is {path}: {reason}. "
            "Start it with `systemctl start calico-agent`; `journalctl -u calico-agent` says why it stopped.",
        )


class AgentClient:
    """A connection to the agent, opened by the first call, and a context manager that closes it.

    `timeout` is in seconds and limits each request: opening a connection if there is none, sending, and the whole
    answer of `call`. An error that the agent answers to `call` leaves the connection open, and so do `params` that JSON
    cannot express. After any other error the next call opens a new one.
    """

    def __init__(self, path: str = protocol.SOCKET, timeout: float = protocol.DEADLINE) -> None:
        self.path = path
        self.timeout = timeout
        self._lines = LineSocket(ANSWER_LIMIT)
        self._last = 0

    def __enter__(self) -> AgentClient:
        return self

    def __exit__(
        self,
        kind: t.Optional[type[BaseException]],
        value: t.Optional[BaseException],
        traceback: t.Optional[types.TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._lines.close()

    def call(self, method: str, /, **params: t.Any) -> dict[str, t.Any]:
        """Call a method with `params`, block until its answer is complete, and return its result, a JSON object.

        Raise AgentError if the agent refuses (with its code), accepts no connection or does not answer in time
        (timeout), or its socket may not be opened (forbidden). Raise NotRunning, an AgentError too, if no agent answers
        or its answer is not the protocol's. Raise TypeError, ValueError or RecursionError if JSON cannot express
        `params`.
        """
        end = time.monotonic() + self.timeout
        self._send(method, params, end)
        kind, value = self._answer(end)
        if kind != "result":
            raise self._broken(f"it answers {method} with a stream")
        return value

    def stream(self, method: str, /, **params: t.Any) -> t.Iterator[dict[str, t.Any]]:
        """Call a streaming method and yield its events, each a JSON object, until the agent ends the stream.

        It has a new connection, from the first iteration to the end of the iterator; an older one is closed. The wait
        for an event has no time limit. Raise what `call` raises.
        """
        self.close()
        self._send(method, params, time.monotonic() + self.timeout)
        try:
            while True:
                kind, value = self._answer(None)
                if kind == "result":
                    return
                yield value
        finally:
            self.close()

    def _send(self, method: str, params: t.Mapping[str, t.Any], end: float) -> None:
        self._last += 1
        line = protocol.request(self._last, method, params)
        # A connection that the agent closed while it was idle is noticed only when it is used.
        if self._lines.connected and self._lines.closed_by_peer():
            self.close()
        if not self._lines.connected:
            self._connect(end)
        try:
            self._lines.send(line, end)
        except socket.timeout:
            raise self._late() from None
        except (BrokenPipeError, ConnectionResetError):
            pass  # The agent may have refused the request before it had read all of it; its refusal is read next.
        except OSError as error:
            raise self._broken(error.strerror or str(error)) from error

    def _connect(self, end: float) -> None:
        if os.geteuid() == 0:
            # No other user can connect to root's own socket and fill its queue. Agents of earlier releases lack it.
            with contextlib.suppress(OSError):
                self._lines.connect(protocol.root_socket(self.path), end)
                return
        try:
            self._lines.connect(self.path, end)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise AgentError(
                    protocol.FORBIDDEN,
                    f"{self.path} may not be opened: {error.strerror}. Become root, or a member of its group, "
                    f"`{protocol.GROUP}` by default, which may read.",
                ) from error
            if isinstance(error, (socket.timeout, BlockingIOError)):  # an agent listens, and its queue is full
                raise AgentError(
                    protocol.TIMEOUT,
                    f"the agent does not accept a connection: {error.strerror or error}. Its socket is {self.path}. "
                    "Nothing was asked for; ask again in a moment. `journalctl -u calico-agent` says what keeps it.",
                ) from error
            reason = "nobody listens" if error.errno == errno.ECONNREFUSED else error.strerror or str(error)
            raise NotRunning(self.path, reason) from error

    def _answer(self, end: t.Optional[float]) -> tuple[str, dict[str, t.Any]]:
        """Return ("result" or "event", its JSON object) of the next answer. Wait until `end`, None for no limit."""
        line = self._line(end)
        try:
            answer = _ANSWER(typed_json.parse(line, once=False))
            id, error = answer["id"], answer.get("error")
            kind = "event" if "event" in answer else "result"
            value: dict[str, t.Any] = {} if error is not None else answer[kind]
        except (ValueError, KeyError):
            raise self._broken(f"it answers with {line[:60]!r}, which is not its protocol") from None
        # The refusal of a request whose id the agent could not read has none.
        if id != self._last and not (error is not None and id is None):
            raise self._broken(f"it answers request {id!r} instead of {self._last}")
        if error is not None:
            raise AgentError(**error)
        return kind, value

    def _line(self, end: t.Optional[float]) -> bytes:
        try:
            return self._lines.line(end)
        except socket.timeout:
            raise self._late() from None
        except LineTooLong:
            raise self._broken(f"its answer is larger than {ANSWER_LIMIT >> 20} MiB") from None
        except Hangup:
            raise self._broken("it closed the connection before it had answered") from None
        except OSError as error:
            raise self._broken(error.strerror or str(error)) from error

    def _broken(self, reason: str) -> NotRunning:
        self.close()
        return NotRunning(self.path, reason)

    def _late(self) -> AgentError:
        self.close()  # A late answer would come in place of the answer to the next request.
        return AgentError(
            protocol.TIMEOUT,
            f"the agent has not answered within {self.timeout:g} s. Its socket is {self.path}. What was asked for may "
            "still happen; ask again, which does no harm. `journalctl -u calico-agent` says what keeps it.",
        )
