# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`ipam show` of a fleet with a datastore: whole pools, nodes and blocks, counted from published workloads."""

from __future__ import annotations

import json
import shutil
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.content import Published
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.details import EndpointDetails

from tests.unit.cli.commands.test_ipam import SHOWN, serve
from tests.unit.cli.conftest import Node
from tests.unit.cli.fake_fleet import FakeFleet, fleet_of, publish_workloads

COUNTED = "Counts are of {} that {} published, without addresses of tunnels and probe endpoints."


@pytest.fixture
def fleet(node: Node, monkeypatch: pytest.MonkeyPatch) -> FakeFleet:
    serve(node)
    made = fleet_of(node, monkeypatch)
    publish_workloads(made)
    return made


def cells(out: str) -> list[list[str]]:
    """Return the cells of the rows of a table with rules."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("| ")][1:]


def test_pools_are_counted_whole(node: Node, fleet: FakeFleet) -> None:
    status, out, err = node.run("ipam", "show")
    assert (status, err) == (0, "")
    assert cells(out) == [
        ["IP Pool", "10.244.0.0/16", "65536", "4 (0%)", "4 (0%)", "65528 (100%)"],
        ["IP Pool", "10.245.0.0/24", "256", "1 (0%)", "0 (0%)", "255 (100%)"],
    ]
    assert out.endswith(COUNTED.format("4 workloads", "3 nodes have") + "\n")


def test_nodes_and_blocks(node: Node, fleet: FakeFleet) -> None:
    assert [row[:4] for row in cells(node.run("ipam", "show", "--show-nodes")[1])] == [
        ["IP Pool", "10.244.0.0/16", "65536", "4 (0%)"],
        ["Node node1", "", "128", "1 (1%)"],
        ["Node node2", "", "64", "1 (2%)"],
        ["Node node3", "", "64", "2 (3%)"],
        ["IP Pool", "10.245.0.0/24", "256", "1 (0%)"],
        ["Node node3", "", "16", "1 (6%)"],
    ]
    status, out, err = node.run("ipam", "show", "--show-blocks", "--node", "node3")
    assert (status, err) == (0, "")
    assert [row[:4] for row in cells(out)] == [
        ["Node node3", "10.244.0.0/16", "64", "2 (3%)"],
        ["Block", "10.244.5.0/26", "64", "2 (3%)"],
        ["Node node3", "10.245.0.0/24", "16", "1 (6%)"],
        ["Block", "10.245.0.16/28", "16", "1 (6%)"],
    ]
    assert out.endswith(COUNTED.format("2 workloads", "node node3 has") + "\n")
    asked = fleet.asked
    assert node.run("ipam", "show", "--node", "node1") == (0, SHOWN, "")
    assert fleet.asked == asked


def test_the_answer_for_programs(node: Node, fleet: FakeFleet) -> None:
    found = json.loads(node.run("ipam", "show", "-o", "json")[1])
    assert found["pools"][0] == {
        "name": "default-ipv4-ippool", "cidr": "10.244.0.0/16",
        "size": 65536, "in_use": 4, "reserved": 4, "free": 65528,
    }  # fmt: skip
    assert found["usage"][0] == {
        "node": "node1", "pool": "default-ipv4-ippool", "cidr": "10.244.3.0/26",
        "size": 64, "in_use": 1, "reserved": 4, "free": 59,
    }  # fmt: skip
    about = {"node": "node2", "workload": "default/db-2", "by": "inventory"}
    assert {"address": "10.244.4.1", "handle": "default/db-2", "attributes": about} in found["allocations"]


def test_an_address_of_another_node(node: Node, fleet: FakeFleet) -> None:
    """A node answers for its own blocks without the datastore."""
    assert node.run("ipam", "show", "--ip", "10.244.5.2") == (
        0,
        "IP 10.244.5.2 is in use\nHandle ID: prod/cart\nActive Owner Attributes:\n  node: node3\n"
        "  workload: prod/cart\n",
        "",
    )
    fleet.publish("node3", "box", "10.244.5.8", details=EndpointDetails(by="docker"))
    assert "  by: docker\n  node: node3\n" in node.run("ipam", "show", "--ip", "10.244.5.8")[1]
    assert node.run("ipam", "show", "--ip", "10.244.5.9")[1].startswith(
        "10.244.5.9 is not assigned to a workload that is published. It is in block 10.244.5.0/26 of node3, "
    )
    assert node.run("ipam", "show", "--ip", "10.244.99.9") == (0, "10.244.99.9 is not assigned\n", "")
    asked = fleet.asked
    assert "default/web-1" in node.run("ipam", "show", "--ip", "10.244.3.2")[1]
    assert node.run("ipam", "show", "--ip", "10.244.3.9") == (0, "10.244.3.9 is not assigned\n", "")
    assert fleet.asked == asked


def test_without_a_datastore(node: Node, fleet: FakeFleet) -> None:
    """The answer says that it is about this node's blocks; why the datastore cannot be read is on stderr."""
    for member in fleet.etcd.members.values():
        member.up = False
    status, out, err = node.run("ipam", "show")
    assert (status, out) == (0, SHOWN) and "node1's view alone: the datastore cannot be read" in err
    fleet.leave()
    assert node.run("ipam", "show") == (0, SHOWN, "")


def test_the_controller(node: Node, fleet: FakeFleet, program: object) -> None:
    """A node's user may read blocks alone; the user of runs may read pools as well."""
    shutil.rmtree(node.machine.store)
    node.controller = True
    status, out, err = node.run("ipam", "show")
    assert (status, err) == (0, "") and [row[:3] for row in cells(out)] == [
        ["Node node1", "", "128"], ["Node node2", "", "64"], ["Node node3", "", "80"],
    ]  # fmt: skip
    assert out.endswith("Reservations are known on nodes alone. This user of the datastore may not read pools.\n")
    for key, value in Published({}, {"default": {"cidr": "10.244.0.0/16"}}, {}).values().items():
        fleet.etcd.put(key, value)
    fleet.etcd.put(keys.pool_key("bad"), b'{"cidr": "10.244.0.7/16"}')
    fleet.read_as("root")
    status, out, err = node.run("ipam", "show")
    assert [row[:4] for row in cells(out)] == [
        ["IP Pool", "10.244.0.0/16", "65536", "4 (0%)"],
        ["Node node3", "", "16", "1 (6%)"],
    ]
    assert err == (
        "calicoctl: /host-routing/v1/pools/bad of the datastore is left out: its field cidr is 10.244.0.7/16, not a "
        "CIDR without host bits.\n"
    )
    status, out, err = node.run("ipam", "show", "--node", "node2", "-i", str(node.folder / "hosts"))
    assert (status, out) == (2, "") and "leave out -i" in err


def test_hostile_nodes_are_not_counted(node: Node, fleet: FakeFleet) -> None:
    """An address counts once, however often it is published, and only in a block of the node that publishes it."""
    for number in range(60):
        fleet.publish("node2", f"w{number}", "10.244.4.1", interface=f"calix{number}")
    fleet.publish("node2", "stolen", "10.244.5.7")
    fleet.etcd.put(keys.endpoint_key("node2", "cali666"), b"\x1b[2J")
    status, out, err = node.run("ipam", "show", "--show-nodes")
    assert [row[3] for row in cells(out)][:4] == ["4 (0%)", "1 (1%)", "1 (2%)", "2 (3%)"]
    assert status == 0 and "\x1b" not in out + err and "is left out" in err


def test_ten_thousand_workloads_are_counted_within_seconds(node: Node, fleet: FakeFleet) -> None:
    fleet.publish_many(200, 50)
    began = time.process_time()
    status, out, err = node.run("ipam", "show", "--show-blocks")
    assert (status, err) == (0, "") and len(cells(out)) > 400 and "10004 workloads" in out
    assert time.process_time() - began < 10
