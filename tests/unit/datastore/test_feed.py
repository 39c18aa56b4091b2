# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The feed and the mirror against a cluster in memory: in the end the mirror equals a fresh listing."""

from __future__ import annotations

import asyncio
import itertools
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import (
    Credentials,
    EtcdClient,
    Unreachable,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import PublishedEndpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.feed import Feed
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.mirror import Mirror
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import AnswerTooLarge
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.etcd import FakeEtcd, FakeMember
from tests.unit.agent.virtual_time import run

NODES = ("node1", "node2", "node10")


def workload(node: str, number: int, app: str = "web") -> PublishedEndpoint:
    third = NODES.index(node)
    return PublishedEndpoint(
        Endpoint(
            kind="WorkloadEndpoint",
            name=f"default/w{number}",
            node=node,
            interface=f"cali{number}",
            addresses=(f"10.244.{third}.{number % 64}",),
            labels=(("app", app), ("projectcalico.org/namespace", "default")),
            namespace="default",
        )
    )


def publish(etcd: FakeEtcd, node: str, number: int, app: str = "web") -> None:
    etcd.put(keys.endpoint_key(node, f"cali{number}"), documents.encode_endpoint(workload(node, number, app)))


def grant(etcd: FakeEtcd) -> None:
    for third, node in enumerate(NODES):
        etcd.put(keys.blocks_key(node), documents.encode_blocks([f"10.244.{third}.0/26"]))


class Node:
    """A node that reads: client, feed and mirror."""

    def __init__(self, etcd: FakeEtcd, **options: t.Any) -> None:
        credentials = Credentials("node1", "secret") if etcd.users else None
        self.changes: list[frozenset[EndpointKey]] = []
        self.mirror = Mirror(lambda changed, nodes: self.changes.append(frozenset(changed)))
        self.client = EtcdClient(etcd.members, credentials)
        self.feed = Feed(self.client, keys.WATCHED, self.mirror, **options)
        self.task = asyncio.ensure_future(self.feed.run())

    async def synced(self, seconds: float = 30.0) -> None:
        """Wait until the feed is in sync; AssertionError if it takes longer."""
        end = asyncio.get_running_loop().time() + seconds
        while not self.feed.status.synced:
            assert asyncio.get_running_loop().time() < end, self.feed.status
            await asyncio.sleep(0.05)


def fresh(etcd: FakeEtcd) -> dict[EndpointKey, PublishedEndpoint]:
    """Return what a mirror that has just been listed has: the slow and obvious way."""
    data = {event.key.decode(): event.value for event in etcd.data().values()}
    found = {}
    for key, value in data.items():
        parsed = keys.parse_endpoint_key(key)
        if parsed is not None and value is not None:
            blocks = data.get(keys.blocks_key(parsed.node))
            if blocks is not None:
                try:
                    found[parsed] = documents.decode_endpoint(parsed, value, documents.decode_blocks(blocks))
                except documents.RefusedDocument:
                    continue
    return found


def test_a_change_arrives_at_once() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        grant(etcd)
        publish(etcd, "node2", 1)
        node = Node(etcd)
        await node.synced()
        assert set(node.mirror.endpoints) == {EndpointKey("node2", "cali1")}
        before = asyncio.get_running_loop().time()
        publish(etcd, "node2", 2)
        while EndpointKey("node2", "cali2") not in node.mirror.endpoints:
            await asyncio.sleep(0.001)
        assert asyncio.get_running_loop().time() - before < 0.1
        etcd.delete(keys.endpoint_key("node2", "cali1"))
        await asyncio.sleep(0.1)
        assert node.mirror.endpoints == fresh(etcd) != {}
        assert node.changes[-1] == {EndpointKey("node2", "cali1")}
        assert node.feed.status.listings == 1

    run(scenario())


@pytest.mark.parametrize("progress", [2.0, None], ids=["known", "unknown"])
def test_a_feed_is_in_sync_while_changes_never_pause(progress: float | None) -> None:
    """Members send no message of progress as long as changes come; what was missed has arrived nevertheless."""

    async def scenario() -> None:
        etcd = FakeEtcd()
        grant(etcd)

        async def busy() -> None:
            for number in itertools.count():
                publish(etcd, "node2", number % 60, f"app{number}")
                await asyncio.sleep(0.2)

        task = asyncio.ensure_future(busy())
        node = Node(etcd, progress=progress)
        for dummy in range(3):
            await node.synced(2)
            etcd.break_connections()
            await asyncio.sleep(0.01)
            assert not node.feed.status.synced
        await node.synced(2)
        task.cancel()
        await asyncio.sleep(0.1)
        assert node.mirror.endpoints == fresh(etcd)

    run(scenario())


def test_a_feed_gives_way_between_two_steps() -> None:
    """The changes of one message are taken in steps; the first one comes at once, the others wait."""
    reading, go = asyncio.Event(), asyncio.Event()

    async def give_way() -> None:
        reading.set()
        await go.wait()

    async def scenario() -> None:
        etcd = FakeEtcd()
        grant(etcd)
        node = Node(etcd, give_way=give_way)
        go.set()
        await node.synced()
        go.clear()
        reading.clear()
        for number in range(40):
            publish(etcd, "node2", number)
        await reading.wait()
        await asyncio.sleep(1)
        assert 0 < len(node.mirror.endpoints) < 40
        go.set()
        await asyncio.sleep(1)
        assert node.mirror.endpoints == fresh(etcd) and len(node.mirror.endpoints) == 40

    run(scenario())


def test_a_listing_has_many_pages() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        grant(etcd)
        for number in range(1201):
            publish(etcd, "node2", number)
        node = Node(etcd)
        await node.synced()
        assert len(node.mirror.endpoints) == 1201
        member = next(member for member in etcd.members.values() if member.calls)
        assert member.calls.count("/v3/kv/range") == 9, "8, twice as many each time, and then 256"

    run(scenario())


class SmallAnswers(FakeMember):
    """A way to a member that takes no answer of more than 20,000 bytes."""

    async def call(self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        """Ask the member; raise AnswerTooLarge."""
        status, answer = await super().call(path, body, headers, seconds)
        if len(answer) > 20_000:
            raise AnswerTooLarge("the answer has more than 20000 bytes")
        return status, answer


def test_pages_are_smaller_where_values_are_large() -> None:
    """A node that writes large documents keeps no other from a listing; no member is left because of it."""

    async def scenario() -> None:
        etcd = FakeEtcd([])
        etcd.members = {name: SmallAnswers(etcd, name) for name in ("m1", "m2", "m3")}
        grant(etcd)
        for number in range(40):
            etcd.put(keys.endpoint_key("node1", f"x{number}"), b"x" * (12_000 if number > 30 else 10))
            publish(etcd, "node2", number)
        node = Node(etcd)
        await node.synced()
        assert node.mirror.endpoints == fresh(etcd) != {} and node.mirror.count == 83
        assert sum(1 for member in etcd.members.values() if member.calls) == 1
        etcd.break_connections()
        await asyncio.sleep(0.01)
        await node.synced()
        assert node.feed.status.listings == 1
        etcd.put(keys.endpoint_key("node1", "huge"), b"x" * 30_000)
        with pytest.raises(Unreachable) as lost:
            [page async for page in node.client.pages(keys.WATCHED)]
        assert str(lost.value).endswith(": the answer has more than 20000 bytes)")
        assert node.client.member.name not in lost.value.reasons

    run(scenario())


@pytest.mark.parametrize("compacted", [False, True])
def test_a_watch_resumes_without_listing(compacted: bool) -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        grant(etcd)
        publish(etcd, "node2", 1)
        node = Node(etcd)
        await node.synced()
        for number in range(5):
            etcd.put(keys.heartbeat_key("node2"), b"%d" % number)
        await asyncio.sleep(3)
        if compacted:
            etcd.compact(etcd.revision)
        etcd.break_connections()
        await asyncio.sleep(0.1)
        assert not node.feed.status.synced and "closed the connection" in node.feed.status.problem
        publish(etcd, "node2", 2) if not compacted else None
        await node.synced()
        assert node.mirror.endpoints == fresh(etcd)
        assert (node.feed.status.listings, node.feed.status.resumptions) == (1, 1)

    run(scenario())


def test_the_feed_lists_again_after_a_compaction() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        grant(etcd)
        publish(etcd, "node2", 1)
        node = Node(etcd)
        await node.synced()
        for member in etcd.members.values():
            member.kill()
        publish(etcd, "node2", 2)
        etcd.delete(keys.endpoint_key("node2", "cali1"))
        etcd.compact(etcd.revision)
        for member in etcd.members.values():
            member.up = True
        await asyncio.sleep(0.01)
        await node.synced()
        await asyncio.sleep(5)
        assert node.mirror.endpoints == fresh(etcd)
        assert node.feed.status.listings == 2

    run(scenario())


@pytest.mark.parametrize("again", [0, 1, 5])
def test_a_store_that_went_back_is_listed_anew(again: int) -> None:
    """It is found even if the restored store has reached a later revision than the node has read."""

    async def scenario() -> None:
        etcd = FakeEtcd()
        grant(etcd)
        publish(etcd, "node2", 1)
        early = etcd.revision
        publish(etcd, "node2", 2)
        publish(etcd, "node10", 3)
        node = Node(etcd)
        await node.synced()
        etcd.restore(early)
        for number in range(again):
            publish(etcd, "node2", 20 + number, "other")
        await asyncio.sleep(0.5)
        await node.synced()
        await asyncio.sleep(5)
        assert node.feed.status.synced
        assert node.mirror.endpoints == fresh(etcd)
        assert EndpointKey("node10", "cali3") not in node.mirror.endpoints
        assert node.feed.status.listings == 2

    run(scenario())


def test_the_feed_lists_again_when_the_cluster_changes() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        grant(etcd)
        publish(etcd, "node2", 1)
        node = Node(etcd)
        await node.synced()
        etcd.cluster = 8
        etcd.break_connections()
        await asyncio.sleep(0.01)
        await node.synced()
        assert node.mirror.position is not None and node.mirror.position.cluster == 8
        assert node.feed.status.listings == 2

    run(scenario())


@pytest.mark.parametrize(("progress", "seconds"), [(2.0, 22), (None, 30)], ids=["known", "unknown"])
def test_a_stopped_member_is_left(progress: float | None, seconds: int) -> None:
    """A member that says nothing any more, not even progress, is left for another one, whatever its interval is."""

    async def scenario() -> None:
        etcd = FakeEtcd()
        grant(etcd)
        node = Node(etcd, progress=progress)
        await node.synced()
        watched = node.feed.status.member
        etcd.members[watched].stopped = True
        publish(etcd, "node2", 1)
        await asyncio.sleep(seconds)
        assert node.feed.status.synced
        assert node.feed.status.member != watched
        assert node.mirror.endpoints == fresh(etcd) != {}

    run(scenario())


def test_without_a_leader_nothing_is_lost() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        grant(etcd)
        publish(etcd, "node2", 1)
        node = Node(etcd)
        await node.synced()
        etcd.has_leader = False
        await asyncio.sleep(60)
        assert not node.feed.status.synced
        assert "no leader" in node.feed.status.problem
        assert node.mirror.endpoints == fresh(etcd) != {}
        etcd.has_leader = True
        publish(etcd, "node2", 2)
        await node.synced(10)
        assert node.mirror.endpoints == fresh(etcd)

    run(scenario())


def test_a_refused_token_is_replaced() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        etcd.users = {"node1": "secret"}
        grant(etcd)
        node = Node(etcd)
        await node.synced()
        for member in etcd.members.values():
            member.tokens.clear()
        etcd.break_connections()
        await asyncio.sleep(0.01)
        await node.synced(10)
        publish(etcd, "node2", 1)
        await asyncio.sleep(0.1)
        assert node.mirror.endpoints == fresh(etcd) != {}
        assert node.feed.status.listings == 1

    run(scenario())


def test_tokens_of_a_longer_log_are_not_waited_for() -> None:
    """The members of a restored store keep calls with tokens from before waiting; the node asks for new ones."""

    async def scenario() -> None:
        etcd = FakeEtcd()
        etcd.users = {"node1": "secret"}
        grant(etcd)
        early = etcd.revision
        publish(etcd, "node2", 1)
        node = Node(etcd)
        for dummy in range(4):  # until it has had a token of each member
            await node.synced()
            etcd.members[node.feed.status.member].break_connections()
            await asyncio.sleep(0.5)
        await node.synced()
        assert all(member.given_at for member in etcd.members.values())
        for member in etcd.members.values():
            member.tokens.clear()
        etcd.restore(early)
        await asyncio.sleep(0.1)
        await node.synced(8)
        assert node.mirror.endpoints == fresh(etcd)

    run(scenario())


@pytest.mark.parametrize("noticed", [True, False], ids=["closed", "without a word"])
def test_a_member_that_ended_has_forgotten_its_token(noticed: bool) -> None:
    """The token is dropped with the connection. If its end was not noticed, one call is lost, and the next is not."""

    async def scenario() -> None:
        etcd = FakeEtcd(["m1"])
        etcd.users = {"node1": "secret"}
        grant(etcd)
        client = EtcdClient(etcd.members, Credentials("node1", "secret"))
        assert await client.get(keys.blocks_key("node1")) is not None
        etcd.members["m1"].tokens.clear()
        etcd.restore(2)
        etcd.members["m1"].has_broken = noticed
        if not noticed:
            with pytest.raises(Unreachable) as lost:
                await client.get(keys.blocks_key("node1"))
            assert str(lost.value) == "no member of the etcd cluster answers (m1: no answer within 10 s)"
        assert await client.get(keys.blocks_key("node1")) is not None
        assert etcd.members["m1"].calls.count("/v3/auth/authenticate") == 2

    run(scenario())


def test_a_wrong_password_is_named_and_not_asked_for_without_pause() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        etcd.users = {"node1": "another"}
        node = Node(etcd)
        await asyncio.sleep(60)
        assert "authentication failed, invalid user ID or password" in node.feed.status.problem
        assert sum(len(member.calls) for member in etcd.members.values()) < 40

    run(scenario())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NODES), st.integers(0, 5), st.sampled_from(["web", "db"])),
        st.tuples(st.just("delete"), st.sampled_from(NODES), st.integers(0, 5)),
        st.tuples(st.just("grant"), st.sampled_from(NODES), st.booleans()),
        st.tuples(st.just("beat")),
        st.tuples(st.just("compact"), st.integers(0, 3)),
        st.tuples(st.just("restore"), st.integers(1, 4)),
        st.tuples(st.just("break")),
        st.tuples(st.just("kill"), st.integers(1, 3)),
        st.tuples(st.just("start"), st.integers(1, 3)),
        st.tuples(st.just("stop"), st.integers(1, 3)),
        st.tuples(st.just("leader"), st.booleans()),
        st.tuples(st.just("wait"), st.floats(0.0, 4.0)),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(STEPS)
def test_the_mirror_equals_a_fresh_listing_after_any_history(steps: list[tuple[t.Any, ...]]) -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        grant(etcd)
        node = Node(etcd, listing_jitter=0.1)
        await asyncio.sleep(0.5)
        for step in steps:
            await _step(etcd, step)
        etcd.has_leader = True
        for member in etcd.members.values():
            member.up, member.stopped = True, False
        await asyncio.sleep(20)
        assert node.feed.status.synced, node.feed.status
        assert node.mirror.endpoints == fresh(etcd)
        assert node.mirror.count == len([key for key in etcd.data() if key.decode() in keys.WATCHED])

    run(scenario())


async def _step(etcd: FakeEtcd, step: tuple[t.Any, ...]) -> None:
    kind, *rest = step
    members = list(etcd.members.values())
    if kind == "put":
        publish(etcd, *rest)
    elif kind == "delete":
        etcd.delete(keys.endpoint_key(rest[0], f"cali{rest[1]}"))
    elif kind == "grant":
        third = NODES.index(rest[0])
        if rest[1]:
            etcd.put(keys.blocks_key(rest[0]), documents.encode_blocks([f"10.244.{third}.0/26"]))
        else:
            etcd.delete(keys.blocks_key(rest[0]))
    elif kind == "beat":
        etcd.put(keys.heartbeat_key("node2"), b"{}")
    elif kind == "compact":
        etcd.compact(max(etcd.compacted, etcd.revision - rest[0]))
    elif kind == "restore":
        etcd.restore(max(1, etcd.compacted, etcd.revision - rest[0]))
    elif kind == "break":
        etcd.break_connections()
    elif kind == "kill":
        members[rest[0] - 1].kill()
    elif kind == "start":
        members[rest[0] - 1].up, members[rest[0] - 1].stopped = True, False
    elif kind == "stop":
        members[rest[0] - 1].stopped = True
    elif kind == "leader":
        etcd.has_leader = rest[0]
        etcd.wake()
    else:
        await asyncio.sleep(rest[0])
