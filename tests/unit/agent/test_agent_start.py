# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the agent's start, and of states that are handed over to it."""

from __future__ import annotations

import asyncio
import shutil

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.known import events
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.workloads import failpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.workload import MARK
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    NewLink,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Route
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.fakes.kernel import FakeKernel
from tests.unit.agent.node_under_test import BLOCK, STATE, Killed, Node, with_state
from tests.unit.agent.virtual_time import run
from tests.unit.dataplane.suites.drivers import underlay

MORE = with_state(routes=(*STATE.routes, Route("10.244.9.0/29", "blackhole")))


def leftover(kernel):
    """Add the veth pair of a workload that has no record."""
    kernel.link_add(NewLink("cali999", "veth", peer_name="left"))
    kernel.link_set("cali999", alias=f"{MARK}default/unknown")


def test_a_restart_changes_nothing(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        await node.start()
        addresses = [await node.add(f"w{number}") for number in range(3)]
        before = node.kernel.snapshot()
        written = []
        node.kernel.watch(written.append)
        agent = await node.restart()
        await node.settle()
        assert agent.status.in_sync and written == [] and node.kernel.snapshot() == before
        assert [workload.addresses[0] for workload in agent.transactions.list()] == addresses
        assert await node.add("w3") not in addresses

    run(scenario())


@pytest.mark.parametrize("point", failpoints.POINTS)
def test_killed_at_any_point(tmp_path, monkeypatch, point):
    """After a restart, an interrupted add is there as a whole or not at all, and an interrupted delete is completed.

    tests/integration/agent/test_crashes.py kills a real process at the same points.
    """

    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        await node.add("kept")
        if point in failpoints.DELETE:
            await node.add("web")

        monkeypatch.setattr(failpoints, "point", node.process.killed_at(point))
        if point in failpoints.ADD:
            with pytest.raises(Killed):
                await agent.transactions.add(node.request("web"))
        elif point in ("delete.unlinked", "delete.forgotten"):
            await agent.transactions.delete("default/web")
            await asyncio.gather(*node.tasks[1:2], return_exceptions=True)
        else:
            with pytest.raises(Killed):
                await agent.transactions.delete("default/web")
        monkeypatch.undo()
        agent = await node.restart()
        stands = point == "add.committed"
        assert node.differences() == [] and agent.status.in_sync
        assert node.on_disk().keys() == {"default/kept", *(["default/web"] if stands else [])}
        assert len(node.links) == len(node.records) == len(node.routes) - 1 == 1 + stands
        assert await node.add("web") == "10.244.1.1" if stands else await node.add("web")
        assert node.differences() == []

    run(scenario())


def test_leftovers_go_after_a_time_of_grace(tmp_path):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=60.0)
        leftover(node.kernel)
        agent = await node.start()
        await asyncio.sleep(50)
        assert "cali999" in node.links
        await asyncio.sleep(15)
        assert node.links == set() and agent.status.in_sync

    run(scenario())


def test_leftovers_go_at_once_when_a_run_says_that_all_is_known(tmp_path):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=60.0)
        leftover(node.kernel)
        agent = await node.start()
        assert (await agent.changes.apply(None, False)).changes == ()
        assert "cali999" in node.links
        changes = (await agent.changes.apply(None, True)).changes
        assert [change.action for change in changes] == ["-"] and node.links == set()

    run(scenario())


def test_the_address_of_a_workload_lost_in_a_reboot_is_kept_for_leak_grace(tmp_path):
    async def scenario():
        node = Node(tmp_path, leak_grace=900.0)
        await node.start()
        addresses = {name: await node.add(name) for name in ("back", "gone")}
        await node.kill()
        shutil.rmtree(tmp_path / "run")
        node.kernel = FakeKernel()
        underlay(node.kernel)
        agent = await node.start()
        assert agent.transactions.list() == [] and node.routes == {BLOCK}
        assert await node.add("other") not in addresses.values()
        assert await node.add("back") == addresses["back"]
        await asyncio.sleep(840)
        assert set(node.on_disk()) == {"default/back", "default/gone", "default/other"}
        await asyncio.sleep(180)
        assert set(node.on_disk()) == {"default/back", "default/other"}

    run(scenario())


def test_a_delete_after_the_reboot_frees_the_address_at_once(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        await node.start()
        await node.add("web")
        await node.kill()
        shutil.rmtree(tmp_path / "run")
        agent = await node.start()
        assert await agent.transactions.delete("default/web") is True and node.on_disk() == {}
        assert await agent.transactions.delete("default/web") is False

    run(scenario())


def test_nothing_is_removed_while_the_state_is_not_complete(tmp_path):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=0.0)
        node.store.save(Stored(MORE, complete=True))
        agent = await node.start()
        assert "10.244.9.0/29" in node.routes
        node.store.save(Stored(STATE, complete=False))
        agent.changes.reload()
        await asyncio.sleep(200)
        assert "10.244.9.0/29" in node.routes
        node.store.save(Stored(STATE, complete=True))
        agent.changes.reload()
        await asyncio.sleep(5)
        assert "10.244.9.0/29" not in node.routes

    run(scenario())


def test_the_end_of_the_run_that_started_the_agent_is_read_from_the_disk(tmp_path):
    """The first run stores its state as complete after it has started the agent; another state does not count."""

    async def scenario():
        node = Node(tmp_path, cleanup_grace=0.0)
        node.store.save(Stored(STATE, complete=False))
        agent = await node.start()
        leftover(node.kernel)
        node.store.save(Stored(MORE, complete=True))
        await asyncio.sleep(60)
        assert not agent.status.to_dict()["complete"] and "cali999" in node.links
        node.store.save(Stored(STATE, complete=True))
        await asyncio.sleep(60)
        assert agent.status.to_dict()["complete"] and "cali999" not in node.links

    run(scenario())


def test_a_state_is_handed_over_in_two_steps(tmp_path):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=0.0)
        agent = await node.start()
        await node.add("web")
        other = with_state(routes=(Route(BLOCK, "blackhole"), Route("10.244.8.0/29", "blackhole")))
        node.store.save(Stored(MORE, complete=True))
        await agent.changes.apply(None, True)
        assert [change.line().split()[0:3] for change in (await agent.changes.plan(other)).changes] == [
            ["+", "route", "10.244.8.0/29"],
            ["-", "route", "10.244.9.0/29"],
        ]
        outcome = await agent.changes.apply(other, False)
        assert [change.subject for change in outcome.changes] == ["10.244.8.0/29"] and outcome.problems == ()
        await asyncio.sleep(200)
        assert node.routes == {BLOCK, "10.244.1.0/32", "10.244.8.0/29", "10.244.9.0/29"}
        outcome = await agent.changes.apply(other, True)
        assert [change.subject for change in outcome.changes] == ["10.244.9.0/29"] and outcome.in_sync
        assert agent.status.to_dict()["complete"] and agent.drift.to_dict()["total"] == 0

    run(scenario())


async def text_of(awaitable):
    with pytest.raises(AgentError) as caught:
        await awaitable
    assert caught.value.code == "unavailable"
    return caught.value.message


@pytest.mark.parametrize("broken", ["lib/state.json", "lib/ipam/allocations"])
def test_a_damaged_file_stops_adds_and_nothing_else(tmp_path, broken):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=0.0, leak_grace=0.0)
        await node.start()
        for name in ("kept", "goes"):
            await node.add(name)
        await node.kill()
        file = tmp_path / broken
        content = file.read_bytes()
        file.write_bytes(b"nonsense\n" + content[:50])
        before = node.kernel.snapshot()
        agent = await node.start()
        await asyncio.sleep(200)
        assert node.kernel.snapshot() == before
        (problem,) = agent.status.to_dict()["problems"]
        assert (
            str(file) in problem
            and not agent.status.in_sync
            and agent.status.readiness() == f"{agent.transactions.health()[0]} {problem}"
        )
        words = await text_of(agent.transactions.add(node.request("new")))
        assert words == f"no workload can be added to this node: {problem}"
        assert await agent.transactions.delete("default/goes") is True
        await asyncio.sleep(20)
        assert len(node.links) == 1
        file.write_bytes(content)
        agent.changes.reload()
        await asyncio.sleep(20)
        assert agent.status.to_dict()["problems"] == []
        await node.add("new")
        assert set(node.on_disk()) == {"default/kept", "default/new"} and node.records == {
            "default%2Fkept.json",
            "default%2Fnew.json",
        }
        assert node.differences() == [] and agent.status.in_sync

    run(scenario())


def test_workloads_keep_their_addresses_when_somebody_moves_a_damaged_journal_away(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        await node.start()
        addresses = {f"default/w{number}": await node.add(f"w{number}") for number in range(3)}
        await node.kill()
        (tmp_path / "lib" / "ipam" / "allocations").unlink()
        agent = await node.start()
        assert node.on_disk() == addresses and agent.status.to_dict()["problems"] == []
        assert await node.add("new") not in addresses.values()
        assert agent.addresses.check(agent.workloads)["problems"] == 0

    run(scenario())


def test_the_last_good_state_holds_while_the_new_one_is_damaged(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        (tmp_path / "lib" / "state.json").write_text("{")
        agent.changes.reload()
        address = await node.add("web")
        node.kernel.link_delete(agent.transactions.get("default/web").interface)
        agent.passes.stages.mark()
        await asyncio.sleep(5)
        assert f"{address}/32" in node.routes and not agent.status.in_sync

    run(scenario())


def test_a_record_that_cannot_be_read_is_no_reason_to_take_its_workload_away(tmp_path):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=0.0, leak_grace=0.0)
        await node.start()
        await node.add("web")
        (tmp_path / "run" / "workloads" / "default%2Fweb.json").write_text("{")
        before = node.kernel.snapshot()
        agent = await node.restart()
        await asyncio.sleep(200)
        assert node.kernel.snapshot() == before and node.on_disk() == {"default/web": "10.244.1.0"}
        assert "default%2Fweb.json" in agent.status.to_dict()["problems"][0]
        assert agent.transactions.health() == []

    run(scenario())


@pytest.mark.parametrize("remedy", ["file removed", "deleted", "deleted and added again"])
def test_the_remedy_for_a_damaged_record_needs_no_restart(tmp_path, remedy):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=0.0)
        await node.start()
        for name in ("web", "db"):
            await node.add(name)
        file = tmp_path / "run" / "workloads" / "default%2Fweb.json"
        file.write_text("{")
        agent = await node.restart()
        assert not agent.persisted.whole
        if remedy == "file removed":
            file.unlink()
        else:
            assert await agent.transactions.delete("default/web") is True
        if remedy == "deleted and added again":
            await node.add("web")
        agent.datastore.publisher.changed.clear()
        await asyncio.sleep(90)
        assert agent.status.to_dict()["problems"] == [] and agent.persisted.whole and agent.status.in_sync
        assert agent.datastore.publisher.changed.is_set()
        left = {"default/web", "default/db"} if remedy == "deleted and added again" else {"default/db"}
        assert {workload.id for workload in agent.transactions.list()} == left and len(node.links) == len(left)
        assert node.differences() == []

    run(scenario())


def test_a_record_that_is_repaired_by_hand_needs_a_restart(tmp_path):
    async def scenario():
        node = Node(tmp_path, cleanup_grace=0.0)
        await node.start()
        await node.add("web")
        file = tmp_path / "run" / "workloads" / "default%2Fweb.json"
        content = file.read_bytes()
        file.write_text("{")
        await node.restart()
        file.write_bytes(content)
        await asyncio.sleep(90)
        (problem,) = node.agent.status.to_dict()["problems"]
        assert problem == "The record of workload default/web can be read again. Restart calico-agent, which takes it."
        assert len(node.links) == 1
        agent = await node.restart()
        assert agent.status.to_dict()["problems"] == [] and len(agent.transactions.list()) == 1

    run(scenario())


def test_watchers_are_told(tmp_path):
    async def scenario():
        node = Node(tmp_path)
        agent = await node.start()
        seen = []

        async def watch():
            async for event in agent.events.watch():
                seen.append(event)

        task = asyncio.ensure_future(watch())
        await asyncio.sleep(0)
        address = await node.add("web")
        route = dict(node.kernel.routes(table=254))[f"{address}/32"]
        node.kernel.route_batch([RouteOperation("delete", f"{address}/32", route)])
        agent.passes.stages.mark("route")
        await node.settle()
        await agent.transactions.delete("default/web")
        await node.settle()
        task.cancel()
        assert [(event["event"], event.get("change", {}).get("subject")) for event in seen] == [
            ("added", None),
            ("drift", f"{address}/32"),
            ("deleted", None),
        ]
        assert agent.drift.to_dict() == {"total": 1, "day": 1, "kinds": {"route": 1}}

    run(scenario())


def test_a_slow_watcher_gets_an_overflow_event(tmp_path):
    async def scenario():
        told = events.Events()
        watching = told.watch()
        first = asyncio.ensure_future(watching.__anext__())
        await asyncio.sleep(0)
        for number in range(events.BACKLOG + 5):
            told.tell("drift", number=number)
        assert (await first)["number"] == 0
        seen = [event async for event in watching]
        assert len(seen) == events.BACKLOG and seen[-1]["event"] == "overflow" and seen[-2]["number"] == len(seen) - 1

    run(scenario())
