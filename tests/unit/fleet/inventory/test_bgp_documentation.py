# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of docs/reference/bgp.md: its examples are inventories, its table has every field, and its variables exist."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import peer_extensions
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.fields import types_of

from tests.unit.fleet.fleets import LAB, pool, states

PAGE = pathlib.Path(__file__).parents[4] / "docs" / "reference" / "bgp.md"
REFLECTORS = {"rr1": "10.10.1.4/24", "rr2": "10.10.2.4/24"}
GROUPS = {
    "all": [*LAB, *REFLECTORS],
    "rack_a": ["node1", "node2"],
    "rack_b": ["node3", "node4"],
    "calico_rr": [*REFLECTORS],
}
_EXAMPLE = re.compile(r"^```yaml\n# (group_vars|host_vars)/(\w+)(?:/\w+)?\.yml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections() -> dict[str, str]:
    """Return the text of each section that has an example, by heading."""
    parts = re.split(r"^##+ (.+)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {title: text for title, text in zip(parts[::2], parts[1::2]) if _EXAMPLE.search(text)}


def fleet(text: str) -> Fleet:
    """Return the fleet of the lab with the variables of the examples in `text`; those for other hosts are ignored.

    It has two reflectors if one of the examples is a file for them. Raise FleetError if the inventory is invalid.
    """
    found: dict[str, dict[str, t.Any]] = {
        name: {"calico_node_labels": {"rack": "a" if name in GROUPS["rack_a"] else "b"}} for name in LAB
    }
    named = []
    for dummy, owner, content in _EXAMPLE.findall(text):
        named.append(owner)
        for name in GROUPS.get(owner, [owner]):
            found.setdefault(name, {}).update(yaml.safe_load(content))
    reflected = any(owner in ("calico_rr", *REFLECTORS) for owner in named)
    addresses = {**LAB, **(REFLECTORS if reflected else {})}
    hosts = [
        Host(
            name,
            {"calico_ip_pools": [pool()], "calico_node_address": address, **found.get(name, {})},
            workload_node=name in LAB,
            reflector=name in REFLECTORS,
            groups=tuple(group for group, members in GROUPS.items() if name in members),
        )
        for name, address in addresses.items()
    ]
    return Fleet.build(inventory.read(hosts), None)


@pytest.mark.parametrize("title", sections())
def test_each_example_is_an_inventory_with_sessions_on_every_node(title: str) -> None:
    found = states(fleet(sections()[title]))
    lonely = {name for name, state in found.items() if state.bird is None or not state.bird.peers}
    assert lonely == set()


def test_the_examples_have_these_numbers_of_sessions() -> None:
    def counts(title: str) -> dict[str, int]:
        return {name: len(state.bird.peers) for name, state in states(fleet(sections()[title])).items() if state.bird}

    assert counts("The mesh") == dict.fromkeys(LAB, 3)
    assert counts("Route reflectors") == {**dict.fromkeys(LAB, 2), "rr1": 5, "rr2": 5}
    assert counts("Reflectors of each rack") == {**dict.fromkeys(LAB, 1), "rr1": 3, "rr2": 3}
    assert counts("Reflectors as in Calico") == {"node1": 3, "node2": 1, "node3": 1, "node4": 1}
    assert counts("Routers, such as top-of-rack switches") == {"node1": 5, "node2": 5, "node3": 5, "node4": 4}
    assert counts("An AS for each rack") == dict.fromkeys(LAB, 3)
    assert counts("Passwords") == dict.fromkeys(LAB, 4)
    assert counts("Two switches, two addresses") == {**dict.fromkeys(LAB, 3), "node1": 5}


def test_the_table_has_every_field() -> None:
    rows = re.findall(r"^\| (`.+?`) \|", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {*types_of(resources.BGPPeer), *peer_extensions.NAMES}


def test_its_variables_exist() -> None:
    named = set(re.findall(r"`(calico_(?:node_)?(?:bgp|rr|route|router)\w*(?:<group>)?)`", PAGE.read_text("utf-8")))
    assert named - {"calico_rr"} <= set(variables.BY_NAME)
