# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads that came and went leave no object behind; bench/growth.py has the same for the process as a whole."""

from __future__ import annotations

import gc
import pathlib

from tests.unit.agent import virtual_time
from tests.unit.agent.node_under_test import Node

NAMES = 10
PAIRS = 100


def test_workloads_that_came_and_went_leave_no_object_behind(tmp_path: pathlib.Path) -> None:
    async def scenario() -> tuple[int, int]:
        node = Node(tmp_path)
        await node.start()

        async def come_and_go(first: int) -> int:
            """The objects that there are afterwards."""
            for number in range(first, first + PAIRS):
                name = f"w{number}"
                await node.agent.add(node.request(name, netns=f"n{number % NAMES}", netns_owned=True))
                await node.agent.delete(f"default/{name}")
                await node.settle()
            gc.collect()
            return len(gc.get_objects())

        before, after = await come_and_go(0), await come_and_go(PAIRS)
        await node.kill()
        return before, after

    before, after = virtual_time.run(scenario())
    assert after - before < PAIRS / 4, (before, after)
