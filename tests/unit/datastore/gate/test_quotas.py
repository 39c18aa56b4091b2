# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bounds of a user at a gate, with a clock and a member that the tests move."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import PublishedEndpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate import quotas
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.quotas import Quota, Quotas, TooMuch
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.requests import passed, writes
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import DefinedPort, Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers import limits

from tests.unit.agent.virtual_time import run

OWN = keys.endpoints_of("node1")


class Node:
    """A node at a gate, whose member has `stored`. Time passes as `now` says."""

    def __init__(self, workloads: int) -> None:
        self.now = 0.0
        self.stored: dict[str, bytes] = {}
        self.asked: list[gateway.Json] = []
        self.quota = Quotas(workloads, lambda: self.now).of("node1")

    async def ask(self, path: str, body: bytes) -> gateway.Json:
        request = json.loads(passed(path, body))
        self.asked.append(request)
        start, end = (base64.b64decode(request[name]).decode() for name in ("key", "range_end"))
        found = sorted(key for key in self.stored if start <= key < end)
        answer: gateway.Json = {"header": {}, "count": str(len(found))}
        if not request.get("count_only"):
            page = found[: int(request["limit"])]
            answer["more"] = len(page) < len(found)
            answer["kvs"] = [
                {"key": gateway.encoded(key), "value": base64.b64encode(self.stored[key]).decode()} for key in page
            ]
        return answer

    async def write(self, *operations: gateway.Operation) -> None:
        """Write through the gate. Raise TooMuch."""
        found = writes(passed("/v3/kv/txn", gateway.transaction_request(operations)))
        await self.quota.write(found, self.ask)
        for one in operations:
            if isinstance(one, gateway.Put):
                self.stored[one.key] = one.value
            else:
                self.stored.pop(one.key, None)

    async def fill(self, first: int, last: int, value: bytes = b"{}") -> None:
        await self.write(*(gateway.Put(f"{OWN}cali{number}", value) for number in range(first, last)))


def largest_documents() -> bytes:
    """Return the document of a workload with as much of everything as may be."""
    endpoint = Endpoint(
        name=f"{'n' * 63}/{'w' * 167}",
        namespace="n" * 63,
        kind="WorkloadEndpoint",
        node="node1",
        interface="cali1",
        addresses=tuple(f"fd00:1111:2222:3333:4444:5555:6666:{number:04x}" for number in range(limits.ADDRESSES)),
        labels=tuple((f"{'d' * 253}/{number:03}{'k' * 60}", "v" * 63) for number in range(limits.LABELS)),
        profiles=tuple(f"{number:03}{'p' * 250}" for number in range(limits.PROFILES)),
        ports=tuple(DefinedPort(f"{'p' * 60}{number:03}", "UDPLite", 60_000) for number in range(limits.PORTS)),
    )
    return documents.encode_endpoint(PublishedEndpoint(endpoint, True))


def test_there_is_room_for_workloads_of_the_largest_kind() -> None:
    assert len(largest_documents()) + len(keys.endpoint_key("n" * 253, "c" * 15)) < quotas._LARGEST
    assert len(largest_documents()) < keys.ENDPOINT_BYTES


def test_an_agent_with_1000_workloads_publishes_them_at_once() -> None:
    """It is not refused once."""

    async def scenario() -> None:
        node = Node(quotas.WORKLOADS)
        for first in range(0, 1000, 100):
            await node.fill(first, first + 100, b"x" * 1000)
        await node.write(gateway.Put(keys.complete_key("node1"), b"{}"))
        await node.write(*(gateway.Delete(key) for key in list(node.stored)[:128]))

    asyncio.run(scenario())


def test_workloads_of_the_largest_kind_are_published_in_time() -> None:
    """An agent that waits as the gate says publishes 1,000 of them, and none is refused for good."""

    async def scenario() -> None:
        node = Node(quotas.WORKLOADS)
        document = b"x" * (25 << 10)
        for number in range(0, 1000, 20):
            while True:
                try:
                    await node.fill(number, number + 20, document)
                    break
                except TooMuch as later:
                    assert 0 < later.seconds <= gateway.LATEST_SECONDS
                    node.now += later.seconds
        assert len(node.stored) == 1000 and node.now < 75 * 60

    asyncio.run(scenario())


@pytest.mark.parametrize("operation", [gateway.Put(f"{OWN}cali1", b"{}"), gateway.Delete(f"{OWN}cali1")])
def test_one_key_is_written_or_removed_as_fast_as_the_rate_says(operation: gateway.Operation) -> None:
    async def scenario() -> None:
        node, passed_on = Node(quotas.WORKLOADS), 0
        for dummy in range(20_000):  # 1,000 in a second
            node.now += 0.001
            with contextlib.suppress(TooMuch):
                await node.write(operation)
                passed_on += 1
        assert 3_500 < passed_on < 4_000
        with pytest.raises(TooMuch) as refused:
            while True:
                await node.write(operation)
        assert str(refused.value) == "this user writes faster than it may; the next time is in 1 s"
        assert refused.value.seconds == 1

    asyncio.run(scenario())


def test_a_heartbeat_passes_whatever_else_is_written() -> None:
    """It has a rate of its own, which is twice that of an agent."""

    async def scenario() -> None:
        node = Node(1)
        beat = gateway.Put(keys.heartbeat_key("node1"), b"x" * 7_000)
        with contextlib.suppress(TooMuch):
            while True:
                await node.write(gateway.Delete(f"{OWN}cali1"))
        for dummy in range(1000):
            await node.write(beat)
            node.now += 10
        with pytest.raises(TooMuch) as refused:
            for dummy in range(20):
                await node.write(beat)
        assert str(refused.value) == "this user writes heartbeats faster than it may; the next time is in 6 s"

    asyncio.run(scenario())


def test_keys_are_counted_at_the_member_when_the_sum_reaches_the_bound() -> None:
    """Keys that are written again are none, those that another gate has removed are gone, and removals pass."""

    async def scenario() -> None:
        node = Node(100)
        for dummy in range(3):
            await node.fill(0, 100)
        assert all(request["count_only"] for request in node.asked)
        await node.fill(100, 150)
        for dummy in range(2):
            with pytest.raises(TooMuch) as refused:
                await node.fill(0, 1)
        assert str(refused.value) == (
            "node node1 has 150 keys of workloads in the datastore, and at most 101 are passed: remove workloads, or "
            "raise calico_etcd_node_workloads (it is 100) and run playbooks/etcd.yml"
        )
        assert refused.value.seconds == 0
        node.now += 600
        await node.write(*(gateway.Delete(f"{OWN}cali{number}") for number in range(20)))
        for number in range(20, 60):
            del node.stored[f"{OWN}cali{number}"]
        await node.fill(0, 1)

    asyncio.run(scenario())


def test_bytes_are_measured_at_the_member_when_the_sum_reaches_the_bound() -> None:
    """The member reads all of them for it, so it is asked once in ten seconds."""

    async def scenario() -> None:
        node, value = Node(100), b"x" * 60_000
        for number in range(69):
            node.now += 600
            await node.fill(number, number + 1, value)
        node.stored[f"{OWN}other"] = value
        found = sum(len(key) + len(value) for key, value in node.stored.items())
        node.asked.clear()
        for dummy in range(2):
            node.now += 10
            with pytest.raises(TooMuch) as refused:
                await node.fill(0, 1, value)
        assert str(refused.value) == (
            f"node node1 has {found} bytes of workloads in the datastore, and at most 4096000 are passed: remove "
            "workloads, or raise calico_etcd_node_workloads (it is 100) and run playbooks/etcd.yml"
        )
        assert [request["limit"] for request in node.asked] == ["64"] * 4
        node.now += 5
        with pytest.raises(TooMuch) as refused:
            await node.fill(0, 1, value)
        assert str(refused.value) == "this user's bytes were counted a moment ago; the next time is in 6 s"
        assert refused.value.seconds == 6
        node.now += 10
        del node.stored[f"{OWN}cali1"], node.stored[f"{OWN}cali2"]
        await node.fill(0, 1, value)

    asyncio.run(scenario())


def test_reads_of_a_user_come_one_after_another() -> None:
    async def scenario() -> None:
        under_way = most = 0

        async def read(quota: Quota) -> None:
            nonlocal under_way, most
            async with quota.read():
                under_way += 1
                most = max(most, under_way)
                await asyncio.sleep(0)
                under_way -= 1

        users = Quotas()
        await asyncio.gather(*(read(users.of("node1")) for dummy in range(20)))
        assert most == 1
        await asyncio.gather(*(read(users.of(f"node{number}")) for number in range(20)))
        assert most == 20

    asyncio.run(scenario())


def test_a_user_whose_reads_take_long_waits_between_them() -> None:
    """Within five minutes the member works for it for a quarter of the time, after a burst."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        users = Quotas(clock=loop.time)
        worked = 0
        while loop.time() < 300:
            async with users.of("node1").read(), users.answer("node1"):
                await asyncio.sleep(0.5)
            worked += 1
        assert 300 * 0.25 < worked * 0.5 < 300 * 0.25 + 11
        began = loop.time()
        async with users.of("node2").read(), users.answer("node2"):
            assert loop.time() - began < 0.01

    run(scenario())


def test_a_member_makes_few_answers_at_the_same_time() -> None:
    """Requests that do not read pass meanwhile."""

    async def scenario() -> None:
        users, ended = Quotas(), asyncio.Event()
        waiting: list[int] = []

        async def ask(number: int) -> None:
            async with users.answer(f"node{number}"):
                waiting.append(number)
                await ended.wait()

        tasks = [asyncio.ensure_future(ask(number)) for number in range(10)]
        for dummy in range(20):
            await asyncio.sleep(0)
        assert waiting == [0, 1]
        async with users.answer(None):
            ended.set()
        await asyncio.gather(*tasks)
        assert len(waiting) == 10

    asyncio.run(scenario())


def test_the_oldest_watch_ends_for_another_one() -> None:
    """A user that begins them without an end is refused for a while."""

    async def scenario() -> None:
        node = Node(1)
        ended: list[int] = []

        def end(number: int) -> t.Callable[[], None]:
            return lambda: ended.append(number)

        with contextlib.ExitStack() as watches:
            for number in range(4):
                watches.enter_context(node.quota.watch(end(number)))
            assert ended == [0, 1]
        with contextlib.ExitStack() as watches:
            for number in range(2):
                watches.enter_context(node.quota.watch(end(number)))
            assert ended == [0, 1]
            with pytest.raises(TooMuch) as refused, node.quota.watch(end(9)):
                pass
            assert str(refused.value) == "this user begins watches faster than it may; the next time is in 11 s"
            assert ended == [0, 1]
        node.now += 10
        with node.quota.watch(end(10)):
            pass

    asyncio.run(scenario())


def test_answers_to_changes_are_bounded_in_number() -> None:
    """Answers take no room of workloads, and workloads take none of answers."""

    async def scenario() -> None:
        node = Node(workloads=2)
        await node.fill(0, 3)
        for number in range(keys.MOST_ANSWERS + 1):
            await node.write(gateway.Put(keys.answer_key("node1", f"c{number}"), b"{}"))
            node.now += 1000
        with pytest.raises(TooMuch) as error:
            await node.write(gateway.Put(keys.answer_key("node1", "c99"), b"{}"))
        assert str(error.value) == (
            "node node1 has 9 answers to changes in the datastore, and at most 8 are passed: its agent removes those "
            "to earlier changes"
        )
        await node.write(gateway.Delete(keys.answer_key("node1", "c0")))
        await node.write(gateway.Put(keys.answer_key("node1", "c8"), b"[]"))

    run(scenario())
