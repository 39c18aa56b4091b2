# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same bad inventories, read by Ansible and refused by the fleet action: with file and line, without any host."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.unit.fleet.bad_inventories import ALL, CASES, HOSTS, Case
from tests.unit.plugin_utils import controller

GOOD = Case("good", ALL, HOSTS, None, {}, None, "", "")


def run_of(case: Case, hosts_file: pathlib.Path, **args: t.Any) -> controller.Run:
    registered = {
        host: {"observed": {"state": state.to_dict() if state else None}} for host, state in case.observed().items()
    }
    return controller.Run("fleet", {"observed": "observed", **args}, str(hosts_file), registered)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[pathlib.Path, dict[str, t.Any]]]:
    """{case: (folder, result of the action)} for all cases and GOOD, which run in one process."""
    folders = {case.name: tmp_path_factory.mktemp(case.name[:20]) for case in [*CASES, GOOD]}
    runs = [run_of(case, case.write(folders[case.name])) for case in [*CASES, GOOD]]
    results = controller.run(runs)
    return {name: (folders[name], result) for name, result in zip(folders, results)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refused_with_file_and_line(case: Case, answers: dict[str, tuple[pathlib.Path, dict[str, t.Any]]]) -> None:
    folder, result = answers[case.name]
    assert "exception" not in result, result["exception"]
    assert result["failed"] is True
    assert result["msg"] == case.expected(folder, origins=True)
    lockfile = folder / ".calico.lock.yml"
    assert (lockfile.read_text() if lockfile.exists() else None) == case.lockfile
    assert {path.name for path in folder.iterdir()} - {".calico.lock.yml"} == {"group_vars", "hosts.yml"}


def test_the_inventory_that_all_these_differ_from_is_good(
    answers: dict[str, tuple[pathlib.Path, dict[str, t.Any]]],
) -> None:
    folder, result = answers["good"]
    assert "exception" not in result, result["exception"]
    assert not result.get("failed")
    assert result["changed"] is True
    assert (result["generation"], result["modes"], result["change"]) == (1, {"default": "ipip"}, False)
    assert (folder / ".calico.lock.yml").exists()
