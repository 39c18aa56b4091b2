# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The feed and the mirror with the real etcd of Debian 12 (3.4) and 13 (3.5), on the loopback of this machine."""

from __future__ import annotations

import asyncio
import json
import pathlib
import signal
import socket
import subprocess
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.feed import Feed
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Delete, Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.mirror import Mirror
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import (
    HttpTransport,
    MemberAddress,
)

from tests.lab.machines import downloads
from tests.unit.datastore.test_feed import workload

RELEASES = {"bookworm": "3.4", "trixie": "3.5"}


@pytest.fixture(scope="module", params=RELEASES)
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of a release's programs; the packages are unpacked, because their service must not start."""
    folder = tmp_path_factory.mktemp(request.param)
    for package in downloads.debs(request.param, ["etcd-server", "etcd-client"]).glob("etcd-*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    shown = subprocess.run([folder / "usr/bin/etcd", "--version"], capture_output=True, text=True, check=True).stdout
    assert f"etcd Version: {RELEASES[request.param]}." in shown
    return folder / "usr/bin"


class Etcd:
    """One member on the loopback, without TLS."""

    def __init__(self, programs: pathlib.Path, folder: pathlib.Path) -> None:
        self.programs, self.folder = programs, folder
        self.port, self.peer = _free_port(), _free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, data: str = "data") -> None:
        peer = f"http://127.0.0.1:{self.peer}"
        command = [
            *(self.programs / "etcd", "--data-dir", self.folder / data),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url, "--listen-peer-urls", peer),
            *("--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}", "--bcrypt-cost", "4"),
            "--experimental-watch-progress-notify-interval=2s",
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def ctl(self, *words: str | pathlib.Path) -> str:
        done = subprocess.run(
            [self.programs / "etcdctl", "--endpoints", self.url, *words],
            capture_output=True, text=True, check=True, timeout=30, env={"ETCDCTL_API": "3"},
        )  # fmt: skip
        return done.stdout

    def client(self, credentials: Credentials | None = None) -> EtcdClient:
        transport = HttpTransport(MemberAddress("127.0.0.1", self.port), None)
        return EtcdClient({self.url: transport}, credentials, jitter=0.1)

    def restore(self, snapshot: pathlib.Path) -> None:
        """Begin anew with the content of a snapshot, under the same name and addresses."""
        self.stop()
        tool = self.programs / ("etcdutl" if (self.programs / "etcdutl").exists() else "etcdctl")
        peer = f"http://127.0.0.1:{self.peer}"
        subprocess.run(
            [tool, "snapshot", "restore", snapshot, "--data-dir", self.folder / "restored", "--name", "default",
             "--initial-cluster", f"default={peer}", "--initial-advertise-peer-urls", peer],
            check=True, capture_output=True, env={"ETCDCTL_API": "3"},
        )  # fmt: skip
        self.start("restored")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def etcd(programs: pathlib.Path, tmp_path: pathlib.Path) -> t.Iterator[Etcd]:
    member = Etcd(programs, tmp_path)
    member.start()
    yield member
    member.stop()


def put(number: int, node: str = "node2", app: str = "web") -> Put:
    published = workload(node, number, app)
    return Put(keys.endpoint_key(node, published.endpoint.interface), documents.encode_endpoint(published))


async def answering(client: EtcdClient) -> None:
    """Wait until the member answers, and give node2 its blocks."""
    for dummy in range(300):
        try:
            await client.write([Put(keys.blocks_key("node2"), documents.encode_blocks(["10.244.1.0/26"]))])
            return
        except Exception:  # noqa: BLE001  it starts
            await asyncio.sleep(0.1)
    raise AssertionError("the member does not answer")


async def until(holds: t.Callable[[], bool], what: object, seconds: float = 30) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < end, what() if callable(what) else what
        await asyncio.sleep(0.02)


def numbers(mirror: Mirror) -> set[int]:
    return {int(key.interface[4:]) for key in mirror.endpoints}


def test_what_happens_to_a_store_reaches_the_mirror(etcd: Etcd) -> None:
    """Pages, changes, a restart, a stop, a compaction, and a restore that is behind what the mirror has."""

    async def scenario() -> None:
        client = etcd.client()
        await answering(client)
        for first in range(0, 600, 60):
            await client.write([put(number) for number in range(first, first + 60)])
        mirror = Mirror()
        feed = Feed(etcd.client(), keys.WATCHED, mirror, listing_jitter=0.1)
        task = asyncio.ensure_future(feed.run())
        await until(lambda: feed.status.synced, lambda: feed.status)
        assert numbers(mirror) == set(range(600)) and feed.status.listings == 1

        await client.write([put(600), Delete(put(0).key)])
        await until(lambda: numbers(mirror) == set(range(1, 601)), "a transaction arrives", 5)

        etcd.stop()
        await until(lambda: not feed.status.synced, "the end of the member is noticed")
        assert numbers(mirror) == set(range(1, 601))
        etcd.start()
        await until(lambda: feed.status.synced, lambda: feed.status)
        assert (feed.status.listings, feed.status.resumptions) == (1, 1)

        snapshot = etcd.folder / "snapshot"
        etcd.ctl("snapshot", "save", snapshot)
        await client.write([put(700), Delete(put(1).key)])
        await until(lambda: 700 in numbers(mirror), "a change arrives", 5)

        assert etcd.process is not None
        etcd.process.send_signal(signal.SIGSTOP)
        await until(lambda: not feed.status.synced, "a stopped member is noticed", 20)
        etcd.process.send_signal(signal.SIGCONT)
        await until(lambda: feed.status.synced, lambda: feed.status)
        assert feed.status.listings == 1

        etcd.restore(snapshot)
        await answering(client)
        await client.write([put(701)])
        await until(lambda: numbers(mirror) == {*range(1, 601), 701}, lambda: (feed.status, len(mirror.endpoints)))
        assert feed.status.listings == 2

        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        revision = (await client.status()).header.revision
        await client.write([put(702)])
        etcd.ctl("compact", str(revision + 1))
        await client.write([Delete(put(2).key)])
        etcd.ctl("compact", str(revision + 2))
        feed = Feed(etcd.client(), keys.WATCHED, mirror, listing_jitter=0.1)
        task = asyncio.ensure_future(feed.run())
        await until(lambda: feed.status.synced, lambda: feed.status)
        assert numbers(mirror) == {1, *range(3, 601), 701, 702} and feed.status.listings == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


def test_a_node_writes_below_its_own_prefix_alone(etcd: Etcd) -> None:
    """The rights that a node needs suffice, and no others do; a refused token is replaced once."""

    async def scenario() -> None:
        operator = etcd.client()
        await answering(operator)
        own, beat = keys.under(keys.endpoints_of("node1")), keys.under(keys.heartbeats_of("node1"))
        for words in (
            *(("role", "add", "node1"), ("user", "add", "node1:secret"), ("user", "grant-role", "node1", "node1")),
            ("role", "grant-permission", "node1", "readwrite", *own),
            ("role", "grant-permission", "node1", "readwrite", *beat),
            ("role", "grant-permission", "node1", "read", *keys.WATCHED),
            *(("user", "add", "root:secret"), ("user", "grant-role", "root", "root"), ("auth", "enable")),
        ):
            etcd.ctl(*words)
        node = etcd.client(Credentials("node1", "secret"))
        assert await node.write([put(1, "node1"), Put(keys.heartbeat_key("node1"), b"{}")])
        for operations in (
            [put(1, "node2")],
            [put(1, "node10")],
            [put(2, "node1"), put(3, "node2")],
            [Put(keys.blocks_key("node1"), b"{}")],
            [Put(keys.heartbeat_key("node10"), b"{}")],
            [Put(keys.node_key("node1"), b"{}")],
            [Delete(keys.blocks_key("node2"))],
        ):
            with pytest.raises(gateway.PermissionDenied):
                await node.write(operations)
        with pytest.raises(gateway.PermissionDenied):
            [page async for page in node.pages(keys.EVERYTHING)]
        mirror = Mirror()
        feed = Feed(etcd.client(Credentials("node1", "secret")), keys.WATCHED, mirror, listing_jitter=0.1)
        task = asyncio.ensure_future(feed.run())
        await until(lambda: feed.status.synced, lambda: feed.status)
        etcd.stop()  # tokens end with the member
        etcd.start()
        await until(lambda: not feed.status.synced, "the end of the member is noticed")
        await until(lambda: feed.status.synced, lambda: feed.status)
        assert feed.status.listings == 1 and await node.write([put(2, "node1")])
        with pytest.raises(gateway.WrongPassword):
            await etcd.client(Credentials("node1", "wrong")).write([put(1, "node1")])
        with pytest.raises(gateway.Unauthenticated):
            await etcd.client().write([put(1, "node1")])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


def test_a_condition_that_does_not_hold_writes_nothing(etcd: Etcd) -> None:
    async def scenario() -> None:
        client = etcd.client()
        await answering(client)
        one = put(1)
        assert await client.write([one], [gateway.Unchanged(one.key, 0)])
        assert not await client.write([Put(one.key, b"other")], [gateway.Unchanged(one.key, 0)])
        found = await client.get(one.key)
        assert found is not None and json.loads(found.value) == json.loads(one.value)
        assert await client.get(keys.endpoint_key(*EndpointKey("node2", "cali9"))) is None

    asyncio.run(scenario())
