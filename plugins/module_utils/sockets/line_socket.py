# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client's end of a Unix stream socket that carries lines, for the clients of the agent and of BIRD.

It blocks, and is cheap to import. The two clients know what the lines mean, and word the errors for people.
"""

from __future__ import annotations

import socket
import time
import typing as t


class LineTooLong(Exception):
    """A line with more bytes than the limit allows."""


class Hangup(Exception):
    """The other side closed the connection before the end of a line."""


class LineSocket:
    """One connection to the socket at a path; `connect` makes it.

    `limit` is the most bytes of a line, without its newline. Points in time (`end`) are seconds of time.monotonic(). A
    method that gets one raises socket.timeout after it, and another OSError as the kernel does. Methods that need a
    connection raise AssertionError without one.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._socket: t.Optional[socket.socket] = None
        self._buffer = bytearray()

    @property
    def connected(self) -> bool:
        """Whether there is a connection on this side; the other side may have closed it."""
        return self._socket is not None

    def connect(self, path: str, end: float) -> None:
        """Connect to the socket at `path`, in place of the present connection. If that fails, there is none."""
        self.close()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_left(end))
        try:
            connection.connect(path)
        except OSError:
            connection.close()
            raise
        self._socket = connection

    def close(self) -> None:
        """End the connection, if there is one, and drop what was read of it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._buffer.clear()

    def closed_by_peer(self) -> bool:
        """Return whether the connection has ended or failed with nothing left to read from the kernel. Do not wait."""
        connection = self._open()
        connection.setblocking(False)
        try:
            return not connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def send(self, data: bytes, end: float) -> None:
        """Send all of `data`. If that fails, a part may be sent."""
        connection = self._open()
        connection.settimeout(_left(end))
        connection.sendall(data)

    def line(self, end: t.Optional[float]) -> bytes:
        """Return the next line without its newline, waiting until `end`, or without limit if `end` is None.

        The beginning of a line that is not complete at `end` stays for the next call. Raise Hangup or LineTooLong, too.
        """
        connection = self._open()
        seen = 0
        while True:
            found = self._buffer.find(b"\n", seen)
            if found > self._limit:
                raise LineTooLong
            if found >= 0:
                line = bytes(self._buffer[:found])
                del self._buffer[: found + 1]
                return line
            seen = len(self._buffer)
            if seen > self._limit:
                raise LineTooLong
            connection.settimeout(None if end is None else _left(end))
            data = connection.recv(1 << 18)
            if not data:
                raise Hangup
            self._buffer += data

    def _open(self) -> socket.socket:
        if self._socket is None:
            raise AssertionError("connect() comes first")
        return self._socket


def _left(end: float) -> float:
    # A timeout of 0 would make the socket non-blocking.
    return max(0.001, end - time.monotonic())
