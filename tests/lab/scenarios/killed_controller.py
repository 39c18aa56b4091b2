# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller that dies: a run of Ansible that ends with all its processes at once.

Ansible's workers are in sessions of their own, and the masters of shared SSH connections are daemons. A signal to the
run's process group reaches neither, and a worker that survives may finish what the run was killed in. So the run gets a
PID namespace: with the namespace's first process the kernel kills all others in it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path


@contextlib.contextmanager
def run_to_kill(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Start a command of ansible-playbook in `folder`; yield its process, whose stdout has its output, with stderr.

    At the end, kill what is left of it. Its SSH connections are its own: it shares none with other runs, whose masters
    would survive.
    """
    with tempfile.TemporaryDirectory(prefix="run-") as connections:
        process = subprocess.Popen(
            # The folder of connections is an extra variable, because the inventory sets that variable, too.
            ["unshare", "--pid", "--fork", "--kill-child", "--", *command, f"-eansible_control_path_dir={connections}"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                kill_run(process)
            assert process.stdout is not None
            process.stdout.close()


def kill_run(process: subprocess.Popen[str]) -> None:
    """Kill all processes of a run that `run_to_kill` started, and return when they have ended.

    Raise AssertionError if the run has ended by itself before, and TimeoutExpired if that takes over 30 seconds.
    """
    ended = process.poll() is not None
    children = [] if ended else Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    # A run that has ended a moment ago is no child any more, although `unshare` has not ended yet.
    assert children, f"the run ended by itself, with status {process.wait(timeout=30)}"
    os.kill(int(children[0]), signal.SIGKILL)
    # The kernel lets the first process end only after all others of its namespace, and `unshare` waits for the first.
    process.wait(timeout=30)


def output_until(process: subprocess.Popen[str], task: str) -> str:
    """Return a run's output from where it was read last up to the line that announces `task`.

    Ansible announces a task at its beginning only with PYTHONUNBUFFERED and ANSIBLE_DISPLAY_SKIPPED_HOSTS in its
    environment; otherwise with its first result. Raise AssertionError if the run ends before that.
    """
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith("TASK") and task in line:
            return "".join(seen)
    raise AssertionError(f"{task} never began:\n{''.join(seen[-60:])}")


#: The environment in which Ansible announces each task at its beginning; see `output_until`.
ANNOUNCING = {"PYTHONUNBUFFERED": "1", "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "true"}
