# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by an operator of live policy, and with its files from elsewhere: ada attacks."""

from __future__ import annotations

import asyncio
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import PermissionDenied
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey, KeyRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import auth, rights

from tests.etcd_cluster import EtcdCluster
from tests.integration.datastore.gates import gates
from tests.integration.datastore.reader import prepare, put

RELEASE = "trixie"
TIER = DocumentKey("Tier", "", "security")
DOCUMENT, PUBLISHED = keys.document_key(TIER), keys.inventory_key(TIER)
OWN = [DOCUMENT, keys.OPEN_CHANGE, keys.history_key("ada", "1")]
FOREIGN = [
    *(put(1, "node1").key, keys.heartbeat_key("node1"), keys.answer_key("node1", "1"), keys.blocks_key("node1")),
    *(keys.node_key("node1"), keys.pool_key("default"), PUBLISHED, keys.FLEET_SETTINGS),
    *(keys.history_key("berta", "1"), keys.history_key("ada2", "1"), f"{keys.HISTORY}ada", "/elsewhere"),
    *(keys.endpoint_key("ada", "cali1"), keys.heartbeat_key("ada"), keys.answer_key("ada", "1")),
]


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    """Nodes with blocks, and the operators ada and berta with the rights that a run gives them."""

    async def fill() -> None:
        await prepare(cluster)
        for name in ("ada", "berta"):
            await cluster.add_user(name, [(one.kind, one.keys) for one in rights.operator_permissions(name)])
        root = cluster.operator()
        await root.write([gateway.Put(key, b"{}") for key in FOREIGN])
        await root.close()

    asyncio.run(fill())


def attacked(
    cluster: EtcdCluster,
    attack: t.Callable[[EtcdClient], t.Awaitable[None]],
    urls: t.Sequence[str] = (),
) -> None:
    """Run an attack by ada at the members, or at `urls`; the keys of others are as before."""

    async def run() -> None:
        attacker, root = cluster.settings("ada", urls or cluster.urls).client(), cluster.operator()
        before = await root.named(FOREIGN)
        await attack(attacker)
        assert await root.named(FOREIGN) == before and len(before) == len(FOREIGN)
        await attacker.close()
        await root.close()

    asyncio.run(run())


def test_keys_outside_of_its_prefixes(cluster: EtcdCluster) -> None:
    """Write and delete workloads, answers, settings, and the history of others, also beside a valid change.

    Gain: Other policy than the inventory's, workloads that do not exist, or changes in the name of another operator.
    Precedent: CWE-863 (incorrect authorization).
    Closed: 0.3.0
    Result: Etcd refuses each transaction as a whole. What an operator may write, it can write.
    """

    async def attack(attacker: EtcdClient) -> None:
        for key in FOREIGN:
            for operation in (gateway.Put(key, b"forged"), gateway.Delete(key)):
                with pytest.raises(PermissionDenied):
                    await attacker.write([operation])
                with pytest.raises(PermissionDenied):
                    await attacker.write([gateway.Put(DOCUMENT, b"{}"), operation])
        for wide in (
            *(keys.EVERYTHING, KeyRange(keys.DOCUMENTS, keys.under(keys.ENDPOINTS).end), keys.under(keys.HISTORY)),
            *(KeyRange("\0", "\0"), KeyRange(keys.CHANGES, keys.under(keys.DOCUMENTS).end)),
        ):
            with pytest.raises(PermissionDenied):
                await attacker.delete(wide)
        assert await attacker.get(DOCUMENT) is None
        await attacker.write([gateway.Put(key, b"{}") for key in OWN])
        readable = {*OWN, *FOREIGN} - {"/elsewhere"}
        assert {entry.key for entry in await attacker.named(sorted(readable))} == readable
        with pytest.raises(PermissionDenied):
            await attacker.get("/elsewhere")
        await attacker.write([gateway.Delete(key) for key in OWN])

    attacked(cluster, attack)


def test_rights_that_it_gives_itself(cluster: EtcdCluster) -> None:
    """Make users and roles, take the role root or that of another operator, and switch authentication off.

    Gain: Everything in etcd.
    Precedent: CWE-269 (improper privilege management).
    Closed: 0.3.0
    Result: Etcd refuses all of it: an operator does not have the role root.
    """

    async def attack(attacker: EtcdClient) -> None:
        everything = auth.Permission(keys.EVERYTHING, auth.READWRITE)
        for path, body in (
            (auth.USER_ADD, auth.user_with_password("mine", "x")),
            (auth.USER_PASSWORD, auth.user_with_password("root", "x")),
            (auth.USER_GRANT, auth.grant_role("ada", "root")),
            (auth.USER_GRANT, auth.grant_role("ada", "berta")),
            (auth.ROLE_GRANT, auth.grant("ada", everything)),
            (auth.ROLE_DELETE, auth.named_role("node1")),
            ("/v3/auth/disable", b"{}"),
        ):
            with pytest.raises(PermissionDenied):
                await attacker.call(path, body)

    attacked(cluster, attack)


def test_an_operators_files_on_a_node(cluster: EtcdCluster) -> None:
    """Write documents and changes through a gate, with a stolen certificate and password of an operator.

    Gain: Policy of its own on all nodes, from any node that the gates let in.
    Precedent: CWE-522 (insufficiently protected credentials).
    Closed: 0.3.0
    Result: The gates pass no write of an operator. It reads, as the operator does, until its user is deleted.
    """

    async def attack() -> None:
        async with gates(cluster) as urls:
            attacker = cluster.settings("ada", urls).client()
            for key in (*OWN, *FOREIGN[:-3]):
                for operation in (gateway.Put(key, b"forged"), gateway.Delete(key)):
                    with pytest.raises(PermissionDenied) as refused:
                        await attacker.write([operation])
                    assert refused.value.message == "the gate: a write beside the user's own keys is not passed"
            for key in FOREIGN[-3:]:  # those of a node with its name, which the gate passes and etcd refuses
                with pytest.raises(PermissionDenied):
                    await attacker.write([gateway.Put(key, b"{}")])
            assert [entry.key for entry in await attacker.named([PUBLISHED])] == [PUBLISHED]
            await attacker.close()

    asyncio.run(attack())
