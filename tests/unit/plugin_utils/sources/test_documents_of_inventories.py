# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `get -o yaml` prints of an inventory means the same fleet, as files beside an inventory without variables."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from tests.unit.plugin_utils.actions.test_fleet_resources_action import FLEET

ROOT = pathlib.Path(__file__).resolve().parents[4]
#: A script that reads the inventory on its command line, writes its resources into files of the folder there, and reads
#: these with what is left of the variables. It prints {node: [both states as dicts]} as JSON for states that differ,
#: the numbers of files and nodes, and what has no effect.
ROUND_TRIP = """
import dataclasses, json, pathlib, sys
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

init_plugin_loader()
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import yaml_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory as reader
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import merged
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.setting_fields import FIELDS
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import (
    fleet_documents, inventory_resources, resource_files
)

source, folder = sys.argv[1], pathlib.Path(sys.argv[2])
loader = DataLoader()
inventory = InventoryManager(loader=loader, sources=[source])
manager = VariableManager(loader=loader, inventory=inventory)
hostvars = HostVars(inventory=inventory, variable_manager=manager, loader=loader)
groups = {name: [str(host) for host in group.get_hosts()] for name, group in inventory.groups.items()}
task_vars = {"hostvars": hostvars, "groups": groups, "inventory_dir": source}
found = fleet_documents.read(task_vars)
fleet = Fleet.build(reader.read(found.hosts, found.policies), None)
resources = inventory_resources.resources(fleet, found)
for kind, documents in resources.items():
    if kind != "WorkloadEndpoint":
        for number, document in enumerate(documents):
            (folder / kind).mkdir(exist_ok=True)
            (folder / kind / f"{number}.yml").write_text(yaml_text.dump(document) + "\\n")
means = {one.variable for one in FIELDS} | {
    "calico_ip_pools", "calico_bgp_peers", "calico_node_bgp_peers", "calico_bgp_filters", "calico_ip_reservations",
    "calico_policies", "calico_node_policies", "calico_policy_files", "calico_staged_policies",
}
groups_of = ("calico_bgp_peers_", "calico_policies_")
bare = [
    dataclasses.replace(host, variables={
        name: value for name, value in host.variables.items() if name not in means and not name.startswith(groups_of)
    })
    for host in found.hosts
]
read = resource_files.documents({"calico_resource_files": [str(folder)]}, task_vars)["calico_resource_files"]
again = merged(bare, read)
if again.errors:
    raise again.errors[0]
copy = Fleet.build(reader.read(again.hosts, again.policies), None)
differing = {}
for name in fleet.nodes:
    states = [compiler.node_state(one, name).to_dict() for one in (fleet, copy)]
    if states[0] != states[1]:
        differing[name] = states
print(json.dumps({
    "differing": differing, "files": len(read), "nodes": len(fleet.nodes),
    "without_effect": [one.what for one in again.without_effect],
    "same": inventory_resources.resources(copy, again) == resources,
}))
"""
INVENTORIES = [path.name for path in sorted((ROOT / "inventories").iterdir()) if (path / "hosts.yml").exists()]


def round_trip(inventory: pathlib.Path, folder: pathlib.Path) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", ROUND_TRIP, str(inventory), str(folder)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def differences(one: object, other: object, path: str = "") -> list[str]:
    """Return the paths at which two states differ, with both values.

    The name of the plan is left out: it also depends on the list and the name by which a node has a BGPPeer.
    """
    if path == ".plan":
        return []
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        return [text for key in keys for text in differences(one.get(key), other.get(key), f"{path}.{key}")]
    return [] if one == other else [f"{path}: {one} {other}"[:300]]


@pytest.mark.parametrize("name", [*INVENTORIES, "everything"])
def test_the_resources_of_an_inventory_mean_the_same_fleet(name: str, tmp_path: pathlib.Path) -> None:
    inventory = ROOT / "inventories" / name
    if name == "everything":
        inventory = tmp_path / "hosts.yml"
        inventory.write_text(FLEET.replace("calico_bgp_log_severity: None", "calico_bgp_log_severity: Debug"))
    folder = tmp_path / "resources"
    folder.mkdir()
    found = round_trip(inventory, folder)
    assert [differences(*states) for states in found["differing"].values() if differences(*states)] == []
    assert found["without_effect"] == []
    assert found["same"] is True
    assert found["files"] > found["nodes"] > 0
