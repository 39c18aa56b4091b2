# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that an answer about a flow, asked of an inventory, counts the live documents of the datastore."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow import flow_sweep
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.flow_question import Asked
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import (
    access,
    cluster_calls,
    live_network,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.access import FleetDatastore
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_source
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.inventory_network import known_network

from tests.fakes.etcd import FakeEtcd
from tests.unit.fleet.fleets import build, pool, workload

WORKLOADS = [workload("db", "node3", labels={"app": "db"}), workload("web", "node1", labels={"app": "web"})]
OPEN = {"kind": "GlobalNetworkPolicy", "name": "open", "selector": "app == 'db'", "ingress": [{"action": "Allow"}]}
IN_TIER = {"kind": "Tier", "name": "security", "order": 100}
FLEET = build(pool("ipip"), workloads=WORKLOADS, policies=[OPEN, IN_TIER], live_policy=True)
DENY = {"order": -1, "selector": "app == 'db'", "ingress": [{"action": "Deny"}]}
ELSEWHERE = ", ask `calicoctl policy explain` on a node"


@pytest.fixture
def etcd(monkeypatch: pytest.MonkeyPatch) -> FakeEtcd:
    made = FakeEtcd()
    made.users, made.granted, made.roles = {"root": "secret"}, {"root": {"root"}}, {"root": {}}
    datastore = FleetDatastore(("https://10.10.1.11:2379",), "", "", "", None)
    monkeypatch.setattr(access, "of", lambda *dummies: datastore)
    monkeypatch.setattr(access, "operator", lambda dummy: Credentials("root", "secret"))
    monkeypatch.setattr(inventory_source, "hosts", lambda dummy: ())
    monkeypatch.setattr(
        cluster_calls, "connect", lambda dummy, user: EtcdClient(made.members, user, seconds=1.0, jitter=0.0)
    )
    return made


def put(etcd: FakeEtcd, kind: str, name: str, **spec: t.Any) -> None:
    document = {"apiVersion": "projectcalico.org/v3", "kind": kind, "metadata": {"name": name}, "spec": spec}
    etcd.put(keys.document_key(DocumentKey(kind, "", name)), live_documents.encode(document))


def explained(fleet: Fleet = FLEET) -> flow_sweep.FlowAnswer | flow_sweep.FlowSweep:
    known, notices = live_network.of_question(known_network(fleet), fleet, {})
    return flow_sweep.answer(known, Asked("web", "db", "5432/tcp"), notices)


def text(fleet: Fleet = FLEET) -> str:
    return "\n".join(explained(fleet).lines())


def sources(answer: flow_sweep.FlowAnswer | flow_sweep.FlowSweep) -> list[tuple[str, str]]:
    return [
        (step["policy"] or step["tier"], step["source"])
        for stage in answer.document()["stages"]
        for step in stage["tried"]
    ]


def test_a_live_document_decides_and_the_answer_says_so(etcd: FakeEtcd) -> None:
    assert text().startswith("ALLOW  by ") and "(tier default)" in text() and "live" not in text()
    put(etcd, "GlobalNetworkPolicy", "block", **DENY)
    said = text()
    assert said.startswith("DENY   by block#1 (tier default, live document), ingress of default/db\n")
    assert (
        "note   live documents are those that the datastore has: a node may hold them back (calicoctl status)" in said
    )
    assert sources(explained())[-1] == ("block", "live")


def test_a_live_tier_and_the_inventory_that_wins(etcd: FakeEtcd) -> None:
    put(etcd, "Tier", "early", order=1)
    put(etcd, "GlobalNetworkPolicy", "early.none", **{**DENY, "tier": "early", "ingress": []})
    assert text().startswith("DENY   by the default of tier early (live document), ingress of default/db\n")
    put(etcd, "Tier", "early", order=1, defaultAction="Pass")
    put(etcd, "GlobalNetworkPolicy", "open", **DENY)
    assert text().startswith("ALLOW  by ") and "open#1 (tier default), ingress" in text()
    assert ("open", "inventory") in sources(explained())


def test_without_live_policy_the_datastore_is_not_asked(etcd: FakeEtcd) -> None:
    put(etcd, "GlobalNetworkPolicy", "block", **DENY)
    fleet = build(pool("ipip"), workloads=WORKLOADS, policies=[OPEN])
    assert text(fleet).startswith("ALLOW") and "live" not in text(fleet)
    assert not any("source" in step for stage in explained(fleet).document()["stages"] for step in stage["tried"])
    assert not any(member.calls for member in etcd.members.values())


def test_documents_that_cannot_be_had_are_a_note(etcd: FakeEtcd, monkeypatch: pytest.MonkeyPatch) -> None:
    put(etcd, "GlobalNetworkPolicy", "block", **{**DENY, "tier": "nowhere"})
    assert (
        "note   without live documents: nodes hold them back, because policy block is in tier nowhere, which does not "
        f"exist{ELSEWHERE}"
    ) in text()
    put(etcd, "GlobalNetworkPolicy", "block", **DENY)
    with monkeypatch.context() as patched:
        patched.setattr(keys, "MOST_DOCUMENTS", 0)
        assert "without live documents: the datastore is not read (the datastore has 1 live documents, and" in text()
    for member in etcd.members.values():
        member.up = False
    said = explained()
    (note,) = [one for one in said.document()["notes"] if "live" in one]
    assert note.startswith("without live documents: the datastore is not read (no member") and note.endswith(ELSEWHERE)
    assert said.lines()[0].startswith("ALLOW")

    def refused(dummy: object) -> Credentials:
        raise FleetError("calico_etcd_password", None, "is not set.", "Set it.")

    monkeypatch.setattr(access, "operator", refused)
    assert "without live documents: the datastore is not read (calico_etcd_password is not set. Set it)" in text()
    monkeypatch.setattr(access, "of", lambda *dummies: None)
    assert f"without live documents: the inventory names no datastore{ELSEWHERE}" in text()


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[" * 100_000, b"\xff", b'{"kind": "Tier", "metadata": {"name": "\\u001b[2J"}}']
)
def test_hostile_documents_are_named_and_the_others_count(etcd: FakeEtcd, value: bytes) -> None:
    put(etcd, "GlobalNetworkPolicy", "block", **DENY)
    etcd.put(keys.document_key(DocumentKey("Tier", "", "bad")), value)
    said = text()
    assert said.startswith("DENY   by block#1") and "note   without Tier bad, which nodes do not take up: it " in said
    assert "\x1b" not in said
