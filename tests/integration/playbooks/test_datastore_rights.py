# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run does with the etcd of Debian 12 (3.4) and 13 (3.5): the rights that it gives suffice, and are no more."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Delete, Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import KeyRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import (
    auth,
    exchange,
    live_policy,
    rights,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.exchange import (
    UnusableCluster,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.fleet_publication import FleetPublisher

from tests.integration.playbooks.one_etcd import NODE_SECRET, PASSWORD, RELEASES, OneEtcd
from tests.unit.fleet.fleets import build, pool

NODES = {"node1": "10.10.1.11/24", "node10": "10.10.1.12/24"}
SECRET = bytes.fromhex(NODE_SECRET)


@pytest.fixture(params=RELEASES)
def etcd(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> t.Iterator[OneEtcd]:
    member = OneEtcd(request.param, tmp_path, tmp_path / "files")
    member.start()
    member.wait(user="")
    yield member
    member.stop()


def fleet(nodes: t.Mapping[str, str] = NODES) -> Fleet:
    return build(pool("ipip"), nodes=nodes, workloads=[])


def publish(etcd: OneEtcd, wanted: Fleet, secret: bytes = SECRET, leaving: str = "") -> list[str]:
    done = etcd.ask(lambda client: FleetPublisher("root", secret).publish(client, wanted, leaving=leaving))
    return [f"{change.action} {change.kind} {change.subject}" for change in done.changes]


def listed(wanted: KeyRange) -> t.Callable[[EtcdClient], t.Awaitable[list[str]]]:
    async def read(client: EtcdClient) -> list[str]:
        return [entry.key async for page in client.pages(wanted) for entry in page.entries]

    return read


def test_the_rights_that_a_run_gives(etcd: OneEtcd) -> None:
    with pytest.raises(UnusableCluster):
        publish(etcd, fleet())
    etcd.demand_passwords()
    assert len(publish(etcd, fleet())) == 9
    assert publish(etcd, fleet()) == []

    def node(talk: t.Callable[[EtcdClient], t.Awaitable[t.Any]], name: str = "node1") -> t.Any:
        return etcd.ask(talk, name, rights.password(SECRET, name))

    def writes(*operations: gateway.Operation) -> t.Callable[[EtcdClient], t.Awaitable[bool]]:
        return lambda client: client.write(operations)

    endpoint, beat = keys.endpoint_key("node1", "cali1"), keys.heartbeat_key("node1")
    assert node(writes(Put(endpoint, b"{}"), Put(keys.complete_key("node1"), b"{}"), Put(beat, b"{}")))
    assert node(writes(Delete(endpoint))) and node(writes(Put(endpoint, b"{}")))
    assert endpoint in node(listed(keys.WATCHED), "node10") and beat in node(listed(keys.under(keys.HEARTBEATS)))
    for operations in (
        [Put(keys.endpoint_key("node10", "cali1"), b"{}")],
        [Put(keys.heartbeat_key("node10"), b"{}")],
        [Put(keys.blocks_key("node1"), b"{}")],
        [Delete(keys.blocks_key("node10"))],
        [Put(keys.node_key("node1"), b"{}")],
        [Put(keys.pool_key("default"), b"{}")],
        [Put("/host-routing/v1/endpoints/node1", b"{}")],
        [Put("/elsewhere", b"{}")],
        [Put(endpoint, b"{}"), Put(keys.endpoint_key("node10", "cali1"), b"{}")],
    ):
        with pytest.raises(gateway.PermissionDenied):
            node(writes(*operations))
    for wanted in (keys.EVERYTHING, keys.under(keys.NODES), keys.under(keys.POOLS), KeyRange("\0", "\0")):
        with pytest.raises(gateway.PermissionDenied):
            node(listed(wanted))
    for path, body in (
        (auth.USER_LIST, b"{}"),
        (auth.USER_ADD, auth.user_with_password("mine", "x")),
        (auth.USER_PASSWORD, auth.user_with_password("root", "x")),
        (auth.USER_GRANT, auth.grant_role("node1", "root")),
        (auth.ROLE_GRANT, auth.grant("node1", auth.Permission(keys.EVERYTHING, auth.READWRITE))),
        ("/v3/auth/disable", b"{}"),
    ):
        with pytest.raises(gateway.PermissionDenied):
            node(lambda client, call=(path, body): client.call(*call))


def test_the_rights_of_operators_and_of_nodes_with_live_policy(etcd: OneEtcd) -> None:
    """An operator writes documents, the open change and its own history, and a node none of them."""
    etcd.demand_passwords()
    live = build(pool("ipip"), nodes=NODES, workloads=[], policy_enabled=True, live_policy=True)
    assert live.policy is not None
    policy = live_policy.of_inventory(live.policy.policy.policy_set, live.policy.policy.settings)
    origins = {name: rights.origin_of_operator(name, 0) for name in ("ada", "berta")}

    def run(operators: t.Mapping[str, str]) -> list[str]:
        publisher = FleetPublisher("root", SECRET, operators=operators)
        done = etcd.ask(lambda client: publisher.publish(client, live, live=policy))
        return [f"{change.action} {change.kind} {change.subject}" for change in done.changes]

    assert [line for line in run(origins) if "berta" in line or "inventory" in line or "settings" in line] == [
        "+ role berta",
        "+ user berta",
        "+ settings fleet",
    ]
    assert run(origins) == []

    def ask(user: str, talk: t.Callable[[EtcdClient], t.Awaitable[t.Any]]) -> t.Any:
        return etcd.ask(talk, user, rights.password(SECRET, origins.get(user, user)))

    def write(user: str, *operations: gateway.Operation) -> t.Any:
        return ask(user, lambda client: client.write(operations))

    tier = keys.document_key(keys.DocumentKey("Tier", "", "a"))
    history, answer = keys.history_key("ada", "1f"), keys.answer_key("node1", "1f")
    change = [Put(tier, b"{}"), Put(history, b"{}"), Put(keys.OPEN_CHANGE, b"{}")]
    absent = [gateway.Unchanged(tier, 0), gateway.Unchanged(keys.OPEN_CHANGE, 0)]
    assert ask("ada", lambda client: client.write(change, absent)) and write("node1", Put(answer, b"{}"))
    assert write("ada", Delete(keys.OPEN_CHANGE)) and write("berta", Put(tier, b'{"a":1}'))
    assert {tier, history, answer, keys.FLEET_SETTINGS} <= set(ask("berta", listed(keys.EVERYTHING)))
    for reader in (keys.WATCHED, keys.under(keys.INVENTORY), keys.under(keys.SETTINGS)):
        assert ask("node1", listed(reader))
    for user, key in (
        *(("node1", key) for key in (tier, keys.OPEN_CHANGE, history, keys.FLEET_SETTINGS)),
        *(("node1", key) for key in (keys.history_key("node1", "1"), keys.answer_key("node10", "1"))),
        *(("ada", key) for key in (keys.history_key("berta", "1"), keys.history_key("ada2", "1"), keys.FLEET_SETTINGS)),
        *(("ada", key) for key in (answer, keys.endpoint_key("node1", "cali1"), keys.endpoint_key("ada", "cali1"))),
        *(("ada", key) for key in (keys.blocks_key("node1"), keys.node_key("node1"), keys.heartbeat_key("node1"))),
        *(("ada", key) for key in (keys.inventory_key(keys.DocumentKey("Tier", "", "a")), "/elsewhere")),
    ):
        for operation in (Put(key, b"{}"), Delete(key)):
            with pytest.raises(gateway.PermissionDenied):
                write(user, operation)
    for unread in (keys.under(keys.HISTORY), keys.under(keys.ANSWERS)):
        with pytest.raises(gateway.PermissionDenied):
            ask("node1", listed(unread))
    for path, body in ((auth.USER_LIST, b"{}"), (auth.USER_GRANT, auth.grant_role("ada", "root"))):
        with pytest.raises(gateway.PermissionDenied):
            ask("ada", lambda client, call=(path, body): client.call(*call))
    assert run({"berta": origins["berta"]}) == ["- user ada", "- role ada"]
    with pytest.raises(gateway.WrongPassword):
        ask("ada", listed(keys.EVERYTHING))


def test_changes_made_by_hand_in_the_cluster_are_corrected(etcd: OneEtcd) -> None:
    """A run corrects what was changed by hand; then the fleet gets another secret, and a node leaves."""
    etcd.demand_passwords()
    publish(etcd, fleet())

    async def by_hand(client: EtcdClient) -> None:
        own = keys.under(keys.endpoints_of("node1"))
        await client.call(auth.ROLE_GRANT, auth.grant("node1", auth.Permission(KeyRange("\0", "\0"), auth.READ)))
        await client.call(auth.ROLE_REVOKE, auth.revoke("node1", own))
        await client.call(auth.USER_GRANT, auth.grant_role("node10", "node1"))
        await client.call(auth.USER_PASSWORD, auth.user_with_password("node10", "x"))
        await client.write([Put(keys.pool_key("default"), b"{}"), Put(keys.node_key("node7"), b"{}")])

    etcd.ask(by_hand)
    assert publish(etcd, fleet()) == [
        "- node node7",
        "~ role node1",
        "~ user node10",
        "~ user node10",
        "~ pool default",
    ]
    assert publish(etcd, fleet()) == []
    assert etcd.ask(lambda client: exchange.refused(client, NODES, SECRET)) == []

    other = SECRET[::-1] + b"x"
    assert publish(etcd, fleet(), other) == ["~ user node1", "~ user node10", "~ node node1", "~ node node10"]
    with pytest.raises(gateway.WrongPassword):
        etcd.ask(lambda client: client.get("x"), "node1", rights.password(SECRET, "node1"))

    wanted = fleet({"node1": NODES["node1"]})
    key = keys.endpoint_key("node10", "cali1")
    etcd.ask(lambda client: client.write([Put(key, b"{}")]), "node10", rights.password(other, "node10"))
    assert publish(etcd, wanted, other, leaving="node10") == [
        "- user node10",
        "- role node10",
        "- blocks node10",
        "- node node10",
        "- endpoint endpoints/node10/*",
    ]
    assert etcd.ask(lambda client: client.get(key)) is None
    with pytest.raises(gateway.WrongPassword):
        etcd.ask(lambda client: client.get(key), "node10", rights.password(other, "node10"))
    etcd.ask(lambda client: client.write([Put("/host-routing/v2/x", b"")]), "root", PASSWORD)
    with pytest.raises(
        UnusableCluster, match="keys below /host-routing/ that are not this collection's: /host-routing/v2/x"
    ):
        publish(etcd, wanted, other)
