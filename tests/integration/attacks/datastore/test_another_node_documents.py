# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node below its own prefix: node1 writes what it likes there, and node2 reads it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import pathlib
import subprocess
import sys
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.fleet import published_fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import (
    gateway,
    keys,
    mirror,
    snapshot,
    transport,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.mirror import KEYS_OF_NODE, Mirror
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.details import EndpointDetails

from tests.etcd_cluster import EtcdCluster
from tests.integration.datastore.reader import Reader, blocks, listed, put, reading, until
from tests.long_form import LONG

RELEASE = "trixie"
QUOTA = 256 << 20
OWN = keys.endpoints_of("node1")
WORKLOADS = [put(number, "node10") for number in range(5)]
HONEST = {EndpointKey("node10", f"cali{number}") for number in range(5)}

# A program that rewrites keys as fast as it can, for some seconds, on two connections; it prints how often.
REWRITE = """\
import http.client, json, ssl, sys, threading, time
settings, token, body, seconds = json.loads(sys.stdin.read())
counts = []
def rewrite():
    tls = ssl.create_default_context(cafile=settings["ca"])
    tls.load_cert_chain(settings["certificate"], settings["key"])
    host, port = settings["endpoints"][0][8:].split(":")
    connection = http.client.HTTPSConnection(host, int(port), context=tls)
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        connection.request("POST", "/v3/kv/put", body, {"Authorization": token})
        assert connection.getresponse().read().startswith(b'{"header"')
        count += 1
    counts.append(count)
threads = [threading.Thread(target=rewrite) for dummy in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sum(counts))
"""

Attack = t.Callable[[EtcdClient, Reader, EtcdClient], t.Awaitable[None]]


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    """Three nodes with blocks; node10 has workloads."""

    async def fill() -> None:
        operator = cluster.operator()
        await operator.write([*blocks(), *WORKLOADS])
        for node in ("node1", "node2"):
            await cluster.add_node(node)
        await operator.close()

    asyncio.run(fill())


def attacked(cluster: EtcdCluster, attack: Attack, as_listed: bool = True) -> None:
    """Run an attack while node2 reads: honest workloads stay, a change of them arrives, and nothing is left behind.

    `as_listed`: node2 then has what a fresh list has, which has neither last good values nor the same excess.
    """

    async def run() -> None:
        attacker, operator = cluster.settings("node1").client(), cluster.operator()
        async with reading(cluster.settings("node2")) as reader:
            try:
                await attack(attacker, reader, operator)
                assert reader.mirror.endpoints.keys() >= HONEST
                await operator.write([put(9, "node10")])
                await until(lambda: EndpointKey("node10", "cali9") in reader.mirror.endpoints, "a change arrives")
                if as_listed:
                    await reader.equals(operator)
            finally:
                for prefix in (OWN, keys.endpoints_of("node10")):
                    own = dict(zip(("key", "range_end"), map(gateway.encoded, keys.under(prefix))))
                    await operator.call("/v3/kv/deleterange", gateway.to_bytes(own))
                await operator.write(WORKLOADS)
            await until(lambda: reader.mirror.endpoints.keys() == HONEST, lambda: len(reader.mirror.endpoints))
            await reader.equals(operator)
            assert reader.mirror.refused() == []
        await attacker.close()
        await operator.close()

    asyncio.run(run())


async def write_bytes(attacker: EtcdClient, key: bytes, value: bytes) -> None:
    """Write a key of any bytes; raise EtcdError."""
    body = {"key": base64.b64encode(key).decode(), "value": base64.b64encode(value).decode()}
    await attacker.call("/v3/kv/put", gateway.to_bytes(body))


@contextlib.asynccontextmanager
async def longest_block(gaps: list[float]) -> t.AsyncIterator[None]:
    """Put the most processor time in seconds, between two turns of the event loop, into `gaps`."""

    async def tick() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    task = asyncio.ensure_future(tick())
    try:
        yield
    finally:
        task.cancel()
        gaps[:] = [max(gaps, default=0.0)]


def document(**fields: t.Any) -> bytes:
    """Return the document of a workload of node1 with some fields replaced."""
    return json.dumps({**json.loads(put(1, "node1").value), **fields}).encode()


def test_keys_of_any_bytes(cluster: EtcdCluster, tmp_path: pathlib.Path) -> None:
    """Write keys with line breaks, zeros, slashes, invalid UTF-8 or 100 KB of text below its own prefix.

    Gain: A key that readers take for another node's, a forged line in a file or log, or a reader that fails.
    Precedent: CWE-20, CWE-117, CWE-93.
    Closed: 0.3.0
    Result: Readers refuse each key by name and count it. The copy on the disk and the next listing have all valid keys.
    """
    names = [
        *(b"", b"\n", b"cali1\n", b"\x00", b"cali1\x00", b"\xff\xfe", b"../node10/cali1", b"a/b", b"/", b"@complete/"),
        *(b"@COMPLETE", "é".encode(), b"cali 1", b"x" * 16, b"cali1\r\n\x1b[2J", b"y" * 100_000, b"%2e%2e"),
    ]

    async def attack(attacker: EtcdClient, reader: Reader, operator: EtcdClient) -> None:
        for name in names:
            await write_bytes(attacker, OWN.encode() + name, put(1, "node10").value)
        await until(lambda: len(reader.mirror.refused()) == len(names), reader.mirror.refused)
        assert reader.mirror.endpoints.keys() == HONEST
        fresh = await listed(operator)
        assert fresh.refused() == reader.mirror.refused() and fresh.count == reader.mirror.count
        path = str(tmp_path / "copy")
        snapshot.write(path, snapshot.parts(reader.mirror, 1.0))
        again = Mirror()
        list(snapshot.read(path, again))
        assert again.endpoints == reader.mirror.endpoints and again.kept == reader.mirror.kept

    attacked(cluster, attack)


LABELS = {f"key{number}/{'k' * 60}": "v" * 63 for number in range(65)}
HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "nested": b"[" * 60_000,
    "nested objects": b'{"a":' * 12_000 + b"1" + b"}" * 12_000,
    "long number": b'{"name": ' + b"1" * 60_000 + b"}",
    "exponent": b'{"name": 1e999999}',
    "NaN": b'{"addresses": [NaN]}',
    "surrogate": document(name="default/\ud800", labels=[["app", "\ud800"]]),
    "twice": b'{"addresses": ["10.244.0.1"], ' + document(addresses=["10.244.1.1"])[1:],
    "not text": b"\xff\xfe\x00",
    "1 MB": document(labels=[["app", "x" * 1_000_000]]),
    "1 MB of fields": json.dumps({f"field{number}": number for number in range(60_000)}).encode(),
    "another's address": document(addresses=["10.244.1.1"]),
    "one inside, one outside": document(addresses=["10.244.0.1", "10.244.1.1"]),
    "network": document(addresses=["10.244.0.0/16"]),
    "mapped": document(addresses=["::ffff:10.244.1.1"]),
    "everything": document(addresses=["0.0.0.0/0"]),
    "zone": document(addresses=["fe80::1%eth0"]),
    "leading zeros": document(addresses=["010.244.000.001"]),
    "line break": document(name="default/w1\n", addresses=["10.244.0.1\nadd cali40s:x 0.0.0.0/0"]),
    "another's name": document(node="node10"),
    "another's interface": document(interface="cali2"),
    "many labels": document(labels=[[key, value] for key, value in LABELS.items()] * 3),
    "long label": document(labels=[["a" * 400, "b" * 400]]),
    "many ports": document(ports=[{"name": "p", "protocol": "TCP", "port": n} for n in range(1, 2000)]),
    "unknown": document(trust="me"),
    "types": document(labels={"app": ["web"]}, addresses="10.244.0.1"),
    "planned": document(planned="yes"),
}


def test_documents_of_any_content(cluster: EtcdCluster) -> None:
    """Write documents that expand without limit, use others' addresses and names, are huge, or have wrong types.

    Gain: Forged addresses in the IP sets of other nodes, memory and time of all readers, or a crash of them.
    Precedent: CWE-20, CWE-674, CWE-770, CWE-345.
    Closed: 0.3.0
    Result: Each is refused by name, in less than 0.1 s. The last valid documents of the same keys stay in force.
    """

    async def attack(attacker: EtcdClient, reader: Reader, operator: EtcdClient) -> None:
        names = [f"x{number}" for number in range(len(HOSTILE))]
        good = [Put(f"{OWN}{name}", put(number, "node1").value) for number, name in enumerate(names)]
        await attacker.write(good)
        await until(lambda: len(reader.mirror.endpoints) == len(HONEST) + len(good), reader.mirror.refused)
        before, gaps = dict(reader.mirror.endpoints), list[float]()
        async with longest_block(gaps):
            for name, value in zip(names, HOSTILE.values()):
                await write_bytes(attacker, f"{OWN}{name}".encode(), value)
            await operator.write([put(8, "node10")])
            await until(lambda: EndpointKey("node10", "cali8") in reader.mirror.endpoints, "a change arrives")
        refused = dict(reader.mirror.refused(1000))
        taken = [what for what, name in zip(HOSTILE, names) if f"{OWN}{name}" not in refused]
        assert taken == [], taken
        for key, published in reader.mirror.endpoints.items():
            assert key.node != "node1" or published == before[key]
        assert gaps[0] < 0.1, gaps

    attacked(cluster, attack, as_listed=False)


DETAILS: tuple[t.Any, ...] = (
    *({"by": text} for text in ("\x1b[2J", "a\nb", "\ud800", "b" * 60_000, "$(id)", ["docker"], {"by": {}}, 1)),
    *({"pool": "../../etc/passwd"}, {"container": "c" * 200}, {"mac": "ff:ff"}, {"endpoint": "e/../x"}),
    *([["by", "docker"]] * 2000, "docker", 1, True, None, {f"field{number}": "x" for number in range(3000)}),
)


def test_details_of_any_content(cluster: EtcdCluster) -> None:
    """Give its own workloads details with control characters, of wrong types, of 60 KB, or with unknown fields.

    Gain: Text on the terminals of people who list workloads, memory of all readers, or workloads missing from policy.
    Precedent: CWE-20, CWE-117, CWE-770.
    Closed: 0.3.0
    Result: Agents keep no details. Lists leave out each that is not valid, and the workloads count as before.
    """

    async def attack(attacker: EtcdClient, reader: Reader, operator: EtcdClient) -> None:
        names = [f"x{number}" for number in range(len(DETAILS))]
        plain = {name: put(number, "node1").value for number, name in enumerate(names)}
        await attacker.write([Put(f"{OWN}{name}", value) for name, value in plain.items()])
        await until(lambda: len(reader.mirror.endpoints) == len(HONEST) + len(names), reader.mirror.refused)
        before = dict(reader.mirror.endpoints)
        for name, shown in zip(names, DETAILS):
            value = json.dumps({**json.loads(plain[name]), "details": shown}).encode()
            await write_bytes(attacker, f"{OWN}{name}".encode(), value)
        await operator.write([put(8, "node10")])
        await until(lambda: EndpointKey("node10", "cali8") in reader.mirror.endpoints, "a change arrives")
        assert reader.mirror.refused() == [] and before.items() <= reader.mirror.endpoints.items()
        found = await published_fleet.listed(operator)
        assert all(one.details == EndpointDetails() for one in found.workloads)
        assert len(found.workloads) == len(reader.mirror.endpoints)

    attacked(cluster, attack, as_listed=False)


def test_more_keys_than_a_node_may_have(cluster: EtcdCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write more than 16,384 keys below its own prefix, and remove them all at once.

    Gain: Memory and time of all readers.
    Precedent: CWE-770 (allocation without limits).
    Closed: 0.3.0
    Result: Readers keep 16,384 of them, count the others, and report it. Changes of other nodes still arrive.
    """
    most = KEYS_OF_NODE if LONG else 1_000
    monkeypatch.setattr(mirror, "KEYS_OF_NODE", most)
    written = -(-(most + 500) // 125) * 125

    async def attack(attacker: EtcdClient, reader: Reader, operator: EtcdClient) -> None:
        value = put(1, "node1").value
        for first in range(0, written, 125):
            await attacker.write([Put(f"{OWN}k{number}", value) for number in range(first, first + 125)])
            if first % 5000 == 0:
                await operator.write([put(7, "node10", f"app{first}")])
        await until(lambda: reader.mirror.count == written + len(HONEST) + 4, lambda: reader.mirror.count)
        assert reader.mirror.kept == most + len(HONEST) + 4
        words = (
            f"a node has at most {most} keys of {mirror.BYTES_OF_NODE} bytes in all, none of them overlong; "
            f"{written - most} are left out."
        )
        assert (OWN, words) in reader.mirror.refused()
        fresh = await listed(operator)
        assert (fresh.count, fresh.kept) == (reader.mirror.count, reader.mirror.kept)

    attacked(cluster, attack, as_listed=False)


def test_documents_that_make_a_listing_too_large(cluster: EtcdCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write keys of 1 MB, so that one page of a listing is many times larger than a reader accepts.

    Gain: Nodes that start, or that list again, never come into sync or run out of memory.
    Precedent: CWE-400, CWE-770.
    Closed: 0.3.0
    Result: Readers ask for smaller pages until they fit, and for larger ones after these keys.
    """
    if not LONG:  # the same with a fifth of all sizes
        monkeypatch.setattr(transport, "ANSWER_LIMIT", transport.ANSWER_LIMIT // 5)

    async def attack(attacker: EtcdClient, reader: Reader, operator: EtcdClient) -> None:
        for number in range(100 if LONG else 40):
            await write_bytes(attacker, f"{OWN}large{number}".encode(), b"x" * (1_000_000 if LONG else 200_000))
        async with reading(cluster.settings("node2")) as another:
            if LONG:  # beyond a node's share; which keys are depends on the pages, and these on the member's speed
                one, other, newest = another.mirror, await listed(operator), another.mirror.count
                assert (one.endpoints, one.count) == (other.endpoints, other.count)
                assert one.newest(newest) == other.newest(newest)
            else:
                await another.equals(operator)
            assert another.mirror.endpoints.keys() >= HONEST

    attacked(cluster, attack, as_listed=False)


def test_rewriting_one_key_all_the_time(cluster: EtcdCluster) -> None:
    """Rewrite one key as fast as the members accept it.

    Gain: Readers that lag behind and miss workloads that are added and removed elsewhere.
    Precedent: CWE-400 (resource consumption).
    Closed: 0.3.0
    Result: Readers keep up, with less than 1 ms of processor time for each change. Changes of others arrive within a
    second, on a busy machine within ten times as long as without the attack.
    """
    seconds = 3

    async def attack(attacker: EtcdClient, reader: Reader, operator: EtcdClient) -> None:
        settings: DatastoreSettings = cluster.settings("node1")
        credentials = gateway.to_bytes({"name": settings.user, "password": settings.password})
        url = cluster.urls[0]
        anonymous = cluster.settings("", [url]).client()
        token = gateway.token_of(await anonymous.call("/v3/auth/authenticate", credentials))
        await anonymous.close()
        body = gateway.to_bytes(
            {"key": gateway.encoded(f"{OWN}cali1"), "value": base64.b64encode(put(1, "node1").value).decode()}
        )

        async def arrival(number: int) -> float:
            key, began = EndpointKey("node10", f"cali{number}"), time.monotonic()
            await operator.write([put(number, "node10")])
            await until(lambda: key in reader.mirror.endpoints, lambda: reader.status)
            return time.monotonic() - began

        calm = [await arrival(10 + number) for number in range(10)]
        asked = [{**settings.to_dict(), "endpoints": [url]}, token, body.decode(), seconds]
        program = subprocess.Popen([sys.executable, "-c", REWRITE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert program.stdin is not None and program.stdout is not None
        program.stdin.write(json.dumps(asked).encode())
        program.stdin.close()
        await asyncio.sleep(0.5)
        position, spent = reader.mirror.position, time.process_time()
        waits = []
        for number in range(10):
            waits.append(await arrival(20 + number))
            await asyncio.sleep(0.1)
        spent = time.process_time() - spent
        assert position is not None and reader.mirror.position is not None
        changes = reader.mirror.position.revision - position.revision
        while program.poll() is None:
            await asyncio.sleep(0.05)
        total = int(program.stdout.read())
        print(
            f"{total / seconds:.0f} changes a second, {spent / changes * 1000:.2f} ms each; {max(waits):.3f} s at most"
        )
        assert total > 100 and max(waits) < max(1, 10 * max(calm)) and spent / changes < 0.001

    attacked(cluster, attack)


def test_saying_that_all_is_published(cluster: EtcdCluster) -> None:
    """Announce again and again that all workloads are published, before any is, and withdraw the announcement.

    Gain: Other nodes forget the workloads that a run sent to them, those of the attacker and those of others.
    Precedent: CWE-345.
    Closed: 0.3.0
    Result: It affects the attacker's own workloads only.
    """

    async def attack(attacker: EtcdClient, reader: Reader, operator: EtcdClient) -> None:
        await operator.write([Put(keys.complete_key("node10"), b"{}")])
        for value in (b"{}", b"", b"\xff" * 100, b'{"node": "node10"}'):
            await attacker.write([Put(keys.complete_key("node1"), value)])
            await until(lambda: reader.mirror.is_complete("node1"), "the attacker is complete")
            await attacker.write([gateway.Delete(keys.complete_key("node1"))])
            await until(lambda: not reader.mirror.is_complete("node1"), "the attacker is not complete")
            assert reader.mirror.is_complete("node10") and not reader.mirror.is_complete("node2")
        for node in ("node10", "node2"):
            with pytest.raises(gateway.PermissionDenied):
                await attacker.write([Put(keys.complete_key(node), b"{}")])

    attacked(cluster, attack)
