# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the way of other nodes' workloads from the datastore into the sets of a node."""

from __future__ import annotations

import asyncio
import pathlib
import threading
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency.driver_thread import (
    DriverThread,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.reconcile.remote_updates import (
    RemoteUpdates,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    WORKLOAD_ENDPOINT,
    Endpoint,
    Entity,
    Policy,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import (
    NodePolicyTables,
    with_policy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.other_endpoints import OtherEndpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import (
    Collected,
    RemoteEndpoints,
)

from tests.unit.agent.node_under_test import Node, with_state
from tests.unit.agent.virtual_time import run

Live = dict[tuple[str, str], t.Optional[Endpoint]]


def workloads(count: int, first: int = 0, node: str = "node2") -> Live:
    """Return workloads of a node as the datastore has them, with one address each."""
    return {
        (node, f"cali{number}"): Endpoint(
            WORKLOAD_ENDPOINT,
            f"default/w{number}",
            node,
            f"cali{number}",
            (address_of(number),),
            (("app", "client"),),
            namespace="default",
        )
        for number in range(first, first + count)
    }


def address_of(number: int) -> str:
    return f"10.244.{8 + number // 250}.{number % 250}"


def for_clients(*endpoints: Endpoint) -> NodeState:
    """Return a state that lets only workloads labelled as clients connect to workloads."""
    rule = PolicyRule("Allow", source=Entity(selector='app == "client"'))
    return with_state(policy=PolicyState(policy_set(policies=[Policy("web", ingress=(rule,))]), endpoints))


def clients(node: Node) -> set[str]:
    """Return the members of the set of clients in the kernel."""
    (found,) = [one for name, one in node.kernel.netfilter.sets.items() if name.startswith("cali40s:")]
    return set(found.members)


# ---- when the reconciler looks


class Looks:
    """Times at which a look was asked for, and the collection that the updates change."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.others = OtherEndpoints()
        self.updates = RemoteUpdates(
            self.others, lambda: self.times.append(round(asyncio.get_running_loop().time(), 3))
        )

    async def apply(self, count: int, slices: int, pause: float) -> None:
        for part in range(slices):
            self.updates.apply(workloads(count, count * part))
            await asyncio.sleep(pause)


@pytest.mark.parametrize(
    ("count", "slices", "pause", "expected"),
    [
        (1, 1, 1, [0.01]),
        (1, 3, 0.005, [0.02]),
        (1, 3, 0.05, [0.01, 0.06, 0.11]),
        (1, 30, 0.008, [0.1, 0.204, 0.242]),
        (500, 10, 0.009, [0.091]),
        (500, 100, 0.009, [0.5, 0.901]),
    ],
    ids=["one", "three", "three apart", "a stream", "a burst", "a long burst"],
)
def test_changes_that_follow_each_other_are_one_look(
    count: int, slices: int, pause: float, expected: list[float]
) -> None:
    """A change waits 10 ms for others, 0.1 s at most, and 0.5 s in a burst."""

    async def scenario() -> None:
        looks = Looks()
        await looks.apply(count, slices, pause)
        await asyncio.sleep(1)
        assert looks.times == pytest.approx(expected, abs=0.002)
        assert not looks.updates.pending

    run(scenario())


def test_a_change_is_pending_until_the_look_is_asked_for() -> None:
    async def scenario() -> None:
        looks = Looks()
        assert not looks.updates.pending
        looks.updates.apply(workloads(1))
        assert looks.updates.pending
        await asyncio.sleep(0.02)
        assert not looks.updates.pending
        looks.updates.replace_all({}, set())
        assert looks.updates.pending and looks.others.endpoints() == ()

    run(scenario())


def test_nothing_new_asks_for_no_look_and_a_new_live_node_does() -> None:
    async def scenario() -> None:
        looks = Looks()
        looks.updates.apply(workloads(1), set())
        await asyncio.sleep(1)
        looks.updates.apply(workloads(1), set())
        looks.updates.replace_all(t.cast("dict[tuple[str, str], Endpoint]", workloads(1)), set())
        await asyncio.sleep(1)
        assert len(looks.times) == 1
        looks.updates.apply({}, {"node2"})
        await asyncio.sleep(1)
        assert len(looks.times) == 2 and looks.others.live == {"node2"}

    run(scenario())


def test_there_is_room_again_after_the_pass_and_a_pause_as_long() -> None:
    async def scenario() -> None:
        looks, rooms = Looks(), list[float]()
        looks.updates.on_room = lambda: rooms.append(round(asyncio.get_running_loop().time(), 3))
        assert looks.updates.room == 500
        looks.updates.apply(workloads(200))
        assert looks.updates.room == 300
        looks.updates.apply(workloads(300, 200))
        assert looks.updates.room == 0
        await asyncio.sleep(0.11)
        assert looks.times == [0.01] and looks.updates.room == 0  # the pass that was asked for goes on
        looks.updates.passed()
        looks.updates.passed()
        await asyncio.sleep(0.09)
        assert rooms == []
        await asyncio.sleep(0.02)
        assert rooms == [0.21] and looks.updates.room == 500

    run(scenario())


def test_a_pass_that_does_not_come_holds_changes_up_for_a_second() -> None:
    async def scenario() -> None:
        looks, rooms = Looks(), list[float]()
        looks.updates.on_room = lambda: rooms.append(round(asyncio.get_running_loop().time(), 3))
        looks.updates.apply(workloads(500))
        await asyncio.sleep(3)
        assert rooms == [1.01]
        looks.updates.apply(workloads(1, 500))
        await asyncio.sleep(3)
        assert rooms == [1.01]  # nobody waits for room that was there

    run(scenario())


# ---- in an agent


def test_a_workload_elsewhere_comes_and_goes_in_the_kernel(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, for_clients())
        agent = await node.start()
        await node.add("web")
        assert clients(node) == set()
        agent.remote_updates.apply(workloads(2))
        await asyncio.sleep(0.05)
        assert clients(node) == {address_of(0), address_of(1)}
        agent.remote_updates.apply({("node2", "cali0"): None})
        await asyncio.sleep(0.05)
        assert clients(node) == {address_of(1)}
        assert agent.in_sync and node.differences() == []

    run(scenario())


def test_the_datastore_comes_before_reports_and_the_inventory_of_a_live_node(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        planned, reported = (one for one in workloads(2).values() if one)
        node = Node(tmp_path, for_clients(planned))
        agent = await node.start()
        await node.add("web")
        agent.persisted.remote = RemoteEndpoints({"node2": Collected("2026-11-22T05:00:00Z", (reported,))})
        await agent.resync()
        assert clients(node) == {address_of(0), address_of(1)}
        agent.remote_updates.apply(workloads(1, 7), {"node2"})
        await asyncio.sleep(0.05)
        assert clients(node) == {address_of(7)}
        agent.remote_updates.replace_all({}, set())
        await asyncio.sleep(0.05)
        assert clients(node) == {address_of(0), address_of(1)}

    run(scenario())


def test_without_a_policy_or_a_state_changes_are_kept_until_there_is_one(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, None)
        agent = await node.start()
        agent.remote_updates.apply(workloads(1))
        await node.settle()
        await agent.node_apply(with_state(), True)
        await node.add("web")
        agent.remote_updates.apply(workloads(1, 1))
        await node.settle()
        assert not [name for name in node.kernel.netfilter.sets if name.startswith("cali40s:")]
        await agent.node_apply(for_clients(), True)
        assert clients(node) == {address_of(0), address_of(1)}

    run(scenario())


def test_a_burst_is_compiled_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 changes in slices, as the datastore reads them, are compiled together."""
    compiled: list[int] = []
    compile_all = NodePolicyTables.with_policy

    def counting(self: NodePolicyTables, *arguments: t.Any) -> NodeState:
        before, whole = self.version, compile_all(self, *arguments)
        compiled.append(self.version - before)
        return whole

    async def scenario() -> None:
        node = Node(tmp_path, for_clients())
        agent = await node.start()
        await node.add("web")
        await node.settle()
        monkeypatch.setattr(NodePolicyTables, "with_policy", counting)
        for part in range(20):
            agent.remote_updates.apply(workloads(250, 250 * part))
            await asyncio.sleep(0.005)
        await node.settle()
        assert len(clients(node)) == 5000
        assert [count for count in compiled if count] == [20]

    run(scenario())


def test_the_loop_changes_what_the_drivers_thread_reads() -> None:
    """The thread compiles again and again meanwhile, and has what there is in the end."""

    async def scenario() -> None:
        drivers, kept, state = DriverThread(), NodePolicyTables(), for_clients()
        others = OtherEndpoints(lock=threading.Lock())
        rounds, done = 0, asyncio.Event()

        async def compile_again() -> None:
            nonlocal rounds
            while not done.is_set():
                await drivers(lambda: kept.with_policy(state, others=others))
                rounds += 1

        compiling = asyncio.ensure_future(compile_again())
        part = 0
        while rounds < 10:
            part += 1
            others.apply(workloads(25, 25 * (part % 100), f"node{part % 3}"), {f"node{part % 3}"})
            await asyncio.sleep(0)
        done.set()
        await compiling
        whole = await drivers(lambda: kept.with_policy(state, others=others))
        drivers.close()
        assert whole == with_policy(state, others=others.endpoints(state.node))

    asyncio.run(scenario())
