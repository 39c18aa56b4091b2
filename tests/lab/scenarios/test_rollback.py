# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generations, the way back to one, and the phases by hand as docs/how-to/switching-modes.md documents them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.lab.fleet import SPARING, mesh_of_streams, no_way_around, ping, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Streams

from .conftest import FIRST_MODE, ROOT, Fleet
from .test_switching import check_encapsulation, check_routes


def test_the_fleet_returns_to_the_generation_before_a_switch(lab: BaseLab, fleet: Fleet) -> None:
    fleet.switch("direct").check()
    check_routes(lab, "direct")
    found = workloads(lab)
    no_way_around(lab)
    with Streams(lab, mesh_of_streams(lab, found, SPARING)) as streams:
        run = fleet.play("rollback.yml", "-e", "plan=previous").check()
        report = streams.stop()
    assert report.lost_by_us == 0 and report.resets == 0, report.summary()
    check_routes(lab, FIRST_MODE)
    check_encapsulation(lab, FIRST_MODE)
    assert "converged  4/4 nodes" in run.output, run.output[-3000:]


def test_a_removed_workload_comes_back_with_its_generation(lab: BaseLab, fleet: Fleet) -> None:
    before = {workload.name: workload for workload in workloads(lab)}
    fewer = '{"calico_workloads": [{"name": "web-1", "node": "node1"}]}'
    fleet.site("-e", fewer).check()
    assert [workload.name for workload in workloads(lab)] == ["web-1"]
    assert not ping(lab, "node1", before["db-1"].address)
    fleet.play("rollback.yml", "-e", "plan=previous").check()
    assert {workload.name: workload for workload in workloads(lab)} == before
    assert ping(lab, "node1", before["db-1"].address)
    fleet.site().check()


def test_without_a_plan_the_playbook_lists_what_there_is(lab: BaseLab, fleet: Fleet) -> None:
    run = fleet.play("rollback.yml")
    assert run.code != 0
    assert re.search(r"node1 can return to:\n\s+GENERATION +WHEN +PLAN +WHO", run.output), run.output[-3000:]
    assert "-e plan=previous" in run.output
    unknown = fleet.play("rollback.yml", "-e", "plan=nonsense")
    assert unknown.code != 0 and "has no generation of plan nonsense" in unknown.output


def test_the_phases_by_hand_as_documented(lab: BaseLab, fleet: Fleet) -> None:
    """The phases by hand work with the commands of the page, for the lab's inventory, and lose no packet."""
    fleet.site().check()
    page = (ROOT / "docs" / "how-to" / "switching-modes.md").read_text()
    commands = re.findall(r"^ansible calico_nodes .*$", page, re.MULTILINE)
    assert [name for line in commands for name in re.findall(r"phase=(\w+)", line)] == [
        "prepare",
        "links",
        "flip",
        "retire",
    ]
    found = workloads(lab)
    no_way_around(lab)
    with Streams(lab, mesh_of_streams(lab, found, SPARING)) as streams:
        for command in commands:
            command = command.replace("inventories/prod", "inventories/lab")
            done = subprocess.run(
                command,
                shell=True,
                cwd=ROOT,
                env=fleet.environment,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-1000:]}"
        report = streams.stop()
    assert report.lost_by_us == 0 and report.resets == 0, report.summary()
    check_routes(lab, "direct")
    fleet.site().check()  # the inventory still has the first mode, so this run switches back to it
    check_routes(lab, FIRST_MODE)


def test_a_switch_can_be_written_into_the_inventory(lab: BaseLab, fleet: Fleet, tmp_path: Path) -> None:
    """A switch can be written into an inventory whose pool has Calico's fields; with --check, it is only printed."""
    inventory = tmp_path / "inventory"
    subprocess.run(["cp", "-r", str(ROOT / "inventories" / "lab"), str(inventory)], check=True)
    variables = inventory / "group_vars" / "all" / "calico.yml"
    text = variables.read_text()
    line = next(line for line in text.splitlines() if "encapsulation:" in line)
    fields = {"vxlan": "vxlanMode: Always", "ipip": "ipipMode: Always"}[FIRST_MODE]
    variables.write_text(text.replace(line, f"    {fields}"))
    before = variables.read_text()
    arguments = ("-e", "pool=default-ipv4-ippool", "-e", "mode=direct", "-e", "write_inventory=true")
    planned = fleet.play("switch_pool_mode.yml", *arguments, "--check", "--diff", inventory=str(inventory)).check()
    assert "+    ipipMode: Never" in planned.output and "+    vxlanMode: Never" in planned.output, planned.output[
        -3000:
    ]
    assert variables.read_text() == before
    fleet.play("switch_pool_mode.yml", *arguments, inventory=str(inventory)).check()
    assert "    ipipMode: Never\n    vxlanMode: Never\n" in variables.read_text()
    fleet.play("site.yml", "--check", inventory=str(inventory)).unchanged()
    fleet.site().check()  # switches back, because the lab's own inventory has the first mode
