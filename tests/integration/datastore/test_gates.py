# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that reaches its members through gates."""

from __future__ import annotations

import asyncio
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey

from tests.etcd_cluster import EtcdCluster
from tests.integration.datastore.gates import gates
from tests.integration.datastore.reader import prepare, put, reading

RELEASE = "trixie"


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    """Three nodes with blocks, and the users of two."""

    async def fill() -> None:
        await prepare(cluster)
        await cluster.add_node("node2")

    asyncio.run(fill())


def test_the_end_of_a_member_and_of_its_gate(cluster: EtcdCluster) -> None:
    """A node leaves a member that dies behind its gate, and comes into sync at another one."""

    async def run() -> None:
        operator = cluster.operator()
        async with gates(cluster) as urls, reading(cluster.settings("node2", urls)) as reader:
            number = urls.index(reader.status.member) + 1
            cluster.kill(number)
            await reader.lost("the member ended the watch", "the member closed the connection")
            await reader.equals(operator)
            cluster.start(number)
            await cluster.answering()
            assert reader.status.listings == 1
        await operator.close()

    asyncio.run(run())


def test_a_change_by_a_gate(cluster: EtcdCluster) -> None:
    """A change takes at most 50 ms more to a node whose members have gates, in the median."""

    async def run() -> None:
        operator = cluster.operator()
        async with gates(cluster) as urls:
            async with reading(cluster.settings("node2", urls)) as far, reading(cluster.settings("node2")) as near:
                waits: dict[str, list[float]] = {"far": [], "near": []}
                for number in range(20):
                    key = EndpointKey("node10", f"cali{200 + number}")
                    began = time.monotonic()
                    await operator.write([put(200 + number, "node10")])
                    for name, reader in (("near", near), ("far", far)):
                        while key not in reader.mirror.endpoints:
                            await asyncio.sleep(0.001)
                        waits[name].append(time.monotonic() - began)
                medians = {name: sorted(found)[10] for name, found in waits.items()}
                assert medians["far"] - medians["near"] < 0.05
        await operator.close()

    asyncio.run(run())
