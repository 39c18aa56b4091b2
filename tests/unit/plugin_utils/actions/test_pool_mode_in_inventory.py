# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action pool_mode_in_inventory after a switch, whatever becomes of the inventory meanwhile."""

from __future__ import annotations

import dataclasses
import pathlib
import resource

import yaml

from tests.unit.plugin_utils import controller

HOSTS = "calico_nodes: {hosts: {node1: {calico_node_address: 10.10.1.11/24}}}\n"
POOLS = "calico_ip_pools:\n  - name: default\n    cidr: 10.244.0.0/16\n"
SET = ["    ipipMode: Never", "    vxlanMode: Always"]


def test_a_variable_that_fails_after_the_switch_fails_no_run(tmp_path: pathlib.Path) -> None:
    """The pool has its mode already: the lines to set are printed, and the file is left as it is."""
    (tmp_path / "group_vars").mkdir()
    hosts, variables = tmp_path / "hosts.yml", tmp_path / "group_vars" / "all.yml"
    hosts.write_text(HOSTS)
    args = {"pool": "default", "mode": "vxlan", "write": True}
    written = POOLS + 'calico_bgp_as_number: "{{ gone }}"\n'
    variables.write_text(written)
    run = controller.Run("pool_mode_in_inventory", args, str(hosts), {"node1": {}})
    working = dataclasses.replace(run, registered={"node1": {"gone": 64512}})
    failing, check, good = controller.run([run, dataclasses.replace(working, check_mode=True), working])
    assert failing["lines"] == [
        f"the file with pool default is not known: {variables}:4: calico_bgp_as_number of node1 is a template that "
        "cannot be evaluated: 'gone' is undefined. Define what it names. Facts are in ansible_facts alone: write "
        "ansible_facts.default_ipv4 for ansible_default_ipv4.",
        "pool default is vxlan now. To keep it, set in the inventory (pool default):",
        *SET,
    ]
    assert "failed" not in failing and "changed" not in failing
    assert check["lines"] == [f"pool default would be vxlan, and {variables} would say so."]
    assert good["lines"] == [f"pool default is vxlan now, and {variables} says so."]
    assert variables.read_text() == written.replace("/16\n", "/16\n" + "\n".join(SET) + "\n")


def test_a_write_that_fails_leaves_no_other_file(tmp_path: pathlib.Path) -> None:
    """If the disk does not take the new file, the old one stays as it is, and nothing of the new one is left."""
    (tmp_path / "group_vars").mkdir()
    hosts, variables = tmp_path / "hosts.yml", tmp_path / "group_vars" / "all.yml"
    hosts.write_text(HOSTS)
    written = POOLS + f"# {'x' * 300_000}\n"
    variables.write_text(written)
    args = {"pool": "default", "mode": "vxlan", "write": True}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        (result,) = controller.run([controller.Run("pool_mode_in_inventory", args, str(hosts), {"node1": {}})])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert result["lines"] == [
        f"{variables} is left as it is: File too large.",
        f"pool default is vxlan now. To keep it, set in {variables}:2 (pool default):",
        *SET,
    ]
    assert "changed" not in result
    assert variables.read_text() == written
    assert [path.name for path in variables.parent.iterdir()] == ["all.yml"]


def test_the_file_keeps_its_mode_its_link_and_its_line_ends(tmp_path: pathlib.Path) -> None:
    """A group_vars file may be a link to one that only its owner reads, with line ends of Windows."""
    (tmp_path / "group_vars").mkdir()
    hosts, variables, real = tmp_path / "hosts.yml", tmp_path / "group_vars" / "all.yml", tmp_path / "real.yml"
    hosts.write_text(HOSTS)
    real.write_bytes(POOLS.replace("\n", "\r\n").encode())
    real.chmod(0o600)
    variables.symlink_to(real)
    args = {"pool": "default", "mode": "vxlan", "write": True}
    (result,) = controller.run([controller.Run("pool_mode_in_inventory", args, str(hosts), {"node1": {}})])
    assert result["changed"] and variables.is_symlink()
    assert real.read_bytes() == "\r\n".join([*POOLS.splitlines(), *SET, ""]).encode()
    assert real.stat().st_mode & 0o777 == 0o600


def test_the_mode_of_a_pool_of_a_document_is_written(tmp_path: pathlib.Path) -> None:
    """A pool in a file of calico_resource_files is found, and its document alone changes; one of an operator stays."""
    (tmp_path / "prod" / "group_vars").mkdir(parents=True)
    hosts, file = tmp_path / "prod" / "hosts.yml", tmp_path / "pools" / "sub" / "p.yml"
    hosts.write_text(HOSTS)
    (tmp_path / "prod" / "group_vars" / "all.yml").write_text("calico_resource_files: [../pools]\n")
    file.parent.mkdir(parents=True)
    before = "# ours\n- kind: IPPool\n  metadata: {name: default}\n  spec: {ipipMode: Always, cidr: 10.244.0.0/16}\n"
    file.write_text(before)
    args = {"pool": "default", "mode": "vxlan", "write": True}
    run = controller.Run("pool_mode_in_inventory", args, str(hosts), {"node1": {}})
    check, written = controller.run([dataclasses.replace(run, check_mode=True), run])
    assert check["changed"] and check["diff"]["after"] == file.read_text()
    assert written["lines"] == [f"pool default is vxlan now, and {file} says so."]
    (pool,) = yaml.safe_load(file.read_text())
    assert pool["spec"] == {"ipipMode": "Never", "cidr": "10.244.0.0/16", "vxlanMode": "Always"}
    assert file.read_text().startswith("# ours\n- ")
    file.write_text(
        "apiVersion: operator.tigera.io/v1\nkind: Installation\nmetadata: {name: default}\nspec:\n"
        "  calicoNetwork:\n    ipPools: [{name: default, cidr: 10.244.0.0/16}]\n"
    )
    (left,) = controller.run([run])
    assert left["lines"] == [
        f"{file}:6 is left as it is: the pool is a part of Installation default there.",
        f"pool default is vxlan now. To keep it, set in {file}:6 (Installation default):",
        *SET,
    ]
    assert "changed" not in left
