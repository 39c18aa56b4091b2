# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conversion of a real Calico's documents: what is taken, and that hostile documents are left out in words."""

from __future__ import annotations

import base64
import json
import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.document_text import documents_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam import lockfile
from ansible_collections.baremetal.host_routing.plugins.module_utils.migration import conversion
from ansible_collections.baremetal.host_routing.plugins.module_utils.migration.conversion import (
    ImportedInventory,
    TooManyDocuments,
    convert,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.migration.given_documents import GivenDocument
from ansible_collections.baremetal.host_routing.plugins.module_utils.migration.kept_workloads import HostLocalFile
from hypothesis import given, settings
from hypothesis import strategies as st

CALICO = pathlib.Path(__file__).parent / "calico" / "resources.yml"
POOL = {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.0.0.0/16", "blockSize": 26}}


def node(name: str, **bgp: t.Any) -> dict[str, t.Any]:
    spec = {"bgp": {"ipv4Address": "192.0.2.1/24", **bgp}}
    return {"apiVersion": "projectcalico.org/v3", "kind": "Node", "metadata": {"name": name}, "spec": spec}


def imported(*documents: t.Any, host_local: t.Iterable[HostLocalFile] = ()) -> ImportedInventory:
    return convert([GivenDocument(document, "x.yml:1") for document in documents], host_local)


def remarks(found: ImportedInventory) -> list[str]:
    report = found.report
    return [str(remark) for remark in (*report.changed, *report.left_out, *report.for_a_person)]


def block(cidr: str, affinity: t.Any, *users: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    spec = {
        "cidr": cidr,
        "affinity": affinity,
        "allocations": [None, *range(len(users))],
        "attributes": list(users),
        "unallocated": [0],
        "deleted": False,
    }
    return {"apiVersion": "crd.projectcalico.org/v1", "kind": "IPAMBlock", "metadata": {"name": "b"}, "spec": spec}


def affinity(cidr: str, node: str, state: str) -> dict[str, t.Any]:
    spec = {"cidr": cidr, "node": node, "state": state, "deleted": "false"}
    return {"apiVersion": "crd.projectcalico.org/v1", "kind": "BlockAffinity", "metadata": {"name": "a"}, "spec": spec}


def grants(found: ImportedInventory) -> dict[str, tuple[list[str], list[str]]]:
    plan = lockfile.load(found.lockfile, "lockfile")
    return {
        name: ([grant.cidr for grant in own.blocks], [grant.cidr for grant in own.spare_blocks])
        for name, own in plan.nodes.items()
    }


def test_documents_of_a_calico_become_an_inventory() -> None:
    text = CALICO.read_text("utf-8")
    found = imported(*(document for document, dummy in documents_of(text, "calico.yml")))
    assert {name: variables["ansible_host"] for name, variables in found.hosts.items()} == {
        "node1": "10.10.1.11",
        "node2": "10.10.1.12",
        "node3": "10.10.2.13",
        "node4": "10.10.2.14",
    }
    by_kind = {document["kind"]: document for document in found.documents}
    assert by_kind["IPPool"]["metadata"] == {"name": "default-ipv4-ippool"}
    assert by_kind["IPPool"]["spec"]["ipipMode"] == "CrossSubnet"
    assert found.documents[-4:] == [one for one in found.documents if one["kind"] == "Node"]
    assert found.documents[-4]["metadata"] == {"labels": {"rack": "a"}, "name": "node1"}
    assert found.documents[-4]["spec"] == {"bgp": {"ipv4Address": "10.10.1.11/24"}}
    assert found.workloads == [
        {"name": "web", "node": "node1", "namespace": "default", "labels": {"app": "web"}, "address": "10.244.10.2"}
    ]
    assert grants(found) == {
        "node1": (["10.244.10.0/26"], ["10.244.11.0/26"]),
        "node2": (["10.244.20.0/26"], []),
    }
    plan = lockfile.load(found.lockfile, "lockfile")
    assert plan.nodes["node1"].tunnels == {"ipip": "10.244.10.1"}
    assert [(entry.cidr, entry.node) for entry in plan.quarantine] == [("10.244.40.0/26", "gone")]
    assert found.report.to_dict()["taken"] == {
        "BGPConfiguration": 1, "BGPFilter": 1, "BGPPeer": 1, "FelixConfiguration": 1, "GlobalNetworkPolicy": 1,
        "IPPool": 1, "IPReservation": 1, "Node": 4, "blocks": 3, "workloads": 1,
    }  # fmt: skip
    assert [str(remark).partition(" (")[0] for remark in found.report.for_a_person] == [
        "address 10.244.10.4 of node1 is borrowed by node2 for k8s-pod-network.12ab. It needs another address.",
        "IPAMBlock 10.244.40.0/26 belongs to gone, which is not among the nodes. It is set aside: no run grants it.",
    ]


def test_blocks_from_etcd_and_from_calicos_export_are_the_same() -> None:
    value = block("10.0.1.0/26", "host:node1", {"handle_id": "vxlan-tunnel-addr-node1"})["spec"]
    pairs = {
        "/calico/ipam/v2/assignment/ipv4/block/10.0.1.0-26": value,
        "/calico/ipam/v2/host/node1/ipv4/block/10.0.1.0-26": {"state": "confirmed"},
        "/calico/ipam/v2/host/node1/ipv4/block/10.0.2.0-26": {},
        "/calico/ipam/v2/handle/h": {"block": {}},
        "/calico/resources/v3/projectcalico.org/nodes/node1": node("node1"),
        "/calico/resources/v3/projectcalico.org/ippools/p": {"apiVersion": "projectcalico.org/v3", **POOL},
        "/calico/other": 1,
    }

    def encoded(data: bytes) -> str:
        return base64.b64encode(data).decode()

    dump = {
        "header": {"revision": 7},
        "kvs": [
            {"key": encoded(key.encode()), "value": encoded(json.dumps(value).encode())} for key, value in pairs.items()
        ],
    }
    migrated = {
        "blocks": [{"Key": key, "Value": value} for key, value in pairs.items() if "assignment" in key],
        "block_affinities": [{"Key": key, "Value": value} for key, value in pairs.items() if "/host/" in key],
        "config": {"Key": "/calico/ipam/v2/config", "Value": {"strict_affinity": True}},
    }
    expected = {"node1": (["10.0.1.0/26"], ["10.0.2.0/26"])}
    for found in (imported(dump), imported(POOL, node("node1"), migrated)):
        assert grants(found) == expected
        assert lockfile.load(found.lockfile, "lockfile").nodes["node1"].tunnels == {"vxlan": "10.0.1.1"}
    assert "etcd entry /calico/other is of a kind that is not known here. (x.yml:1)" in remarks(imported(dump))


@pytest.mark.parametrize(
    ("documents", "remark"),
    [
        ([block("10.0.1.0/26", "host:node1"), block("10.0.1.0/26", "host:node2")],
         "IPAMBlock 10.0.1.0/26 belongs to several nodes: node1, node2. It is set aside: no run grants it."),
        ([block("10.0.1.0/26", None, {"secondary": {"node": "node2"}})],
         "IPAMBlock 10.0.1.0/26 belongs to no node, and addresses in it may be in use. It is set aside: no run grants "
         "it."),
        ([block("10.0.1.0/26", "host:")],
         "IPAMBlock 10.0.1.0/26 belongs to no node, and addresses in it may be in use. It is set aside: no run grants "
         "it."),
        ([{"kind": "BlockAffinity", "spec": {"cidr": "10.0.1.0/26", "node": ""}}],
         "BlockAffinity has no node and CIDR that can be read. (x.yml:1)"),
        ([affinity("10.0.1.0/26", "node1", "pending"), affinity("10.0.1.0/26", "node2", "pending")],
         "IPAMBlock 10.0.1.0/26 belongs to several nodes: node1, node2. It is set aside: no run grants it."),
        ([block("10.0.1.0/28", "host:node1", {})],
         "IPAMBlock 10.0.1.0/28 lies in no pool with blocks of its size. Addresses in it are not kept."),
        ([block("10.9.1.0/26", "host:node1")],
         "IPAMBlock 10.9.1.0/26 lies in no pool with blocks of its size. Addresses in it are not kept."),
        ([block("10.0.1.7/26", "host:node1")], "IPAMBlock b has no CIDR that can be read. (x.yml:1)"),
        ([{"kind": "IPAMBlock"}], "IPAMBlock has no CIDR that can be read. (x.yml:1)"),
        ([block("10.0.1.0/31", "host:node1", {}, {})], "IPAMBlock b has more allocations than addresses. (x.yml:1)"),
        ([{"kind": "BlockAffinity", "spec": {"cidr": "10.0.1.0/26"}}],
         "BlockAffinity has no node and CIDR that can be read. (x.yml:1)"),
        ([{"kind": "BlockAffinity", "spec": {"cidr": "10.0.1.0/26", "node": "lb", "type": "virtual"}}],
         "BlockAffinity is of no node, but of a load balancer. (x.yml:1)"),
        ([block("10.0.1.0/26", "host:node1", {"handle_id": "ipip-tunnel-addr-node2"})],
         "IPAMBlock 10.0.1.0/26 has the ipip tunnel's address 10.0.1.1 of node2, which gets another one."),
        (["text"], "document has no kind. (x.yml:1)"),
        ([{"kind": "Pod", "metadata": {"name": "x"}}], "Pod x is of a kind that is not known here. (x.yml:1)"),
        ([node("all")], "Node all has a name that no host of Ansible can have."),
        ([{**node("n"), "spec": {}}], "Node n has no address. Add it to the inventory with calico_node_address."),
        ([{**POOL, "spec": {"cidr": "10.7.0.0/16"}}],
         "IPPool p stands a second time, with other content: x.yml:1 is taken. (x.yml:1)"),
        ([{"kind": "IPPool", "metadata": {"name": "../../etc"}, "spec": {"cidr": "10.8.0.0/16"}}],
         "IPPool ../../etc: metadata.name ../../etc "),
        ([{"kind": "BGPPeer", "metadata": {"name": "t"}, "spec": {
            "peerIP": "10.1.1.1", "asNumber": 65000, "password": {"secretKeyRef": {"name": "a", "key": "b"}}}}],
         "BGPPeer t has a password: write it to calico_bgp_secrets, encrypted by ansible-vault."),
        ([{"kind": "FelixConfiguration", "metadata": {"name": "default"}, "spec": {"wireguardEnabled": True}}],
         "FelixConfiguration default encrypts what nodes send each other. Nothing here does: "),
        ([{"apiVersion": "operator.tigera.io/v1", "kind": "Installation", "metadata": {"name": "default"}}],
         "Installation default says no more than its pools, which are taken as they are. (x.yml:1)"),
        ([{"apiVersion": "crd.projectcalico.org/v1", "kind": "GlobalNetworkPolicy",
           "metadata": {"name": "default.web"}, "spec": {"selector": "all()", "types": ["Ingress"]}}],
         "GlobalNetworkPolicy default.web was crd.projectcalico.org/v1, and is projectcalico.org/v3 now. (x.yml:1)"),
    ],
)  # fmt: skip
def test_what_is_not_taken_as_it_is_is_said(documents: list[t.Any], remark: str) -> None:
    found = imported(POOL, node("node1"), node("node2"), *documents)
    assert [one for one in remarks(found) if one.startswith(remark)], remarks(found)
    if found.lockfile:
        lockfile.load(found.lockfile, "lockfile")


@pytest.mark.parametrize(
    "confirmed", [block("10.0.1.0/26", "host:node1", {}), affinity("10.0.1.0/26", "node1", "confirmed")]
)
def test_a_claim_that_calico_did_not_complete_leaves_the_block_with_its_owner(confirmed: t.Any) -> None:
    """A node that loses the race for a block, or dies in it, leaves such a record."""
    pending = affinity("10.0.1.0/26", "node2", "pending")
    for documents in ([pending, confirmed], [confirmed, pending]):
        found = imported(POOL, node("node1"), node("node2"), *documents)
        assert (grants(found), found.report.for_a_person) == ({"node1": (["10.0.1.0/26"], [])}, [])
    alone = imported(POOL, node("node1"), node("node2"), pending)
    assert grants(alone) == {"node2": (["10.0.1.0/26"], [])}


def test_a_policy_that_kubernetes_stores_gets_its_own_name() -> None:
    stored = {
        "apiVersion": "crd.projectcalico.org/v1",
        "kind": "GlobalNetworkPolicy",
        "metadata": {"name": "default.web"},
        "spec": {"selector": "all()", "types": ["Ingress"]},
    }
    (found,) = imported(stored).documents
    assert (found["apiVersion"], found["metadata"]) == ("projectcalico.org/v3", {"name": "web"})


def test_a_node_of_kubernetes_has_calicos_part_in_annotations() -> None:
    """`kubectl get nodes -o yaml` is enough, without Calico's own calicoctl."""
    annotations = {
        "projectcalico.org/IPv4Address": "192.0.2.7/24",
        "projectcalico.org/ASNumber": "64700",
        "projectcalico.org/IPv4IPIPTunnelAddr": "10.0.1.1",
        "other": "{{ x }}",
    }
    metadata = {"name": "n", "labels": {"rack": "a", "kubernetes.io/hostname": "n"}, "annotations": annotations}
    found = imported({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"podCIDR": "10.0.0.0/24"}})
    assert found.hosts == {"n": {"ansible_host": "192.0.2.7"}}
    (document,) = found.documents
    assert document["metadata"] == {"name": "n", "labels": {"rack": "a"}}
    assert document["spec"] == {"bgp": {"ipv4Address": "192.0.2.7/24", "asNumber": 64700}}
    without = imported({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": 7}})
    assert "Node n has no address. Add it to the inventory with calico_node_address." in remarks(without)


def manifest(**variables: str) -> dict[str, t.Any]:
    env = [{"name": name, "value": value} for name, value in variables.items()]
    env.append({"name": "NODENAME", "valueFrom": {"fieldRef": {}}})
    containers = [{"name": "other"}, {"name": "calico-node", "env": env}]
    return {"kind": "DaemonSet", "metadata": {"name": "calico-node"},
            "spec": {"template": {"spec": {"containers": containers}}}}  # fmt: skip


def test_a_manifest_asks_for_pools() -> None:
    found = imported(
        manifest(
            CALICO_IPV4POOL_CIDR="10.0.0.0/16",
            CALICO_IPV4POOL_IPIP="CrossSubnet",
            CALICO_IPV4POOL_BLOCK_SIZE="24",
            CALICO_IPV4POOL_NODE_SELECTOR="rack == 'a'",
            CALICO_IPV4POOL_NAT_OUTGOING="false",
            CALICO_IPV6POOL_CIDR="fd00::/48",
            CALICO_IPV6POOL_VXLAN="Always",
        )
    )
    assert [(one["metadata"]["name"], one["spec"]) for one in found.documents] == [
        ("default-ipv4-ippool", {
            "cidr": "10.0.0.0/16", "blockSize": 24, "ipipMode": "CrossSubnet", "vxlanMode": "Never",
            "natOutgoing": False, "nodeSelector": "rack == 'a'", "disableBGPExport": False}),
        ("default-ipv6-ippool", {
            "cidr": "fd00::/48", "blockSize": 122, "ipipMode": "Never", "vxlanMode": "Always", "natOutgoing": False,
            "nodeSelector": "all()", "disableBGPExport": False}),
    ]  # fmt: skip
    assert imported(manifest()).documents[0]["spec"]["cidr"] == "192.168.0.0/16"
    assert imported(manifest(NO_DEFAULT_POOLS="true")).documents == []
    assert imported(manifest(CALICO_IPV4POOL_CIDR="none")).documents == []
    assert [one["metadata"]["name"] for one in imported(POOL, manifest()).documents] == ["p"]


@pytest.mark.parametrize(
    ("variables", "remark"),
    [
        ({"CALICO_IPV4POOL_IPIP": "{{ x }}"}, "has '{{ x }}' for the mode of IPIP. Calico knows Always, "),
        ({"CALICO_IPV4POOL_NAT_OUTGOING": "maybe"}, "has 'maybe' for NAT_OUTGOING, which is true or false."),
        ({"CALICO_IPV4POOL_BLOCK_SIZE": "²6"}, "has '²6' for the size of blocks."),
        ({"CALICO_IPV4POOL_CIDR": "10.0.0.0/16\n"}, "spec.cidr"),
        ({"CALICO_IPV4POOL_BLOCK_SIZE": "99"}, "spec.blockSize 99"),
    ],
)
def test_a_manifest_with_a_wrong_value(variables: dict[str, str], remark: str) -> None:
    found = imported(manifest(**variables))
    assert found.documents == [] and remark in str(found.report.for_a_person[0])


def test_containers_of_host_local_keep_their_addresses() -> None:
    files = [
        HostLocalFile("node1", "podman", "10.0.2.7", "0123456789abcdef\r\neth0"),
        HostLocalFile("node1", "podman", "10.0.3.8", "fedcba9876543210\neth0"),
        HostLocalFile("node2", "podman", "10.0.3.9", "aaaabbbbccccdddd"),
        HostLocalFile("node2", "podman", "10.77.0.1", "aaaabbbbccccdddd"),
        HostLocalFile("node2", "podman", "10.0.4.9", "$(touch x)"),
        HostLocalFile("node2", "..", "010.0.4.9", "abc"),
        HostLocalFile("node2", "podman", "10.0.5.1", "eeee"),
        HostLocalFile("node2", "../x", "10.0.5.2", "ffff"),
    ]
    found = imported(POOL, node("node1"), node("node2"), host_local=files)
    assert found.workloads == [
        {"name": "podman-0123456789ab", "node": "node1", "namespace": "default", "address": "10.0.2.7"},
        {"name": "podman-fedcba987654", "node": "node1", "namespace": "default"},
        {"name": "podman-aaaabbbbcccc", "node": "node2", "namespace": "default"},
        {"name": "podman-eeee", "node": "node2", "namespace": "default", "address": "10.0.5.1"},
    ]
    said = remarks(found)
    dropped = (
        "workload default/podman-fedcba987654 had 10.0.3.8, which is in no block of node1. It gets another address."
    )
    assert dropped in said
    assert "podman 10.77.0.1 of node2 lies in no pool." in said
    assert "podman 10.0.4.9 of node2 is no file of host-local." in said
    assert ".. 010.0.4.9 of node2 is no file of host-local." in said
    assert "../x 10.0.5.2 has a name or a namespace that a workload cannot have here." in said
    assert grants(found)["node2"] == (["10.0.5.0/26"], [])
    assert "IPAMBlock 10.0.3.0/26 belongs to several nodes: node1, node2. It is set aside: no run grants it." in said


def test_a_workload_of_another_node_is_left_out() -> None:
    """A WorkloadEndpoint of a node that is not imported has no host; one with an address of another's block moves."""
    spec = {"node": "gone", "orchestrator": "cni", "workload": "a", "endpoint": "eth0", "ipNetworks": ["10.0.9.1/32"],
            "interfaceName": "cali1"}  # fmt: skip
    gone = {"kind": "WorkloadEndpoint", "metadata": {"name": "gone-cni-a-eth0", "namespace": "default"}, "spec": spec}
    found = imported(POOL, node("node1"), gone)
    assert found.workloads == []
    assert "workload default/a is on gone, which is not among the nodes." in remarks(found)


def test_too_many_documents_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "MOST_DOCUMENTS", 3)
    with pytest.raises(TooManyDocuments, match="there are more than 3 documents"):
        imported([POOL, POOL], [POOL, POOL])


def test_many_like_remarks_are_shown_as_one() -> None:
    lines = imported(*({"kind": "IPAMHandle", "metadata": {"name": f"h{at}"}} for at in range(500))).report.lines()
    assert lines[-1] == "  IPAMHandle h0 and 499 more IPAMHandle: each says again which addresses a block has in use."


def test_a_name_that_somebody_chose_makes_no_lines_of_the_report() -> None:
    lines = imported(POOL, block("10.0.1.0/26", "host:x\n\x1b[2Jtaken: all")).report.lines()
    assert lines[-1] == (
        "  IPAMBlock 10.0.1.0/26 belongs to x\\n\\x1b[2Jtaken: all, which is not among the nodes. "
        "It is set aside: no run grants it."
    )


_TEXTS = st.sampled_from(
    ["IPPool", "Node", "IPAMBlock", "BlockAffinity", "DaemonSet", "WorkloadEndpoint", "Installation", "List", "x",
     "10.0.0.0/26", "10.0.1.1", "host:n", "n", "{{ lookup('pipe', 'id') }}", "../x", "\x1b[2J", "a/b", "",
     "calico-node"]
)  # fmt: skip
_KEYS = st.sampled_from(
    ["kind", "apiVersion", "metadata", "name", "namespace", "labels", "annotations", "spec", "status", "items", "kvs",
     "key", "value", "cidr", "node", "affinity", "allocations", "attributes", "secondary", "handle_id", "bgp", "type",
     "ipv4Address", "template", "containers", "env", "blocks", "Key", "Value", "ipNetworks", "workload", "deleted"]
)  # fmt: skip
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70000) | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=6),
    max_leaves=30,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_VALUES, max_size=5))
def test_whatever_is_given_is_taken_or_left_out(documents: list[t.Any]) -> None:
    """No document breaks an import, and the result is always an inventory's: names without a path, a good lockfile."""
    found = imported(POOL, node("n"), *documents)
    for document in found.documents:
        assert "/" not in document["metadata"]["name"] and not document["metadata"]["name"].startswith(".")
    assert "{{" not in json.dumps([found.hosts, found.workloads])
    if found.lockfile:
        lockfile.load(found.lockfile, "lockfile")
    found.report.lines()
    yaml.safe_dump(found.report.to_dict())
