# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node that reaches the members through their gates alone (datastore/gate/)."""

from __future__ import annotations

import asyncio
import contextlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.quotas import WORKLOADS
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import (
    Json,
    NoSpace,
    PermissionDenied,
    TooFast,
    Unauthenticated,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import EndpointKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import Lines, TransportError

from tests.etcd_cluster import EtcdCluster
from tests.integration.attacks.datastore.test_another_node_etcd import END, ranged, written
from tests.integration.datastore.gates import gates
from tests.integration.datastore.reader import prepare, put, reading, until

RELEASE = "bookworm"


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    """Three nodes with blocks, and the users of two."""

    async def fill() -> None:
        await prepare(cluster)
        await cluster.add_node("node2")

    asyncio.run(fill())


def through_gates(
    cluster: EtcdCluster,
    attack: t.Callable[[EtcdClient, EtcdClient], t.Awaitable[None]],
    workloads: int = WORKLOADS,
) -> None:
    """Run an attack by node1, while node2 reads through the gates as well. They have room for so many workloads."""

    async def run() -> None:
        async with gates(cluster, workloads) as urls, reading(cluster.settings("node2", urls)) as reader:
            attacker, operator = cluster.settings("node1", urls).client(), cluster.operator()
            await attack(attacker, operator)
            await attacker.write([put(1, "node1")])
            await until(lambda: EndpointKey("node1", "cali1") in reader.mirror.endpoints, "a change arrives")
            await attacker.write([gateway.Delete(put(1, "node1").key)])
            await reader.equals(operator)
            await attacker.close()
            await operator.close()

    asyncio.run(run())


def test_calls_that_etcd_does_not_check(cluster: EtcdCluster) -> None:
    """Nest transactions, raise alarms, revoke leases, compact, move the leader, and watch without an end.

    Gain: Everything in etcd of Debian 12 and 13, as the attacks on etcd without gates show.
    Precedent: CVE-2026-33343, CVE-2026-33413, GHSA-xg4h-6gfc-h4m8.
    Closed: 0.3.0
    Result: The gate passes none of these calls, and nothing has changed.
    """

    async def attack(attacker: EtcdClient, operator: EtcdClient) -> None:
        before = (await operator.status()).header.revision
        forged = {"request_put": written(put(2, "node10").key)}
        alarm: Json = {"action": "ACTIVATE", "memberID": "0", "alarm": "NOSPACE"}
        calls: list[tuple[str, Json]] = [
            ("kv/txn", {"success": [{"request_txn": {"success": [forged]}}]}),
            ("kv/txn", {"success": [{"requestTxn": {"success": [forged]}}]}),
            ("kv/txn", {"failure": [forged]}),
            ("maintenance/alarm", alarm),
            ("maintenance/transfer-leadership", {"targetID": "1"}),
            ("maintenance/downgrade", {"action": "ENABLE", "version": "3.4.0"}),
            ("kv/compaction", {"revision": str(before)}),
            *((f"{folder}lease/revoke", {"ID": "1"}) for folder in ("", "kv/")),
            *(("lease/grant", {"TTL": "1"}), ("cluster/member/list", {}), ("auth/user/grant", {"user": "node1"})),
            *(("kv/range", ranged(*one)) for one in ((END, END), (keys.BLOCKS, END))),
        ]
        for path, body in calls:
            with pytest.raises(PermissionDenied) as refused:
                await attacker.call(f"/v3/{path}", gateway.to_bytes(body))
            assert refused.value.message.startswith("the gate: "), path
        with pytest.raises(PermissionDenied):
            async with attacker.member.watch(keys.KeyRange(keys.BLOCKS, END), 1):
                pass
        with pytest.raises(PermissionDenied) as foreign:
            await attacker.write([put(2, "node10")])
        assert foreign.value.message == "the gate: a write beside the user's own keys is not passed"
        assert (await operator.status()).header.revision == before
        assert cluster.ctl("alarm", "list") == ""

    through_gates(cluster, attack)


def test_deletions_while_the_space_is_exceeded(cluster: EtcdCluster) -> None:
    """Fill the database with keys of its own, then delete keys of others, for which etcd checks no rights then.

    Gain: Readers lose workloads, blocks and nodes of others.
    Precedent: CWE-863; https://github.com/etcd-io/etcd/pull/22386, not fixed in 3.5.33. 3.6 is not affected.
    Closed: 0.3.0
    Result: The gate passes only writes below the node's own prefixes, and only with a token that it has seen before.
    """

    async def attack(attacker: EtcdClient, operator: EtcdClient) -> None:
        foreign = put(5, "node10")
        await operator.write([foreign])
        member = (await operator.call("/v3/cluster/member/list", b"{}"))["members"][0]["ID"]
        alarm = {"memberID": member, "alarm": "NOSPACE"}
        await operator.call("/v3/maintenance/alarm", gateway.to_bytes({"action": "ACTIVATE", **alarm}))
        try:
            for key in (foreign.key, keys.blocks_key("node10")):
                with pytest.raises(PermissionDenied) as refused:
                    await attacker.write([gateway.Delete(key)])
                assert refused.value.message == "the gate: a write beside the user's own keys is not passed"
            anonymous = EtcdClient({"gate": attacker.member._transport})
            with pytest.raises(Unauthenticated):
                await anonymous.write([gateway.Delete(foreign.key)])
            assert await operator.get(foreign.key) is not None
        finally:
            await operator.call("/v3/maintenance/alarm", gateway.to_bytes({"action": "DEACTIVATE", **alarm}))

    through_gates(cluster, attack)


def test_keys_and_values_that_no_reader_takes(cluster: EtcdCluster) -> None:
    """Write heartbeats and workloads of 1 MB, and keys of other names below its own prefixes.

    Gain: Hundreds of megabytes that every reader of the fleet lists, until none of them can.
    Precedent: CWE-770; found in this collection: 600 MB switched the datastore off for all.
    Closed: 0.3.0
    Result: The gate passes the keys that agents write, each up to the size that readers take, and says why not others.
    """

    async def attack(attacker: EtcdClient, operator: EtcdClient) -> None:
        before = (await operator.status()).header.revision
        endpoint, heartbeat = keys.endpoint_key("node1", "cali1"), keys.heartbeat_key("node1")
        refusals = {
            gateway.Put(heartbeat, b"x" * 700_000): "has 700000 bytes, and at most 8192 are passed",
            gateway.Put(endpoint, b"x" * (1 << 19)): "has 524288 bytes, and at most 65536 are passed",
            gateway.Put(keys.complete_key("node1"), b"x" * 65): "has 65 bytes, and at most 64 are passed",
            gateway.Put(f"{heartbeat}2", b"x"): "no agent writes the key",
            gateway.Put(f"{endpoint}/more", b"x"): "no agent writes the key",
            gateway.Put(f"{keys.endpoints_of('node1')}{'y' * 100_000}", b"x"): "no agent writes the key",
        }
        for operation, words in refusals.items():
            with pytest.raises(PermissionDenied) as refused:
                await attacker.write([put(1, "node1"), operation])
            assert words in refused.value.message and len(refused.value.message) < 200
        assert (await operator.status()).header.revision == before

    through_gates(cluster, attack)


def test_reads_that_fill_a_members_memory(cluster: EtcdCluster) -> None:
    """Ask for all workloads 128 times in one transaction of 10 KB, and for all of them without a limit.

    Gain: Each request takes 1.3 GB of a member's memory, and three of them end it.
    Precedent: CWE-400, CWE-770; found in this collection.
    Closed: 0.3.0
    Result: In transactions the gate passes single keys and counts. A range ends after 64 keys, whatever was asked for.
    """

    async def attack(attacker: EtcdClient, operator: EtcdClient) -> None:
        for first in range(0, 200, 100):
            await operator.write([put(number, "node10") for number in range(first, first + 100)])
        whole = ranged(keys.WATCHED.start, keys.WATCHED.end)
        for count in (128, 1):
            with pytest.raises(
                PermissionDenied, match="is a range that is not counted, and a transaction only counts ranges"
            ):
                body = gateway.to_bytes({"success": [{"request_range": whole}] * count})
                await attacker.call("/v3/kv/txn", body)
        with pytest.raises(PermissionDenied, match="success is 128 reads, not at most 64"):
            counted = {"request_range": {**whole, "count_only": True}}
            await attacker.call("/v3/kv/txn", gateway.to_bytes({"success": [counted] * 128}))
        for asked in ({}, {"limit": "1000000"}, {"limit": "0", "revision": "0"}):
            page = gateway.page_of(await attacker.call("/v3/kv/range", gateway.to_bytes({**whole, **asked})))
            assert len(page.entries) == 64 and page.more
        listed = [entry.key async for page in attacker.pages(keys.WATCHED) for entry in page.entries]
        assert len(listed) == page.total and len(set(listed)) == len(listed)
        for first in range(0, 200, 100):
            await operator.write([gateway.Delete(put(number, "node10").key) for number in range(first, first + 100)])

    through_gates(cluster, attack)


OWN = keys.endpoints_of("node1")


def test_more_keys_than_workloads(cluster: EtcdCluster) -> None:
    """Publish workloads without an end, through each gate in turn, and once more where others have removed some.

    Gain: The database is full for all, and every reader lists the keys of one node.
    Precedent: CWE-770; found in this collection.
    Closed: 0.3.0
    Result: Each gate refuses further keys, and names the variable. Removals pass, and make room at each gate.
    """

    async def attack(attacker: EtcdClient, operator: EtcdClient) -> None:
        async def fill(first: int) -> None:
            for number in range(first, first + 1000, 50):
                await attacker.write([gateway.Put(f"{OWN}a{one}", b"{}") for one in range(number, number + 50)])

        async def count() -> int:
            own = gateway.to_bytes({**ranged(OWN, keys.under(OWN).end), "count_only": True})
            return gateway.page_of(await operator.call("/v3/kv/range", own)).total

        for gate in range(3):
            with pytest.raises(NoSpace) as refused:
                await fill(10_000 * gate)
            assert refused.value.message.endswith(
                "keys of workloads in the datastore, and at most 101 are passed: remove workloads, or raise "
                "calico_etcd_node_workloads (it is 100) and run playbooks/etcd.yml"
            )
            attacker.rotate()
        stored = await count()
        assert 101 < stored <= 3 * (101 + 128)
        listed = [entry.key async for page in attacker.pages(keys.under(OWN)) for entry in page.entries]
        for first in range(0, len(listed), 100):
            await attacker.write([gateway.Delete(key) for key in listed[first : first + 100]])
            attacker.rotate()
        assert await count() == 0
        for dummy in range(3):
            attacker.rotate()
            await attacker.write([gateway.Put(f"{OWN}a1", b"{}")])
        await attacker.write([gateway.Delete(f"{OWN}a1")])

    through_gates(cluster, attack, workloads=100)


def test_one_key_that_is_rewritten_without_an_end(cluster: EtcdCluster) -> None:
    """Rewrite one key, and remove it, as fast as the network allows.

    Gain: The log and the history of the members grow, and each agent of the fleet reads each change.
    Precedent: CWE-770, CWE-400.
    Closed: 0.3.0
    Result: After a burst the gate passes some bytes a second, and says when to come again. The heartbeat passes.
    """

    async def attack(attacker: EtcdClient, operator: EtcdClient) -> None:
        before = (await operator.status()).header.revision
        for operation in (gateway.Put(f"{OWN}a1", b"{}"), gateway.Delete(f"{OWN}a1")):
            with pytest.raises(TooFast) as refused:
                for dummy in range(1000):
                    await attacker.write([operation])
            assert "this user writes faster than it may; the next time is in " in refused.value.message
            assert 0 < refused.value.seconds <= gateway.LATEST_SECONDS
        assert (await operator.status()).header.revision - before < 200
        await attacker.write([gateway.Put(keys.heartbeat_key("node1"), b"{}")])
        attacker.rotate()

    through_gates(cluster, attack, workloads=30)


def test_watches_without_an_end(cluster: EtcdCluster) -> None:
    """Open watches from an old revision, and do not read them.

    Gain: A member keeps the changes of each watch, and reads its whole history for each new one.
    Precedent: CWE-770, CWE-400.
    Closed: 0.3.0
    Result: The oldest of three watches ends, and those that begin too fast are refused. Other nodes follow.
    """

    async def attack(attacker: EtcdClient, operator: EtcdClient) -> None:
        async with contextlib.AsyncExitStack() as open_watches:
            watches = []
            for dummy in range(3):
                watch = attacker.member.watch(keys.WATCHED, 1)
                watches.append(await open_watches.enter_async_context(watch))
            with pytest.raises(TransportError):
                while True:
                    await watches[0].next(30)
            await watches[-1].next(30)
            with pytest.raises(TooFast, match="this user begins watches faster than it may"):
                for dummy in range(50):
                    async with attacker.member.watch(keys.WATCHED, 1):
                        pass

    through_gates(cluster, attack)


async def ends(lines: Lines, seconds: float) -> bool:
    """Return whether a watch ends within `seconds`, whatever it has until then."""
    clock = asyncio.get_running_loop()
    until_then = clock.time() + seconds
    with contextlib.suppress(TransportError):
        while (left := until_then - clock.time()) > 0:
            await lines.next(left)
    return clock.time() < until_then


def test_watches_that_outlive_their_rights(cluster: EtcdCluster) -> None:
    """Keep watches open, with a certificate that is not revoked, after the user is deleted or its role may not read.

    Gain: Addresses, labels and ports of all workloads, as they change, for as long as the connection lasts.
    Precedent: CWE-613 (insufficient session expiration): etcd checks rights only when a watch begins.
    Closed: 0.3.0
    Result: At etcd itself the watch goes on until its member restarts, which `etcd_revoke.yml` does. A gate asks again
    at least once a minute whether the user may read, and ends the watch if not. Other nodes' watches go on.
    """

    async def attack() -> None:
        operator = cluster.operator()
        watched = {"key": gateway.encoded(keys.WATCHED.start), "range_end": gateway.encoded(keys.WATCHED.end)}
        for path, body in (
            ("role/revoke", {"role": "node1", **watched}),
            ("user/delete", {"name": "node1"}),
        ):
            async with gates(cluster, rights_seconds=1.0) as urls, contextlib.AsyncExitStack() as stack:
                other = await stack.enter_async_context(reading(cluster.settings("node2", urls)))
                await other.synced()
                lines = {}
                for way, addresses in (("gate", urls), ("etcd", list(cluster.urls))):
                    client = cluster.settings("node1", addresses).client()
                    await client.write([put(1, "node1")])
                    lines[way] = await stack.enter_async_context(client.member.watch(keys.WATCHED, 1))
                    assert gateway.watch_answer_of(await lines[way].next(30)).created
                    stack.push_async_callback(client.close)
                assert not await ends(lines["gate"], 3.0), "a gate ends the watch of a user that may read"
                await operator.call(f"/v3/auth/{path}", gateway.to_bytes(body))
                assert await ends(lines["gate"], 60.0), path
                await operator.write([put(7, "node10")])
                await seen(lines["etcd"], put(7, "node10").key)
                await operator.write([gateway.Delete(put(7, "node10").key)])
                await other.equals(operator)
                assert other.status.listings == 1
            for kind in ("user", "role"):
                with contextlib.suppress(gateway.EtcdError):
                    await operator.call(f"/v3/auth/{kind}/delete", gateway.to_bytes({"name": "node1", "role": "node1"}))
            await cluster.add_node("node1")
        await operator.close()

    asyncio.run(attack())


async def seen(lines: Lines, key: str) -> None:
    """Wait until a watch has a change of a key. Raise TransportError if it ends before."""
    while not any(change.key == key for change in gateway.watch_answer_of(await lines.next(30)).changes):
        pass
