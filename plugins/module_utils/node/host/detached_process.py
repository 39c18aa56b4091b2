# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that outlives the process that starts it and the connection by which that one came."""

from __future__ import annotations

import os
import re
import subprocess
import typing as t

#: The cgroup of a logind session. When a session ends, logind kills all processes in its cgroup if logind.conf says so
#: (KillUserProcesses=).
_SESSION = re.compile(r"/session-[^/]*\.scope(?:/|$)", re.MULTILINE)


def start(command: t.Sequence[str], proc: str = "/proc") -> None:
    """Start `command` detached, so that sshd can close the connection, and return without waiting for its end.

    The process gets a session of its own, and /dev/null as its standard streams. In a session of logind it is a
    transient service instead, because logind may kill all processes of a session at its end. If a service would see
    other files, network or processes, or if systemd-run is missing, fails or takes more than 10 seconds, the process is
    started as without logind. After the 10 seconds systemd may start the service all the same: `command` must be safe
    to run twice at a time. `proc` is the folder of proc(5), for tests. Raise OSError if the command cannot be started.
    """
    nowhere = subprocess.DEVNULL
    if _in_a_session_of_init(proc):
        service = ["systemd-run", "--quiet", "--collect", "--description=Waits for a change to be confirmed", *command]
        try:
            done = subprocess.run(service, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=10, check=False)
            if done.returncode == 0:
                return
        except (FileNotFoundError, subprocess.TimeoutExpired):
            pass  # The command is started below, as on a host without systemd.
    process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd="/", start_new_session=True)
    process.returncode = 0  # Without a return code, Popen would warn that the process still runs.


def _in_a_session_of_init(proc: str) -> bool:
    """Return whether this process is in a logind session, with the files, network and processes of a service."""
    try:
        with open(f"{proc}/self/cgroup", encoding="utf-8") as stream:
            if not _SESSION.search(stream.read()):
                return False
        return all(
            os.readlink(f"{proc}/self/ns/{kind}") == os.readlink(f"{proc}/1/ns/{kind}")
            for kind in ("mnt", "net", "pid")
        )
    except OSError:
        return False
