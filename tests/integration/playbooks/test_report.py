# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports that playbooks write: a plan, a run, a status, a switch that was made and one that was not."""

from __future__ import annotations

import json
import os
import re
import stat
import typing as t

import pytest
import yaml

from tests.integration.playbooks.simulated_fleet import SimulatedFleet, simulated_fleet

pytestmark = pytest.mark.root

POOL = ("-e", "pool=pool")


class Fleet(SimulatedFleet):
    """Three nodes, each in a rack of its own."""

    def variables(self) -> dict[str, t.Any]:
        return {
            "calico_node_soak_seconds": 2,
            "calico_node_convergence_timeout": 20,
            "calico_bgp_secrets": {"mesh": {"key": "very-secret-password"}},
            "calico_bgp_mesh_password": {"secretKeyRef": {"name": "mesh", "key": "key"}},
            "calico_ip_pools": [{"name": "pool", "cidr": "10.244.0.0/16", "vxlanMode": "Always"}],
        }

    def variables_of(self, host: str) -> dict[str, t.Any]:
        return {"calico_node_labels": {"rack": host[-1]}}

    def report(self, playbook: str, *options: str, failed: bool = False) -> tuple[str, str]:
        """Run a playbook with a report; return the file's words without markup as one line, and what was printed.

        Raise AssertionError if the run fails, or with `failed` if it succeeds.
        """
        path = self.folder / "report.html"
        path.unlink(missing_ok=True)
        printed = self.run(playbook, *options, "-e", f"report={path}", failed=failed)
        page = path.read_text()
        assert "very-secret-password" not in page and "<script" not in page
        body = re.sub(r"<style>.*?</style>|<title>.*?</title>", "", page.partition("<body>")[2], flags=re.S)
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)), printed


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fleet]:
    with simulated_fleet(Fleet, tmp_path_factory) as fleet:
        yield fleet


def test_a_plan_names_what_it_changes_where(fleet: Fleet) -> None:
    words, printed = fleet.report("site", "--check", "--diff")
    assert "Plan of a run" in words and "Plan, nothing was changed: 3 of 3 nodes change" in words
    assert "What this plan changes" in words and "device" in words and "vxlan.calico" in words
    assert "--check --diff -e report=" in words and "rack 1" in words and "baremetal.host_routing 0.2.0" in words
    assert f"report  {fleet.folder}/report.html" in printed


def test_a_run_tells_of_paths(fleet: Fleet) -> None:
    words, dummy = fleet.report("site")
    assert "Converged: 3/3 nodes · 3/3 sessions Established · 6/6 paths answer" in words
    assert "What the run changed" in words and "host1 - host2" not in words


def test_a_status_has_the_map_and_the_blocks(fleet: Fleet) -> None:
    words, dummy = fleet.report("status")
    assert "Good: 3 of 3 nodes good · 3 of 3 sessions Established" in words
    assert "all links of the map are up" in words and "No switch is recorded beside the lockfile" in words
    assert "10.244.0.0/16" in words and "VXLAN" in words
    rights = stat.S_IMODE((fleet.folder / "report.html").stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    assert rights == 0o644 & ~mask
    assert sorted(path.name for path in fleet.folder.glob(".report-*")) == []


def test_a_status_shows_what_is_down(fleet: Fleet) -> None:
    fleet.inside("host2", "birdc", "-s", "/run/calico/bird.ctl", "disable", "all")
    try:
        words, dummy = fleet.report("status")
    finally:
        fleet.inside("host2", "birdc", "-s", "/run/calico/bird.ctl", "enable", "all")
    assert "Degraded" in words and "sessions down" in words and "Sessions that are down" in words


def test_a_switch_has_its_phases_and_its_loss(fleet: Fleet) -> None:
    words, dummy = fleet.report("switch_pool_mode", *POOL, "-e", "mode=vxlan-crosssubnet")
    assert "Switch: pool pool to vxlan-crosssubnet" in words and "switched, no probe lost" in words
    for phase in ("prepare", "prove", "flip", "soak", "retire"):
        assert phase in words
    assert "Loss over time" in words and "All 6 paths answered." in words
    recorded = json.loads((fleet.folder / ".calico.switch.json").read_text())
    assert recorded["switched"] is True and recorded["lost"] == 0 and recorded["paths"] == 6


def test_a_switch_that_was_not_made_says_where_it_stopped(fleet: Fleet) -> None:
    """The router between the hosts knows no blocks, so that no path answers without a tunnel."""
    words, printed = fleet.report("switch_pool_mode", *POOL, "-e", "mode=direct", failed=True)
    assert "did not go through" in printed
    assert "Not switched" in words and "stopped here" in words and "Paths with losses" in words
    assert "live traffic was not touched" in words and "3 of 3 nodes run as before" in words


def test_a_later_status_shows_the_last_switch(fleet: Fleet) -> None:
    words, dummy = fleet.report("status")
    assert (
        "Loss of the last switch" in words
        and "pool pool to direct" in words
        and "not switched; only probes used the new routes" in words
    )


@pytest.mark.parametrize(
    ("playbook", "options", "inventory", "ends", "title"),
    [
        ("switch_topology", [], {"calico_bgp_hold_time": 60}, 6, "Switch: topology inventory"),
        ("switch_pool_mode", [*POOL, "-e", "mode=vxlan"], {}, 0, "Switch: pool pool to vxlan"),
        ("site", [], {"calico_bgp_hold_time": 75}, 6, "Switch: the whole inventory"),
    ],
)
def test_the_figures_of_a_run_in_phases_are_those_of_all_its_steps(
    fleet: Fleet, playbook: str, options: list[str], inventory: dict[str, t.Any], ends: int, title: str
) -> None:
    """The three nodes change in the phases, with both ends of their three sessions, and nothing is left at the end."""
    written = yaml.safe_load(fleet.inventory.read_text())
    fleet.write(**{**written["calico_nodes"]["vars"], **inventory})
    words, printed = fleet.report(playbook, *options)
    assert title in words and "Phases" in words and "nothing to change" not in words
    figures = re.search(
        r"[0-9]+/ [0-9]+ nodes changed [0-9]+ ends of BGP sessions reset [0-9]+ routes withdrawn", words
    )
    assert figures is not None, words
    assert figures.group() == f"3/ 3 nodes changed {ends} ends of BGP sessions reset 0 routes withdrawn"
    recorded = json.loads((fleet.folder / ".calico.switch.json").read_text())
    assert recorded["switched"] is True and recorded["paths"] == 6
    assert "converged 3/3 nodes" in re.sub(r" +", " ", printed)


@pytest.mark.parametrize(
    ("playbook", "path", "words"),
    [
        ("status", "nowhere/report.html", "cannot be written: the folder"),
        ("site", "", "is a folder. Name a file in it, such as report.html."),
        ("switch_pool_mode", "nowhere/report.html", "cannot be written: the folder"),
        ("switch_topology", "", "is a folder. Name a file in it, such as report.html."),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_a_host_is_asked(
    fleet: Fleet, playbook: str, path: str, words: str
) -> None:
    options = [*POOL, "-e", "mode=direct"] if playbook == "switch_pool_mode" else []
    printed = re.sub(r"\s+", " ", fleet.run(playbook, *options, "-e", f"report={fleet.folder}/{path}", failed=True))
    assert words in printed and "Traceback" not in printed
    assert "This collection contacted no host." in printed
