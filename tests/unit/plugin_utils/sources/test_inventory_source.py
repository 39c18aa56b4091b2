# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of Ansible's variables to hosts, by Ansible itself: values, and a cost linear in the hosts."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import typing as t

import pytest
import yaml

#: A script that reads the inventories on its command line. It prints a JSON list with [hosts, number of characters of
#: the values that were converted] for each.
READ = """
import json, sys
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

init_plugin_loader()
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import inventory_source

converted = []
plain = inventory_source.plain

def counted(value):
    answer = plain(value)
    converted.append(len(json.dumps(answer)))
    return answer

inventory_source.plain = counted
answers = []
for folder in sys.argv[1:]:
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[folder])
    manager = VariableManager(loader=loader, inventory=inventory)
    hostvars = HostVars(inventory=inventory, variable_manager=manager, loader=loader)
    groups = {name: [str(host) for host in group.get_hosts()] for name, group in inventory.groups.items()}
    converted.clear()
    hosts = inventory_source.hosts({"hostvars": hostvars, "groups": groups})
    shown = {host.name: [host.variables, dict(host.origins), host.ssh_port, host.groups] for host in hosts}
    answers.append([shown, sum(converted)])
print(json.dumps(answers))
"""

WORKLOADS = "calico_workloads"


def write(folder: pathlib.Path, count: int, fleet: t.Mapping[str, t.Any]) -> pathlib.Path:
    (folder / "group_vars").mkdir(parents=True)
    hosts = {f"node{index:03}": {"calico_node_address": f"10.10.1.{index}/24"} for index in range(1, count + 1)}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"calico_nodes": {"hosts": hosts}}))
    workloads = [{"name": f"web-{name}", "node": name, "labels": {"app": "web"}} for name in hosts]
    (folder / "group_vars" / "all.yml").write_text(yaml.safe_dump({WORKLOADS: workloads, **fleet}))
    return folder


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, t.Any], int]]:
    """The output of READ, [(hosts, number of converted characters)], for four inventories.

    The inventories have 20 hosts, 40 hosts, 2 hosts whose variables are templates with different values, and 1 host
    whose port is no number. Raise AssertionError if READ fails, and subprocess.TimeoutExpired after 60 seconds.
    """
    templates = {
        "ansible_port": "{{ 2200 + 22 }}",
        "calico_node_labels": {"rack": "{{ inventory_hostname[-1] }}", "site": "a"},
        "calico_node_bgp_as_number": "{{ 64512 }}",
    }
    folder = tmp_path_factory.mktemp("inventories")
    folders = [write(folder / "20", 20, {}), write(folder / "40", 40, {}), write(folder / "templates", 2, templates)]
    folders.append(write(folder / "port", 1, {"ansible_port": "2²"}))
    done = subprocess.run(
        [sys.executable, "-c", READ, *map(str, folders)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return [(hosts, read) for hosts, read in json.loads(done.stdout)]


def test_twice_the_hosts_are_twice_the_reading(answers: list[tuple[dict[str, t.Any], int]]) -> None:
    (few, read), (many, read_of_many), *dummy = answers
    assert (len(few), len(many)) == (20, 40)
    assert len(many["node001"][0][WORKLOADS]) == 2 * len(few["node001"][0][WORKLOADS]) == 40
    assert 1.9 * read < read_of_many < 2.1 * read


def test_all_hosts_have_what_is_written_for_all(answers: list[tuple[dict[str, t.Any], int]]) -> None:
    hosts = answers[0][0]
    for name, (variables, origins, port, groups) in hosts.items():
        assert variables["calico_node_address"] == f"10.10.1.{int(name[-3:])}/24"
        assert variables[WORKLOADS][19] == {"name": "web-node020", "node": "node020", "labels": {"app": "web"}}
        assert pathlib.Path(origins[f"{WORKLOADS}[19].labels"].rpartition(":")[0]).name == "all.yml"
        assert pathlib.Path(origins["calico_node_address"].rpartition(":")[0]).name == "hosts.yml"
        assert (port, groups) == (None, ["all", "calico_nodes"])


def test_templates_are_each_hosts_own(answers: list[tuple[dict[str, t.Any], int]]) -> None:
    hosts = answers[2][0]
    assert [hosts[name][0]["calico_node_labels"] for name in sorted(hosts)] == [
        {"rack": "1", "site": "a"},
        {"rack": "2", "site": "a"},
    ]
    assert {name: hosts[name][0]["calico_node_bgp_as_number"] for name in hosts} == {"node001": 64512, "node002": 64512}
    assert {hosts[name][2] for name in hosts} == {2222}


def test_a_port_that_is_no_number_is_left_out(answers: list[tuple[dict[str, t.Any], int]]) -> None:
    """A port with a digit that is not decimal, here a superscript 2, is read as None."""
    assert answers[3][0]["node001"][2] is None
