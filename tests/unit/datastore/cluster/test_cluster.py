# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of a cluster by one member's gateway, the answers that are refused, and what a host has of etcd."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.cluster import (
    host,
    member,
    messages,
    operations,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.cluster.member import (
    ClusterError,
    MemberCalls,
    MemberView,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import EtcdError, InvalidAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import TransportError

URL, PEER = "https://10.0.0.1:2379", "https://10.0.0.2:2380"
ROOT = Credentials("root", "secret")
Json = dict[str, t.Any]


class Gateway:
    """A member's gateway: `members`, `users` (name: password) and `alarms`, which calls change.

    One that is `down` answers nothing.
    """

    def __init__(self) -> None:
        self.members: list[Json] = [
            {"ID": "1", "name": "a", "peerURLs": ["https://10.0.0.1:2380"], "clientURLs": [URL]}
        ]
        self.users: dict[str, str] = {}
        self.roles: set[str] = set()
        self.keys: dict[str, int] = {}  # the number of keys by prefix
        self.compacted: list[Json] = []
        self.auth = False
        self.leader = "1"
        self.alarms: list[Json] = []
        self.unhealthy = 0  # changes of members that are refused before one is accepted
        self.down = False
        self.parts: list[bytes] = []
        self.asked: list[str] = []

    def broke(self) -> bool:
        return False

    async def call(self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        self.asked.append(path)
        if self.down:
            raise TransportError("connection refused")
        answer = self._answer(path, json.loads(body), headers)
        if isinstance(answer, str):
            code = 16 if "token" in answer else 9
            return 400, json.dumps({"code": code, "message": f"etcdserver: {answer}"}).encode()
        header = {"cluster_id": "7", "member_id": "1", "revision": "5"}
        return 200, json.dumps({"header": header, **answer}).encode()

    def _answer(self, path: str, body: Json, headers: t.Mapping[str, str]) -> Json | str:
        if path == "/v3/maintenance/status":
            return {"version": "3.4.23", "leader": self.leader, "dbSize": "40960", "dbSizeInUse": "20480"}
        if path == "/v3/auth/authenticate":
            if not self.auth:
                return "authentication is not enabled"
            good = self.users.get(body["name"]) == body["password"]
            refusal = "authentication failed, invalid user ID or password"
            return {"token": f"token of {body['name']}"} if good else refusal
        if self.auth and headers.get("Authorization") != "token of root":
            return "invalid auth token"
        if path == "/v3/cluster/member/list":
            return {"members": self.members}
        if path.startswith("/v3/cluster/member/"):
            return self._change(path.rpartition("/")[2], body)
        if path == "/v3/maintenance/alarm":
            if body["action"] == "DEACTIVATE":
                self.alarms = [one for one in self.alarms if one["memberID"] != body.get("memberID")]
            return {"alarms": self.alarms}
        if path == "/v3/kv/txn":
            return {"responses": [{"response_range": {"count": str(count)}} for count in self.keys.values()]}
        if path == "/v3/kv/deleterange":
            found = self.keys.pop(base64.b64decode(body["key"]).decode(), 0)
            return {"deleted": str(found)} if found else {}
        if path == "/v3/kv/compaction":
            self.compacted += [body]
            return {}
        if path in ("/v3/kv/range", "/v3/maintenance/defragment"):
            return {} if self.leader != "0" else "no leader"
        return self._auth(path, body)

    def _change(self, verb: str, body: Json) -> Json | str:
        if self.unhealthy:
            self.unhealthy -= 1
            return "unhealthy cluster"
        if verb == "add":
            assert body["isLearner"] is True
            self.members.append({"ID": "2", "peerURLs": body["peerURLs"], "isLearner": True})
        elif verb == "promote":
            next(one for one in self.members if one["ID"] == body["ID"]).pop("isLearner")
        else:
            self.members = [one for one in self.members if one["ID"] != body["ID"]]
        return {"members": self.members}

    def _auth(self, path: str, body: Json) -> Json | str:
        name = body.get("name", body.get("role", ""))
        known: t.Any = self.roles if "/role/" in path else self.users
        verb = path.rpartition("/")[2]
        if verb in ("get", "delete") and name not in known:
            return f"{'role' if '/role/' in path else 'user'} name not found"
        if verb == "add":
            if name in known:
                return "user name already exists"
            known.update({name: body["password"]} if known is self.users else {name})
        elif verb == "changepw":
            self.users[name] = body["password"]
        elif verb == "enable":
            self.auth = True
        elif verb == "delete":
            known.pop(name) if known is self.users else known.discard(name)
        return {}

    @contextlib.asynccontextmanager
    async def watch(
        self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float
    ) -> t.AsyncIterator[t.Any]:
        assert path == "/v3/maintenance/snapshot"
        yield self

    async def next(self, seconds: float) -> bytes:
        if not self.parts:
            raise TransportError("the member ended the watch")
        return json.dumps({"result": {"blob": base64.b64encode(self.parts.pop(0)).decode()}}).encode()

    async def close(self) -> None:
        return


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    monkeypatch.setattr(operations, "_PAUSE", 0.001)
    return Gateway()


def done(gateway: Gateway, work: t.Callable[[MemberCalls], t.Awaitable[t.Any]]) -> t.Any:
    async def run() -> t.Any:
        return await work(MemberCalls(URL, ROOT, lambda url: gateway))

    return asyncio.run(run())


def failure(gateway: Gateway, work: t.Callable[[MemberCalls], t.Awaitable[t.Any]]) -> str:
    with pytest.raises((ClusterError, EtcdError)) as caught:
        done(gateway, work)
    return str(caught.value)


def test_authentication_is_switched_on_once(gateway: Gateway) -> None:
    """The password travels in the body of a request, and calls afterwards carry a token."""
    assert done(gateway, lambda calls: operations.secure(calls, ROOT, check=True)) is True
    assert (gateway.auth, gateway.users) == (False, {})
    assert done(gateway, lambda calls: operations.secure(calls, ROOT, check=False)) is True
    assert (gateway.auth, gateway.users, gateway.roles) == (True, {"root": "secret"}, {"root"})
    assert done(gateway, lambda calls: operations.secure(calls, ROOT, check=False)) is False


def test_a_run_that_was_interrupted_sets_its_own_password(gateway: Gateway) -> None:
    gateway.users["root"] = "of another run"
    assert done(gateway, lambda calls: operations.secure(calls, ROOT, check=False)) is True
    assert gateway.users == {"root": "secret"}


def test_a_wrong_root_password_is_an_error_with_its_remedy(gateway: Gateway) -> None:
    gateway.auth, gateway.users = True, {"root": "another"}
    assert failure(gateway, lambda calls: operations.secure(calls, ROOT, check=False)) == (
        "The cluster refuses the password of the user root. Restore .calico.etcd/secrets.json beside the inventory, or "
        "set "
        "calico_etcd_username and calico_etcd_password."
    )


def test_a_user_other_than_root_is_refused(gateway: Gateway) -> None:
    other = Credentials("operator", "secret")
    assert failure(gateway, lambda calls: operations.secure(calls, other, check=False)) == (
        "calico_etcd_username is operator, and etcd switches authentication on with the user root alone. Remove the "
        "variable for a cluster of the role calico_etcd."
    )
    assert gateway.asked == []


def test_a_member_is_added_promoted_and_removed(gateway: Gateway) -> None:
    """Each change is made once. The cluster refuses some attempts first, as it does while members connect."""
    gateway.unhealthy = 2
    assert done(gateway, lambda calls: operations.add(calls, PEER, 9, check=True)) is True
    assert len(gateway.members) == 1
    assert done(gateway, lambda calls: operations.add(calls, PEER, 9, check=False)) is True
    assert done(gateway, lambda calls: operations.add(calls, PEER, 9, check=False)) is False
    assert gateway.members[1]["isLearner"] is True
    assert done(gateway, lambda calls: operations.promote(calls, PEER, 9, check=True)) is True
    assert done(gateway, lambda calls: operations.promote(calls, PEER, 9, check=False)) is True
    assert done(gateway, lambda calls: operations.promote(calls, PEER, 9, check=False)) is False
    assert done(gateway, lambda calls: operations.remove(calls, 2, 9, check=True)) is True
    assert done(gateway, lambda calls: operations.remove(calls, 2, 9, check=False)) is True
    assert done(gateway, lambda calls: operations.remove(calls, 2, 9, check=False)) is False


def test_a_cluster_that_refuses_for_too_long_is_an_error(gateway: Gateway) -> None:
    gateway.unhealthy = 10_000
    remedy = (
        "etcdserver: unhealthy cluster. See that all members are healthy (playbooks/etcd_status.yml), then run the "
        "playbook "
        "again, which continues here."
    )
    assert failure(gateway, lambda calls: operations.add(calls, PEER, 0.01, check=False)) == (
        f"The member at {URL} does not add {PEER} within 0.01 s: {remedy}"
    )
    gateway.members.append({"ID": "2", "peerURLs": [PEER], "isLearner": True})
    assert failure(gateway, lambda calls: operations.promote(calls, PEER, 0.01, check=False)) == (
        f"The member at {URL} gives {PEER} no vote within 0.01 s: {remedy}"
    )
    assert failure(gateway, lambda calls: operations.remove(calls, 2, 0.01, check=False)) == (
        f"The member at {URL} does not remove 2 within 0.01 s: {remedy}"
    )


def test_a_member_that_was_never_added_is_not_promoted(gateway: Gateway) -> None:
    assert failure(gateway, lambda calls: operations.promote(calls, PEER, 9, check=False)) == (
        f"The cluster has no member at {PEER}. Run the playbook again, which adds it."
    )


def test_health_is_a_leader_and_a_read_by_consensus(gateway: Gateway) -> None:
    done(gateway, lambda calls: operations.wait(calls, 1, votes=True))
    assert gateway.asked[-1] == "/v3/kv/range"
    gateway.asked.clear()
    done(gateway, lambda calls: operations.wait(calls, 1, votes=False))
    assert gateway.asked == ["/v3/maintenance/status"]
    gateway.leader = "0"
    assert failure(gateway, lambda calls: operations.wait(calls, 0.01, votes=False)) == (
        f"The member at {URL} is not healthy after 0.01 s: it has no leader. Look at `journalctl -u calico-etcd` on "
        f"the host. "
        "The other members were not touched; run the playbook again."
    )


def test_a_node_is_revoked_with_its_user_role_and_keys(gateway: Gateway) -> None:
    """Its access ends before its keys are deleted, and no key is read."""

    def revoke(check: bool = False) -> t.Any:
        return done(gateway, lambda calls: operations.revoke(calls, "node7", check, pause=0.0))

    gateway.users, gateway.roles = {"node7": "x"}, {"node7"}
    gateway.keys = {
        f"/host-routing/v1/{kind}/node7/": count
        for kind, count in (("endpoints", 190), ("heartbeats", 571), ("answers", 3))
    }
    assert revoke(check=True) == (True, 764) and gateway.users
    gateway.asked.clear()
    assert revoke() == (True, 764)
    assert (gateway.users, gateway.roles, gateway.keys) == ({}, set(), {})
    assert gateway.compacted == [{"revision": "5", "physical": True}]
    changes = [path for path in gateway.asked if not path.endswith(("/get", "/authenticate"))]
    assert changes == [
        "/v3/auth/user/delete", "/v3/auth/role/delete", *["/v3/kv/deleterange"] * 3, "/v3/kv/compaction",
    ]  # fmt: skip
    assert revoke() == (False, 0) and len(gateway.compacted) == 1


def test_a_name_that_no_node_has_is_not_revoked(gateway: Gateway) -> None:
    with pytest.raises(ValueError) as error:
        done(gateway, lambda calls: operations.revoke(calls, "node7/", check=False))
    assert (
        str(error.value) == ("'node7/' cannot be a part of a key: letters, digits, '-', '_' and '.', at most 253")
        and not gateway.asked
    )


def test_alarms_are_ended_each_by_its_member(gateway: Gateway) -> None:
    gateway.alarms = [{"memberID": "1", "alarm": "NOSPACE"}, {"memberID": "2", "alarm": "CORRUPT"}]
    assert done(gateway, lambda calls: operations.disarm(calls, check=True)) is True
    assert done(gateway, lambda calls: operations.disarm(calls, check=False)) is True
    assert gateway.alarms == []
    assert done(gateway, lambda calls: operations.disarm(calls, check=False)) is False


def test_a_snapshot_is_whole_or_not_there(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    path, data = tmp_path / "snapshot.db", b"x" * 5000
    whole = data + hashlib.sha256(data).digest()
    gateway.parts = [whole[:3000], whole[3000:5010], whole[5010:]]
    assert done(gateway, lambda calls: operations.snapshot(calls, str(path))) == len(whole)
    assert path.read_bytes() == whole and path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    gateway.parts = [whole[:3000]]
    assert failure(gateway, lambda calls: operations.snapshot(calls, str(path))) == (
        f"The snapshot of the member at {URL} broke off. Run the playbook again."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_a_snapshot_is_not_followed(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    data = b"x" * 5000
    gateway.parts = [data + hashlib.sha256(data).digest()]
    (tmp_path / "snapshot.db").symlink_to(tmp_path / "victim")
    done(gateway, lambda calls: operations.snapshot(calls, str(tmp_path / "snapshot.db")))
    assert [path.name for path in tmp_path.iterdir() if not path.is_symlink()] == ["snapshot.db"]


def test_the_next_snapshot_removes_what_a_killed_one_left(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    """The next snapshot removes it, whether or not it succeeds: it may be as large as the database."""
    (tmp_path / ".snapshot.db.0a1b2c3d").write_bytes(b"x")
    gateway.parts = [b"x"]
    failure(gateway, lambda calls: operations.snapshot(calls, str(tmp_path / "snapshot.db")))
    assert list(tmp_path.iterdir()) == []


def test_a_member_is_viewed(gateway: Gateway) -> None:
    gateway.auth, gateway.users = True, {"root": "secret"}
    gateway.alarms = [{"memberID": "1", "alarm": "NOSPACE"}]
    found: MemberView = done(gateway, member.view)
    assert (found.reason, found.identity, found.version, found.auth, found.db_in_use) == ("", 1, "3.4.23", "on", 20480)
    assert [(one.member.name, one.answers) for one in found.members] == [("a", True)]
    assert found.alarms == (messages.ClusterAlarm(1, "NOSPACE"),)
    gateway.leader = "0"
    assert done(gateway, member.view).reason == "the cluster has no leader"
    gateway.down = True
    assert done(gateway, member.view).reason == "connection refused"


def test_a_gate_has_some_time_to_answer(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member, "_GATE_PAUSE", 0.001)
    assert done(gateway, member.silence) == ""
    assert gateway.asked == ["/v3/maintenance/status"]
    gateway.down = True

    async def returning(gate: MemberCalls) -> str:
        asyncio.get_running_loop().call_later(0.05, setattr, gateway, "down", False)
        return await member.silence(gate)

    assert done(gateway, returning) == ""
    gateway.down = True
    monkeypatch.setattr(member, "_GATE_SECONDS", 0.01)
    assert done(gateway, member.silence) == "connection refused"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"members": "x"}, "members is x, not a list of at most 64"),
        ({"members": [{"ID": "1"}] * 65}, "members is a list of 65, not a list of at most 64"),
        ({"members": [{"ID": "-1"}]}, "members[0].ID is -1, not a number of 64 bits"),
        ({"members": [{"ID": "1", "peerURLs": "x"}]}, "members[0].peerURLs is x, not a list of at most 64"),
        (
            {"members": [{"ID": "1", "peerURLs": [7]}]},
            "members[0].peerURLs[0] is 7, not a text of at most 2000 characters",
        ),
    ],
)
def test_hostile_lists_of_members_are_refused(answer: Json, said: str) -> None:
    with pytest.raises(InvalidAnswer) as caught:
        messages.members_of(answer)
    assert str(caught.value) == f"the answer cannot be read: {said}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({}, "the answer cannot be read: result is missing"),
        ({"result": []}, "the answer cannot be read: result is a list, not a table"),
        ({"result": {"blob": 7}}, "the answer cannot be read: result.blob is 7, not base64"),
        ({"result": {"blob": "ü"}}, "the answer cannot be read: result.blob is ü, not base64"),
        ({"error": {}}, "it broke off"),
        ({"error": 7}, "the answer cannot be read: it is 7, not a table"),
        ({"error": {"message": "etcdserver: permission denied"}}, "etcdserver: permission denied"),
    ],
)
def test_hostile_parts_of_a_snapshot_are_refused(answer: Json, said: str) -> None:
    with pytest.raises(EtcdError) as caught:
        messages.snapshot_part_of(answer)
    assert str(caught.value) == said


def test_debians_versions_are_read() -> None:
    assert host.upstream("installed 3.4.23-4+b4", "installed ") == "3.4.23"
    assert host.upstream("etcd-server:\n  Candidate: 1:3.5.16~rc1-4\n  Version", "Candidate: ") == "3.5.16"
    assert host.upstream("  Candidate: (none)\n", "Candidate: ") == ""
    assert host.upstream("", "installed ") == ""


def test_the_controllers_address_is_that_of_ssh() -> None:
    assert host.controller_address({"SSH_CONNECTION": "192.0.2.5 40000 10.0.0.1 22"}, 1) == "192.0.2.5"
    assert host.controller_address({}, 1) == ""


def test_the_digest_is_that_of_sha256sum(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit writes it by sha256sum, and the module compares it with its own."""
    monkeypatch.setattr(host, "SETTINGS", str(tmp_path))
    names = ("ca.pem", "etcd.env", "peer.pem", "peers.pem", "server.pem")
    for name in names:
        (tmp_path / name).write_text(name)
    with os.popen(f"cd {tmp_path} && sha256sum {' '.join(names)}") as printed:
        assert host.files_digest() == printed.read()
    unit = pathlib.Path("roles/calico_etcd/files/systemd/calico-etcd.service").read_text()
    assert f"sha256sum {' '.join(names)} > {host.STARTED_WITH}" in unit
    (tmp_path / "ca.pem").unlink()
    assert "none  ca.pem" in host.files_digest()
