# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run meets a cluster that is away, refuses it, or is hostile: words without secrets, never a traceback."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import TransportError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import cluster_calls
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.access import FleetDatastore
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.cluster_calls import (
    DatastoreAway,
    DatastoreRefused,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.fleet_publication import (
    FleetPublisher,
    Publication,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.etcd import FakeEtcd
from tests.unit.fleet.fleets import build, pool

PASSWORD = "pw-0815"
DATASTORE = FleetDatastore(("https://10.10.1.11:2379",), "/pki/ca.pem", "/pki/c.pem", "/pki/c.key", None)
FLEET = build(pool("ipip"), nodes={"node1": "10.10.1.11/24"}, workloads=[])


def cluster() -> FakeEtcd:
    etcd = FakeEtcd(["m1"])
    etcd.users, etcd.granted, etcd.roles = {"root": PASSWORD}, {"root": {"root"}}, {"root": {}}
    return etcd


def publish(transports: t.Any, user: str = "root", password: str = PASSWORD) -> Publication:
    """Publish FLEET in a cluster with these transports; the files of TLS are not looked at."""
    credentials = Credentials(user, password)
    publisher = FleetPublisher(user, b"0123456789abcdef")
    with pytest.MonkeyPatch.context() as patch:
        client = EtcdClient(transports, credentials, seconds=0.2, jitter=0.0)
        patch.setattr(cluster_calls, "connect", lambda *dummy: client)
        return cluster_calls.ask(DATASTORE, credentials, lambda client: publisher.publish(client, FLEET))


def refusal(call: t.Callable[[], object], kind: type[Exception] = DatastoreRefused) -> str:
    with pytest.raises(kind) as error:
        call()
    assert PASSWORD not in str(error.value)
    return str(error.value)


def test_a_cluster_that_is_away() -> None:
    etcd = cluster()
    etcd.members["m1"].up = False
    assert refusal(lambda: publish(etcd.members), DatastoreAway) == (
        "no member of the etcd cluster answers (m1: connection refused)"
    )
    etcd.members["m1"].up, etcd.has_leader = True, False
    assert refusal(lambda: publish(etcd.members), DatastoreAway) == (
        "no member of the etcd cluster answers (m1: etcdserver: no leader)"
    )


def test_a_wrong_password() -> None:
    assert refusal(lambda: publish(cluster().members, password="other")) == (
        "The datastore refuses the user root or its password. Correct calico_etcd_username and calico_etcd_password, "
        "or .calico.etcd/secrets.json in the inventory's folder."
    )


def test_a_user_that_may_not_make_users() -> None:
    etcd = cluster()
    etcd.users["ops"] = PASSWORD
    assert refusal(lambda: publish(etcd.members, "ops")) == (
        "The user ops of the datastore may not do this (etcdserver: permission denied). Give it the role root: etcdctl "
        "user grant-role ops root."
    )


def test_a_cluster_without_passwords() -> None:
    assert refusal(lambda: publish(FakeEtcd().members)).startswith("The cluster asks nobody for a password, so every")


def test_a_node_that_is_called_like_the_operator() -> None:
    etcd = cluster()
    etcd.users["node1"] = PASSWORD
    etcd.granted["node1"] = {"root"}
    assert refusal(lambda: publish(etcd.members, "node1")) == (
        "A node is called node1, like the user of the datastore that may do everything. Rename it."
    )


def test_files_of_tls_that_are_not_there() -> None:
    user = Credentials("root", PASSWORD)
    assert refusal(lambda: cluster_calls.ask(DATASTORE, user, lambda client: client.status())) == (
        "The files of TLS for the datastore (/pki/ca.pem, /pki/c.pem, /pki/c.key) cannot be used: they are missing, or "
        "no certificate and key that belong together. Correct calico_etcd_ca, calico_etcd_cert and calico_etcd_key."
    )


class Hostile:
    """A member with its own answers to some calls, or to all of them by ""; the others are those of a good one."""

    def __init__(self, answers: t.Mapping[str, bytes], status: int = 200) -> None:
        self._good = cluster().members["m1"]
        self._answers, self._status = answers, status

    async def call(self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        answer = self._answers.get(path, self._answers.get(""))
        if answer is None:
            return await self._good.call(path, body, headers, seconds)
        return self._status, answer

    def watch(self, *dummy: t.Any) -> t.Any:
        raise TransportError("no watch")

    def broke(self) -> bool:
        return False

    async def close(self) -> None:
        pass


HEADER = {"cluster_id": "7", "member_id": "1", "revision": "5", "raft_term": "2"}
PATHS = ("/v3/auth/authenticate", "/v3/maintenance/status", "/v3/kv/range", "/v3/auth/role/list", "/v3/auth/user/list",
         "/v3/auth/user/get", "/v3/auth/role/get")  # fmt: skip


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        ("", b"<html>\x1b[31m", "the answer is not JSON: b'<html>\\x1b[31m'"),
        ("", b"[" * 100_000, f"the answer is not JSON: {b'[' * 60!r}"),
        ("/v3/auth/authenticate", b'{"token": "a\\nX: y"}', "the answer to the authentication has no token"),
        ("/v3/maintenance/status", b'{"version": 3}', "the answer cannot be read: header is missing"),
        ("/v3/kv/range", json.dumps({"header": HEADER, "kvs": ["x"]}).encode(), "the answer cannot be read: "
         "kvs[0] is x, not a table"),
        ("/v3/auth/role/list", b'{"roles": "all"}', "the answer cannot be read: roles is all, not a list of at most "
         "100000"),
        ("/v3/auth/user/list", b'{"users": [{}]}', "the answer cannot be read: users[0] is a table, not a text of "
         "at most 1000 characters"),
        ("/v3/auth/role/list", json.dumps({"roles": ["x" * (1 << 20)]}).encode(), "the answer cannot be read: "
         f"roles[0] is {'x' * 77}..., not a text of at most 1000 characters"),
    ],
)  # fmt: skip
def test_a_hostile_member(path: str, answer: bytes, said: str) -> None:
    assert refusal(lambda: publish({"m1": Hostile({path: answer})}), DatastoreAway) == said


def test_a_hostile_error() -> None:
    hostile = json.dumps({"code": 7, "message": "\x1b[2J\nnode2 is fine" + "x" * 1_900}).encode()
    said = refusal(lambda: publish({"m1": Hostile({"/v3/kv/range": hostile}, status=403)}))
    assert said.startswith("The user root of the datastore may not do this (\x1b[2J") and len(said) < 2_500


FIELDS = ("kvs", "header", "roles", "users", "perm", "key", "more", "count", "version", "token")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(PATHS),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(FIELDS), inner),
        max_leaves=20,
    ),
)  # fmt: skip
def test_any_answer_of_a_member_ends_in_a_publication_or_an_error(path: str, answer: object) -> None:
    """A run ends in a publication or in words."""
    try:
        publish({"m1": Hostile({path: json.dumps(answer).encode()})})
    except (DatastoreAway, DatastoreRefused):
        pass


def test_each_member_is_asked_whether_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    etcd = FakeEtcd(["m1", "m2", "m3"])
    etcd.users, etcd.granted, etcd.roles = {"root": PASSWORD}, {"root": {"root"}}, {"root": {}}
    etcd.members["m2"].up = False

    def connect(datastore: FleetDatastore, credentials: Credentials) -> EtcdClient:
        (name,) = datastore.endpoints
        return EtcdClient({name: etcd.members[name]}, credentials, seconds=0.2, jitter=0.0)

    monkeypatch.setattr(cluster_calls, "connect", connect)
    datastore = dataclasses.replace(DATASTORE, endpoints=("m1", "m2", "m3"))
    credentials = Credentials("root", PASSWORD)
    assert cluster_calls.silent_members(datastore, credentials) == {"m2": "connection refused"}
    etcd.members["m2"].up = True
    assert cluster_calls.silent_members(datastore, credentials) == {}


def test_members_that_are_slow_or_hostile_cost_seconds_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """All members are asked at once, each for the same time, and what one says is a short text without escapes."""
    good = FakeEtcd(["m1"]).members["m1"]

    class Slow:
        async def call(self, *dummy: t.Any, **more: t.Any) -> t.Any:
            await asyncio.sleep(60)

        async def close(self) -> None:
            pass

    status = "/v3/maintenance/status"
    members: dict[str, t.Any] = {
        "good": good,
        "slow": Slow(),
        "slower": Slow(),
        "list": Hostile({status: b"[]"}),
        "no JSON": Hostile({status: b"\x1b[2J" * 1000}),
        "many": Hostile({status: json.dumps({"leader": ["x" * 100_000]}).encode()}),
        "leaderless": Hostile({status: json.dumps({"header": {}, "version": "3.5.16", "leader": "0"}).encode()}),
    }

    def connect(datastore: FleetDatastore, credentials: Credentials) -> EtcdClient:
        (name,) = datastore.endpoints
        return EtcdClient({name: members[name]}, None, seconds=30.0, jitter=0.0)

    monkeypatch.setattr(cluster_calls, "connect", connect)
    monkeypatch.setattr(cluster_calls, "_SECONDS", 0.3)
    began = time.monotonic()
    found = cluster_calls.silent_members(
        dataclasses.replace(DATASTORE, endpoints=tuple(members)), Credentials("root", PASSWORD)
    )
    assert time.monotonic() - began < 3.0
    assert list(found) == [name for name in members if name != "good"]
    assert found["slow"] == found["slower"] == "no answer within 0.3 s"
    assert all(len(reason) <= 300 and reason.isprintable() for reason in found.values()), found


def test_members_are_not_asked_with_unusable_files() -> None:
    files = dataclasses.replace(DATASTORE, ca="/nowhere/ca.pem")
    words = refusal(lambda: cluster_calls.silent_members(files, Credentials("root", PASSWORD)))
    assert words == (
        "The files of TLS for the datastore (/nowhere/ca.pem, /pki/c.pem, /pki/c.key) cannot be used: they are "
        "missing, or no certificate and key that belong together. Correct calico_etcd_ca, calico_etcd_cert and "
        "calico_etcd_key."
    )
