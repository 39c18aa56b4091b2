# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of a store in which one node has written as much as it could, at members that need time to read."""

from __future__ import annotations

import asyncio
import base64
import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import heartbeats, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import (
    Credentials,
    EtcdClient,
    ShareLimits,
    Unreachable,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Page
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import KeyRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import content, exchange
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import (
    ANSWER_LIMIT,
    AnswerTooLarge,
    NoAnswer,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.etcd import FakeEtcd, FakeMember, Json
from tests.unit.agent.virtual_time import run
from tests.unit.datastore.test_feed import NODES, Node, fresh, grant, publish

#: A large value, and the bytes that a member reads in a second.
LARGE, RATE = 1 << 20, 20 << 20
#: A node's keys beyond what is read of it, and what a member may read at once while it is read.
MANY, AT_ONCE = 40, 9 << 20


class BusyMember(FakeMember):
    """A member that reads values as etcd 3.4 and 3.5 do: as many as the limit says, or all that have to be sorted."""

    def __init__(self, etcd: FakeEtcd, name: str) -> None:
        super().__init__(etcd, name)
        self.reads: list[int] = []

    def _read(self, body: Json) -> int:
        start, end = base64.b64decode(body["key"]), base64.b64decode(body.get("range_end", ""))
        if body.get("count_only"):
            return 0
        found = [one for key, one in sorted(self.etcd.data().items()) if (start <= key < end if end else key == start)]
        limit = 0 if body.get("sort_target") else int(body.get("limit", 0))
        return sum(len(one.value or b"") for one in found[: limit or None])

    async def call(self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        """Answer after the time that reading takes; raise NoAnswer or AnswerTooLarge."""
        found = json.loads(body)
        ranges = [found] if path == "/v3/kv/range" else [one.get("request_range") for one in found.get("success", ())]
        read = sum(self._read(one) for one in ranges if one)
        self.reads.append(read)
        await asyncio.sleep(min(read / RATE, seconds))
        if read / RATE >= seconds:
            raise NoAnswer(f"no answer within {seconds:g} s")
        status, answer = await super().call(path, body, headers, seconds)
        if len(answer) > ANSWER_LIMIT:
            raise AnswerTooLarge(f"the answer has more than {ANSWER_LIMIT} bytes")
        return status, answer


def busy() -> FakeEtcd:
    etcd = FakeEtcd([])
    etcd.members = {name: BusyMember(etcd, name) for name in ("m1", "m2", "m3")}
    return etcd


def reads(etcd: FakeEtcd) -> list[int]:
    """Return the bytes that members have read, of each call."""
    return [read for member in etcd.members.values() if isinstance(member, BusyMember) for read in member.reads]


def filled(etcd: FakeEtcd) -> None:
    """Write honest workloads and heartbeats of all nodes, and large values of node10 wherever it may write."""
    grant(etcd)
    for node in NODES:
        publish(etcd, node, NODES.index(node))
        etcd.put(keys.heartbeat_key(node), heartbeats.encode(Heartbeat(node, 1.0, "0.2.0")))
    for number in range(MANY):
        etcd.put(f"{keys.endpoints_of('node10')}x{number:03}", b"x" * LARGE)
        etcd.put(f"{keys.heartbeats_of('node10')}x{number:03}", b"x" * LARGE)


async def talk(etcd: FakeEtcd, work: t.Callable[[EtcdClient], t.Awaitable[t.Any]], seconds: float = 2.0) -> t.Any:
    client = EtcdClient(etcd.members, Credentials("root", "x") if etcd.users else None, seconds=seconds, jitter=0.0)
    return await work(client)


def test_a_node_that_fills_the_store_keeps_no_other_from_being_known() -> None:
    """Its own keys beyond its share are left out and named; the watch resumes without another listing."""

    async def scenario() -> None:
        etcd = busy()
        filled(etcd)
        node = Node(etcd)
        await node.synced(60)
        known = {key: one for key, one in fresh(etcd).items() if key in node.mirror.endpoints}
        assert {key.node for key in known} >= {"node1", "node2"} and node.mirror.endpoints == known
        left_out = [reason for key, reason in node.mirror.refused(100) if key == keys.endpoints_of("node10")]
        assert left_out and left_out[0].endswith(" are left out."), node.mirror.refused(100)
        watched = [key for key in etcd.data() if key.decode() in keys.WATCHED]
        assert node.mirror.count == len(watched)
        assert max(reads(etcd)) < AT_ONCE and sum(reads(etcd)) < 5 * AT_ONCE
        for changed in (f"{keys.endpoints_of('node10')}x{MANY - 1:03}", f"{keys.endpoints_of('node10')}x000"):
            etcd.put(changed, b"y")
        etcd.delete(f"{keys.endpoints_of('node10')}x{MANY - 2:03}")
        await asyncio.sleep(3)
        assert node.mirror.count == len(watched) - 1
        etcd.break_connections()
        await asyncio.sleep(0.1)
        await node.synced(60)
        assert (node.feed.status.listings, node.feed.status.resumptions) == (1, 1)

    run(scenario())


@pytest.mark.parametrize("progress", [2.0, None], ids=["known", "unknown"])
def test_no_reader_has_a_member_read_a_whole_range(progress: float | None) -> None:
    """That is so after a compaction, too, and while a node asks a member what it changed last."""

    async def scenario() -> None:
        etcd = busy()
        filled(etcd)
        node = Node(etcd, progress=progress)
        await node.synced(200)
        etcd.put(keys.heartbeat_key("node1"), b"{}")
        etcd.compact(etcd.revision)
        etcd.break_connections()
        await asyncio.sleep(0.1)
        await node.synced(200)
        await asyncio.sleep(60)
        assert node.feed.status.synced and max(reads(etcd)) < AT_ONCE

    run(scenario())


def test_heartbeats_are_read_by_their_names() -> None:
    async def scenario() -> None:
        etcd = busy()
        filled(etcd)
        etcd.put(keys.heartbeat_key("node10"), b"x" * LARGE)
        found, refused = heartbeats.decode_all(await talk(etcd, exchange.heartbeats))
        assert found.keys() == {"node1", "node2"} and refused == {"node10": "it has more than 8192 bytes."}
        assert max(reads(etcd)) < 2 * LARGE

    run(scenario())


def test_a_run_counts_what_nodes_write_and_reads_none_of_it() -> None:
    async def scenario() -> None:
        etcd = busy()
        etcd.users, etcd.granted, etcd.roles = {"root": "x"}, {"root": {"root"}}, {"root": {}}
        filled(etcd)
        etcd.put(f"{keys.ENDPOINTS}odd", b"x" * LARGE)
        seen = await talk(etcd, lambda client: exchange.observe(client, content.PUBLISHED, ("node1", "node2"), "node2"))
        assert seen.of_nodes == {
            keys.endpoints_of("node2"): 1,
            keys.heartbeats_of("node2"): 1,
            keys.endpoints_of("node10"): MANY + 1,
            keys.heartbeats_of("node10"): MANY + 1,
            keys.ENDPOINTS: 1,
        }
        assert max(reads(etcd)) <= 2 * LARGE
        await talk(etcd, lambda client: exchange.empty(client, "node10"))
        assert not [key for key in etcd.data() if b"node10/" in key] and max(reads(etcd)) <= 2 * LARGE

    run(scenario())


def test_a_slow_member_is_asked_for_less() -> None:
    """Pages and names are asked for in smaller parts until an answer comes in time; a member is slow, not dead."""

    async def scenario() -> None:
        etcd = busy()
        names = [keys.heartbeat_key(f"n{number}") for number in range(90)]
        for name in names:
            etcd.put(name, b"x" * (LARGE >> 3))
        for member in (1, 3):
            etcd.members = {name: BusyMember(etcd, name) for name in list(etcd.members)[:member]}
            got = await talk(etcd, lambda client: client.named(names), seconds=0.05)
            assert sorted(one.key for one in got) == sorted(names)
            got = await talk(etcd, lambda client: _listed(client, keys.under(keys.HEARTBEATS)), seconds=0.05)
            assert sorted(one.key for page in got for one in page.entries) == sorted(names)

    run(scenario())


class BreakingMember(BusyMember):
    """A gate, which closes the connection when its member's answer is too large."""

    async def call(self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        """Ask the member; raise NoAnswer."""
        try:
            return await super().call(path, body, headers, seconds)
        except AnswerTooLarge:
            raise NoAnswer("the member closed the connection") from None


def test_a_gate_that_closes_the_connection_is_asked_for_less() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd([])
        etcd.members = {name: BreakingMember(etcd, name) for name in ("m1", "m2", "m3")}
        filled(etcd)
        node = Node(etcd)
        await node.synced(60)
        assert {key.node for key in node.mirror.endpoints} >= {"node1", "node2"}

    run(scenario())


def test_one_value_that_no_member_sends_in_time_ends_the_listing() -> None:
    async def scenario() -> None:
        etcd = busy()
        etcd.put(keys.heartbeat_key("n1"), b"x" * LARGE)
        etcd.put(keys.heartbeat_key("n2"), b"x" * LARGE)
        for work in (
            lambda client: _listed(client, keys.under(keys.HEARTBEATS)),
            lambda client: client.named([keys.heartbeat_key("n1"), keys.heartbeat_key("n2")]),
        ):
            with pytest.raises(Unreachable) as lost:
                await talk(etcd, work, seconds=0.02)
            assert set(lost.value.reasons.values()) == {"no answer within 0.02 s"} and len(lost.value.reasons) == 3

    run(scenario())


def test_members_that_take_few_operations_are_asked_in_smaller_parts() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        etcd.most_operations = 1
        for node in NODES:
            etcd.put(keys.heartbeat_key(node), b"{}")
        wanted = [keys.heartbeat_key(node) for node in (*NODES, "other")]
        assert [one.key for one in await talk(etcd, lambda client: client.named(wanted))] == wanted[:-1]
        ranges = [KeyRange(wanted[0], f"{wanted[0]}\x00"), keys.under(keys.HEARTBEATS), keys.under(keys.BLOCKS)]
        assert await talk(etcd, lambda client: client.counts(ranges)) == [1, 3, 0]

    run(scenario())


async def _listed(client: EtcdClient, wanted: KeyRange, bounds: ShareLimits | None = None) -> list[Page]:
    return [page async for page in client.pages(wanted, bounds=bounds)]


@given(
    st.dictionaries(st.sampled_from(("a", "a-b", "a0", "b")), st.integers(0, 90)),
    st.integers(1, 60),
    st.integers(1, 4000),
)
def test_each_key_that_nodes_write_is_read_or_counted_as_left_out(
    written: dict[str, int], most: int, size: int
) -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        for node, count in written.items():
            for number in range(count):
                etcd.put(f"{keys.endpoints_of(node)}c{number:03}", b"x" * 100)
        pages = await talk(etcd, lambda client: _listed(client, keys.WATCHED, ShareLimits(most, size)))
        read = dict.fromkeys(written, 0)
        left_out = dict(read)
        for page in pages:
            for entry in page.entries:
                read[keys.name_in(keys.share_of(entry.key) or "")] += 1
            if page.left_out:
                left_out[keys.name_in(page.share)] += page.left_out
        assert {node: read[node] + left_out[node] for node in written} == written
        for node, count in written.items():
            assert left_out[node] == 0 or read[node] >= min(most, size // 100)
            assert left_out[node] == 0 if count <= min(most, size // 100) else True

    run(scenario())
