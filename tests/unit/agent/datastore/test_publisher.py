# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The publisher against a cluster in memory: in the end the store has this node's workloads, and nothing else of it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore import own_content, publisher
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore.own_content import (
    OwnContent,
    OwnDocuments,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore.publisher import Publisher
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.feed import Feed
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.mirror import Mirror
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, VethEndpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.etcd import FakeEtcd, Json, Refusal
from tests.unit.agent.virtual_time import run

PREFIX = keys.endpoints_of("node1")


def veth(number: int, app: str = "web") -> VethEndpoint:
    return VethEndpoint(
        name=f"w{number}",
        namespace="default",
        interface=f"cali{number}",
        address=f"10.244.0.{number}",
        mtu=1450,
        pool="default",
        labels={"app": app},
    )


def state(*workloads: VethEndpoint, node: str = "node1") -> NodeState:
    return NodeState(node=node, address="192.0.2.1/24", workloads=workloads)


class Node:
    """A node that publishes `workloads`; its first `planned` ones are the inventory's."""

    def __init__(self, etcd: FakeEtcd) -> None:
        self.etcd = etcd
        self.workloads: tuple[VethEndpoint, ...] | None = ()
        self.planned = 0
        self.documents = OwnDocuments()
        self.publisher = Publisher(self.content, clock=lambda: 1000.0)
        self.client = EtcdClient(etcd.members)

    def content(self) -> OwnContent | None:
        if self.workloads is None:
            return None
        return self.documents.content(state(*self.workloads), self.workloads[: self.planned])

    def have(self, *workloads: VethEndpoint) -> None:
        self.workloads = workloads
        self.publisher.changed.set()

    @property
    def stored(self) -> dict[str, bytes | None]:
        return {key.decode(): one.value for key, one in self.etcd.data().items() if key.startswith(PREFIX.encode())}

    @property
    def writes(self) -> int:
        return sum(member.calls.count("/v3/kv/txn") for member in self.etcd.members.values())

    def is_published(self) -> bool:
        content = self.content()
        return content is not None and self.stored == content.documents

    async def until_published(self, seconds: float = 30.0) -> None:
        """Wait until the store has the content; AssertionError if it takes longer."""
        end = asyncio.get_running_loop().time() + seconds
        while not self.is_published():
            assert asyncio.get_running_loop().time() < end, (self.publisher.problem, self.stored)
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def publishing(node: Node) -> t.AsyncIterator[None]:
    task = asyncio.ensure_future(node.publisher.run(node.client))
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait({task})


def test_a_workload_is_published_at_once_and_its_key_deleted_with_it() -> None:
    async def scenario() -> None:
        node = Node(FakeEtcd())
        node.planned = 1
        node.have(veth(1))
        async with publishing(node):
            await node.until_published()
            assert list(node.stored) == [f"{PREFIX}cali1", f"{PREFIX}@complete"]  # in the order of writing
            assert node.stored[f"{PREFIX}@complete"] == b'{"reads":["details"]}'
            assert json.loads(node.stored[f"{PREFIX}cali1"] or b"") == {
                "addresses": ["10.244.0.1"],
                "labels": {
                    "app": "web",
                    "pcns.projectcalico.org/name": "default",
                    "projectcalico.org/namespace": "default",
                },
                "name": "default/w1",
                "namespace": "default",
                "planned": True,
                "profiles": ["projectcalico-default-allow"],
            }
            await asyncio.sleep(1)
            began = asyncio.get_running_loop().time()
            node.have(veth(1), veth(2))
            await node.until_published()
            assert asyncio.get_running_loop().time() - began < 0.05
            found = documents.decode_endpoint(EndpointKey("node1", "cali2"), node.stored[f"{PREFIX}cali2"] or b"", None)
            assert not found.planned
            await asyncio.sleep(1)
            node.have(veth(1))
            await node.until_published()
            assert f"{PREFIX}cali2" not in node.stored
            await asyncio.sleep(0)
            assert (node.publisher.waiting, node.publisher.published, node.publisher.problem) == (0, 1000.0, "")

    run(scenario())


def test_a_write_is_logged_with_the_names_of_its_workloads(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        node = Node(FakeEtcd())
        node.have(veth(1))
        async with publishing(node):
            await node.until_published()
            await asyncio.sleep(1)
            caplog.clear()
            node.have(veth(2))
            await node.until_published()
            await asyncio.sleep(1)
            node.have()
            await node.until_published()

    with caplog.at_level("DEBUG", "calico.transactions"):
        run(scenario())
    begun = [record.message for record in caplog.records if record.message.endswith(": begun")]
    assert begun == [
        'datastore write "default/w1", "default/w2": begun',  # one is removed, the other written
        'datastore write "default/w2": begun',
    ]


def stop(etcd: FakeEtcd, stopped: bool) -> None:
    for member in etcd.members.values():
        member.stopped = stopped


def test_waiting_is_zero_only_after_a_comparison_with_the_store() -> None:
    """The number is not 0 while members take connections, answer nothing and so hold up a comparison or a write."""

    async def scenario() -> None:
        etcd = FakeEtcd()
        node = Node(etcd)
        assert node.publisher.waiting is None
        async with publishing(node):
            await node.until_published()
            await asyncio.sleep(1)
            assert node.publisher.waiting == 0
            stop(etcd, True)
            node.publisher.recheck()
            await asyncio.sleep(1)
            assert node.publisher.waiting is None
            stop(etcd, False)
            await asyncio.sleep(60)
            assert node.publisher.waiting == 0
            stop(etcd, True)
            node.have(veth(1), veth(2))
            await asyncio.sleep(60)
            assert node.publisher.waiting == 2

    run(scenario())


def test_changes_within_a_tenth_of_a_second_share_one_transaction() -> None:
    async def scenario() -> None:
        node = Node(FakeEtcd())
        async with publishing(node):
            await node.until_published()
            await asyncio.sleep(1)
            before = node.writes
            for number in range(1, 60):
                node.have(*(veth(one) for one in range(1, number + 1)))
                await asyncio.sleep(0.001)
            await node.until_published()
            assert node.writes - before == 2  # the first one at once, the others together

    run(scenario())


def test_a_large_change_is_split_and_the_complete_key_is_written_last() -> None:
    async def scenario() -> None:
        node = Node(FakeEtcd())
        node.have(*(veth(number) for number in range(1, 250)))
        async with publishing(node):
            await node.until_published()
            assert node.writes == 3
            assert list(node.stored)[-1] == f"{PREFIX}@complete"

    run(scenario())


def test_documents_of_half_a_megabyte_are_a_transaction() -> None:
    """100 workloads with so many labels take more than a request may have."""
    large = {f"key{number}": "v" * 63 for number in range(150)}

    async def scenario() -> None:
        node = Node(FakeEtcd())
        node.have(*(dataclasses.replace(veth(number), labels=large) for number in range(1, 100)))
        content = node.content()
        assert content is not None
        size = sum(len(document) for document in content.documents.values())
        async with publishing(node):
            await node.until_published()
            assert node.writes == 1 + size // publisher._BYTES == 3

    run(scenario())


def test_nothing_changes_while_the_content_is_not_known() -> None:
    """An agent that cannot read its records takes nothing of the node away."""

    async def scenario() -> None:
        node = Node(FakeEtcd())
        node.have(veth(1))
        async with publishing(node):
            await node.until_published()
            before = node.stored
            node.workloads = None
            node.publisher.recheck()
            await asyncio.sleep(5)
            assert node.stored == before

    run(scenario())


def test_a_name_that_makes_no_key_is_a_problem_and_ends_with_it() -> None:
    async def scenario() -> None:
        node = Node(FakeEtcd())
        node.have(dataclasses.replace(veth(1), interface="cali/1"))
        async with publishing(node):
            await asyncio.sleep(1)
            assert node.publisher.problem == "'cali/1' is not the name of an interface"
            node.have(veth(1))
            await node.until_published()
            await asyncio.sleep(0)
            assert node.publisher.problem == ""

    run(scenario())


def test_foreign_keys_below_the_own_prefix_are_deleted_and_others_kept() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        node = Node(etcd)
        etcd.put(f"{PREFIX}cali9", b"rubbish")
        etcd.put(f"{PREFIX}.. odd \xff", b"rubbish")
        for other in (keys.endpoint_key("node10", "cali1"), keys.heartbeat_key("node1"), keys.blocks_key("node1")):
            etcd.put(other, b"theirs")
        node.have(veth(1))
        async with publishing(node):
            await node.until_published()
        assert sum(one.value == b"theirs" for one in etcd.data().values()) == 3

    run(scenario())


def test_a_gate_that_says_later_is_asked_later_and_is_no_problem() -> None:
    """Changes in the meantime are published with the rest, and the store is not listed again."""

    async def scenario() -> None:
        etcd, refused = FakeEtcd(), [9]
        node = Node(etcd)

        def later(operations: list[Json]) -> None:
            if refused[0]:
                refused[0] -= 1
                raise Refusal(429, 8, "the gate: this user writes faster than it may", retry_seconds=30)

        etcd.gate = later
        node.have(veth(1), veth(2))
        async with publishing(node):
            for dummy in range(20):
                await asyncio.sleep(1)
                assert node.publisher.problem == ""
            assert node.publisher.waiting == 3
            node.have(veth(2), veth(3))
            await node.until_published()
            assert sum(member.calls.count("/v3/kv/range") for member in etcd.members.values()) == 1

    run(scenario())


def test_a_node_that_has_too_much_can_still_remove_it() -> None:
    """The refusal is reported, and ends when there is room: what is removed does not wait for what is written."""

    async def scenario() -> None:
        etcd, most = FakeEtcd(), 4
        node = Node(etcd)

        def full(operations: list[Json]) -> None:
            if len(node.stored) >= most and any("request_put" in one for one in operations):
                raise Refusal(429, 8, "the gate: node node1 has 4 keys")

        etcd.gate = full
        node.have(veth(1), veth(2), veth(3))
        async with publishing(node):
            await node.until_published()
            node.have(veth(1), veth(2), veth(3), veth(4))
            await asyncio.sleep(10)
            assert node.publisher.problem == "the gate: node node1 has 4 keys"
            node.have(veth(4))
            await node.until_published()
            await asyncio.sleep(0)
            assert node.publisher.problem == ""

    run(scenario())


def followed(node: Node, etcd: FakeEtcd) -> Feed:
    """Return a feed that shows the publisher every change, as the agent's does."""
    client = EtcdClient(etcd.members)
    return Feed(client, keys.WATCHED, Mirror(), listing_jitter=0.1, on_read=node.publisher.saw)


def test_a_key_that_somebody_altered_or_removed_is_put_right() -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        node = Node(etcd)
        node.have(veth(1), veth(2))
        feed = asyncio.ensure_future(followed(node, etcd).run())
        async with publishing(node):
            await node.until_published()
            await asyncio.sleep(5)
            etcd.put(f"{PREFIX}cali1", b"{}")
            await node.until_published(1)
            etcd.delete(f"{PREFIX}@complete")
            await node.until_published(1)
            etcd.put(f"{PREFIX}cali3", b"{}")
            await node.until_published(1)
            await asyncio.sleep(5)
            before = node.writes
            await asyncio.sleep(60)
            assert node.writes == before  # its own changes, which come back to it, are no cause to write
        feed.cancel()
        await asyncio.wait({feed})

    run(scenario())


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("have"), st.frozensets(st.integers(1, 6)), st.sampled_from(["web", "db"])),
        st.tuples(st.just("edit"), st.integers(1, 6), st.sampled_from([b"{}", None])),
        st.tuples(st.just("kill"), st.sampled_from(["m1", "m2", "m3"])),
        st.tuples(st.just("start")),
        st.tuples(st.just("leader"), st.booleans()),
        st.tuples(st.just("restore"), st.integers(1, 40)),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.01, 0.3, 3.0])),
    ),
    max_size=14,
)


@settings(max_examples=120, deadline=None)
@given(_STEPS)
def test_after_any_history_the_store_has_what_the_node_has(steps: list[tuple[t.Any, ...]]) -> None:
    async def scenario() -> None:
        etcd = FakeEtcd()
        node = Node(etcd)
        feed = asyncio.ensure_future(followed(node, etcd).run())
        async with publishing(node):
            for what, *more in steps:
                if what == "have":
                    node.have(*(veth(number, more[1]) for number in sorted(more[0])))
                elif what == "edit":
                    key = f"{PREFIX}cali{more[0]}"
                    etcd.delete(key) if more[1] is None else etcd.put(key, more[1])
                elif what == "kill":
                    etcd.members[more[0]].kill()
                elif what == "start":
                    for member in etcd.members.values():
                        member.up = True
                elif what == "leader":
                    etcd.has_leader = more[0]
                elif what == "restore":
                    etcd.restore(min(more[0], etcd.revision))
                await asyncio.sleep(more[0] if what == "wait" else 0)
            etcd.has_leader = True
            for member in etcd.members.values():
                member.up = True
            await node.until_published(60)
        feed.cancel()
        await asyncio.wait({feed})

    run(scenario())


def test_a_document_is_encoded_again_only_if_its_workload_or_the_policy_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[str] = []
    real = documents.encode_endpoint

    def counted(published: documents.PublishedEndpoint) -> bytes:
        encoded.append(published.endpoint.interface)
        return real(published)

    monkeypatch.setattr(own_content.documents, "encode_endpoint", counted)
    made = OwnDocuments()
    one, two = veth(1), veth(2)
    made.content(state(one, two), ())
    made.content(state(one, two), ())
    assert encoded == ["cali1", "cali2"]
    made.content(state(one, veth(2, "db")), (one,))
    assert encoded[2:] == ["cali1", "cali2"]  # one is planned, and the other has another label
    made.content(state(one, two, node="node2"), ())
    assert encoded[4:] == ["cali1", "cali2"]
