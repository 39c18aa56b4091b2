# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changing one pool's mode in a user's file, without any other change."""

from __future__ import annotations

import difflib

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import pool_entry
from hypothesis import given, settings
from hypothesis import strategies as st

PLAIN = """\
---
# The fleet of rack a.
calico_ip_pools:
  # for everybody
  - name: default
    cidr: 10.244.0.0/16   # agreed with the network team
    ipipMode: CrossSubnet
    natOutgoing: true

  - name: storage
    cidr: 10.245.0.0/16
    vxlanMode: Always

calico_bgp_as_number: 64512
"""


def changed_lines(before: str, after: str) -> list[str]:
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]


def test_only_the_mode_of_the_pool_changes() -> None:
    lines = changed_lines(PLAIN, pool_entry.with_mode(PLAIN, "default", "vxlan"))
    assert sorted(lines) == ["+     ipipMode: Never", "+     vxlanMode: Always", "-     ipipMode: CrossSubnet"]


@pytest.mark.parametrize("mode", pool_entry.FIELDS)
@pytest.mark.parametrize("name", ["default", "storage"])
def test_every_mode_can_be_written_and_written_again(name: str, mode: str) -> None:
    after = pool_entry.with_mode(PLAIN, name, mode)
    found = {entry["name"]: entry for entry in yaml.safe_load(after)["calico_ip_pools"]}
    assert (found[name]["ipipMode"], found[name]["vxlanMode"]) == pool_entry.FIELDS[mode]
    other = "storage" if name == "default" else "default"
    assert found[other] == next(e for e in yaml.safe_load(PLAIN)["calico_ip_pools"] if e["name"] == other)
    assert "# agreed with the network team" in after
    assert "# for everybody" in after
    assert yaml.safe_load(after)["calico_bgp_as_number"] == 64512
    assert pool_entry.with_mode(after, name, mode) == after


@pytest.mark.parametrize(
    "text",
    [
        "calico_ip_pools:\n- name: default\n  cidr: 10.244.0.0/16\n",
        "calico_ip_pools:\n- cidr: 10.244.0.0/16\n  name: default",
        "calico_ip_pools:\n    - cidr: 10.244.0.0/16\n      encapsulation: VXLAN\n      name: 'default'\n\n\n",
        'calico_ip_pools:\n  - name: "default"  # the one\n    cidr: 10.244.0.0/16\n    vxlanMode: Always',
        "calico_workloads:\n  - {name: web, node: n}\ncalico_ip_pools:\n  - name: default\n    cidr: 10.244.0.0/16\n",
    ],
)
def test_writings_that_can_be_changed(text: str) -> None:
    after = yaml.safe_load(pool_entry.with_mode(text, "default", "ipip-crosssubnet"))
    expected = yaml.safe_load(text)
    entry = expected["calico_ip_pools"][0]
    entry.pop("encapsulation", None)
    entry.update(ipipMode="CrossSubnet", vxlanMode="Never")
    assert after == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("calico_ip_pools: [{name: default, cidr: 10.244.0.0/16}]\n", "pool default has no line `name: default`"),
        ("calico_ip_pools:\n  - {name: default, cidr: 10.244.0.0/16}\n", "pool default has no line `name: default`"),
        ("calico_ip_pools:\n  - name: other\n    cidr: 10.244.0.0/16\n", "pool default is not written in this file"),
        ("calico_ip_pools:\n  - ipipMode: Always\n    name: default\n", "its first line holds its mode"),
        ("calico_ip_pools: '{{ pools }}'\n", "calico_ip_pools is not a list of dictionaries in it"),
        ("pools: []\n", "calico_ip_pools is not a list of dictionaries in it"),
        ("calico_ip_pools: !vault x\n", "it cannot be read as plain YAML"),
        ("{% if x %}\n", "it cannot be read as plain YAML"),
        (
            "calico_workloads:\n  - name: default\n    node: n\n" + PLAIN.partition("---\n")[2],
            "it is not written line by line",
        ),
    ],
)
def test_an_entry_that_cannot_be_edited_is_refused_with_its_reason(text: str, why: str) -> None:
    with pytest.raises(pool_entry.CannotEdit, match=why):
        pool_entry.with_mode(text, "default", "vxlan")


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "c-d"]), unique=True, min_size=1),
    st.sampled_from(sorted(pool_entry.FIELDS)),
    st.integers(0, 4),
    st.booleans(),
    st.data(),
)
def test_an_edited_text_differs_only_in_the_requested_mode(
    names: list[str], mode: str, indent: int, blank: bool, data: st.DataObject
) -> None:
    pad = " " * indent
    text = "calico_ip_pools:\n"
    for name in names:
        fields = data.draw(st.permutations([f"name: {name}", "cidr: 10.0.0.0/8", "ipipMode: Always"]))
        text += f"{pad}- {fields[0]}\n" + "".join(f"{pad}  {field}\n" for field in fields[1:])
        text += "\n" if blank else ""
    try:
        after = yaml.safe_load(pool_entry.with_mode(text, names[0], mode))
    except pool_entry.CannotEdit:
        return
    expected = yaml.safe_load(text)
    expected["calico_ip_pools"][0].update(zip(("ipipMode", "vxlanMode"), pool_entry.FIELDS[mode]))
    assert after == expected
