# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container engine whose API answers at a Unix socket as Docker's does, and an agent that keeps reports."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import pathlib
import queue
import socketserver
import threading
import typing as t
import urllib.parse

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Method
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.server import Server
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

Container = dict[str, t.Any]


class FakeEngine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """The engine. `answers` are answers in place of the real ones by path: a status and the body."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(str(path), _Handler)
        self.path = str(path)
        self.containers: dict[str, Container] = {}
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []
        self._streams: list[queue.Queue[bytes | None]] = []
        self._changed = threading.Condition()
        threading.Thread(target=self.serve_forever, daemon=True, kwargs={"poll_interval": 0.01}).start()

    def add(
        self, id: str, name: str, endpoints: t.Sequence[str] = (), labels: t.Mapping[str, str] | None = None
    ) -> None:
        networks = {f"net{index}": {"EndpointID": endpoint} for index, endpoint in enumerate(endpoints)}
        self.containers[id] = {
            "Id": id,
            "Name": f"/{name}",
            "Config": {"Labels": labels},
            "NetworkSettings": {"Networks": networks},
        }

    def connected(self, id: str) -> None:
        self.tell({"Type": "network", "Action": "connect", "Actor": {"ID": "0" * 64, "Attributes": {"container": id}}})

    def renamed(self, id: str) -> None:
        self.tell({"Type": "container", "Action": "rename", "Actor": {"ID": id, "Attributes": {"name": "x"}}})

    def tell(self, event: Container | bytes) -> None:
        line = event if isinstance(event, bytes) else json.dumps(event).encode()
        with self._changed:
            assert self._changed.wait_for(lambda: self._streams, 10)
            for stream in self._streams:
                stream.put(line + b"\n")

    def end_streams(self) -> None:
        """Close all streams of events, as an engine that ends."""
        with self._changed:
            for stream in self._streams:
                stream.put(None)
            self._streams.clear()

    def end(self) -> None:
        self.end_streams()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Ignore a connection that a client ended early."""

    def listen(self) -> queue.Queue[bytes | None]:
        with self._changed:
            self._streams.append(queue.Queue())
            self._changed.notify_all()
            return self._streams[-1]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeEngine

    def do_GET(self) -> None:
        path = urllib.parse.unquote(self.path)
        self.server.asked.append(path)
        if path.startswith("/events"):
            self._stream()
            return
        id = path.split("/")[2]
        answer: object = [{"Id": one} for one in self.server.containers]
        status = 200
        if id != "json":
            answer = self.server.containers.get(id)
            status = 200 if answer is not None else 404
        status, body = self.server.answers.get(path, (status, json.dumps(answer).encode()))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        stream = self.server.listen()
        while (line := stream.get()) is not None:
            # Pieces are no lines: a line may come in several.
            for piece in (line[: len(line) // 2], line[len(line) // 2 :]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def log_message(self, format: str, *args: t.Any) -> None:
        pass


class FakeAgent:
    """An agent. `told` are the names and labels that it was told by the id of the container."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.path = str(folder / "agent.sock")
        self.told: list[dict[str, t.Any]] = []
        self.known: dict[str, t.Any] = {"event": "known", "prefixes": ["x.org/"], "docker": True, "containers": []}
        self.refusals: list[AgentError] = []
        self.streams = 0
        self._loop = asyncio.new_event_loop()
        self._queues: list[asyncio.Queue[dict[str, t.Any] | None]] = []
        methods = {"containers.watch": Method(self._watch, stream=True), "containers.describe": Method(self._describe)}
        self._server = Server(self.path, methods, root=os.getuid(), group="")
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result(10)

    async def _watch(self, params: dict[str, t.Any], peer: object) -> t.AsyncIterator[dict[str, t.Any]]:
        self._queues.append(asyncio.Queue())
        self.streams += 1
        mine = self._queues[-1]
        yield self.known
        while (event := await mine.get()) is not None:
            yield event

    async def _describe(self, params: dict[str, t.Any], peer: object) -> dict[str, t.Any]:
        if self.refusals:
            raise self.refusals.pop()
        self.told.append(params)
        return {"described": []}

    def tell(self, event: dict[str, t.Any] | None) -> None:
        """Send an event to all streams; None ends them."""

        def tell() -> None:
            for one in self._queues:
                one.put_nowait(event)
            if event is None:
                self._queues.clear()

        self._loop.call_soon_threadsafe(tell)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(0), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
