# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the way of other nodes' workloads from the mirror of the datastore into the sets of a node."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib
import threading
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.concurrency.driver_thread import (
    DriverThread,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.remote_feed import PORTION, RemoteFeed
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
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

from tests.unit.agent.node_under_test import STATE, Node, with_state
from tests.unit.agent.remote_workloads import address_of, publish, workloads
from tests.unit.agent.virtual_time import run


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
    """Times at which a look was asked for, and the feed and collection of a node."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.state: NodeState | None = dataclasses.replace(STATE, plan="first")
        self.others = OtherEndpoints()
        self.busy = False
        self.feed = RemoteFeed(
            self.others,
            lambda: self.state,
            lambda: self.times.append(round(asyncio.get_running_loop().time(), 3)),
            is_busy=lambda: self.busy,
        )

    async def publish(self, count: int, slices: int, pause: float) -> None:
        for part in range(slices):
            publish(self.feed.mirror, workloads(count, count * part))
            await asyncio.sleep(pause)

    @property
    def known(self) -> int:
        return len(self.others.endpoints())


@pytest.mark.parametrize(
    ("count", "slices", "pause", "expected"),
    [
        (1, 1, 1, [0.01]),
        (1, 3, 0.005, [0.02]),
        (1, 3, 0.05, [0.01, 0.06, 0.11]),
        (1, 30, 0.008, [0.1, 0.204, 0.242]),
        (30, 15, 0.009, [0.136]),
        (25, 19, 0.025, [0.01 + 0.025 * part for part in range(19)]),
        (250, 10, 0.009, [0.019, 1.019, 2.019, 3.019]),
    ],
    ids=["one", "three", "three apart", "a stream", "a burst", "bursts apart", "more than a portion"],
)
def test_changes_that_follow_each_other_are_one_look(
    count: int, slices: int, pause: float, expected: list[float]
) -> None:
    """A change waits 10 ms for others, 0.1 s at most, and longer in a burst, until a portion is full.

    No pass ends here, so that the next portion comes after a second.
    """

    async def scenario() -> None:
        looks = Looks()
        await looks.publish(count, slices, pause)
        await asyncio.sleep(5)
        assert looks.times == pytest.approx(expected, abs=0.002)
        assert looks.known == count * slices

    run(scenario())


def test_a_workload_is_handed_on_at_the_look_as_it_is_then() -> None:
    async def scenario() -> None:
        looks = Looks()
        publish(looks.feed.mirror, workloads(2))
        assert (looks.known, looks.times) == (0, [])
        publish(looks.feed.mirror, {("node2", "cali0"): None})
        await asyncio.sleep(0.02)
        assert [one.name for one in looks.others.endpoints()] == ["default/w1"]
        assert looks.others.version == len(looks.times) == 1

    run(scenario())


def test_nothing_new_asks_for_no_look_and_a_new_live_node_does() -> None:
    async def scenario() -> None:
        looks = Looks()
        publish(looks.feed.mirror, workloads(1))
        await asyncio.sleep(1)
        publish(looks.feed.mirror, workloads(1))
        looks.feed.changed({EndpointKey("node2", "cali0"), EndpointKey("node2", "cali7")})
        looks.feed.state_changed()
        looks.feed.synced(True)
        await asyncio.sleep(1)
        assert len(looks.times) == 1
        publish(looks.feed.mirror, {}, "node2")
        await asyncio.sleep(1)
        assert len(looks.times) == 2 and looks.others.live == {"node2"}

    run(scenario())


def test_the_next_portion_follows_the_pass_and_a_pause_as_long() -> None:
    async def scenario() -> None:
        looks = Looks()
        publish(looks.feed.mirror, workloads(3 * PORTION - 200))
        await asyncio.sleep(0.11)
        assert (looks.times, looks.known) == ([0.01], PORTION)  # the pass that was asked for goes on
        looks.feed.passed()
        looks.feed.passed()
        await asyncio.sleep(0.09)
        assert looks.known == PORTION
        await asyncio.sleep(0.02)
        assert (looks.times, looks.known) == ([0.01, 0.21], 2 * PORTION)
        looks.feed.passed()
        await asyncio.sleep(0.05)
        assert looks.known == 3 * PORTION - 200
        publish(looks.feed.mirror, workloads(200, 3 * PORTION))
        publish(looks.feed.mirror, workloads(1, 4 * PORTION))
        await asyncio.sleep(0.1)
        assert looks.known == 3 * PORTION  # what is left of the portion
        looks.feed.passed()
        await asyncio.sleep(0.3)
        assert looks.known == 3 * PORTION + 1

    run(scenario())


def test_a_step_waits_for_adds_but_not_for_long() -> None:
    async def scenario() -> None:
        looks = Looks()
        looks.busy = True
        publish(looks.feed.mirror, workloads(100))
        await asyncio.sleep(0.025)
        assert looks.known == 0  # since the first step was due, 15 ms have passed
        looks.busy = False
        await asyncio.sleep(0.003)
        assert looks.known == 100
        looks.busy = True
        publish(looks.feed.mirror, workloads(100, 100))
        await asyncio.sleep(0.1)
        assert looks.known == 200  # each of two steps waits for 20 ms

    run(scenario())


def test_a_pass_that_does_not_come_holds_changes_up_for_a_second() -> None:
    async def scenario() -> None:
        looks = Looks()
        publish(looks.feed.mirror, workloads(PORTION + 1))
        await asyncio.sleep(3)
        assert looks.times == [0.01, 1.01] and looks.known == PORTION + 1

    run(scenario())


def test_changes_that_this_node_does_not_take_fill_no_portion() -> None:
    """Its own workloads, and those that it refuses, reach policy never, so that nothing waits for a pass."""

    async def scenario() -> None:
        looks = Looks()
        ours = {
            place: one and dataclasses.replace(one, addresses=("10.244.1.1",)) for place, one in workloads(900).items()
        }
        publish(looks.feed.mirror, ours)
        publish(looks.feed.mirror, workloads(900, node="node1"))
        publish(looks.feed.mirror, workloads(1, 900, "node3"))
        await asyncio.sleep(0.05)
        assert (looks.known, len(looks.feed.refused)) == (1, 900)
        looks.state = None
        looks.feed.state_changed()
        await asyncio.sleep(5)
        assert (looks.known, looks.feed.refused) == (1801, {})

    run(scenario())


def test_a_node_is_live_when_policy_has_all_of_its_workloads_and_at_once_no_more() -> None:
    """What the inventory says of a live node does not count: a workload of it that still waits would be in no set."""

    async def scenario() -> None:
        looks = Looks()
        publish(looks.feed.mirror, workloads(2 * PORTION + 200), "node2")
        looks.feed.synced(True)
        for count in (PORTION, 2 * PORTION):
            await asyncio.sleep(0.5)
            assert (looks.known, looks.others.live) == (count, frozenset())
            looks.feed.passed()
        await asyncio.sleep(0.5)
        assert (looks.known, looks.others.live) == (2 * PORTION + 200, {"node2"})
        looks.feed.synced(False)
        publish(looks.feed.mirror, workloads(1200, 3000))
        assert looks.others.live == {"node2"}  # the newest that is known of it
        looks.state = dataclasses.replace(STATE, plan="second")
        looks.feed.state_changed()
        assert looks.others.live == frozenset()

    run(scenario())


# ---- in an agent


def test_a_workload_elsewhere_comes_and_goes_in_the_kernel(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, for_clients())
        agent = await node.start()
        await node.add("web")
        assert clients(node) == set()
        mirror = agent.datastore.feed.mirror
        publish(mirror, workloads(2))
        await asyncio.sleep(0.05)
        assert clients(node) == {address_of(0), address_of(1)}
        publish(mirror, {("node2", "cali0"): None})
        await asyncio.sleep(0.05)
        assert clients(node) == {address_of(1)}
        assert agent.status.in_sync and node.differences() == []

    run(scenario())


def test_the_datastore_comes_before_reports_and_the_inventory_of_a_live_node(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        planned, reported = (one for one in workloads(2).values() if one)
        node = Node(tmp_path, dataclasses.replace(for_clients(planned), plan="first"))
        agent = await node.start()
        await node.add("web")
        agent.persisted.remote = RemoteEndpoints({"node2": Collected("2026-11-22T05:00:00Z", (reported,))})
        await agent.changes.resync()
        assert clients(node) == {address_of(0), address_of(1)}
        mirror = agent.datastore.feed.mirror
        publish(mirror, workloads(1, 7), "node2")
        agent.datastore.feed.synced(True)
        await asyncio.sleep(0.05)
        assert clients(node) == {address_of(7)}
        mirror.forget()
        await asyncio.sleep(0.05)
        assert clients(node) == {address_of(0), address_of(1)}

    run(scenario())


def test_without_a_policy_or_a_state_changes_are_kept_until_there_is_one(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, None)
        agent = await node.start()
        publish(agent.datastore.feed.mirror, workloads(1))
        await node.settle()
        await agent.changes.apply(with_state(), True)
        await node.add("web")
        publish(agent.datastore.feed.mirror, workloads(1, 1))
        await node.settle()
        assert not [name for name in node.kernel.netfilter.sets if name.startswith("cali40s:")]
        await agent.changes.apply(for_clients(), True)
        assert clients(node) == {address_of(0), address_of(1)}

    run(scenario())


def test_a_burst_is_compiled_in_portions(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 changes in slices, as the datastore reads them, are compiled in few passes."""
    compiled: list[int] = []
    compile_all = NodePolicyTables.with_policy

    async def scenario() -> None:
        node = Node(tmp_path, for_clients())
        agent = await node.start()
        await node.add("web")
        await node.settle()
        known = 0

        def counting(self: NodePolicyTables, *arguments: t.Any) -> NodeState:
            nonlocal known
            before, known = known, len(agent.persisted.others.endpoints())
            compiled.append(known - before)
            return compile_all(self, *arguments)

        monkeypatch.setattr(NodePolicyTables, "with_policy", counting)
        for part in range(20):
            publish(agent.datastore.feed.mirror, workloads(250, 250 * part))
            await asyncio.sleep(0.005)
        await node.settle()
        assert len(clients(node)) == 5000
        portions = [count for count in compiled if count]
        assert sum(portions) == 5000 and max(portions) == PORTION and len(portions) <= 9

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
