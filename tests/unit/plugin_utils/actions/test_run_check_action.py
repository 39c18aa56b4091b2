# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action run_check: one message for the whole fleet, and no host is contacted."""

from __future__ import annotations

import pathlib
import typing as t

from tests.unit.plugin_utils import controller

HOSTS = """\
calico_nodes:
  vars:
    calico_ip_pools: [{name: default, cidr: 10.244.0.0/16}, {metadata: {name: other}, spec: {cidr: 10.245.0.0/16}}]
  hosts:
    node1: {calico_node_address: 10.10.1.11/24}
    node2: {calico_node_address: 10.10.1.12/24}
    node3: {calico_node_address: 10.10.1.13/24, calico_node_generations_kept: ten}
"""
AGENT = "    calico_node_agent: maybe\n"
NAMES = ("node1", "node2", "node3")


def said(folder: pathlib.Path, *asked: tuple[str, t.Mapping[str, t.Any]]) -> list[t.Optional[str]]:
    """Return the message of a run for each inventory and options in `asked`, None for one that is good."""
    runs = []
    for index, (text, args) in enumerate(asked):
        file = folder / f"{index}.yml"
        file.write_text(text)
        runs.append(controller.Run("run_check", args, str(file), {name: {} for name in NAMES}))
    results = controller.run(runs)
    assert [result.get("exception") for result in results] == [None] * len(runs)
    assert not any(result["changed"] for result in results)
    return [result.get("msg") for result in results]


def test_wrong_variables_of_the_role_are_one_message(tmp_path: pathlib.Path) -> None:
    """Hosts with the same wrong value share an error, which has the file and line."""
    good = HOSTS.replace(": ten", ": '10'")
    spoiled = good.replace("  hosts:", AGENT + "  hosts:").replace("'10'", "ten")
    assert said(tmp_path, (spoiled, {}), (good, {"pool": "other", "mode": "direct"})) == [
        f"{tmp_path}/0.yml:4: calico_node_agent of node1, node2 and node3 maybe is not true or false. Write for "
        f"example true, which is the default. {tmp_path}/0.yml:8: calico_node_generations_kept of node3 ten is not a "
        "whole number. Write for example 10, which is the default. No host was contacted.",
        None,
    ]


def test_a_pool_and_a_mode_are_there_or_one_that_is_meant_is_named(tmp_path: pathlib.Path) -> None:
    good = HOSTS.replace(": ten", ": 10")
    none = good.replace("calico_ip_pools: [", "calico_ip_pools: [] # [")
    assert said(
        tmp_path,
        (good, {"pool": "defalt", "mode": "drect"}),
        (good, {"pool": "nothing", "mode": "direct"}),
        (good, {"pool": "", "mode": ""}),
        (none, {"pool": "default"}),
    ) == [
        "-e pool=defalt names no pool that there is. Did you mean default? -e mode=drect names no mode that there is. "
        "Did you mean direct? No host was contacted.",
        "-e pool=nothing names no pool that there is. Choose default or other. No host was contacted.",
        "-e pool= is missing. Name the pool: one of default, other. -e mode= is missing. Name the mode: one of ipip, "
        "ipip-crosssubnet, vxlan, vxlan-crosssubnet, direct. No host was contacted.",
        None,
    ]


def test_a_template_that_cannot_be_evaluated_is_named(tmp_path: pathlib.Path) -> None:
    text = HOSTS.replace(": ten", ": '{{ nowhere }}'")
    assert said(tmp_path, (text, {})) == [
        "calico_node_generations_kept of node3 is a template that cannot be evaluated: 'nowhere' is undefined. Define "
        "what it names. Facts are in ansible_facts alone: write ansible_facts.default_ipv4 for ansible_default_ipv4. "
        "No host was contacted."
    ]
