# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl scale`, and docs/explanation/scaling.md, which shows it.

After a wanted change, run this test with DOCUMENTATION=write.
"""

from __future__ import annotations

import json
import os
import pathlib
import re

import pytest

from tests.unit.cli.conftest import Node

PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs" / "explanation" / "scaling.md"
_CONSOLE = re.compile(r"(```console\n\$ calicoctl scale\n)(.*?)```", re.DOTALL)


def test_scale_prints_a_row_for_each_size_and_topology(node: Node) -> None:
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


def test_scale_prints_json(node: Node) -> None:
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
def test_sizes_out_of_range_are_refused(node: Node, words: tuple[str, ...], said: str) -> None:
    assert node.run("scale", *words) == (2, "", f"calicoctl: {said}\n")


def test_an_inventory_says_itself_how_large_it_is(node: Node) -> None:
    say = "calicoctl: NODES, --reflectors and --blocks stand in an inventory (-i INVENTORY). Leave them out.\n"
    for words in (("5",), ("--reflectors", "2"), ("--blocks", "2")):
        assert node.run("scale", "-i", "hosts", *words) == (2, "", say)


def test_the_page_shows_what_is_printed(node: Node) -> None:
    text = PAGE.read_text("utf-8")
    dummy, out, err = node.run("scale")
    actual = _CONSOLE.sub(lambda found: f"{found.group(1)}{out}```", text)
    if os.environ.get("DOCUMENTATION") == "write":
        PAGE.write_text(actual, "utf-8")
    assert (actual, err) == (text, "")
