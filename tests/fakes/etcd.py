# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An etcd cluster in memory, with the answers of etcd 3.5's JSON gateway: revisions, watches, compaction, users.

It has the traps of the real one: a watch from a revision of the future is silent, one after a restore skips what it
missed, a token is known to one member, one of a longer log is not refused but waited for, and a stopped member says
nothing at all.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import (
    TransportError,
    within,
)

Json = dict[str, t.Any]
PROGRESS = 2.0


@dataclasses.dataclass
class Event:
    revision: int
    key: bytes
    value: bytes | None
    version: int = 1


class Refusal(Exception):
    def __init__(self, status: int, code: int, message: str, **more: t.Any) -> None:
        self.status = status
        self.body = json.dumps({"code": code, "message": message, **more}).encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


class FakeEtcd:
    """The store that all members share. `users` maps a name to a password; without any, no password is asked for.

    `roles` maps a role to its permissions, {(key, end): kind}, and `granted` a user to its roles. The user root may do
    everything. A user that `granted` does not have may, too: tests that are not about rights need not give any.
    `gate` gets the operations of a transaction, and may raise a Refusal. `denials` is the number of grants of a role
    that are denied to root, as etcd 3.5.16 has done after a user was added.
    """

    def __init__(self, members: t.Sequence[str] = ("m1", "m2", "m3"), cluster: int = 7) -> None:
        self.cluster = cluster
        self.revision = 1
        self.compacted = 0
        self.log: list[Event] = []
        self.users: dict[str, str] = {}
        self.granted: dict[str, set[str]] = {}
        self.roles: dict[str, dict[tuple[str, str], str]] = {}
        self.version = "3.5.16"
        self.most_operations = 128
        self.denials = 0
        self.gate: t.Callable[[list[Json]], None] = lambda operations: None
        self.leases: dict[str, tuple[int, set[bytes]]] = {}  # by id: its seconds, and the keys that have it
        self.has_leader = True
        self.members = {name: FakeMember(self, name) for name in members}

    # --- what an operator does ---

    def put(self, key: str, value: bytes) -> int:
        return self._apply([(key.encode(), value)])

    def delete(self, key: str) -> int:
        return self._apply([(key.encode(), None)])

    def _apply(self, changes: t.Sequence[tuple[bytes, bytes | None]]) -> int:
        now = self.data()
        real = [(key, value) for key, value in changes if value is not None or key in now]
        if real:
            self.revision += 1
            for key, value in real:
                version = now[key].version + 1 if key in now else 1
                self.log.append(Event(self.revision, key, value, version))
            self.wake()
        return self.revision

    def wake(self) -> None:
        for member in self.members.values():
            member.wake()

    def may(self, user: str, start: bytes, end: bytes, writes: bool) -> bool:
        """Return whether a user may read, or with `writes` write, a range; one permission has to cover all of it."""
        if user in ("", "root") or user not in self.granted or "root" in self.granted[user]:
            return True
        for role in self.granted[user]:
            for (key, range_end), kind in self.roles[role].items():
                if kind not in ("READWRITE", "WRITE" if writes else "READ"):
                    continue
                first, last = base64.b64decode(key), base64.b64decode(range_end)
                if first <= start and (end or start + b"\0") <= (last or first + b"\0"):
                    return True
        return False

    def data(self, revision: int | None = None) -> dict[bytes, Event]:
        found: dict[bytes, Event] = {}
        for event in self.log:
            if revision is not None and event.revision > revision:
                break
            if event.value is None:
                found.pop(event.key, None)
            else:
                found[event.key] = event
        return found

    def expire(self) -> None:
        """End all leases, as if their time were over."""
        for lease in list(self.leases):
            self.revoke(lease)

    def revoke(self, lease: str) -> None:
        dummy, held = self.leases.pop(lease)
        self._apply([(key, None) for key in held])

    def grant(self, seconds: int) -> str:
        lease = str(7_587_000 + len(self.leases) + self.revision)
        self.leases[lease] = (seconds, set())
        return lease

    def compact(self, revision: int) -> None:
        self.compacted = revision

    def restore(self, revision: int) -> None:
        """Return to an earlier revision, as `etcdctl snapshot restore` does; all connections break."""
        self.log = [event for event in self.log if event.revision <= revision]
        self.revision = revision
        self.break_connections()

    def break_connections(self) -> None:
        for member in self.members.values():
            member.break_connections()

    # --- calls ---

    def header(self, member: FakeMember) -> Json:
        return {
            "cluster_id": str(self.cluster),
            "member_id": str(member.number),
            "revision": str(self.revision),
            "raft_term": "2",
        }

    def range(self, member: FakeMember, body: Json) -> Json:
        start, end = base64.b64decode(body["key"]), base64.b64decode(body.get("range_end", ""))
        revision = int(body.get("revision", 0))
        if revision > self.revision:
            raise Refusal(400, 11, "etcdserver: mvcc: required revision is a future revision")
        if revision and revision < self.compacted:
            raise Refusal(400, 11, "etcdserver: mvcc: required revision has been compacted")
        data = self.data(revision or None)
        inside = [event for key, event in sorted(data.items()) if (start <= key < end if end else key == start)]
        if body.get("sort_target") == "MOD":
            inside.sort(key=lambda event: -event.revision)
        limit = int(body.get("limit", 0)) or len(inside)
        answer: Json = {"header": self.header(member)}
        if inside and body.get("count_only"):
            answer["count"] = str(len(inside))
        elif inside:
            answer["kvs"] = [_key_value(event, body.get("keys_only", False)) for event in inside[:limit]]
            answer["count"] = str(len(inside))
        if len(inside) > limit and not body.get("count_only"):
            answer["more"] = True
        return answer

    def transaction(self, member: FakeMember, body: Json) -> Json:
        data = self.data()
        for one in body.get("compare", ()):
            start, wanted = base64.b64decode(one["key"]), int(one["mod_revision"])
            if "range_end" in one:
                end = base64.b64decode(one["range_end"])
                if any(start <= key < end and event.revision >= wanted for key, event in data.items()):
                    return {"header": self.header(member)}
                continue
            event = data.get(start)
            if (event.revision if event else 0) != wanted:
                return {"header": self.header(member)}
        if all("request_range" in one for one in body["success"]):
            answers = [self.range(member, one["request_range"]) for one in body["success"]]
            return {
                "header": self.header(member),
                "succeeded": True,
                "responses": [{"response_range": one} for one in answers],
            }
        changes: list[tuple[bytes, bytes | None]] = []
        for one in body["success"]:
            if "request_put" in one:
                found = one["request_put"]
                self._hold(base64.b64decode(found["key"]), found.get("lease", ""))
                changes.append((base64.b64decode(found["key"]), base64.b64decode(found["value"])))
            else:
                changes.append((base64.b64decode(one["request_delete_range"]["key"]), None))
        self._apply(changes)
        return {"header": self.header(member), "succeeded": True}

    def _hold(self, key: bytes, lease: str) -> None:
        """Let a key have a lease, "" for none, and no other."""
        for dummy, held in self.leases.values():
            held.discard(key)
        if lease:
            if lease not in self.leases:
                raise Refusal(404, 5, "etcdserver: requested lease not found")
            self.leases[lease][1].add(key)


def _touched(path: str, body: Json) -> t.Iterator[tuple[bytes, bytes, bool]]:
    """Yield the ranges that a call reads or writes."""
    if path in ("/v3/kv/range", "/v3/kv/deleterange"):
        yield base64.b64decode(body["key"]), base64.b64decode(body.get("range_end", "")), path != "/v3/kv/range"
    for one in body.get("success", ()) if path == "/v3/kv/txn" else ():
        for kind, request in one.items():
            key, end = base64.b64decode(request["key"]), base64.b64decode(request.get("range_end", ""))
            yield key, end, kind != "request_range"
    for one in body.get("compare", ()) if path == "/v3/kv/txn" else ():
        yield base64.b64decode(one["key"]), base64.b64decode(one.get("range_end", "")), False


def _key_value(event: Event, without_value: bool = False) -> Json:
    found = {"key": _text(event.key), "mod_revision": str(event.revision)}
    found["version"] = str(event.version)
    return found if without_value or not event.value else {**found, "value": _text(event.value)}


class FakeMember:
    """A member, and the Transport to it. It is `up`, down, or `stopped`: then it accepts and says nothing."""

    def __init__(self, etcd: FakeEtcd, name: str) -> None:
        self.etcd = etcd
        self.name = name
        self.number = 100 + int(name[1:])
        self.up = True
        self.stopped = False
        self.tokens: dict[str, str] = {}
        self.given_at: dict[str, int] = {}
        self.calls: list[str] = []
        self.lines: set[FakeLines] = set()
        self.has_broken = False
        self._given = 0

    def wake(self) -> None:
        for one in self.lines:
            one.woken.set()

    def break_connections(self) -> None:
        self.has_broken = True
        for one in self.lines:
            one.broken = True
            one.woken.set()

    def kill(self) -> None:
        self.up = False
        self.tokens.clear()
        self.break_connections()

    # --- a Transport ---

    async def call(self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        self.calls.append(path)
        await self._answers(seconds)
        await self._known(headers, seconds)
        try:
            if (path, body) == ("/version", b""):
                return 200, json.dumps({"etcdserver": self.etcd.version, "etcdcluster": "3.5.0"}).encode()
            return 200, json.dumps(self._answer(path, json.loads(body), headers)).encode()
        except Refusal as refusal:
            return refusal.status, refusal.body

    async def _answers(self, seconds: float) -> None:
        await asyncio.sleep(0.001)
        if self.stopped:
            await asyncio.sleep(seconds)
            raise TransportError(f"no answer within {seconds:g} s")
        if not self.up:
            raise TransportError("connection refused")

    async def _known(self, headers: t.Mapping[str, str], seconds: float) -> None:
        """Wait as etcd does with the token of a longer log."""
        if self.given_at.get(headers.get("Authorization", ""), 0) > self.etcd.revision:
            await asyncio.sleep(seconds)
            raise TransportError(f"no answer within {seconds:g} s")

    def _answer(self, path: str, body: Json, headers: t.Mapping[str, str]) -> Json:
        if path == "/v3/auth/authenticate":
            if not self.etcd.users:
                raise Refusal(400, 9, "etcdserver: authentication is not enabled")
            if self.etcd.users.get(body["name"]) != body["password"]:
                raise Refusal(400, 3, "etcdserver: authentication failed, invalid user ID or password")
            self._given += 1
            token = f"token{self._given}.{self.name}"
            self.tokens[token] = body["name"]
            self.given_at[token] = self.etcd.revision
            return {"header": self.etcd.header(self), "token": token}
        user = self._check(headers)
        if path.startswith("/v3/auth/"):
            if user != "root" and "root" not in self.etcd.granted.get(user, ()):
                raise Refusal(403, 7, "etcdserver: permission denied")
            if self.etcd.denials and path == "/v3/auth/user/grant":
                self.etcd.denials -= 1
                raise Refusal(403, 7, "etcdserver: permission denied")
            return self._auth(path, body)
        for start, end, writes in _touched(path, body):
            if not self.etcd.may(user, start, end, writes):
                raise Refusal(403, 7, "etcdserver: permission denied")
        if path == "/v3/kv/range":
            if not self.etcd.has_leader and not body.get("serializable"):
                raise Refusal(503, 14, "etcdserver: no leader")
            return self.etcd.range(self, body)
        if path == "/v3/kv/deleterange":
            start, end = base64.b64decode(body["key"]), base64.b64decode(body["range_end"])
            gone = [key for key in self.etcd.data() if start <= key < end]
            self.etcd._apply([(key, None) for key in gone])
            return {"header": self.etcd.header(self), "deleted": str(len(gone))}
        if path == "/v3/kv/txn":
            if not self.etcd.has_leader:
                raise Refusal(503, 14, "etcdserver: no leader")
            if max(len(body["success"]), len(body.get("compare", ()))) > self.etcd.most_operations:
                raise Refusal(400, 3, "etcdserver: too many operations in txn request")
            self.etcd.gate(body["success"])
            return self.etcd.transaction(self, body)
        if path == "/v3/lease/grant":
            return {"header": self.etcd.header(self), "ID": self.etcd.grant(int(body["TTL"])), "TTL": body["TTL"]}
        if path == "/v3/lease/revoke":
            if body["ID"] not in self.etcd.leases:
                raise Refusal(404, 5, "etcdserver: requested lease not found")
            self.etcd.revoke(body["ID"])
            return {"header": self.etcd.header(self)}
        if path == "/v3/maintenance/status":
            return {"header": self.etcd.header(self), "version": self.etcd.version, "leader": "101", "dbSize": "20480"}
        raise Refusal(404, 5, "Not Found")

    def _check(self, headers: t.Mapping[str, str]) -> str:
        """Return the user of a request, "" if none is needed."""
        if not self.etcd.users:
            return ""
        token = headers.get("Authorization", "")
        if not token:
            raise Refusal(400, 3, "etcdserver: user name is empty")
        if token not in self.tokens:
            raise Refusal(401, 16, "etcdserver: invalid auth token")
        return self.tokens[token]

    def _auth(self, path: str, body: Json) -> Json:
        etcd, what = self.etcd, path.removeprefix("/v3/auth/")
        name, role = body.get("name", ""), body.get("role", "")
        answer: Json = {"header": etcd.header(self)}
        if what == "user/list":
            return {**answer, "users": sorted(etcd.users)} if etcd.users else answer
        if what == "role/list":
            return {**answer, "roles": sorted(etcd.roles)} if etcd.roles else answer
        if what in ("user/get", "user/delete", "user/changepw", "user/revoke") and name not in etcd.users:
            raise Refusal(400, 9, "etcdserver: user name not found")
        if what in ("role/get", "role/delete", "role/revoke") and role not in etcd.roles:
            raise Refusal(400, 9, "etcdserver: role name not found")
        if what == "user/get":
            return {**answer, **({"roles": sorted(found)} if (found := etcd.granted.get(name)) else {})}
        if what == "role/get":
            listed = [
                {**({} if kind == "READ" else {"permType": kind}), "key": key, "range_end": end}
                for (key, end), kind in sorted(etcd.roles[role].items())
            ]
            return {**answer, **({"perm": listed} if listed else {})}
        if what in ("user/add", "role/add"):
            if name in (etcd.users if what == "user/add" else etcd.roles):
                raise Refusal(400, 9, f"etcdserver: {what[:4]} name already exists")
            if what == "role/add":
                etcd.roles[name] = {}
            else:
                etcd.users[name], etcd.granted[name] = body["password"], set()
        elif what == "user/changepw":
            etcd.users[name] = body["password"]
            self._forget(name)
        elif what == "user/delete":
            del etcd.users[name]
            etcd.granted.pop(name, None)
            self._forget(name)
        elif what == "user/grant":
            if body["user"] not in etcd.users or role not in etcd.roles:
                raise Refusal(400, 9, "etcdserver: role name not found")
            etcd.granted.setdefault(body["user"], set()).add(role)
        elif what == "user/revoke":
            etcd.granted[name].discard(role)
        elif what == "role/delete":
            del etcd.roles[role]
            for roles in etcd.granted.values():
                roles.discard(role)
        elif what == "role/grant":
            found = body["perm"]
            etcd.roles[name][found["key"], found["range_end"]] = found["permType"]
        elif what == "role/revoke":
            if etcd.roles[role].pop((body["key"], body["range_end"]), None) is None:
                raise Refusal(400, 9, "etcdserver: permission is not granted to the role")
        else:
            raise Refusal(404, 5, "Not Found")
        return answer

    def _forget(self, user: str) -> None:
        for member in self.etcd.members.values():
            member.tokens = {token: name for token, name in member.tokens.items() if name != user}

    @contextlib.asynccontextmanager
    async def watch(
        self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float
    ) -> t.AsyncIterator[FakeLines]:
        self.calls.append(path)
        await self._answers(seconds)
        await self._known(headers, seconds)
        request = json.loads(body)["create_request"]
        lines = FakeLines(self, request)
        try:
            self._check(headers)
        except Refusal as refusal:
            message = json.loads(refusal.body)["message"]
            reason = f"rpc error: code = Unauthenticated desc = {message}"
            lines.waiting.append({"created": True, "canceled": True, "watch_id": "-1", "cancel_reason": reason})
            lines.ended = True
        else:
            lines.begin()
        self.lines.add(lines)
        try:
            yield lines
        finally:
            self.lines.discard(lines)

    def broke(self) -> bool:
        broken, self.has_broken = self.has_broken, False
        return broken

    async def close(self) -> None:
        pass


class FakeLines:
    """The messages of a watch."""

    def __init__(self, member: FakeMember, request: Json) -> None:
        self.member = member
        self.woken = asyncio.Event()
        self.broken = self.ended = False
        self.waiting: list[Json] = []
        self._start, self._end = base64.b64decode(request["key"]), base64.b64decode(request["range_end"])
        self._next = int(request["start_revision"])

    def begin(self) -> None:
        self.waiting.append({"created": True})
        if self._next < self.member.etcd.compacted:
            self.waiting.append({"canceled": True, "compact_revision": str(self.member.etcd.compacted)})
            self.ended = True

    async def next(self, seconds: float) -> bytes:
        loop = asyncio.get_running_loop()
        silent_until = loop.time() + seconds
        progress_at = loop.time() + PROGRESS
        while True:
            if self.broken:
                raise TransportError("the member closed the connection")
            if not self.member.stopped:
                if not self.waiting and not self.ended:
                    self._look()
                if not self.waiting and not self.ended and not self.member.etcd.has_leader:
                    self.waiting.append(
                        {"canceled": True, "cancel_reason": "rpc error: code = Unavailable desc = no leader"}
                    )
                    self.ended = True
                if not self.waiting and not self.ended and loop.time() >= progress_at and self._is_synced():
                    self.waiting.append({})
                if self.waiting:
                    result = {"header": self.member.etcd.header(self.member), **self.waiting.pop(0)}
                    if "compact_revision" in result:
                        del result["header"]["revision"]
                    return json.dumps({"result": result}).encode()
            left = silent_until - loop.time()
            if left <= 0:
                raise TransportError(f"no answer within {seconds:g} s")
            self.woken.clear()
            with contextlib.suppress(TransportError):
                await within(min(left, 0.5), self.woken.wait())

    def _is_synced(self) -> bool:
        return self._next <= self.member.etcd.revision + 1

    def _look(self) -> None:
        events = [event for event in self.member.etcd.log if event.revision >= self._next]
        if not events:
            return
        self._next = events[-1].revision + 1
        inside = [event for event in events if self._start <= event.key < self._end]
        if inside:
            self.waiting.append({"events": [_watched(event) for event in inside]})


def _watched(event: Event) -> Json:
    if event.value is None:
        return {"type": "DELETE", "kv": {"key": _text(event.key), "mod_revision": str(event.revision)}}
    return {"kv": _key_value(event)}
