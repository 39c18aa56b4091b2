# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by names and labels of containers, beside a real agent and the process that reports them.

dockerd is a fake one. The process is that of calico-runtimes.service without its sandbox, which the lab has.
"""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
import time
import typing as t

import pytest

from tests.integration.agent.daemon_under_test import Daemon
from tests.integration.attacks.local_users import STRANGER
from tests.pauses import pause
from tests.unit.runtimes.reporter.fake_engine import FakeEngine

PREFIX = "x.org/"
WEB, DB = "ab" * 32, "cd" * 32
ENDPOINTS = {WEB: "ee" * 32, DB: "dd" * 32}


class Reporter:
    """The reporting process beside an agent whose containers `WEB` and `DB` have workloads, and their dockerd."""

    def __init__(self, daemon: Daemon, folder: pathlib.Path) -> None:
        self.daemon = daemon
        self.socket = daemon.folder / "run-runtimes" / "agent.sock"
        self.engine = FakeEngine(folder / "docker.sock")
        pid = folder / "docker.pid"
        pid.write_text(str(os.getpid()))
        self.log = folder / "reporter.log"
        words = ["--agent", self.socket, "--docker", self.engine.path, "--dockerd", pid, "--podman", folder / "none"]
        command = [sys.executable, "-I", daemon._engine, "runtimes", *words, "--engine", daemon._engine]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)

    def workload(self, container: str) -> dict[str, t.Any]:
        found = self.daemon.call("workload.get", id=f"docker/{ENDPOINTS[container]}")
        return t.cast("dict[str, t.Any]", found["workload"])

    def start(self, container: str, name: str, **labels: str) -> None:
        """Start a container, or another one in its place, and tell of it as dockerd does."""
        self.engine.add(container, name, [ENDPOINTS[container]], labels)
        self.engine.connected(container)

    def until(self, holds: t.Callable[[], t.Any]) -> None:
        began = time.monotonic()
        while not holds():
            assert time.monotonic() < began + 30, self.log.read_text()[-2000:]
            pause(began)

    def is_whole(self) -> bool:
        """Return whether the process runs, and has written no traceback and nothing that a terminal obeys."""
        text = self.log.read_text()
        return self.process.poll() is None and "Traceback" not in text and "\x1b" not in text


@pytest.fixture(scope="module")
def reporter(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Reporter]:
    daemon.stop()
    (daemon.folder / "run-runtimes").mkdir()  # RuntimeDirectory of the agent's unit
    daemon.settings(cooldown=0.0, runtime_labels=[PREFIX])
    daemon.start()
    for endpoint in ENDPOINTS.values():
        daemon.call("workload.add", name=endpoint, id=f"docker/{endpoint}", handed_over=True, labels={"x.org/own": "x"})
    made = Reporter(daemon, tmp_path_factory.mktemp("reporter"))
    yield made
    made.process.kill()
    made.process.wait(60)
    made.engine.end()


def test_labels_that_are_not_the_containers_to_choose(reporter: Reporter) -> None:
    """Start a container with labels of Calico's own, of keys that the operator set, without a prefix, and 10,000 more.

    Gain: The policy of another namespace or of another workload, or the agent's memory.
    Precedent: CWE-639, CWE-770, CVE-2019-11248 (kubelet: more shown than was chosen).
    Closed: 0.3.0
    Result: Only 32 valid labels with a chosen prefix are taken. The operator's stay as they are.
    """
    memory = reporter.daemon.memory()
    many = {f"x.org/{number:05d}": "x" for number in range(10_000)}
    reserved = {"projectcalico.org/namespace": "prod", "pcns.x.org/a": "b", "app": "web", "x.org/own": "mine"}
    reporter.start(WEB, "web", **{**many, **reserved, "x.org/00000": "\x1b[2J", "x.org/00001": "y" * 64})
    reporter.until(lambda: reporter.workload(WEB).get("container_name"))
    assert reporter.workload(WEB)["labels"] == {"x.org/own": "x", **dict(list(many.items())[2:34])}
    assert reporter.workload(DB)["labels"] == {"x.org/own": "x"}
    assert reporter.is_whole() and reporter.daemon.memory() < memory + (8 << 10)


def test_names_that_are_not_names(reporter: Reporter) -> None:
    """Start a container whose name commands a terminal, is another container's id, or another workload's name.

    Gain: The operator's terminal, or a command of the operator's for another workload.
    Precedent: CWE-150, CVE-2021-25743 (kubectl: terminal control in events).
    Closed: 0.3.0
    Result: The first one is not taken. The others stand for no workload but their own, whose name or id comes first.
    """
    reporter.start(WEB, "good")
    reporter.until(lambda: reporter.workload(WEB).get("container_name") == "good")
    for name in ("\x1b]0;x\x07", "docker/" + ENDPOINTS[DB], "x" * 300, "web\nweb"):
        reporter.start(WEB, name)
    reporter.start(DB, ENDPOINTS[WEB])
    reporter.until(lambda: reporter.workload(DB).get("container_name") == ENDPOINTS[WEB])
    assert reporter.workload(WEB)["container_name"] == "good"
    assert reporter.daemon.call("workload.get", id="default/web")["workload"].get("container_name") is None
    assert reporter.is_whole()


def test_thousands_of_events(reporter: Reporter) -> None:
    """Rename a container 5,000 times, with an event of a megabyte without an end, while workloads are added.

    Gain: An agent that attaches no container meanwhile, or a process that reports no other container.
    Precedent: CWE-400, CWE-770.
    Closed: 0.3.0
    Result: Events of one container that wait are one question. Each ADD is answered, and others are reported.
    """
    daemon = reporter.daemon
    reporter.engine.tell(b"x" * (2 << 20))
    before, asked = daemon.processor_seconds(), len(reporter.engine.asked)
    for number in range(5000):
        reporter.engine.add(WEB, f"web{number}", [ENDPOINTS[WEB]], {"x.org/a": str(number)})
        reporter.engine.renamed(WEB)
        if number % 1000 == 0:
            daemon.add(f"beside{number}")
    reporter.start(DB, "db")
    reporter.until(lambda: reporter.workload(DB).get("container_name") == "db")
    reporter.until(lambda: reporter.workload(WEB).get("container_name") == "web4999")
    assert reporter.workload(WEB)["labels"]["x.org/a"] == "4999"
    assert len(reporter.engine.asked) - asked < 500 and daemon.processor_seconds() - before < 10
    assert reporter.is_whole()


def test_the_socket_of_the_reporter_has_no_other_method(reporter: Reporter) -> None:
    """Speak to the reporter's socket: as another user, and with the methods of the agent as the reporter's process.

    Gain: Workloads, addresses and settings of the node, for a process that only reads names.
    Precedent: CWE-250, CWE-269.
    Closed: 0.3.0
    Result: Root alone may connect. The agent knows two methods there, which change nothing but names and labels.
    """
    said = ["workload.delete", "workload.add", "workload.label", "node.apply", "status", "workload.list", "watch"]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(reporter.socket))
        for method in said:
            connection.sendall(b'{"method": "%s", "params": {}}\n' % method.encode())
            assert b"unknown_method" in connection.recv(65536)
        connection.sendall(b"x" * (70 << 10))
        assert b"too_large" in connection.recv(65536)
    program = f"import socket; socket.socket(socket.AF_UNIX).connect({str(reporter.socket)!r})"
    for folder in reporter.socket.parents:
        if not folder.stat().st_mode & 1:
            folder.chmod(0o711)
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], user=STRANGER, group=STRANGER, extra_groups=(), capture_output=True,
        text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "PermissionError" in done.stderr
