# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that deleted workloads leave no objects behind; bench/growth.py checks the same for the whole process."""

from __future__ import annotations

import gc
import json
import os
import pathlib
import subprocess
import sys

from tests.conftest import ROOT
from tests.unit.agent import agent_unit, virtual_time
from tests.unit.agent.node_under_test import Node

NAMES = 10
PAIRS = 100

FREED_MEMORY = ROOT / "tests" / "unit" / "agent" / "workloads" / "freed_memory.py"


def test_workloads_that_came_and_went_leave_no_object_behind(tmp_path: pathlib.Path) -> None:
    async def scenario() -> tuple[int, int]:
        node = Node(tmp_path)
        await node.start()

        async def come_and_go(first: int) -> int:
            """Add and delete PAIRS workloads, named from `first` on; return the number of objects that `gc` tracks."""
            for number in range(first, first + PAIRS):
                name = f"w{number}"
                await node.agent.transactions.add(node.request(name, netns=f"n{number % NAMES}", netns_owned=True))
                await node.agent.transactions.delete(f"default/{name}")
                await node.settle()
            gc.collect()
            return len(gc.get_objects())

        before, after = await come_and_go(0), await come_and_go(PAIRS)
        await node.kill()
        return before, after

    before, after = virtual_time.run(scenario())
    assert after - before < PAIRS / 4, (before, after)


def test_memory_that_a_thread_gave_back_is_there_for_all() -> None:
    """With the unit's settings, glibc keeps less than 4 KiB of freed memory, and gives all threads one arena.

    glibc ignores unknown settings silently, so the test measures the effect. Without the settings, glibc keeps over
    100 KB in the test, and threads have arenas of their own.
    """
    found = []
    for more in (agent_unit.environment(), {}):
        environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
        command = [sys.executable, "-I", str(FREED_MEMORY)]
        done = subprocess.run(command, env={**environment, **more}, capture_output=True, check=True)
        found.append(json.loads(done.stdout))
    mended, left_alone = found
    assert mended["kept"] < 4096 and mended["elsewhere"] == 0, mended
    assert left_alone["kept"] > 100_000 and left_alone["elsewhere"] > 0, left_alone
