# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that is wrong with documents of files is found at once, and named by resource, file and line."""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import lint_source

DOCUMENTS = {
    "pools.yml": """\
kind: IPPool
metadata: {name: a}
spec:
  cidr: 10.1.0.0/16
  blockSize: 40
---
kind: IPPool
metadata: {name: b}
spec: {cidr: 10.2.0.0/16}
---
kind: IPPool
metadata: {name: c}
spec:
  cidr: 10.3.0.0/16
  vxlanMode: Sometimes
---
kind: IPPool
metadata: {name: default}
spec: {cidr: 10.4.0.0/16}
---
kind: IPPool
metadata: {name: rack}
spec:
  cidr: 10.5.0.0/16
  nodeSelector: rack == 'x'
""",
    "bgp/all.yml": """\
kind: BGPConfiguration
metadata: {name: default}
spec:
  bindMode: All
  serviceClusterIPs: [{cidr: 10.96.0.0/12}]
---
kind: BGPConfiguration
metadata: {name: node.node1}
spec: {logSeverityScreen: Debug}
---
- kind: BGPPeer
  metadata: {name: tor}
  spec:
    peerIP: 10.10.1.1
    asNumber: 0
---
kind: Node
metadata: {name: node1, labels: {rack: y}}
spec:
  bgp:
    ipv4Address: 10.10.1.11
    asNumber: 64600
""",
}


def test_every_error_is_found_and_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "prod").mkdir()
    (tmp_path / "resources" / "bgp").mkdir(parents=True)
    for name, text in DOCUMENTS.items():
        (tmp_path / "resources" / name).write_text(text)
    shared = {
        "calico_ip_pools": [{"name": "default", "cidr": "10.244.0.0/16"}],
        "calico_resource_files": ["../resources"],
    }
    hostvars = {"node1": dict(shared), "node2": {**shared, "calico_node_address": "10.10.1.12/24"}}
    given: dict[str, t.Any] = {
        "inventory_dir": str(tmp_path / "prod"),
        "groups": {"all": list(hostvars), "calico_nodes": list(hostvars)},
        "hostvars": hostvars,
    }
    found = lint_source.lint(given)
    assert [str(one).replace(f"{tmp_path}/resources/", "") for one in found.findings] == [
        "bgp/all.yml:4: error: BGPConfiguration default: spec.bindMode All is not one of None, NodeIP. Choose one of "
        "these. [refused]",
        "pools.yml:18: error: IPPool default: metadata.name default stands in two places: also in calico_ip_pools[0]. "
        "Keep one of the two. [refused]",
        "pools.yml:5: error: IPPool a: spec.blockSize 40 is out of range. A block of an IPv4 pool is between /20 and "
        "/32. Choose a length in between, or leave it out for /26. [refused]",
        "pools.yml:15: error: IPPool c: spec.vxlanMode Sometimes is not one of Always, CrossSubnet, Never. Choose one "
        "of these. [refused]",
        "bgp/all.yml:21: error: Node node1: spec.bgp.ipv4Address 10.10.1.11 has no prefix length from /1 to /32. Write "
        "the node's own address on the underlay with its prefix length, for example 10.10.1.11/24. [refused]",
        "bgp/all.yml:15: error: BGPPeer tor: spec.asNumber 0 is reserved: no speaker may have it (RFC 7607). Write a "
        "number from 1 to 4294967295, or leave it out. [refused]",
        "bgp/all.yml:9: warning: BGPConfiguration node.node1 has spec.logSeverityScreen, which no variable here means. "
        "Remove it if it is not needed; docs/how-to/resource-files.md says what takes its place. "
        "[document-without-effect]",
    ]


def test_a_finding_about_a_document_names_its_resource_and_line(tmp_path: pathlib.Path) -> None:
    """Rules know variables alone; what they find in the value of a document is named by the document."""
    (tmp_path / "prod").mkdir()
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "pools.yml").write_text(DOCUMENTS["pools.yml"].rpartition("---\n")[2])
    own = {
        "calico_ip_pools": [{"name": "default", "cidr": "10.244.0.0/16"}],
        "calico_resource_files": ["../resources"],
        "calico_node_address": "10.10.1.11/24",
    }
    given: dict[str, t.Any] = {
        "inventory_dir": str(tmp_path / "prod"),
        "groups": {"all": ["node1"], "calico_nodes": ["node1"]},
        "hostvars": {"node1": own},
    }
    (found,) = lint_source.lint(given).findings
    assert str(found).replace(f"{tmp_path}/resources/", "") == (
        "pools.yml:5: warning: IPPool rack: spec.nodeSelector rack == 'x' matches no node, so that no node gets "
        "addresses of pool rack. Correct it, or the calico_node_labels of the nodes that are meant. [pool-for-nobody]"
    )
