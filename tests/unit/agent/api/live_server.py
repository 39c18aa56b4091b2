# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent's socket with methods that a test supplies, served by a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import pathlib
import socket
import threading
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.bounds import ApiLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Method
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.server import Server
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency.fair_share import give_way
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import AgentClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.peer import Peer
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

ME = os.getuid()


class LiveServer:
    """A running server; the constructor returns once it listens at agent.sock in `folder`.

    `root` is the uid that may do everything, by default the tests' own. `limits` are ApiLimits() by default. `more` are
    further arguments of Server. The constructor raises what Server.start raises, such as SocketInUse, and TimeoutError
    after 10 seconds.
    """

    def __init__(
        self, folder: pathlib.Path, root: int = ME, limits: t.Optional[ApiLimits] = None, **more: t.Any
    ) -> None:
        self.path = str(folder / "agent.sock")
        self.loop = asyncio.new_event_loop()
        self.observed: list[tuple[str, str]] = []
        self.cancelled: list[str] = []
        self.shim: t.Callable[..., t.Any] = echo_shim
        self.release = asyncio.Event()
        self.reached = threading.Event()
        self.server = Server(
            self.path,
            {
                "echo": Method(self._echo),
                "change": Method(self._echo, changes=True),
                "refuse": Method(self._refuse),
                "fail": Method(self._fail),
                "odd": Method(self._odd),
                "wait": Method(self._wait),
                "work": Method(self._work),
                "count": Method(self._count, stream=True),
                "watch": Method(self._watch, stream=True),
                "flood": Method(self._flood, stream=True),
                "break": Method(self._break, stream=True),
            },
            shims={"CNI": self._shim, "NETAVARK": self._shim},
            root=root,
            limits=limits or ApiLimits(),
            observed=lambda method, outcome, seconds: self.observed.append((method, outcome)),
            **more,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.do(self.server.start())

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def do(self, coroutine: t.Coroutine[t.Any, t.Any, t.Any]) -> t.Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def client(self, timeout: float = 10.0) -> AgentClient:
        return AgentClient(self.path, timeout)

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(10)
        connection.connect(self.path)
        return connection

    def say(self, data: bytes, end: bool = True) -> bytes:
        """Send `data`, then return everything that the server sends until it closes the connection.

        With `end` True, shut down sending after `data`. A server that closes early is no error, and no other OSError
        while sending is one. Raise TimeoutError if the server then sends nothing for 10 seconds and does not close, and
        OSError if it cannot be connected to.
        """
        with self.connect() as connection:
            try:
                connection.sendall(data)
                if end:
                    connection.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, OSError):
                pass  # the server closed before it read all of `data`; its answer is read all the same
            return everything(connection)

    def close(self) -> None:
        if not self.loop.is_closed():
            self.do(self.server.stop(0))
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(60)
            self.loop.close()

    async def _shim(self, environment: dict[str, str], stdin: bytes) -> tuple[int, bytes]:
        return t.cast("tuple[int, bytes]", await self.shim(environment, stdin))

    async def _echo(self, params: dict[str, t.Any], peer: Peer) -> dict[str, t.Any]:
        return {"params": params, "uid": peer.uid}

    async def _refuse(self, params: dict[str, t.Any], peer: Peer) -> dict[str, t.Any]:
        raise AgentError("not_found", "no such workload", {"id": "x"})

    async def _fail(self, params: dict[str, t.Any], peer: Peer) -> dict[str, t.Any]:
        raise RuntimeError("secret detail")

    async def _odd(self, params: dict[str, t.Any], peer: Peer) -> dict[str, t.Any]:
        return {"value": float("nan") if params.get("nan") else object()}

    async def _work(self, params: dict[str, t.Any], peer: Peer) -> t.Any:
        """Use processor time for 10 milliseconds, then give way to others."""
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass
        await give_way()
        return {"uid": peer.uid}

    async def _wait(self, params: dict[str, t.Any], peer: Peer) -> dict[str, t.Any]:
        try:
            self.reached.set()
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.append("wait")
            raise
        return {"waited": True}

    async def _count(self, params: dict[str, t.Any], peer: Peer) -> t.AsyncIterator[dict[str, t.Any]]:
        for number in range(params["to"]):
            yield {"number": number}

    async def _watch(self, params: dict[str, t.Any], peer: Peer) -> t.AsyncIterator[dict[str, t.Any]]:
        try:
            yield {"first": True}
            await self.release.wait()
        finally:
            self.cancelled.append("watch")
            self.reached.set()

    async def _flood(self, params: dict[str, t.Any], peer: Peer) -> t.AsyncIterator[dict[str, t.Any]]:
        self.flooded = 0
        try:
            while True:
                yield {"text": "x" * 10_000}
                self.flooded += 1
        finally:
            self.cancelled.append("flood")

    async def _break(self, params: dict[str, t.Any], peer: Peer) -> t.AsyncIterator[dict[str, t.Any]]:
        yield {"number": 0}
        raise RuntimeError("secret detail")


async def echo_shim(environment: dict[str, str], stdin: bytes) -> tuple[int, bytes]:
    return (0, environment.get("CNI_COMMAND", environment.get("NETAVARK_COMMAND", "")).encode() + b" " + stdin)


def everything(connection: socket.socket) -> bytes:
    said = bytearray()
    while True:
        try:
            data = connection.recv(1 << 16)
        except ConnectionResetError:
            return bytes(said)
        if not data:
            return bytes(said)
        said += data


def eventually(condition: t.Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
