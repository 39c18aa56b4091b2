# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the HTTP server: three pages, and a refusal for everything else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics import metrics
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.http import MetricsServer
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.metrics import Registry
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.agent.api.live_server import everything

Ask = t.Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def state() -> dict[str, t.Any]:
    return {"liveness": None, "readiness": "not in sync yet: routes"}


@contextlib.contextmanager
def served(state: dict[str, t.Any], seconds: float) -> t.Iterator[Ask]:
    """Start a server, and yield a function of the bytes to send and `end` that returns the server's whole answer.

    `state["liveness"]` and `state["readiness"]` are what is wrong, None if all is well; `state["broken"]`, if there, is
    called before metrics are written. With `end` True, the default, the client shuts down sending after the bytes. The
    server cuts a client off that needs more than `seconds` for its request or for reading the answer. It is stopped
    after the `with`. The function raises TimeoutError after 10 seconds without a byte of the answer.
    """
    registry = Registry()
    registry.counter("calico_x", "x").add()
    registry.refresh_with(lambda: state["broken"]() if "broken" in state else None)
    loop = asyncio.new_event_loop()
    server = MetricsServer(registry, lambda: state["liveness"], lambda: state["readiness"], port=0, seconds=seconds)
    loop.run_until_complete(server.start())

    def say(data: bytes, end: bool) -> bytes:
        with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
            connection.sendall(data)
            if end:
                connection.shutdown(socket.SHUT_WR)
            return everything(connection)

    try:
        yield lambda data, end=True: loop.run_until_complete(loop.run_in_executor(None, say, data, end))
    finally:
        loop.run_until_complete(server.stop())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@pytest.fixture(scope="module")
def ask(state: dict[str, t.Any]) -> t.Iterator[Ask]:
    with served(state, seconds=60) as ask:
        yield ask


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n".encode()


def parts(said: bytes) -> tuple[str, dict[str, str], str]:
    head, dummy, body = said.decode().partition("\r\n\r\n")
    status, *fields = head.split("\r\n")
    return status, dict(field.split(": ", 1) for field in fields), body


def test_metrics_are_served_with_their_content_type_and_length(ask: Ask) -> None:
    status, fields, body = parts(ask(get("/metrics")))
    assert status == "HTTP/1.1 200 OK"
    assert body == "# HELP calico_x_total x\n# TYPE calico_x_total counter\ncalico_x_total 1\n"
    assert fields == {
        "Content-Type": metrics.CONTENT_TYPE,
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    assert parts(ask(get("/metrics?format=x")))[2] == body


def test_a_head_has_no_body(ask: Ask) -> None:
    whole = parts(ask(get("/metrics")))
    assert parts(ask(get("/metrics", "HEAD"))) == (whole[0], whole[1], "")


def test_liveness_is_ok_and_readiness_names_what_is_not_in_sync(ask: Ask, state: dict[str, t.Any]) -> None:
    assert parts(ask(get("/liveness")))[::2] == ("HTTP/1.1 200 OK", "ok\n")
    assert parts(ask(get("/readiness")))[::2] == (
        "HTTP/1.1 503 Service Unavailable",
        "not in sync yet: routes\n",
    )


@pytest.mark.parametrize(
    ("said", "status", "body"),
    [
        (get("/"), "404 Not Found", "there are /metrics, /liveness and /readiness"),
        (get("/metrics/"), "404 Not Found", "there are /metrics, /liveness and /readiness"),
        (get("/metrics", "POST"), "405 Method Not Allowed", "GET and HEAD are"),
        (get("/metrics", "POST") + b"x" * 20_000_000, "405 Method Not Allowed", "GET and HEAD are"),
        (get("/liveness", "DELETE"), "405 Method Not Allowed", "GET and HEAD are"),
        (b"hello\r\n\r\n", "400 Bad Request", "this is not a request of HTTP/1.1"),
        (b"GET /metrics\r\n\r\n", "400 Bad Request", "this is not a request of HTTP/1.1"),
        (b"GET /metrics HTTP/2\r\n\r\n", "400 Bad Request", "this is not a request of HTTP/1.1"),
        (b"GET metrics HTTP/1.1\r\n\r\n", "400 Bad Request", "this is not a request of HTTP/1.1"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", "400 Bad Request", "it needs one Host"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 Bad Request", "it needs one Host"),
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n", "400 Bad Request", "the request ends early"),
        (b"\x16\x03\x01\x02\x00", "400 Bad Request", "the request ends early"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 8192, "431 Request Header Fields Too Large",
         "the header is longer than 8192 bytes"),
    ],
)  # fmt: skip
def test_other_paths_methods_and_malformed_requests_are_refused(ask: Ask, said: bytes, status: str, body: str) -> None:
    answered, fields, told = parts(ask(said))
    assert answered == f"HTTP/1.1 {status}"
    assert told == f"{status[4:]}: {body}.\n"
    assert fields.get("Allow") == ("GET, HEAD" if status.startswith("405") else None)


def test_an_old_client_needs_no_host(ask: Ask) -> None:
    assert parts(ask(b"GET /liveness HTTP/1.0\r\n\r\n"))[0] == "HTTP/1.1 200 OK"


def test_a_silent_or_incomplete_request_is_closed_without_an_answer(ask: Ask) -> None:
    assert ask(b"") == b""
    with served({}, seconds=0.05) as hasty:
        assert hasty(b"", end=False) == b""
        assert hasty(b"GET /metrics HT", end=False) == b""


def test_a_page_that_fails_answers_500_and_other_pages_still_work(ask: Ask, state: dict[str, t.Any]) -> None:
    def broken() -> None:
        raise RuntimeError("secret detail")

    state["broken"] = broken
    try:
        assert parts(ask(get("/metrics")))[::2] == (
            "HTTP/1.1 500 Internal Server Error",
            "Internal Server Error: see the agent's journal.\n",
        )
    finally:
        del state["broken"]
    assert parts(ask(get("/metrics")))[0] == "HTTP/1.1 200 OK"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.binary(max_size=10)
        | st.sampled_from(
            [b"GET", b" ", b"/metrics", b"HTTP/1.1", b"\r\n", b"Host: a", b"\r\n\r\n", b"\0", b"a" * 9000]
        )
    ).map(b"".join)
)
def test_any_bytes_get_an_http_answer_without_a_traceback(ask: Ask, said: bytes) -> None:
    heard = ask(said)
    assert heard.startswith(b"HTTP/1.1 ") if said else heard == b""
    assert b"Traceback" not in heard


def test_the_server_listens_on_loopback_and_a_taken_port_is_an_error() -> None:
    async def run() -> tuple[t.Any, ...]:
        server = MetricsServer(Registry(), lambda: None, lambda: None, port=0)
        await server.start()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            second = MetricsServer(Registry(), lambda: None, lambda: None, port=taken.getsockname()[1])
            with pytest.raises(OSError):
                await second.start()
        address = server.listens_at
        await server.stop()
        return address

    assert asyncio.run(run())[0] == "127.0.0.1"


def test_a_connection_that_fails_while_it_is_accepted_ends_alone() -> None:
    async def run() -> tuple[bytes, bytes]:
        server = MetricsServer(Registry(), lambda: None, lambda: None, port=0)
        await server.start()
        loop = asyncio.get_running_loop()
        connect, failures = loop.connect_accepted_socket, [ConnectionResetError()]

        async def fail_first(*arguments: t.Any) -> t.Any:
            if failures:
                raise failures.pop()
            return await connect(*arguments)

        loop.connect_accepted_socket = fail_first  # type: ignore[method-assign]
        answers = []
        for request in (b"", get("/liveness")):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request)
            answers.append(await asyncio.wait_for(reader.read(), 60))
            writer.close()
        await server.stop()
        return answers[0], answers[1]

    first, second = asyncio.run(run())
    assert first == b""
    assert parts(second)[::2] == ("HTTP/1.1 200 OK", "ok\n")
