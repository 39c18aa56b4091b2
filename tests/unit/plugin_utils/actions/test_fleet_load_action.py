# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action fleet_load, with inventories as Ansible reads them."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from tests.unit.plugin_utils import controller

ROOT = pathlib.Path(__file__).resolve().parents[4]
UNIFORM = """\
NODES   TOPOLOGY       SESSIONS   RR-SESSIONS   ALL-SESSIONS   PATHS   RR-PATHS   START   BLOCK   MIB   RR-MIB
4       mesh           3          -             6              6       -          24      3       4.8   -
4       2 reflectors   2          5             9              12      16         80      10      4.8   4.9
"""
SHOWN = {
    "two-racks-reflectors": f"""\
NODES   ROLE        SESSIONS   PATHS   ROUTES   START   BLOCK   MIB   WHICH
2       reflector   5          16      8        32      -       4.9   rr1 and rr2
4       node        2          12      6        4       10      4.8   node1, node2 and 2 more
in all: 6 nodes, 9 sessions, 8 blocks

as many nodes that are all alike, in a mesh and behind two more hosts that reflect:
{UNIFORM}""",
    "dual-stack": """\
NODES   ROLE   SESSIONS   PATHS   ROUTES   START   BLOCK   MIB   WHICH
4       node   8          24      24       32      4       4.9   node1, node2 and 2 more
in all: 4 nodes, 20 sessions, 32 blocks

as many nodes that are all alike, IPv4 alone, in a mesh and behind two more hosts that reflect:
NODES   TOPOLOGY       SESSIONS   RR-SESSIONS   ALL-SESSIONS   PATHS   RR-PATHS   START   BLOCK   MIB   RR-MIB
4       mesh           3          -             6              12      -          48      3       4.8   -
4       2 reflectors   2          5             9              24      32         160     10      4.8   4.9
""",
}
POOLS = "all: {vars: {calico_ip_pools: [{name: default, cidr: 10.244.0.0/16}]}}\n"
OWN = {
    "alone": f"{POOLS}calico_nodes: {{hosts: {{node1: {{calico_node_address: 10.10.1.11/24}}}}}}\n",
    "wrong": f"{POOLS}calico_nodes: {{hosts: {{node1: {{calico_node_address: 10.10.1.400/24}}}}}}\n",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, t.Any]]:
    folder = tmp_path_factory.mktemp("load")
    files = {name: str(ROOT / "inventories" / name / "hosts.yml") for name in SHOWN}
    for name, text in OWN.items():
        (folder / f"{name}.yml").write_text(text)
        files[name] = str(folder / f"{name}.yml")
    runs = {}
    for name, hosts in files.items():
        first = "rr1" if "reflectors" in name else "node1"
        args = {"output": "none", "answer_file": str(folder / f"{name}.json")}
        runs[name] = controller.Run("fleet_load", args, hosts, {first: {}})
    results = dict(zip(runs, controller.run(list(runs.values()))))
    wrong = [result["exception"] for result in results.values() if "exception" in result]
    assert not wrong, wrong[0]
    return {
        name: {**result, "written": json.loads((folder / f"{name}.json").read_text())}
        for name, result in results.items()
    }


@pytest.mark.parametrize("name", SHOWN)
def test_a_shipped_inventory_prints_and_writes_the_expected_lines(
    name: str, answers: dict[str, dict[str, t.Any]]
) -> None:
    answer = answers[name]
    assert "".join(f"{line}\n" for line in answer["lines"]) == SHOWN[name]
    assert answer["changed"] is False
    written = answer["written"]
    assert written["lines"] == answer["lines"]
    assert all(answer[key] == value for key, value in written["answer"].items())


def test_the_answer_has_the_load_of_sessions_and_nodes(answers: dict[str, dict[str, t.Any]]) -> None:
    answer = answers["two-racks-reflectors"]["written"]["answer"]
    assert {key: answer[key] for key in ("sessions", "blocks", "told_at_start")} == {
        "sessions": 9,
        "blocks": 8,
        "told_at_start": 80,
    }
    assert answer["nodes"][0] == {
        "nodes": ["rr1", "rr2"],
        "role": "reflector",
        "sessions": 5,
        "paths": 16,
        "routes": 8,
        "sent": 32,
        "received": 16,
        "told_of_a_block": None,
        "memory": 4.9,
    }
    assert [row["topology"] for row in answer["uniform"]] == ["mesh", "2 reflectors"]


def test_one_node_is_compared_to_nothing(answers: dict[str, dict[str, t.Any]]) -> None:
    assert answers["alone"]["lines"][1:] == [
        "1       node   0          0       0        0       0       4.8   node1",
        "in all: 1 node, 0 sessions, 2 blocks",
    ]
    assert answers["alone"]["uniform"] == []


def test_an_invalid_inventory_fails_and_the_error_is_written(answers: dict[str, dict[str, t.Any]]) -> None:
    answer = answers["wrong"]
    assert answer["failed"] is True
    assert answer["msg"].partition("wrong.yml:2: ")[2].startswith("calico_node_address of node1 10.10.1.400/24 ")
    assert answer["written"] == {"error": answer["msg"]}
