# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The acceptance of connections: each one has a place before anything is read from it, or is closed."""

from __future__ import annotations

import asyncio
import socket
import typing as t

from .places import ConnectionPlace, ConnectionPlaces
from .stream import PART, AgentStream

_BACKLOG = 1024
#: Connections that are accepted before others are served again.
_AT_ONCE = 16
#: Seconds without acceptance after an error, such as that of a process that may open no more files.
_PAUSE = 0.1
#: Bytes that the kernel keeps of a connection. They count as memory of the gate, and it would take megabytes otherwise.
_RECEIVED, _SENT = 32 << 10, 64 << 10

#: Milliseconds without an acknowledgement, such as of a host that lost its power: until its places are free again.
_UNACKNOWLEDGED = 30_000

Serve = t.Callable[[AgentStream, ConnectionPlace], t.Awaitable[None]]


class AgentListener:
    """A socket whose connections are served by `serve`, each in a task, until `close`. Raises OSError when it is made.

    `regularly` is called each `interval` seconds.
    """

    def __init__(
        self,
        host: str,
        port: int,
        places: ConnectionPlaces,
        serve: Serve,
        regularly: t.Callable[[], None],
        interval: float,
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        listening.setblocking(False)
        for name, size in ((socket.SO_RCVBUF, _RECEIVED), (socket.SO_SNDBUF, _SENT)):
            listening.setsockopt(socket.SOL_SOCKET, name, size)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED)
        self.sockets = (listening,)
        self._places = places
        self._serve = serve
        self._regularly = regularly
        self._interval = interval
        loop = asyncio.get_running_loop()
        self._tasks = {loop.create_task(self._accept(listening)), loop.create_task(self._repeat())}

    def close(self) -> None:
        """Accept and serve no more."""
        for task in self._tasks:
            task.cancel()
        for one in self.sockets:
            one.close()

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            self._regularly()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                for dummy in range(_AT_ONCE):
                    connection, peer = await loop.sock_accept(listening)
                    place = self._places.take(peer[0], loop.time())
                    if place is None:
                        connection.close()
                        continue
                    task = loop.create_task(self._connected(connection, place))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                await asyncio.sleep(0)  # Others are served, too, while one connection comes after another.
            except OSError:
                await asyncio.sleep(_PAUSE)

    async def _connected(self, connection: socket.socket, place: ConnectionPlace) -> None:
        try:
            try:
                stream = AgentStream(*await asyncio.open_connection(sock=connection, limit=PART))
            except BaseException:
                connection.close()
                raise
            place.end = stream.abort
            try:
                if not place.released:  # Another connection has it.
                    await self._serve(stream, place)
            finally:
                stream.abort()
        except OSError:
            pass  # The agent has gone.
        finally:
            place.release()
