# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shim of netavark alone: what it writes to the agent's socket, and what it does without an agent."""

from __future__ import annotations

import json
import os
import pathlib
import re
import socket
import stat
import subprocess
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import shim_framing

from tests.integration.agent.cni.shim import NETAVARK, SOURCE, Shim
from tests.integration.agent.cni.test_shim import Server

NETNS = "/run/netns/netns-1 $(id)`id`\\n'\""
STDIN = b'{"container_id":"c1"}'
ENVIRONMENT = {"CNI_COMMAND": "DEL", "SECRET": "x", "PATH": os.environ["PATH"]}


@pytest.fixture
def server(tmp_path: pathlib.Path) -> t.Iterator[Server]:
    serving = Server(str(tmp_path / "agent.sock"))
    yield serving
    serving.close()


@pytest.fixture(params=["nc", "python3"])
def shim(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Shim:
    return Shim(tmp_path, str(tmp_path / "agent.sock"), request.param, source=NETAVARK)


def call(shim: Shim, *arguments: str, stdin: bytes = STDIN, environment: t.Any = None) -> tuple[int, bytes]:
    answer = shim.execute(environment or ENVIRONMENT, stdin, arguments=arguments)
    return answer.status, answer.output


def error(shim: Shim, *arguments: str) -> str:
    status, output = call(shim, *arguments)
    assert status == 1
    told = json.loads(output)
    assert list(told) == ["error"]
    return t.cast(str, told["error"])


def parsed(data: bytes) -> tuple[dict[str, str], bytes]:
    assert data.startswith(shim_framing.NETAVARK.greeting)
    return shim_framing.parse(data[len(shim_framing.NETAVARK.greeting) :])


@pytest.mark.parametrize("command", ["create", "setup", "teardown"])
def test_the_shim_sends_its_variables_and_prints_the_answer(shim: Shim, server: Server, command: str) -> None:
    server.answer = b'0\n{"interfaces":{}}\n'
    netns = () if command == "create" else (NETNS,)
    assert call(shim, command, *netns) == (0, b'{"interfaces":{}}\n')
    variables = {"NETAVARK_COMMAND": command, "NETAVARK_NETNS": "".join(netns)}
    assert parsed(server.received[0]) == (variables, STDIN + b"\n")


def test_info_reads_no_stdin(shim: Shim, server: Server) -> None:
    """A person may call it from a terminal, whose stdin does not end."""
    with subprocess.Popen(
        [shim.path, "info"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.wait(60) == 0
    assert parsed(server.received[0]) == ({"NETAVARK_COMMAND": "info", "NETAVARK_NETNS": ""}, b"\n")


def test_a_refusal_is_passed_on(shim: Shim, server: Server) -> None:
    server.answer = b'1\n{"error":"no address"}\n'
    assert call(shim, "setup", NETNS) == (1, b'{"error":"no address"}\n')


def test_a_teardown_has_no_answer(shim: Shim, server: Server) -> None:
    server.answer = b"0\n"
    assert call(shim, "teardown", NETNS) == (0, b"")


@pytest.mark.parametrize("stdin", [b'{\n"a": 1\n}\n', b'{"x": "' + b"y" * 200_000 + b'"}'], ids=["lines", "long"])
def test_every_form_of_stdin(shim: Shim, server: Server, stdin: bytes) -> None:
    server.answer = b"0\n"
    assert call(shim, "setup", NETNS, stdin=stdin)[0] == 0
    assert parsed(server.received[0])[1].rstrip(b"\n") == stdin.rstrip(b"\n")


@pytest.mark.parametrize("arguments", [("setup", "/x\nNETAVARK_COMMAND=teardown\n\n{}"), ("setup\n", "/x")])
def test_line_breaks_cannot_forge_the_framing(shim: Shim, server: Server, arguments: tuple[str, str]) -> None:
    assert error(shim, *arguments) == (
        "an argument holds a line break. netavark passes none: call podman, and not the plugin."
    )
    assert server.received == []


def test_the_environment_changes_nothing(shim: Shim, server: Server, tmp_path: pathlib.Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    names = ("socket", "deleted", "patience", "file", "request", "answer", "reached", "status", "command", "netns")
    environment = {**dict.fromkeys(names, str(precious)), "PATH": "/nowhere", "IFS": "/", "ENV": str(precious)}
    server.answer = b"0\n"
    assert call(shim, "setup", NETNS, environment=environment) == (0, b"")
    server.answer = None
    assert call(shim, "teardown", NETNS, environment=environment) == (0, b"")
    assert precious.read_text() == "kept"


@pytest.mark.parametrize("command", ["create", "setup", "info"])
def test_an_absent_agent_is_an_error_with_a_remedy(shim: Shim, tmp_path: pathlib.Path, command: str) -> None:
    assert error(shim, command, NETNS) == (
        f"calico-agent does not answer on {tmp_path}/agent.sock. Start it with systemctl start calico-agent; "
        "journalctl -u "
        "calico-agent says why it stopped. Then try again."
    )
    assert not shim.deleted.exists()


def test_an_agent_that_says_nothing(tmp_path: pathlib.Path, shim: Shim) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "agent.sock"))
    listener.listen()
    with listener:
        words = (
            f"calico-agent accepted the request on {tmp_path}/agent.sock and gave no valid answer within 3 "
            "seconds. It may"
        )
        assert error(shim, "setup", NETNS) == (
            f"{words} still do what was asked. journalctl -u calico-agent says what keeps it. Restart it with "
            "systemctl "
            "restart calico-agent, which running containers do not notice. Then try again."
        )


def test_a_teardown_is_written_down(shim: Shim) -> None:
    for _time in range(2):
        assert call(shim, "teardown", NETNS) == (0, b"")
    for path in shim.deleted.iterdir():
        assert path.suffix == ".request" and stat.S_IMODE(path.stat().st_mode) == 0o600
        variables = {"NETAVARK_COMMAND": "teardown", "NETAVARK_NETNS": NETNS}
        assert parsed(path.read_bytes()) == (variables, STDIN + b"\n")
    assert stat.S_IMODE(shim.deleted.stat().st_mode) == 0o700


def test_a_teardown_that_cannot_be_written_down(shim: Shim) -> None:
    shim.deleted.write_text("in the way")
    assert error(shim, "teardown", NETNS) == (
        f"calico-agent does not answer, and the teardown could not be written down below {shim.deleted}. Start "
        "the agent "
        "(systemctl start calico-agent), or make that folder writable. Then try again."
    )


@pytest.mark.parametrize("command", ["setup", "teardown"])
def test_the_error_names_a_foreign_user_namespace(shim: Shim, command: str) -> None:
    prefix = ["unshare", "--user", "--map-root-user"]
    answer = shim.execute(ENVIRONMENT, STDIN, prefix, [command, NETNS])
    assert (answer.status, json.loads(answer.output)) == (
        1,
        {
            "error": "calico-agent cannot be reached from this user namespace: a container of a user other than root "
            "has no interface on the host. Start it as root: sudo podman run ..."
        },
    )
    assert not shim.deleted.exists()


def test_few_programs_are_executed(tmp_path: pathlib.Path, server: Server) -> None:
    """The shell and netcat alone: each further program costs time at every container's start."""
    server.answer = b"0\n"
    shim, trace = Shim(tmp_path, str(tmp_path / "agent.sock"), source=NETAVARK), tmp_path / "trace"
    command = [
        "strace",
        "-f",
        "-e",
        "trace=execve,fork,vfork,clone,clone3",
        "-o",
        str(trace),
        str(shim.path),
        "setup",
        "/x",
    ]
    done = subprocess.run(command, input=STDIN, env=ENVIRONMENT, check=False)
    assert done.returncode == 0
    lines = trace.read_text()
    assert lines.count("execve(") == 2
    assert sum(lines.count(f"{name}(") for name in ("fork", "clone", "clone3")) == 1


def carrier(source: pathlib.Path) -> str:
    """Return the part of a shim that chooses the program which carries the request to the socket."""
    [found] = re.findall(r"^# OpenBSD's netcat starts.*?^fi$", source.read_text(), re.DOTALL | re.MULTILINE)
    return found


def test_both_shims_carry_alike() -> None:
    subprocess.run(["dash", "-n", str(NETAVARK)], check=True)
    assert carrier(NETAVARK) == carrier(SOURCE)
    settings = [
        re.findall(r"^(?:socket|deleted|patience|PATH)=.*$", path.read_text(), re.M) for path in (NETAVARK, SOURCE)
    ]
    assert settings[0] == settings[1] and len(settings[0]) == 4
