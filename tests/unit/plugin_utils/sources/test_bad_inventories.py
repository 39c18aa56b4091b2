# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each bad inventory is refused with its one message, and nothing is written."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers.observed_nodes import (
    ObservedNodes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.plan_run import FleetRun
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import fleet_source

from tests.unit.fleet.bad_inventories import ALL, CASES, HOSTS, Case


def compile_case(case: Case, folder: pathlib.Path) -> FleetRun:
    task_vars = {
        "groups": case.groups(),
        "hostvars": case.host_variables(folder),
        "inventory_dir": str(folder),
        "ansible_play_hosts_all": list(case.observed()),
    }
    return fleet_source.planned(task_vars, ObservedNodes(case.observed()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bad_inventory_is_refused_and_nothing_is_written(case: Case, tmp_path: pathlib.Path) -> None:
    case.write(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FleetError) as caught:
        compile_case(case, tmp_path)
    assert str(caught.value) == case.expected(tmp_path, origins=False)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_inventory_that_all_these_differ_from_is_good(tmp_path: pathlib.Path) -> None:
    good = Case("good", ALL, HOSTS, None, {}, None, "", "")
    good.write(tmp_path)
    assert set(compile_case(good, tmp_path).fleet.nodes) == {"node1", "node2"}


def test_names_of_cases_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 40
