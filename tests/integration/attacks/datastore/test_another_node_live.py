# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node on live policy: node1 has the rights of a fleet with it, and reaches gates or members."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.release import VERSION
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import (
    documents,
    gateway,
    heartbeats,
    keys,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import NoSpace, PermissionDenied
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import (
    change_answer,
    open_change,
    policy_heartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_answer import ChangeAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.policy_heartbeat import (
    PolicyHeartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import rights
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import ChangeRefused
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import agreement, nodes
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.change import Writer
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.store import LiveStore

from tests.etcd_cluster import EtcdCluster
from tests.integration.attacks.datastore.live_agent import request
from tests.integration.datastore.gates import gates

RELEASE = "trixie"
TIER = DocumentKey("Tier", "", "security")
FOREIGN = [
    *(keys.document_key(TIER), keys.inventory_key(TIER), keys.OPEN_CHANGE, keys.FLEET_SETTINGS),
    *(keys.history_key("node1", "1"), keys.history_key("ada", "1"), keys.answer_key("node2", "1")),
    *(keys.DOCUMENTS, keys.CHANGES, f"{keys.ANSWERS}node1", f"{keys.ANSWERS}node10/1"),
]


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    """The node node1 and the operator ada, with the rights that a run with live policy gives them."""

    async def fill() -> None:
        await cluster.add_user("node1", [(one.kind, one.keys) for one in rights.permissions("node1", live=True)])
        await cluster.add_user("ada", [(one.kind, one.keys) for one in rights.operator_permissions("ada")])
        root = cluster.operator()
        await root.write([gateway.Put(key, b"{}") for key in FOREIGN])
        await root.close()

    asyncio.run(fill())


def test_documents_and_changes(cluster: EtcdCluster) -> None:
    """Write and delete live documents, the open change, settings, history and answers of others.

    Gain: Policy of its own on all nodes, or that none comes into force.
    Precedent: CWE-863 (incorrect authorization).
    Closed: 0.3.0
    Result: The gate refuses each of them, and so does etcd. Without gates, etcd has to have the fix of CVE-2026-33343:
        runs refuse live policy with another one, and nodes take none from it.
    """

    async def attack() -> None:
        root = cluster.operator()
        before = await root.named(FOREIGN)
        async with gates(cluster) as urls:
            for attacker in (
                cluster.settings("node1", urls).client(),
                cluster.settings("node1", cluster.urls).client(),
            ):
                for key in FOREIGN:
                    for operation in (gateway.Put(key, b"forged"), gateway.Delete(key)):
                        with pytest.raises(PermissionDenied):
                            await attacker.write([gateway.Put(keys.answer_key("node1", "1"), b"{}"), operation])
                await attacker.close()
        assert await root.named(FOREIGN) == before and len(before) == len(FOREIGN)
        await root.close()

    asyncio.run(attack())


def test_answers_without_an_end(cluster: EtcdCluster) -> None:
    """Answer changes that nobody has made, each time with another id, with as much as an answer may have.

    Gain: A full database, and operators that read answers for ever.
    Precedent: CWE-770 (allocation of resources without limits).
    Closed: 0.3.0
    Result: Each gate passes eight answers and the one beyond. Then the node has to remove some. A gate refuses larger
        ones.
    """

    async def write(attacker: EtcdClient, change: str, size: int) -> bool:
        try:
            return await attacker.write([gateway.Put(keys.answer_key("node1", change), b"x" * size)])
        except (NoSpace, PermissionDenied) as refused:
            assert refused.message.startswith("the gate: "), refused.message
            return False

    async def attack() -> None:
        root = cluster.operator()
        async with gates(cluster) as urls:
            for url in urls:
                attacker = cluster.settings("node1", [url]).client()
                await root.delete(keys.under(keys.answers_of("node1")))
                assert not await write(attacker, "0", keys.ANSWER_BYTES + 1)
                passed = [await write(attacker, str(number), keys.ANSWER_BYTES) for number in range(20)]
                assert passed == [True] * 9 + [False] * 11
                await attacker.close()
        await root.close()

    asyncio.run(attack())


POLICY = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "GlobalNetworkPolicy",
    "metadata": {"name": "shut"},
    "spec": {"selector": "all()", "order": 1},
}
#: What node1 says to a trial, None for nothing, and what the writer gets.
LIES: list[tuple[bytes | None, str]] = [
    (change_answer.encode(ChangeAnswer("", "", 1.0, "refused", "no \x1b[2J")), r"node1: it has refused it: no "),
    (change_answer.encode(ChangeAnswer("", "", 1.0, "kept", "")), r"node1: it has kept it: $"),
    (b"\x1b[2J", r"node1: its answer cannot be read: it is not JSON$"),
    (b"{" * keys.ANSWER_BYTES, r"node1: its answer cannot be read: it is not JSON$"),
    (None, r"node1: it did not answer within 2 s$"),
]


@contextlib.asynccontextmanager
async def answering(attacker: EtcdClient, root: EtcdClient, lie: t.Callable[[], bytes | None]) -> t.AsyncIterator[None]:
    """Let node1 answer each trial by `lie`, and node2 honestly, in the context."""

    async def answer() -> None:
        honest = change_answer.encode(ChangeAnswer("", "", 1.0, "in_force"))
        seen = set()
        while True:
            entry = await attacker.get(keys.OPEN_CHANGE)
            change = open_change.decode(entry.value) if entry is not None else None
            if change is not None and change.id not in seen:
                seen.add(change.id)
                await root.write([gateway.Put(keys.answer_key("node2", change.id), honest)])
                await root.delete(keys.under(keys.answers_of("node1")))
                value = lie()
                if value is not None:
                    await attacker.write([gateway.Put(keys.answer_key("node1", change.id), value)])
            await asyncio.sleep(0.02)

    task = asyncio.ensure_future(answer())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def test_lies_about_trials(cluster: EtcdCluster) -> None:
    """Refuse each trial, answer it with garbage or not at all, and say what is not so of the policy in force.

    Gain: No operator changes policy any more, or believes that it is in force where it is not.
    Precedent: CWE-345 (insufficient verification of data authenticity), CWE-400.
    Closed: 0.3.0
    Result: The command names the node within the time of the trial, and nothing is made. Without a trial the change is
        made. A node that lacks it is named; the word of one that says that it has it counts, for itself alone.
    """

    async def attack() -> None:
        root, client = cluster.operator(), cluster.settings("ada", cluster.urls).client()
        before = await root.named(FOREIGN)
        await root.write([gateway.Delete(key) for key in (keys.OPEN_CHANGE, FOREIGN[0])])
        cluster_id = (await root.status()).header.cluster
        say = PolicyHeartbeat("node1", time.time(), VERSION, cluster_id, 1 << 40)
        for node in ("node1", "node2"):
            await root.write([
                gateway.Put(keys.blocks_key(node), documents.encode_blocks(["10.244.1.0/29"])),
                gateway.Put(keys.heartbeat_key(node), heartbeats.encode(Heartbeat(node, time.time(), VERSION))),
                gateway.Put(keys.policy_heartbeat_key(node), policy_heartbeat.encode(say)),
            ])  # fmt: skip
        store = LiveStore(client, "ada")
        tried = Writer(store, lambda dummy: None, approve=agreement.approval(store, None, 2, lambda dummy: None))
        async with gates(cluster) as urls:
            attacker = cluster.settings("node1", urls).client()
            lies = iter([lie for lie, dummy in LIES])
            async with answering(attacker, root, lambda: next(lies)):
                for dummy, why in LIES:
                    begun = time.monotonic()
                    with pytest.raises(ChangeRefused, match=why) as refused:
                        await tried.change(request("apply", POLICY))
                    assert "node2" not in str(refused.value) and time.monotonic() - begun < 20
                    assert await root.get(keys.OPEN_CHANGE) is None
                    assert await root.get(keys.document_key(DocumentKey("GlobalNetworkPolicy", "", "shut"))) is None
            made = await Writer(store, lambda dummy: None).change(request("apply", POLICY))
            assert made.revision
            for revision, lacking in ((0, {"node1"}), (1 << 40, set[str]())):
                value = policy_heartbeat.encode(dataclasses.replace(say, revision=revision))
                await attacker.write([gateway.Put(keys.policy_heartbeat_key("node1"), value)])
                waited = await nodes.wait(client, cluster_id, made.revision, [], 0.5, made.written)
                assert (set(waited.lacking), waited.in_force) == (lacking, 2 - len(lacking))
            await attacker.close()
        await root.delete(keys.under(keys.DOCUMENTS))
        await root.write([gateway.Put(entry.key, entry.value) for entry in before])
        await client.close()
        await root.close()

    asyncio.run(attack())
