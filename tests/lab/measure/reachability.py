# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""New SSH connections to hosts of the lab, while something changes that may cut them off."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence

from ..handle import BaseLab


class Reachability:
    """New SSH connections to all `nodes`, with a pause of so many seconds between two, while a with block runs.

    An attempt fails after 10 seconds. Leaving the block waits for attempts under way.
    """

    def __init__(self, lab: BaseLab, nodes: Sequence[str], pause: float = 1.0) -> None:
        self._lab = lab
        self._pause = pause
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(node,)) for node in nodes]
        self.silent: dict[str, float] = dict.fromkeys(nodes, 0.0)  # the longest time without an answer, in seconds

    def __enter__(self) -> Reachability:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, node: str) -> None:
        answered = time.monotonic()
        while not self._done.is_set():
            if reachable(self._lab, node):
                answered = time.monotonic()
            self.silent[node] = max(self.silent[node], time.monotonic() - answered)
            self._done.wait(self._pause)


def reachable(lab: BaseLab, node: str) -> bool:
    """Return whether a new SSH connection to a host comes about within 10 seconds."""
    command = ["ssh", "-F", str(lab.ssh_config), "-o", "ControlPath=none", node, "true"]
    try:
        # ssh gets a stdin of its own: it makes its stdin non-blocking, and Ansible refuses to start with such a stdin.
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False
