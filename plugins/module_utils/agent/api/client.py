# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of the agent's socket. Blocking, standard library alone, cheap to import.

with AgentClient() as agent:
    agent.call("workload.get", id="default/web")
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import time
import types
import typing as t

from ...sockets.line_socket import Hangup, LineSocket, LineTooLong
from . import protocol
from .protocol import AgentError

#: An answer larger than this is not one of the agent's. Of requests the agent takes protocol.LINE_LIMIT.
ANSWER_LIMIT = 256 << 20


class NotRunning(AgentError):
    """Nobody answers at the socket."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(
            protocol.UNAVAILABLE,
            f"the agent of this node does not answer. Its socket is {path}: {reason}. "
            "Start it with `systemctl start calico-agent`; `journalctl -u calico-agent` says why it stopped.",
        )


class AgentClient:
    """One connection, made by the first call. `timeout` is in seconds and holds for each answer as a whole.

    A context manager. After any error other than one that the agent answered, the next call connects anew.
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
        """End the connection, if there is one."""
        self._lines.close()

    def call(self, method: str, /, **params: t.Any) -> dict[str, t.Any]:
        """The result of a method. Raises AgentError as the agent answers it, NotRunning where nobody does."""
        end = time.monotonic() + self.timeout
        self._send(method, params, end)
        kind, value = self._answer(end)
        if kind != "result":
            raise self._broken(f"it answers {method} with a stream")
        return value

    def stream(self, method: str, /, **params: t.Any) -> t.Iterator[dict[str, t.Any]]:
        """The events of a method that streams, for as long as they come; between two there is no time limit.

        The connection is this stream's alone and closed when the iterator is. Raises as call() does.
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
            self._connect()
        try:
            self._lines.send(line, end)
        except socket.timeout:
            raise self._late() from None
        except (BrokenPipeError, ConnectionResetError):
            pass  # the agent refused before it had read all: its answer is there to be read
        except OSError as error:
            raise self._broken(error.strerror or str(error)) from error

    def _connect(self) -> None:
        if os.geteuid() == 0:
            # Only root can connect to this socket, so no other user can fill its queue. Earlier releases lack it.
            with contextlib.suppress(OSError):
                self._lines.connect(protocol.root_socket(self.path), self.timeout)
                return
        try:
            self._lines.connect(self.path, self.timeout)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise AgentError(
                    protocol.FORBIDDEN,
                    f"{self.path} may not be opened: {error.strerror}. Become root, or a member of its group, "
                    f"`{protocol.GROUP}` by default, which may read.",
                ) from error
            reason = "nobody listens" if error.errno == errno.ECONNREFUSED else error.strerror or str(error)
            raise NotRunning(self.path, reason) from error

    def _answer(self, end: t.Optional[float]) -> tuple[str, dict[str, t.Any]]:
        """("result" or "event", its value). Raises the error that is answered."""
        line = self._line(end)
        try:
            answer = json.loads(line)
            id = answer["id"]
            error = answer.get("error")
            if error is not None:
                refusal = AgentError(error["code"], error["message"], error["data"])
            else:
                kind = "event" if "event" in answer else "result"
                value: dict[str, t.Any] = answer[kind]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._broken(f"it answers with {line[:60]!r}, which is not its protocol") from None
        # Refusals of a request that could not be read, or was not, have no id.
        if id != self._last and not (error is not None and id is None):
            raise self._broken(f"it answers request {id!r} instead of {self._last}")
        if error is not None:
            raise refusal
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
        self.close()  # the answer may still come, and would be taken for that of the next request
        return AgentError(
            protocol.TIMEOUT,
            f"the agent has not answered within {self.timeout:g} s. Its socket is {self.path}. What was asked for may "
            "still happen; ask again, which does no harm. `journalctl -u calico-agent` says what keeps it.",
        )
