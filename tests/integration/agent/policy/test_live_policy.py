# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live policy on this kernel: an agent as a process, three members of etcd with gates, and datagrams all the time.

Three writers change documents ten times a second, while members and the agent are killed. What policy allows loses
nothing, what it forbids never gets through, and at the end the kernel has what a fresh compile of the store gives.
"""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib
import random
import threading
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient, Unreachable
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import (
    Delete,
    EtcdError,
    Operation,
    Put,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import (
    change_answer,
    live_documents,
    open_change,
    policy_heartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_answer import ChangeAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.open_change import OpenChange
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.policy_heartbeat import (
    PolicyHeartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import rights
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import ChangeRefused
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import nodes
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.change import LiveChange, Writer
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.store import LiveStore
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.documents import from_resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.etcd_cluster import EtcdCluster, programs
from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.integration.agent.policy.policed_daemon import CLOSED, OPEN, Datagrams, add, closed_for, policed, web
from tests.integration.host_under_test import HOST
from tests.integration.policy.documents import Document, global_policy
from tests.long_form import LONG

CHANGES = 5000 if LONG else 500
BETWEEN = 0.1  # seconds between two changes
KEY = DocumentKey("GlobalNetworkPolicy", "", "web")


def state() -> NodeState:
    """Return a state whose inventory closes the workload `web`, and allows live policy."""
    found = policed(global_policy("closed", 'app == "web"', types=["Ingress"], order=1000))
    assert found.policy is not None
    settings = dataclasses.replace(found.policy.settings, live=True)
    return dataclasses.replace(found, plan="live", policy=dataclasses.replace(found.policy, settings=settings))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[EtcdCluster]:
    """Three running members behind gates, with the blocks and the user of node1."""
    with EtcdCluster(programs("trixie"), tmp_path_factory.mktemp("etcd"), gates=True) as found:
        with found.inside():
            found.begin()
            asyncio.run(_with_node(found))
        yield found


async def _with_node(cluster: EtcdCluster) -> None:
    await cluster.add_user("node1", [(one.kind, one.keys) for one in rights.permissions("node1", live=True)])
    operator = cluster.operator()
    await operator.write([Put(keys.blocks_key("node1"), documents.encode_blocks(["10.244.1.0/29"]))])
    await operator.close()


@pytest.fixture
def daemon(cluster: EtcdCluster, engine: pathlib.Path, tmp_path: pathlib.Path) -> t.Iterator[Daemon]:
    """A running agent that follows the datastore, with the workloads `client` and `web`; no document is there."""
    with cluster.inside():
        cluster.mend()
        asyncio.run(cluster.answering())
        change(cluster, *(Delete(key) for key in asyncio.run(_found(cluster, keys.under(keys.DOCUMENTS)))))
    with daemon_under_test(engine, tmp_path, state()) as node:
        cluster.join(str(tmp_path / "netns" / HOST), 101, "etcd0")
        node.follow(cluster.settings("node1"))
        node.settings(cooldown=0.0, cleanup_grace=0.0)
        node.start()
        node.until(lambda: node.call("status")["datastore"]["synced"], "the datastore is followed")
        add(node, "client"), add(node, "web")
        node.in_sync()
        yield node


async def _found(cluster: EtcdCluster, wanted: keys.KeyRange) -> dict[str, bytes]:
    operator = cluster.operator()
    found = {entry.key: entry.value async for page in operator.pages(wanted) for entry in page.entries}
    await operator.close()
    return found


def document(name: str, body: Document) -> Put:
    key = DocumentKey(body["kind"], body["metadata"].get("namespace", ""), name)
    return Put(keys.document_key(key), live_documents.encode(body))


def change(cluster: EtcdCluster, *operations: Operation) -> int:
    """Do operations in transactions of at most 100, and return the revision of the last one, 0 without operations."""

    async def write() -> int:
        operator, revision = cluster.operator(), 0
        for at in range(0, len(operations), 100):
            request = gateway.transaction_request(operations[at : at + 100])
            revision = gateway.header_of(await operator.call("/v3/kv/txn", request)).revision
        await operator.close()
        return revision

    with cluster.inside():
        return asyncio.run(write())


def said(cluster: EtcdCluster) -> PolicyHeartbeat:
    with cluster.inside():
        found = asyncio.run(_found(cluster, keys.under(keys.heartbeats_of("node1"))))
    return policy_heartbeat.decode("node1", found[keys.policy_heartbeat_key("node1")])


def test_a_document_opens_and_closes_what_the_inventory_has_closed(cluster: EtcdCluster, daemon: Daemon) -> None:
    assert closed_for(daemon, "client", "web", OPEN)
    revision = change(cluster, document("web", web(OPEN)))
    daemon.until(lambda: not closed_for(daemon, "client", "web", OPEN), "the document is in force")
    daemon.until(lambda: said(cluster).revision >= revision, "the node says so")
    assert closed_for(daemon, "client", "web", CLOSED)
    cluster.kill()
    daemon.kill()
    daemon.start()
    daemon.in_sync()
    assert not closed_for(daemon, "client", "web", OPEN)
    cluster.start()
    daemon.until(lambda: daemon.call("status")["datastore"]["synced"], "the datastore is followed")
    revision = change(cluster, Delete(keys.document_key(KEY)))
    daemon.until(lambda: closed_for(daemon, "client", "web", OPEN), "it is closed again")
    daemon.until(lambda: said(cluster).revision >= revision, "the node says so")
    # Where a member was missing, what is to be published is tried again after a pause.
    daemon.until(lambda: daemon.call("status")["problems"] == [], "no problem is left")


def test_apply_returns_when_the_node_has_it(cluster: EtcdCluster, daemon: Daemon) -> None:
    """A packet just after it meets the change, and a rollback closes what was open."""

    def written(act: t.Callable[[Writer], t.Awaitable[LiveChange]]) -> tuple[str, float]:
        async def write() -> tuple[str, float]:
            client = cluster.operator()
            found = await act(Writer(LiveStore(client, "root"), lambda dummy: None))
            began, number = time.monotonic(), (await client.status()).header.cluster
            waited = await nodes.wait(client, number, found.revision, [], 30.0, found.written)
            await client.close()
            assert (waited.in_force, dict(waited.lacking), waited.silent) == (1, {}, ())
            return found.change, time.monotonic() - began

        with cluster.inside():
            return asyncio.run(write())

    def apply(*ports: int) -> tuple[str, float]:
        asked = {"content": web(*ports), "place": "web.yml"}
        request = {"verb": "apply", "namespace": "", "skip": False, "documents": [asked]}
        return written(lambda writer: writer.change(request))

    daemon.until(lambda: _beats(cluster), "the node says how it does")
    change_id, dummy = apply(OPEN)
    assert not closed_for(daemon, "client", "web", OPEN)
    took = [apply(OPEN, 7000 + number)[1] for number in range(10)]
    assert sorted(took)[len(took) // 2] < 3.0, took  # an idle machine takes some 0.3 s
    last, dummy = apply(7000)
    assert closed_for(daemon, "client", "web", OPEN)
    written(lambda writer: writer.undo(last))
    assert not closed_for(daemon, "client", "web", OPEN)
    with pytest.raises(ChangeRefused, match="later changes touch the same"):
        written(lambda writer: writer.undo(change_id))


def _beats(cluster: EtcdCluster) -> bool:
    with cluster.inside():
        return keys.heartbeat_key("node1") in asyncio.run(_found(cluster, keys.under(keys.heartbeats_of("node1"))))


def test_a_trial_opens_what_it_says_and_closes_it_at_its_end(cluster: EtcdCluster, daemon: Daemon) -> None:
    found = live_documents.encode(web(OPEN))
    made = {KEY: found}

    def answer(name: str) -> str:
        with cluster.inside():
            answers = asyncio.run(_found(cluster, keys.under(keys.answers_of("node1"))))
        value = answers.get(keys.answer_key("node1", name))
        return change_answer.decode("node1", name, value).state if value is not None else ""

    trial = OpenChange("short", "alice", "trial", 8, 1, made)
    change(cluster, Put(keys.OPEN_CHANGE, open_change.encode(trial)))
    daemon.until(lambda: not closed_for(daemon, "client", "web", OPEN), "it is in force")
    daemon.until(lambda: closed_for(daemon, "client", "web", OPEN), "its time is over")
    daemon.until(lambda: answer("short") == "reverted", "the node says so")
    trial = dataclasses.replace(trial, id="kept", seconds=120)
    change(cluster, Put(keys.OPEN_CHANGE, open_change.encode(trial)))
    daemon.until(lambda: answer("kept") == "in_force", "the second one is in force")
    change(cluster, Delete(keys.OPEN_CHANGE), Put(keys.document_key(KEY), found))
    daemon.until(lambda: answer("kept") == "kept", "a new connection has shown the commit")
    assert not closed_for(daemon, "client", "web", OPEN)


def test_a_question_names_the_connection_that_would_be_denied(cluster: EtcdCluster, daemon: Daemon) -> None:
    change(cluster, document("web", web(OPEN)))
    daemon.until(lambda: not closed_for(daemon, "client", "web", OPEN), "the document is in force")

    def answer() -> ChangeAnswer | None:
        with cluster.inside():
            answers = asyncio.run(_found(cluster, keys.under(keys.answers_of("node1"))))
        value = answers.get(keys.answer_key("node1", "asked"))
        return change_answer.decode("node1", "asked", value) if value is not None else None

    with Datagrams(daemon, "client", "web", OPEN) as stream:
        time.sleep(1)
        question = OpenChange("asked", "alice", "question", 10, 1, {KEY: None})
        change(cluster, Put(keys.OPEN_CHANGE, open_change.encode(question)))
        daemon.until(lambda: answer() is not None, "the node answers")
        change(cluster, Delete(keys.OPEN_CHANGE))
    found = answer()
    assert found is not None and found.state == "answered" and found.effect is not None
    assert (found.effect.unknown, found.effect.count_objects, found.effect.endpoints) == ("", 1, 1)
    assert found.effect.chains and found.effect.denied
    assert {(one.protocol, one.destination_port) for one in found.effect.flows} == {(17, OPEN)}
    assert stream.lost() == [] and not closed_for(daemon, "client", "web", OPEN)
    assert daemon.call("status")["problems"] == []


class LiveWriter(threading.Thread):
    """Changes its own documents in a random order; `left` is what it has in the store."""

    def __init__(self, cluster: EtcdCluster, number: int, count: int) -> None:
        super().__init__()
        self.cluster = cluster
        self.left: dict[str, bytes] = {}
        self.failed: list[BaseException] = []
        self._number, self._count = number, count
        self._chance = random.Random(number)

    def run(self) -> None:
        try:
            with self.cluster.inside():
                asyncio.run(self._write())
        except BaseException as error:  # noqa: BLE001  it is shown by the test
            self.failed.append(error)

    async def _write(self) -> None:
        operator = self.cluster.operator()
        for _count in range(self._count):
            began = time.monotonic()
            await self._once(operator)
            await asyncio.sleep(max(0.0, began + 3 * BETWEEN - time.monotonic()))
        await operator.close()

    async def _once(self, operator: EtcdClient) -> None:
        after = dict(self.left)
        for operation in self._operations():
            if isinstance(operation, Put):
                after[operation.key] = operation.value
            else:
                after.pop(operation.key, None)
        operations: list[Operation] = [Delete(key) for key in self.left.keys() - after.keys()]
        operations += [Put(key, value) for key, value in after.items() if self.left.get(key) != value]
        while operations:
            try:
                await operator.write(operations)
                break
            except (EtcdError, Unreachable):  # a member was killed; the same again is no other change
                await asyncio.sleep(0.2)
        self.left = after

    def _operations(self) -> list[Operation]:
        """Return the change of a policy that stays open for OPEN, or of others with a tier and a set of their own."""
        chance, number = self._chance, self._number
        if chance.random() < 0.3:
            more = sorted(chance.sample(range(6000, 6020), chance.randint(1, 4)))
            return [document(f"web{number}", web(OPEN, *more, name=f"web{number}"))]
        tier, policy, nets = f"tier{number}", f"tier{number}.more", f"nets{number}"
        rule = {"action": "Allow", "source": {"selector": f'net == "{nets}"'}}
        body = global_policy(policy, 'app == "client"', types=["Ingress"], ingress=[rule])
        body["spec"]["tier"] = tier
        whole = [
            document(
                tier,
                {
                    "kind": "Tier",
                    "metadata": {"name": tier},
                    "spec": {"order": chance.randint(1, 9), "defaultAction": "Pass"},
                },
            ),
            document(policy, body),
            document(
                nets,
                {
                    "kind": "GlobalNetworkSet",
                    "metadata": {"name": nets, "labels": {"net": nets}},
                    "spec": {"nets": [f"10.{chance.randint(1, 9)}.0.0/16"]},
                },
            ),
        ]
        return whole if chance.random() < 0.6 else [Delete(one.key) for one in whole]


def test_ten_changes_a_second_lose_nothing_and_let_nothing_through(cluster: EtcdCluster, daemon: Daemon) -> None:
    change(cluster, document("web", web(OPEN)))
    daemon.until(lambda: not closed_for(daemon, "client", "web", OPEN), "the document is in force")
    writers = [LiveWriter(cluster, number, CHANGES // 3) for number in range(3)]
    chance = random.Random(7)
    with (
        Datagrams(daemon, "client", "web", OPEN) as open_,
        Datagrams(daemon, "client", "web", CLOSED) as closed,
    ):
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            time.sleep(chance.uniform(1, 4))
            if chance.random() < 0.5:
                daemon.kill()
                daemon.start()
            else:
                number = chance.choice(cluster.numbers)
                cluster.kill(number)
                time.sleep(0.5)
                cluster.start(number)
        for writer in writers:
            writer.join()
        assert [writer.failed for writer in writers] == [[], [], []]
        revision = change(cluster, document("last", web(CLOSED + 1, name="last")))
        daemon.until(lambda: said(cluster).revision >= revision, "the last change is in force")
    assert len(closed.sent) > 20 and closed.arrived() == []
    assert open_.lost() == []
    with cluster.inside():
        stored = asyncio.run(_found(cluster, keys.under(keys.DOCUMENTS)))
    assert {key: value for writer in writers for key, value in writer.left.items()}.items() <= stored.items()
    daemon.in_sync()
    daemon.until(lambda: daemon.call("status")["problems"] == [], "no problem is left")
    assert daemon.call("status")["datastore"]["live_policy"]["documents"] == len(stored)
    names = {from_resources.policy_name(found) for found in map(_policy, stored.items()) if found is not None}
    chains = daemon.kernel.run(["iptables-save", "-t", "filter"]).output
    assert all(name in names for name in ("web", "last")) and chains.count(":cali-p") > 0


def _policy(stored: tuple[str, bytes]) -> resources.GlobalNetworkPolicy | None:
    key = keys.parse_document_key(stored[0])
    assert key is not None
    found = live_documents.decode(key, stored[1])
    return found if isinstance(found, resources.GlobalNetworkPolicy) else None
