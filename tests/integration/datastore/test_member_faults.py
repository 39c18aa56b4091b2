# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members that are killed, stopped, cut off, slow or hung: in the end the mirror equals a fresh listing.

An operator writes all the time, and what a node knew stays until it knows better.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.etcd_cluster import EtcdCluster
from tests.integration.datastore.reader import (
    CURED,
    Churn,
    Links,
    Reader,
    end,
    prepare,
    reading,
    under_churn,
    until,
)

RELEASE = "trixie"


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    """Three nodes with blocks, and the user of one that reads."""
    asyncio.run(prepare(cluster))


def watched(cluster: EtcdCluster, reader: Reader) -> int:
    """Return the number of the member that a node watches."""
    return cluster.node_urls.index(reader.status.member) + 1


def silent(cluster: EtcdCluster) -> str:
    """Return the problem of a member that sends no progress five times."""
    return f"no answer within {5 * cluster.progress:g} s"


async def lives(reader: Reader) -> None:
    """Wait until another change reaches the mirror, which is in sync."""
    before = reader.mirror.position
    await until(lambda: reader.mirror.position != before and reader.status.synced, lambda: reader.status, CURED)


def test_a_killed_member_is_replaced_without_a_new_listing(cluster: EtcdCluster) -> None:
    """The watched member dies: another one serves at once, nothing is listed anew."""

    async def scenario(churn: Churn) -> None:
        async with reading(cluster.settings("node1")) as reader:
            member = watched(cluster, reader)
            cluster.kill(member)
            await reader.lost("the member closed the connection", "the connection broke")
            await reader.synced(5)
            assert watched(cluster, reader) != member
            cluster.start(member)
            await cluster.answering()
            await reader.equals(churn.operator)
            assert reader.status.listings == 1

    under_churn(cluster, scenario)


def test_the_leader_is_lost(cluster: EtcdCluster) -> None:
    async def scenario(churn: Churn) -> None:
        async with reading(cluster.settings("node1")) as reader:
            leader = await cluster.leader()
            cluster.kill(leader)
            await lives(reader)
            limit = asyncio.get_running_loop().time() + CURED
            while await cluster.leader() in (0, leader):
                assert asyncio.get_running_loop().time() < limit, "there is no other leader"
                await asyncio.sleep(0.1)
            await reader.equals(churn.operator)
            cluster.start(leader)
            await cluster.answering()
            await reader.equals(churn.operator)
            assert reader.status.listings == 1

    under_churn(cluster, scenario)


def test_quorum_is_lost(cluster: EtcdCluster) -> None:
    """With one member of three the node keeps what it has, and says that no leader answers."""

    async def scenario(churn: Churn) -> None:
        async with reading(cluster.settings("node1")) as reader:
            stays = watched(cluster, reader)
            before = reader.mirror.count
            cluster.kill(*(number for number in cluster.numbers if number != stays))
            await reader.lost("no leader", "request timed out")
            assert reader.mirror.count > 0 and abs(reader.mirror.count - before) < 60
            cluster.start(*(number for number in cluster.numbers if number != stays))
            await reader.equals(churn.operator)
            assert reader.status.listings == 1

    under_churn(cluster, scenario)


def test_stopped_and_hung(cluster: EtcdCluster) -> None:
    """A member with SIGSTOP, and one behind a link that takes all and gives nothing, are left for others."""

    async def scenario(churn: Churn) -> None:
        async with Links(cluster) as links, reading(cluster.settings("node1", links.urls)) as hung:
            link = hung.status.member
            same = cluster.node_urls[links.urls.index(link)]
            async with reading(cluster.settings("node1"), same) as stopped:
                links.hung.add(link)
                cluster.stop(watched(cluster, stopped))
                await asyncio.gather(*(reader.lost(silent(cluster)) for reader in (hung, stopped)))
                await asyncio.gather(hung.synced(), stopped.synced())
                assert stopped.status.member != same and hung.status.member != link
                cluster.cont(cluster.node_urls.index(same) + 1)
                links.hung.clear()
                await asyncio.gather(hung.equals(churn.operator), stopped.equals(churn.operator))
                assert hung.status.listings == stopped.status.listings == 1

    under_churn(cluster, scenario)


def test_a_partitioned_member_is_left_for_another(cluster: EtcdCluster) -> None:
    """A member that no packet reaches is left, and the node gets the others' changes meanwhile."""

    async def scenario(churn: Churn) -> None:
        async with reading(cluster.settings("node1")) as reader:
            member = watched(cluster, reader)
            cluster.partition(member)
            await reader.lost(silent(cluster))
            await reader.synced()
            await lives(reader)
            assert watched(cluster, reader) != member
            cluster.heal(member)
            await reader.equals(churn.operator)
            assert reader.status.listings == 1

    under_churn(cluster, scenario)


def test_a_slow_member_stays_in_use(cluster: EtcdCluster) -> None:
    """Members that are 200 ms away stay in use: the feed takes them for alive."""

    async def scenario(churn: Churn) -> None:
        async with Links(cluster) as links, reading(cluster.settings("node1", links.urls)) as reader:
            links.delay = 0.2
            links.cut()
            await reader.lost("the member closed the connection", "the connection broke")
            await reader.synced()
            member, resumptions = reader.status.member, reader.status.resumptions
            await asyncio.sleep(1)
            assert (reader.status.synced, reader.status.member) == (True, member)
            assert (reader.status.listings, reader.status.resumptions) == (1, resumptions)
            churn.paused = True
            await reader.equals(churn.operator)

    under_churn(cluster, scenario)


def test_a_feed_ends_when_it_is_cancelled(cluster: EtcdCluster) -> None:
    """Whatever comes at the same time: 25 feeds are cancelled while changes arrive."""

    async def scenario(churn: Churn) -> None:
        del churn
        for number in range(25):
            settings = cluster.settings("node1")
            reader = Reader(settings)
            task = asyncio.ensure_future(reader.feed.run())
            await asyncio.sleep(number * 0.004)
            await end(task)
            await reader.client.close()

    under_churn(cluster, scenario)
