# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole agents with live policy: what operators write into the datastore is in force on nodes, and named if it is not.

The datastore and the kernel are in memory, and the clock jumps.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import pathlib
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent_metrics import watch_agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.datastore import live_policy_feed
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics import metrics
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys, snapshot
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Operation, Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import (
    live_documents,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change.verdicts import own_ways
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.desired import of_machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host.ssh_session import SshSession
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import live_policy as stored_live_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import run_session
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Endpoint,
    Entity,
    NamedPort,
    Policy,
    PolicyProfile,
    PolicyRule,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import live_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.live_policy import Unresolved
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import with_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    NodeState,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
    allow_all,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.fakes.etcd import FakeEtcd
from tests.unit.agent.datastore.live_node import (
    INVENTORY,
    KEYS,
    delete,
    deny,
    document,
    node,
    ports,
    problems,
    put,
    running,
    said,
    state,
    status,
    until,
    write,
)
from tests.unit.agent.node_under_test import Node
from tests.unit.agent.virtual_time import run


def test_a_document_is_in_force_within_a_second_and_the_node_says_so(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            revision = await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await until(lambda: said(etcd).revision >= revision)
            assert ports(one) == {8080}
            assert status(one)["documents"] == 1 and status(one)["revision"] >= revision
            revision = await write(etcd, put("web", deny(KEYS["web"], 9090)))
            await until(lambda: said(etcd).revision >= revision)
            assert ports(one) == {9090}
            revision = await write(etcd, delete("web"))
            await until(lambda: said(etcd).revision >= revision)
            assert ports(one) == set() and one.differences() == [] and problems(one) == ""

    run(scenario())


def test_a_run_after_the_agents_start_leaves_nothing_to_a_later_one(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    """A run ends the time of grace, so chains that another live policy replaces go at once and are in no plan."""

    async def scenario() -> None:
        one = node(tmp_path)
        one.settings = dataclasses.replace(one.settings, cleanup_grace=60.0)
        async with running(one):
            outcome = await one.agent.changes.apply(one.agent.persisted.state, removals=True)
            assert outcome.in_sync
            for change in (put("web", deny(KEYS["web"], 8080)), delete("web")):
                revision = await write(etcd, change)
                await until(lambda revision=revision: said(etcd).revision >= revision)
                assert (await one.agent.changes.plan()).changes == ()
                assert one.differences() == []

    run(scenario())


def test_a_workload_that_comes_has_live_policy_before_its_add_ends(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            revision = await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await until(lambda: said(etcd).revision >= revision)
            await one.add("other", labels={"app": "other"})
            assert ports(one) == {8080} and one.differences() == []

    run(scenario())


def test_a_transaction_is_in_force_as_a_whole(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            seen: set[str] = set()
            tier = put("tier", document(KEYS["tier"], {"order": 1}))
            for round_ in range(5):
                policy = put("web", deny(KEYS["web"], 8000 + round_, "early"))
                both = (policy, tier) if round_ % 2 else (tier, policy)
                revision = await write(etcd, *both)
                await until(lambda at=revision: said(etcd).revision >= at)
                seen.add(said(etcd).held_back)
                assert ports(one) == {8000 + round_}
                revision = await write(
                    etcd, *((delete("tier"), delete("web")) if round_ % 2 else (delete("web"), delete("tier")))
                )
                await until(lambda at=revision: said(etcd).revision >= at)
                seen.add(said(etcd).held_back)
            assert seen == {""}

    run(scenario())


def test_what_refers_to_nothing_holds_all_back_and_says_why(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            first = await write(etcd, put("blue", deny(KEYS["blue"], 1000)))
            await until(lambda: said(etcd).revision >= first)
            await write(etcd, put("web", deny(KEYS["web"], 8080, "early")), put("blue", deny(KEYS["blue"], 2000)))
            await until(lambda: said(etcd).held_back != "")
            reason = "policy web is in tier early, which does not exist"
            assert said(etcd).held_back == status(one)["held_back"] == reason
            assert ports(one) == {1000} and said(etcd).revision == first
            assert f"Live policy stays as it was at revision {first}: {reason}. Create the tier, or" in problems(one)
            revision = await write(etcd, put("tier", document(KEYS["tier"], {"order": 1})))
            await until(lambda: said(etcd).revision >= revision)
            assert ports(one) == {8080, 2000} and said(etcd).held_back == "" and problems(one) == ""

    run(scenario())


def test_the_inventory_wins_and_a_policy_stays_though_its_tier_goes(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            revision = await write(
                etcd, put("own", deny(KEYS["own"], 22)), put("web", deny(KEYS["web"], 8080, "security"))
            )
            await until(lambda: said(etcd).revision >= revision)
            assert ports(one) == {8080} and status(one)["without_effect"] == ["policy own"]
            bare = policy_set([], INVENTORY.policies, [allow_all()])
            without_tier = PolicyState(bare, settings=PolicySettings(live=True))
            await one.agent.changes.apply(dataclasses.replace(state(), plan="second", policy=without_tier), True)
            await asyncio.sleep(1)
            assert ports(one) == {8080} and "policy web is in tier security" in problems(one)
            await one.agent.changes.apply(state(), True)
            await asyncio.sleep(1)
            assert problems(one) == "" and ports(one) == {8080}

    run(scenario())


RUBBISH = [
    b"",
    b"rubbish",
    b"\xff\xfe",
    b'"' + b"x" * (300 << 10),
    b"[" * 200_000,
    deny(KEYS["own"], 1),
    document(KEYS["web"], {"selector": "app =="}),
    document(KEYS["web"], {"ingress": [{"action": "Allow", "http": {"methods": ["GET"]}}]}),
    document(KEYS["web"], {}, labels={"a": "\x1b[2J"}),
]


@pytest.mark.parametrize("value", RUBBISH, ids=lambda value: repr(value[:20]))
def test_what_cannot_be_understood_is_named_and_the_last_good_one_stays(
    value: bytes, tmp_path: pathlib.Path, etcd: FakeEtcd
) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            revision = await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await until(lambda: said(etcd).revision >= revision)
            key = keys.document_key(KEYS["web"])
            etcd.put(key, value)
            etcd.put(f"{keys.DOCUMENTS}ippools/a", b"{}")
            revision = await write(etcd, put("blue", deny(KEYS["blue"], 9090)))
            await until(lambda: said(etcd).revision >= revision, 3)
            assert ports(one) == {8080, 9090}
            named = {refused for refused, _why in said(etcd).refused}
            assert key in named and said(etcd).count_refused == len(named) == 2
            assert {one["key"] for one in status(one)["refused"]} == named
            whole = one.agent.datastore
            assert whole.to_dict()["refused"] == [] and whole.refused == 0
            measured = one.agent.instruments
            watch_agent(measured, one.agent)
            metrics.text(measured.registry)
            assert (measured.live_documents.value("refused"), measured.datastore_workloads.value("refused")) == (2, 0)
            assert "\x1b" not in json.dumps(status(one))
            await one.kill()
            await one.start()
            await asyncio.sleep(6)
            assert ports(one) == {8080, 9090}
            revision = await write(etcd, delete("web"))
            await until(lambda: said(etcd).revision >= revision, 3)
            assert ports(one) == {9090} and said(etcd).count_refused == 1

    run(scenario())


def test_live_policy_is_in_force_without_a_datastore_after_a_restart(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            revision = await write(etcd, put("web", deny(KEYS["web"], 8080, "security")))
            await until(lambda: said(etcd).revision >= revision)
            await asyncio.sleep(3)
            in_force = one.agent.desired_state.whole()
            for member in etcd.members.values():
                member.kill()
            await one.kill()
            booted = of_machine(one.machine, state())
            assert in_force is not None and booted.iptables == in_force.iptables and booted.ipsets == in_force.ipsets
            await one.start()
            await asyncio.sleep(30)
            assert ports(one) == {8080} and one.differences() == []

    run(scenario())


def test_a_copy_that_is_older_than_what_was_in_force_is_not_taken(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            copy = pathlib.Path(one.machine.store) / "datastore.jsonl"
            await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await asyncio.sleep(200)
            older = copy.read_bytes()
            revision = await write(etcd, put("web", deny(KEYS["web"], 9090)))
            await until(lambda: said(etcd).revision >= revision)
            await one.kill()
            copy.write_bytes(older)
            for member in etcd.members.values():
                member.kill()
            await one.start()
            await asyncio.sleep(30)
            assert ports(one) == {9090}

    run(scenario())


def test_a_store_that_went_back_is_followed(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            first = await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await until(lambda: said(etcd).revision >= first)
            last = await write(etcd, put("web", deny(KEYS["web"], 9090)))
            await until(lambda: said(etcd).revision >= last)
            etcd.restore(first)
            await asyncio.sleep(60)
            assert ports(one) == {8080} and one.differences() == []

    run(scenario())


def test_without_permission_documents_have_no_effect(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path, live=False)
        async with running(one):
            await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await asyncio.sleep(10)
            assert ports(one) == set() and problems(one) == "" and "live_policy" not in one.agent.datastore.to_dict()
            assert keys.policy_heartbeat_key("node1").encode() not in etcd.data()
            assert not (pathlib.Path(one.machine.store) / stored_live_policy.FILE).exists()
            await one.agent.changes.apply(dataclasses.replace(state(), plan="second"), True)
            await until(lambda: ports(one) == {8080})
            await one.agent.changes.apply(state(live=False), True)
            assert ports(one) == set()

    run(scenario())


def test_a_disk_that_is_full_delays_nothing_and_is_named(
    tmp_path: pathlib.Path, etcd: FakeEtcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):

            def full(folder: str, stored: t.Any) -> None:
                raise OSError(28, "No space left on device")

            monkeypatch.setattr(live_policy_feed.stored_live_policy, "save", full)
            revision = await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await until(lambda: said(etcd).revision >= revision)
            assert ports(one) == {8080}
            assert "live-policy.jsonl cannot be written: No space left on device. After a reboot" in problems(one)

    run(scenario())


@pytest.mark.parametrize("documents", [True, False])
def test_a_damaged_copy_opens_nothing_until_the_datastore_is_read(
    tmp_path: pathlib.Path, etcd: FakeEtcd, documents: bool
) -> None:
    """Rules stay as they are, and no workload comes, also if the datastore turns out to have no documents any more."""

    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            revision = await write(etcd, put("web", deny(KEYS["web"], 8080)))
            await until(lambda: said(etcd).revision >= revision)
            await asyncio.sleep(5)
            await one.kill()
            path = pathlib.Path(stored_live_policy.path(one.machine.store))
            path.write_bytes(path.read_bytes()[:-20])
            (pathlib.Path(one.machine.store) / snapshot.FILE).unlink()
            if not documents:
                await write(etcd, delete("web"))
            for member in etcd.members.values():
                member.kill()
            await one.start()
            await asyncio.sleep(30)
            assert ports(one) == {8080}
            assert problems(one).count("live-policy.jsonl cannot be read: a line of it is not JSON. IP sets and") == 1
            assert not one.agent.status.in_sync
            with pytest.raises(AgentError, match="remove the file and restart calico-agent"):
                await one.add("other", labels={"app": "other"})
            assert len(one.agent.workloads) == 1
            for member in etcd.members.values():
                member.up = True
            await until(lambda: one.agent.status.in_sync, 60)
            assert ports(one) == ({8080} if documents else set()) and one.differences() == []
            await until(lambda: problems(one) == "", 60)
            await one.add("other", labels={"app": "other"})
            assert len(stored_live_policy.load(one.machine.store).documents) == int(documents)

    run(scenario())


def test_a_damaged_copy_is_nothing_to_a_node_without_live_policy(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path, live=False)
        path = pathlib.Path(stored_live_policy.path(one.machine.store))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("rubbish")
        async with running(one):
            assert one.agent.status.in_sync and problems(one) == ""
            for member in etcd.members.values():
                member.kill()
            outcome = await one.agent.changes.apply(dataclasses.replace(state(), plan="second"), True)
            assert not outcome.in_sync

    run(scenario())


def test_what_a_node_says_is_written_at_most_twice_a_second(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            key = keys.policy_heartbeat_key("node1").encode()
            written = []
            for number in range(100):
                await write(etcd, put("web", deny(KEYS["web"], 8000 + number)))
                await asyncio.sleep(0.05)
                written.append(etcd.data()[key].revision)
            assert 3 <= len(set(written)) <= 12
            await until(lambda: ports(one) == {8099})

    run(scenario())


HOST = Endpoint("HostEndpoint", "node1-eth0", "node1", "eth0", ("10.10.1.11",), (("role", "host"),))
CLOSED = PolicySettings(live=True, failsafe_inbound=(), failsafe_outbound=())


def with_host(settings: PolicySettings = CLOSED) -> NodeState:
    bird = Bird(
        "10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", peers=(BirdPeer("Mesh_12", "10.10.1.12", 64512, "mesh"),)
    )
    inventory = policy_set([], [], [allow_all()])
    policy = PolicyState(inventory, (dataclasses.replace(HOST, profiles=(allow_all().name,)),), settings)
    return dataclasses.replace(state(), plan="host", policy=policy, bird=bird)


def for_hosts(allowed: t.Sequence[dict[str, t.Any]]) -> bytes:
    """Return a document that denies hosts all but some flows of TCP, by direction, address of the peer and port."""
    rules: dict[str, list[dict[str, t.Any]]] = {"ingress": [], "egress": []}
    for one in allowed:
        ends = {"source": {"nets": [one["net"]]}} if one["way"] == "ingress" else {}
        ends = ends or {"destination": {"nets": [one["net"]]}}
        ports = {"destination": {**ends.get("destination", {}), "ports": [one["port"]]}}
        rules[one["way"]].append({"action": "Allow", "protocol": "TCP", **ends, **ports})
    spec = {"selector": "role == 'host'", "types": ["Ingress", "Egress"], **rules}
    return document(KEYS["web"], spec)


NEEDED = [
    {"way": "egress", "net": "192.0.2.1/32", "port": 2379, "what": "the datastore at 192.0.2.1 port 2379"},
    {"way": "egress", "net": "10.10.1.12/32", "port": 179, "what": "BGP to 10.10.1.12"},
    {"way": "ingress", "net": "10.10.1.12/32", "port": 179, "what": "BGP from 10.10.1.12"},
    {"way": "ingress", "net": "10.10.1.1/32", "port": 22, "what": "ssh from 10.10.1.1 to 10.10.1.11 port 22"},
]


@pytest.mark.parametrize("missing", [*range(len(NEEDED)), None])
def test_live_policy_that_would_cut_the_nodes_own_ways_is_held_back(
    missing: int | None, tmp_path: pathlib.Path, etcd: FakeEtcd
) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        run_session.save(one.machine.store, SshSession("10.10.1.1", 51444, "10.10.1.11", 22))
        async with running(one):
            await one.agent.changes.apply(with_host(), True)
            first = await write(etcd, put("blue", deny(KEYS["blue"], 1000)))
            await until(lambda: said(etcd).revision >= first)
            before = one.kernel.run(["iptables-save"]).output
            allowed = [way for number, way in enumerate(NEEDED) if number != missing]
            revision = await write(etcd, put("web", for_hosts(allowed)))
            if missing is None:
                await until(lambda: said(etcd).revision >= revision)
                assert one.kernel.run(["iptables-save"]).output != before
                return
            await until(lambda: said(etcd).held_back != "")
            cut = f"{NEEDED[missing]['what']} would be cut by the default of tier default"
            assert said(etcd).held_back.startswith(cut), said(etcd).held_back
            assert said(etcd).revision < revision and one.kernel.run(["iptables-save"]).output == before
            assert f"{cut}" in problems(one) and "so that these ways stay open." in problems(one)
            # A later change does not bring it into force, unless it leaves the ways open.
            revision = await write(etcd, put("blue", deny(KEYS["blue"], 2000)))
            await asyncio.sleep(3)
            assert one.kernel.run(["iptables-save"]).output == before
            revision = await write(etcd, put("web", for_hosts(NEEDED)))
            await until(lambda: said(etcd).revision >= revision)
            assert said(etcd).held_back == "" and problems(one) == ""

    run(scenario())


#: What a host with a member of etcd needs in addition: its gate has to be open to all nodes, also those without one.
AT_MEMBER = [
    {"way": "egress", "net": "10.10.1.12/32", "port": 2378, "what": "the datastore at 10.10.1.12 port 2378"},
    {"way": "ingress", "net": "10.10.1.12/32", "port": 2378, "what": "the datastore here from 10.10.1.12"},
    {"way": "ingress", "net": "10.10.1.13/32", "port": 2378, "what": "the datastore here from 10.10.1.13"},
    {"way": "egress", "net": "10.10.1.12/32", "port": 2380, "what": "etcd at 10.10.1.12"},
    {"way": "ingress", "net": "10.10.1.12/32", "port": 2380, "what": "etcd from 10.10.1.12"},
]


@pytest.mark.parametrize("missing", [*range(len(AT_MEMBER)), None])
def test_live_policy_that_would_close_the_member_of_etcd_on_this_node_is_held_back(
    missing: int | None, tmp_path: pathlib.Path, etcd: FakeEtcd
) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        members = [f"https://10.10.1.{number}:2378" for number in (11, 12)]
        pathlib.Path(one.machine.datastore).write_text(json.dumps({"endpoints": members}))
        fleet = [FleetMember(f"node{number}", f"10.10.1.1{number}/24", 64512) for number in (1, 2, 3)]
        async with running(one):
            await one.agent.changes.apply(dataclasses.replace(with_host(), nodes=tuple(fleet)), True)
            needed = [*NEEDED[1:3], *AT_MEMBER]
            before = one.kernel.run(["iptables-save"]).output
            revision = await write(etcd, put("web", for_hosts(needed)))
            await until(lambda: said(etcd).revision >= revision)
            assert said(etcd).held_back == "" and one.kernel.run(["iptables-save"]).output != before
            if missing is None:
                return
            before = one.kernel.run(["iptables-save"]).output
            allowed = [way for way in needed if way is not AT_MEMBER[missing]]
            await write(etcd, put("web", for_hosts(allowed)))
            await until(lambda: said(etcd).held_back != "")
            cut = f"{AT_MEMBER[missing]['what']} would be cut by the default of tier default"
            assert said(etcd).held_back.startswith(cut) and ";" not in said(etcd).held_back, said(etcd).held_back
            assert one.kernel.run(["iptables-save"]).output == before

    run(scenario())


@pytest.mark.parametrize(
    ("sources", "is_cut"),
    [
        ([1024, "2000:32767", "61000:65535"], False),  # a client does not get these
        (["1:49999", "50001:65535"], True),
        ([32_768], True),
        ([60_999], True),
        ([*range(40_000, 40_100, 2)], True),
    ],
)
def test_a_rule_for_some_source_ports_cuts_the_nodes_own_ways(
    sources: list[int | str], is_cut: bool, tmp_path: pathlib.Path, etcd: FakeEtcd
) -> None:
    """New connections would come about by chance."""
    rule = {"action": "Deny", "protocol": "TCP", "source": {"ports": sources}, "destination": {"ports": [2379]}}
    spec = {"selector": "role == 'host'", "types": ["Egress"], "egress": [rule, {"action": "Allow"}]}

    async def scenario() -> None:
        one = node(tmp_path)
        async with running(one):
            await one.agent.changes.apply(with_host(), True)
            revision = await write(etcd, put("web", document(KEYS["web"], spec)))
            await until(lambda: said(etcd).held_back != "" or said(etcd).revision >= revision)
            cut = "the datastore at 192.0.2.1 port 2379 would be cut by web#1 (egress, HostEndpoint node1-eth0)"
            assert said(etcd).held_back == (cut if is_cut else "")

    run(scenario())


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], [32_768]),
        ([PortRange(80, 80), PortRange(1, 65_535)], [32_768]),
        ([PortRange(50_000, 50_000)], [32_768, 50_000, 50_001]),
        ([PortRange(40_000, 60_999), PortRange(30_000, 44_999)], [32_768, 40_000, 45_000]),
    ],
)
def test_one_port_of_each_range_of_source_ports_is_tried(ranges: list[PortRange], expected: list[int]) -> None:
    rule = PolicyRule("Deny", protocol="tcp", source=Entity(ports=tuple(ranges)))
    other = PolicyRule("Allow", protocol="tcp", source=Entity(not_ports=(PortRange(20, 30), NamedPort("http"))))
    for policies in ([Policy("web", egress=(rule,))], [Policy("web", ingress=(other, rule))]):
        assert own_ways.client_ports(policy_set([], policies, [])) == expected


def test_ports_are_few_however_many_rules_name_some() -> None:
    source = Entity(not_ports=tuple(PortRange(port, port) for port in range(30_000, 65_000, 7)))
    rule = PolicyRule("Deny", protocol="tcp", source=source)
    found = own_ways.client_ports(policy_set([], [], [PolicyProfile("all", ingress=(rule,))]))
    assert 8 <= len(found) <= 16 and found == sorted(set(found))
    assert found[0] == 32_768 and found[-1] > 57_000


def test_failsafe_ports_keep_the_nodes_own_ways_open(tmp_path: pathlib.Path, etcd: FakeEtcd) -> None:
    async def scenario() -> None:
        one = node(tmp_path)
        run_session.save(one.machine.store, SshSession("10.10.1.1", 51444, "10.10.1.11", 22))
        async with running(one):
            await one.agent.changes.apply(with_host(PolicySettings(live=True)), True)
            revision = await write(etcd, put("web", for_hosts([])))
            await until(lambda: said(etcd).revision >= revision)
            assert said(etcd).held_back == ""

    run(scenario())


def fresh(etcd: FakeEtcd, one: Node) -> NodeState:
    """Return what a node without a past makes of all documents in the store, those of whole good revisions."""
    values = []
    for key, event in sorted(etcd.data().items()):
        found = keys.parse_document_key(key.decode())
        if found is not None and event.value is not None:
            value = live_documents.value_of(live_documents.decode(found, event.value))
            values.append(value)
    live = live_policy.resolve(INVENTORY, [value for value in values if value is not None])
    attached = one.agent.desired_state.for_state(dataclasses.replace(state(), policy=None))
    merged = live_policy.merged(state().policy or PolicyState(), live)
    return with_policy(dataclasses.replace(attached, policy=merged))


@pytest.mark.parametrize("seed", range(6))
def test_any_changes_end_with_what_a_fresh_compile_of_the_store_gives(
    seed: int, tmp_path: pathlib.Path, etcd: FakeEtcd
) -> None:
    """Writers write and delete, members break connections, the agent is killed; the store always resolves."""

    async def scenario() -> None:
        chance = random.Random(seed)
        one = node(tmp_path)
        async with running(one):
            for _step in range(60):
                operations: dict[str, Operation] = {}
                for name in chance.sample(sorted(KEYS), chance.randint(1, 3)):
                    key = KEYS[name]
                    if chance.random() < 0.3:
                        operations[name] = delete(name)
                    elif key.kind == "Tier":
                        operations[name] = put(name, document(key, {"order": chance.randint(1, 50)}))
                    elif key.kind == "GlobalNetworkSet":
                        operations[name] = put(name, document(key, {"nets": [f"10.{chance.randint(0, 9)}.0.0/16"]}))
                    else:
                        tier = chance.choice(["default", "security", "early"])
                        operations[name] = put(name, deny(key, chance.randint(1, 9999), tier))
                before = etcd.data()
                after = {key: event.value for key, event in before.items()}
                for one_ in operations.values():
                    after[one_.key.encode()] = one_.value if isinstance(one_, Put) else None
                if not _resolves(after):
                    continue
                await write(etcd, *operations.values())
                event = chance.random()
                if event < 0.1:
                    etcd.break_connections()
                elif event < 0.15:
                    await one.restart()
                await asyncio.sleep(chance.choice([0.0, 0.01, 0.3, 2.0]))
            await asyncio.sleep(60)
            wanted, found = fresh(etcd, one), one.agent.desired_state.whole()
            assert found is not None and (found.iptables, found.ipsets) == (wanted.iptables, wanted.ipsets)
            assert one.differences() == [] and said(etcd).held_back == ""

    run(scenario())


def _resolves(content: dict[bytes, bytes | None]) -> bool:
    values = []
    for key, value in content.items():
        found = keys.parse_document_key(key.decode())
        if found is not None and value is not None:
            values.append(live_documents.value_of(live_documents.decode(found, value)))
    try:
        live_policy.resolve(INVENTORY, [value for value in values if value is not None])
    except Unresolved:
        return False
    return True
