# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens to the store itself: compacted, restored, replaced, full, or edited by hand into rubbish."""

from __future__ import annotations

import asyncio
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Delete, NoSpace, Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey

from tests.etcd_cluster import EtcdCluster
from tests.integration.datastore.reader import Churn, Links, blocks, prepare, put, reading, under_churn, until

RELEASE = "bookworm"


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    """Three nodes with blocks, and the user of one that reads."""
    asyncio.run(prepare(cluster))


async def newest(operator: EtcdClient) -> int:
    """Return the store's newest revision."""
    return (await operator.status()).header.revision


def test_only_a_node_that_missed_compacted_changes_lists_again(cluster: EtcdCluster) -> None:
    """A node that missed what was compacted since lists anew, and says so; one that missed nothing does not."""

    async def scenario(churn: Churn) -> None:
        async with Links(cluster) as links, reading(cluster.settings("node1", links.urls)) as reader:
            churn.paused = True
            await reader.equals(churn.operator)
            await churn.operator.write([Put(keys.heartbeat_key("node2"), b"{}")])
            cluster.ctl("compact", str(await newest(churn.operator)))
            links.cut()
            await reader.lost("the member closed the connection", "the connection broke")
            await reader.synced()
            assert reader.status.listings == 1
            before = dict(reader.mirror.endpoints)
            links.refused = True
            links.cut()
            await reader.lost("no member of the etcd cluster answers")
            await churn.operator.write([put(1, "node10"), Delete(put(2).key)])
            cluster.ctl("compact", str(await newest(churn.operator)))
            assert reader.mirror.endpoints == before
            links.refused = False
            await reader.equals(churn.operator)
            assert "the datastore no longer has the changes that this node has missed" in reader.problems
            assert reader.status.listings == 2

    under_churn(cluster, scenario)


@pytest.mark.parametrize("grown", [False, True], ids=["behind", "grown past"])
def test_a_restored_store_is_listed_again(cluster: EtcdCluster, tmp_path: pathlib.Path, grown: bool) -> None:
    """A store that went back is listed anew, also one that has grown beyond the revision that the node has read."""

    async def scenario(churn: Churn) -> None:
        async with Links(cluster) as links, reading(cluster.settings("node1", links.urls)) as reader:
            cluster.ctl("snapshot", "save", tmp_path / "snapshot")
            await churn.operator.write([put(61), Delete(put(3).key)])
            await until(lambda: EndpointKey("node2", "cali61") in reader.mirror.endpoints, "a change arrives")
            churn.paused = True
            await asyncio.sleep(0.2)
            before, position = dict(reader.mirror.endpoints), reader.mirror.position
            assert position is not None
            links.refused = True
            links.cut()
            cluster.restore(tmp_path / "snapshot")
            await cluster.answering()
            await reader.lost("no member of the etcd cluster answers")
            assert reader.mirror.endpoints == before
            churn.paused = not grown
            while grown and await newest(churn.operator) < position.revision + 10:
                await asyncio.sleep(0.05)
            links.refused = False
            await reader.equals(churn.operator)
            assert reader.status.listings == 2 and EndpointKey("node2", "cali61") not in reader.mirror.endpoints
            words = "has another history than what this node has read" if grown else "went back to an earlier revision"
            assert f"the datastore {words}" in reader.problems

    under_churn(cluster, scenario)


def test_a_replaced_cluster_is_listed_again(cluster: EtcdCluster) -> None:
    """Another cluster at the same addresses is listed anew; until it has the node's user, the last good stays."""

    async def scenario(churn: Churn) -> None:
        async with reading(cluster.settings("node1")) as reader:
            churn.paused = True
            await reader.equals(churn.operator)
            before = dict(reader.mirror.endpoints)
            await cluster.replace()
            await reader.lost("authentication failed, invalid user ID or password")
            assert reader.mirror.endpoints == before != {}
            await prepare(cluster)
            churn.paused = False
            await reader.equals(churn.operator)
            assert "the datastore is another etcd cluster than before" in reader.problems
            assert reader.status.listings == 2

    under_churn(cluster, scenario)


def test_a_full_database_refuses_writes_with_its_reason(cluster: EtcdCluster) -> None:
    """A full database refuses to write and says why; what is removed arrives, and after the cure all does."""

    async def scenario(churn: Churn) -> None:
        async with reading(cluster.settings("node1")) as reader:
            with pytest.raises(NoSpace) as full:
                for number in range(100):
                    await churn.operator.write([Put(f"/elsewhere/{number}", b"x" * 1_000_000)])
            assert "database space exceeded" in full.value.message
            node = cluster.settings("node1").client()
            with pytest.raises(NoSpace):
                await node.write([put(1, "node1")])
            churn.paused = True
            await reader.equals(churn.operator)
            gone = next(iter(reader.mirror.endpoints))
            await churn.operator.write([Delete(keys.endpoint_key(*gone))])
            await until(lambda: gone not in reader.mirror.endpoints, "a removal arrives")
            assert "alarm:NOSPACE" in cluster.ctl("alarm", "list")

            cluster.ctl("del", "--prefix", "/elsewhere/")
            cluster.ctl("compact", str(await newest(churn.operator)))
            for number in cluster.numbers:
                cluster.ctl("defrag", member=number)
            cluster.ctl("alarm", "disarm")
            churn.paused = False
            assert await node.write([put(1, "node1")])
            await reader.equals(churn.operator)
            await node.close()

    under_churn(cluster, scenario)


def test_edited_by_hand_into_rubbish(cluster: EtcdCluster) -> None:
    """The last good values stay in force and are named, also after the end of a connection; the cure is taken."""

    async def scenario(churn: Churn) -> None:
        async with Links(cluster) as links, reading(cluster.settings("node1", links.urls)) as reader:
            churn.paused = True
            await churn.operator.write([put(1), put(2)])
            await reader.equals(churn.operator)
            before = dict(reader.mirror.endpoints)
            rubbish = [
                Put(put(1).key, b"rubbish"),
                Put(put(2).key, b'{"name": "a/b"}'),
                Put(keys.blocks_key("node2"), b"\xff\x00"),
                Put(f"{keys.ENDPOINTS}node2/a/b", b"{}"),
            ]
            await churn.operator.write(rubbish)
            await until(lambda: len(reader.mirror.refused()) == 4, reader.mirror.refused)
            links.cut()
            await reader.lost("the member closed the connection", "the connection broke")
            await reader.synced()
            assert reader.mirror.endpoints == before
            assert [key for key, _why in reader.mirror.refused()] == sorted(one.key for one in rubbish)
            await churn.operator.write([put(1), put(2), Delete(rubbish[3].key)])
            churn.paused = False
            await churn.operator.write(blocks())
            await reader.equals(churn.operator)
            assert reader.status.listings == 1

    under_churn(cluster, scenario)
