# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy for connections from the host itself to ::1, whose packets the kernel cannot lead to another address.

It takes connections from addresses of the loopback alone. All others are closed: they came while the rules that lead
them to the workload were missing, and behind the proxy policy would see the host in place of the client.

One local user cannot take all connections from the others: when all are in use, a user with fewer gets one of those of
the user who has the most.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import socket
import time
import typing as t

from . import socket_user

#: The most connections at a time, of all ports together.
CONNECTIONS = 64
_BUFFER = 16 << 10  # bytes that are read at once
_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 3600.0


@dataclasses.dataclass
class _Connection:
    """One connection of the `user` (uid, None if unknown), and the monotonic time in seconds when it last had data."""

    listening: socket.socket
    client: socket.socket
    user: t.Optional[int]
    used: float


class LoopbackProxy:
    """The proxy of all ports. It belongs to the event loop.

    `seconds` is how long a connection to a workload may take, `idle` how long a connection may be silent.
    """

    def __init__(
        self, connections: int = CONNECTIONS, seconds: float = _CONNECT_SECONDS, idle: float = _IDLE_SECONDS
    ) -> None:
        self._connections = connections
        self._seconds = seconds
        self._idle = idle
        self._tasks: dict[asyncio.Task[None], _Connection] = {}

    def accept(self, listening: socket.socket, target: tuple[str, int]) -> None:
        """Accept one connection at `listening` and lead it to the address and port `target`, or close it."""
        with contextlib.suppress(OSError):
            client, peer = listening.accept()
            client.setblocking(False)
            if not _is_loopback(peer[0]) or not self._has_room_for(user := socket_user.of_peer(client)):
                client.close()
                return
            connection = _Connection(listening, client, user, time.monotonic())
            task = asyncio.ensure_future(self._serve(connection, target))
            self._tasks[task] = connection
            task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def end(self, listening: socket.socket) -> None:
        """End the connections that came by `listening`."""
        for task, connection in list(self._tasks.items()):
            if connection.listening is listening:
                task.cancel()

    def _has_room_for(self, user: t.Optional[int]) -> bool:
        """Return whether `user` may connect; if need be, end the longest unused connection of a user with more."""
        if len(self._tasks) < self._connections:
            return True
        counts = collections.Counter(connection.user for connection in self._tasks.values())
        (most, number) = counts.most_common(1)[0]
        if number <= counts[user]:
            return False
        task = min(
            (task for task, connection in self._tasks.items() if connection.user == most),
            key=lambda task: self._tasks[task].used,
        )
        with contextlib.suppress(OSError):
            self._tasks.pop(task).client.shutdown(socket.SHUT_RDWR)
        task.cancel()
        return True

    async def _serve(self, connection: _Connection, target: tuple[str, int]) -> None:
        loop, client = asyncio.get_running_loop(), connection.client
        server = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET, socket.SOCK_STREAM)
        server.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(server, target), self._seconds)
            both = ((client, server), (server, client))
            pipes = [asyncio.ensure_future(self._pipe(connection, *ends)) for ends in both]
            try:
                await asyncio.gather(*pipes)
            finally:
                for pipe in pipes:
                    pipe.cancel()
                await asyncio.gather(*pipes, return_exceptions=True)
        except (OSError, asyncio.TimeoutError):
            pass
        finally:
            client.close()
            server.close()

    async def _pipe(self, connection: _Connection, source: socket.socket, sink: socket.socket) -> None:
        """Copy from one end to the other until the source ends; then end that direction alone."""
        loop = asyncio.get_running_loop()
        while True:
            data = await asyncio.wait_for(loop.sock_recv(source, _BUFFER), self._idle)
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            await asyncio.wait_for(loop.sock_sendall(sink, data), self._idle)
            connection.used = time.monotonic()


def _is_loopback(address: str) -> bool:
    return address == "::1" or address.startswith(("127.", "::ffff:127."))
