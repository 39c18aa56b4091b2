# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands in an emulated machine that has ended say so, whether or not a test asks for their exit status."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.lab.handle import CommandFailed
from tests.lab.machines.machine import MachineLab
from tests.lab.topology import LabError


class Reached(MachineLab):
    """A machine whose files lie in a folder of the test's own, and whose commands run here."""

    def __init__(self, folder: Path) -> None:
        super().__init__("lost")
        self._folder = folder

    @property
    def _here(self) -> Path:
        return self._folder

    def argv(self, where: str, command: Sequence[str]) -> list[str]:
        # The last word is what `_pid` looks for in the command line of the process.
        return [*command, str(self._folder)]


@pytest.mark.parametrize("check", [True, False])
def test_a_machine_that_has_ended_is_named(check: bool, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("qemu: a fault")
    (tmp_path / "console").write_text("Kernel panic")
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")  # a process of another program has the id now
    with pytest.raises(LabError) as caught:
        Reached(tmp_path).exec("node1", "exit 255", check=check)
    assert str(caught.value) == (
        "node1: the emulated machine has ended. QEMU's exit status: unknown, it said: qemu: a fault\n"
        "The console ended with: Kernel panic"
    )


def test_a_machine_that_does_not_answer_is_named(tmp_path: Path) -> None:
    (tmp_path / "console").write_text("soft lockup")
    with (
        subprocess.Popen(["tail", "-f", "/dev/null", str(tmp_path / "console")], stdout=subprocess.DEVNULL) as qemu,
        socket.socket(socket.AF_UNIX) as monitor,
    ):
        (tmp_path / "pid").write_text(f"{qemu.pid}\n")
        monitor.bind(str(tmp_path / "monitor"))
        monitor.listen()
        answering = threading.Thread(target=_answer, args=(monitor,), daemon=True)
        answering.start()
        with pytest.raises(LabError) as caught:
            Reached(tmp_path).exec("node1", "exit 255")
        qemu.kill()
        monitor.shutdown(socket.SHUT_RDWR)  # ends the thread: a closed socket would not
        answering.join()
    assert str(caught.value) == (
        "node1: the emulated machine does not answer. QEMU's monitor says: VM status: running\n"
        "The console ended with: soft lockup"
    )


def _answer(monitor: socket.socket) -> None:
    """Answer one question as QEMU's monitor does, which repeats it first. `lost` may connect twice."""
    while True:
        try:
            connection, dummy = monitor.accept()
        except OSError:
            return
        with connection:
            connection.sendall(b"QEMU 7.2 monitor\r\n(qemu) ")
            if connection.recv(100) == b"info status\n":
                connection.sendall(b"info status\r\nVM status: running\r\n(qemu) ")


def test_a_command_may_fail_in_it(tmp_path: Path) -> None:
    lab = Reached(tmp_path)
    with pytest.raises(CommandFailed, match="exit status 1 of"):
        lab.exec("node1", "exit 1")
    assert lab.exec("node1", "exit 1", check=False).returncode == 1
