# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads whose namespace is gone and for which no runtime sends a DEL."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.agent.node_under_test import BLOCK, Node
from tests.unit.agent.virtual_time import run

CONTAINER = {"network": "calico", "container": "c1"}


def test_the_workload_of_a_container_that_ended_is_deleted_after_the_time_of_grace(tmp_path, caplog):
    async def scenario():
        node = Node(tmp_path, leak_grace=100.0)
        agent = await node.start()
        gone, kept = await node.add("gone", **CONTAINER), await node.add("kept", **CONTAINER)
        node.kernel.netns_delete("gone")
        await asyncio.sleep(90)
        assert agent.transactions.get("default/gone").addresses == (gone,)
        await asyncio.sleep(200)
        assert [workload.id for workload in agent.transactions.list()] == ["default/kept"]
        assert node.on_disk() == {"default/kept": kept} and node.records == {"default%2Fkept.json"}
        assert node.routes == {BLOCK, f"{kept}/32"} and agent.addresses.check(agent.workloads)["problems"] == 0
        assert caplog.messages[-1] == "Workload default/gone is deleted: its namespace has been gone for 120 s."
        await node.kill()

    run(scenario())


def test_the_time_of_grace_begins_again_with_an_agent(tmp_path):
    async def scenario():
        node = Node(tmp_path, leak_grace=100.0)
        await node.start()
        await node.add("gone", **CONTAINER)
        node.kernel.netns_delete("gone")
        await asyncio.sleep(90)
        agent = await node.restart()
        await asyncio.sleep(90)
        assert [workload.id for workload in agent.transactions.list()] == ["default/gone"]
        await asyncio.sleep(100)
        assert agent.transactions.list() == [] and node.on_disk() == {}
        await node.kill()

    run(scenario())


@pytest.mark.parametrize("returns", [True, False], ids=["attached again", "of a user"])
def test_a_workload_that_may_be_in_use_stays(tmp_path, returns):
    """A container that is attached again, and the namespace of a user, which may come back under its name, keep it."""

    async def scenario():
        node = Node(tmp_path, leak_grace=100.0)
        agent = await node.start()
        more = CONTAINER if returns else {}
        await node.add("box", **more)
        node.kernel.netns_delete("box")
        await asyncio.sleep(90)
        if returns:
            await agent.transactions.delete("default/box")
            await node.add("box", **more)
        await asyncio.sleep(300)
        assert [workload.id for workload in agent.transactions.list()] == ["default/box"]
        await node.kill()

    run(scenario())


def test_a_disk_that_refuses_is_tried_again(tmp_path, caplog):
    async def scenario():
        node = Node(tmp_path, leak_grace=100.0)
        agent = await node.start()
        await node.add("gone", **CONTAINER)
        node.kernel.netns_delete("gone")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node.agent.persisted.records, "leave", _full)
            await asyncio.sleep(300)
            assert [workload.id for workload in agent.transactions.list()] == ["default/gone"]
            assert caplog.messages[-1].startswith("Workloads that ended cannot be checked: ")
        await asyncio.sleep(61)
        assert agent.transactions.list() == []
        await node.kill()

    run(scenario())


def _full(id):
    raise OSError(28, "No space left on device")
