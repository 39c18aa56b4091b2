# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random attacks by a member of group `calico`: 10,000 lines, 100,000 with HOST_ROUTING_SOAK=1."""

from __future__ import annotations

import json
import os
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import protocol
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.integration.agent.daemon_under_test import Daemon, install_engine
from tests.integration.attacks.local_users import GID, MEMBER, daemon_with_readers, start

LINES = 100_000 if os.environ.get("HOST_ROUTING_SOAK") == "1" else 10_000
AT_ONCE = 2000  # lines on a connection

# A program that sends all of its stdin to the agent on one connection, reads the answers meanwhile, and prints them.
SAY = """\
import socket, sys, threading
said = sys.stdin.buffer.read()
connection = socket.socket(socket.AF_UNIX)
connection.connect("agent.sock")
def send():
    try:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass
sender = threading.Thread(target=send)
sender.start()
try:
    while chunk := connection.recv(1 << 18):
        sys.stdout.buffer.write(chunk)
except ConnectionResetError:
    pass
sender.join()
"""
READING: dict[str, dict[str, t.Any]] = {
    "workload.get": {"id": "default/web"},
    "workload.list": {"selector": "app == 'web' && has(tier) || !(a in {'b', \"c\"})"},
    "workload.check": {"id": "default/web"},
    "status": {},
    "ipam.show": {},
    "ipam.check": {},
    "policy.drops": {"workload": "default/web", "since": 60, "after": 3},
    "version": {},
}
QUICK = tuple(method for method in READING if method != "workload.check")
CHANGING = ("workload.add", "workload.delete", "workload.label", "node.apply", "resync", "ipam.release", "watch")
ODD: tuple[t.Any, ...] = (
    *("", " ", "/", "..", "../../etc/passwd", "a" * 3000, "a\0b", "a\nb", "\x1b[2J", "é", "default/web"),
    *("has(", "!" * 3000, "(" * 3000, "a in {" + "'b'," * 900 + "}", "all()" + " && all()" * 400, "a == '" + "'" * 99),
    *(-1, 0, 1, 2**63, 10**18, 1.5, -1e308, 1e-308, True, False, None, [], {}, [[[]]], {"": ""}, {"a": [None]}),
)
PIECES = (
    b"{",
    b"}",
    b"[",
    b'"',
    b"\\",
    b"\\u",
    b"\\ud800",
    b"\0",
    b"\xff",
    b":",
    b"1e999",
    b"NaN",
    b"9" * 5000,
    b"[" * 3000,
)


def line(chance: random.Random) -> bytes:
    """Return a request, often with odd values or damage, or noise; never an empty line, nor a valid `watch`.

    It has no line break.
    """
    method = chance.choice([*QUICK, *QUICK, *QUICK, *CHANGING, "workload.check", "", "x" * 3000, "__class__"])
    params = json.loads(json.dumps(READING.get(method, {})))
    for _ in range(chance.randrange(3)):
        name = chance.choice([*params, "state", "id", "selector", "since", chance.choice(["", "self", "é" * 50])])
        params[name] = chance.choice(ODD)
    asked: dict[str, t.Any] = {"id": chance.choice([1, None, "x", "y" * 2000]), "method": method, "params": params}
    if method == "watch":
        asked["params"] = {"odd": 1}  # a valid `watch` would not end
    if chance.random() < 0.2:
        asked[chance.choice(["id", "method", "params", "version", "odd"])] = chance.choice(ODD)
    data = json.dumps(asked, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    for _ in range(chance.choice([0, 0, 0, 1, 2])):
        at = chance.randrange(len(data))
        data = data[:at] + chance.choice([b"", *PIECES, chance.randbytes(5)]) + data[at + chance.randrange(4) :]
    if chance.random() < 0.05:
        data = chance.randbytes(chance.randrange(1, 200))
    data = data.replace(b"\n", b" ")
    if _watches(data):  # after a valid `watch` the agent answers no further line
        data = data.replace(b'"watch"', b'"watch "')
    return data if data.strip() else b"-"


def _watches(data: bytes) -> bool:
    """Return whether the agent would take `data` for a request to watch."""
    try:
        return protocol.parse(data).method == "watch" and protocol.parse(data).params == {}
    except AgentError:
        return False


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Daemon]:
    engine = install_engine(tmp_path_factory.mktemp("engine"))
    with daemon_with_readers(engine, tmp_path_factory.mktemp("fuzz")) as daemon:
        daemon.add("web", labels={"app": "web"})
        daemon.in_sync()
        yield daemon


def written(daemon: Daemon) -> dict[str, t.Any]:
    """Return the agent's stored files, links, routes, log and status by name; raise what `status_in_sync` raises."""
    status = daemon.status_in_sync()
    folders = [daemon.folder / "lib", daemon.folder / "run" / "workloads"]
    files = {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}
    kernel = {"links": daemon.links, "routes": daemon.routes}
    return {"files": files, **kernel, "log": daemon.log.read_text(), "status": status}


def test_ten_thousand_lines(daemon: Daemon) -> None:
    """Send random lines to the API.

    Gain: A crash of the agent, an error that reveals too much, or a change.
    Precedent: CWE-20.
    Closed: 0.2.0
    Result: Each line gets one answer with a result or a documented code, and nothing is written.
    """
    before = written(daemon)
    memory = daemon.memory()
    chance = random.Random(int(os.environ.get("HOST_ROUTING_FUZZ_SEED", "7")))
    codes: dict[str, int] = {}
    for _ in range(LINES // AT_ONCE):
        lines = [line(chance) for _ in range(AT_ONCE)]
        heard, _ = start(daemon, MEMBER, [GID], SAY).communicate(b"\n".join(lines), timeout=600)
        answers = heard.splitlines()
        assert len(answers) == len(lines), answers[-1:]
        for asked, answered in zip(lines, answers):
            answer = json.loads(answered)
            if "error" in answer:
                error = answer["error"]
                assert error["code"] in protocol.CODES - {protocol.INTERNAL}, (asked, answer)
                assert error["message"].endswith(".") and len(error["message"]) < 700, (asked, answer)
                codes[error["code"]] = codes.get(error["code"], 0) + 1
            else:
                assert answer.keys() == {"id", "result"}, (asked, answer)
    assert {protocol.FORBIDDEN, protocol.INVALID_PARAMS, protocol.NOT_FOUND, protocol.UNKNOWN_METHOD} <= codes.keys()
    assert written(daemon) == before
    assert daemon.memory() - memory < 4096


def test_requests_in_pieces(daemon: Daemon) -> None:
    """Send requests byte by byte, and disconnect in the middle.

    Gain: Mixed-up requests of others, or memory that stays used.
    Precedent: CWE-444.
    Closed: 0.2.0
    Result: The pieces make no difference.
    """
    source = """\
import json, random, socket, sys
chance = random.Random(3)
said = b'{"id":1,"method":"version"}\\n{"id":2,"method":"workload.get","params":{"id":"default/web"}}\\n'
for number in range(60):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("agent.sock")
        at, end = 0, len(said) if number % 2 else chance.randrange(len(said))
        while at < end:
            step = chance.randrange(1, 9)
            connection.sendall(said[at:min(at + step, end)])
            at += step
        if number % 2:
            lines = connection.makefile("rb")
            assert [json.loads(next(lines))["id"] for _ in range(2)] == [1, 2]
"""
    before = written(daemon)
    process = start(daemon, MEMBER, [GID], source)
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert written(daemon) == before
