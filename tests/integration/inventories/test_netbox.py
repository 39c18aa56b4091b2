# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped inventory that reads NetBox: the plugin of netbox.netbox, with recorded answers of the API."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.integration.ansible_playbook import BIN, ROOT, play
from tests.integration.inventories import netbox

INVENTORY = ROOT / "inventories" / "netbox"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables with which Ansible finds the plugin and may read the API, without the URL.

    ANSIBLE_LOCAL_TEMP is a folder of the test's own, because the plugin caches the API's schema beside it.
    """
    temporary = tmp_path_factory.mktemp("ansible") / "tmp"
    return {
        **netbox.collection(),
        "NETBOX_TOKEN": netbox.TOKEN,
        "ANSIBLE_LOCAL_TEMP": str(temporary),
        "no_proxy": "127.0.0.1",
    }


def validate(environment: dict[str, str], recorded: netbox.Answers) -> subprocess.CompletedProcess[str]:
    """Return the finished validate.yml with `recorded` as the answers of NetBox."""
    with netbox.serving(recorded) as url:
        return play("playbooks/validate.yml", INVENTORY, environment={**environment, "NETBOX_API": url})


def test_devices_are_nodes_and_reflectors_by_tag(environment: dict[str, str]) -> None:
    """Tags decide the groups, the primary address is the node's address, and the rack is a label and a group."""
    with netbox.serving(netbox.answers()) as url:
        done = subprocess.run(
            [BIN / "ansible-inventory", "-i", INVENTORY, "--list"],
            cwd=ROOT,
            env={**os.environ, "LC_ALL": "C.UTF-8", **environment, "NETBOX_API": url},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    groups = {name: listed[name]["hosts"] for name in ("calico_nodes", "calico_rr", "rack_a1", "rack_b1")}
    assert groups == {
        "calico_nodes": ["node1", "node2", "node3", "node4"],
        "calico_rr": ["rr1", "rr2"],
        "rack_a1": ["node1", "node2", "rr1"],
        "rack_b1": ["node3", "node4", "rr2"],
    }
    # ansible-inventory writes what is no template as {"__ansible_unsafe": value}.
    node = listed["_meta"]["hostvars"]["node3"]
    labels = {name: value["__ansible_unsafe"] for name, value in node["calico_node_labels"].items()}
    assert labels == {"rack": "b1", "site": "fra"}
    addresses = [node[name]["__ansible_unsafe"] for name in ("ansible_host", "calico_node_address")]
    assert addresses == ["10.10.2.11", "10.10.2.11/24"]
    assert "WARNING" not in done.stderr


def test_validate_finds_nothing(environment: dict[str, str]) -> None:
    """The shipped inventory is good, with a warning counted as bad."""
    done = validate(environment, netbox.answers())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing found: 6 nodes and 59 rules\n" in done.stdout


def test_validate_names_the_plugin_where_a_file_has_no_line(environment: dict[str, str]) -> None:
    """An address that NetBox has wrong is refused with the inventory's file and the plugin that read it."""
    recorded = netbox.answers()
    recorded[netbox.DEVICES]["results"][0]["primary_ip4"]["address"] = "127.0.0.1/8"
    done = validate(environment, recorded)
    assert done.returncode != 0
    table = """\
SEVERITY   RULE      WHERE
error      refused   inventories/netbox/10-netbox.yml (plugin netbox.netbox.nb_inventory)
  calico_node_address of node1 127.0.0.1/8 is not an address that other nodes can reach.
  Write the node's own address on the underlay with its prefix length, for example 10.10.1.11/24.
"""
    assert table in done.stdout
