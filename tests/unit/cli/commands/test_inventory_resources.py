# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`get -i` and `ipam show -i`, with a program in the place of ansible-playbook.

tests/unit/plugin_utils/actions/test_fleet_resources_action.py tests what the playbook answers.
"""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import kinds

from tests.unit.cli.conftest import Node, answering

POOL = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "IPPool",
    "metadata": {"name": "lab", "resourceVersion": "r0123456789abcdef"},
    "spec": {"cidr": "10.245.0.0/24", "nodeSelector": "all()"},
}
NODE1 = {"kind": "Node", "metadata": {"name": "node1"}, "spec": {"bgp": {"ipv4Address": "10.10.1.11/24"}}}
WEB = {
    "kind": "WorkloadEndpoint",
    "metadata": {"name": "node1-ansible-web-eth0", "namespace": "prod", "resourceVersion": "r0"},
    "spec": {"workload": "web", "node": "node1", "ipNetworks": ["10.245.0.1/32"], "interfaceName": "cali1"},
}
BLOCK = {"cidr": "10.245.0.0/26", "pool": "lab", "size": 64, "in_use": 1, "reserved": 0, "free": 63, "spare": False}
ANSWER: dict[str, t.Any] = {
    "as_number": 64512,
    "resources": {
        **{kind.name: [] for kind in kinds.KINDS},
        "IPPool": [POOL],
        "Node": [NODE1],
        "WorkloadEndpoint": [WEB],
    },
    "ipam": {
        "usage": [{**BLOCK, "node": "node1"}, {**BLOCK, "cidr": "10.245.0.64/26", "node": "node2", "spare": True}],
        "allocations": [{"address": "10.245.0.1", "handle": "prod/web", "attributes": {"by": "inventory"}}],
        "pools": {"lab": "10.245.0.0/24"},
        "configuration": {"StrictAffinity": "true"},
        "lockfile": "prod/.calico.lock.yml",
        "planned": True,
    },
}
TABLE = """\
+---------------+----------------+-----------+------------+--------------+-----------+
|   GROUPING    |      CIDR      | IPS TOTAL | IPS IN USE | IPS RESERVED | IPS FREE  |
+---------------+----------------+-----------+------------+--------------+-----------+
| IP Pool       | 10.245.0.0/24  |       128 | 2 (2%)     | 0 (0%)       | 126 (98%) |
| Block         | 10.245.0.0/26  |        64 | 1 (2%)     | 0 (0%)       | 63 (98%)  |
| Block (spare) | 10.245.0.64/26 |        64 | 1 (2%)     | 0 (0%)       | 63 (98%)  |
+---------------+----------------+-----------+------------+--------------+-----------+
Counts are of the blocks of 2 nodes, and of addresses that the inventory assigns to tunnels, probe endpoints and \
workloads. Only the nodes know the addresses that their agents assigned.
"""


@pytest.fixture
def inventory(node: Node, program: pathlib.Path) -> str:
    """The inventory of a controller, which is no node, and whose ansible-playbook answers with ANSWER."""
    node.controller = True
    program.write_text(answering(json.dumps({"lines": [], "answer": ANSWER})))
    return str(node.folder / "hosts")


def test_get_reads_resources_of_an_inventory(node: Node, inventory: str) -> None:
    assert node.run("get", "pools", "-i", inventory) == (
        0,
        "NAME   CIDR            SELECTOR\nlab    10.245.0.0/24   all()\n\n",
        "",
    )
    assert node.run("-i", inventory, "get", "nodes", "-o", "wide") == (
        0,
        "NAME    ASN       IPV4            IPV6\nnode1   (64512)   10.10.1.11/24\n\n",
        "",
    )
    assert node.run("get", "bgppeers", "-i", inventory) == (0, "NAME   PEERIP   NODE   ASN\n\n", "")
    missing = "resource does not exist: IPPool(x). `calicoctl get ippools` lists all.\n"
    assert node.run("get", "pool", "x", "-i", inventory) == (1, "", missing)


def test_export_leaves_out_what_belongs_to_this_network(node: Node, inventory: str) -> None:
    """As in Calico, resources that are named lose their namespace; here versions also go without names."""

    def metadata(*words: str) -> t.Any:
        found = json.loads(node.run("get", *words, "-o", "json", "-i", inventory)[1])
        return [one["metadata"] for one in found["items"]] if "items" in found else found["metadata"]

    version, name = {"resourceVersion": "r0123456789abcdef"}, WEB["metadata"]["name"]
    assert metadata("pool", "lab") == {"name": "lab", **version}
    assert metadata("pool", "lab", "--export") == {"name": "lab"}
    assert metadata("pools", "--export") == [{"name": "lab"}]
    assert metadata("wep", "web", "-n", "prod", "--export") == {"name": name}
    assert metadata("wep", "-A", "--export") == [{"name": name, "namespace": "prod"}]
    (node.folder / "empty.yml").write_text("")
    assert node.run("get", "-f", str(node.folder / "empty.yml"), "--skip-empty", "--export", "-i", inventory)[0] == 0


def test_workloads_of_an_inventory_are_listed_by_namespace(node: Node, inventory: str) -> None:
    columns = "custom-columns=WORKLOAD"
    assert node.run("get", "wep", "-o", columns, "-i", inventory)[1] == "WORKLOAD\n\n"
    assert node.run("get", "wep", "-n", "prod", "-o", columns, "-i", inventory)[1] == (
        "NAMESPACE   WORKLOAD\nprod        web\n\n"
    )
    everything = ("get", "wep", "-A", "-o", columns, "-i", inventory)
    assert node.run(*everything)[1] == "NAMESPACE   WORKLOAD\nprod        web\n\n"
    assert node.run(*everything, "--node", "node1")[1] == "NAMESPACE   WORKLOAD\nprod        web\n\n"
    assert node.run(*everything, "--node", "node2")[1] == "NAMESPACE   WORKLOAD\n\n"


def test_a_peer_of_chosen_nodes_shows_their_selector(
    node: Node, program: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.controller = True
    specs = ({"peerIP": "10.0.0.1"}, {"peerIP": "10.0.0.2", "nodeSelector": "rack == 'a'"}, {"node": "node1"})
    peers = [{"kind": "BGPPeer", "metadata": {"name": f"p{at}"}, "spec": spec} for at, spec in enumerate(specs)]
    answer = {**ANSWER, "resources": {**ANSWER["resources"], "BGPPeer": peers}}
    program.write_text(answering(json.dumps({"lines": [], "answer": answer})))
    shown = node.run("get", "bgpp", "-o", "custom-columns=NAME,NODE", "-i", str(node.folder / "hosts"))
    assert shown == (0, "NAME   NODE\np0     (global)\np1     rack == 'a'\np2     node1\n\n", "")


@pytest.mark.parametrize(
    "line",
    [
        "-i HOSTS ipam show",
        "ipam -i HOSTS show",
        "ipam show -i HOSTS",
        "ipam show -iHOSTS",
        "-iHOSTS ipam show",
        "--inventory=HOSTS ipam --allow-version-mismatch show",
        "--vault-password-file /dev/null -i HOSTS ipam show",
    ],
)
def test_an_inventory_is_named_before_or_behind_the_command(node: Node, inventory: str, line: str) -> None:
    status, out, err = node.run(*line.replace("HOSTS", inventory).split())
    assert (status, err) == (0, "") and "10.245.0.0/24" in out


def test_resources_that_a_file_names(node: Node, inventory: str) -> None:
    path = node.folder / "wep.json"
    path.write_text(json.dumps({"kind": "WorkloadEndpoint", "metadata": {"name": "web", "namespace": "prod"}}))
    assert json.loads(node.run("get", "-f", str(path), "-o", "json", "-i", inventory)[1]) == WEB


def test_ipam_show_prints_the_blocks_of_an_inventory(node: Node, inventory: str) -> None:
    assert node.run("ipam", "show", "--show-blocks", "-i", inventory) == (0, TABLE, "")
    found = json.loads(node.run("ipam", "show", "-o", "json", "-i", inventory)[1])
    assert found == {key: ANSWER["ipam"][key] for key in ("usage", "allocations")}


def test_blocks_without_a_lockfile(node: Node, inventory: str, program: pathlib.Path) -> None:
    new = {**ANSWER, "ipam": {**ANSWER["ipam"], "planned": False}}
    program.write_text(answering(json.dumps({"lines": [], "answer": new})))
    assert node.run("ipam", "show", "--show-blocks", "-i", inventory)[1] == (
        f"{TABLE}prod/.calico.lock.yml does not exist yet: these are the blocks that a first run would grant.\n"
    )


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "10.245.0.1",
            "IP 10.245.0.1 is in use\nHandle ID: prod/web\nActive Owner Attributes:\n  by: inventory\n",
        ),
        (
            "10.245.0.70",
            "10.245.0.70 is not assigned by the inventory. It is in block 10.245.0.64/26 of node2, whose agent may "
            "have assigned it: run `calicoctl ipam show --ip 10.245.0.70` there.\n",
        ),
        ("192.0.2.1", "192.0.2.1 is not assigned\n"),
        ("2001:db8::1", "2001:db8::1 is not assigned\n"),
    ],
)
def test_ipam_show_prints_the_owner_of_an_address_in_an_inventory(
    node: Node, inventory: str, address: str, said: str
) -> None:
    assert node.run("ipam", "show", "--ip", address, "-i", inventory) == (0, said, "")


def test_the_configuration_of_ipam(node: Node, inventory: str) -> None:
    out = node.run("ipam", "show", "--show-configuration", "-o", "json", "-i", inventory)[1]
    assert json.loads(out) == {"StrictAffinity": "true"}


def test_an_inventory_that_has_no_answer(node: Node, inventory: str, program: pathlib.Path) -> None:
    program.write_text(answering('{"error": "calico_ip_pools[0].cidr x is not a CIDR."}'))
    for line in ("get pools", "ipam show"):
        assert node.run(*line.split(), "-i", inventory) == (
            2, "", "calicoctl: calico_ip_pools[0].cidr x is not a CIDR.\n",
        )  # fmt: skip
