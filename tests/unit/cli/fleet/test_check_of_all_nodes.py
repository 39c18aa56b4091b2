# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`ipam check` of a fleet: what nodes hold beside what the datastore has of them."""

from __future__ import annotations

import json
import shutil
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.fleet import fleet_check, held_answers
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.fleet.fleet_check import (
    FleetKnowledge,
    NodeHolds,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, heartbeats, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat

from tests.unit.cli.commands.test_ipam import fill
from tests.unit.cli.conftest import Node
from tests.unit.cli.fake_fleet import FakeFleet, fleet_of, publish_workloads

BLOCKS = {"n1": ("10.244.1.0/26",), "n2": ("10.244.2.0/26", "10.244.9.0/26")}
ASKED = "calicoctl: of the nodes, only node1 was asked: of the others this is what they have published. "


def holds(*blocks: str, allocated: t.Iterable[str] = (), **workloads: str) -> NodeHolds:
    """Return what a node holds; each workload has one address."""
    held = {f"default/{name}": (address,) for name, address in workloads.items()}
    return NodeHolds(blocks, held, {}, frozenset([*workloads.values(), *allocated]))


def found(holding: t.Mapping[str, NodeHolds], published: t.Mapping[str, fleet_check.Held]) -> dict[str, t.Any]:
    """Return the kinds that have problems."""
    known = FleetKnowledge("etcd", BLOCKS, published, holding)
    return {kind: entries for kind, entries in fleet_check.check(known).found.items() if entries}


GOOD = {"n1": holds("10.244.1.0/26", web="10.244.1.2"), "n2": holds(*BLOCKS["n2"], db="10.244.9.4")}
PUBLISHED = {"n1": {"default/web": ("10.244.1.2",)}, "n2": {"default/db": ("10.244.9.4",)}}


def test_a_fleet_without_a_difference() -> None:
    assert found(GOOD, PUBLISHED) == {}
    lines = fleet_check.check(FleetKnowledge("etcd", BLOCKS, PUBLISHED, GOOD)).lines
    assert lines[-1] == "Check of the fleet complete; found 0 problems." and "Found 3 blocks of 2 nodes." in lines


def test_each_difference_is_named_once() -> None:
    n1, n2 = GOOD["n1"], GOOD["n2"]
    assert found({**GOOD, "n1": n1._replace(blocks=("10.244.7.0/26",))}, PUBLISHED)["blocks"] == [
        {"cidr": "10.244.1.0/26", "node": "n1", "known_to": "etcd"},
        {"cidr": "10.244.7.0/26", "node": "n1", "known_to": "n1"},
    ]
    more = {**n1.attached, "default/new": ("10.244.1.3",)}
    new = {"node": "n1", "workload": "default/new", "address": "10.244.1.3"}
    assert found({**GOOD, "n1": n1._replace(attached=more)}, PUBLISHED) == {"missing": [new], "unpublished": [new]}
    assert found(GOOD, {**PUBLISHED, "n1": {**PUBLISHED["n1"], "default/new": ("10.244.1.3",)}}) == {"stale": [new]}
    leaked = n2._replace(allocated=frozenset(["10.244.9.4", "10.244.9.5"]))
    assert found({**GOOD, "n2": leaked}, PUBLISHED) == {"leaked": [{"node": "n2", "address": "10.244.9.5"}]}
    twice = n2._replace(planned={"default/other": ("10.244.9.4",)})
    assert found({**GOOD, "n2": twice}, PUBLISHED) == {
        "duplicate": [{"address": "10.244.9.4", "workloads": ["default/db on n2", "default/other on n2"]}]
    }


def test_blocks_of_two_nodes_overlap() -> None:
    blocks = {"n1": ("10.244.0.0/24", "10.244.0.0/26", "fd00::/64"), "n2": ("10.244.0.64/26", "10.244.1.0/26")}
    known = FleetKnowledge("etcd", blocks, {}, {})
    assert fleet_check.check(known).found["overlapping"] == [
        {"cidr": "10.244.0.64/26", "node": "n2", "other": "10.244.0.0/24", "other_node": "n1"}
    ]


def test_a_node_that_lies_is_the_only_one_with_problems() -> None:
    """An address and a block of another node that a node claims are problems of the one that claims them."""
    liar = holds(*BLOCKS["n2"], "10.244.1.0/26", db="10.244.9.4", evil="10.244.1.2")
    problems = found({**GOOD, "n2": liar}, PUBLISHED)
    assert set(problems) == {"blocks", "outside", "unpublished"}
    assert {entry["node"] for entries in problems.values() for entry in entries} == {"n2"}


def test_many_problems_are_cut_in_lines_alone() -> None:
    many = holds(*BLOCKS["n2"], allocated=[f"10.244.9.{number}" for number in range(250)], db="10.244.9.4")
    made = fleet_check.check(FleetKnowledge("etcd", BLOCKS, PUBLISHED, {**GOOD, "n2": many}))
    assert len(made.found["leaked"]) == made.problems == 249 and "  and 149 more" in made.lines
    assert len(made.lines) < 150


NODE = {
    "blocks": [{"cidr": "10.244.1.0/26", "pool": "p", "spare": False}],
    "workloads": [{"name": "db", "namespace": "prod", "address": "10.244.1.1", "address6": "", "up": True}],
    "ipam": {"allocated": {"10.244.1.2": "default/web"}, "opened": []},
}
WEB = {
    "kind": "WorkloadEndpoint", "name": "default/web", "namespace": "default", "node": "n1", "interface": "cali1",
    "addresses": ["10.244.1.2"],
}  # fmt: skip


def test_answers_of_a_node_are_read() -> None:
    held, left_out = held_answers.read("n1", NODE, {"node": "n1", "endpoints": [WEB, {**WEB, "addresses": ["x"]}]})
    assert held == NodeHolds(
        ("10.244.1.0/26",), {"default/web": ("10.244.1.2",)}, {"prod/db": ("10.244.1.1",)}, frozenset(["10.244.1.2"])
    )
    assert len(left_out) == 1


@pytest.mark.parametrize(
    ("node", "endpoints"),
    [
        ({}, {}),
        ({"blocks": [{"cidr": "10.244.1.7/26"}]}, {}),
        ({"blocks": [{"cidr": "\x1b[2J"}]}, {}),
        ({"blocks": "10.244.1.0/26"}, {}),
        ({"workloads": [{"name": "x" * 9999, "namespace": "a"}]}, {}),
        ({"workloads": [{"name": "x", "namespace": "a", "address": "10.244.1.1/8"}]}, {}),
        ({"ipam": {"allocated": {"10.1": "h"}}}, {}),
        ({"ipam": {"allocated": {f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}": "h" for n in range(70_000)}}}, {}),
        ({}, {"node": "n2"}),
        ({}, {"node": ["n1"]}),
        ({}, {"node": ""}),
    ],
)
def test_hostile_answers_are_refused(node: dict[str, t.Any], endpoints: dict[str, t.Any]) -> None:
    whole = {"node": "n1", "endpoints": [], **endpoints}
    with pytest.raises(Unreadable) as refused:
        held_answers.read("n1", {**NODE, **node} if node or endpoints else {}, whole)
    assert "\x1b" not in str(refused.value) and len(str(refused.value)) < 500


# --- the command ---


@pytest.fixture
def fleet(node: Node, monkeypatch: pytest.MonkeyPatch) -> FakeFleet:
    fill(node)
    made = fleet_of(node, monkeypatch)
    publish_workloads(made)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return made


def beat(fleet: FakeFleet, node: str, workloads: int) -> None:
    fleet.etcd.put(keys.heartbeat_key(node), heartbeats.encode(Heartbeat(node, 1.0, "0.2.0", workloads=workloads)))


def test_a_node_compares_itself_and_etcd(node: Node, fleet: FakeFleet) -> None:
    """node1 has published a workload that it does not have, and not those that it has."""
    status, out, err = node.run("ipam", "check", "-o", "json")
    answer = json.loads(out)
    assert status == 1 and err.endswith(
        f"{ASKED}`calicoctl ipam check -i INVENTORY` on the controller asks all nodes.\n"
    )
    assert answer["fleet"]["asked"] == ["node1"] and answer["leaked"] == []
    assert [entry["workload"] for entry in answer["fleet"]["stale"]] == ["default/gone"]
    unpublished = {entry["workload"] for entry in answer["fleet"]["unpublished"]}
    assert "default/web-1" in unpublished and answer["problems"] == answer["fleet"]["problems"] == len(unpublished) + 1
    status, out, err = node.run("ipam", "check")
    assert status == 1 and "10.244.3.9 of default/gone in etcd, not on node1" in out
    assert "Check complete; found 0 problems." in out and "Found 5 blocks of 3 nodes." in out


def test_a_heartbeat_counts_other_workloads(node: Node, fleet: FakeFleet) -> None:
    beat(fleet, "node2", 1)
    beat(fleet, "node3", 5)
    answer = json.loads(node.run("ipam", "check", "-o", "json")[1])
    assert answer["fleet"]["counts"] == [{"node": "node3", "counted": 5, "published": 2}]


def test_a_count_that_is_right_a_moment_later_is_no_problem(
    node: Node, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat(fleet, "node3", 5)
    monkeypatch.setattr(time, "sleep", lambda seconds: beat(fleet, "node3", 2))
    assert json.loads(node.run("ipam", "check", "-o", "json")[1])["fleet"]["counts"] == []


def test_the_controller_has_what_is_published(node: Node, fleet: FakeFleet, program: object) -> None:
    shutil.rmtree(node.machine.store)
    node.controller = True
    status, out, err = node.run("ipam", "check")
    assert (status, out.splitlines()[-1]) == (0, "Check of the fleet complete; found 0 problems.")
    assert err.startswith("calicoctl: no node was asked: of the others this")
    fleet.etcd.put(keys.blocks_key("node4"), documents.encode_blocks(["10.244.5.0/27"]))
    status, out, _err = node.run("ipam", "check")
    assert status == 1 and "  10.244.5.0/27 of node4 overlaps with 10.244.5.0/26 of node3" in out.splitlines()


def test_documents_that_are_refused_are_problems(node: Node, fleet: FakeFleet, program: object) -> None:
    shutil.rmtree(node.machine.store)
    node.controller = True
    fleet.publish("node2", "stolen", "10.244.5.7")
    fleet.etcd.put(keys.endpoint_key("node2", "cali666"), b"\x1b[2J")
    status, out, err = node.run("ipam", "check", "-o", "json")
    assert status == 1 and len(json.loads(out)["refused"]) == 1 and "\x1b" not in out + err


def test_without_a_datastore_it_says_so(node: Node, fleet: FakeFleet) -> None:
    for member in fleet.etcd.members.values():
        member.up = False
    status, _out, err = node.run("ipam", "check")
    assert status == 0 and "node1's view alone: the datastore cannot be read" in err
    fleet.leave()
    status, _out, err = node.run("ipam", "check")
    assert status == 0 and err.endswith(
        "node1's view alone: without a datastore, a node knows only its own workloads.\n"
    )
    assert "datastore" not in node.run("ipam", "check", "-o", "json")[2]


def test_a_workload_that_comes_meanwhile_is_no_problem(
    node: Node, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A difference that is gone a moment later, and one that begins then, are both left out."""
    fleet.etcd.delete(keys.endpoint_key("node1", "cali1gone"))

    def publish(seconds: float) -> None:
        for workload in json.loads(first)["fleet"]["unpublished"]:
            fleet.publish("node1", workload["workload"], workload["address"])
        fleet.publish("node1", "new", "10.244.3.60")

    first = node.run("ipam", "check", "-o", "json")[1]
    monkeypatch.setattr(time, "sleep", publish)
    found = json.loads(node.run("ipam", "check", "-o", "json")[1])["fleet"]
    assert json.loads(first)["fleet"]["unpublished"] and (found["unpublished"], found["stale"]) == ([], [])


def test_one_node_is_chosen(node: Node, fleet: FakeFleet) -> None:
    """A node checks itself without the datastore; the check of another one reads its workloads alone."""
    beat(fleet, "node2", 1)
    beat(fleet, "node3", 5)
    asked = fleet.asked
    status, out, err = node.run("ipam", "check", "--node", "node1")
    assert (status, err.count("\n")) == (0, 1) and "of the fleet" not in out and fleet.asked == asked
    answer = json.loads(node.run("ipam", "check", "--node", "node3", "-o", "json")[1])
    assert (answer["problems"], answer["asked"]) == (1, [])
    assert answer["counts"] == [{"node": "node3", "counted": 5, "published": 2}]
    status, out, err = node.run("ipam", "check", "--node", "node2")
    assert status == 0 and "calicoctl: node2 was not asked: this is what it has published. " in err
    assert "Found 1 published workloads with 1 IPs." in out and "IPAM blocks record" not in out
    assert node.run("ipam", "check", "--node", "node9")[0] == 1
    status, out, err = node.run("ipam", "check", "--node", "node2", "-i", "hosts")
    assert (status, out) == (2, "") and "leave out -i" in err
