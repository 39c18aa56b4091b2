# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl scale`, and docs/scaling.md, which shows it. After a wanted change: DOCUMENTATION=write pytest of this."""

from __future__ import annotations

import json
import os
import pathlib
import re

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.simulation import Simulation
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import scale

from tests.unit.cli.conftest import Node
from tests.unit.fleet.fleets import build, pool

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "scaling.md"
_CONSOLE = re.compile(r"(```console\n\$ calicoctl scale\n)(.*?)```", re.DOTALL)


def test_a_table(node: Node) -> None:
    assert node.run("scale", "10", "20") == (
        0,
        "NODES   TOPOLOGY       SESSIONS   RR-SESSIONS   ALL-SESSIONS   PATHS   RR-PATHS   START   BLOCK   "
        "MIB   RR-MIB\n"
        "10      mesh           9          -             45             18      -          180     9       5.0   -\n"
        "10      2 reflectors   2          11            21             36      40         440     22      4.8   5.0\n"
        "20      mesh           19         -             190            38      -          760     19      5.2   -\n"
        "20      2 reflectors   2          21            41             76      80         1680    42      4.8   5.2\n",
        "",
    )


def test_for_programs(node: Node) -> None:
    status, out, err = node.run("scale", "5", "--reflectors", "1", "--blocks", "3", "-o", "json")
    assert (status, err) == (0, "")
    assert json.loads(out)[1] == {
        "nodes": 5,
        "topology": "1 reflector",
        "sessions": 1,
        "reflector_sessions": 5,
        "fleet_sessions": 5,
        "paths": 12,
        "reflector_paths": 15,
        "told_at_start": 5 * 3 + 5 * 12,
        "told_of_a_block": 1 + 4,
        "memory": 4.8,
        "reflector_memory": 4.9,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1",), "NODES 1 is out of range. Choose a number from 2 to 20000."),
        (("--reflectors", "0"), "--reflectors 0 is out of range. Choose a number from 1 to 100."),
        (("--blocks", "0"), "--blocks 0 is out of range. Choose a number from 1 to 1000."),
    ],
)
def test_what_makes_no_fleet(node: Node, words: tuple[str, ...], said: str) -> None:
    assert node.run("scale", *words) == (2, "", f"calicoctl: {said}\n")


@pytest.mark.parametrize("reflectors", [0, 2])
def test_a_compiled_fleet_costs_as_much(reflectors: int) -> None:
    fleet = build(
        pool(),
        nodes={f"node{number}": f"10.10.1.{number + 10}/24" for number in range(6)},
        reflectors={f"rr{number}": f"10.10.2.{number + 10}/24" for number in range(reflectors)},
        workloads=[],
        spare_blocks=2,
    )
    blocks = {name: len(fleet.ipam_of(name).spare_blocks) for name in fleet.nodes}
    simulation = Simulation(fleet.bgp.speakers.values(), fleet.bgp.peers, fleet.bgp.unasked, blocks)
    row = scale.row(6, reflectors, 2)
    assert (simulation.load("node3").sessions, simulation.load("node3").paths) == (row.sessions, row.paths)
    assert sum(simulation.load(name).sent for name in fleet.nodes) == row.told_at_start
    assert simulation.sessions() == row.fleet_sessions


def test_the_page_shows_what_is_printed(node: Node) -> None:
    text = PAGE.read_text("utf-8")
    dummy, out, err = node.run("scale")
    actual = _CONSOLE.sub(lambda found: f"{found.group(1)}{out}```", text)
    if os.environ.get("DOCUMENTATION") == "write":
        PAGE.write_text(actual, "utf-8")
    assert (actual, err) == (text, "")
