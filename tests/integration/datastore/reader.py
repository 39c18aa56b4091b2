# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that reads a real cluster, an operator who writes all the time, and links that can be slow, hung or cut."""

from __future__ import annotations

import asyncio
import contextlib
import random
import typing as t
from urllib.parse import urlsplit

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient, Unreachable
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.feed import Feed, FeedStatus
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Delete, EtcdError, Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.mirror import Mirror, Position
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings

from tests.etcd_cluster import EtcdCluster
from tests.unit.datastore.test_feed import NODES, workload

#: The issue's bound: so many seconds after the cure the node knows what is there.
CURED = 20.0
#: What an agent on a busy machine may take until a fault is noticed: a silent member is left after 10 s.
NOTICED = 25.0


def put(number: int, node: str = "node2", app: str = "web") -> Put:
    """Return the write of a workload."""
    published = workload(node, number, app)
    return Put(keys.endpoint_key(node, published.endpoint.interface), documents.encode_endpoint(published))


def blocks() -> list[Put]:
    """Return the writes of the blocks of NODES."""
    return [
        Put(keys.blocks_key(node), documents.encode_blocks([f"10.244.{third}.0/26"]))
        for third, node in enumerate(NODES)
    ]


async def until(holds: t.Callable[[], bool], what: object, seconds: float = NOTICED) -> None:
    """Wait until something holds; raise AssertionError with `what`, or what it returns, after `seconds`."""
    end = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < end, what() if callable(what) else what
        await asyncio.sleep(0.02)


async def end(task: asyncio.Task[t.Any]) -> None:
    """Cancel a task; raise AssertionError if it does not end as cancelled within 60 s."""
    task.cancel()
    await asyncio.wait({task}, timeout=60)
    assert task.cancelled(), task


class Reader:
    """A node that reads: client, feed and mirror. `problems` are all that its status named."""

    def __init__(self, settings: DatastoreSettings, first: str = "") -> None:
        """Make a node that begins at the member `first`, by its URL, "" for any."""
        self.mirror = Mirror()
        self.client = settings.client()
        while first and self.client.member.name != first:
            self.client.rotate()
        self.problems: list[str] = []
        self.feed = Feed(
            self.client, keys.WATCHED, self.mirror, progress=settings.progress_seconds, on_status=self._noted
        )

    def _noted(self, status: FeedStatus) -> None:
        if status.problem and self.problems[-1:] != [status.problem]:
            self.problems.append(status.problem)

    @property
    def status(self) -> FeedStatus:
        return self.feed.status

    async def synced(self, seconds: float = CURED) -> None:
        """Wait until the feed is in sync."""
        await until(lambda: self.status.synced, lambda: (self.status, self.problems), seconds)

    async def lost(self, *words: str) -> None:
        """Wait until the feed is not in sync, and its status has named a problem with one of `words`."""
        await until(
            lambda: not self.status.synced and any(word in self.status.problem for word in words),
            lambda: (self.status, self.problems),
        )

    async def equals(self, operator: EtcdClient, seconds: float = CURED) -> None:
        """Wait until the mirror is in sync and has what a fresh list has; raise AssertionError after `seconds`."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + seconds
        while True:
            with contextlib.suppress(EtcdError, Unreachable):
                fresh = await listed(operator)
                if self.status.synced and _content(self.mirror) == _content(fresh):
                    return
            if loop.time() > limit:
                raise AssertionError((self.status, self.problems, len(self.mirror.endpoints), self.mirror.count))
            await asyncio.sleep(0.1)


def _content(mirror: Mirror) -> tuple[object, ...]:
    return mirror.endpoints, mirror.refused(), mirror.count, mirror.newest(mirror.count)


async def listed(operator: EtcdClient) -> Mirror:
    """Return a mirror that has just been listed; raise EtcdError or Unreachable."""
    fresh, first, revision = Mirror(), True, 0
    async for page in operator.pages(keys.WATCHED):
        fresh.list_part(page.entries, first)
        first, revision = False, page.header.revision
    list(fresh.list_end(Position(1, revision, revision)))
    return fresh


@contextlib.asynccontextmanager
async def reading(settings: DatastoreSettings, first: str = "") -> t.AsyncIterator[Reader]:
    """Yield a node that is in sync, at the member `first`, "" for any; it must end at once when it is cancelled."""
    reader = Reader(settings, first)
    task = asyncio.ensure_future(reader.feed.run())
    try:
        await reader.synced()
        yield reader
    finally:
        await end(task)
        await reader.client.close()


class Churn:
    """An operator who lets workloads come, change and go about 30 times a second; what fails is left out.

    `operator` is another client, for the test.
    """

    def __init__(self, cluster: EtcdCluster) -> None:
        self.operator = cluster.operator()
        self.paused = False
        self._client = cluster.operator(seconds=2)
        self._task: t.Optional[asyncio.Task[None]] = None

    async def __aenter__(self) -> Churn:
        """Begin to write."""
        self._task = asyncio.ensure_future(self._write())
        return self

    async def __aexit__(self, *dummy: object) -> None:
        """End, and close both clients."""
        assert self._task is not None
        await end(self._task)
        await self._client.close()
        await self.operator.close()

    async def _write(self) -> None:
        source = random.Random(19)
        while True:
            one = put(source.randrange(60), source.choice(NODES), source.choice(("web", "db")))
            operation = one if source.random() < 0.7 else Delete(one.key)
            if not self.paused:
                with contextlib.suppress(EtcdError, Unreachable):
                    await self._client.write([operation])
            await asyncio.sleep(0.03)


async def prepare(cluster: EtcdCluster) -> None:
    """Write blocks and some workloads, and make the user of node1."""
    operator = cluster.operator()
    await operator.write([*blocks(), *(put(number) for number in range(60))])
    await cluster.add_node("node1")
    await operator.close()


def under_churn(cluster: EtcdCluster, scenario: t.Callable[[Churn], t.Awaitable[None]]) -> None:
    """Run a scenario while an operator writes."""

    async def run() -> None:
        async with Churn(cluster) as churn:
            await scenario(churn)

    asyncio.run(run())


class Links:
    """A way to each member through this process: it may be slow, hung (all is taken, nothing comes), or refused."""

    def __init__(self, cluster: EtcdCluster) -> None:
        self._targets = [urlsplit(url) for url in cluster.node_urls]
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()
        self.urls: list[str] = []
        self.delay = 0.0
        self.refused = False
        self.hung: set[str] = set()

    async def __aenter__(self) -> Links:
        """Listen for each member at a port of 127.0.0.1."""
        for target in self._targets:
            url: list[str] = []

            async def serve(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: t.Any = target, url: list[str] = url
            ) -> None:
                await self._serve(reader, writer, target, url[0])

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            url.append(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            self._servers.append(server)
            self.urls += url
        return self

    async def __aexit__(self, *dummy: object) -> None:
        """Close all links."""
        for server in self._servers:
            server.close()
        self.cut()

    def cut(self) -> None:
        """Break all connections."""
        for writer in list(self._open):
            writer.transport.abort()

    async def cut_until(self, holds: t.Callable[[], bool], seconds: float = 60.0) -> None:
        """Break all connections, again and again, until something holds. Raise AssertionError after `seconds`."""
        end = asyncio.get_running_loop().time() + seconds
        while not holds():
            assert asyncio.get_running_loop().time() < end
            self.cut()
            await asyncio.sleep(1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: t.Any, url: str) -> None:
        if self.refused:
            writer.transport.abort()
            return
        self._open.add(writer)
        there = None
        try:
            from_member, there = await asyncio.open_connection(target.hostname, target.port)
            self._open.add(there)
            await asyncio.gather(self._pass(reader, there, url), self._pass(from_member, writer, url))
        except OSError:
            pass
        finally:
            for one in (writer, there):
                if one is not None:
                    self._open.discard(one)
                    one.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: str) -> None:
        while True:
            data = await reader.read(65536)
            if url in self.hung:
                await asyncio.sleep(3600)
            if self.delay:
                await asyncio.sleep(self.delay)
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()
