# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller with the calicoctl.cfg of an operator, and a fleet's etcd in memory."""

from __future__ import annotations

import base64
import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import encoded
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import TransportError
from ansible_collections.baremetal.host_routing.plugins.module_utils.live import commands

from tests.fakes.etcd import FakeEtcd
from tests.unit.cli.conftest import Node
from tests.unit.cli.fake_fleet import FakeFleet, fleet_of

Data = dict[str, t.Any]


def document(kind: str, name: str, spec: t.Optional[Data] = None, **metadata: t.Any) -> Data:
    return {
        "apiVersion": "projectcalico.org/v3",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec or {},
    }


def policy(name: str, order: float = 100, tier: str = "default", **metadata: t.Any) -> Data:
    return document("GlobalNetworkPolicy", name, {"order": order, "selector": "all()", "tier": tier}, **metadata)


TIER = document("Tier", "web", {"order": 10})


class Operator:
    """The controller of the operator `ada`; `run` is calicoctl, and `apply` applies documents.

    So many answers to transactions as `lose_answers` are lost. `before_call` is called before each call of a member.
    """

    def __init__(self, node: Node, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node, self.fleet, self.etcd = node, fleet, fleet.etcd
        self.folder = node.folder
        node.controller, node.live = True, commands.run
        for name in ("ada", "bob"):
            add_operator(fleet.etcd, name)
        fleet.read_as("ada")
        self.lose_answers = 0
        self.before_call: t.Callable[[], None] = lambda: None
        for member in fleet.etcd.members.values():
            monkeypatch.setattr(member, "call", self._losing(member.call))

    def _losing(self, call: t.Callable[..., t.Awaitable[tuple[int, bytes]]]) -> t.Any:
        """Return a call of a member that does as it is asked and may break off before it answers."""

        async def answer(path: str, body: bytes, *rest: t.Any) -> tuple[int, bytes]:
            self.before_call()
            found = await call(path, body, *rest)
            if self.lose_answers and b"request_put" in body:
                self.lose_answers -= 1
                raise TransportError("the member closed the connection")
            return found

        return answer

    def run(self, *words: str) -> tuple[int, str, str]:
        return self.node.run(*words)

    def file(self, *contents: t.Any, name: str = "net.json") -> str:
        path = self.folder / name
        path.write_text(json.dumps(list(contents)))
        return str(path)

    def apply(self, *contents: t.Any, verb: str = "apply", options: t.Sequence[str] = ()) -> tuple[int, str, str]:
        return self.run(verb, "-f", self.file(*contents), *options)

    def value(self, kind: str, name: str, namespace: str = "") -> t.Optional[bytes]:
        """Return the value of a live document."""
        found = self.etcd.data().get(keys.document_key(DocumentKey(kind, namespace, name)).encode())
        return None if found is None else found.value

    def live(self) -> dict[str, Data]:
        """Return all live documents, by the ends of their keys."""
        start = keys.DOCUMENTS.encode()
        return {
            key[len(start) :].decode(): json.loads(event.value or b"")
            for key, event in self.etcd.data().items()
            if key.startswith(start)
        }

    def put_inventory(self, *contents: Data) -> None:
        for content in contents:
            key = DocumentKey(content["kind"], content["metadata"].get("namespace", ""), content["metadata"]["name"])
            self.etcd.put(keys.inventory_key(key), documents.encoded(content))

    def put(self, content: Data) -> None:
        """Write a live document as another operator does."""
        metadata = content["metadata"]
        key = DocumentKey(content["kind"], metadata.get("namespace", ""), metadata["name"])
        self.etcd.put(keys.document_key(key), documents.encoded(content))

    def put_raw(self, key: str, value: bytes) -> None:
        self.etcd.put(keys.DOCUMENTS + key, value)

    def put_many(self, count: int) -> None:
        """Write so many network sets."""
        values: list[tuple[bytes, t.Optional[bytes]]] = []
        for number in range(count):
            content = document("GlobalNetworkSet", f"many{number}")
            key = keys.document_key(DocumentKey("GlobalNetworkSet", "", f"many{number}"))
            values.append((key.encode(), documents.encoded(content)))
        self.etcd._apply(values)

    def remove(self, kind: str, name: str) -> None:
        self.etcd.delete(keys.document_key(DocumentKey(kind, "", name)))

    def meanwhile(self, act: t.Callable[[list[Data]], t.Any]) -> None:
        """Let others act just before each transaction that writes."""
        self.etcd.gate = lambda operations: act(operations) if "request_put" in operations[-1] else None

    def is_key(self, operation: Data, key: str) -> bool:
        """Return whether an operation of a transaction is about a live document."""
        found = operation.get("request_put") or operation.get("request_delete_range")
        if found is None:
            return False
        return base64.b64decode(found["key"]).decode() == keys.DOCUMENTS + key

    def written_at(self, revision: int) -> list[str]:
        """Return the ends of the keys of the live documents that a transaction changed."""
        start = keys.DOCUMENTS.encode()
        found = [event.key for event in self.etcd.log if event.revision == revision]
        return [key[len(start) :].decode() for key in found if key.startswith(start)]

    def live_keys(self) -> list[str]:
        start = keys.DOCUMENTS.encode()
        return sorted(key[len(start) :].decode() for key in self.etcd.data() if key.startswith(start))

    def changes(self) -> list[Data]:
        status, out, err = self.run("history", "-o", "json")
        assert (status, err) == (0, "")
        found: list[Data] = json.loads(out)
        return found

    @property
    def last_change(self) -> str:
        """The id of the newest change that calicoctl made."""
        return str([one["id"] for one in self.changes() if one["id"]][-1])


def add_operator(etcd: FakeEtcd, name: str) -> None:
    etcd.users[name] = "secret"
    etcd.granted[name] = {name}
    writes = [keys.under(one) for one in (keys.CHANGES, keys.DOCUMENTS, keys.history_of(name))]
    reads = [keys.EVERYTHING]
    etcd.roles[name] = {
        (encoded(one.start), encoded(one.end)): kind
        for kind, ranges in (("READ", reads), ("READWRITE", writes))
        for one in ranges
    }


@pytest.fixture
def node(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> t.Iterator[Node]:
    made = Node(tmp_path, capsys.readouterr)
    yield made
    made.close()


@pytest.fixture
def operator(node: Node, monkeypatch: pytest.MonkeyPatch) -> Operator:
    return Operator(node, fleet_of(node, monkeypatch), monkeypatch)
