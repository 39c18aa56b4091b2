# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The datastore of an agent against a cluster in memory: what it knows, keeps on the disk, and says of itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore.heartbeats import Heartbeats
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore.live_datastore import LiveDatastore
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore.own_content import OwnContent
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore.publisher import Publisher
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.mirror import Mirror
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import (
    DatastoreSettings,
    DatastoreSettingsError,
)

from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.virtual_time import inline, run
from tests.unit.datastore.test_feed import fresh, grant, publish

EPOCH = 1_795_770_000.0
ADDRESS = "https://192.0.2.1:2379"


class Node:
    """The agent's part of a node, with its files in a folder."""

    def __init__(self, etcd: FakeEtcd, folder: pathlib.Path) -> None:
        self.etcd = etcd
        self.path, self.copy = folder / "datastore.json", folder / "datastore.jsonl"
        self.changes: list[tuple[frozenset[EndpointKey], frozenset[str]]] = []
        self.synced: list[bool] = []
        self.trouble: str | None = None
        self.refusal = ""
        self.writes = 0
        self.seconds = 0.0  # that a write of the copy takes
        self.publisher = Publisher(lambda: OwnContent("node1", {keys.complete_key("node1"): b"{}"}), self.now)
        self.live = LiveDatastore(
            str(self.path),
            str(self.copy),
            Mirror(lambda changed, nodes: self.changes.append((frozenset(changed), frozenset(nodes)))),
            self.publisher,
            Heartbeats(lambda: Put(keys.heartbeat_key("node1"), b"%d" % self.now())),
            self.thread,
            on_synced=self.synced.append,
            trouble=self.told,
            connect=self.connect,
            clock=self.now,
        )

    def configure(self, **more: t.Any) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"endpoints": [ADDRESS], **more}))
        new.replace(self.path)

    def now(self) -> float:
        return EPOCH + asyncio.get_running_loop().time()

    def told(self, problem: str | None) -> None:
        self.trouble = problem

    def connect(self, given: DatastoreSettings) -> EtcdClient:
        if self.refusal:
            raise DatastoreSettingsError(self.refusal)
        return EtcdClient(self.etcd.members)

    async def thread(self, work: t.Callable[[], t.Any]) -> t.Any:
        self.writes += 1
        await asyncio.sleep(self.seconds)
        return await inline(work)

    @property
    def known(self) -> set[str]:
        return {f"{key.node}/{key.interface}" for key in self.live.mirror.endpoints}


@contextlib.asynccontextmanager
async def running(node: Node) -> t.AsyncIterator[None]:
    await node.live.start()
    task = asyncio.ensure_future(node.live.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait({task})


def etcd_with(*published: tuple[str, int]) -> FakeEtcd:
    etcd = FakeEtcd()
    grant(etcd)
    for node, number in published:
        publish(etcd, node, number)
    return etcd


def test_an_agent_without_a_datastore_contacts_no_member(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(etcd_with(), tmp_path)
        async with running(node):
            await asyncio.sleep(600)
        assert (node.live.to_dict(), node.trouble, node.changes) == ({}, None, [])
        assert not any(member.calls for member in node.etcd.members.values())

    run(scenario())


def test_the_agent_reads_other_nodes_workloads_and_publishes_its_own(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(etcd_with(("node2", 1)), tmp_path)
        node.configure()
        async with running(node):
            await asyncio.sleep(5)
            assert node.known == {"node2/cali1"}
            publish(node.etcd, "node10", 2)
            node.etcd.put(keys.complete_key("node10"), b"{}")
            await asyncio.sleep(0.2)
            assert node.changes == [
                (frozenset({EndpointKey("node2", "cali1")}), frozenset()),
                (frozenset(), frozenset({"node1"})),  # what this node itself published
                (frozenset({EndpointKey("node10", "cali2")}), frozenset({"node10"})),
            ]
            assert node.synced == [True]
            stored = {event.key.decode() for event in node.etcd.data().values()}
            assert {keys.complete_key("node1"), keys.heartbeat_key("node1")} <= stored
            shown = node.live.to_dict()
            assert shown.pop("member") in node.etcd.members
            assert shown.pop("since") <= shown.pop("known_until")
            assert shown.pop("published") > "2026"
            assert shown == {
                "cluster": "7",
                "endpoints": [ADDRESS],
                "listings": 1,
                "nodes": 3,
                "problem": "",
                "refused": [],
                "resumptions": 0,
                "revision": node.etcd.revision,
                "synced": True,
                "waiting": 0,
                "workloads": 2,
            }

    run(scenario())


def test_an_agent_that_starts_while_etcd_is_away_knows_what_it_knew(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        etcd = etcd_with(("node2", 1))
        node = Node(etcd, tmp_path)
        node.configure()
        async with running(node):
            await asyncio.sleep(5)
            publish(etcd, "node2", 2)
            await asyncio.sleep(0.2)
        for member in etcd.members.values():
            member.kill()
        again = Node(etcd, tmp_path)
        async with running(again):
            assert again.known == {"node2/cali1", "node2/cali2"}  # at once, before anything else
            known_until = again.live.known_until
            await asyncio.sleep(3600)
            assert again.known == {"node2/cali1", "node2/cali2"} and again.live.known_until == known_until
            assert again.trouble is not None and again.trouble.startswith(
                "The datastore is not followed: no member of the etcd cluster answers ("
            )
            assert again.trouble.endswith(
                f"What other nodes have is as it was at {again.live.to_dict()['known_until']}, and stays in force. See "
                "that etcd runs (playbooks/etcd_status.yml)."
            )
            for member in etcd.members.values():
                member.up = True
            publish(etcd, "node2", 3)
            await asyncio.sleep(10)
            assert again.known == {"node2/cali1", "node2/cali2", "node2/cali3"}
            assert again.trouble is None and again.live.to_dict()["listings"] == 0

    run(scenario())


def test_the_copy_is_written_soon_after_a_change_and_not_for_each(tmp_path: pathlib.Path) -> None:
    """One that takes 0.3 seconds is written once in half a minute."""

    async def scenario() -> None:
        node = Node(etcd_with(), tmp_path)
        node.configure()
        node.seconds = 0.3
        async with running(node):
            await asyncio.sleep(40)
            before = node.writes
            for number in range(100):
                publish(node.etcd, "node2", number % 60)
                await asyncio.sleep(0.6)
            assert node.writes - before == 2
            await asyncio.sleep(600)
            assert node.writes - before <= 3
            before = node.writes
            await asyncio.sleep(600)
            assert node.writes == before

    run(scenario())


def test_a_copy_that_cannot_be_written_is_named_and_the_content_stays(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(etcd_with(("node2", 1)), tmp_path)
        node.configure()
        node.copy.mkdir()  # a folder in its place
        (node.copy / "full").touch()
        async with running(node):
            await asyncio.sleep(20)
            assert node.known == {"node2/cali1"}
            assert node.trouble == (
                "What is read from the datastore is not on the disk: "
                f"{node.copy} cannot be written: Is a directory. Make room or correct the file system; it is tried"
                " again."
            )
        assert sorted(os.listdir(tmp_path)) == ["datastore.json", "datastore.jsonl"]

    run(scenario())


@pytest.mark.parametrize("content", ["", "{}\n", '{"format": "calico-datastore", "version": 9}\n', "\x00" * 100])
def test_a_copy_that_cannot_be_read_is_replaced(tmp_path: pathlib.Path, content: str) -> None:
    async def scenario() -> None:
        node = Node(etcd_with(("node2", 1)), tmp_path)
        node.configure()
        node.copy.write_text(content)
        async with running(node):
            await asyncio.sleep(20)
            assert node.known == {"node2/cali1"} and node.trouble is None
        again = Node(node.etcd, tmp_path)
        await again.live.start()
        assert again.known == {"node2/cali1"}

    run(scenario())


def test_a_fleet_that_leaves_its_datastore_forgets_it_and_one_that_joins_needs_no_restart(
    tmp_path: pathlib.Path,
) -> None:
    async def scenario() -> None:
        node = Node(etcd_with(("node2", 1)), tmp_path)
        async with running(node):
            await asyncio.sleep(20)
            node.configure()
            await asyncio.sleep(20)
            assert node.known == {"node2/cali1"} and node.copy.exists()
            node.path.unlink()
            await asyncio.sleep(20)
            assert node.known == set() and not node.copy.exists()
            assert node.live.to_dict() == {} and node.trouble is None
            assert node.changes[-1] == (frozenset({EndpointKey("node2", "cali1")}), frozenset({"node1"}))

    run(scenario())


def test_settings_that_cannot_be_used_are_named_and_what_is_known_stays(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(etcd_with(("node2", 1)), tmp_path)
        node.configure()
        async with running(node):
            await asyncio.sleep(20)
            node.path.write_text("{")
            await asyncio.sleep(20)
            assert node.known == {"node2/cali1"}
            assert node.trouble == f"{node.path}: it is not JSON. Run playbooks/site.yml, which writes the file."
            node.refusal = "The files of TLS cannot be used."
            node.configure()
            await asyncio.sleep(20)
            assert node.known == {"node2/cali1"} and node.trouble == "The files of TLS cannot be used."
            node.refusal = ""
            publish(node.etcd, "node2", 2)
            await asyncio.sleep(20)
            assert node.known == {"node2/cali1", "node2/cali2"} and node.trouble is None

    run(scenario())


def test_a_fault_of_the_program_is_logged_and_the_connection_made_anew(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        node = Node(etcd_with(("node2", 1)), tmp_path)
        node.configure()
        faults = [ZeroDivisionError("a fault")]

        def change(*given: t.Any) -> None:
            if faults:
                raise faults.pop()

        node.live.mirror._on_change = change
        async with running(node):
            await asyncio.sleep(30)
            assert set(node.live.mirror.endpoints) == set(fresh(node.etcd)) and node.live.synced
        assert [record.message for record in caplog.records] == [
            "The connection to the datastore failed, and is made anew."
        ]

    run(scenario())


def test_a_heartbeat_is_written_every_ten_seconds(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(etcd_with(), tmp_path)
        node.configure()
        async with running(node):
            await asyncio.sleep(100)
            before = node.etcd.data()[keys.heartbeat_key("node1").encode()].revision
            await asyncio.sleep(100)
            after = node.etcd.data()[keys.heartbeat_key("node1").encode()].revision
            assert 9 <= after - before <= 12

    run(scenario())
