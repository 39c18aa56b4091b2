# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action fleet_resources, with inventories as Ansible reads them."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.resource_key import with_version
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources

from tests.unit.plugin_utils import controller

FLEET = """\
all:
  vars:
    calico_ip_pools:
      - {name: default, cidr: 10.244.0.0/16, encapsulation: IPIP, nodeSelector: "rack == 'a'"}
      - {name: other, cidr: 10.245.0.0/16, encapsulation: None}
    calico_ip_reservations: [10.244.7.0/30]
    calico_bgp_log_severity: None
    calico_bgp_communities: [{name: ours, value: "64512:7"}]
    calico_bgp_prefix_advertisements: [{cidr: 10.244.0.0/16, communities: [ours]}]
    calico_bgp_filters: [{name: no-default, exportV4: [{action: Reject, cidr: 0.0.0.0/0, matchOperator: Equal}]}]
    calico_bgp_peers:
      - {peerIP: 10.10.1.1, asNumber: 65000, filters: [no-default], bfd: true}
    calico_workloads: [{name: web, node: node1, labels: {app: web}}]
    calico_policies:
      - {kind: GlobalNetworkPolicy, name: all, selector: all(), types: [Ingress], ingress: [{action: Allow}]}
      - {kind: GlobalNetworkSet, name: unused, nets: [192.0.2.0/24]}
      - {kind: HostEndpoint, name: eth0-of-node2, node: node2, interfaceName: eth0}
calico_nodes:
  hosts:
    node1:
      calico_node_address: 10.10.1.11/24
      calico_node_labels: {rack: a}
      calico_node_bgp_peers: [{name: tor, peerIP: 10.10.1.2, asNumber: 65001}]
    node2:
      calico_node_agent_address_cooldown: '300'
      calico_node_address: 10.10.1.12/24
      calico_node_bgp_as_number: 64520
      calico_node_labels: {rack: a}
  children:
    rack_b:
      vars:
        calico_bgp_peers_rack_b:
          - {name: spine, peerIP: 10.10.1.3, asNumber: 65001}
          - {name: leaf, peerIP: 10.10.1.4, asNumber: 65001, nodeSelector: has(fast)}
      hosts:
        node3: {calico_node_address: 10.10.1.13/24, calico_node_labels: {fast: "yes"}}
        node4: {calico_node_address: 10.10.1.14/24}
"""
WRONG = FLEET.replace("10.10.1.11/24", "10.10.1.400/24")
NO_BGP = """\
all: {vars: {calico_ip_pools: [{name: p, cidr: 10.244.0.0/16, encapsulation: VXLAN}], calico_bgp_enabled: false}}
calico_nodes: {hosts: {node1: {calico_node_agent_address_cooldown: 60, calico_node_address: 10.10.1.11/24}}}
"""
INVENTORIES = {"fleet": FLEET, "wrong": WRONG, "no-bgp": NO_BGP}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, t.Any]]:
    """The results by inventory; `written` is the answer file."""
    folder = tmp_path_factory.mktemp("resources")
    runs = {}
    for name, text in INVENTORIES.items():
        (folder / f"{name}.yml").write_text(text)
        args = {"output": "none", "answer_file": str(folder / f"{name}.json")}
        runs[name] = controller.Run("fleet_resources", args, str(folder / f"{name}.yml"), {"node1": {}})
    results = dict(zip(runs, controller.run(list(runs.values()))))
    wrong = [result["exception"] for result in results.values() if "exception" in result]
    assert not wrong, wrong[0]
    return {
        name: {**result, "written": json.loads((folder / f"{name}.json").read_text())}
        for name, result in results.items()
    }


def of(answers: dict[str, dict[str, t.Any]], kind: str, inventory: str = "fleet") -> dict[str, dict[str, t.Any]]:
    """Return {name: spec} of the documents of a kind."""
    documents = answers[inventory]["written"]["answer"]["resources"][kind]
    return {document["metadata"]["name"]: document["spec"] for document in documents}


def test_nodes_have_their_addresses_of_tunnels(answers: dict[str, dict[str, t.Any]]) -> None:
    nodes = of(answers, "Node")
    tunnel = nodes["node1"]["bgp"].pop("ipv4IPIPTunnelAddr")
    assert tunnel.startswith("10.244.")
    assert nodes["node1"] == {"bgp": {"ipv4Address": "10.10.1.11/24"}}
    assert nodes["node2"]["bgp"]["asNumber"] == 64520
    allocations = answers["fleet"]["written"]["answer"]["ipam"]["allocations"]
    assert {"address": tunnel, "handle": "ipip-tunnel-addr-node1"}.items() <= next(
        entry for entry in allocations if entry["address"] == tunnel
    ).items()
    alone = of(answers, "Node", "no-bgp")["node1"]
    assert set(alone) == {"bgp", "ipv4VXLANTunnelAddr", "vxlanTunnelMACAddr"}


def test_peers_have_a_name_and_the_nodes_that_they_are_written_for(answers: dict[str, dict[str, t.Any]]) -> None:
    peers = of(answers, "BGPPeer")
    assert {name: (one.get("node"), one.get("nodeSelector")) for name, one in peers.items()} == {
        "calico-bgp-peers-0": (None, None),
        "spine": (None, "kubernetes.io/hostname in { 'node3', 'node4' }"),
        "leaf": (None, "(has(fast)) && kubernetes.io/hostname in { 'node3', 'node4' }"),
        "tor": ("node1", None),
    }
    (first, *dummy) = answers["fleet"]["written"]["answer"]["resources"]["BGPPeer"]
    assert first["metadata"]["annotations"] == {
        "baremetal.host-routing/bfd": '{"minRx": 100, "minTx": 100, "multiplier": 5}'
    }


def test_bgp_resources_are_listed_only_with_bgp(answers: dict[str, dict[str, t.Any]]) -> None:
    expected = {
        "asNumber": 64512,
        "listenPort": 179,
        "logSeverityScreen": "Fatal",
        "nodeToNodeMeshEnabled": True,
        "bindMode": "None",
        "communities": [{"name": "ours", "value": "64512:7"}],
        "prefixAdvertisements": [{"cidr": "10.244.0.0/16", "communities": ["ours"]}],
    }
    assert expected.items() <= of(answers, "BGPConfiguration")["default"].items()
    assert list(of(answers, "BGPFilter")) == ["no-default"]
    for kind in ("BGPConfiguration", "BGPFilter", "BGPPeer"):
        assert of(answers, kind, "no-bgp") == {}


def test_unused_sets_and_endpoints_of_all_nodes_are_resources(answers: dict[str, dict[str, t.Any]]) -> None:
    """Network sets that no rule means, and host endpoints of all nodes, are among the resources."""
    assert list(of(answers, "IPPool")) == ["default", "other"]
    assert of(answers, "IPReservation") == {"calico-ip-reservations": {"reservedCIDRs": ["10.244.7.0/30"]}}
    assert list(of(answers, "GlobalNetworkPolicy")) == ["all"]
    assert list(of(answers, "GlobalNetworkSet")) == ["unused"]
    assert of(answers, "HostEndpoint")["eth0-of-node2"]["node"] == "node2"
    (web,) = of(answers, "WorkloadEndpoint").values()
    assert (web["workload"], web["node"]) == ("web", "node1")


def test_all_documents_are_accepted_back(answers: dict[str, dict[str, t.Any]]) -> None:
    """Every document but those that are no input here is one that `validate` takes."""
    found = answers["fleet"]["written"]["answer"]["resources"]
    for kind, documents in found.items():
        for document in documents:
            if kind not in ("Node", "WorkloadEndpoint"):
                assert with_version(resources.parse(document).to_document()) == document


def test_ipam_usage_and_allocations_are_in_the_answer(answers: dict[str, dict[str, t.Any]]) -> None:
    ipam = answers["fleet"]["written"]["answer"]["ipam"]
    assert ipam["pools"] == {"default": "10.244.0.0/16", "other": "10.245.0.0/16"}
    assert (ipam["lockfile"].rpartition("/")[2], ipam["planned"]) == (".calico.lock.yml", False)
    assert {block["node"] for block in ipam["usage"]} == {"node1", "node2", "node3", "node4"}
    web = next(entry for entry in ipam["allocations"] if entry["handle"] == "default/web")
    in_use = sum(block["in_use"] for block in ipam["usage"])
    assert in_use == len(ipam["allocations"]) and web["attributes"]["node"] == "node1"
    assert ipam["configuration"]["StrictAffinity"] == "true"
    cooldown = [
        answers[name]["written"]["answer"]["ipam"]["configuration"]["IPCooldownSeconds"] for name in ("fleet", "no-bgp")
    ]
    assert cooldown == ["30 to 300, by node", "60"]


def test_the_output_counts_resources_by_kind(answers: dict[str, dict[str, t.Any]]) -> None:
    assert answers["no-bgp"]["lines"] == [
        "KIND                 COUNT",
        "Node                 1",
        "IPPool               1",
        "IPAMConfiguration    1",
        "FelixConfiguration   1",
    ]
    assert answers["no-bgp"]["changed"] is False


def test_an_invalid_inventory_fails_and_the_error_is_written(answers: dict[str, dict[str, t.Any]]) -> None:
    answer = answers["wrong"]
    assert answer["failed"] is True
    assert answer["written"] == {"error": answer["msg"]}
    assert "calico_node_address of node1 10.10.1.400/24 " in answer["msg"]
