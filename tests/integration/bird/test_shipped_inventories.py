# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that every BIRD can read the bird.cfg of each host of every shipped inventory."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

from .debian_bird import RELEASES, debian_bird

pytestmark = pytest.mark.root

ROOT = pathlib.Path(__file__).resolve().parents[3]
#: The shipped inventories except the lab's, which contains templates, and which all scenarios of the lab run.
SHIPPED = sorted(path.parent.name for path in ROOT.glob("inventories/*/hosts.yml") if path.parent.name != "lab")
#: {inventory: the number of sessions of all hosts; a session between two hosts counts twice}. The other inventories
#: have a session between each two nodes.
SESSIONS = {
    "as-per-rack-tor": 4 * (1 + 2),
    "dual-stack": 4 * (3 + 1) * 2,
    "two-racks-reflectors": 4 * 2 + 2 * (4 + 1),
}


def compiled(name: str) -> Fleet:
    command = [pathlib.Path(sys.executable).with_name("ansible-inventory"), "-i", ROOT / "inventories" / name, "--list"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)

    def members(group: str) -> set[str]:
        content = listed.get(group, {})
        return {*content.get("hosts", ()), *(one for child in content.get("children", ()) for one in members(child))}

    groups = {group: members(group) for group in listed if group != "_meta"}
    variables = listed["_meta"]["hostvars"]
    hosts = [
        Host(
            host,
            {name: value for name, value in variables.get(host, {}).items() if name.startswith("calico_")},
            workload_node=host in groups["calico_nodes"],
            reflector=host in groups.get("calico_rr", ()),
            groups=tuple(group for group, names in groups.items() if host in names),
        )
        for host in sorted(groups["calico_nodes"] | groups.get("calico_rr", set()))
    ]
    return Fleet.build(inventory.read(hosts), None)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_bird_reads_what_every_host_gets(name: str) -> None:
    fleet = compiled(name)
    birds = {node: compiler.node_state(fleet, node) for node in fleet.nodes}
    sessions = sum(len(state.bird.peers) for state in birds.values() if state.bird)
    nodes = len(birds)
    assert sessions == SESSIONS.get(name, nodes * (nodes - 1))
    for release in RELEASES:
        program = debian_bird(release).bird
        for state in birds.values():
            assert state.bird
            text = bird_config.render(state.to_dict()["bird"])
            configuration.check(text, program=program, secrets=state.bird.secrets)
