# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that stays when this one and the connection that it came by are gone."""

from __future__ import annotations

import os
import re
import subprocess
import typing as t

#: Of logind's sessions, which it kills as a whole at their end where logind.conf says KillUserProcesses=yes.
_SESSION = re.compile(r"/session-[^/]*\.scope(?:/|$)", re.MULTILINE)


def start(command: t.Sequence[str], proc: str = "/proc") -> None:
    """In a session of its own, without the pipes of the connection: sshd waits for nobody else.

    Where the connection is one of logind's sessions, as a transient service, which that does not take along.
    `proc` is for tests. Raises OSError.
    """
    nowhere = subprocess.DEVNULL
    if _in_a_session_of_init(proc):
        service = ["systemd-run", "--quiet", "--collect", "--description=Waits for a change to be confirmed", *command]
        try:
            done = subprocess.run(service, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=10, check=False)
            if done.returncode == 0:
                return
        except (FileNotFoundError, subprocess.TimeoutExpired):
            pass  # as on a host without systemd
    process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd="/", start_new_session=True)
    process.returncode = 0  # nobody waits for it here


def _in_a_session_of_init(proc: str) -> bool:
    """And the service would see the files and the network that this process sees."""
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
