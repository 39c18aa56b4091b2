# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a process that outlives its starter, whose pipes are closed all the same."""

from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host import detached_process

START = (
    "from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host import detached_process;"
    "detached_process.start(['sh', '-c', 'read line < gate; echo $(pwd) $(ps -o sid= -p $$) > out'.replace("
    "'gate', {gate!r}).replace('out', {out!r})])"
)


def test_it_goes_on_in_a_session_of_its_own(tmp_path):
    gate, out = str(tmp_path / "gate"), str(tmp_path / "out")
    for path in (gate, out):
        os.mkfifo(path)
    paths = os.pathsep.join(path for path in sys.path if path)
    starter = subprocess.run(
        [sys.executable, "-c", START.format(gate=gate, out=out)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert (starter.stdout, starter.stderr) == ("", ""), "it ended, and so did its pipes"
    with open(gate, "w", encoding="utf-8") as stream:
        stream.write("go\n")
    with open(out, encoding="utf-8") as stream:
        folder, session = stream.read().split()
    assert folder == "/"
    assert int(session) != os.getsid(0)


SERVICE = '#!/bin/sh\necho "$@" > {called}\nexit {status}\n'


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A function that starts a process, on a host with the given /proc and a systemd-run that exits with `status`.

    `own` has the numbers of the starter's namespaces that are not those of process 1. The function waits up to 60
    seconds for the process, but 0.2 if systemd-run succeeded. It returns the arguments of systemd-run ("" if that was
    not called), and whether the process started without it.
    """

    def make(cgroup, own=(), status=0):
        for process in ("self", "1"):
            (tmp_path / "proc" / process / "ns").mkdir(parents=True)
            for kind in ("mnt", "net", "pid"):
                number = dict(own).get(kind, 5) if process == "self" else 5
                (tmp_path / "proc" / process / "ns" / kind).symlink_to(f"{kind}:[{number}]")
        (tmp_path / "proc/self/cgroup").write_text(f"0::{cgroup}\n")
        (tmp_path / "bin").mkdir()
        called, program = tmp_path / "called", tmp_path / "bin" / "systemd-run"
        program.write_text(SERVICE.format(called=called, status=status))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        done = tmp_path / "done"
        os.mkfifo(done)
        reading = os.open(done, os.O_RDONLY | os.O_NONBLOCK)
        detached_process.start(["sh", "-c", f"echo done > {done}"], proc=str(tmp_path / "proc"))
        by_itself = bool(select.select([reading], [], [], 60 if status or not called.exists() else 0.2)[0])
        os.close(reading)
        return called.read_text() if called.exists() else "", by_itself

    return make


def test_in_a_session_of_logind_systemd_starts_it(host):
    called, by_itself = host("/user.slice/user-0.slice/session-3.scope")
    assert called.startswith("--quiet --collect ") and " sh -c echo done > " in called
    assert not by_itself


@pytest.mark.parametrize(
    ("cgroup", "own"),
    [
        ("/system.slice/calico-agent.service", {}),
        # One of this process's namespaces is not systemd's, in which systemd would start the new process.
        *(
            ("/user.slice/user-0.slice/session-3.scope", {kind: number})
            for kind in ("mnt", "net", "pid")
            for number in (4, 6)
        ),
    ],
)
def test_elsewhere_it_is_started_here(host, cgroup, own):
    assert host(cgroup, own) == ("", True)


def test_a_process_that_systemd_does_not_start_is_started_directly(host):
    called, by_itself = host("/user.slice/user-0.slice/session-3.scope", status=1)
    assert called and by_itself
