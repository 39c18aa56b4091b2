# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node on live policy: node1 has the rights of a fleet with it, and reaches gates or members."""

from __future__ import annotations

import asyncio

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import NoSpace, PermissionDenied
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import rights

from tests.etcd_cluster import EtcdCluster
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
    """The node node1, with the rights that a run with live policy gives it."""

    async def fill() -> None:
        await cluster.add_user("node1", [(one.kind, one.keys) for one in rights.permissions("node1", live=True)])
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
