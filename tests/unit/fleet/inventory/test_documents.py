# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents of files as variables: the same fleet, the same verdicts, and errors with file and line."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.document_text import documents_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import (
    KINDS,
    Merged,
    merged,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import Document
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.api import API_VERSION
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.setting_fields import FIELDS
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.fleet.fleets import LAB, hosts, pool, states

CASES = json.loads((pathlib.Path(__file__).parents[2] / "cases" / "validation.json").read_text(encoding="utf-8"))

EVERYTHING = """\
apiVersion: projectcalico.org/v3
kind: IPPoolList
metadata: {resourceVersion: "7"}
items:
- apiVersion: projectcalico.org/v3
  kind: IPPool
  metadata:
    name: default
    uid: 0a1b
    creationTimestamp: "2024-05-01T10:00:00Z"
    resourceVersion: "812"
    managedFields: [{manager: kubectl}]
    annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}
  spec: {cidr: 10.244.0.0/16, vxlanMode: Always, blockSize: 26, ipipMode: Never, natOutgoing: true}
  status: {conditions: []}
---
- apiVersion: projectcalico.org/v3
  kind: BGPPeer
  metadata: {name: tor}
  spec: {peerIP: 10.10.1.1, asNumber: 65000, filters: [in], node: node1}
- apiVersion: projectcalico.org/v3
  kind: BGPFilter
  metadata: {name: in}
  spec: {importV4: [{action: Accept, matchOperator: In, cidr: 10.0.0.0/8}]}
---
kind: IPReservation
metadata: {name: vips}
spec: {reservedCIDRs: [10.244.0.0/28, 10.244.3.7]}
---
kind: BGPConfiguration
metadata: {name: default}
spec:
  asNumber: "64600"
  nodeToNodeMeshEnabled: true
  nodeMeshMaxRestartTime: 2m
  logSeverityScreen: Warning
  communities: [{name: all, value: "64600:1"}]
  prefixAdvertisements: [{cidr: 10.244.0.0/16, communities: [all]}]
---
kind: BGPConfiguration
metadata: {name: node.node2}
spec: {listenPort: 1179}
---
kind: FelixConfiguration
metadata: {name: default}
spec:
  bpfLogLevel: ""
  vxlanPort: 4790
  vxlanMTU: 1400
  ipipMTU: 1430
  failsafeInboundHostPorts: [{protocol: TCP, port: 22, net: ""}]
  defaultEndpointToHostAction: Return
---
kind: IPAMConfiguration
metadata: {name: default}
spec: {strictAffinity: true, autoAllocateBlocks: true, maxBlocksPerHost: 0}
---
kind: Node
metadata: {name: node1, labels: {rack: a, kubernetes.io/hostname: node1}}
spec:
  bgp: {ipv4Address: 10.10.1.11/24, ipv4IPIPTunnelAddr: 10.244.7.1, asNumber: 64601}
  ipv4VXLANTunnelAddr: 10.244.7.2
  vxlanTunnelMACAddr: 66:aa:bb:cc:dd:ee
  orchRefs: [{nodeName: node1, orchestrator: k8s}]
  addresses: [{address: 10.10.1.11, type: InternalIP}]
status: {podCIDRs: [10.244.0.0/24]}
---
kind: GlobalNetworkPolicy
metadata: {name: deny}
spec: {selector: all(), types: [Ingress]}
---
kind: Profile
metadata: {name: projectcalico-default-allow}
spec: {ingress: [{action: Allow}], egress: [{action: Allow}]}
"""
AS_VARIABLES: dict[str, t.Any] = {
    "bgp_peers": [{"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000, "filters": ["in"], "node": "node1"}],
    "bgp_filters": [{"name": "in", "importV4": [{"action": "Accept", "matchOperator": "In", "cidr": "10.0.0.0/8"}]}],
    "ip_reservations": ["10.244.0.0/28", "10.244.3.7"],
    "bgp_as_number": 64600,
    "bgp_node_to_node_mesh": True,
    "bgp_mesh_max_restart_time": 120,
    "bgp_log_severity": "Warning",
    "bgp_communities": [{"name": "all", "value": "64600:1"}],
    "bgp_prefix_advertisements": [{"cidr": "10.244.0.0/16", "communities": ["all"]}],
    "vxlan_port": 4790,
    "underlay_mtu": 1450,
    "failsafe_inbound_host_ports": [{"protocol": "tcp", "port": 22}],
    "default_endpoint_to_host_action": "Return",
    "policies": [{"kind": "GlobalNetworkPolicy", "name": "deny", "selector": "all()", "types": ["Ingress"]}],
}
OWN = {
    "node1": {"calico_node_labels": {"rack": "a"}, "calico_node_bgp_as_number": 64601},
    "node2": {"calico_node_bgp_listen_port": 1179},
}


def documents(text: str, file: str = "r.yml") -> list[Document]:
    return [Document(content, file, line) for content, line in documents_of(text, file)]


def bare(*without: str, **variables: t.Any) -> list[Host]:
    """Return the lab's hosts without these variables, which documents of a test give."""
    found = hosts(**variables)
    return [
        dataclasses.replace(
            host, variables={name: host.variables[name] for name in host.variables if name not in without}
        )
        for host in found
    ]


def merge(text: str, *without: str, **variables: t.Any) -> Merged:
    return merged(bare(*without, **variables), documents(text))


def refusal(text: str, *without: str, **variables: t.Any) -> str:
    """Return the error for which an inventory with these documents is refused."""
    found = merge(text, *without, **variables)
    if found.errors:
        return str(found.errors[0])
    with pytest.raises(FleetError) as caught:
        inventory.read(found.hosts, found.policies)
    return str(caught.value)


def test_documents_mean_the_same_fleet_as_variables() -> None:
    without = bare("calico_ip_pools")
    without[0] = dataclasses.replace(
        without[0], variables={"calico_workloads": without[0].variables["calico_workloads"]}
    )
    found = merged(without, documents(EVERYTHING))
    assert found.errors == ()
    assert found.without_effect == ()
    by_file = Fleet.build(inventory.read(found.hosts, found.policies), None)
    by_variable = Fleet.build(
        inventory.read(hosts(pool("vxlan", blockSize=26, natOutgoing=True), own=OWN, **AS_VARIABLES)), None
    )
    assert states(by_file) == states(by_variable)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("- kind: IPPool\n- kind: BGPPeer\n", [1, 2]),
        ("- kind: IPPoolList\n  items:\n  - kind: IPPool\n  - kind: IPPool\n- kind: Tier\n", [3, 4, 5]),
        ("kind: IPPoolList\nitems: null\n", []),
        ("kind: List\nitems: []\n---\n[]\n", []),
    ],
)
def test_lists_without_a_kind_are_read(text: str, lines: list[int]) -> None:
    """Several resources that calicoctl is asked for by name are printed as a list of documents or lists."""
    assert [line("") for dummy, line in documents_of(text, "r.yml")] == lines
    assert [line("kind") for dummy, line in documents_of(text, "r.yml")] == lines


def test_a_list_of_documents_is_made_once_for_all_hosts() -> None:
    shared = [pool()]
    given = [Host(name, {"calico_ip_pools": shared}) for name in LAB]
    text = "kind: IPPool\nmetadata: {name: b}\nspec: {cidr: 10.1.0.0/16}\n"
    found = merged(given, documents(text)).hosts
    assert len({id(host.variables["calico_ip_pools"]) for host in found}) == 1
    assert [entry.get("name") for entry in found[0].variables["calico_ip_pools"]] == ["default", None]
    assert shared == [pool()]


POOL = "kind: IPPool\nmetadata:\n  name: b\nspec:\n  cidr: {}\n"
BGP = "kind: BGPConfiguration\nmetadata: {name: default}\nspec:\n"
FELIX = BGP.replace("BGP", "Felix")


@pytest.mark.parametrize(
    ("text", "variables", "message"),
    [
        (
            POOL.format("10.244.1.0/24"),
            {},
            "r.yml:5: IPPool b: spec.cidr 10.244.1.0/24 overlaps 10.244.0.0/16 of calico_ip_pools[0] (default). An "
            "address must belong to one pool: choose ranges that do not share addresses.",
        ),
        (
            POOL.format("10.2.0.0/16") + "---\n" + POOL.format("10.2.1.0/24").replace("name: b", "name: c"),
            {},
            "r.yml:11: IPPool c: spec.cidr 10.2.1.0/24 overlaps 10.2.0.0/16 of IPPool b (r.yml:1) (b). An address must "
            "belong to one pool: choose ranges that do not share addresses.",
        ),
        (
            POOL.format("10.1.0.0/16\n  blockSize: 40"),
            {},
            "r.yml:6: IPPool b: spec.blockSize 40 is out of range. A block of an IPv4 pool is between /20 and /32. "
            "Choose a length in between, or leave it out for /26.",
        ),
        (
            "kind: IPPool\nname: b\ncidr: 10.1.0.0/16\n",
            {},
            "r.yml:2: IPPool: name is not a part of a document. Write name, labels and annotations into metadata, and "
            "all other fields into spec.",
        ),
        (
            POOL.format("10.1.0.0/16").replace("name: b", "name: default"),
            {},
            "r.yml:3: IPPool default: metadata.name default stands in two places: also in calico_ip_pools[0]. Keep one "
            "of the two.",
        ),
        (
            POOL.format("10.1.0.0/16") + "---\n" + POOL.format("10.1.0.0/16"),
            {},
            "r.yml:9: IPPool b: metadata.name b stands in two places: also in r.yml:3. Keep one of the two.",
        ),
        (
            BGP + "  asNumber: 64600\n",
            {"bgp_as_number": 64600},
            "r.yml:4: BGPConfiguration default: spec.asNumber stands in two places: also in calico_bgp_as_number. Keep "
            "one of the two.",
        ),
        (
            BGP + "  asNumber: 64600\n---\n" + BGP + "  listenPort: 1179\n  asNumber: 64600\n",
            {},
            "r.yml:10: BGPConfiguration default: spec.asNumber stands in two places: also in r.yml:4. Keep one of the "
            "two.",
        ),
        (
            FELIX + "  ipipMTU: 1480\n  vxlanMTU: 1480\n",
            {},
            "r.yml:5: FelixConfiguration default: spec.vxlanMTU means calico_underlay_mtu 1530, but spec.ipipMTU in "
            "r.yml:4 means 1500. Make them agree, or keep one.",
        ),
        (
            FELIX + "  vxlanPort: 0\n",
            {},
            "r.yml:4: FelixConfiguration default: spec.vxlanPort 0 is out of range. Choose a number from 1 to 65535.",
        ),
        (
            FELIX + "  vxlanPrt: 4789\n",
            {},
            "r.yml:4: FelixConfiguration default: spec.vxlanPrt is not a field here. Did you mean vxlanPort?",
        ),
        (
            FELIX + "  wireguardEnabled: true\n",
            {},
            "r.yml:4: FelixConfiguration default: spec.wireguardEnabled true is not supported. Nothing here encrypts "
            "what nodes send each other. Remove it, and encrypt what has to be secret yourself.",
        ),
        (
            FELIX + "  failsafeInboundHostPorts:\n  - port: 22\n  - {port: 0}\n",
            {},
            "r.yml:6: FelixConfiguration default: spec.failsafeInboundHostPorts[1].port 0 is not a port. Write a "
            "number from 1 to 65535.",
        ),
        (
            BGP + "  nodeMeshMaxRestartTime: 1500ms\n",
            {},
            "r.yml:4: BGPConfiguration default: spec.nodeMeshMaxRestartTime 1500ms is no whole number of seconds. "
            "Write for example 120s.",
        ),
        (
            "kind: IPReservation\nmetadata: {name: r}\nspec:\n  reservedCIDRs:\n  - 10.244.0.0/28\n  - 10.1.0.0/28\n",
            {"ip_reservations": ["10.244.9.0/28"]},
            "r.yml:6: IPReservation r: spec.reservedCIDRs[1] 10.1.0.0/28 lies in no pool, so it reserves nothing. "
            "Correct it, or remove it from the list.",
        ),
        (
            "kind: IPReservation\nmetadata: {name: calico-ip-reservations}\nspec: {reservedCIDRs: [10.244.0.0/28]}\n",
            {"ip_reservations": ["10.244.9.0/28"]},
            "r.yml:2: IPReservation calico-ip-reservations: metadata.name calico-ip-reservations stands in two places: "
            "also in calico_ip_reservations. Keep one of the two.",
        ),
        (
            "kind: Node\nmetadata: {name: node1}\nspec:\n  bgp:\n    ipv4Address: 10.10.1.11/24\n",
            {},
            "r.yml:5: Node node1: spec.bgp.ipv4Address stands in two places: also in calico_node_address of node1. "
            "Keep one of the two.",
        ),
        (
            "kind: Node\nmetadata:\n  name: node1\n  labels: {kubernetes.io/hostname: other}\n",
            {},
            "r.yml:4: Node node1: metadata.labels kubernetes.io/hostname: other is not the node's name, node1, which "
            "this label always has. Remove it, and choose another label for another name.",
        ),
        (
            "kind: BGPPeer\nmetadata: {name: tor}\nspec: {peerIP: 10.10.1.1, asNumber: 65000}\n",
            {"own": {"node2": {"calico_node_bgp_peers": [{"name": "tor", "peerIP": "10.10.1.2", "asNumber": 65000}]}}},
            "r.yml:2: BGPPeer tor: metadata.name tor stands in two places: also in calico_node_bgp_peers[0]. Keep one "
            "of the two.",
        ),
        (
            "kind: BGPPeer\nmetadata: {name: tor}\nspec:\n  peerIP: 10.10.1.1\n  asNumber: 65000\n  filters: [out]\n",
            {},
            "r.yml:6: BGPPeer tor: spec.filters[0] out is not in calico_bgp_filters. Write the BGPFilter out there, or "
            "remove the name.",
        ),
        (
            "kind: BGPPeer\nmetadata: {name: tor}\nspec:\n  peerIP: 10.10.1.1\n  asNumber: 65000\n  holdTime: 30s\n",
            {},
            "r.yml:6: BGPPeer tor: spec.holdTime is not a field of Calico's. Write it as the annotation "
            "baremetal.host-routing/holdTime, with a text or JSON in quotes.",
        ),
        (
            "kind: BGPPeer\nmetadata:\n  name: tor\n  annotations: {baremetal.host-routing/bfd: maybe}\nspec: {}\n",
            {},
            "r.yml:4: BGPPeer tor: metadata.annotations baremetal.host-routing/bfd: maybe is not JSON. Write for "
            'example "true" or "1179".',
        ),
        (
            "kind: BGPPeer\nmetadata:\n  name: tor\n  annotations: {baremetal.host-routing/holdTime: 1s}\nspec: {}\n",
            {},
            "r.yml:4: BGPPeer tor: metadata.annotations baremetal.host-routing/holdTime: 1s is out of range. Choose 3 "
            "to 65535 seconds.",
        ),
        (
            "kind: BGPPeer\nmetadata:\n  name: tor\n  annotations: {baremetal.host-routing/bdf: '1'}\nspec: {}\n",
            {},
            "r.yml:4: BGPPeer tor: metadata.annotations baremetal.host-routing/bdf does not stand for a field of a "
            "BGPPeer. There are baremetal.host-routing/holdTime, baremetal.host-routing/connectRetryTime, "
            "baremetal.host-routing/longLivedStaleTime, "
            "baremetal.host-routing/listenPort, baremetal.host-routing/bfd, baremetal.host-routing/sourceAddress, with "
            "texts.",
        ),
        (
            "kind: BGPPeer\nmetadata: {name: tor}\nspec:\n  peerIP: 10.10.1.1\n  password:\n    2024-01-01: x\n",
            {},
            "r.yml:5: BGPPeer tor: spec.password has the key 2024-01-01, which is neither text nor a number. Write the "
            "key in quotes.",
        ),
        (
            "kind: IPPool\nmetadata: {name: b}\nspec:\n  cidr: 10.1.0.0/16\n  block-size: 26\n",
            {},
            "r.yml:5: IPPool b: spec.block-size is not a field here. Did you mean blockSize?",
        ),
        ("7\n", {}, "r.yml:1: document is not a dictionary. Write the fields of one resource there."),
        (
            "kind: WorkloadEndpoint\nmetadata: {name: a}\n",
            {},
            "r.yml:1: WorkloadEndpoint a: kind WorkloadEndpoint is not taken from a file. Write the workload into "
            "calico_workloads or calico_node_workloads, with its name, labels and node.",
        ),
        (
            "kind: StagedKubernetesNetworkPolicy\nmetadata: {name: a}\n",
            {},
            "r.yml:1: StagedKubernetesNetworkPolicy a: kind StagedKubernetesNetworkPolicy is for policies of "
            "Kubernetes, which is not here. Write a StagedNetworkPolicy, with Calico's selectors and rules.",
        ),
        (
            "kind: IPPol\nmetadata: {name: a}\n",
            {},
            "r.yml:1: IPPol a: kind IPPol is not a kind of resource that is known here. Did you mean IPPool?",
        ),
        (
            "kind: NetworkPolicy\nmetadata: {name: a}\nspec:\n  order: x\n",
            {},
            "r.yml:4: NetworkPolicy a: spec.order x is a text. Write a number, without quotes.",
        ),
        (
            "apiVersion: operator.tigera.io/v1\nkind: Installation\nmetadata: {name: default}\nspec:\n"
            "  calicoNetwork:\n    ipPools:\n    - cidr: 10.244.0.0/24\n",
            {},
            "r.yml:7: Installation default: spec.calicoNetwork.ipPools[0].cidr 10.244.0.0/24 overlaps 10.244.0.0/16 of "
            "calico_ip_pools[0] (default). An address must belong to one pool: choose ranges that do not share "
            "addresses.",
        ),
        (
            "apiVersion: operator.tigera.io/v1\nkind: Installation\nmetadata: {name: default}\nspec:\n"
            "  calicoNetwork: {bgp: On}\n",
            {},
            "r.yml:5: Installation default: spec.calicoNetwork.bgp true is not one of Enabled, Disabled. Choose one of "
            "these.",
        ),
    ],
)
def test_an_error_names_the_resource_its_field_and_its_line(
    text: str, variables: dict[str, t.Any], message: str
) -> None:
    assert refusal(text, **variables) == message


def test_annotations_stand_for_what_calico_has_no_field_for() -> None:
    """A BGPPeer of a file may have all that one of a variable may have, and Calico reads it all the same."""
    text = """\
kind: BGPPeer
metadata:
  name: tor
  annotations:
    baremetal.host-routing/bfd: '{"minRx": 100}'
    baremetal.host-routing/holdTime: 30s
    baremetal.host-routing/listenPort: "1179"
    other: kept
spec: {peerIP: 10.10.1.1, asNumber: 65000, keepaliveTime: 10s}
"""
    own = {"bfd": {"minRx": 100}, "holdTime": 30, "keepaliveTime": 10, "listenPort": 1179}
    (peer,) = inventory.read(merge(text).hosts).bgp.peers
    (expected,) = inventory.read(
        hosts(bgp_peers=[{"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000, **own}])
    ).bgp.peers
    assert peer.extensions == expected.extensions
    assert peer.peer.metadata.annotations == {"other": "kept"}


def test_fields_and_documents_without_effect_are_named() -> None:
    text = """\
kind: ClusterInformation
metadata: {name: default}
---
kind: FelixConfiguration
metadata: {name: default}
spec:
  bpfLogLevel: ""
  reportingInterval: 0s
  vxlanEnabled: false
  wireguardEnabled: false
  floatingIPs: Disabled
  ipv6Support: true
  logSeverityScreen: Info
---
kind: IPAMConfiguration
metadata: {name: default}
spec: {strictAffinity: false, autoAllocateBlocks: true}
---
kind: Node
metadata: {name: node9}
---
kind: BGPConfiguration
metadata: {name: other}
---
apiVersion: operator.tigera.io/v1
kind: APIServer
metadata: {name: default}
"""
    found = merge(text)
    assert found.errors == ()
    assert [f"{one.place}: {one.written.who} {one.what}" for one in found.without_effect] == [
        "r.yml:1: ClusterInformation default is what Calico's own nodes and servers write down.",
        "r.yml:8: FelixConfiguration default has spec.reportingInterval, spec.ipv6Support and spec.logSeverityScreen, "
        "which no variable here means.",
        "r.yml:17: IPAMConfiguration default has spec.strictAffinity, which no variable here means.",
        "r.yml:19: Node node9 is for a node that is no host of calico_nodes or calico_rr.",
        "r.yml:22: BGPConfiguration other has a name other than default and node.NAME.",
        "r.yml:25: APIServer default is for Calico's operator, which is not here.",
    ]


def test_an_installation_is_read_as_what_the_operator_makes_of_it() -> None:
    text = """\
apiVersion: operator.tigera.io/v1
kind: Installation
metadata: {name: default}
spec:
  variant: Calico
  registry: quay.io
  cni: {type: Calico}
  calicoNetwork:
    bgp: Disabled
    mtu: 1380
    linuxDataplane: Iptables
    containerIPForwarding: Enabled
    ipPools:
    - cidr: 10.1.0.0/16
      encapsulation: VXLANCrossSubnet
      natOutgoing: Disabled
      blockSize: 24
      nodeSelector: rack == 'a'
    - {cidr: 10.2.0.0/16, encapsulation: VXLAN, disableNewAllocations: true}
    - {cidr: 10.3.0.0/16, encapsulation: VXLAN, name: own}
"""
    found = merge(text, "calico_ip_pools", "calico_workloads")
    assert found.errors == ()
    assert [one.what for one in found.without_effect] == [
        "has spec.registry and spec.calicoNetwork.containerIPForwarding, which no variable here means."
    ]
    read = inventory.read(found.hosts)
    assert [(one.name, one.encapsulation, one.natOutgoing, one.disabled, one.blockSize) for one in read.pools] == [
        ("10.1.0.0-16", "VXLANCrossSubnet", False, False, 24),
        ("10.2.0.0-16", "VXLAN", True, True, 26),
        ("own", "VXLAN", True, False, 26),
    ]
    assert (read.settings.bgp_enabled, read.settings.underlay_mtu) == (False, 1430)


@pytest.mark.parametrize(
    ("cidrs", "names"),
    [
        (["192.168.0.0/16"], [("default-ipv4-ippool", "IPIP", True)]),
        (
            ["192.168.0.0/16", "fd00:1::/48"],
            [("default-ipv4-ippool", "IPIP", True), ("default-ipv6-ippool", "None", False)],
        ),
        (
            ["fd00:1::/48", "fd00:2::/48"],
            [
                ("fd00.0001.0000.0000.0000.0000.0000.0000-48", "None", False),
                ("fd00.0002.0000.0000.0000.0000.0000.0000-48", "None", False),
            ],
        ),
    ],
)
def test_the_operator_s_defaults_of_pools(cidrs: list[str], names: list[tuple[str, str, bool]]) -> None:
    content = {
        "apiVersion": "operator.tigera.io/v1",
        "kind": "Installation",
        "metadata": {"name": "default"},
        "spec": {"calicoNetwork": {"ipPools": [{"cidr": cidr} for cidr in cidrs]}},
    }
    given = bare("calico_ip_pools", "calico_workloads")
    six = [
        dataclasses.replace(one, variables={**one.variables, "calico_node_address_ipv6": f"fd00:10::{index + 1}/64"})
        for index, one in enumerate(given)
    ]
    found = merged(six, [Document(content, "r.yml", lambda path: None)])
    assert found.errors == ()
    read = inventory.read(found.hosts)
    assert [(one.name, one.encapsulation, one.natOutgoing) for one in read.pools] == names


#: {kind of the vectors: the variable that has such resources}
BY_VARIABLE = {
    "IPPool": "calico_ip_pools",
    "BGPPeer": "calico_bgp_peers",
    **dict.fromkeys(
        ("GlobalNetworkPolicy", "NetworkPolicy", "GlobalNetworkSet", "NetworkSet", "Profile", "HostEndpoint"),
        "calico_policies",
    ),
}
#: A variable's BGPPeer may have an address there, beyond Calico. A file has Calico's documents.
EXTENDED = "v0669"
VECTORS = [case for case in CASES["cases"] if case["kind"] in BY_VARIABLE and case["id"] != EXTENDED]


def said(given: t.Sequence[Host], policies: t.Sequence[Document], errors: t.Sequence[FleetError]) -> str:
    """Return the rule and the remedy of the first error, "" if the inventory is accepted."""
    try:
        if errors:
            raise errors[0]
        inventory.read(given, policies)
    except FleetError as error:
        return f"{error.rule} {error.remedy}"
    return ""


def test_the_vectors_have_the_same_verdict_by_file_as_by_variable() -> None:
    """Each resource is refused by the same rule, or accepted, wherever it is written."""
    differing = {}
    for case in VECTORS:
        document = {part: case[part] for part in ("kind", "metadata", "spec", "status") if part in case}
        variable = BY_VARIABLE[case["kind"]]
        plain = [Host("test", {"calico_node_address": "10.10.1.11/24", "calico_ip_pools": [pool()]})]
        own = [*plain[0].variables.get(variable, ()), document]
        with_variable = [Host("test", {**plain[0].variables, variable: own})]
        by_file = merged(plain, [Document(document, "r.yml", lambda path: None)])
        one, other = said(with_variable, (), ()), said(by_file.hosts, by_file.policies, by_file.errors)
        other = other.replace(f"{case['kind']} {case['metadata']['name']} (r.yml)", f"{variable}[1]")
        if one != other:
            differing[case["id"]] = (one, other)
    assert differing == {}


def test_the_page_says_which_field_is_which_variable() -> None:
    page = (pathlib.Path(__file__).parents[4] / "docs" / "how-to" / "resource-files.md").read_text(encoding="utf-8")
    table = page.partition("<!-- fields:")[2].partition("|---|---|---|\n")[2].partition("\n\n")[0]
    own = " `node.NAME`"
    assert table.splitlines() == [
        f"| {one.kind}{own if one.of_node and one.kind != 'Node' else ''} | `{one.path}` | `{one.variable}` |"
        for one in FIELDS
    ]


_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.dates(),
    st.sampled_from(("default", "node.node1", "node1", "10.1.0.0/16", "10.10.1.11/24", "Enabled", "120s")),
)
_KEYS = st.one_of(
    st.sampled_from(
        sorted(
            {part for one in FIELDS for part in one.path.split(".")}
            | {"name", "annotations", "cidr", "peerIP", "calicoNetwork", "ipPools", "mtu", "bgp", "reservedCIDRs"}
            | {"baremetal.host-routing/bfd", "protocol", "port", "communities", "encapsulation"}
        )
    ),
    st.text(max_size=3),
    st.integers(),
    st.dates(),
)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=8
)
_KINDS = st.one_of(st.sampled_from((*KINDS, "Installation", "ClusterInformation", "WorkloadEndpoint")), _VALUES)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"kind": _KINDS, "metadata": _VALUES | st.fixed_dictionaries({"name": _LEAVES})},
            optional={
                "apiVersion": st.sampled_from((API_VERSION, "operator.tigera.io/v1")) | _VALUES,
                "spec": _VALUES | st.dictionaries(_KEYS, _VALUES, max_size=4),
                "status": _VALUES,
            },
        )
        | _VALUES,
        min_size=1,
        max_size=3,
    )
)
def test_any_document_is_taken_or_refused(contents: list[t.Any]) -> None:
    """Whatever a file has, the inventory is read, or refused by an error with a text of one line."""
    found = merged(bare(), [Document(content, "r.yml", lambda path: 1) for content in contents])
    for error in found.errors:
        assert str(error).startswith("r.yml")
    for one in found.without_effect:
        assert one.place.startswith("r.yml")
    try:
        inventory.read(found.hosts, found.policies)
    except FleetError as error:
        assert str(error)


def test_no_template_of_roles_and_playbooks_reads_what_a_document_may_say() -> None:
    """Ansible's templates know variables alone: one that a document gives would be missing there."""
    root = pathlib.Path(__file__).parents[4]
    said = {one.variable for one in FIELDS} | {"calico_ip_pools", "calico_bgp_peers", "calico_bgp_filters"}
    said |= {"calico_ip_reservations", "calico_bgp_enabled", "calico_underlay_mtu", "calico_policies"}
    files = [path for folder in ("roles", "playbooks") for path in (root / folder).rglob("*") if path.is_file()]
    expressions = [
        (path, inner)
        for path in files
        if path.suffix in (".yml", ".j2", "") and path.parent.name != "meta"
        for text in path.read_text("utf-8", "replace").splitlines()
        for inner in re.findall(r"{{.*?}}|^\s*(?:when|that|failed_when|changed_when|- ).*", text)
    ]
    assert len(expressions) > 100
    found = {(str(path), name) for path, inner in expressions for name in said if re.search(rf"\b{name}\b", inner)}
    assert found == set()
