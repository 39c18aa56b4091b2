# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl get`: Calico's kinds, names, columns and documents."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import naming
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import filters
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdPeer, Communities
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import datastore_source
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import kinds
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import heartbeats
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import encoded
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import blocks_key, heartbeat_key
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.rights import permissions
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import Endpoints
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.api import KINDS, parse, parse_flat
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeIpam

from tests.fakes.etcd import FakeEtcd
from tests.unit.cli.conftest import ALONE, POD, STATE, WEB, Node

ROOT = pathlib.Path(__file__).resolve().parents[4]
NODES = "NAME\nnode1\nnode2\nnode3\n\n"
NODES_WIDE = """\
NAME    ASN       IPV4            IPV6
node1   (64512)   10.10.1.11/24
node2   (64512)   10.10.1.12/24
node3   64520     10.10.2.13/24

"""
POOLS = """\
NAME                  CIDR            SELECTOR
default-ipv4-ippool   10.244.0.0/16   all()
lab                   10.245.0.0/24   rack == 'a'

"""
POOLS_WIDE = """\
NAME                  CIDR            NAT     IPIPMODE      VXLANMODE   DISABLED   DISABLEBGPEXPORT   SELECTOR      \
ASSIGNMENTMODE
default-ipv4-ippool   10.244.0.0/16   true    CrossSubnet   Never       false      false              all()         \
Automatic
lab                   10.245.0.0/24   false   Never         Never       false      false              rack == 'a'   \
Automatic

"""
COLUMNS = """\
NAME                  NAT
default-ipv4-ippool   true
lab                   false

"""
PEERS = """\
NAME               PEERIP      NODE    ASN
global-10-10-1-1   10.10.1.1   node1   65000

"""
CONFIGURATION = """\
NAME      LOGSEVERITY   MESHENABLED   ASNUMBER
default   Info          true          64512

"""
RESERVATIONS_WIDE = """\
NAME                     CIDRS
calico-ip-reservations   10.244.3.60/30

"""
IPAM = """\
NAME      STRICTAFFINITY   AUTOALLOCATEBLOCKS   MAXBLOCKSPERHOST
default   true             false                0

"""
FELIX = """\
apiVersion: projectcalico.org/v3
kind: FelixConfiguration
metadata:
  name: default
spec: {}
"""
ENDPOINTS = """\
WORKLOAD   NODE    NETWORKS        INTERFACE
db         node1   10.244.3.1/32   cali0d3f1c11aa2
web-1      node1   10.244.3.2/32   cali1f2e3d4c5b6

"""
ENDPOINTS_ALL_WIDE = """\
NAMESPACE   NAME                          WORKLOAD   NODE    NETWORKS        INTERFACE         PROFILES   NATS
default     node1-ansible-db-eth0         db         node1   10.244.3.1/32   cali0d3f1c11aa2
default     node1-calicoctl-web--1-eth0   web-1      node1   10.244.3.2/32   cali1f2e3d4c5b6
prod        node1-cni-shop-eth0           shop       node1   10.244.3.3/32   cali99aabbccdde

"""
CUSTOM = """\
NAMESPACE   NAMESPACE   ORCHESTRATOR
default     default     ansible
default     default     calicoctl
prod        prod        cni

"""
WEB_ONLY = """\
NAMESPACE   WORKLOAD   NODE    NETWORKS        INTERFACE
default     web-1      node1   10.244.3.2/32   cali1f2e3d4c5b6

"""
WEB_YAML = """\
apiVersion: projectcalico.org/v3
kind: WorkloadEndpoint
metadata:
  labels:
    app: web
    tier: front
  name: node1-calicoctl-web--1-eth0
  namespace: default
spec:
  endpoint: eth0
  interfaceName: cali1f2e3d4c5b6
  ipNetworks:
  - 10.244.3.2/32
  node: node1
  orchestrator: calicoctl
  workload: web-1
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("nodes", NODES),
        ("no -o wide", NODES_WIDE),
        ("ippools", POOLS),
        ("ippool -owide", POOLS_WIDE),
        ("pool -o custom-columns=name,nat", COLUMNS),
        ("bgpp", PEERS),
        ("bgpconfig", CONFIGURATION),
        ("ipreservations -o wide", RESERVATIONS_WIDE),
        ("ipamconfig -o wide", IPAM),
        ("felixconfigs", "NAME\ndefault\n\n"),
        ("felixconfig default -o yaml", FELIX),
        ("wep", ENDPOINTS),
        ("WEPs --all-namespaces -o wide", ENDPOINTS_ALL_WIDE),
        ("wep -n other", "NAMESPACE   WORKLOAD   NODE   NETWORKS   INTERFACE\n\n"),
        ("wep -A -o custom-columns=namespace,orchestrator", CUSTOM),
        ("wep -A --selector app=='web'", WEB_ONLY),
        ("no --selector has(rack) -o name", "node/node1\n"),
        ("no --selector !has(rack) -o name", "node/node2\nnode/node3\n"),
        ("wep -A -o name --selector projectcalico.org/namespace=='prod'", "workloadendpoint/node1-cni-shop-eth0\n"),
        ("ippools -o name", "ippool/default-ipv4-ippool\nippool/lab\n"),
        ("ippool/lab node/node1 -o name", "ippool/lab\nnode/node1\n"),
        ("wep web-1 -o yaml", WEB_YAML),
    ],
)
def test_get_prints_tables_with_calicos_columns(node: Node, arguments: str, expected: str) -> None:
    node.store()
    node.agent()
    words = arguments.lower().split()
    alone = ALONE if words[0].startswith("wep") and not {"name", "yaml", "json"}.intersection(words) else ""
    assert node.run("get", *arguments.split()) == (0, expected, alone)


@pytest.mark.parametrize("kind", ["nodes", "ippools", "bgppeers", "bgpconfigurations", "workloadendpoints"])
def test_documents_are_calicos(node: Node, kind: str) -> None:
    """`get` writes the same list of Calico's documents as YAML and as JSON. Those of KINDS are valid resources here."""
    node.store()
    node.agent()
    status, text, dummy = node.run("get", kind, "-o", "yaml")
    found = yaml.safe_load(text)
    assert status == 0 and found == json.loads(node.run("get", kind, "-o", "json")[1])
    name = found["kind"].removesuffix("List")
    assert found["apiVersion"] == "projectcalico.org/v3" and found["items"]
    for document in found["items"]:
        assert document["kind"] == name
        if name in KINDS:
            assert parse(document).to_document() == document


def test_filters_and_communities_of_the_node(node: Node) -> None:
    """Filters and communities of the node are documents that the inventory accepts.

    A BGPFilter has the part that sessions of this node use.
    """
    document = {
        "name": "tor",
        "importV4": [{"action": "Accept", "cidr": "0.0.0.0/0", "matchOperator": "Equal", "priority": 9}],
        "exportV6": [{"action": "Reject"}],
    }
    resource = parse_flat("BGPFilter", document)
    bird = dataclasses.replace(
        STATE.bird,
        peers=(dataclasses.replace(STATE.bird.peers[0], filters=("tor",)),),
        filters=tuple(one for one in filters.functions(resource) if one.family == 4),
        communities=(Communities("10.244.0.0/16", ((65000, 1),), ((65000, 1, 2),)),),
        ignored_interfaces=("docker*",),
    )
    node.store(dataclasses.replace(STATE, bird=bird))
    assert node.run("get", "bgpf") == (
        0,
        "NAME   NUMEXPORTV4   NUMIMPORTV4   NUMEXPORTV6   NUMIMPORTV6\n"
        "tor    0             1             0             0\n\n",
        "",
    )
    shown = yaml.safe_load(node.run("get", "bgpfilter", "tor", "-o", "yaml")[1])
    assert parse(shown) == parse_flat("BGPFilter", {"name": "tor", "importV4": document["importV4"]})
    (peer,) = yaml.safe_load(node.run("get", "bgppeers", "-o", "yaml")[1])["items"]
    assert peer["spec"]["filters"] == ["tor"]
    spec = json.loads(node.run("get", "bgpconfig", "default", "-o", "json")[1])["spec"]
    assert spec["prefixAdvertisements"] == [{"cidr": "10.244.0.0/16", "communities": ["65000:1", "65000:1:2"]}]
    assert spec["ignoredInterfaces"] == ["docker*"]
    node.store(dataclasses.replace(STATE, bird=None))
    assert node.run("get", "bgpfilters") == (0, "NAME   NUMEXPORTV4   NUMIMPORTV4   NUMEXPORTV6   NUMIMPORTV6\n\n", "")


def test_the_own_node_has_its_tunnels(node: Node) -> None:
    node.store(dataclasses.replace(STATE, ipam=NodeIpam(tunnels={"ipip": "10.244.3.0", "vxlan": "10.244.3.5"})))
    document = json.loads(node.run("get", "node", "node1", "-o", "json")[1])
    assert document["spec"] == {
        "bgp": {"ipv4Address": "10.10.1.11/24", "ipv4IPIPTunnelAddr": "10.244.3.0"},
        "ipv4VXLANTunnelAddr": "10.244.3.5",
        "vxlanTunnelMACAddr": naming.vtep_mac("node1"),
    }


def test_a_missing_resource_is_an_error_and_others_are_shown(node: Node) -> None:
    node.store()
    expected = "NAME   CIDR            SELECTOR\nlab    10.245.0.0/24   rack == 'a'\n\n"
    error = "resource does not exist: IPPool(x). `calicoctl get ippools` lists all.\n"
    assert node.run("get", "ippool", "x", "lab") == (1, expected, error)
    assert node.run("get", "ippool", "x") == (1, "", error)


def test_several_names_are_a_plain_list_in_their_order(node: Node) -> None:
    """As in Calico, one name gives the document, several give an array, and none gives a list resource."""
    node.store()
    pools = {one["metadata"]["name"]: one for one in json.loads(node.run("get", "pools", "-o", "json")[1])["items"]}
    several = yaml.safe_load(node.run("get", "pool", "lab", "default-ipv4-ippool", "-o", "yaml")[1])
    assert several == [pools["lab"], pools["default-ipv4-ippool"]]
    assert yaml.safe_load(node.run("get", "pool", "lab", "-o", "yaml", "--export")[1]) == pools["lab"]
    assert json.loads(node.run("get", "pool", "lab", "gone", "-o", "json")[1]) == pools["lab"]
    mixed = json.loads(node.run("get", "pool/lab", "no/node2", "-o", "json")[1])
    assert [one["kind"] for one in mixed] == ["IPPool", "Node"]
    assert json.loads(node.run("get", "pool", "--selector", "has(x)", "-o", "json")[1])["items"] == []


def test_without_bgp_there_is_nothing_of_bgp(node: Node) -> None:
    node.store(dataclasses.replace(STATE, bird=None))
    assert node.run("get", "bgpp") == (0, "NAME   PEERIP   NODE   ASN\n\n", "")
    assert node.run("get", "bgpconfig") == (0, "NAME   LOGSEVERITY   MESHENABLED   ASNUMBER\n\n", "")
    assert node.run("get", "nodes", "-o", "wide")[1].splitlines()[1] == "node1   64512   10.10.1.11/24"


def test_a_peer_with_all_that_calico_has_a_field_for(node: Node) -> None:
    assert STATE.bird is not None
    peer = BirdPeer(
        "Node_fd00_10__1_port_1179",
        "fd00:10::1",
        65001,
        "external",
        family=6,
        port=1179,
        local_as=64600,
        source_address="",
        password="tor:password",
        ttl_security=2,
        hold_time=9,
        graceful_restart_time=60,
        next_hop="keep",
        allow_local_as=1,
        reachable_by="fd00:10::2",
        filters=("no-default",),
    )
    node.store(dataclasses.replace(STATE, bird=dataclasses.replace(STATE.bird, peers=(peer,))))
    (found,) = json.loads(node.run("get", "bgppeers", "-o", "json")[1])["items"]
    assert found["spec"] == {
        "node": "node1",
        "peerIP": "[fd00:10::1]:1179",
        "asNumber": 65001,
        "localASNumber": 64600,
        "keepOriginalNextHop": False,
        "nextHopMode": "Keep",
        "password": {"secretKeyRef": {"name": "tor", "key": "password"}},
        "sourceAddress": "None",
        "maxRestartTime": "60s",
        "numAllowedLocalASNumbers": 1,
        "ttlSecurity": 2,
        "reachableBy": "fd00:10::2",
        "filters": ["no-default"],
        "reversePeering": "Auto",
    }


def test_a_session_of_another_release(node: Node) -> None:
    assert STATE.bird is not None
    peer = BirdPeer("peer_1", "10.10.1.1", 65001, "external", ttl_security=999)
    node.store(dataclasses.replace(STATE, bird=dataclasses.replace(STATE.bird, peers=(peer,))))
    assert node.run("get", "bgppeers") == (
        1,
        "",
        "calicoctl: state.json has a BGPPeer that this release does not know: BGPPeer peer-1: ttlSecurity 999 "
        "is out of range. Choose a number from 0 to 255.\n",
    )


def test_workloads_without_the_agent(node: Node) -> None:
    node.store()
    records = Endpoints(node.machine.workloads)
    records.save(WEB)
    records.save(POD)
    assert node.run("get", "wep", "-A", "-o", "wide") == (
        0,
        ENDPOINTS_ALL_WIDE,
        ALONE + "calicoctl: the agent does not run (nobody listens at NODE/run/agent.sock); this is what the node has "
        "on its disk.\n",
    )


def test_a_node_without_a_state(node: Node) -> None:
    assert node.run("get", "nodes") == (
        1,
        "",
        "calicoctl: this node has no state yet: there is no NODE/calico/state.json. Run playbooks/site.yml.\n",
    )


def test_a_state_that_others_may_not_read(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*dummy: object, **dummies: object) -> None:
        raise PermissionError(13, "Permission denied")

    node.store()
    monkeypatch.setattr(os, "open", refuse)
    expected = "calicoctl: NODE/calico/state.json may be read by root alone. Run calicoctl as root.\n"
    assert node.run("get", "nodes") == (1, "", expected)


def test_a_state_that_is_damaged(node: Node) -> None:
    (node.folder / "calico").mkdir()
    (node.folder / "calico" / "state.json").write_text("{")
    status, out, err = node.run("get", "nodes")
    assert (status, out) == (1, "")
    assert err.startswith("calicoctl: NODE/calico/state.json cannot be read: Expecting property name")


def test_a_list_of_nodes_that_this_release_does_not_know(node: Node) -> None:
    (node.folder / "calico").mkdir()
    (node.folder / "calico" / "state.json").write_text('{"state": {"version": 2, "node": "node1"}}')
    expected = (
        "calicoctl: NODE/calico/state.json cannot be read: version is 2, not 1. It was "
        "damaged or written by another release. Use that release, or move the file away if the lockfile on the "
        "controller has this node's blocks; the next run then stores the state anew.\n"
    )
    assert node.run("get", "nodes") == (1, "", expected)


def test_nodes_are_read_without_the_rest_of_the_state(node: Node) -> None:
    """The classes of the kernel, BIRD, policy and the rest of the state take most of a call's time to load."""
    node.store()
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from module_utils.node.store import short_wait; "
        "short_wait.FOLDER = sys.argv[2]; from module_utils.cli.command import main; status = main(['get', 'nodes']); "
        "print(*(name[13:] for name in sys.modules if name.startswith('module_utils.')), file=sys.stderr); "
        "sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", program, str(ROOT / "plugins"), node.machine.store],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, node.run("get", "nodes")[1])
    loaded = set(done.stderr.split())
    assert len(loaded) <= 60
    assert not loaded & {"node.machine", "state.node_state", "policy", "bgp", "bird", "dataplane", "wire.client"}


HERE = (
    "Here are: nodes, ippools, bgppeers, bgpfilters, bgpconfigurations, ipreservations, ipamconfigurations, "
    "felixconfigurations, workloadendpoints, globalnetworkpolicies, networkpolicies, stagedglobalnetworkpolicies, "
    "stagednetworkpolicies, tiers, profiles, globalnetworksets, networksets, hostendpoints."
)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            "ippol",
            f"resource type 'ippol' is not supported. Did you mean ippool? {HERE}",
        ),
        ("pods", f"resource type 'pods' is not supported. {HERE}"),
        (
            "kubecontrollersconfig",
            "resource type 'kubecontrollersconfig' is not supported. It is for Kubernetes, which is not here.",
        ),
        (
            "ClusterInfo default",
            "resource type 'ClusterInfo' is not supported. `calicoctl version` shows the releases, and `calicoctl "
            "status` whether a node works.",
        ),
        (
            "nodestatus",
            "resource type 'nodestatus' is not supported. `calicoctl node status` shows the sessions of a node, and "
            "playbooks/status.yml those of all nodes.",
        ),
        (
            "sknp -A",
            "resource type 'sknp' is not supported. It is for Kubernetes, which is not here. Stage a policy as "
            "StagedNetworkPolicy.",
        ),
        (
            "ipamblocks",
            "resource type 'ipamblocks' is not supported. `calicoctl ipam show --show-blocks` shows blocks, and the "
            "lockfile says which node has which.",
        ),
        (
            "ipamhandle",
            "resource type 'ipamhandle' is not supported. `calicoctl ipam show --ip ADDRESS` shows the handle of an "
            "address.",
        ),
        (
            "ippool -o go-template=x",
            "unrecognized output format 'go-template=x'. Templates of Go are not read here: give `-o json` to a "
            "program such as jq. Use ps, wide, yaml, json, name or custom-columns=NAME,...",
        ),
        (
            "ippool -o table",
            "unrecognized output format 'table'. Use ps, wide, yaml, json, name or custom-columns=NAME,...",
        ),
        ("ippool -o custom-columns", "need to specify at least one column"),
        ("ippool/lab node1", "'node1' is no KIND/NAME. Write all resources so, or one KIND and its names."),
        ("ippool/", "'ippool/' is no KIND/NAME. Write all resources so, or one KIND and its names."),
        (
            "nodes --selector rack==",
            "--selector: selector 'rack==' cannot be read at column 7: expected a string in quotes, found the end of "
            "the text.",
        ),
        ("nodes node1 --selector all()", "--selector chooses among all resources of a KIND: leave out names and -f."),
        ("ippool -o custom-columns=", "need to specify at least one column"),
        ("bgpp -o custom-columns=NAME,FOO", "unknown heading FOO, valid values are: NAME, PEERIP, NODE, ASN"),
        ("wep -A -n x", "cannot use both --namespace and --all-namespaces flags at the same time"),
        (
            "ippool -n x",
            "namespace should not be specified for a non-namespaced resource. IPPool is not a namespaced resource",
        ),
    ],
)
def test_invalid_arguments_of_get_are_refused(node: Node, arguments: str, error: str) -> None:
    node.store()
    assert node.run("get", *arguments.split()) == (2, "", f"calicoctl: {error}\n")


FILE = """\
kind: IPPool
metadata: {name: lab}
---
kind: WorkloadEndpoint
metadata: {name: web-1}
---
kind: IPPool
metadata: {name: default-ipv4-ippool}
"""


def test_resources_that_a_file_names(node: Node) -> None:
    node.store()
    node.agent()
    path = node.folder / "wanted.yaml"
    path.write_text(FILE)
    assert node.run("get", "-f", str(path)) == (
        0,
        "NAME                  CIDR            SELECTOR\n"
        "lab                   10.245.0.0/24   rack == 'a'\n"
        "default-ipv4-ippool   10.244.0.0/16   all()\n"
        "\n"
        "NAMESPACE   WORKLOAD   NODE    NETWORKS        INTERFACE\n"
        "default     web-1      node1   10.244.3.2/32   cali1f2e3d4c5b6\n"
        "\n",
        ALONE,
    )
    several = json.loads(node.run("get", "-f", str(path), "-o", "json")[1])
    assert [one["metadata"]["name"] for one in several] == [
        "lab", "node1-calicoctl-web--1-eth0", "default-ipv4-ippool",
    ]  # fmt: skip
    path.write_text("kind: IPPool\nmetadata: {name: lab}\n---\nkind: IPPool\nmetadata: {name: gone}\n")
    status, out, err = node.run("get", "--filename", str(path), "-o", "yaml", "--export")
    assert (status, err) == (1, "resource does not exist: IPPool(gone). `calicoctl get ippools` lists all.\n")
    assert out == node.run("get", "ippool", "lab", "-o", "yaml")[1]


@pytest.mark.parametrize(
    ("text", "status", "error"),
    [
        ("", 1, "NODE/wanted.yaml has no document. Write apiVersion, kind, metadata and spec."),
        ("kind: IPPool", 1, "NODE/wanted.yaml: a document has no kind or no metadata.name. Write both."),
        ("metadata: {name: x}", 1, "NODE/wanted.yaml: a document has no kind or no metadata.name. Write both."),
        (
            "kind: NetworkPolic\nmetadata: {name: x}",
            1,
            "NODE/wanted.yaml: resource type 'NetworkPolic' is not supported. Did you mean networkpolicy? Here are: "
            f"{', '.join(kind.names[0] for kind in kinds.KINDS)}.",
        ),
        ("kind: IPPool\nmetadata: x", 1, "NODE/wanted.yaml: a document has no kind or no metadata.name. Write both."),
    ],
)
def test_files_that_name_nothing(node: Node, text: str, status: int, error: str) -> None:
    node.store()
    path = node.folder / "wanted.yaml"
    path.write_text(text)
    assert node.run("get", "-f", str(path)) == (status, "", f"calicoctl: {error}\n")


def test_files_without_a_resource_may_be_skipped(node: Node) -> None:
    node.store()
    (node.folder / "empty").mkdir()
    for path in (node.folder / "empty", node.folder / "empty.yaml"):
        if not path.exists():
            path.write_text("# nothing\n")
        for command in ("get", "validate"):
            assert node.run(command, "-f", str(path))[0] == 1
            status, dummy, err = node.run(command, "-f", str(path), "--skip-empty")
            assert (status, err) == (0, "")


def test_a_file_that_does_not_exist(node: Node) -> None:
    expected = "calicoctl: /no/such/file cannot be read: No such file or directory.\n"
    assert node.run("get", "-f", "/no/such/file") == (1, "", expected)


def test_a_kind_or_a_file(node: Node) -> None:
    assert node.run("get") == (
        2,
        "",
        "calicoctl: say what to get: a KIND such as ippools, or -f FILE for the resources that a file names.\n",
    )
    assert node.run("get", "pools", "-f", "x") == (
        2, "", "calicoctl: say what to get once: a KIND, or -f FILE for the resources that a file names.\n",
    )  # fmt: skip


def test_no_two_kinds_have_one_name() -> None:
    names = [name for kind in kinds.KINDS for name in kind.names]
    assert len(names) == len(set(names))
    assert all(set(kind.short) <= set(kind.wide) for kind in kinds.KINDS)


def test_nodes_have_their_heartbeats_where_there_is_a_datastore(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wide table of nodes has columns of the heartbeats, which are read with this node's own user."""
    etcd = FakeEtcd()
    etcd.users, etcd.granted = {"node1": "secret"}, {"node1": {"node1"}}
    etcd.roles = {"node1": {(encoded(one.keys.start), encoded(one.keys.end)): one.kind for one in permissions("node1")}}
    beat = Heartbeat("node1", time.time() - 2, "0.2.0", "", "converge", True, 0, "", 0, 2, 3, (), 4, 5120, 7, True, 0.1)
    etcd.put(heartbeat_key("node1"), heartbeats.encode(beat))
    etcd.put(heartbeat_key("node2"), b"\x1b[2J rubbish")
    for name in ("node1", "node2"):
        etcd.put(blocks_key(name), b"{}")
    node.store()
    settings = node.folder / "root" / "etc" / "calico" / "datastore.json"
    settings.parent.mkdir(parents=True)
    wanted = {"endpoints": ["https://10.10.1.11:2379"], "user": "node1", "password": "secret"}
    settings.write_text(json.dumps(wanted))
    monkeypatch.setattr(
        datastore_source,
        "connect",
        lambda found: EtcdClient(etcd.members, Credentials(found.user, found.password), seconds=1.0, jitter=0.0),
    )
    status, output, error = node.run("get", "nodes", "-o", "wide")
    assert (status, error) == (0, "calicoctl: node2: its heartbeat is left out: it is not JSON.\n")
    assert (
        output
        == """\
NAME    ASN       IPV4            IPV6   HEARTBEAT   AGENT   BGP     WORKLOADS   SYNC   DRIFT(24h)   REVISION   \
PROBLEMS
node1   (64512)   10.10.1.11/24          2s          0.2.0   2/3 !   4           ok     0            5120       0
node2   (64512)   10.10.1.12/24          never !     -       -       -           -      -            -          -
node3   64520     10.10.2.13/24          never !     -       -       -           -      -            -          -

"""
    )
    asked = sum(len(member.calls) for member in etcd.members.values())
    assert node.run("get", "nodes") == (0, NODES, "")
    assert node.run("get", "ippools", "-o", "wide") == (0, POOLS_WIDE, "")
    assert sum(len(member.calls) for member in etcd.members.values()) == asked
    for member in etcd.members.values():
        member.up = False
    status, output, error = node.run("get", "nodes", "-o", "wide")
    assert (status, output) == (0, NODES_WIDE)
    assert error.startswith(
        "calicoctl: the heartbeats of the nodes are not shown: no member of the etcd cluster answers"
    )
    settings.write_text("{")
    assert node.run("get", "nodes", "-o", "wide")[2] == (
        "calicoctl: the heartbeats of the nodes are not shown: NODE/root/etc/calico/datastore.json: it is not JSON. "
        "Run playbooks/site.yml, which writes the file.\n"
    )
