# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes that people make, read in one process: validate says where each is, what it is and the remedy."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

import pytest
import yaml

from tests.unit.fleet.bad_inventories import ALL, HOSTS
from tests.unit.plugin_utils import controller

TABLE = pathlib.Path(__file__).resolve().parents[2] / "fleet" / "mistakes.yml"
MISTAKES: list[dict[str, t.Any]] = yaml.safe_load(TABLE.read_text("utf-8"))


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """{name of a mistake: its findings as lines}, without the path of the inventory's folder."""
    folders, runs = [], []
    for entry in MISTAKES:
        folder = tmp_path_factory.mktemp("inventory")
        files = {
            "hosts.yml": entry.get("inventory", HOSTS),
            "group_vars/all.yml": entry.get("all", ALL + entry.get("add", "")),
            **entry.get("files", {}),
        }
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        args = {"output": "none", "answer_file": str(folder / "answer.json")}
        runs.append(controller.Run("fleet_lint", args, str(folder / "hosts.yml"), {"node1": {}}))
        folders.append(folder)
    for result in controller.run(runs):
        assert "exception" not in result, result["exception"]
    found = {}
    for entry, folder in zip(MISTAKES, folders):
        answer = json.loads((folder / "answer.json").read_text("utf-8"))["answer"]
        found[entry["name"]] = [
            f"{one['origin']}: {one['severity']}: {one['what']} {one['remedy']} [{one['rule']}]".replace(
                f"{folder}/", ""
            )
            for one in answer["findings"]
        ]
    return found


@pytest.mark.parametrize("entry", MISTAKES, ids=lambda entry: entry["name"])
def test_each_mistake_has_exactly_one_finding(entry: dict[str, t.Any], findings: dict[str, list[str]]) -> None:
    """The finding has the file and line; a file that is for nobody has none, because it is wrong as a whole."""
    assert findings[entry["name"]] == [entry["says"]]
    whole_file = entry["says"].endswith("[variables-of-nobody]")
    assert re.match(
        r"(group_var|(hosts|group_vars/[\w-]+|host_vars/\w+)\.yml(\.bak)?): " if whole_file else r"[\w/]+\.yml:\d+: ",
        entry["says"],
    )


def test_the_table_has_sixty_mistakes() -> None:
    assert len({entry["name"] for entry in MISTAKES}) == len(MISTAKES) >= 60


def test_a_rule_that_is_ignored_is_not_asked_of_an_inventory_that_is_refused(tmp_path: pathlib.Path) -> None:
    """Its finding would stand beside the error; it does without calico_lint_ignore."""
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "hosts.yml").write_text(HOSTS)
    run = controller.Run("fleet_lint", {"output": "none"}, str(tmp_path / "hosts.yml"), {"node1": {}})
    said = []
    for ignored in ("", "calico_lint_ignore: [variable-unknown]\n"):
        text = f"{ALL}calico_underlay_mtu: few\ncalico_network_backend: bird\n{ignored}"
        (tmp_path / "group_vars" / "all.yml").write_text(text)
        said.append(controller.run([run])[0]["msg"])
    more = "21 more rules not run because of errors. "
    begins = (f"1 error and 1 warning: 2 nodes and 38 rules, {more}", f"1 error: 2 nodes and 37 rules, {more}")
    assert [text[: len(begin)] for text, begin in zip(said, begins)] == list(begins)
    assert ["[variable-unknown]" in text for text in said] == [True, False]
