# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the agent's socket: answers in order, refusals with messages, and limits on what a client can cost."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import socket
import stat
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.bounds import ApiLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Calls, Method
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.server import Server, SocketInUse
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.peer import Peer
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.unit.agent.api.live_server import ME, LiveServer, eventually, everything

Serve = t.Callable[..., LiveServer]
SOMEBODY_ELSE = ME + 1


def answers(said: bytes) -> list[dict]:
    assert said.endswith(b"\n") or not said
    return [json.loads(line) for line in said.splitlines()]


def error(code: str, message: str, id=None, data=None) -> dict:
    return {"id": id, "error": {"code": code, "message": message, "data": data or {}}}


# --- requests


def test_requests_that_come_at_once_are_answered_in_their_order(live: LiveServer) -> None:
    lines = b"".join(b'{"id":%d,"method":"echo","params":{"n":%d}}\n' % (n, n) for n in range(50))
    assert answers(live.say(lines)) == [{"id": n, "result": {"params": {"n": n}, "uid": ME}} for n in range(50)]


def test_long_work_of_root_is_answered_on_the_common_socket_too(live: LiveServer) -> None:
    """Its task is begun by the one that accepts connections in a turn, and does not hold that turn."""
    assert answers(live.say(b'{"id":1,"method":"work"}\n')) == [{"id": 1, "result": {"uid": ME}}]


def test_pieces_make_no_difference(live: LiveServer) -> None:
    with live.connect() as connection:
        for byte in b'\n  \n{"id":1,"method":"echo"}\n{"id":2,"method":"echo"}':
            connection.sendall(bytes([byte]))
            live.do(asyncio.sleep(0))
        connection.shutdown(socket.SHUT_WR)
        assert [answer["id"] for answer in answers(everything(connection))] == [1, 2]


def test_a_line_that_is_no_request_is_refused_and_the_next_one_answered(live: LiveServer) -> None:
    said = answers(live.say(b'garbage\n{"id":2,"method":"echo"}\n\xff\n[]\n{"id":5,"method":"echo"}\n'))
    assert [answer["id"] for answer in said] == [None, 2, None, None, 5]
    assert [answer.get("error", {}).get("code") for answer in said] == [
        "invalid_params", None, "invalid_params", "invalid_params", None,
    ]  # fmt: skip


def test_errors_are_answered_as_they_are(live: LiveServer) -> None:
    assert answers(live.say(b'{"id":1,"method":"refuse"}\n')) == [
        error("not_found", "no such workload", 1, {"id": "x"})
    ]


def test_an_unknown_method_and_what_there_is(live: LiveServer) -> None:
    known = "break, change, count, echo, fail, flood, odd, refuse, wait, watch, work"
    assert answers(live.say(b'{"id":1,"method":"ech"}\n')) == [
        error("unknown_method", f"the agent has no method 'ech'. It has: {known}.", 1)
    ]


@pytest.mark.parametrize(("method", "params"), [("fail", "{}"), ("odd", "{}"), ("odd", '{"nan":1}')])
def test_an_unexpected_error_is_answered_without_its_details(
    live: LiveServer, caplog: pytest.LogCaptureFixture, method: str, params: str
) -> None:
    said = live.say(f'{{"id":1,"method":"{method}","params":{params}}}\n{{"id":2,"method":"echo"}}\n'.encode())
    assert answers(said)[0] == error(
        "internal",
        f"{method} failed for a reason that the agent did not expect. `journalctl -u calico-agent` has the details; "
        "please report them.",
        1,
    )
    assert answers(said)[1]["id"] == 2
    assert caplog.records[0].exc_info is not None
    assert live.observed == [(method, "internal"), ("echo", "ok")]


def test_a_request_beyond_its_deadline_is_cancelled_and_answered(serve: Serve) -> None:
    live = serve(limits=ApiLimits(deadline=0.01))
    assert answers(live.say(b'{"id":1,"method":"wait"}\n{"id":2,"method":"echo"}\n')) == [
        error(
            "timeout",
            "wait was not done within 0.01 s and was given up. Ask again; "
            "`journalctl -u calico-agent` says what kept it.",
            1,
        ),
        {"id": 2, "result": {"params": {}, "uid": ME}},
    ]
    assert live.cancelled == ["wait"]


def test_a_request_is_finished_although_its_client_disconnects(live: LiveServer) -> None:
    with live.connect() as connection:
        connection.sendall(b'{"id":1,"method":"wait"}\n')
        assert live.reached.wait(60)
    live.loop.call_soon_threadsafe(live.release.set)
    eventually(lambda: ("wait", "ok") in live.observed)
    assert live.cancelled == []


# --- streams


def test_a_stream_is_events_and_an_end(live: LiveServer) -> None:
    with live.connect() as connection:
        connection.sendall(b'{"id":1,"method":"count","params":{"to":2}}\n{"id":2,"method":"echo"}\n')
        said = connection.makefile("rb")
        assert [json.loads(next(said)) for dummy in range(4)] == [
            {"id": 1, "event": {"number": 0}},
            {"id": 1, "event": {"number": 1}},
            {"id": 1, "result": {}},
            {"id": 2, "result": {"params": {}, "uid": ME}},
        ]


def test_a_stream_ends_with_its_client(live: LiveServer) -> None:
    with live.connect() as connection:
        connection.sendall(b'{"id":1,"method":"watch"}\n')
        assert connection.recv(1000) == b'{"id":1,"event":{"first":true}}\n'
    assert live.reached.wait(60)
    assert live.cancelled == ["watch"]


def test_a_client_that_does_not_read_stops_its_stream_and_nothing_else(serve: Serve) -> None:
    live = serve(limits=ApiLimits(idle=0.1))
    with live.connect() as connection:
        connection.sendall(b'{"id":1,"method":"flood"}\n')
        eventually(lambda: ("flood", "ok") in live.observed)
        assert live.flooded < 1000 and live.cancelled == ["flood"]
        with live.client() as client:
            client.call("echo")
        assert len(everything(connection)) < 10_000_000


def test_a_stream_that_breaks_says_so(live: LiveServer) -> None:
    with live.connect() as connection:
        connection.sendall(b'{"id":1,"method":"break"}\n{"id":2,"method":"echo"}\n')
        said = b""
        while said.count(b"\n") < 3:
            said += connection.recv(10_000)
    assert [next(iter(answer.keys() - {"id"})) for answer in answers(said)] == ["event", "error", "result"]
    assert answers(said)[1]["error"]["code"] == "internal"


# --- permissions


def test_root_may_and_others_read_or_do_nothing() -> None:
    methods = {name: Method(dict, changes=name == "change") for name in ("echo", "change")}
    server = Calls(methods, group="calico")
    server.readers = 4000
    root, reader, nobody = (
        Peer(1, 0, 0, frozenset([0])),
        Peer(1, 9, 9, frozenset([9, 4000])),
        Peer(1, 9, 9, frozenset([9])),
    )
    assert server.method("change", root).changes
    assert not server.method("echo", reader).changes
    refused = {}
    for name, peer, method in [("reader", reader, "change"), ("nobody", nobody, "echo"), ("none", nobody, "x")]:
        with pytest.raises(Exception) as caught:
            server.method(method, peer)
        refused[name] = (caught.value.code, caught.value.message)
    stranger = "uid 9 may not use the agent. Become root, or a member of group `calico`, which may read."
    methods["echo"] = methods["echo"]._replace(reserved=("state",))
    assert server.method("echo", reader, {"other": 1}) and server.method("echo", root, {"state": 1})
    with pytest.raises(AgentError) as reserved:
        server.method("echo", reader, {"state": 1})
    assert reserved.value.message == "echo takes state from root alone, and not from uid 9."
    assert refused == {
        "reader": ("forbidden", "change changes the node, and uid 9 may only read. Run it as root."),
        "nobody": ("forbidden", stranger),
        "none": ("forbidden", stranger),
    }


def test_the_kernel_says_who_asks(serve: Serve) -> None:
    live = serve(root=SOMEBODY_ELSE)
    assert answers(live.say(b'{"id":1,"method":"change"}\n'))[0]["error"]["code"] == "forbidden"
    with live.connect() as connection:
        # Both ends of the connection are in this process, so the peer has its ids.
        assert Peer.from_socket(connection) == Peer(
            os.getpid(), ME, os.getgid(), frozenset({os.getgid(), *os.getgroups()})
        )


def test_the_socket_has_mode_0660(live: LiveServer) -> None:
    assert stat.S_IMODE(os.stat(live.path).st_mode) == 0o660


# --- bounds of requests, buffers, connections and idle time


def test_a_request_that_is_too_long_is_refused_and_the_connection_closed(serve: Serve) -> None:
    live = serve(limits=ApiLimits(line=1000))
    fits = b'{"id":1,"method":"echo","params":{"a":"%s"}}\n'
    fits = fits % (b"a" * (1000 - len(fits) + 2))
    assert len(fits) == 1000
    assert len(answers(live.say(fits))) == 1
    refusal = error("too_large", "the request is longer than 1000 bytes. Ask for less in one request.")
    assert answers(live.say(fits[:-1] + b" \n" + fits)) == [refusal]
    assert answers(live.say(b"a" * 1001, end=False)) == [refusal]


def test_ten_mebibytes_on_one_line(live: LiveServer) -> None:
    most = []

    async def look() -> None:
        most.append(live.server.bounds.waiting[True])

    with live.connect() as connection:
        for dummy in range(160):
            connection.sendall(b"a" * (1 << 16))
            live.do(look())
        assert max(most) <= 2 << 20
        connection.shutdown(socket.SHUT_WR)
        assert answers(everything(connection))[0]["error"]["code"] == "too_large"
    with live.client() as client:
        assert client.call("echo")["params"] == {}
    live.do(look())
    assert most[-1] == 0


def test_many_incomplete_requests_share_one_bound(serve: Serve) -> None:
    live = serve(limits=ApiLimits(waiting=1000))
    with live.connect() as first, live.connect() as second:
        first.sendall(b'{"id":1,')
        eventually(lambda: live.server.bounds.waiting[True] == 8)
        second.sendall(b"a" * 995)
        assert answers(everything(second)) == [
            error("try_again", "the agent holds too many requests that are not complete. Try again.")
        ]
        first.sendall(b'"method":"echo"}\n')
        assert answers(first.recv(1000))[0]["id"] == 1


def test_too_much_during_a_request_is_refused_after_its_answer(serve: Serve) -> None:
    live = serve(limits=ApiLimits(waiting=1000))
    with live.connect() as connection:
        connection.sendall(b'{"id":1,"method":"wait"}\n')
        assert live.reached.wait(60)
        connection.sendall(b"a" * 1001)
        live.do(asyncio.sleep(0))
        live.loop.call_soon_threadsafe(live.release.set)
        assert answers(everything(connection)) == [
            {"id": 1, "result": {"waited": True}},
            error("try_again", "the agent holds too many requests that are not complete. Try again."),
        ]


def test_requests_sent_during_another_one_wait_in_bounded_memory(serve: Serve) -> None:
    live = serve(limits=ApiLimits(line=1000))
    line = b'{"id":2,"method":"echo"' + b" " * 975 + b"}\n"
    with live.connect() as connection:
        connection.sendall(b'{"id":1,"method":"wait"}\n')
        assert live.reached.wait(60)
        connection.settimeout(0.1)
        sent = 0
        with pytest.raises(socket.timeout):  # the server reads no more than it needs, so the kernel's buffer fills
            while sent < 4 << 20:
                sent += connection.send(line * 100)
        assert live.server.bounds.waiting[True] < 1 << 20
        live.loop.call_soon_threadsafe(live.release.set)
        connection.settimeout(10)
        lines = connection.makefile("rb")
        count = sent // len(line)
        assert [json.loads(next(lines))["id"] for dummy in range(count)] == [1] + [2] * (count - 1)


def test_a_connection_beyond_the_limit_is_refused_with_the_reason(serve: Serve) -> None:
    live = serve(limits=ApiLimits(connections=2, refused=1))
    message = (
        f"the agent has 2 connections of root, which is as many as it takes. Try again; `ss -xp src {live.path}` shows "
        "who holds them."
    )
    silent = [live.connect() for dummy in range(2)]
    eventually(lambda: len(live.server.bounds.connections) == 2)
    assert answers(live.say(b'{"id":1,"method":"echo"}\n{"id":2,"method":"echo"}\n')) == [
        error("try_again", message, 1)
    ]
    eventually(lambda: not live.server.bounds.refused)
    assert json.loads(live.say(b"CNI 1\nCNI_COMMAND=ADD\n\n{}")[2:])["msg"] == message
    eventually(lambda: not live.server.bounds.refused)
    third = live.connect()
    eventually(lambda: len(live.server.bounds.refused) == 1)
    with live.connect() as fourth:
        assert everything(fourth) == b""
    for connection in [*silent, third]:
        connection.close()
    eventually(lambda: not live.server.bounds.connections)
    with live.client() as client:
        client.call("echo")


def test_others_leave_connections_for_root(serve: Serve) -> None:
    live = serve(root=SOMEBODY_ELSE, limits=ApiLimits(connections=3, others=1))
    with live.connect() as silent:
        eventually(lambda: len(live.server.bounds.connections) == 1)
        assert answers(live.say(b'{"id":1,"method":"echo"}\n')) == [
            error(
                "try_again",
                "the agent has 1 connections of others than root, which is as many as it takes. Try again; "
                f"`ss -xp src {live.path}` shows who holds them.",
            )
        ]
        live.server.bounds.root = live.server.calls.root = ME
        with live.client() as client:
            client.call("echo")
        silent.close()


def test_a_silent_or_slow_connection_is_closed_after_the_idle_time(serve: Serve) -> None:
    live = serve(limits=ApiLimits(idle=0.05))
    with live.connect() as silent, live.connect() as slow:
        slow.sendall(b'{"id":1')  # a request that was begun must be complete within `idle`, too
        assert everything(silent) == b"" and everything(slow) == b""
    eventually(lambda: not live.server.bounds.connections)
    assert live.server.bounds.waiting == {True: 0, False: 0}


# --- CNI


def test_a_cni_request(live: LiveServer) -> None:
    assert live.say(b"CNI 1\nCNI_COMMAND=ADD\n\n{}") == b"0\nADD {}"


@pytest.mark.parametrize("cut", range(1, len(b"CNI 1\nCNI_COMMAND=ADD\n\n{}")))
def test_a_cni_request_in_pieces(live: LiveServer, cut: int) -> None:
    data = b"CNI 1\nCNI_COMMAND=ADD\n\n{}"
    with live.connect() as connection:
        connection.sendall(data[:cut])
        live.do(asyncio.sleep(0))
        connection.sendall(data[cut:])
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection) == b"0\nADD {}"


def cni_error(said: bytes) -> tuple[int, str, str]:
    assert said[:2] == b"1\n"
    told = json.loads(said[2:])
    assert told["cniVersion"] in ("1.0.0", "1.1.0") and told.keys() == {"cniVersion", "code", "msg", "details"}
    return told["code"], told["msg"], told["details"]


DIFFERENT = "The plugin and the agent are of different releases. The role installs both: run site.yml."


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"CNI 2\n\n{}", (999, "the agent does not know this form of request: b'CNI 2'", DIFFERENT)),
        (b"CNI \n\n{}", (999, "the agent does not know this form of request: b'CNI '", DIFFERENT)),
        (b"CNI 1", (999, "the agent does not know this form of request: b'CNI 1'", DIFFERENT)),
        (b"CNI 1\n", (6, "the request has no end of its environment",
                      "After the lines NAME=value comes an empty one, then the network configuration. "
                      "The shim was cut short: try again.")),
        (b"CNI 1\n\xff=\n\n", (4, "a variable is not UTF-8: b'\\xff='", "Correct it where the runtime sets it.")),
        (b"CNI 1\n\n" + b"a" * 1000, (6, "the request is longer than 1000 bytes",
                                      "Shorten the network configuration or what the runtime adds to it.")),
    ],
)  # fmt: skip
def test_refusals_of_cni_are_cnis(serve: Serve, said: bytes, expected: tuple[int, str, str]) -> None:
    assert cni_error(serve(limits=ApiLimits(line=1000)).say(said)) == expected


def test_only_root_attaches(serve: Serve) -> None:
    live = serve(root=SOMEBODY_ELSE)
    expected = (100, f"uid {ME} may not attach workloads", "Only root may. Run the container runtime as root.")
    assert cni_error(live.say(b"CNI 1\n")) == expected
    assert cni_error(live.say(b'CNI 1\nCNI_COMMAND=ADD\n\n{"cniVersion":"1.0.0"}')) == expected


def test_a_cni_request_that_fails_or_takes_too_long(serve: Serve) -> None:
    live = serve(limits=ApiLimits(deadline=0.01))

    async def fail(environment: dict[str, str], stdin: bytes) -> tuple[int, bytes]:
        raise RuntimeError("secret detail")

    async def wait(environment: dict[str, str], stdin: bytes) -> tuple[int, bytes]:
        await asyncio.Event().wait()
        raise AssertionError

    live.shim = fail
    assert cni_error(live.say(b'CNI 1\n\n{"cniVersion":"1.0.0"}')) == (
        999,
        "CNI failed for a reason that the agent did not expect. `journalctl -u calico-agent` has the details; "
        "please report them.",
        "",
    )
    live.shim = wait
    assert cni_error(live.say(b"CNI 1\n\n{}")) == (
        11,
        "the agent was not done within 0.01 s and gave up",
        "Try again. `journalctl -u calico-agent` says what kept it.",
    )


# --- netavark


def test_a_request_of_netavark(live: LiveServer) -> None:
    assert live.say(b"NETAVARK 1\nNETAVARK_COMMAND=setup\n\n{}") == b"0\nsetup {}"


@pytest.mark.parametrize("cut", range(1, len(b"NETAVARK 1\nNETAVARK_")))
def test_a_request_of_netavark_in_pieces(live: LiveServer, cut: int) -> None:
    data = b"NETAVARK 1\nNETAVARK_COMMAND=setup\n\n{}"
    with live.connect() as connection:
        connection.sendall(data[:cut])
        live.do(asyncio.sleep(0))
        connection.sendall(data[cut:])
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection) == b"0\nsetup {}"


def netavark_error(said: bytes) -> str:
    assert said[:2] == b"1\n"
    told = json.loads(said[2:])
    assert list(told) == ["error"]
    return told["error"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"NETAVARK 2\n\n{}", f"the agent does not know this form of request: b'NETAVARK 2'. {DIFFERENT}"),
        (b"NETAVARK 1\n\xff=\n\n", "a variable is not UTF-8: b'\\xff='. Correct it where the runtime sets it."),
        (
            b"NETAVARK 1\nNETAVARK_NETNS=/a\0\n\n{}",
            "a line of the environment is not NAME=value: 'NETAVARK_NETNS=/a\\x00'. No variable that the plugin knows "
            "holds a line break. Correct it where the runtime sets it.",
        ),
        (
            b"NETAVARK 1\n\n" + b"a" * 1000,
            "the request is longer than 1000 bytes. Shorten the network configuration or what the runtime adds to it.",
        ),
    ],
)
def test_refusals_of_netavark_are_netavarks(serve: Serve, said: bytes, expected: str) -> None:
    assert netavark_error(serve(limits=ApiLimits(line=1000)).say(said)) == expected


def test_rootless_podman_is_refused_in_words(serve: Serve) -> None:
    assert netavark_error(serve(root=SOMEBODY_ELSE).say(b"NETAVARK 1\nNETAVARK_COMMAND=setup\n\n{}")) == (
        f"uid {ME} may not attach workloads. A container of a user other than root has no interface on the host. Start "
        "it as root: sudo podman run ..."
    )


# --- start and stop of the server


def test_a_stale_socket_file_is_replaced(tmp_path: pathlib.Path, serve: Serve) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "agent.sock"))
    left.close()
    with serve().client() as client:
        client.call("echo")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent-root.sock", "agent.sock"]


def test_a_socket_in_use_is_not(live: LiveServer) -> None:
    with pytest.raises(SocketInUse) as caught:
        live.do(Server(live.path, {}).start())
    assert str(caught.value) == (
        f"another agent answers at {live.path}. Only one may run on a node: stop it with "
        "`systemctl stop calico-agent`, or end the process that `ss -xlp` shows."
    )
    with live.client() as client:
        client.call("echo")


def test_a_file_in_its_place_is_not_removed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "agent.sock").write_text("precious")
    with pytest.raises(SocketInUse) as caught:
        asyncio.run(Server(str(tmp_path / "agent.sock"), {}).start())
    assert str(caught.value) == (
        f"{tmp_path}/agent.sock is not a socket, so the agent does not replace it. Move it away, then start the agent."
    )
    assert (tmp_path / "agent.sock").read_text() == "precious"


def test_a_folder_in_which_no_socket_can_be_made(tmp_path: pathlib.Path) -> None:
    (tmp_path / "run").write_text("")
    for folder, reason in ((tmp_path / "run", "Not a directory"), (tmp_path / "none", "No such file or directory")):
        with pytest.raises(SocketInUse) as caught:
            asyncio.run(Server(str(folder / "agent.sock"), {}).start())
        path = folder / ("agent.sock" if folder.name == "run" else "agent-root.sock")
        assert str(caught.value) == (
            f"the agent cannot make its socket {path}: {reason}. Run it as root, and correct the folder or the file"
            " system, then start the agent."
        )


def test_no_socket_is_left_if_the_second_cannot_be_made(tmp_path: pathlib.Path) -> None:
    (tmp_path / "agent.sock.new").mkdir()  # in the place where the socket is prepared

    async def scenario() -> None:
        with pytest.raises(SocketInUse):
            await Server(str(tmp_path / "agent.sock"), {}).start()
        assert [path.name for path in tmp_path.iterdir()] == ["agent.sock.new"]

    asyncio.run(scenario())


def test_a_path_that_is_too_long(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / ("a" * 110))
    with pytest.raises(SocketInUse) as caught:
        asyncio.run(Server(path, {}).start())
    assert str(caught.value) == (
        f"{path} is longer than the 98 bytes that the path of a socket may have here. Choose a shorter one."
    )


def test_stopping_lets_go_of_what_is_idle_and_answers_what_is_not(live: LiveServer) -> None:
    with live.connect() as idle, live.connect() as busy, live.connect() as watching:
        watching.sendall(b'{"id":1,"method":"watch"}\n')
        assert watching.recv(1000)
        busy.sendall(b'{"id":1,"method":"wait"}\n{"id":2,"method":"echo"}\n')
        assert live.reached.wait(60)
        stopping = asyncio.run_coroutine_threadsafe(live.server.stop(10), live.loop)
        assert everything(idle) == b""
        assert answers(everything(watching))[0]["error"]["code"] == "unavailable"
        assert not os.path.exists(live.path)
        live.loop.call_soon_threadsafe(live.release.set)
        assert answers(everything(busy)) == [{"id": 1, "result": {"waited": True}}]
        stopping.result(10)


def test_a_request_that_comes_after_the_stop_is_refused(live: LiveServer) -> None:
    """The answer under way is given, and a request that its client sends meanwhile is not begun."""
    with live.connect() as busy:
        busy.sendall(b'{"id":1,"method":"wait"}\n')
        assert live.reached.wait(60)
        stopping = asyncio.run_coroutine_threadsafe(live.server.stop(10), live.loop)
        eventually(lambda: not os.path.exists(live.path))
        busy.sendall(b'{"id":2,"method":"echo"}\n')
        eventually(lambda: live.server.bounds.waiting[True] > 0)
        live.loop.call_soon_threadsafe(live.release.set)
        assert answers(everything(busy)) == [
            {"id": 1, "result": {"waited": True}},
            error("unavailable", "the agent is being stopped. Try again when it has started.", 2),
        ]
        stopping.result(10)


def test_a_request_that_outlasts_the_stop_is_cancelled_and_answered(live: LiveServer) -> None:
    with live.connect() as busy:
        busy.sendall(b'{"id":1,"method":"wait"}\n')
        assert live.reached.wait(60)
        live.do(live.server.stop(0.01))
        assert answers(everything(busy)) == [
            error("unavailable", "the agent is being stopped. Try again when it has started.", 1)
        ]
    assert live.cancelled == ["wait"]


def test_stopping_leaves_a_successors_socket(live: LiveServer) -> None:
    os.unlink(live.path)
    successor = socket.socket(socket.AF_UNIX)
    successor.bind(live.path)
    live.do(live.server.stop())
    assert os.path.exists(live.path)
    successor.close()
