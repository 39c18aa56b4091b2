# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the client: answers, and messages when there is none."""

from __future__ import annotations

import errno
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.bounds import ApiLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import AgentClient, NotRunning
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.conftest import ROOT
from tests.unit.agent.api.live_server import ME, LiveServer, eventually

NOT_ACCEPTED = (
    "the agent does not accept a connection: {}. Its socket is /run/agent.sock. Nothing was asked for; ask again in a "
    "moment. `journalctl -u calico-agent` says what keeps it."
)
REMEDY = "Start it with `systemctl start calico-agent`; `journalctl -u calico-agent` says why it stopped."


def test_calls_share_a_connection(live: LiveServer) -> None:
    with live.client() as client:
        for number in range(3):
            assert client.call("echo", number=number, method="m") == {
                "params": {"number": number, "method": "m"},
                "uid": ME,
            }
        assert len(live.server.bounds.connections) == 1


def test_a_refusal_has_code_message_and_data(live: LiveServer) -> None:
    with live.client() as client:
        with pytest.raises(AgentError) as caught:
            client.call("refuse")
        assert (caught.value.code, str(caught.value), caught.value.data) == (
            "not_found",
            "no such workload",
            {"id": "x"},
        )
        client.call("echo")


def test_a_stream_yields_its_events_and_ends_with_its_error(live: LiveServer) -> None:
    client = live.client()
    assert list(client.stream("count", to=3)) == [{"number": 0}, {"number": 1}, {"number": 2}]
    with pytest.raises(AgentError):
        list(client.stream("break"))
    watching = client.stream("watch")
    assert next(watching) == {"first": True}
    watching.close()
    assert live.reached.wait(60)
    client.call("echo")
    client.close()


def test_a_request_that_is_too_large_is_refused_with_the_limit(serve: t.Callable[..., LiveServer]) -> None:
    with serve(limits=ApiLimits(line=1000)).client() as client:
        with pytest.raises(AgentError) as caught:
            client.call("echo", text="a" * 5_000_000)
        assert (caught.value.code, caught.value.message) == (
            "too_large",
            "the request is longer than 1000 bytes. Ask for less in one request.",
        )
        client.call("echo")


def test_a_connection_that_was_idle_too_long_is_made_anew(serve: t.Callable[..., LiveServer]) -> None:
    live = serve(limits=ApiLimits(idle=0.02))
    with live.client() as client:
        client.call("echo")
        eventually(lambda: not live.server.bounds.connections)
        client.call("echo")


def test_a_call_without_an_agent_says_how_to_start_it(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "agent.sock")
    with pytest.raises(NotRunning) as caught:
        AgentClient(path).call("status")
    assert caught.value.code == "unavailable"
    assert str(caught.value) == (
        f"the agent of this node does not answer. Its socket is {path}: No such file or directory. {REMEDY}"
    )
    left = socket.socket(socket.AF_UNIX)
    left.bind(path)
    left.close()
    with pytest.raises(NotRunning) as caught:
        AgentClient(path).call("status")
    assert (
        str(caught.value) == f"the agent of this node does not answer. Its socket is {path}: nobody listens. {REMEDY}"
    )


def test_an_answer_that_does_not_come(live: LiveServer) -> None:
    with live.client(timeout=0.05) as client:
        with pytest.raises(AgentError) as caught:
            client.call("wait")
        assert caught.value.code == "timeout"
        assert caught.value.message == (
            f"the agent has not answered within 0.05 s. Its socket is {live.path}. What was asked for may still "
            "happen; ask again, which does no harm. `journalctl -u calico-agent` says what keeps it."
        )
        client.timeout = 60
        client.call("echo")  # this call must not read the late answer to `wait`, the call before


def answering(path: str, said: bytes) -> threading.Thread:
    """Listen at `path`; start and return a thread that sends `said` to the first client that asks, then closes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def answer() -> None:
        with listener:
            connection, dummy = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(said)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def test_an_early_refusal_of_a_long_request_is_received(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "agent.sock")
    thread = answering(path, b'{"id":null,"error":{"code":"too_large","message":"Less.","data":{}}}\n')
    with AgentClient(path, 10) as client, pytest.raises(AgentError) as caught:
        client.call("status", text="a" * 5_000_000)
    thread.join(60)
    assert (caught.value.code, caught.value.message) == ("too_large", "Less.")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "it closed the connection before it had answered"),
        (b'{"id":1,"res', "it closed the connection before it had answered"),
        (b"hello\n", "it answers with b'hello', which is not its protocol"),
        (b"[]\n", "it answers with b'[]', which is not its protocol"),
        (b'{"id":1}\n', "it answers with b'{\"id\":1}', which is not its protocol"),
        (b'{"id":1,"error":{}}\n', 'it answers with b\'{"id":1,"error":{}}\', which is not its protocol'),
        (b'{"id":2,"result":{}}\n', "it answers request 2 instead of 1"),
        (b'{"id":null,"result":{}}\n', "it answers request None instead of 1"),
        (b'{"id":1,"event":{}}\n', "it answers status with a stream"),
    ],
)
def test_a_server_that_is_no_agent_is_reported_as_not_running(tmp_path: pathlib.Path, said: bytes, reason: str) -> None:
    path = str(tmp_path / "agent.sock")
    thread = answering(path, said)
    with AgentClient(path, 10) as client, pytest.raises(NotRunning) as caught:
        client.call("status")
    thread.join(60)
    assert str(caught.value) == f"the agent of this node does not answer. Its socket is {path}: {reason}. {REMEDY}"


def test_a_forbidden_socket_says_who_may_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(socket.socket):  # root may run the tests, and may open every socket: this one refuses in its place
        def connect(self, address: t.Any) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "socket", Closed)
    with pytest.raises(AgentError) as caught:
        AgentClient("/run/agent.sock").call("echo")
    assert (caught.value.code, caught.value.message) == (
        "forbidden",
        "/run/agent.sock may not be opened: Permission denied. Become root, or a member of its group, `calico` by "
        "default, which may read.",
    )


def test_both_sockets_share_the_time_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call by root that neither of the two sockets accepts in time ends after its timeout, here 10 s."""
    now = 0.0

    class Full(socket.socket):
        def connect(self, address: t.Any) -> None:
            nonlocal now
            now += self.gettimeout() or 0.0
            raise socket.timeout("timed out")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(socket, "socket", Full)
    with pytest.raises(AgentError) as caught:
        AgentClient("/run/agent.sock", 10).call("echo")
    monkeypatch.undo()
    assert not isinstance(caught.value, NotRunning)
    assert (caught.value.code, caught.value.message) == ("timeout", NOT_ACCEPTED.format("timed out"))
    assert now == pytest.approx(10, abs=0.01)


def test_an_agent_with_a_full_queue_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket whose queue of connections is full is that of an agent that runs, so the error is not NotRunning."""

    class Full(socket.socket):
        def connect(self, address: t.Any) -> None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(socket, "socket", Full)
    with pytest.raises(AgentError) as caught:
        AgentClient("/run/agent.sock", 10).call("echo")
    monkeypatch.undo()
    assert not isinstance(caught.value, NotRunning)
    words = NOT_ACCEPTED.format("Resource temporarily unavailable")
    assert (caught.value.code, caught.value.message) == ("timeout", words)


def test_it_costs_little_to_import() -> None:
    """The client imports none of five slow modules: programs import it for one call, and asyncio alone takes 50 ms."""
    code = (
        "import sys; from plugins.module_utils.wire import client; "
        "print(sorted({'asyncio', 'dataclasses', 'inspect', 'logging', 'subprocess'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    assert ran.stdout == b"[]\n"
