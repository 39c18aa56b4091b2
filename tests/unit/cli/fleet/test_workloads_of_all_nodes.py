# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads of all nodes by the datastore: on a node, on the controller, and as hostile nodes publish them."""

from __future__ import annotations

import json
import shutil
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.fleet import published_fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.content import Published
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.details import EndpointDetails

from tests.unit.cli.conftest import ALONE, Node
from tests.unit.cli.fake_fleet import FakeFleet, fleet_of, publish_workloads

ENDPOINTS = """\
NAMESPACE   WORKLOAD   NODE    NETWORKS                       INTERFACE
default     db         node1   10.244.3.1/32                  cali0d3f1c11aa2
default     web-1      node1   10.244.3.2/32                  cali1f2e3d4c5b6
default     db-2       node2   10.244.4.1/32                  cali2db-2
default     web-2      node3   10.244.5.1/32                  cali3web-2
prod        shop       node1   10.244.3.3/32                  cali99aabbccdde
prod        cart       node3   10.244.5.2/32,10.245.0.17/32   cali3cart

"""
LIST = """\
NAMESPACE   NAME    NODE    ADDRESS                  INTERFACE         BY
default     db      node1   10.244.3.1               cali0d3f1c11aa2   inventory
default     db-2    node2   10.244.4.1               cali2db-2         inventory
default     web-1   node1   10.244.3.2               cali1f2e3d4c5b6   api
default     web-2   node3   10.244.5.1               cali3web-2        agent
prod        cart    node3   10.244.5.2,10.245.0.17   cali3cart         agent
prod        shop    node1   10.244.3.3               cali99aabbccdde   cni
"""


@pytest.fixture
def fleet(node: Node, monkeypatch: pytest.MonkeyPatch) -> FakeFleet:
    node.store()
    node.agent()
    made = fleet_of(node, monkeypatch)
    publish_workloads(made)
    return made


def without_node(node: Node) -> None:
    """Let the host be no node, but the controller."""
    shutil.rmtree(node.machine.store)
    node.controller = True


def test_workload_endpoints_are_those_of_all_nodes(node: Node, fleet: FakeFleet) -> None:
    assert node.run("get", "workloadendpoints", "-A") == (0, ENDPOINTS, "")
    names = [line.split()[0] for line in node.run("get", "wep")[1].splitlines()[1:-1]]
    assert names == ["db", "web-1", "db-2", "web-2"]
    document = json.loads(node.run("get", "wep", "db-2", "-o", "json")[1])
    assert document == {
        "apiVersion": "projectcalico.org/v3",
        "kind": "WorkloadEndpoint",
        "metadata": {"name": "node2-ansible-db--2-cali2db--2", "namespace": "default", "labels": {"app": "db"}},
        "spec": {
            "node": "node2",
            "orchestrator": "ansible",
            "workload": "db-2",
            "ipNetworks": ["10.244.4.1/32"],
            "interfaceName": "cali2db-2",
        },
    }
    web = node.run("get", "wep", "-A", "--selector", "app in {'web', 'cart'}", "-o", "custom-columns=WORKLOAD,NODE")[1]
    assert [line.split()[1:] for line in web.splitlines()[1:-1]] == [
        ["web-1", "node1"], ["web-2", "node3"], ["cart", "node3"],
    ]  # fmt: skip


def test_workload_list_has_all_nodes(node: Node, fleet: FakeFleet) -> None:
    assert node.run("workload", "list") == (0, LIST, "")
    chosen = node.run("workload", "list", "--selector", "app == 'web' || projectcalico.org/namespace == 'prod'")
    assert chosen[0] == 0 and [line.split()[1] for line in chosen[1].splitlines()[1:]] == [
        "web-1", "web-2", "cart", "shop",
    ]  # fmt: skip
    found = json.loads(node.run("workload", "list", "-o", "json")[1])["workloads"]
    assert [(one["id"], one["node"], one["by"]) for one in found if one["node"] != "node1"] == [
        ("default/db-2", "node2", "inventory"),
        ("default/web-2", "node3", "agent"),
        ("prod/cart", "node3", "agent"),
    ]
    assert "app=cart" in node.run("workload", "list", "-o", "wide")[1]
    status, out, err = node.run("workload", "list", "--selector", "app = 'web'")
    assert (status, out) == (2, "") and err.startswith("calicoctl: --selector: selector ")


def test_one_node_is_chosen(node: Node, fleet: FakeFleet) -> None:
    """`--node` reads no workloads of other nodes; this node answers for itself, with all that it knows."""
    listed = node.run("workload", "list", "--node", "node3")
    assert listed[0] == 0 and [line.split()[1] for line in listed[1].splitlines()[1:]] == ["web-2", "cart"]
    assert [line.split()[0] for line in node.run("get", "wep", "-A", "--node", "node2")[1].splitlines()[1:-1]] == [
        "default"
    ]
    asked = fleet.asked
    status, out, err = node.run("workload", "list", "--node", "node1")
    assert (status, err) == (0, "") and out.splitlines()[0].split()[-2:] == ["NETNS", "BY"]
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["db", "web-1", "shop"]
    assert fleet.asked == asked
    assert node.run("workload", "list", "--node", "node9") == (
        1, "", "calicoctl: the datastore has no node node9 with blocks. It has node1, node2, node3.\n",
    )  # fmt: skip
    assert node.run("workload", "list", "--node", "../x") == (
        1, "", "calicoctl: --node ../x is not the name of a node.\n",
    )  # fmt: skip
    status, out, err = node.run("get", "ippools", "--node", "node1")
    assert (status, out) == (2, "") and err.startswith("calicoctl: --node chooses among workload endpoints")


def test_without_a_datastore_the_view_is_one_node_s(node: Node, fleet: FakeFleet) -> None:
    """The answer is what this node knows, and one line on stderr says so, and why."""
    fleet.leave()
    for words in (("workload", "list"), ("get", "wep", "-A")):
        status, out, err = node.run(*words)
        assert (status, err) == (0, ALONE) and "web-1" in out and "web-2" not in out
    assert node.run("workload", "list", "--node", "node1")[2] == ""
    assert node.run("workload", "list", "--selector", "app == 'db'")[1].count("\n") == 2
    assert node.run("workload", "list", "--node", "node3") == (
        1, "",
        "calicoctl: node3 is not known here: without a datastore, a node knows only its own workloads. Run this on "
        "node3.\n",
    )  # fmt: skip


def test_a_datastore_that_is_away(node: Node, fleet: FakeFleet) -> None:
    for member in fleet.etcd.members.values():
        member.up = False
    status, out, err = node.run("workload", "list")
    assert status == 0 and "web-1" in out and "web-2" not in out and err.count("\n") == 1
    assert err.startswith("calicoctl: this is node1's view alone: the datastore cannot be read: no member of the etcd")


def test_the_controller_is_no_node(node: Node, fleet: FakeFleet) -> None:
    """It has the same answers by the same documents, with the rights of the user that its calicoctl.cfg names."""
    without_node(node)
    status, out, err = node.run("workload", "list")
    assert (status, err) == (0, "")
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["db-2", "gone", "web-2", "cart"]
    assert [line.split()[0] for line in node.run("get", "wep")[1].splitlines()[1:-1]] == ["gone", "db-2", "web-2"]
    assert node.run("get", "nodes") == (0, "NAME\nnode1\nnode2\nnode3\n\n", "")
    about = {
        "node2": {"address": "10.10.1.12/24", "as_number": 64512, "labels": {"rack": "b"}, "access": "0123"},
        "node3": {"address_ipv6": "fd00::3/64", "as_number": 64520, "reflector": True},
    }
    for key, value in Published(about, {}, {}).values().items():
        fleet.etcd.put(key, value)
    fleet.etcd.put(keys.node_key("node1"), b'{"as_number": "\\u001b[2J"}')
    fleet.read_as("root")
    status, out, err = node.run("get", "nodes", "-o", "custom-columns=NAME,ASN,IPV4,IPV6")
    assert [line.split() for line in out.splitlines()[1:-1]] == [
        ["node2", "64512", "10.10.1.12/24"], ["node3", "64520", "fd00::3/64"],
    ]  # fmt: skip
    assert err == (
        "calicoctl: /host-routing/v1/nodes/node1 of the datastore is left out: its field as_number is "
        "'\\x1b[2J', not a whole number from 0 to 4294967295.\n"
    )
    status, out, err = node.run("get", "ippools")
    assert (status, out) == (1, "") and "-i INVENTORY" in err
    fleet.leave()
    status, out, err = node.run("workload", "list")
    assert (status, out) == (1, "") and "-c FILE" in err


def test_hostile_nodes_cannot_forge_hide_or_write_to_the_terminal(node: Node, fleet: FakeFleet) -> None:
    """A node speaks for its own addresses and its own name alone; what is refused is named, with its bytes escaped."""
    fleet.publish("node2", "stolen", "10.244.5.7")  # an address of node3
    fleet.publish("node9", "nobody", "10.244.5.8")  # a node without blocks
    fleet.etcd.put(keys.endpoint_key("node2", "cali666"), b'{"name": "default/\\u001b[2J"}')
    fleet.etcd.put(f"{keys.ENDPOINTS}node2/\x1b]0;owned\x07", b"\x1b[2J")
    fleet.etcd.put(keys.endpoint_key("node2", "cali667"), b"[" * 60_000)
    for words in (("workload", "list"), ("get", "wep", "-A"), ("workload", "list", "-o", "json")):
        status, out, err = node.run(*words)
        assert status == 0 and "db-2" in out and not {"stolen", "nobody"} & set(out.split()) and "cali66" not in out
        assert err.startswith("calicoctl: /host-routing/v1/endpoints/node") and "4 more keys are left out" in err
        assert "\x1b" not in out + err and "\x07" not in out + err


def test_nodes_that_have_not_published_everything_are_named(node: Node, fleet: FakeFleet) -> None:
    fleet.etcd.delete(keys.complete_key("node3"))
    status, out, err = node.run("workload", "list")
    assert (status, err) == (0, "calicoctl: not all workloads are published yet by node3.\n") and "web-2" in out
    assert node.run("workload", "list", "--node", "node2")[2] == ""


def test_a_node_that_publishes_very_much_does_not_hide_the_others(
    node: Node, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published_fleet, "SHARE", published_fleet.SHARE._replace(keys=50, bytes=100_000))
    large = {f"label{number}": "x" * 60 for number in range(60)}
    for number in range(120):
        fleet.publish("node2", f"w{number}", "10.244.4.9", interface=f"cali{number:03}", labels=large)
    status, out, err = node.run("workload", "list")
    assert status == 0 and "web-2" in out and out.count("node2") < 120
    assert "keys of node2 are not read: of a node, 50 keys and" in err
    monkeypatch.setattr(published_fleet, "MOST_BYTES", 100_000)
    status, out, err = node.run("workload", "list")
    assert status == 0 and "web-1" in out and "web-2" not in out
    assert "view alone: the datastore cannot be read: it has more than" in err and "--node NAME" in err


def test_a_slow_datastore_ends_the_answer(node: Node, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_fleet, "SECONDS", 0.2)
    for member in fleet.etcd.members.values():
        member.stopped = True
    status, out, err = node.run("workload", "list")
    assert status == 0 and "web-1" in out and "it was not read within 0.2 s" in err


def test_ten_thousand_workloads_are_listed_within_seconds(node: Node, fleet: FakeFleet) -> None:
    fleet.publish_many(200, 50)
    began = time.process_time()
    status, out, err = node.run("workload", "list", "-o", "json")
    assert (status, err) == (0, "") and len(json.loads(out)["workloads"]) == 10_006
    assert time.process_time() - began < 10


def test_details_of_workloads_are_those_of_their_own_node(node: Node, fleet: FakeFleet) -> None:
    """`get`, `workload list` and `ipam show` name them as the node itself does."""
    about = EndpointDetails("default-ipv4-ippool", "docker", "eth0", "3f0c" * 16, "ee:ee:ee:ee:ee:0a", "crate")
    fleet.publish("node3", "box", "10.244.5.9", details=about)
    fleet.publish("node2", "own", "10.244.4.9", details=EndpointDetails("default-ipv4-ippool", "api", "net1"))
    document = json.loads(node.run("get", "wep", "box", "-o", "json")[1])
    assert document["metadata"]["name"] == "node3-docker-box-eth0"
    assert document["metadata"]["annotations"] == {"baremetal.host-routing/container": "crate"}
    assert json.loads(node.run("get", "wep", "crate", "-o", "json")[1]) == document
    assert document["spec"] == {
        "node": "node3",
        "orchestrator": "docker",
        "workload": "box",
        "endpoint": "eth0",
        "ipNetworks": ["10.244.5.9/32"],
        "interfaceName": "cali3box",
        "containerID": "3f0c" * 16,
        "mac": "ee:ee:ee:ee:ee:0a",
    }
    assert json.loads(node.run("get", "wep", "own", "-o", "json")[1])["spec"]["orchestrator"] == "calicoctl"
    listed = {one["id"]: one for one in json.loads(node.run("workload", "list", "-o", "json")[1])["workloads"]}
    box = listed["default/box"]
    assert (box["by"], box["pool"], box["peer_interface"], box["container"]) == (
        "docker", "default-ipv4-ippool", "eth0", "3f0c" * 16,
    )  # fmt: skip
    assert listed["default/own"]["by"] == "api" and "container" not in listed["default/own"]
    wide = [line.split() for line in node.run("workload", "list", "-o", "wide")[1].splitlines()]
    assert wide[0][-3:] == ["POOL", "LABELS", "CONTAINER"]
    assert ["default-ipv4-ippool", "-", "crate"] in [line[-3:] for line in wide]
    fleet.publish("node2", "other", "10.244.4.10", details=about)
    assert "crate is ambiguous: it is the container of " in node.run("get", "wep", "crate")[2]


def test_hostile_details_are_not_shown(node: Node, fleet: FakeFleet) -> None:
    fleet.publish("node3", "box", "10.244.5.9")
    key = keys.endpoint_key("node3", "cali3box")
    body = json.loads(fleet.etcd.data()[key.encode()].value or b"")
    for about in ({"by": "\x1b[2J", "pool": "p" * 9999, "endpoint": "a/b", "name": "\x1b]0;x"}, ["x"], "x" * 60_000):
        fleet.etcd.put(key, json.dumps({**body, "details": about}).encode())
        status, out, err = node.run("workload", "list", "-o", "json")
        box = next(one for one in json.loads(out)["workloads"] if one["id"] == "default/box")
        assert (status, err, box["by"]) == (0, "", "agent") and len(out) < 9999
        assert not {"pool", "peer_interface", "container", "mac", "container_name"} & set(box)
