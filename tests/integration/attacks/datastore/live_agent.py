# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole agent with live policy on a kernel in memory, which follows a real cluster, and operators of that cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import policy_heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.policy_heartbeat import (
    PolicyHeartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import rights
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.change import Writer
from ansible_collections.baremetal.host_routing.plugins.module_utils.live.store import LiveStore

from tests.etcd_cluster import EtcdCluster
from tests.unit.agent.datastore import live_node
from tests.unit.agent.node_under_test import Node

#: How long anything may take on a busy machine.
LIMIT = 60.0

Data = dict[str, t.Any]


async def prepare(cluster: EtcdCluster, *operators: str) -> None:
    """Make node1 with live policy, and operators, each with the rights that a run gives it."""
    await cluster.add_user("node1", [(one.kind, one.keys) for one in rights.permissions("node1", live=True)])
    for name in operators:
        await cluster.add_user(name, [(one.kind, one.keys) for one in rights.operator_permissions(name)])
    root = cluster.operator()
    await root.write([Put(keys.blocks_key("node1"), documents.encode_blocks(["10.244.1.0/29"]))])
    await root.close()


@contextlib.asynccontextmanager
async def following(cluster: EtcdCluster, folder: pathlib.Path) -> t.AsyncIterator[Node]:
    """Yield node1 once it says what it has in force."""
    one = live_node.node(folder)
    pathlib.Path(one.machine.datastore).write_text(json.dumps(cluster.settings("node1").to_dict()))
    root = cluster.operator()
    async with live_node.running(one):
        await until(lambda: _has(root, keys.policy_heartbeat_key("node1")))
        yield one
    await root.close()


async def _has(root: EtcdClient, key: str) -> bool:
    return await root.get(key) is not None


async def said(root: EtcdClient) -> PolicyHeartbeat:
    """Return what node1 says of its live policy in the datastore."""
    entry = await root.get(keys.policy_heartbeat_key("node1"))
    assert entry is not None
    return policy_heartbeat.decode("node1", entry.value)


async def in_force(root: EtcdClient, revision: int) -> None:
    """Wait until node1 has a revision in force."""

    async def is_there() -> bool:
        return (await said(root)).revision >= revision

    await until(is_there)


async def until(condition: t.Callable[[], t.Awaitable[bool]]) -> None:
    end = asyncio.get_running_loop().time() + LIMIT
    while not await condition():
        await asyncio.sleep(0.05)
        assert asyncio.get_running_loop().time() < end


async def put(root: EtcdClient, key: str, value: bytes) -> int:
    """Write a key, and return the revision."""
    await root.write([Put(key, value)])
    entry = await root.get(key)
    assert entry is not None
    return entry.mod_revision


@contextlib.asynccontextmanager
async def writing(cluster: EtcdCluster, user: str, **options: t.Any) -> t.AsyncIterator[Writer]:
    """Yield what an operator writes with, as calicoctl does."""
    client = cluster.settings(user, cluster.urls).client()
    yield Writer(LiveStore(client, user), lambda dummy: None, **options)
    await client.close()


def request(verb: str, *contents: Data, **more: t.Any) -> Data:
    """Return a request for a change of documents."""
    listed = [{"content": content, "place": "here"} for content in contents]
    return {"verb": verb, "namespace": "", "skip": True, "documents": listed, **more}
