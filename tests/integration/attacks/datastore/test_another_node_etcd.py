# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node with its own user of etcd: node1 attacks, and root's client and node2 are the others."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient, Unreachable
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import EtcdError, Json

from tests.etcd_cluster import EtcdCluster
from tests.integration.datastore.reader import Links, Reader, blocks, put, reading, until

RELEASE = "bookworm"
END = "\x00"  # as a range's end: all keys from the start on
ALARM = "/v3/maintenance/alarm"

#: All the nodes have, before and after each attack.
CONTENT = [
    *blocks(),
    *(put(number, node) for node in ("node1", "node2", "node10") for number in range(5)),
    *(gateway.Put(keys.heartbeat_key(node), b"{}") for node in ("node1", "node2", "node10")),
    gateway.Put(keys.node_key("node2"), b"{}"),
    gateway.Put(keys.pool_key("default"), b"{}"),
    gateway.Put(keys.complete_key("node2"), b"{}"),
    gateway.Put("/elsewhere/secret", b"of somebody else"),
]


@pytest.fixture(scope="module", autouse=True)
def content(cluster: EtcdCluster) -> None:
    """Three nodes with workloads, heartbeats and blocks."""

    async def fill() -> None:
        operator = cluster.operator()
        await operator.write(CONTENT)
        for node in ("node1", "node2"):
            await cluster.add_node(node)
        await operator.close()

    asyncio.run(fill())


@dataclasses.dataclass
class Fleet:
    """The attacker's client, the operator's, and another node that reads."""

    attacker: EtcdClient
    operator: EtcdClient
    reader: Reader
    links: Links

    async def ask(self, path: str, body: Json) -> Json:
        """Return what the attacker gets; raise EtcdError or Unreachable."""
        return await self.attacker.call(path, gateway.to_bytes(body))

    async def everything(self) -> dict[str, tuple[bytes, int]]:
        """Return all keys of the store with value and revision."""
        request = gateway.range_request(keys.KeyRange(END, END))
        page = gateway.page_of(await self.operator.call("/v3/kv/range", request))
        return {entry.key: (entry.value, entry.mod_revision) for entry in page.entries}


def attacked(cluster: EtcdCluster, attack: t.Callable[[Fleet], t.Awaitable[None]]) -> None:
    """Run an attack while node2 reads, which afterwards has what a fresh list has."""

    async def run() -> None:
        async with Links(cluster) as links, reading(cluster.settings("node2", links.urls)) as reader:
            fleet = Fleet(cluster.settings("node1").client(), cluster.operator(), reader, links)
            await attack(fleet)
            await reader.equals(fleet.operator)
            await fleet.attacker.close()
            await fleet.operator.close()

    asyncio.run(run())


def ranged(start: str, end: str = "") -> Json:
    """Return the fields of a range, or of a key without an end."""
    return {"key": gateway.encoded(start), **({"range_end": gateway.encoded(end)} if end else {})}


def written(key: str, **more: t.Any) -> Json:
    """Return the fields of a put."""
    return {**ranged(key), "value": gateway.encoded("forged"), **more}


OWN = keys.endpoints_of("node1")
FOREIGN = [
    *(put(1, node).key for node in ("node2", "node10")),
    *(keys.endpoints_of("node2")[:-1], f"{keys.ENDPOINTS}node1", f"{keys.ENDPOINTS}node10/x", keys.ENDPOINTS),
    *(keys.blocks_key("node1"), keys.blocks_key("node2"), keys.node_key("node1"), keys.pool_key("default")),
    *(keys.heartbeat_key("node2"), keys.complete_key("node2"), keys.ROOT, "/", END, "/elsewhere/secret"),
    *("/calico/resources/v3/projectcalico.org/globalnetworkpolicies/x", f"{OWN[:-1]}0", f"{OWN[:-1]}.", "\xff"),
]
RANGES = [
    ("/", "0"),
    (END, END),
    (OWN, END),
    (OWN, keys.under(keys.ENDPOINTS).end),
    (OWN, f"{OWN[:-1]}1"),
    (keys.ENDPOINTS, keys.under(OWN).end),
    (keys.heartbeats_of("node1"), keys.under(keys.HEARTBEATS).end),
]


def test_writes_outside_of_its_prefixes(cluster: EtcdCluster) -> None:
    """Write and delete keys of other nodes, of the run and of other programs: alone, in ranges, in transactions.

    Gain: Workloads, addresses and pools of other nodes, and so the addresses that pass their policy.
    Precedent: CWE-863 (incorrect authorization), CWE-639.
    Closed: 0.3.0
    Result: etcd refuses each of them, whatever else the request has, and nothing has changed.
    """

    async def attack(fleet: Fleet) -> None:
        before = await fleet.everything()
        own = {"request_put": written(put(1, "node1").key)}
        foreign: list[Json] = [{"request_put": written(key)} for key in FOREIGN]
        foreign += [{"request_delete_range": ranged(key)} for key in FOREIGN]
        foreign += [{"request_delete_range": ranged(*one)} for one in RANGES]
        foreign += [{"request_delete_range": {**ranged(*one), "prev_kv": True}} for one in RANGES]
        calls: list[tuple[str, Json]] = []
        for one in foreign:
            ((kind, body),) = one.items()
            calls.append(("/v3/kv/put" if kind == "request_put" else "/v3/kv/deleterange", body))
            calls.append(("/v3/kv/txn", {"success": [own, one]}))
            calls.append(("/v3/kv/txn", {"success": [own], "failure": [one]}))
        compared = {"target": "VERSION", "result": "EQUAL", "version": "0", **ranged("/elsewhere/secret")}
        calls.append(("/v3/kv/txn", {"compare": [compared], "success": [own]}))
        for path, body in calls:
            with pytest.raises(EtcdError) as refused:
                await fleet.ask(path, body)
            words = ("permission denied", "duplicate key given in txn request")
            assert any(one in refused.value.message for one in words), (path, body)
        assert await fleet.everything() == before

    attacked(cluster, attack)


def test_reads_outside_of_what_agents_read(cluster: EtcdCluster) -> None:
    """List and watch the whole keyspace: other nodes' heartbeats, and the keys of other programs.

    Gain: Data of other programs in the same cluster, and what the run writes about the fleet.
    Precedent: CWE-200, CWE-863.
    Closed: 0.3.0
    Result: A node can read blocks and workloads, which its policy needs, and nothing else.
    """

    async def attack(fleet: Fleet) -> None:
        outside = [
            *((one.start, one.end) for one in (keys.EVERYTHING, keys.under(keys.HEARTBEATS), keys.under(keys.NODES))),
            *((END, END), (keys.BLOCKS, END), ("/elsewhere/secret", ""), (keys.pool_key("default"), "")),
            *((keys.heartbeat_key("node2"), ""), (keys.WATCHED.start, f"{keys.WATCHED.end}0")),
        ]
        for one in outside:
            for more in ({}, {"count_only": True}, {"keys_only": True, "serializable": True}):
                with pytest.raises(gateway.PermissionDenied):
                    await fleet.ask("/v3/kv/range", {**ranged(*one), **more})
            with pytest.raises(gateway.PermissionDenied):
                await fleet.ask("/v3/kv/txn", {"success": [{"request_range": ranged(*one)}]})
            if one != (keys.BLOCKS, END):
                with pytest.raises(gateway.PermissionDenied):
                    await first_changes(fleet, keys.KeyRange(*one))
        await fleet.ask("/v3/kv/range", ranged(*keys.WATCHED))

    attacked(cluster, attack)


async def first_changes(fleet: Fleet, range_of_keys: keys.KeyRange) -> set[str]:
    """Return the keys of the first changes that the attacker gets by a watch; raise EtcdError if it is refused."""
    async with fleet.attacker.member.watch(range_of_keys, 1) as lines:
        while True:
            found = gateway.watch_answer_of(await lines.next(10))
            if found.canceled:
                raise gateway.cancellation_of(found)
            if found.changes:
                return {one.key for one in found.changes}


async def is_fixed(fleet: Fleet, releases: t.Mapping[str, int]) -> bool:
    """Return whether the members' release has a fix that came with these patch levels, such as {"3.5": 28}."""
    major, minor, patch = (await fleet.operator.status()).version.split(".")
    return int(patch) >= releases.get(f"{major}.{minor}", 0)


def test_a_watch_from_a_key_on(cluster: EtcdCluster) -> None:
    """Watch all keys from the first one that a node may read, without an end.

    Gain: All keys that sort after it, such as nodes, pools, and heartbeats of other nodes.
    Precedent: GHSA-xg4h-6gfc-h4m8 (CWE-863), which etcd 3.5.33 and 3.6.14 fix.
    Closed: 0.3.0
    Result: Not prevented by etcd of Debian 12 and 13. These keys hold no secrets: keep no secrets in keys after
    `/host-routing/`.
    """

    async def attack(fleet: Fleet) -> None:
        if await is_fixed(fleet, {"3.4": 10_000, "3.5": 33, "3.6": 14}):
            with pytest.raises(gateway.PermissionDenied):
                await first_changes(fleet, keys.KeyRange(keys.BLOCKS, END))
        else:
            assert keys.node_key("node2") in await first_changes(fleet, keys.KeyRange(keys.BLOCKS, END))

    attacked(cluster, attack)


def test_a_transaction_inside_a_transaction(cluster: EtcdCluster) -> None:
    """Write and delete keys of others by a transaction inside a transaction, for which etcd checks no rights.

    Gain: Everything in etcd: workloads of other nodes, blocks, and data of other programs.
    Precedent: CVE-2026-33343 (CWE-863), which etcd 3.4.42, 3.5.28 and 3.6.9 fix.
    Closed: 0.3.0
    Result: Not prevented by etcd of Debian 12 and 13, unless members have `--max-txn-ops=1`. Invalid documents are left
    out and named.
    """

    async def attack(fleet: Fleet) -> None:
        def inside(operation: Json) -> Json:
            return {"success": [{"request_txn": {"success": [operation]}}]}

        forged = inside({"request_put": written(put(2, "node10").key)})
        gone = inside({"request_delete_range": ranged(put(3, "node10").key)})
        before = dict(fleet.reader.mirror.endpoints)
        if await is_fixed(fleet, {"3.4": 42, "3.5": 28, "3.6": 9}):
            for body in (forged, gone):
                with pytest.raises(gateway.PermissionDenied):
                    await fleet.ask("/v3/kv/txn", body)
            return
        await fleet.ask("/v3/kv/txn", forged)
        await fleet.ask("/v3/kv/txn", gone)
        await until(lambda: len(fleet.reader.mirror.endpoints) == len(before) - 1, "a removal arrives")
        assert [key for key, _why in fleet.reader.mirror.refused()] == [put(2, "node10").key]
        await fleet.operator.write(CONTENT)
        await until(lambda: fleet.reader.mirror.endpoints == before, "the cure arrives")

    attacked(cluster, attack)


def test_a_transaction_inside_a_transaction_of_one_operation(
    cluster: EtcdCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nest transactions at members that accept one operation for each transaction (`--max-txn-ops=1`).

    Gain: Everything in etcd: workloads of other nodes, blocks, and data of other programs.
    Precedent: CVE-2026-33343 (CWE-863).
    Closed: 0.3.0
    Result: etcd counts the operations of inner transactions as well, and refuses them all.
    """

    async def attack(strict: EtcdCluster) -> None:
        await strict.add_node("node1")
        attacker, operator = strict.settings("node1").client(), strict.operator()
        foreign = put(1).key
        compared = {"target": "VERSION", "result": "EQUAL", "version": "0", **ranged(foreign)}
        inner: list[Json] = [
            {"success": [{"request_put": written(foreign)}]},
            {"failure": [{"request_delete_range": ranged(foreign)}]},
            {"success": [{"request_range": ranged(foreign)}]},
            {"compare": [compared]},
            {"success": [{"request_txn": {"success": [{"request_put": written(foreign)}]}}]},
        ]
        for one in inner:
            for branch in ("success", "failure"):
                with pytest.raises(EtcdError, match="too many operations in txn request"):
                    await attacker.call("/v3/kv/txn", gateway.to_bytes({branch: [{"request_txn": one}]}))
        assert await attacker.write([put(1, "node1")], [gateway.Unchanged(put(1, "node1").key, 0)])
        assert await operator.get(foreign) is None
        await attacker.close()
        await operator.close()

    folder = tmp_path_factory.mktemp("strict")
    with EtcdCluster(cluster.programs, folder, 1, apart=False, options={"max-txn-ops": 1}) as strict:
        strict.begin()
        asyncio.run(attack(strict))


def test_users_and_the_cluster(cluster: EtcdCluster) -> None:
    """Change passwords, users, roles and members, switch authentication off, and copy the whole store.

    Gain: Every right in the cluster.
    Precedent: CWE-269 (improper privilege management).
    Closed: 0.3.0
    Result: All are refused. A user may only read its own rights and the list of the members.
    """

    async def attack(fleet: Fleet) -> None:
        everything = {"permType": "READWRITE", **ranged(END, END)}
        calls: dict[str, list[Json]] = {
            "auth/user/add": [{"name": "more", "password": "x"}],
            "auth/user/delete": [{"name": "root"}, {"name": "node2"}, {"name": "node1"}],
            "auth/user/changepw": [{"name": user, "password": "x"} for user in ("root", "node1", "node2")],
            "auth/user/get": [{"name": "root"}, {"name": "node2"}],
            "auth/user/list": [{}],
            "auth/user/grant": [{"user": "node1", "role": role} for role in ("root", "node2")],
            "auth/user/revoke": [{"name": "node2", "role": "node2"}, {"name": "root", "role": "root"}],
            "auth/role/add": [{"name": "more"}],
            "auth/role/get": [{"role": "node2"}],
            "auth/role/grant": [{"name": role, "perm": everything} for role in ("node1", "node2")],
            "auth/role/revoke": [{"role": "node2", **ranged(*keys.WATCHED)}],
            "auth/role/delete": [{"role": "node2"}],
            "auth/disable": [{}],
            "auth/enable": [{}],
            "cluster/member/add": [{"peerURLs": ["https://10.119.0.99:2380"]}],
            "cluster/member/remove": [{"ID": "1"}],
            "cluster/member/update": [{"ID": "1", "peerURLs": ["https://10.119.0.99:2380"]}],
            "cluster/member/promote": [{"ID": "1"}],
            "maintenance/snapshot": [{}],
            "maintenance/defragment": [{}],
            "maintenance/hash": [{}],
            "lock/lock": [{"name": gateway.encoded("/elsewhere/lock")}],
            "election/campaign": [{"name": gateway.encoded("/elsewhere/election"), "lease": "1"}],
        }
        for path, bodies in calls.items():
            for body in bodies:
                with pytest.raises(EtcdError) as refused:
                    await fleet.ask(f"/v3/{path}", body)
                assert "permission denied" in refused.value.message, (path, body)
        for password in ("", "x", "secret", "node2"):
            with pytest.raises(EtcdError):
                await fleet.ask("/v3/auth/authenticate", {"name": "node2", "password": password})
        assert (await fleet.ask("/v3/auth/user/get", {"name": "node1"}))["roles"] == ["node1"]
        assert len((await fleet.ask("/v3/cluster/member/list", {}))["members"]) == 3

    attacked(cluster, attack)


def test_revoked_leases_remove_no_key_of_others(cluster: EtcdCluster) -> None:
    """Revoke all leases of the cluster, and attach short leases of its own to its keys. Etcd checks no right.

    Gain: Keys of other nodes, or of the run, that end with their lease.
    Precedent: CWE-862 (missing authorization): etcd checks no rights for leases.
    Closed: 0.3.0
    Result: No key of the datastore depends on a lease, so only the attacker's own keys expire.
    """

    async def attack(fleet: Fleet) -> None:
        await fleet.reader.equals(fleet.operator)
        others = {key: value for key, value in (await fleet.everything()).items() if not key.startswith(OWN)}
        lease = (await fleet.ask("/v3/lease/grant", {"TTL": "1"}))["ID"]
        await fleet.ask("/v3/kv/put", written(f"{OWN}short", lease=lease))
        with pytest.raises(gateway.PermissionDenied):
            await fleet.ask("/v3/kv/put", written(put(1).key, lease=lease))
        for one in (await fleet.ask("/v3/lease/leases", {})).get("leases", []):
            await fleet.ask("/v3/lease/revoke", {"ID": one["ID"]})
        found = await fleet.everything()
        assert f"{OWN}short" not in found
        assert {key: value for key, value in found.items() if not key.startswith(OWN)} == others
        page = await fleet.operator.call("/v3/kv/range", gateway.range_request(keys.EVERYTHING))
        assert [entry for entry in page["kvs"] if entry.get("lease", "0") != "0"] == []

    attacked(cluster, attack)


def test_compaction_to_the_newest_revision(cluster: EtcdCluster) -> None:
    """Compact to the newest revision repeatedly, while another node's connection breaks. Etcd checks no right.

    Gain: Other nodes miss changes that happen meanwhile, or list everything all the time.
    Precedent: CWE-862 (missing authorization): etcd checks no rights for compaction.
    Closed: 0.3.0
    Result: No change is missed. A node that missed none resumes; a node that missed some lists all keys once.
    """

    async def attack(fleet: Fleet) -> None:
        async def compact() -> None:
            revision = (await fleet.operator.status()).header.revision
            with contextlib.suppress(gateway.Compacted):
                await fleet.ask("/v3/kv/compaction", {"revision": str(revision), "physical": True})

        listings = fleet.reader.status.listings
        for number in range(5):
            await fleet.operator.write([put(20 + number, "node10")])
            await compact()
        await fleet.reader.equals(fleet.operator)
        assert fleet.reader.status.listings == listings
        fleet.links.cut()
        await fleet.reader.lost("the member closed the connection", "the connection broke")
        await fleet.reader.equals(fleet.operator)
        assert fleet.reader.status.listings == listings
        fleet.links.refused = True
        fleet.links.cut()
        await fleet.reader.lost("no member of the etcd cluster answers")
        await fleet.operator.write([put(30, "node10"), gateway.Delete(put(20, "node10").key)])
        await compact()
        fleet.links.refused = False
        await fleet.reader.equals(fleet.operator)
        assert fleet.reader.status.listings == listings + 1

    attacked(cluster, attack)


def test_a_raised_alarm_stops_writes_and_is_named(cluster: EtcdCluster) -> None:
    """Raise the alarms NOSPACE and CORRUPT, which stop all writes. Etcd checks no right.

    Gain: No node's changes reach any other node, until a person finds out why.
    Precedent: CVE-2026-33413 (CWE-862), which etcd 3.4.42, 3.5.28 and 3.6.9 fix.
    Closed: 0.3.0
    Result: Not prevented by etcd of Debian 12 and 13. Writers name the reason, and reads continue. To recover, clear
    the alarm.
    """

    async def attack(fleet: Fleet) -> None:
        member = (await fleet.ask("/v3/cluster/member/list", {}))["members"][0]["ID"]
        for number, (alarm, words) in enumerate(
            (("NOSPACE", "database space exceeded"), ("CORRUPT", "corrupt cluster")), start=40
        ):
            before = dict(fleet.reader.mirror.endpoints)
            await fleet.ask(ALARM, {"action": "ACTIVATE", "memberID": member, "alarm": alarm})
            with pytest.raises(EtcdError, match=words):
                await fleet.operator.write([put(number, "node10")])
            fleet.links.cut()
            await fleet.reader.lost("the member closed the connection", "the connection broke")
            await fleet.reader.synced()
            assert fleet.reader.mirror.endpoints == before
            disarm = {"action": "DEACTIVATE", "memberID": member, "alarm": alarm}
            await fleet.operator.call(ALARM, gateway.to_bytes(disarm))
            await fleet.operator.write([put(number, "node10")])
            await fleet.reader.equals(fleet.operator)

    attacked(cluster, attack)


def test_rights_while_an_alarm_is_raised(cluster: EtcdCluster) -> None:
    """Raise the alarm NOSPACE, during which etcd 3.4 and 3.5 check no rights for users, deletions and leases.

    Gain: The role of root, and with it everything in etcd.
    Precedent: CWE-863; https://github.com/etcd-io/etcd/pull/22386, not fixed in 3.5.33. 3.6 is not affected.
    Closed: 0.3.0
    Result: Not prevented by etcd of Debian 12 and 13: root on a node can become root in etcd. Readers keep the last
    valid document where a new one is invalid, and the operator revokes the rights.
    """

    async def attack(fleet: Fleet) -> None:
        member = (await fleet.ask("/v3/cluster/member/list", {}))["members"][0]["ID"]
        await fleet.ask(ALARM, {"action": "ACTIVATE", "memberID": member, "alarm": "NOSPACE"})
        await fleet.ask("/v3/kv/deleterange", ranged(put(1, "node10").key))
        await fleet.ask("/v3/auth/user/grant", {"user": "node1", "role": "root"})
        assert put(1, "node10").key not in await fleet.everything()
        disarm = {"action": "DEACTIVATE", "memberID": member, "alarm": "NOSPACE"}
        await fleet.operator.call(ALARM, gateway.to_bytes(disarm))
        await fleet.operator.call("/v3/auth/user/revoke", gateway.to_bytes({"name": "node1", "role": "root"}))
        with pytest.raises(gateway.PermissionDenied):
            await fleet.ask("/v3/kv/deleterange", ranged(put(1, "node10").key))
        await fleet.operator.write(CONTENT)

    attacked(cluster, attack)


def test_leadership_and_downgrade(cluster: EtcdCluster) -> None:
    """Move the leadership between members, and announce a downgrade. Etcd checks no right.

    Gain: Elections all the time, or members that act as an older release.
    Precedent: CWE-862 (missing authorization).
    Closed: 0.3.0
    Result: Writes pause for moments, no data is lost, and the operator cancels the downgrade.
    """

    async def attack(fleet: Fleet) -> None:
        members = [one["ID"] for one in (await fleet.ask("/v3/cluster/member/list", {}))["members"]]
        for target in members:
            for _member in members:
                with contextlib.suppress(EtcdError, Unreachable):
                    await fleet.ask("/v3/maintenance/transfer-leadership", {"targetID": target})
                fleet.attacker.rotate()
        with contextlib.suppress(EtcdError):  # 3.4 has none
            await fleet.ask("/v3/maintenance/downgrade", {"action": "ENABLE", "version": "3.4.0"})
            await fleet.operator.write([put(50, "node10")])
            await fleet.reader.equals(fleet.operator)
            await fleet.operator.call("/v3/maintenance/downgrade", gateway.to_bytes({"action": "CANCEL"}))
        await fleet.operator.write([put(51, "node10")])

    attacked(cluster, attack)
