# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test that the agent counts what it does."""

from __future__ import annotations

import errno
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent_metrics import watch_agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics import metrics
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.release import VERSION
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.unit.agent.node_under_test import SPARE, Node
from tests.unit.agent.virtual_time import run


def test_a_node_in_figures(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        agent = await node.start()
        measured = agent.instruments
        watch_agent(measured, agent)
        await node.add("web")
        await node.add("gone")
        await agent.transactions.delete("default/gone")
        await agent.changes.resync()
        node.kernel.sysctl_write("net/ipv4/ip_forward", "0")
        agent.passes.stages.mark()
        await node.settle()
        metrics.text(measured.registry)
        assert measured.build_info.value(VERSION, "", "node1") == 1
        assert (measured.in_sync.value(), measured.state_complete.value()) == (1, 1)
        assert (measured.last_converged.value() or 0) > 1e9
        assert [measured.workloads.value(state) for state in ("run_time", "inventory", "deleting")] == [1, 0, 0]
        assert measured.pool_free_ratio.value("default-pool") == 15 / 16
        assert measured.block_addresses.value("default-pool", SPARE, "free") == 8
        assert measured.blocks.value("default-pool", "spare") == 1
        assert [measured.resyncs.value(reason) for reason in ("start", "request", "timer")] == [1, 1, 0]
        assert measured.drift.value("sysctl") == 2 and measured.drift.value("route") == 0
        assert measured.changes.value("sysctl") >= 1
        assert measured.apply_seconds.count("sysctl") >= 1
        assert measured.flush_seconds.count() >= 2
        assert measured.errors.value("sysctl") == 0

        node.kernel.sysctl_write("net/ipv4/ip_forward", "0")
        node.kernel.fail_next("sysctl_write", errno.EPERM)
        agent.passes.stages.mark()
        await node.settle()
        assert measured.errors.value("sysctl") == 1
        assert measured.in_sync.value() == 1

        assert measured.refused.value() == 0
        for number in range(15):
            await node.add(f"w{number}")
        with pytest.raises(AgentError):
            await node.add("late")
        assert measured.refused.value() == 1
        metrics.text(measured.registry)
        assert measured.pool_free_ratio.value("default-pool") == 0

    run(scenario())
