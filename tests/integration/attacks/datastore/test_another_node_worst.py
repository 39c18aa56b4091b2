# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks that wear the members of etcd and their readers down: node1 attacks, and the other nodes and runs go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import threading
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, heartbeats, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.cluster import operations
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.cluster.member import MemberCalls
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import content, exchange
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import address_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import HttpTransport, TlsFiles

from tests.etcd_cluster import EtcdCluster
from tests.integration.attacks.datastore import worst_node
from tests.integration.datastore.reader import Reader, blocks, put, reading, until
from tests.long_form import LONG
from tests.unit.datastore.test_feed import NODES

RELEASE = "bookworm"
#: As with role calico_etcd: nodes reach the gates alone, and the database may have 2 GiB.
GATES, QUOTA = True, 2 << 30
OPTIONS = {"snapshot-count": 10_000, "auto-compaction-mode": "periodic", "auto-compaction-retention": "60m"}
#: Members collect their garbage when they have grown by a tenth. By Go's default they double before, in calm as under
#: attack, and what they hold here exceeds GROWTH.
ENVIRONMENT = {"GOGC": "10"}
SECONDS = 600 if LONG else 8
#: The most bytes of memory of its own by which a member may grow.
GROWTH = 128 << 20
#: How long anything may take on a busy machine, and after a revocation.
LIMIT, CURED = 60.0, 300.0
#: Bytes of a value, and how often it is written.
LARGE, WRITES = 500_000, 48
HONEST = ("node2", "node10")


@pytest.fixture(scope="module", autouse=True)
def fleet(cluster: EtcdCluster) -> None:
    """Three nodes with blocks, workloads and heartbeats."""

    async def fill() -> None:
        operator = cluster.operator()
        await operator.write([*blocks(), *(put(number, node) for node in HONEST for number in range(20))])
        await operator.write(
            [Put(keys.heartbeat_key(node), heartbeats.encode(Heartbeat(node, 1.0, "0.2.0"))) for node in NODES]
        )
        for node in NODES:
            await cluster.add_node(node)
        await operator.close()

    asyncio.run(fill())


class Memory:
    """The memory of the members' own, without pages of their files: what it was before, and the most since."""

    def __init__(self, cluster: EtcdCluster) -> None:
        self._pids = [member.pid for member in cluster.members]
        self.before = self._read()
        self.most = list(self.before)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _read(self) -> list[int]:
        found = []
        for pid in self._pids:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            found.append(int(status.split("RssAnon:")[1].split()[0]) << 10)
        return found

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            self.most = [max(pair) for pair in zip(self.most, self._read())]

    def __enter__(self) -> Memory:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, *dummy: object) -> None:
        """End looking."""
        self._ended.set()
        self._thread.join()

    @property
    def growth(self) -> int:
        """The most bytes by which a member has grown."""
        return max(most - before for most, before in zip(self.most, self.before))


async def status(operator: EtcdClient) -> float:
    """Read what status.yml reads, and return the seconds that it took; the heartbeats of honest nodes are there."""
    began = time.monotonic()
    await exchange.check(operator)
    found, dummy = heartbeats.decode_all(await exchange.heartbeats(operator))
    assert set(HONEST) <= found.keys()
    return time.monotonic() - began


async def publish(operator: EtcdClient, number: int) -> None:
    """Do what site.yml does with the datastore: compare all of it, and write what differs."""
    seen = await exchange.observe(operator, content.PUBLISHED, NODES)
    assert {keys.blocks_key(node) for node in NODES} <= seen.values.keys()
    await exchange.write(operator, [Put(keys.node_key("node2"), b'{"number":%d}' % number)])


async def revoke(cluster: EtcdCluster, node: str) -> None:
    """Do what etcd_revoke.yml does, but for the restart of members."""
    settings = cluster.settings("root")
    tls = TlsFiles(settings.ca, settings.certificate, settings.key)
    for number, member in enumerate(cluster.members):
        calls = MemberCalls(
            member.url, Credentials("root", settings.password), lambda url: HttpTransport(address_of(url), tls)
        )
        if not number:
            await operations.revoke(calls, node, check=False)
        await operations.defragment(calls, LIMIT)
        await calls.close()


@contextlib.asynccontextmanager
async def agents(cluster: EtcdCluster) -> t.AsyncIterator[list[Reader]]:
    """Yield the readers of the honest nodes, which are in sync."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(reading(cluster.settings(node))) for node in HONEST]


async def arrives(client: EtcdClient, readers: t.Sequence[Reader], number: int) -> None:
    """Write a workload of node10 with its own user, and wait until all have it."""
    await exchange.write(client, [put(number, "node10")])
    key = EndpointKey("node10", f"cali{number}")
    await until(
        lambda: all(key in reader.mirror.endpoints and reader.status.synced for reader in readers),
        lambda: [(reader.status, reader.problems[-3:]) for reader in readers],
        LIMIT,
    )


def data_of(cluster: EtcdCluster) -> int:
    """Return the bytes of the largest database of a member."""
    return max((cluster._data_of(member) / "member/snap/db").stat().st_size for member in cluster.members)


def test_a_stolen_node_at_its_worst(cluster: EtcdCluster) -> None:
    """Write, read and watch from old revisions as fast as three gates answer, in thirteen threads at once.

    Gain: Members that grow until the kernel ends them, nodes that do not learn of workloads, no status, no run.
    Precedent: CWE-400, CWE-770; etcd has no quota for a user.
    Closed: 0.3.0
    Result: A member grows by at most 128 MiB. Workloads of others arrive, and status.yml and site.yml read and write.
    Everything of the node is gone after its revocation.
    """

    async def run() -> None:
        operator, honest = cluster.operator(), cluster.settings("node10").client()
        settings = cluster.settings("node1").to_dict()
        async with agents(cluster) as readers:
            await arrives(honest, readers, 30)
            calm = [await status(operator) for dummy in range(5)]
            program = subprocess.Popen(
                [sys.executable, worst_node.__file__, json.dumps(settings), str(SECONDS)], stdout=subprocess.PIPE
            )
            busy, number = [], 0
            with Memory(cluster) as memory:
                while program.poll() is None:
                    await arrives(honest, readers, 31 + number % 20)
                    busy.append(await status(operator))
                    await publish(operator, number)
                    number += 1
                    await asyncio.sleep(SECONDS / 20)
            assert program.stdout is not None
            print(
                f"{program.stdout.read().decode().strip()}; members grew by {memory.growth >> 20} MiB; "
                f"{data_of(cluster) >> 20} MiB of database; status {statistics.median(calm):.3f} s, then "
                f"{statistics.median(busy):.3f} s, at most {max(busy):.3f} s"
            )
            assert program.returncode == 0 and memory.growth <= GROWTH
            if LONG:
                assert statistics.median(busy) <= 2 * statistics.median(calm) + 0.1
            began = time.monotonic()
            await revoke(cluster, "node1")
            await arrives(honest, readers, 60)
            for reader in readers:
                await reader.equals(operator, CURED)
            await publish(operator, -1)
            assert await operator.counts(keys.of_node("node1")) == [0, 0, 0] and data_of(cluster) < 32 << 20
            assert time.monotonic() - began < CURED
            await cluster.add_node("node1")
        await operator.close()
        await honest.close()

    asyncio.run(run())


def test_keys_that_no_gate_would_have_passed(cluster: EtcdCluster) -> None:
    """Have 600 MB below its own prefixes, as written before there were gates: large heartbeats and workloads.

    Gain: No status, no run, agents that never come into sync, and members that grow to gigabytes by honest readers.
    Precedent: CWE-400, CWE-770.
    Closed: 0.3.0
    Result: Heartbeats are read by their names, runs count keys, and agents leave out what is beyond a node's share.
    Members grow by at most 128 MiB while all read. The revocation deletes the keys without reading them.
    """

    async def run() -> None:
        operator = cluster.operator()
        large = [(keys.endpoints_of("node1"), 1_000_000, 190 if LONG else 40)]
        large.append((keys.heartbeats_of("node1"), 700_000, 571 if LONG else 40))
        for prefix, size, count in large:
            for number in range(count):
                await operator.write([Put(f"{prefix}x{number:03}", b"x" * size)])
        await operator.write([Put(keys.heartbeat_key("node1"), b"x" * 1_000_000)])
        with Memory(cluster) as memory:
            await status(operator)
            await publish(operator, 1)
            async with agents(cluster) as readers:
                for reader in readers:
                    assert {key.node for key in reader.mirror.endpoints} >= set(HONEST)
                    assert keys.endpoints_of("node1") in dict(reader.mirror.refused(1_000))
                for dummy in range(3):
                    await status(operator)
                    await publish(operator, 2)
        print(f"members grew by {memory.growth >> 20} MiB; the database has {data_of(cluster) >> 20} MiB")
        assert memory.growth <= GROWTH
        before = data_of(cluster)
        async with agents(cluster) as readers:
            await revoke(cluster, "node1")
            for reader in readers:
                await reader.equals(operator, CURED)
                assert reader.status.listings == 1
        assert await operator.counts(keys.of_node("node1")) == [0, 0, 0] and data_of(cluster) < before // 3
        await cluster.add_node("node1")
        await operator.close()

    asyncio.run(run())


def test_watches_from_old_revisions(cluster: EtcdCluster) -> None:
    """Watch from a revision before megabytes of its own writes, by two connections at once, again and again.

    Gain: A member has everything that was written since in its memory several times: 190 MiB for 24 MiB of history.
    Precedent: CWE-400, CWE-770.
    Closed: 0.3.0
    Result: The gate answers such a watch as after a compaction, and lets shorter ones begin one after another. A member
    grows by less than 128 MiB. The watches of others go on, and new ones begin at once.
    """

    async def replay(revision: int) -> t.Optional[int]:
        """Return the bytes of a watch that is read to its end, None if it is refused as after a compaction."""
        found, client = 0, cluster.settings("node1", [cluster.members[0].gate]).client()
        try:
            async with client.member.watch(keys.WATCHED, revision) as lines:
                while found < LARGE * WRITES:
                    answer = gateway.watch_answer_of(await lines.next(LIMIT))
                    if answer.canceled:
                        assert isinstance(gateway.cancellation_of(answer), gateway.Compacted)
                        return None
                    found += sum(len(change.value or b"") for change in answer.changes)
            return found
        finally:
            await client.close()

    async def run() -> None:
        operator, honest = cluster.operator(), cluster.settings("node10", [cluster.members[0].gate]).client()
        first = (await operator.status()).header.revision + 1
        # The gate looks at the member's size with each such watch. What was compacted before must not hide the writes.
        async with honest.member.watch(keys.WATCHED, first - 1) as lines:
            await lines.next(LIMIT)
        for number in range(WRITES):
            await operator.write([Put(keys.endpoint_key("node1", "cali1"), bytes([number]) * LARGE)])
        with Memory(cluster) as memory:
            found = [await asyncio.gather(*(replay(first) for dummy in range(2))) for dummy in range(2)]
            async with agents(cluster) as readers:
                await arrives(honest, readers, 61)
        print(f"members grew by {memory.growth >> 20} MiB; {found}")
        assert memory.growth <= GROWTH and found == [[None, None]] * 2
        await operator.write([gateway.Delete(keys.endpoint_key("node1", "cali1"))])
        await operator.close()
        await honest.close()

    asyncio.run(run())
