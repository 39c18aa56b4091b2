# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-playbook as users run it in this repository."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import typing as t

from tests import prepared_ansible

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: The folder with the programs of the Python environment that runs the tests.
BIN = pathlib.Path(sys.executable).parent
PIPELINED = {"ANSIBLE_PIPELINING": "1"}
#: The environment of a run on simulated hosts.
SIMULATED = {
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "bench" / "site" / "connection"),
}


def play(
    playbook: t.Union[str, pathlib.Path],
    inventory: pathlib.Path,
    *options: str,
    timeout: float = 120,
    environment: t.Optional[t.Mapping[str, str]] = None,
    prepared: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a playbook without colours; return the finished process, whatever its exit status.

    `playbook` is a path from the repository's root. `environment` is added to this process's. `prepared` False starts
    the program itself, whose temporary files go with it. Raise subprocess.TimeoutExpired after `timeout` seconds.
    """
    command = [BIN / "ansible-playbook", playbook, "-i", inventory, *options]
    variables = {**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", **(environment or {})}
    if prepared:
        return prepared_ansible.run(command, ROOT, variables, timeout)
    return subprocess.run(
        command, cwd=ROOT, env=variables, timeout=timeout, capture_output=True, text=True, check=False
    )


def play_on_simulated_hosts(playbook: str, inventory: pathlib.Path, *options: str) -> str:
    """Run one of the playbooks (such as `site`) on simulated hosts; return its stdout as one line.

    Each run of white space is one space. Raise AssertionError if the playbook fails, and subprocess.TimeoutExpired
    after 300 seconds.
    """
    done = play(f"playbooks/{playbook}.yml", inventory, *options, timeout=300, environment=SIMULATED)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return re.sub(r"\s+", " ", done.stdout)
