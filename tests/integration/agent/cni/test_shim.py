# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shim alone: what it writes to the agent's socket, and what it does without an agent."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import socket
import stat
import subprocess
import threading
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.cni import versions
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import shim_framing

from tests.integration.agent.cni.shim import SOURCE, Shim

VARIABLES = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "c1",
    "CNI_NETNS": "/run/netns/c1",
    "CNI_IFNAME": "eth0",
    "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=w 1;x=$(id)`id`\\n'\"",
    "CNI_PATH": "/opt/cni/bin:/usr/lib/cni",
}
STDIN = b'{"cniVersion":"1.0.0","name":"pods"}'


class Server:
    """A server on a Unix socket: it replies to each connection with `answer`, and keeps the bytes that it receives."""

    def __init__(self, path: str) -> None:
        self.answer: bytes | None = b'0\n{"cniVersion":"1.0.0"}\n'  # None: the connection is closed without one
        self.received: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _peer = self._listener.accept()
                with connection:
                    data = b""
                    while chunk := connection.recv(1 << 16):
                        data += chunk
                    self.received.append(data)
                    if self.answer is not None:
                        connection.sendall(self.answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


@pytest.fixture
def server(tmp_path: pathlib.Path) -> t.Iterator[Server]:
    serving = Server(str(tmp_path / "agent.sock"))
    yield serving
    serving.close()


@pytest.fixture(params=["nc", "python3"])
def shim(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Shim:
    return Shim(tmp_path, str(tmp_path / "agent.sock"), request.param)


def parsed(data: bytes) -> tuple[dict[str, str], bytes]:
    assert data.startswith(shim_framing.CNI.greeting)
    return shim_framing.parse(data[len(shim_framing.CNI.greeting) :])


# --- requests that the shim sends or refuses, and answers that it passes on


def test_the_shim_sends_only_cni_variables_and_its_input(shim: Shim, server: Server) -> None:
    answer = shim.execute({**VARIABLES, "SECRET": "x", "CNIX": "y", "PATH": os.environ["PATH"]}, STDIN)
    assert answer == (0, b'{"cniVersion":"1.0.0"}\n')
    assert parsed(server.received[0]) == (VARIABLES, STDIN + b"\n")


def test_roots_own_socket_comes_first(shim: Shim, server: Server, tmp_path: pathlib.Path) -> None:
    own = Server(str(tmp_path / "agent-root.sock"))
    own.answer = b"0\nown"
    assert shim.execute(VARIABLES, STDIN) == (0, b"own\n")
    own.close()  # the socket's file stays, as after a killed agent; `server` is an agent that has no such socket
    assert shim.execute(VARIABLES, STDIN) == (0, b'{"cniVersion":"1.0.0"}\n')
    assert [len(one.received) for one in (own, server)] == [1, 1]


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/bash"])
def test_in_each_shell(tmp_path: pathlib.Path, server: Server, shell: str) -> None:
    stdin = b'{"a": "\\\\ \\n %s ' + bytes(range(128, 256)) + b'"}'
    assert Shim(tmp_path, str(tmp_path / "agent.sock"), shell=shell).execute(VARIABLES, stdin).status == 0
    assert parsed(server.received[0]) == (VARIABLES, stdin + b"\n")


@pytest.mark.parametrize(
    "stdin",
    [
        b"",
        b"\n",
        b'{\n  "cniVersion": "1.0.0"\n}\n',
        b'{"x": "' + b"y" * 200_000 + b'"}',
        b"{\n" + b" \n" * 30_000 + b"}",
    ],
    ids=["nothing", "an empty line", "lines", "one long line", "many lines"],
)
def test_every_form_of_stdin(shim: Shim, server: Server, stdin: bytes) -> None:
    assert shim.execute(VARIABLES, stdin).status == 0
    assert parsed(server.received[0])[1].rstrip(b"\n") == stdin.rstrip(b"\n")


def test_variables_that_are_not_set_are_empty(shim: Shim, server: Server) -> None:
    assert shim.execute({"CNI_COMMAND": "STATUS"}, STDIN).status == 0
    assert parsed(server.received[0])[0] == {**dict.fromkeys(VARIABLES, ""), "CNI_COMMAND": "STATUS"}


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_line_breaks_cannot_forge_the_framing(shim: Shim, server: Server, name: str) -> None:
    answer = shim.execute({**VARIABLES, name: "x\nCNI_NETNS=/proc/1/ns/net\n\n{}"}, STDIN)
    assert answer.error == {
        "cniVersion": "1.0.0",
        "code": 4,
        "msg": "a CNI_ variable of the environment holds a line break",
        "details": "Correct it where the runtime sets it.",
    }
    assert server.received == []


@pytest.mark.parametrize(
    ("answer", "status", "output"),
    [
        (b"0\n", 0, b""),
        (b"0", 0, b""),
        (b'0\n{"x":1}\n', 0, b'{"x":1}\n'),
        (b'1\n{"code":7}\n', 1, b'{"code":7}\n'),
        (b'0\n{"x":"' + b"y" * 100_000 + b'"}\n', 0, b'{"x":"' + b"y" * 100_000 + b'"}\n'),
    ],
)
def test_the_shim_prints_the_answer_and_exits_with_its_status(
    shim: Shim, server: Server, answer: bytes, status: int, output: bytes
) -> None:
    server.answer = answer
    assert shim.execute(VARIABLES, STDIN) == (status, output)


def test_the_environment_changes_nothing_else(shim: Shim, server: Server, tmp_path: pathlib.Path) -> None:
    """Variables of the environment named like the shim's own change nothing, as the shim sets its own before their use.

    PATH, IFS and ENV change nothing either, and no file is written that they name.
    """
    precious = tmp_path / "precious"
    precious.write_text("kept")
    own = {
        name: str(precious)
        for name in (
            "socket",
            "deleted",
            "patience",
            "file",
            "request",
            "answer",
            "reached",
            "status",
            "version",
            "code",
            "newline",
        )
    }
    environment = {**own, **VARIABLES, "PATH": "/nowhere", "IFS": "/", "ENV": str(precious)}
    assert shim.execute(environment, STDIN) == (0, b'{"cniVersion":"1.0.0"}\n')
    server.answer = None
    assert shim.execute({**environment, "CNI_COMMAND": "DEL"}, STDIN) == (0, b"")
    assert precious.read_text() == "kept"


# --- the shim without an agent, or with one that gives no valid answer; VERSION, its programs, its syntax


@pytest.mark.parametrize(("command", "code"), [("ADD", 11), ("CHECK", 11), ("GC", 11), ("STATUS", 50)])
@pytest.mark.parametrize("version", ["0.4.0", "1.1.0"])
def test_an_absent_agent_is_an_error_with_a_remedy(
    shim: Shim, tmp_path: pathlib.Path, command: str, code: int, version: str
) -> None:
    stdin = json.dumps({"cniVersion": version, "name": "pods"}).encode()
    assert shim.execute({**VARIABLES, "CNI_COMMAND": command}, stdin).error == {
        "cniVersion": version,
        "code": code,
        "msg": f"calico-agent does not answer on {tmp_path}/agent.sock",
        "details": "Start it with systemctl start calico-agent; journalctl -u calico-agent says why it stopped. "
        "Then try again.",
    }
    assert not shim.deleted.exists()


@pytest.mark.parametrize("answer", [None, b"", b"Traceback", b"2\n", b'0{"x":1}\n', b"11\n"])
def test_an_agent_that_dies_meanwhile(shim: Shim, server: Server, answer: bytes | None) -> None:
    server.answer = answer
    assert shim.execute(VARIABLES, STDIN).code == 11
    assert shim.execute({**VARIABLES, "CNI_COMMAND": "DEL"}, STDIN) == (0, b"")
    assert len(list(shim.deleted.iterdir())) == 1


def test_an_agent_that_says_nothing(tmp_path: pathlib.Path, shim: Shim) -> None:
    """The shim's wait for a silent agent has an end, and its error does not say that the agent is to be started."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "agent.sock"))
    listener.listen()
    with listener:
        for command, code in (("STATUS", 50), ("ADD", 11)):
            error = shim.execute({**VARIABLES, "CNI_COMMAND": command}, STDIN).error
            assert (error["code"], error["details"]) == (
                code,
                "It may still do what was asked. journalctl -u calico-agent says what keeps it. Restart it with "
                "systemctl restart calico-agent, which running containers do not notice. Then try again.",
            )
            words = f"calico-agent accepted the request on {tmp_path}/agent.sock and gave no valid answer within"
            assert re.fullmatch(rf"{re.escape(words)} [0-9]+ seconds", error["msg"])


def test_a_delete_is_written_down(shim: Shim) -> None:
    for _time in range(2):
        assert shim.execute({**VARIABLES, "CNI_COMMAND": "DEL"}, STDIN) == (0, b"")
    first, second = sorted(shim.deleted.iterdir())
    assert first.suffix == second.suffix == ".request"
    for path in (first, second):
        assert parsed(path.read_bytes()) == ({**VARIABLES, "CNI_COMMAND": "DEL"}, STDIN + b"\n")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600  # what is on stdin may be secret
    assert stat.S_IMODE(shim.deleted.stat().st_mode) == 0o700


def test_a_delete_is_on_the_disk_before_it_is_answered(shim: Shim, tmp_path: pathlib.Path) -> None:
    trace = tmp_path / "trace"
    command = [
        "strace",
        "-f",
        "-e",
        "trace=fsync,rename,renameat,renameat2,exit_group",
        "-o",
        str(trace),
        str(shim.path),
    ]
    environment = {**VARIABLES, "CNI_COMMAND": "DEL", "PATH": os.environ["PATH"]}
    done = subprocess.run(command, input=STDIN, env=environment, check=False, capture_output=True)
    assert done.returncode == 0
    calls = [line.split(maxsplit=1)[1].partition("(")[0] for line in trace.read_text().splitlines()]
    kept = [call for call in calls if call in ("fsync", "rename", "renameat", "renameat2")]
    assert kept == ["fsync", "renameat2", "fsync"]


def test_a_delete_that_cannot_be_written_down(shim: Shim) -> None:
    shim.deleted.write_text("in the way")
    answer = shim.execute({**VARIABLES, "CNI_COMMAND": "DEL"}, STDIN)
    assert answer.code == 5
    assert (
        answer.error["msg"]
        == f"calico-agent does not answer, and the DEL could not be written down below {shim.deleted}"
    )


def test_nothing_that_carries_bytes(tmp_path: pathlib.Path) -> None:
    shim = Shim(tmp_path, str(tmp_path / "agent.sock"), "none")
    assert shim.execute(VARIABLES, STDIN).code == 11


@pytest.mark.parametrize(
    ("stdin", "version"),
    [
        (b'{"cniVersion":"0.4.0"}', "0.4.0"),
        (b'{ "cniVersion" :\n"1.0.0" }', "1.0.0"),
        (b"{}", "1.1.0"),
        (b"", "1.1.0"),
        (b'{"cniVersion":"\\",\\"x"}', "1.1.0"),
        (b'{"cniVersion":7}', "1.1.0"),
        (b"x" * 500_000, "1.1.0"),
    ],
)
def test_version_needs_no_agent(shim: Shim, stdin: bytes, version: str) -> None:
    answer = shim.execute({"CNI_COMMAND": "VERSION"}, stdin)
    assert answer.result == {"cniVersion": version, "supportedVersions": list(versions.SUPPORTED)}


def test_few_programs_are_executed(tmp_path: pathlib.Path, server: Server) -> None:
    """Few programs are executed with libcni's input: the shell and netcat.

    Each further one costs time at every container's start.
    """
    shim, trace = Shim(tmp_path, str(tmp_path / "agent.sock")), tmp_path / "trace"
    command = ["strace", "-f", "-e", "trace=execve,fork,vfork,clone,clone3", "-o", str(trace), str(shim.path)]
    done = subprocess.run(command, input=STDIN, env={**VARIABLES, "PATH": os.environ["PATH"]}, check=False)
    assert done.returncode == 0
    lines = trace.read_text()
    assert lines.count("execve(") == 2
    assert sum(lines.count(f"{call}(") for call in ("fork", "clone", "clone3")) == 1


def test_it_is_valid_posix_shell() -> None:
    subprocess.run(["dash", "-n", str(SOURCE)], check=True)
