# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Calico's documents become the inventory of four hosts by `calicoctl import`, and keep their addresses.

The documents are in Calico's own formats (tests/unit/migration/calico has others): pools, peers, policy, the blocks of
each node with a tunnel's address, and workloads.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.lab.handle import BaseLab
from tests.lab.topology import NODES

from .conftest import LAB, ROOT, Fleet, new_lab

NAME = f"{LAB}-import"
#: The block of each host, the address of its tunnel, and that of its workload.
BLOCKS = {
    "node1": ("10.244.7.64/26", "10.244.7.66", "10.244.7.70"),
    "node2": ("10.244.1.0/26", "10.244.1.1", "10.244.1.9"),
    "node3": ("10.244.130.128/26", "10.244.130.190", "10.244.130.131"),
    "node4": ("10.244.255.192/26", "10.244.255.193", "10.244.255.254"),
}
POOL = {"cidr": "10.244.0.0/16", "blockSize": 26, "ipipMode": "Never", "vxlanMode": "Always", "natOutgoing": True,
        "nodeSelector": "all()", "allowedUses": ["Workload", "Tunnel"]}  # fmt: skip


def document(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    made = {"name": name, "uid": "5b0f3b0e", "creationTimestamp": "2026-03-01T09:00:00Z", **metadata}
    return {"apiVersion": "projectcalico.org/v3", "kind": kind, "metadata": made, "spec": spec}


def documents() -> list[dict[str, Any]]:
    found = [
        document("IPPool", "default-ipv4-ippool", POOL),
        document("BGPConfiguration", "default", {"asNumber": 64512, "nodeToNodeMeshEnabled": True}),
        document("BGPPeer", "router-rack1", {"peerIP": "10.10.1.1", "asNumber": 65000, "nodeSelector": "rack == '1'"}),
        document("BGPPeer", "router-rack2", {"peerIP": "10.10.2.1", "asNumber": 65000, "nodeSelector": "rack == '2'"}),
        document("GlobalNetworkPolicy", "web", {
            "selector": "app == 'web'", "types": ["Ingress"],
            "ingress": [{"action": "Allow", "protocol": "ICMP", "source": {"selector": "app == 'web'"}}]}),
    ]  # fmt: skip
    for name, (block, tunnel, address) in BLOCKS.items():
        bgp = {"ipv4Address": f"{NODES[name].address}/24"}
        rack = "1" if NODES[name].address.startswith("10.10.1.") else "2"
        found.append(document("Node", name, {"bgp": bgp, "ipv4VXLANTunnelAddr": tunnel}, labels={"rack": rack}))
        found.append(block_of(name, block, tunnel, address))
        found.append(document("WorkloadEndpoint", f"{name}-cni-web-eth0", {
            "node": name, "orchestrator": "cni", "workload": f"web-{name[-1]}", "endpoint": "eth0",
            "interfaceName": "cali1", "ipNetworks": [f"{address}/32"]}, namespace="default", labels={"app": "web"},
        ))  # fmt: skip
    return found


def block_of(node: str, block: str, tunnel: str, address: str) -> dict[str, Any]:
    first, attributes = int(block.partition("/")[0].rpartition(".")[2]), []
    allocations: list[int | None] = [None] * 64
    for index, (used, handle, kind) in enumerate(
        ((tunnel, f"vxlan-tunnel-addr-{node}", "vxlanTunnelAddress"), (address, "cni.web", ""))
    ):
        allocations[int(used.rpartition(".")[2]) - first] = index
        owner = {"node": node, **({"type": kind} if kind else {})}
        attributes.append({"handle_id": handle, "secondary": owner})
    spec = {"cidr": block, "affinity": f"host:{node}", "allocations": allocations, "attributes": attributes,
            "unallocated": [], "deleted": False}  # fmt: skip
    return {"apiVersion": "crd.projectcalico.org/v1", "kind": "IPAMBlock", "metadata": {"name": block}, "spec": spec}


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(NAME) as lab:
        yield lab


@pytest.fixture(scope="module")
def imported(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Fleet, list[str]]:
    """The hosts as routers of the imported inventory, and the words that connect Ansible to them."""
    folder = tmp_path_factory.mktemp("import")
    (folder / "calico.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": documents()}))
    target = folder / "prod"
    words = [str(ROOT / "bin" / "calicoctl"), "import", str(folder / "calico.json"), "--to", str(target)]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "4 blocks, 4 workloads" in said and "for a person" not in said
    connection = yaml.safe_load((ROOT / "inventories/lab/group_vars/all/connection.yml").read_text("utf-8"))
    connection["ansible_host"] = "{{ inventory_hostname }}"
    (folder / "connection.json").write_text(json.dumps(connection))
    fleet, words = Fleet(lab, str(target)), ["-e", f"@{folder / 'connection.json'}"]
    fleet.site(*words).check()
    return fleet, words


def test_nodes_keep_their_blocks_and_tunnels(lab: BaseLab, imported: tuple[Fleet, list[str]]) -> None:
    for node, (block, tunnel, address) in BLOCKS.items():
        assert f"| Block         | {block} " in lab.exec(node, "calicoctl ipam show --show-blocks").stdout
        assert f"{tunnel}/32" in lab.exec(node, "ip -4 address show dev vxlan.calico").stdout
        assert f"IP {address} is in use" in lab.exec(node, f"calicoctl ipam show --ip {address}").stdout


def test_workloads_reach_each_other_at_their_addresses(lab: BaseLab, imported: tuple[Fleet, list[str]]) -> None:
    for node in BLOCKS:
        for other in BLOCKS.values():
            lab.exec(node, f"ip netns exec web-{node[-1]} ping -c 1 -W 5 {other[-1]}")


def test_a_second_run_changes_nothing(imported: tuple[Fleet, list[str]]) -> None:
    fleet, words = imported
    fleet.site(*words).unchanged(*BLOCKS)


def test_nodes_have_the_manual_and_the_completion(lab: BaseLab, imported: tuple[Fleet, list[str]]) -> None:
    """A node's bash completes the names that calicoctl there knows, by the file that the run installed."""
    script = (
        "source /usr/share/bash-completion/completions/calicoctl; COMP_WORDS=(calicoctl get nodes node); COMP_CWORD=3; "
        "_calicoctl /usr/local/bin/calicoctl node nodes; echo ${COMPREPLY[*]}"
    )
    assert lab.exec("node1", ["bash", "-c", script]).stdout.strip() == "node1 node2 node3 node4"
    manual = lab.exec("node1", "cat /usr/local/share/man/man1/calicoctl.1").stdout
    assert re.search(r"^\.TH CALICOCTL 1", manual, re.MULTILINE)


def test_a_teardown_removes_both(lab: BaseLab, imported: tuple[Fleet, list[str]]) -> None:
    fleet, words = imported
    fleet.play("teardown.yml", "-e", "confirm=yes", *words).check()
    for path in ("/usr/share/bash-completion/completions/calicoctl", "/usr/local/share/man/man1/calicoctl.1"):
        assert lab.exec("node1", f"test -e {path}", check=False).returncode != 0
