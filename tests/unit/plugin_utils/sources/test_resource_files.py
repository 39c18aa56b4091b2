# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files with policy beside the inventory: found, read unchanged, and refused in words with file and line."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers.observed_nodes import (
    ObservedNodes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import fleet_source, resource_files

TWO = """\
apiVersion: projectcalico.org/v3
kind: Tier
metadata: {name: platform}
spec:
  order: 10
---
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata:
  name: no-telnet
spec:
  tier: platform
  selector: all()
  ingress:
    - action: Deny
      protocol: TCP
      destination: {ports: [23]}
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with an empty prod/, for an inventory, and two files with policy and one other in policy/."""
    (tmp_path / "prod").mkdir()
    (tmp_path / "policy").mkdir()
    (tmp_path / "policy" / "b.yml").write_text(TWO)
    (tmp_path / "policy" / "a.json").write_text('{"kind": "NetworkPolicy", "metadata": {"name": "web"}, "spec": {}}')
    (tmp_path / "policy" / "notes.txt").write_text("not policy")
    return tmp_path


def read(folder: pathlib.Path, *names: t.Any) -> list[tuple[str, str]]:
    found = resource_files.documents({"calico_policy_files": list(names)}, task_vars(folder))["calico_policy_files"]
    return [(one.content["kind"], str(pathlib.Path(one.file).relative_to(folder))) for one in found]


def task_vars(folder: pathlib.Path) -> dict[str, t.Any]:
    inventory = str(folder / "prod")
    return {"inventory_dir": inventory, "ansible_inventory_sources": [inventory]}


def test_files_folders_and_patterns(folder: pathlib.Path) -> None:
    everything = [
        ("NetworkPolicy", "policy/a.json"),
        ("Tier", "policy/b.yml"),
        ("GlobalNetworkPolicy", "policy/b.yml"),
    ]
    assert read(folder, "../policy") == everything
    assert read(folder, "../policy/*.json", "../policy/b.yml") == everything
    assert read(folder, str(folder / "policy" / "b.yml"), "../policy") == everything[1:] + everything[:1]
    assert resource_files.documents({"calico_policy_files": None}, task_vars(folder)) == {"calico_policy_files": []}


def test_folders_are_read_with_those_in_them(folder: pathlib.Path) -> None:
    (folder / "policy" / "a" / "b").mkdir(parents=True)
    (folder / "policy" / "a" / "b" / "c.yaml").write_text(TWO)
    assert ("Tier", "policy/a/b/c.yaml") in read(folder, "../policy")


def test_a_file_that_both_variables_name_is_read_for_the_first(folder: pathlib.Path) -> None:
    names = {"calico_resource_files": ["../policy/a.json"], "calico_policy_files": ["../policy"]}
    found = resource_files.documents(names, task_vars(folder))
    assert {variable: [one.content["kind"] for one in documents] for variable, documents in found.items()} == {
        "calico_resource_files": ["NetworkPolicy"],
        "calico_policy_files": ["Tier", "GlobalNetworkPolicy"],
    }


def test_links_inside_the_folder_and_named_ones(folder: pathlib.Path) -> None:
    """A link may lead to another file of its folder, and the variable may name a link to anywhere."""
    (folder / "policy" / "sub").mkdir()
    (folder / "policy" / "sub" / "c.yml").write_text(TWO)
    (folder / "policy" / "c.yml").symlink_to("sub/c.yml")
    (folder / "shared").symlink_to("policy/sub")
    (folder / "one.yml").symlink_to("policy/sub/c.yml")
    assert ("Tier", "policy/c.yml") in read(folder, "../policy")
    assert ("Tier", "shared/c.yml") in read(folder, "../shared")
    assert ("Tier", "one.yml") in read(folder, "../one.yml")


@pytest.mark.parametrize("name", ["[prod]", "prod*", "prod?", "[", "a[b]*c"])
def test_an_inventory_in_a_folder_whose_name_looks_like_a_pattern(tmp_path: pathlib.Path, name: str) -> None:
    """Characters of a pattern in the inventory's own path stand for themselves; those in the variable are a pattern."""
    (tmp_path / name / "prod").mkdir(parents=True)
    for policy in ("policy", "prod/.policy"):
        (tmp_path / name / policy).mkdir()
        (tmp_path / name / policy / "b.yml").write_text(TWO)
    kinds = ["Tier", "GlobalNetworkPolicy"]
    assert read(tmp_path / name, "../policy/*.yml") == [(kind, "policy/b.yml") for kind in kinds]
    assert read(tmp_path / name, "../polic[xy]/b.yml") == [(kind, "policy/b.yml") for kind in kinds]
    assert read(tmp_path / name, ".policy/*.yml") == [(kind, "prod/.policy/b.yml") for kind in kinds]


def test_hidden_folders_of_the_inventory_are_no_inventory(folder: pathlib.Path) -> None:
    (folder / "prod" / ".policy").mkdir()
    (folder / "prod" / ".policy" / "web.yml").write_text(TWO)
    assert len(read(folder, ".policy")) == 2


def refusal(folder: pathlib.Path, *names: t.Any) -> str:
    with pytest.raises(FleetError) as caught:
        resource_files.documents({"calico_policy_files": list(names)}, task_vars(folder))["calico_policy_files"]
    return str(caught.value).replace(str(folder), "FOLDER")


def test_an_invalid_policy_file_is_refused_with_its_place(folder: pathlib.Path) -> None:
    (folder / "prod" / "web.yml").write_text(TWO)
    (folder / "policy" / "bad.yml").write_text("kind: Tier\nmetadata: {name: [}\n")
    (folder / "empty").mkdir()
    (folder / "latin.yml").write_bytes(b"kind: \xff")
    assert refusal(folder, 7) == "calico_policy_files[0] 7 is not a path. Write for example ../policy/*.yml."
    assert refusal(folder, "../policy/b.yml", "web.yml") == (
        "calico_policy_files[1] FOLDER/prod/web.yml lies in the inventory, where Ansible takes it for hosts and "
        "groups. Move it beside FOLDER/prod, or into a folder there whose name begins with a dot."
    )
    assert refusal(folder, "../empty") == (
        "calico_policy_files[0] ../empty has no file *.yml, *.yaml or *.json. Put policy there, or remove it."
    )
    for pattern in ("../policy/*.toml", "../polcy/*.yml", "../poli*"):
        assert refusal(folder, "../policy/b.yml", pattern) == (
            f"calico_policy_files[1] {pattern} matches no file. Correct it, as seen from FOLDER/prod, or remove it."
        )
    assert refusal(folder, "../latin.yml") == (
        "calico_policy_files[0] FOLDER/latin.yml is not UTF-8 at byte 6. Save it as UTF-8."
    )
    assert refusal(folder, "../policy/bad.yml") == (
        "FOLDER/policy/bad.yml:2: document is not YAML: expected the node content, but found '}'. Correct it."
    )


def test_an_error_in_a_document_of_settings_names_its_line(folder: pathlib.Path) -> None:
    """The checks of the whole fleet name the document's field, as the checks of the document do."""
    text = "kind: BGPConfiguration\nmetadata: {name: default}\nspec:\n  nodeToNodeMeshEnabled: false\n"
    (folder / "bgp.yml").write_text(text)
    variables = {
        "calico_ip_pools": [{"name": "default", "cidr": "10.244.0.0/16"}],
        "calico_node_address": "10.10.1.11/24",
        "calico_resource_files": ["../bgp.yml"],
    }
    given = {**task_vars(folder), "groups": {"calico_nodes": ["node1"]}, "hostvars": {"node1": variables}}
    with pytest.raises(FleetError) as caught:
        fleet_source.planned(given, ObservedNodes({"node1": None}))
    assert str(caught.value) == (
        f"{folder}/bgp.yml:4: BGPConfiguration default: spec.nodeToNodeMeshEnabled false leaves the nodes without any "
        "BGP session. Put route reflectors into group calico_rr, name peers in calico_bgp_peers, or leave the mesh on."
    )


def test_an_error_in_a_file_names_its_line(folder: pathlib.Path) -> None:
    (folder / "policy" / "b.yml").write_text(TWO.replace("tier: platform", "tier: platfrom"))
    variables = {
        "calico_ip_pools": [{"name": "default", "cidr": "10.244.0.0/16"}],
        "calico_node_address": "10.10.1.11/24",
        "calico_policy_files": ["../policy/b.yml"],
    }
    given = {**task_vars(folder), "groups": {"calico_nodes": ["node1"]}, "hostvars": {"node1": variables}}
    with pytest.raises(FleetError) as caught:
        fleet_source.planned(given, ObservedNodes({"node1": None}))
    assert str(caught.value) == (
        f"{folder}/policy/b.yml:12: GlobalNetworkPolicy no-telnet: spec.tier platfrom does not exist. "
        "Did you mean platform?"
    )
