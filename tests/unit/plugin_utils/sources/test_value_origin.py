# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the inventory has a value: in files, and by inventory plugins and scripts, as Ansible itself reads them."""

from __future__ import annotations

import pathlib

import pytest
from ansible._internal._datatag._tags import Origin
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.written.value_origin import value_origin

from tests.unit.plugin_utils import controller

HOSTS = """\
calico_nodes:
  vars:
    calico_ip_pools: [{name: default, cidr: 10.244.0.0/16}]
  hosts:
    node1: {underlay: 10.10.1.11}
    node2: {calico_node_address: 10.10.1.12/24}
"""
CONSTRUCTED = """\
plugin: ansible.builtin.constructed
compose:
  calico_node_address: {address}
  calico_node_bgp_as_number: {as_number}
"""
PLUGIN = """\
from ansible.plugins.inventory import BaseInventoryPlugin

class InventoryModule(BaseInventoryPlugin):
    NAME = "made"

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        self.inventory.add_group("calico_nodes")
        for name in ("node1", "node2"):
            self.inventory.add_host(name, "calico_nodes")
        self.inventory.set_variable("node1", "calico_node_address", "10.10.1.11/0")
"""
SCRIPT = """\
#!/bin/sh
echo '{"calico_nodes": {"hosts": ["node1"]},
  "_meta": {"hostvars": {"node1": {"calico_node_address": "10.10.1.11/0"}}}}'
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a name that Python would write in double quotes, because of its apostrophe."""
    made = tmp_path / "o'clock"
    made.mkdir()
    return made


def tagged(description: str) -> object:
    return Origin(description=description).tag("value")


def lint_lines(inventory: pathlib.Path) -> str:
    """Return what fleet_lint prints for node1 of an inventory, without colours."""
    printed, dummy = controller.printed([controller.Run("fleet_lint", {}, str(inventory), {"node1": {}})])
    return printed


def test_a_line_a_file_and_nothing(tmp_path: pathlib.Path) -> None:
    """A file has a line where Ansible knows one. A value without an origin, or with an unknown one, has none."""
    path = str(tmp_path / "hosts.yml")
    assert value_origin(Origin(path=path, line_num=3).tag("value")) == f"{path}:3"
    assert value_origin(Origin(path=path).tag("value")) == path
    assert value_origin("value") == ""
    assert value_origin(Origin.UNKNOWN.tag("value")) == ""
    assert value_origin(tagged("<CLI option '-e'>")) == ""


def test_a_script_is_named(folder: pathlib.Path) -> None:
    """A value that a script printed has the script, whatever source the host is from."""
    script = str(folder / "hosts.sh")
    assert value_origin(tagged(f"<inventory script output from {script!r}>"), __file__) == f"{script} (script)"


@pytest.mark.parametrize("description", ["<unknown>", "<inventory plugin 'auto' with source '/first.yml'>"])
def test_a_value_set_by_a_plugin_has_the_origin_of_its_host(folder: pathlib.Path, description: str) -> None:
    """A value that a plugin fetched or set is of the source that the host is from, if that names a plugin."""
    value = tagged(description)
    named, plain = folder / "named.yml", folder / "hosts.yml"
    named.write_text("---\n# plugin: none\nplugin: 'netbox.netbox.nb_inventory'  # of NetBox\n")
    plain.write_text("calico_nodes: {}\n")
    assert value_origin(value, str(named)) == f"{named} (plugin netbox.netbox.nb_inventory)"
    assert value_origin(value, str(plain)) == ""
    assert value_origin(value, "node1,node2,") == ""
    assert value_origin(value) == ""
    assert value_origin("value", str(named)) == ""
    assert value_origin(tagged("<CLI option '-e'>"), str(named)) == ""


@pytest.mark.parametrize(
    ("composed", "place"),
    [
        ({"address": "underlay ~ '/0'", "as_number": "64512"}, ":3"),
        ({"address": "underlay ~ '/24'", "as_number": "2 ** 32"}, ":4"),
    ],
)
def test_validate_names_what_was_composed(folder: pathlib.Path, composed: dict[str, str], place: str) -> None:
    """What `constructed` composes has the line of its expression, whether it is a text or a number."""
    (folder / "10-hosts.yml").write_text(HOSTS)
    file = folder / "20-composed.yml"
    file.write_text(CONSTRUCTED.format(**composed))
    assert f"error      refused   {file}{place}\n" in lint_lines(folder)


def test_validate_names_any_plugin(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plugin sets that knows no origins is shown with its file, not with the source that was read before it."""
    (folder / "10-spare.yml").write_text("spare: {hosts: {node9: {ansible_host: 10.10.1.19}}}\n")
    (folder / "20-made.yml").write_text("plugin: made\n")
    (folder / "group_vars").mkdir()
    (folder / "group_vars" / "all.yml").write_text("calico_ip_pools: [{name: default, cidr: 10.244.0.0/16}]\n")
    plugins = folder.with_name("plugins")
    plugins.mkdir()
    (plugins / "made.py").write_text(PLUGIN)
    monkeypatch.setenv("ANSIBLE_INVENTORY_PLUGINS", str(plugins))
    assert f"error      refused   {folder}/20-made.yml (plugin made)\n" in lint_lines(folder)


def test_validate_names_a_script(folder: pathlib.Path) -> None:
    """What an inventory script prints is shown with the script."""
    (folder / "10-hosts.yml").write_text("calico_nodes: {vars: {calico_ip_pools: [{name: a, cidr: 10.244.0.0/16}]}}\n")
    script = folder / "20-script.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    assert f"error      refused   {script} (script)\n" in lint_lines(folder)
