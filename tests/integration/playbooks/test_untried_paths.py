# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdicts of runs and of a status: what they did not try is named, and a silent path is no success."""

from __future__ import annotations

import json
import re
import typing as t

import pytest

from tests.integration.playbooks.simulated_fleet import HOSTS, SimulatedFleet, simulated_fleet

pytestmark = pytest.mark.root

RACKS = "6 paths of pool racks (without a tunnel it has no address to probe)"


class Fleet(SimulatedFleet):
    """Three nodes with a tunnelled pool and a direct one.

    The router between the hosts knows no blocks, so all packets of the direct pool are lost.
    """

    def variables(self) -> dict[str, t.Any]:
        return {
            "calico_node_soak_seconds": 2,
            "calico_node_convergence_timeout": 20,
            "calico_ip_pools": [
                {"name": "default", "cidr": "10.244.0.0/16", "vxlanMode": "Always"},
                {"name": "racks", "cidr": "10.245.0.0/16"},
            ],
            "calico_workloads": [{"name": f"w{name[-1]}", "node": name, "pool": "racks"} for name in HOSTS],
        }

    def play(self, playbook: str, *options: str, failed: bool = False) -> str:
        """Return what `run` returns, as one line with single spaces."""
        return re.sub(r"\s+", " ", self.run(playbook, *options, failed=failed))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fleet]:
    with simulated_fleet(Fleet, tmp_path_factory) as fleet:
        yield fleet


def test_a_direct_pool_beside_a_tunnelled_one_is_named(fleet: Fleet) -> None:
    """A run, a steady run, one of a host and a status name the direct pool, and never say that all is well without."""
    report = fleet.folder / "report.html"
    for printed in (fleet.play("site"), fleet.play("site", "-e", f"report={report}")):
        assert f"not tried {RACKS} converged 3/3 nodes" in printed
        assert "6/6 paths answer" in printed and "6 paths not tried" in printed
    assert f"Not tried: {RACKS}." in re.sub(r"\s+", " ", report.read_text())
    limited = fleet.play("site", "--limit", "host1")
    assert "not tried 2 paths of pool racks" in limited and "paths of host2, host3 (not in this run)" in limited
    status = fleet.play("status", "-e", f"report={report}")
    assert f"not tried by site.yml either: {RACKS} good 3/3 nodes" in status and "workloads · paths not tried" in status
    assert f"Not tried: {RACKS}." in re.sub(r"\s+", " ", report.read_text())
    found = json.loads(re.search(r"\{ \"good\".*?\} \} \}", fleet.play("status", "-e", "output=json")).group())
    assert [(gap["pool"], gap["count"]) for gap in found["not_tried"]] == [("", 3), ("racks", 6)]


def test_a_switch_names_it_too(fleet: Fleet) -> None:
    """The proof and the end of a change of mode name the pool that no probe tries."""
    printed = fleet.play("switch_pool_mode", "-e", "pool=default", "-e", "mode=vxlan-crosssubnet")
    assert f"live traffic untouched) · not tried: {RACKS}" in printed
    assert f"not tried {RACKS} converged 3/3 nodes" in printed


def test_a_return_tries_the_paths_of_a_run_and_fails_where_they_are_silent(fleet: Fleet) -> None:
    """A rollback probes no workload, and its verdict and exit status agree, as those of `site.yml` do."""
    assert f"not tried {RACKS} converged 3/3 nodes" in fleet.play("rollback", "-e", "plan=previous")
    fleet.write(calico_workloads=[])
    fleet.play("site")
    drop = ("INPUT", "-p", "icmp", "--icmp-type", "echo-request", "-i", "vxlan.calico", "-j", "DROP")
    fleet.inside("host2", "iptables", "-w", "-I", *drop)
    try:
        for playbook, options in (("site", ()), ("rollback", ("-e", "plan=previous"))):
            printed = fleet.play(playbook, *options, failed=True)
            assert "! host1 -> host2: " in printed and "! host3 -> host2: " in printed, printed[-3000:]
            assert "incomplete 3/3 nodes" in printed and "converged 3/3" not in printed
            assert "2 paths get no answer, see above: packets of workloads may not arrive there." in printed
    finally:
        fleet.inside("host2", "iptables", "-w", "-D", *drop)
    assert "converged 3/3 nodes" in fleet.play("site")
