# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the client asks of a real etcd: transactions with conditions, pages, the past, and its own rights."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Delete, Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey

from tests.etcd_cluster import EtcdCluster
from tests.integration.datastore.reader import prepare, put, reading, until

RELEASE = "bookworm"


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    """Three nodes with blocks, and the user of one that reads."""
    asyncio.run(prepare(cluster))


def test_a_condition_that_does_not_hold_writes_nothing(cluster: EtcdCluster) -> None:
    async def scenario() -> None:
        client = cluster.operator()
        one = put(61)
        assert await client.write([one], [gateway.Unchanged(one.key, 0)])
        assert not await client.write([Put(one.key, b"other")], [gateway.Unchanged(one.key, 0)])
        found = await client.get(one.key)
        assert found is not None and json.loads(found.value) == json.loads(one.value)
        assert await client.get(keys.endpoint_key(*EndpointKey("node2", "cali99"))) is None
        await client.close()

    asyncio.run(scenario())


def test_pages_and_the_past(cluster: EtcdCluster) -> None:
    """Pages are all of one revision, whatever is written between them, and the past is answered or refused by name."""

    async def scenario() -> None:
        client = cluster.operator()
        before = (await client.status()).header.revision
        listed: list[str] = []
        gone: set[str] = set()
        async for page in client.pages(keys.WATCHED, 25):
            listed += [entry.key for entry in page.entries]
            assert page.header.revision == before
            gone.add(put(len(listed)).key)
            await client.write([put(62), Delete(put(len(listed)).key)])
        assert len(listed) == len(set(listed)) > 50 and put(62).key not in listed
        found = await client.history(keys.WATCHED, [put(62).key, listed[0]], before)
        assert found.total == len(listed) and [entry.key for entry in found.entries] == [listed[0]]
        last = await client.last_change(keys.WATCHED)
        assert last.entries[0].key == put(62).key and last.total == len({*listed, put(62).key} - gone)
        names = [put(62).key, keys.heartbeat_key("nobody"), keys.blocks_key("node1")]
        assert [entry.key for entry in await client.named(names)] == [names[0], names[2]]
        assert await client.counts([keys.WATCHED, keys.under(keys.HEARTBEATS)]) == [last.total, 0]
        with pytest.raises(gateway.FutureRevision):
            await client.history(keys.WATCHED, [], before + 1000)
        cluster.ctl("compact", str(before + 1))
        with pytest.raises(gateway.Compacted):
            await client.history(keys.WATCHED, [], before)
        await client.close()

    asyncio.run(scenario())


def test_a_large_listing_and_a_large_transaction(cluster: EtcdCluster) -> None:
    """A hundred changes of one transaction arrive as one, and a node that begins reads all pages."""

    async def scenario() -> None:
        client = cluster.operator()
        for first in range(0, 1200, 100):
            await client.write(
                [Put(keys.endpoint_key("node10", f"x{n}"), put(n, "node10").value) for n in range(first, first + 100)]
            )
        async with reading(cluster.settings("node1")) as reader:
            await reader.equals(client)
            assert len(reader.mirror.endpoints) > 1200
            await client.write([Delete(keys.endpoint_key("node10", f"x{n}")) for n in range(100)])
            await until(lambda: EndpointKey("node10", "x99") not in reader.mirror.endpoints, "a removal arrives")
            await reader.equals(client)
        await client.close()

    asyncio.run(scenario())


def test_a_node_has_only_its_rights_and_an_unknown_user_has_none(cluster: EtcdCluster) -> None:
    """A node has the rights that it needs. Without a user, or with a wrong password, it has none."""

    async def scenario() -> None:
        settings = cluster.settings("node1")
        node = settings.client()
        assert await node.write([put(1, "node1"), Put(keys.heartbeat_key("node1"), b"{}")])
        with pytest.raises(gateway.PermissionDenied):
            [page async for page in node.pages(keys.EVERYTHING)]
        refusals = (gateway.Unauthenticated, gateway.PermissionDenied)  # of 3.5, and of 3.4
        for user, kind in (("", refusals), ("wrong", (gateway.WrongPassword,))):
            client = dataclasses.replace(settings, user=user and "node1", password=user).client()
            with pytest.raises(kind):
                await client.write([put(1, "node1")])
            await client.close()
        await node.close()

    asyncio.run(scenario())
