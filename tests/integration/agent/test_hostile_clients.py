# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients that send nothing, too much or nonsense, or are not root, at the socket of a running agent."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import sys
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import protocol

from tests.integration.agent.daemon_under_test import Daemon
from tests.unit.agent.api.live_server import everything

NOBODY = 65534  # nobody and nogroup on Debian

# The program of `as_nobody`: sends each text of a JSON list to agent.sock in its working directory, on a connection of
# its own, and prints the list of the answers, with the system's error message in place of an answer after an error.
SAY = """\
import json, socket, sys
heard = []
for said in json.load(sys.stdin):
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect("agent.sock")
            connection.sendall(said.encode())
            connection.shutdown(socket.SHUT_WR)
            heard.append(b"".join(iter(lambda: connection.recv(65536), b"")).decode())
        except OSError as error:
            heard.append(error.strerror)
json.dump(heard, sys.stdout)
"""


def connect(daemon: Daemon) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(daemon.socket)
    return connection


def as_nobody(daemon: Daemon, group: int, *said: str) -> list[str]:
    who = ["setpriv", f"--reuid={NOBODY}", f"--regid={group}", "--clear-groups"]
    done = subprocess.run(
        [*who, sys.executable, "-I", "-c", SAY],
        input=json.dumps(said), cwd=daemon.folder / "run", capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return t.cast("list[str]", json.loads(done.stdout))


def is_well(daemon: Daemon) -> None:
    daemon.add("after")
    assert daemon.delete("after")
    assert "Traceback" not in daemon.log.read_text()


def test_clients_that_say_nothing_cost_next_to_nothing(daemon: Daemon) -> None:
    before = daemon.memory()
    with contextlib.ExitStack() as silent:
        for dummy in range(400):
            silent.enter_context(connect(daemon))
        is_well(daemon)
        assert daemon.memory() - before < 4096


def test_lines_of_ten_mebibytes(daemon: Daemon) -> None:
    before = daemon.memory()
    for begin in (b"", b'{"id":1,"method":"status","params":{"a":"', b"CNI 1\nCNI_COMMAND=ADD\n\n"):
        with connect(daemon) as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(begin + b"a" * (10 << 20))
                connection.shutdown(socket.SHUT_WR)
            heard = everything(connection)
        if begin.startswith(b"CNI"):
            assert heard[:2] == b"1\n" and json.loads(heard[2:])["msg"] == "the request is longer than 1048576 bytes"
        else:
            assert json.loads(heard)["error"]["code"] == protocol.TOO_LARGE
    is_well(daemon)
    assert daemon.memory() - before < 12 * 1024


def test_requests_that_are_never_complete_are_bounded_together(daemon: Daemon) -> None:
    before = daemon.memory()
    with contextlib.ExitStack() as clients:
        for dummy in range(40):
            connection = clients.enter_context(connect(daemon))
            connection.settimeout(0.05)
            with contextlib.suppress(socket.timeout, BrokenPipeError, ConnectionResetError):
                connection.sendall(b'{"a":"' + b"a" * 1_000_000)
        grown = daemon.memory() - before
        assert grown < 24 * 1024, f"{grown} KiB"
    is_well(daemon)


def test_random_bytes_get_errors_and_the_agent_stays_well(daemon: Daemon) -> None:
    chance = random.Random(7)
    for dummy in range(200):
        said = chance.randbytes(chance.randrange(200))
        with connect(daemon) as connection:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            for line in everything(connection).splitlines():
                assert json.loads(line)["error"]["code"] == protocol.INVALID_PARAMS
    is_well(daemon)


def test_a_user_other_than_root_may_only_read(stopped_daemon: Daemon) -> None:
    daemon = stopped_daemon
    daemon.settings(group="nogroup")
    daemon.start()
    (daemon.folder / "run").chmod(0o755)
    daemon.add("web")
    asked = [
        '{"id":1,"method":"workload.list"}\n',
        '{"id":1,"method":"workload.delete","params":{"id":"default/web"}}\n',
        '{"id":1,"method":"node.plan","params":{"state":{}}}\n',
        'CNI 1\nCNI_COMMAND=DEL\n\n{"cniVersion":"1.0.0"}',
    ]
    listed, deleted, planned, cni = as_nobody(daemon, NOBODY, *asked)
    assert [workload["id"] for workload in json.loads(listed)["result"]["workloads"]] == ["default/web"]
    assert json.loads(deleted)["error"] == {
        "code": "forbidden",
        "message": f"workload.delete changes the node, and uid {NOBODY} may only read. Run it as root.",
        "data": {},
    }
    assert json.loads(planned)["error"]["message"] == (
        f"node.plan takes state from root alone, and not from uid {NOBODY}."
    )
    assert cni[:2] == "1\n" and json.loads(cni[2:])["msg"] == f"uid {NOBODY} may not attach workloads"
    assert as_nobody(daemon, NOBODY - 1, asked[0]) == ["Permission denied"]
    assert daemon.call("workload.list")["workloads"]
