# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action run_check: one message for the whole fleet, and no host is contacted."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.written import role_variables

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
PORT = "    calico_node_agent_metrics_port: 70000\n"
NAMES = ("node1", "node2", "node3")


ENDS = "This collection contacted no host."


def said(folder: pathlib.Path, *asked: tuple[str, t.Mapping[str, t.Any]]) -> tuple[str, list[t.Optional[str]]]:
    """Return what runs print, and the message of each for an inventory and options in `asked`, None for a good one.

    The text FOLDER stands for `folder`.
    """
    runs = []
    for index, (text, args) in enumerate(asked):
        file = folder / f"{index}.yml"
        file.write_text(text)
        runs.append(controller.Run("run_check", args, str(file), {name: {} for name in NAMES}))
    printed, results = controller.printed(runs)
    assert [result.get("exception") for result in results] == [None] * len(runs)
    assert not any(result["changed"] for result in results)
    shown = json.loads(json.dumps([printed, [result.get("msg") for result in results]]).replace(str(folder), "FOLDER"))
    return shown[0].strip(), shown[1]


def test_wrong_variables_of_the_role_are_one_message(tmp_path: pathlib.Path) -> None:
    """Hosts with the same wrong value share an error, which has the file and line."""
    good = HOSTS.replace(": ten", ": '10'")
    assert said(tmp_path, (HOSTS, {}), (good, {"pool": "other", "mode": "direct"})) == (
        "",
        [
            "FOLDER/0.yml:7: calico_node_generations_kept of node3 ten is not a whole number. Write for example 10, "
            f"which is the default. {ENDS}",
            None,
        ],
    )


def test_all_errors_are_printed_and_those_of_the_inventory_among_them(tmp_path: pathlib.Path) -> None:
    """The message has the first one, and the number of the others."""
    spoiled = HOSTS.replace("  hosts:", AGENT + PORT + "  hosts:").replace("10.10.1.12/24", "10.10.1.12")
    assert said(tmp_path, (spoiled, {})) == (
        """\
SEVERITY   RULE            WHERE
error      role-variable   FOLDER/0.yml:4
  calico_node_agent of node1, node2 and node3 maybe is not true or false.
  Write for example true, which is the default.
error      role-variable   FOLDER/0.yml:5
  calico_node_agent_metrics_port of node1, node2 and node3 70000 is out of range.
  Choose a number from 0 to 65535.
error      role-variable   FOLDER/0.yml:9
  calico_node_generations_kept of node3 ten is not a whole number.
  Write for example 10, which is the default.
error      refused         FOLDER/0.yml:8
  calico_node_address of node2 10.10.1.12 has no prefix length from /1 to /32.
  Write the node's own address on the underlay with its prefix length, for example 10.10.1.11/24.""",
        [
            "FOLDER/0.yml:4: calico_node_agent of node1, node2 and node3 maybe is not true or false. Write for example "
            f"true, which is the default. And 3 more errors, see above. {ENDS}"
        ],
    )


def test_a_pool_and_a_mode_are_there_or_one_that_is_meant_is_named(tmp_path: pathlib.Path) -> None:
    good = HOSTS.replace(": ten", ": 10")
    none = good.replace("calico_ip_pools: [", "calico_ip_pools: [] # [")
    assert said(
        tmp_path,
        (good, {"pool": "defalt", "mode": "direct"}),
        (good, {"pool": "nothing", "mode": "direct"}),
        (good, {"pool": "other", "mode": "drect"}),
        (good, {"pool": "", "mode": "direct"}),
        (good, {"pool": "other", "mode": ""}),
        (none, {"pool": "default"}),
    ) == (
        "",
        [
            f"-e pool=defalt names no pool that there is. Did you mean default? {ENDS}",
            f"-e pool=nothing names no pool that there is. Choose default or other. {ENDS}",
            f"-e mode=drect names no mode that there is. Did you mean direct? {ENDS}",
            f"-e pool= is missing. Name the pool: one of default, other. {ENDS}",
            "-e mode= is missing. Name the mode: one of ipip, ipip-crosssubnet, vxlan, vxlan-crosssubnet, direct. "
            f"{ENDS}",
            None,
        ],
    )


def test_a_pool_and_a_mode_are_both_named(tmp_path: pathlib.Path) -> None:
    assert said(tmp_path, (HOSTS.replace(": ten", ": 10"), {"pool": "defalt", "mode": "drect"})) == (
        """\
SEVERITY   RULE      WHERE
error      refused   -e pool=defalt
  -e pool=defalt names no pool that there is.
  Did you mean default?
error      refused   -e mode=drect
  -e mode=drect names no mode that there is.
  Did you mean direct?""",
        [f"-e pool=defalt names no pool that there is. Did you mean default? And 1 more error, see above. {ENDS}"],
    )


def test_a_template_that_cannot_be_evaluated_is_named(tmp_path: pathlib.Path) -> None:
    text = HOSTS.replace(": ten", ": '{{ nowhere }}'")
    assert said(tmp_path, (text, {}))[1] == [
        "FOLDER/0.yml:7: calico_node_generations_kept of node3 is a template that cannot be evaluated: 'nowhere' is "
        "undefined. Define what it names. Facts are in ansible_facts alone: write ansible_facts.default_ipv4 for "
        f"ansible_default_ipv4. {ENDS}"
    ]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("calico_node_generations_kept: 0", "Choose a number from 1 to 10000."),
        ("calico_node_confirm_timeout: -5", "Choose 0 or more."),
        ("calico_node_max_session_resets: -2", "Choose -1 or more."),
        ("calico_node_agent_metrics_port: '70000'", "Choose a number from 0 to 65535."),
        ("calico_node_sticky_seconds: 3601", "Choose a number from 0 to 3600."),
    ],
)
def test_a_number_is_in_its_range(text: str, remedy: str, tmp_path: pathlib.Path) -> None:
    name, dummy, value = text.partition(": ")
    bad = HOSTS.replace("calico_node_generations_kept: ten", text)
    value = value.strip("'")
    assert said(tmp_path, (bad, {}))[1] == [f"FOLDER/0.yml:7: {name} of node3 {value} is out of range. {remedy} {ENDS}"]


@pytest.mark.parametrize(
    ("value", "said_of_it"),
    [
        ("['']", "calico_node_runtime_labels of node3 '' is not the beginning of a label that containers may set."),
        (
            "[a, projectcalico.org/x]",
            "calico_node_runtime_labels of node3 projectcalico.org/x is not the beginning of",
        ),
        ("['a b']", "calico_node_runtime_labels of node3 a b is not the beginning of a label"),
        (str(list(range(33))), "calico_node_runtime_labels of node3 has 33 entries. Use at most 32."),
        ("{a: b}", "calico_node_runtime_labels of node3"),
    ],
)
def test_prefixes_of_labels_are_checked_before_an_agent_reads_them(
    value: str, said_of_it: str, tmp_path: pathlib.Path
) -> None:
    bad = HOSTS.replace("calico_node_generations_kept: ten", f"calico_node_runtime_labels: {value}")
    (found,) = said(tmp_path, (bad, {}))[1]
    assert found is not None and found.startswith(f"FOLDER/0.yml:7: {said_of_it}"), found
    good = HOSTS.replace(
        "calico_node_generations_kept: ten", "calico_node_runtime_labels: [com.docker.compose., x.org/]"
    )
    assert said(tmp_path, (good, {}))[1] == [None]


def test_each_number_of_a_role_has_a_range() -> None:
    """The ranges are listed beside argument_specs.yml, which has no words for them."""
    numbers = set()
    for path in (pathlib.Path(__file__).resolve().parents[4] / "roles").glob("*/meta/argument_specs.yml"):
        known = yaml.safe_load(path.read_text("utf-8"))["argument_specs"]["main"]["options"]
        numbers |= {name for name, option in known.items() if option["type"] == "int"}
    assert numbers == set(role_variables._RANGES)


def test_a_strategy_by_which_hosts_do_not_wait_for_each_other_is_refused(tmp_path: pathlib.Path) -> None:
    """The check of a run, the plan and the status say so; strategies in step are accepted."""
    file = tmp_path / "hosts.yml"
    file.write_text(HOSTS.replace(": ten", ": '10'"))
    registered = {name: dict[str, t.Any]() for name in NAMES}
    asked = [("run_check", {}), ("fleet", {"observed": "seen"}), ("fleet_status", {"status": "seen"})]
    for strategy in ("free", "ansible.builtin.host_pinned"):
        runs = [controller.Run(action, args, str(file), registered, strategy=strategy) for action, args in asked]
        for result in controller.run(runs):
            assert result["msg"] == (
                f"strategy {strategy} lets hosts run ahead of tasks that need the answers of all hosts. Leave it out "
                "of the play, of ansible.cfg and of ANSIBLE_STRATEGY: the default, linear, is needed."
            )
    (good,) = controller.run([controller.Run("run_check", {}, str(file), registered, strategy="debug")])
    assert not good.get("failed")
