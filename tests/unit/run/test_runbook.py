# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/how-to/runbook.md: each entry names tests that exist, and its commands are run by them."""

from __future__ import annotations

import ast
import re

import pytest

from tests.lab.scenarios.runbook_page import PAGE, Entry, entries

ROOT = PAGE.parents[2]
TEXT = PAGE.read_text("utf-8")
ENTRIES = entries(TEXT)
SCENARIOS = "tests/lab/scenarios/test_runbook.py"


def functions(path: str) -> set[str]:
    """Return the names of a file's functions; the file may be missing."""
    if not (ROOT / path).is_file():
        return set()
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def missing(entry: Entry) -> list[str]:
    """Return what an entry lacks: its tests that do not exist, or all tests if it names none."""
    absent = [f"{path}::{name}" for path, name in entry.tests if name not in functions(path)]
    return absent if entry.tests else ["any test"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.heading)
def test_an_entry_names_tests_that_exist(entry: Entry) -> None:
    assert missing(entry) == []


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.heading)
def test_the_commands_of_an_entry_are_run(entry: Entry) -> None:
    """An entry has console blocks exactly if a scenario performs it by its heading."""
    performed = f'perform("{entry.heading}"' in (ROOT / SCENARIOS).read_text("utf-8")
    assert performed == bool(entry.commands) == any(path == SCENARIOS for path, _name in entry.tests)


def test_every_scenario_belongs_to_an_entry() -> None:
    named = {name for entry in ENTRIES for path, name in entry.tests if path == SCENARIOS}
    assert {name for name in functions(SCENARIOS) if name.startswith("test_")} == named


def test_the_table_of_symptoms_leads_to_every_entry() -> None:
    links = re.findall(r"\(#([a-z-]+)\) \|$", TEXT, re.MULTILINE)
    assert links == [entry.heading.lower().replace(" ", "-") for entry in ENTRIES]


def test_an_entry_without_its_test_is_found() -> None:
    page = "# Page\n\n## One\n<!-- test: tests/none.py::test_one -->\n\n## Two\nText.\n"
    assert [missing(entry) for entry in entries(page)] == [["tests/none.py::test_one"], ["any test"]]
