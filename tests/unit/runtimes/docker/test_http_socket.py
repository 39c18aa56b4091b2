# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP server on the plugin's socket: kept connections, chunked bodies, and who abuses it."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import threading
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.docker import http_socket
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.docker.http_socket import PluginServer

POST = b"POST /a HTTP/1.1\r\nHost: plugin.moby.localhost\r\n"


class Server:
    """A server that answers with the path and the body that it got; `more` are arguments of PluginServer."""

    def __init__(self, folder: pathlib.Path, owner: int, **more: t.Any) -> None:
        self.path = str(folder / "calico.sock")
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self.path)
        listening.listen()
        self.asked: list[tuple[str, bytes]] = []
        self.served = 0
        self.server = PluginServer(listening, self._answer, owner, self._count, **more)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def _answer(self, path: str, body: bytes) -> tuple[int, dict[str, t.Any]]:
        self.asked.append((path, body))
        return 200, {"path": path, "size": len(body)}

    def _count(self) -> None:
        self.served += 1

    def connect(self) -> Client:
        return Client(self.path)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Client:
    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> tuple[int, t.Any]:
        """Return the status and the JSON of the next answer; (0, None) if the connection ends instead."""
        line = self.file.readline()
        if not line:
            return 0, None
        length = 0
        while (header := self.file.readline().strip()) != b"":
            name, _, value = header.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return int(line.split()[1]), json.loads(self.file.read(length))

    def ask(self, data: bytes) -> tuple[int, t.Any]:
        self.send(data)
        return self.answer()


@pytest.fixture
def server(tmp_path: pathlib.Path) -> t.Iterator[Server]:
    made = Server(tmp_path, os.geteuid())
    yield made
    made.close()


def test_a_connection_is_kept(server: Server) -> None:
    client = server.connect()
    assert client.ask(POST + b"Content-Length: 2\r\n\r\n{}") == (200, {"path": "/a", "size": 2})
    assert client.ask(POST + b"\r\n") == (200, {"path": "/a", "size": 0})
    assert server.asked == [("/a", b"{}"), ("/a", b"")]
    assert server.server.finish(60) and server.served == 2


def test_chunks_are_one_body(server: Server) -> None:
    client = server.connect()
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    body = chunked + b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
    assert client.ask(body) == (200, {"path": "/a", "size": 13})
    assert client.ask(chunked + b"0\r\n\r\n") == (200, {"path": "/a", "size": 0})
    assert server.asked[0] == ("/a", b"abc0123456789")


def test_requests_that_are_sent_ahead_are_answered_in_their_order(server: Server) -> None:
    client = server.connect()
    client.send(b"".join(b"POST /%d HTTP/1.1\r\nContent-Length: 1\r\n\r\nx" % number for number in range(50)))
    assert [client.answer()[1]["path"] for _ in range(50)] == [f"/{number}" for number in range(50)]


def test_a_slow_request_byte_by_byte(server: Server) -> None:
    client = server.connect()
    for byte in POST + b"Content-Length: 2\r\n\r\n{}":
        client.send(bytes([byte]))
    assert client.answer()[0] == 200


@pytest.mark.parametrize(
    ("rest", "status", "words"),
    [
        (b"Content-Length: x\r\n\r\n", 400, "The request's Content-Length is not a number."),
        (b"Content-Length: -1\r\n\r\n", 400, "The request's Content-Length is not a number."),
        (b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "The request's Content-Length is not a number."),
        (b"Content-Length: 2000000\r\n\r\n", 413, "The body of a request has at most 1048576 bytes."),
        (b"Transfer-Encoding: gzip\r\n\r\n", 400, "The request's Transfer-Encoding is not understood."),
        (
            b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
            400,
            "The request's Transfer-Encoding is not understood.",
        ),
        (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "A chunk of the request has no proper beginning."),
        (b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400, "A chunk of the request has no proper beginning."),
        (
            b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 300 + b"\r\n",
            400,
            "A chunk of the request has no proper beginning.",
        ),
        (b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400, "A chunk of the request has no proper end."),
        (
            b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n",
            413,
            "The body of a request has at most 1048576 bytes.",
        ),
        (
            b"Transfer-Encoding: chunked\r\n\r\n80000\r\n" + b"x" * 0x80000 + b"\r\n80001\r\n",
            413,
            "The body of a request has at most 1048576 bytes.",
        ),
        (
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 40 + b"\r\n",
            400,
            "The request has too many lines after its last chunk.",
        ),
    ],
)
def test_bodies_without_bounds_are_refused(server: Server, rest: bytes, status: int, words: str) -> None:
    client = server.connect()
    assert client.ask(POST + rest) == (status, {"Err": words})
    assert client.answer() == (0, None)
    assert server.asked == []


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /a HTTP/1.1\r\n\r\n", 501),
        (b"POST /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (POST + b"a: b\r\n" * 200 + b"\r\n", 431),
    ],
)
def test_a_request_that_is_not_dockers_is_refused(server: Server, data: bytes, status: int) -> None:
    client = server.connect()
    words = f"The request is refused (HTTP status {status}): it is not one of Docker's."
    assert client.ask(data) == (status, {"Err": words})
    assert client.answer() == (0, None)


@pytest.mark.parametrize("data", [b"POST /a HTTP/9.1\r\n\r\n", b"\0\0\0\r\n", b"\r\n\r\n", b"GET /\r\n"])
def test_a_request_that_is_not_http_is_closed_without_an_answer(server: Server, data: bytes) -> None:
    client = server.connect()
    client.send(data)
    client.socket.shutdown(socket.SHUT_WR)
    assert client.answer() == (0, None) and server.asked == []


def test_a_request_that_ends_early(server: Server) -> None:
    client = server.connect()
    client.send(POST + b"Content-Length: 9\r\n\r\nabc")
    client.socket.shutdown(socket.SHUT_WR)
    assert client.answer() == (400, {"Err": "The request ended before its body was complete."})


def test_a_slow_request_or_idle_connection_is_closed(tmp_path: pathlib.Path) -> None:
    """A request that trickles has one deadline for all of it, and an idle connection another one."""
    server = Server(tmp_path, os.geteuid(), request_seconds=0.5, idle_seconds=0.5)
    began = time.monotonic()
    client, idle = server.connect(), server.connect()
    with pytest.raises(OSError):
        for _ in range(200):
            client.send(b"x")
            time.sleep(0.02)
    assert time.monotonic() - began > 0.3
    assert idle.answer() == (0, None)
    server.close()


def test_a_connection_too_many_waits_for_another_one_to_end(tmp_path: pathlib.Path) -> None:
    server = Server(tmp_path, os.geteuid(), connections=2)
    clients = [server.connect() for _ in range(2)]
    for client in clients:
        assert client.ask(POST + b"\r\n")[0] == 200
    waiting = server.connect()
    waiting.send(POST + b"\r\n")
    time.sleep(0.5)
    assert len(server.asked) == 2
    clients[0].socket.shutdown(socket.SHUT_RDWR)
    assert waiting.answer()[0] == 200
    # The server can be stopped while one waits.
    server.connect()
    server.close()


def test_a_connection_without_a_request_is_closed_soon(tmp_path: pathlib.Path) -> None:
    server = Server(tmp_path, os.geteuid(), connections=1, request_seconds=0.3)
    silent = server.connect()
    served = server.connect()
    assert served.ask(POST + b"\r\n")[0] == 200 and silent.answer() == (0, None)
    time.sleep(0.5)
    assert served.ask(POST + b"\r\n")[0] == 200
    server.close()


def test_only_some_large_bodies_are_read_at_once(tmp_path: pathlib.Path) -> None:
    """A large body waits for a slot while small ones pass; the deadline and the end of a connection free its slot."""
    server = Server(tmp_path, os.geteuid(), request_seconds=0.5)
    large = POST + b"Content-Length: 100000\r\n\r\n"

    def slow() -> list[Client]:
        clients = [server.connect() for _ in range(http_socket.LARGE_BODIES)]
        for client in clients:
            client.send(large)
        return clients

    assert [client.answer()[0] for client in slow()] == [0] * http_socket.LARGE_BODIES
    server.server.request_seconds = 60
    taken = slow()
    deadline = time.monotonic() + 60
    while server.server.large.acquire(blocking=False):
        server.server.large.release()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    late, small = server.connect(), server.connect()
    late.send(large + b"x" * 100_000)
    assert small.ask(POST + b"Content-Length: 2\r\n\r\n{}")[0] == 200
    assert [len(body) for _, body in server.asked] == [2]
    for client in taken:
        client.socket.shutdown(socket.SHUT_RDWR)
    assert late.answer() == (200, {"path": "/a", "size": 100_000})
    # Each slot is free again.
    for client in (late, *(server.connect() for _ in range(http_socket.LARGE_BODIES))):
        assert client.ask(large + b"x" * 100_000)[0] == 200
    server.close()


def test_too_many_large_bodies(tmp_path: pathlib.Path) -> None:
    server = Server(tmp_path, os.geteuid(), request_seconds=0.3)
    server.server.large = threading.BoundedSemaphore(1)
    server.server.large.acquire()
    assert server.connect().ask(POST + b"Content-Length: 100000\r\n\r\n") == (
        503,
        {"Err": "Too many large requests are under way. Try again."},
    )
    server.close()


def test_a_body_in_the_smallest_chunks(server: Server) -> None:
    """The work grows with the bytes, not with their square: eight times as many take less than 20 times the processor.

    The square would be 64 times.
    """
    server.server.request_seconds = 120
    client = server.connect()
    client.socket.settimeout(120)

    def work(chunks: int) -> float:
        body = POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * chunks + b"0\r\n\r\n"
        before = time.process_time()
        assert client.ask(body) == (200, {"path": "/a", "size": chunks})
        return time.process_time() - before

    assert work(400_000) < 20 * work(50_000)


def test_a_connection_of_another_user_is_refused(tmp_path: pathlib.Path) -> None:
    server = Server(tmp_path, os.geteuid() + 1)
    assert server.connect().answer() == (0, None)
    assert server.asked == []
    server.close()


def test_a_request_under_way_is_waited_for(tmp_path: pathlib.Path) -> None:
    server = Server(tmp_path, os.geteuid())
    release = threading.Event()

    def answer(path: str, body: bytes) -> tuple[int, dict[str, t.Any]]:
        release.wait(60)
        return 200, {}

    server.server.answer = answer
    client = server.connect()
    client.send(POST + b"\r\n")
    deadline = time.monotonic() + 60
    while not server.server._busy:
        assert time.monotonic() < deadline
    assert not server.server.finish(0.05)
    release.set()
    assert server.server.finish(60) and client.answer() == (200, {})
    server.close()


def test_idle_connections_are_closed_at_the_end(server: Server) -> None:
    """What was sent before the end is answered; nothing is taken afterwards."""
    idle, sent = server.connect(), server.connect()
    for client in (idle, sent):
        assert client.ask(POST + b"\r\n")[0] == 200
    sent.send(POST + b"\r\n")
    assert server.server.finish(60)
    assert idle.answer() == (0, None)
    assert sent.answer()[0] == 200 and sent.answer() == (0, None)
    late = server.connect()
    assert late.answer() == (0, None)


def test_the_server_has_its_limits_of_size_connections_and_time() -> None:
    assert (http_socket.BODY_LIMIT, http_socket.CONNECTIONS, http_socket.REQUEST_SECONDS) == (1 << 20, 256, 30.0)
