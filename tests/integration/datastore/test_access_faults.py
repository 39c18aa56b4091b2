# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lets a node in: tokens, users, rights and certificates that end, and are given again."""

from __future__ import annotations

import asyncio

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys

from tests.etcd_certificates import DAY
from tests.etcd_cluster import EtcdCluster
from tests.integration.datastore.reader import Churn, Links, prepare, put, reading, under_churn

RELEASE = "trixie"


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    """Three nodes with blocks, and the user of one that reads."""
    asyncio.run(prepare(cluster))


def test_token_revoked(cluster: EtcdCluster) -> None:
    """Members that have forgotten all tokens cost no listing, and a writer no call."""

    async def scenario(churn: Churn) -> None:
        node = cluster.settings("node1").client()
        async with reading(cluster.settings("node1")) as reader:
            assert await node.write([put(1, "node1")])
            for number in cluster.numbers:
                cluster.kill(number)
                cluster.start(number)
                await cluster.answering(number)
            await reader.equals(churn.operator)
            assert reader.status.listings == 1
            assert await node.write([put(2, "node1")])
            # A user whose password is set anew loses its tokens, while all connections stay.
            settings = cluster.settings("node1")
            body = {"name": "node1", "password": settings.password}
            await churn.operator.call("/v3/auth/user/changepw", gateway.to_bytes(body))
            assert await node.write([put(3, "node1")])
            await reader.equals(churn.operator)
        await node.close()

    under_churn(cluster, scenario)


def test_user_and_rights_revoked(cluster: EtcdCluster) -> None:
    """A node whose user, or right to read, is gone keeps what it has and says why; given again, it goes on."""

    async def scenario(churn: Churn) -> None:
        async with Links(cluster) as links, reading(cluster.settings("node1", links.urls)) as reader:
            churn.paused = True
            await reader.equals(churn.operator)
            before = dict(reader.mirror.endpoints)
            watched = {"key": gateway.encoded(keys.WATCHED.start), "range_end": gateway.encoded(keys.WATCHED.end)}
            await churn.operator.call("/v3/auth/role/revoke", gateway.to_bytes({"role": "node1", **watched}))
            links.cut()
            await reader.lost("etcdserver: permission denied")
            assert reader.mirror.endpoints == before
            right = {"name": "node1", "perm": {"permType": "READ", **watched}}
            await churn.operator.call("/v3/auth/role/grant", gateway.to_bytes(right))
            churn.paused = False
            await reader.equals(churn.operator)

            churn.paused = True
            await reader.equals(churn.operator)
            before = dict(reader.mirror.endpoints)
            await churn.operator.call("/v3/auth/user/delete", gateway.to_bytes({"name": "node1"}))
            links.cut()
            await reader.lost("etcdserver: authentication failed, invalid user ID or password")
            assert reader.mirror.endpoints == before
            body = {"name": "node1", "password": cluster.settings("node1").password}
            await churn.operator.call("/v3/auth/user/add", gateway.to_bytes(body))
            await churn.operator.call("/v3/auth/user/grant", gateway.to_bytes({"user": "node1", "role": "node1"}))
            churn.paused = False
            await reader.equals(churn.operator)
            assert reader.status.listings == 1

    under_churn(cluster, scenario)


def test_certificate_of_the_client_expired(cluster: EtcdCluster) -> None:
    """New files in place of the old ones are the cure: no process begins anew."""

    async def scenario(churn: Churn) -> None:
        async with Links(cluster) as links, reading(cluster.settings("node1", links.urls)) as reader:
            churn.paused = True
            await reader.equals(churn.operator)
            before = dict(reader.mirror.endpoints)
            cluster.authority.issue("node1", valid=-DAY)
            links.cut()
            await reader.lost("it refuses this client's certificate or TLS: ")
            assert reader.mirror.endpoints == before
            cluster.authority.issue("node1")
            churn.paused = False
            await reader.equals(churn.operator)
            assert reader.status.listings == 1

    under_churn(cluster, scenario)


def test_certificates_of_the_members_expired(cluster: EtcdCluster) -> None:
    """The node names it. Members read new files for new connections, and need no restart."""

    async def scenario(churn: Churn) -> None:
        async with Links(cluster) as links, reading(cluster.settings("node1", links.urls)) as reader:
            churn.paused = True
            await reader.equals(churn.operator)
            before = dict(reader.mirror.endpoints)
            for number in cluster.numbers:
                cluster.issue_server(number, days=-1)
            await links.cut_until(lambda: "expired" in reader.status.problem)  # A gate notices within seconds.
            await reader.lost("its certificate is refused: certificate has expired")
            assert reader.mirror.endpoints == before
            for number in cluster.numbers:
                cluster.issue_server(number)
            churn.paused = False
            await reader.equals(churn.operator)
            assert reader.status.listings == 1

    under_churn(cluster, scenario)
