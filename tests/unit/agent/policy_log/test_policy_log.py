# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the log of drops by flow and policy: names, entries, and bounds on memory and work."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.agent_metrics import watch_agent
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Calls
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.methods import Methods
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.policy_log import policy_log
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.policy_log.policy_log import PolicyLog
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.policy_log.policy_names import PolicyNames
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.nflog import Record
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules import log_prefix
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules.log_prefix import Reason
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    Endpoint,
    Flow,
    Policy,
    PolicyProfile,
    PolicyRule,
    PolicyTier,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.other_endpoints import OtherEndpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.remote_endpoints import Collected
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.peer import Peer
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError, Request

from tests.integration.policy.packets import packet
from tests.unit.agent.node_under_test import Node, with_state
from tests.unit.agent.virtual_time import run

LONG = "platform.a-policy-whose-name-is-longer-than-a-prefix-of-nflog-may-be"
POLICIES = [
    Policy(LONG, tier="platform", ingress=(PolicyRule("Deny"),)),
    Policy("default/web", ingress=(PolicyRule("Deny"),)),
]
APP = Endpoint("WorkloadEndpoint", "default/app", "node2", "cali1", ("10.244.2.2",))
DB = Endpoint("WorkloadEndpoint", "default/db", "node3", "cali2", ("10.244.3.2",))
POLICY = PolicyState(policy_set([PolicyTier("platform", 1.0)], POLICIES, [PolicyProfile("open")]), (APP,))
STATE = with_state(policy=POLICY)
WEB = AttachedWorkload(id="default/web", name="web", interface="caliweb", netns="web", addresses=("10.244.1.2",))
TO_WEB = Flow(6, "10.244.2.2", "10.244.1.2", 40000, 80)
BY_WEB = Reason("deny", "Ingress", "policy", 1, "default/web")
DEVICES = {3: "eth0", 4: "caliweb"}


class Given:
    """A PolicyLog with `room` for entries, and what its names come from."""

    def __init__(self, room: int = policy_log.ROOM, workloads: tuple[AttachedWorkload, ...] = (WEB,)) -> None:
        self.state: NodeState | None = STATE
        self.workloads = workloads
        self.others = OtherEndpoints({"node3": Collected("2026-11-22T05:00:00Z", (DB,))})
        self.now = 1_700_000_000.0
        self.sequence = 0
        self.version = 0
        names = PolicyNames(lambda: self.state, lambda: self.workloads, lambda: self.version, self.others)
        self.log = PolicyLog(names, lambda: self.now, room)

    def record(self, flow: Flow, reason: Reason = BY_WEB, indev: int = 3, outdev: int = 4) -> Record:
        self.sequence += 1
        prefix = log_prefix.prefix(reason).encode()
        return Record(self.sequence - 1, prefix, indev, outdev, packet(flow, 0, 1)[:96])

    def take(self, *records: Record) -> None:
        self.log.take(records, lambda index: DEVICES.get(index, str(index)))

    def drops(self, **asked: t.Any) -> list[dict[str, t.Any]]:
        return [entry.to_dict() for entry in self.log.entries(**asked)]


def test_a_drop_with_all_that_is_known_of_it() -> None:
    given = Given()
    given.take(given.record(TO_WEB))
    given.now += 90
    given.take(given.record(dataclasses.replace(TO_WEB, source_port=40001)))
    assert given.drops() == [
        {
            "first": "2023-11-14T22:13:20Z",
            "last": "2023-11-14T22:14:50Z",
            "packets": 2,
            "verdict": "deny",
            "direction": "Ingress",
            "kind": "policy",
            "tier": "default",
            "name": "default/web",
            "rule": 1,
            "source": {"address": "10.244.2.2", "workload": "default/app", "node": "node2"},
            "destination": {"address": "10.244.1.2", "workload": "default/web", "node": "node1"},
            "protocol": "tcp",
            "source_port": 40000,
            "destination_port": 80,
            "icmp_type": None,
            "icmp_code": None,
            "in_interface": "eth0",
            "out_interface": "caliweb",
        }
    ]


def test_names_that_were_cut_are_whole_again() -> None:
    given = Given()
    reasons = [
        Reason("audit", "Ingress", "policy", 2, LONG),
        Reason("deny", "Egress", "tier", 0, "platform"),
        Reason("log", "Egress", "profile", 1, "open"),
        Reason("deny", "Egress", "host", 0, "spoofed"),
        Reason("deny", "Ingress", "policy", 3, "gone"),
    ]
    given.take(*(given.record(TO_WEB, reason) for reason in reasons))
    told = ("verdict", "direction", "kind", "tier", "name", "rule")
    assert [tuple(drop[field] for field in told) for drop in given.drops()] == [
        ("would deny", "Ingress", "policy", "platform", LONG, 2),
        ("deny", "Egress", "tier", "platform", "", 0),
        ("log", "Egress", "profile", "", "open", 1),
        ("deny", "Egress", "host", "", "spoofed", 0),
        ("deny", "Ingress", "policy", "", "gone", 3),
    ]


def test_workloads_of_other_nodes_are_named_by_inventory_and_sync() -> None:
    given = Given()
    given.take(given.record(dataclasses.replace(TO_WEB, source="10.244.3.2")))
    given.take(given.record(dataclasses.replace(TO_WEB, source="192.0.2.9")))
    assert [drop["source"]["workload"] for drop in given.drops()] == ["default/db", ""]


def test_workloads_of_other_nodes_are_named_by_the_datastore_as_it_changes() -> None:
    """A changed name makes another entry. A change that concerns no flow in the log leaves all entries as they are."""
    given = Given()
    moved, other = dataclasses.replace(DB, name="default/moved"), dataclasses.replace(DB, addresses=("10.244.3.9",))
    from_db = dataclasses.replace(TO_WEB, source="10.244.3.2")
    steps: list[tuple[dict[tuple[str, str], Endpoint | None], set[str]]] = [
        ({}, set()),
        ({("node3", "cali9"): other}, set()),
        ({("node3", "cali2"): moved}, set()),
        ({("node3", "cali2"): None}, {"node3"}),
        ({}, set()),
    ]
    generations = []
    for changes, live in steps:
        given.others.apply(changes, live)
        generations.append(given.log.names.generation)
        given.take(given.record(from_db))
    assert [drop["source"]["workload"] for drop in given.drops()] == [
        "default/db",
        "default/moved",
        "",
        "default/db",
    ]
    assert [drop["packets"] for drop in given.drops()] == [2, 1, 1, 1]
    assert [later - earlier for earlier, later in zip(generations, generations[1:])] == [0, 1, 1, 1]


def test_workload_names_follow_the_inventory_of_the_current_policy() -> None:
    given = Given()
    given.take(given.record(TO_WEB))
    assert given.log.names.workload("10.244.2.2") == ("default/app", "node2")
    policy = STATE.policy
    assert policy is not None
    moved = [dataclasses.replace(one, addresses=("10.244.2.3",)) for one in policy.endpoints if one.node == "node2"]
    given.state = dataclasses.replace(STATE, policy=dataclasses.replace(policy, endpoints=tuple(moved)))
    given.version += 1
    names = given.log.names
    assert [names.workload(f"10.244.2.{number}")[0] for number in (2, 3)] == ["", "default/app"]
    given.state = None
    assert names.workload("10.244.2.3") == ("", "") and names.workload("10.244.3.2") == ("", "")
    given.state = STATE
    assert names.workload("10.244.2.2")[0] == "default/app" and names.workload("10.244.3.2")[0] == "default/db"


def test_nodes_are_named() -> None:
    given = Given()
    given.state = dataclasses.replace(STATE, nodes=(FleetMember("node2", "10.10.1.12/24", 64512),))
    given.take(given.record(Flow(6, "10.10.1.12", "10.10.1.11", 40000, 8080)))
    (drop,) = given.drops()
    assert drop["source"] == {"address": "10.10.1.12", "workload": "", "node": "node2"}
    assert drop["destination"] == {"address": "10.10.1.11", "workload": "", "node": "node1"}


def test_an_address_that_became_another_workloads_is_another_entry() -> None:
    given = Given()
    given.take(given.record(TO_WEB))
    given.workloads = (dataclasses.replace(WEB, id="default/new"),)
    given.version += 1
    given.take(given.record(TO_WEB), given.record(TO_WEB))
    given.version += 1  # so do changes of other workloads
    given.take(given.record(TO_WEB))
    assert [(drop["destination"]["workload"], drop["packets"]) for drop in given.drops()] == [
        ("default/web", 1),
        ("default/new", 3),
    ]


def test_drops_are_filtered_by_workload_since_and_after() -> None:
    given = Given()
    given.take(given.record(TO_WEB))
    after = given.log.order
    given.now += 60
    given.take(given.record(dataclasses.replace(TO_WEB, destination="10.244.1.3")))
    assert [drop["packets"] for drop in given.drops(workload="default/app")] == [1, 1]
    assert len(given.drops(workload="default/web")) == 1 and given.drops(workload="default/x") == []
    assert [drop["destination"]["address"] for drop in given.drops(since=given.now - 30)] == ["10.244.1.3"]
    assert [drop["destination"]["address"] for drop in given.drops(after=after)] == ["10.244.1.3"]
    given.take(given.record(TO_WEB))
    assert [drop["destination"]["address"] for drop in given.drops(after=after)] == ["10.244.1.3", "10.244.1.2"]


def test_entries_and_counts_are_what_counting_by_hand_gives() -> None:
    """The entries and counts of random packets are those that a plain Counter gives, without their source ports."""
    rng = random.Random(4)
    given = Given(room=10_000)
    hand: collections.Counter[t.Any] = collections.Counter()
    by_policy: collections.Counter[t.Any] = collections.Counter()
    for dummy in range(40):
        records = []
        for _ in range(policy_log.NEWCOMERS):
            family = rng.choice(["10.244.1.{}", "fd65::{}"])
            protocol = rng.choice([1, 6, 17, 47])
            flow = Flow(protocol, family.format(rng.randint(1, 3)), family.format(rng.randint(1, 3)))
            if protocol in (6, 17):
                flow = dataclasses.replace(flow, source_port=rng.randint(1, 9), destination_port=rng.randint(1, 3))
            elif protocol == 1:
                flow = dataclasses.replace(flow, icmp_type=rng.choice([3, 8]), icmp_code=rng.choice([0, 1]))
            reason = BY_WEB._replace(rule=rng.randint(1, 2), verdict=rng.choice(["deny", "audit"]))
            records.append(given.record(flow, reason, rng.choice([0, 3])))
            hand[reason, records[-1].indev, dataclasses.replace(flow, source_port=None)] += 1
            by_policy[reason.verdict] += 1
        given.take(*records)
    found = collections.Counter(
        {
            (
                BY_WEB._replace(rule=entry.decider.rule, verdict={"deny": "deny"}.get(entry.verdict, "audit")),
                3 if entry.indev else 0,
                dataclasses.replace(entry.flow, source_port=None),
            ): entry.packets
            for entry in given.log.entries()
        }
    )
    assert found == hand and given.log.unlisted == given.log.lost == 0
    assert given.log.counted() == {
        ("deny", "Ingress", "policy", "default", "default/web"): by_policy["deny"],
        ("would deny", "Ingress", "policy", "default", "default/web"): by_policy["audit"],
    }
    assert given.log.counted() == {}


def test_a_scan_takes_no_more_memory_and_no_more_work_than_it_may() -> None:
    given = Given(room=100)
    for turn in range(5):
        ports = range(1000 * turn, 1000 * turn + 1000)
        given.take(*(given.record(dataclasses.replace(TO_WEB, destination_port=port)) for port in ports))
    assert len(given.drops()) == 100
    assert given.log.unlisted == 5 * (1000 - policy_log.NEWCOMERS)
    assert sum(given.log.counted().values()) == 5000


def test_counts_of_too_many_prefixes_are_dropped_and_said_to_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more log prefixes than fit, all counts for metrics are dropped, and their packets are added to `lost`."""
    monkeypatch.setattr(policy_log, "_PREFIXES", 3)
    given = Given()
    given.take(*(given.record(TO_WEB, BY_WEB._replace(rule=rule)) for rule in (1, 1, 2)))
    others = (given.record(TO_WEB)._replace(prefix=f"ssh {number}: ".encode()) for number in range(2))
    given.take(*others)
    assert (given.log.lost, given.log.unlisted, given.log.counted()) == (3, 0, {})
    given.take(given.record(TO_WEB))
    assert (given.log.lost, sum(given.log.counted().values())) == (3, 1)


def test_a_recurring_drop_keeps_its_entry_when_the_log_is_full() -> None:
    given = Given(room=20)
    for turn in range(10):
        given.take(given.record(TO_WEB))
        ports = range(1000 + 10 * turn, 1010 + 10 * turn)
        given.take(*(given.record(dataclasses.replace(TO_WEB, destination_port=port)) for port in ports))
    assert [drop["packets"] for drop in given.drops() if drop["destination_port"] == 80] == [10]


def test_records_that_the_kernel_lost_are_counted() -> None:
    given = Given()
    first, *_, fourth = (given.record(TO_WEB) for dummy in range(4))
    given.take(first, fourth)
    assert given.log.lost == 2
    given.log.restarted()
    given.take(first)
    assert given.log.lost == 2
    given.take(first._replace(sequence=0xFFFFFFFF), first)  # the sequence number wraps
    assert given.log.lost == 2 + 0xFFFFFFFE


def test_nflog_records_with_a_foreign_prefix_are_no_drops() -> None:
    given = Given()
    record = given.record(TO_WEB)
    given.take(record._replace(prefix=b"ssh: "), record._replace(prefix=b"", sequence=1))
    given.take(record._replace(prefix=b"no:in:policy:1:x", sequence=2), record._replace(packet=b"", sequence=3))
    assert given.drops() == [] and sum(given.log.counted().values()) == 1


def test_an_agent_names_workloads_as_they_come_and_go(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, STATE)
        names = (await node.start()).policy_log.names
        workload = await node.agent.transactions.add(node.request("web"))
        (address,) = workload.addresses
        assert names.workload(address) == ("default/web", "node1")
        generation = names.generation
        await node.agent.transactions.delete("default/web")
        assert names.generation > generation
        assert names.workload(address) == ("", "")

    run(scenario())


READER = Peer(1, 1000, 1000)


def test_the_method_and_the_figures(tmp_path: pathlib.Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, STATE)
        agent = await node.start()
        workload = await agent.transactions.add(node.request("web"))
        watch_agent(agent.instruments, agent)
        methods = Methods(agent)
        records = Given()
        flow = dataclasses.replace(TO_WEB, destination=workload.addresses[0])
        agent.policy_log.take([records.record(flow), records.record(flow)], str)
        answer = await methods.policy_drops({"workload": "default/web", "since": 60}, READER)
        assert [drop["destination"]["workload"] for drop in answer.pop("drops")] == ["default/web"]
        assert answer == {"next": 2, "group": 0, "wanted_group": 179, "policy": True, "lost": 0, "unlisted": 0}
        assert (await methods.policy_drops({"after": 2}, READER))["drops"] == []
        assert (await methods.policy_drops({"workload": "default/x"}, READER))["drops"] == []
        (entry,) = agent.policy_log.entries()
        entry.last -= 120
        assert (await methods.policy_drops({"since": 60}, READER))["drops"] == []
        assert len((await methods.policy_drops({"since": 180}, READER))["drops"]) == 1
        agent.policy_log.take([records.record(flow)._replace(sequence=7)], str)
        for dummy in agent.instruments.registry.metrics():
            pass
        labels = ("deny", "Ingress", "policy", "default", "default/web")
        assert agent.instruments.policy_packets.value(*labels) == 3
        assert agent.instruments.policy_log_lost.value() == 5

    run(scenario())


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"name": "web"}, "policy.drops: name is not known. There are: workload, since, after."),
        ({"workload": 3}, "policy.drops: workload is 3, not a text of 1 to 1048576 characters."),
        ({"workload": ""}, "policy.drops: workload is '', not a text of 1 to 1048576 characters."),
        ({"since": -1}, "policy.drops: since is -1, not a number from 0 to 1e+12."),
        ({"after": True}, "policy.drops: after is True, not a number from 0 to 1e+12."),
    ],
)
def test_policy_drops_refuses_invalid_parameters(tmp_path: pathlib.Path, params: dict[str, t.Any], words: str) -> None:
    async def scenario() -> None:
        methods = Methods(await Node(tmp_path).start())
        with pytest.raises(AgentError) as raised:
            await Calls(methods.table).call(Request(1, "policy.drops", params), READER)
        assert str(raised.value) == words

    run(scenario())
