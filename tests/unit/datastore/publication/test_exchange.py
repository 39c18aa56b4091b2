# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run reads of a cluster and writes there, with a cluster in memory."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import (
    Delete,
    InvalidAnswer,
    Put,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import (
    auth,
    content,
    exchange,
    rights,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.content import Published
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.exchange import (
    ObservedCluster,
    UnusableCluster,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.rights import AccessStep
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.virtual_time import run

SECRET = b"0123456789abcdef"
NODES = ("node1", "node2")
FLEET = Published({node: {"labels": {}} for node in NODES}, {"default": {}}, {node: [] for node in NODES})


def members() -> FakeEtcd:
    etcd = FakeEtcd()
    etcd.users, etcd.granted, etcd.roles = {"root": "boss"}, {"root": {"root"}}, {"root": {}}
    return etcd


def client(etcd: FakeEtcd, user: str = "root", password: str = "boss") -> EtcdClient:
    return EtcdClient(etcd.members, Credentials(user, password), seconds=2.0, jitter=0.0)


async def look(etcd: FakeEtcd) -> ObservedCluster:
    return await exchange.observe(client(etcd), content.PUBLISHED, NODES)


async def publish(etcd: FakeEtcd, fleet: Published = FLEET) -> int:
    """Bring the cluster to the fleet and return the number of changes."""
    found = await look(etcd)
    access = rights.plan(fleet.nodes, found.access, "root")
    changes = content.plan(fleet.values(), found.values)
    await exchange.write(client(etcd), content.operations(changes))
    await exchange.change_access(client(etcd), [step for change in access for step in change.new], SECRET)
    return len(access) + len(changes)


def test_one_run_brings_a_cluster_to_the_fleet_and_the_next_has_nothing_to_do() -> None:
    async def scenario() -> None:
        etcd = members()
        assert await publish(etcd) == 2 * 2 + 5
        assert await publish(etcd) == 0
        assert etcd.users["node2"] == rights.password(SECRET, "node2")
        assert etcd.granted["node2"] == {"node2"}
        found = await look(etcd)
        assert found.version == "3.5.16" and found.values == FLEET.values() and found.of_nodes == {}
        assert found.access.roles["node1"] == rights.permissions("node1") and "root" not in found.access.roles
        node = client(etcd, "node1", rights.password(SECRET, "node1"))
        await node.write([Put(keys.endpoint_key("node1", "cali1"), b"{}"), Put(keys.heartbeat_key("node1"), b"{}")])
        with pytest.raises(gateway.PermissionDenied):
            await node.write([Put(keys.heartbeat_key("node2"), b"{}")])
        found = await look(etcd)
        assert found.of_nodes == {} and found.heartbeats == {keys.heartbeat_key("node1"): b"{}"}
        less = Published({"node2": {}}, {}, {"node2": []})
        assert await publish(etcd, less) == 2 + 3 + 1
        assert set(etcd.users) == {"root", "node2"} and "node1" not in etcd.roles
        found = await exchange.observe(client(etcd), content.PUBLISHED, ["node2"])
        assert found.of_nodes == {keys.endpoints_of("node1"): 1, keys.heartbeats_of("node1"): 1}
        assert await publish(etcd, less) == 0

    run(scenario())


@pytest.mark.parametrize(
    ("release", "holds"),
    [
        *(("3.4.41", False), ("3.4.42", True), ("3.5.27", False), ("3.5.28", True), ("3.6.8", False), ("3.6.9", True)),
        *(("3.5.28-rc.0", False), ("3.5.28+debian1", True), ("3.5.29-rc.0", True), ("3.7.0", True), ("4.0.1", True)),
        *(("3.3.99", False), ("", False), ("latest", False), ("3.6", False)),
    ],
)
def test_a_release_in_which_rights_hold(release: str, holds: bool) -> None:
    etcd = members()
    etcd.version = release

    async def scenario() -> None:
        await exchange.check_rights_hold(client(etcd))

    if holds:
        run(scenario())
        return
    with pytest.raises(UnusableCluster) as error:
        run(scenario())
    assert str(error.value) == (
        f"calico_live_policy is true, and m1 runs etcd {release or 'of no version'}, in which every node can write "
        "documents (CVE-2026-33343). Upgrade the members to 3.4.42, 3.5.28, 3.6.9 or later, use a cluster of role "
        "calico_etcd, whose gates prevent it, or set calico_live_policy to false."
    )


def test_a_password_that_etcd_refuses_is_found_and_set() -> None:
    async def scenario() -> None:
        etcd = members()
        await publish(etcd)
        etcd.users["node2"] = "edited by hand"
        assert await exchange.refused(client(etcd), NODES, SECRET) == ["node2"]
        await exchange.change_access(client(etcd), [AccessStep(auth.USER_PASSWORD, password_of="node2")], SECRET)
        assert await exchange.refused(client(etcd), NODES, SECRET) == []

    run(scenario())


def test_a_step_that_etcd_denies_for_a_moment_is_repeated() -> None:
    async def scenario() -> None:
        etcd = members()
        etcd.denials = 5
        await publish(etcd)
        assert etcd.granted["node2"] == {"node2"} and await publish(etcd) == 0
        assert asyncio.get_running_loop().time() == pytest.approx(1.0, abs=0.1)
        etcd.denials = 6
        with pytest.raises(gateway.PermissionDenied):
            await exchange.change_access(
                client(etcd), [AccessStep(auth.USER_GRANT, auth.grant_role("node1", "node2"))], SECRET
            )
        assert etcd.granted["node1"] == {"node1"}

    run(scenario())


def test_steps_that_take_rights_away() -> None:
    async def scenario() -> None:
        etcd = members()
        await publish(etcd)
        own = keys.under(keys.endpoints_of("node1"))
        steps: list[AccessStep] = [
            AccessStep(auth.USER_GRANT, auth.grant_role("node1", "node2")),
            AccessStep(auth.USER_REVOKE, auth.revoke_role("node1", "node1")),
            AccessStep(auth.ROLE_REVOKE, auth.revoke("node1", own)),
        ]
        await exchange.change_access(client(etcd), steps, SECRET)
        found = await look(etcd)
        assert found.access.users["node1"] == ("node2",)
        assert own not in {one.keys for one in found.access.roles["node1"]}

    run(scenario())


def test_a_transaction_has_at_most_what_etcd_takes() -> None:
    async def scenario() -> None:
        etcd = members()
        operations = [Put(keys.node_key(f"n{number}"), b"x") for number in range(300)]
        before = etcd.revision
        await exchange.write(client(etcd), operations)
        assert etcd.revision == before + 3 and len(etcd.data()) == 300
        large = [Put(keys.node_key(f"n{number}"), b"x" * (400 << 10)) for number in range(5)]
        await exchange.write(client(etcd), [*large, *(Delete(keys.node_key(f"n{number}")) for number in range(300))])
        assert etcd.revision == before + 3 + 2 + 3 and not etcd.data()
        await exchange.write(client(etcd), [])

    run(scenario())


def test_members_that_take_one_operation_get_them_one_by_one() -> None:
    """Members with --max-txn-ops=1 refuse what is more; another refusal is none of those."""

    async def scenario() -> None:
        etcd = members()
        etcd.most_operations = 1
        assert await publish(etcd) == 2 * 2 + 5 and await publish(etcd) == 0
        assert list(etcd.data()) == [key.encode() for key in sorted(FLEET.values())]
        with pytest.raises(gateway.PermissionDenied):
            node = client(etcd, "node1", rights.password(SECRET, "node1"))
            await exchange.write(node, [Put(keys.node_key("node1"), b"x")])

    run(scenario())


def test_a_cluster_without_passwords_is_refused() -> None:
    with pytest.raises(UnusableCluster) as refusal:
        run(exchange.check(client(FakeEtcd())))
    assert str(refusal.value) == (
        "The cluster asks nobody for a password, so every node could write for every other one. Switch authentication "
        "on (etcdctl auth enable), or have role calico_etcd make a cluster."
    )


@pytest.mark.parametrize(
    ("version", "shown"),
    [("3.3.27", "3.3.27"), ("", "of no version"), ("9", "9"), ("3.5.16\nx", "3.5.16\nx"), ("x" * 90, "x" * 40)],
)
def test_a_cluster_of_another_release_is_refused(version: str, shown: str) -> None:
    etcd = members()
    etcd.version = version
    with pytest.raises(UnusableCluster) as refusal:
        run(exchange.check(client(etcd)))
    assert str(refusal.value) == f"The cluster runs etcd {shown}, and at least 3.4 is needed. Upgrade it."


@pytest.mark.parametrize("version", ["3.4.23", "3.5.16", "3.6.0-rc.2", "10.0.0"])
def test_a_cluster_of_a_usable_release(version: str) -> None:
    etcd = members()
    etcd.version = version
    assert run(exchange.check(client(etcd))) == version


def test_a_cluster_with_keys_of_something_else_below_our_root_is_refused() -> None:
    etcd = members()
    for key in ("/host-routing", "/host-routing/v1/nodes/node1", "/host-routing0", "/calico/x"):
        etcd.put(key, b"")
    assert run(exchange.check(client(etcd))) == "3.5.16"
    for key in ("/host-routing/v1", "/host-routing/v10/x", "/host-routing/other", "/host-routing/a\x1b[1m"):
        etcd.put(key, b"")
    with pytest.raises(UnusableCluster) as refusal:
        run(exchange.check(client(etcd)))
    assert str(refusal.value) == (
        "The cluster has keys below /host-routing/ that are not this collection's: /host-routing/a\x1b[1m, "
        "/host-routing/other, /host-routing/v1, /host-routing/v10/x. Use another cluster, or remove them."
    )


def test_a_wrong_operator_password_is_distinguished_from_an_outage() -> None:
    with pytest.raises(gateway.WrongPassword):
        run(exchange.check(client(members(), password="wrong")))


# --- answers about users and roles ---


def permission(key: object, end: object = "", kind: object = "READ") -> dict[str, object]:
    return {"permType": kind, "key": key, "range_end": end}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"users": "x"}, "users is x, not a list of at most 100000"),
        ({"users": ["x"] * 100_001}, "users is a list of 100001, not a list of at most 100000"),
        ({"users": [1]}, "users[0] is 1, not a text of at most 1000 characters"),
        ({"users": ["x" * 1_001]}, f"users[0] is {'x' * 77}..., not a text of at most 1000 characters"),
    ],
)
def test_names_that_are_none(body: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidAnswer) as refusal:
        auth.names_of(body, "users")
    assert refusal.value.message == f"the answer cannot be read: {message}"


@pytest.mark.parametrize(
    ("perm", "message"),
    [
        ({}, "perm is a table, not a list of at most 100000"),
        (["x"], "perm[0] is x, not a table"),
        ([permission("", kind="OWN\x1b")], "perm[0].permType is 'OWN\\x1b', not one of READ, WRITE, READWRITE"),
        ([permission("", kind=["READ"])], "perm[0].permType is a list, not one of READ, WRITE, READWRITE"),
        ([permission("%")], "perm[0].key is %, not base64"),
        ([permission(1)], "perm[0].key is 1, not base64"),
        ([permission("", end="é")], "perm[0].range_end is é, not base64"),
    ],
)
def test_permissions_that_are_none(perm: object, message: str) -> None:
    with pytest.raises(InvalidAnswer) as refusal:
        auth.permissions_of({"perm": perm})
    assert refusal.value.message == f"the answer cannot be read: {message}"


def test_a_permission_is_read_as_it_was_granted() -> None:
    """READ is the zero value of the kind, which the gateway leaves out; a key need not be UTF-8."""
    wanted = auth.Permission(keys.under(keys.HEARTBEATS), auth.READ)
    sent = json.loads(auth.grant("node1", wanted))["perm"]
    assert auth.permissions_of({"perm": [sent]}) == {wanted}
    del sent["permType"]
    assert auth.permissions_of({"perm": [sent]}) == {wanted}
    (odd,) = auth.permissions_of({"perm": [permission(base64.b64encode(b"\xff").decode())]})
    assert json.loads(auth.revoke("r", odd.keys))["key"] == base64.b64encode(b"\xff").decode()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=20))
def test_any_answer_about_users_and_roles_is_read_or_refused(value: object) -> None:
    for read in (
        lambda: auth.names_of({"roles": value}, "roles"),
        lambda: auth.permissions_of({"perm": value}),
        lambda: auth.permissions_of({"perm": [{"key": value, "permType": value}]}),
    ):
        try:
            read()
        except InvalidAnswer:
            pass


def test_no_password_is_in_a_path_an_argument_or_the_text_of_a_change() -> None:
    """Passwords stand in bodies of requests alone; changes and steps are shown and stored."""

    async def scenario() -> list[str]:
        etcd = members()
        found = await look(etcd)
        changes = rights.plan(NODES, found.access, "root", NODES)
        await exchange.change_access(client(etcd), [step for change in changes for step in change.new[:1]], SECRET)
        paths = [path for member in etcd.members.values() for path in member.calls]
        return [repr(changes), *(change.line() for change in changes), *paths, repr(client(etcd).__dict__)]

    shown = "\n".join(run(scenario()))
    for node in NODES:
        assert rights.password(SECRET, node) not in shown
    assert "boss" not in shown and asyncio.iscoroutinefunction(exchange.refused)
