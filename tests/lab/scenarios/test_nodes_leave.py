# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""remove_node.yml: one node leaves, the others lose its routes and no packet, and it can come back unchanged."""

from __future__ import annotations

import json
from pathlib import Path

from tests.lab.fleet import SPARING, mesh_of_streams, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Streams

from .conftest import Fleet
from .test_site import lab_state

LEAVING = "node4"


def sessions(lab: BaseLab, node: str) -> int:
    """Return the number of a node's mesh sessions, in any state; raise CommandFailed if its BIRD does not answer."""
    shown = lab.exec(node, ["birdc", "-s", "/run/calico/bird.ctl", "show", "protocols"]).stdout
    return sum(line.startswith("Mesh_") for line in shown.splitlines())


def routes(lab: BaseLab, node: str) -> set[str]:
    return {route["dst"] for route in lab.json(node, ["ip", "-j", "route", "show", "proto", "bird"])}


def blocks(lab: BaseLab, node: str) -> set[str]:
    ipam = json.loads(lab.exec(node, ["cat", "/var/lib/calico/state.json"]).stdout)["state"]["ipam"]
    return {block["cidr"] for block in (*ipam["blocks"], *ipam["spare_blocks"])}


def test_a_node_leaves_and_returns(lab: BaseLab, fleet: Fleet, tmp_path: Path) -> None:
    staying = [node.name for node in lab.nodes if node.name != LEAVING]
    found = workloads(lab)
    own, generations = blocks(lab, LEAVING), lab_state(lab) / "calico.lock.yml"
    # The leaving node's workloads have to leave first: `kept` are the workloads of the other nodes.
    kept = [{"name": one.name, "node": one.node} for one in found if one.node != LEAVING]
    without = ("-e", f"node={LEAVING}", "-e", json.dumps({"calico_workloads": kept}))
    refused = fleet.play("remove_node.yml", "-e", f"node={LEAVING}", "-e", "confirm=true")
    assert refused.code == 2 and f"node {LEAVING} is the node that is to go." in refused.output, refused.output
    planned = fleet.play("remove_node.yml", *without, "--check", "--diff").check()
    assert f"{LEAVING} would leave the fleet." in planned.output and sessions(lab, LEAVING) == len(staying)
    with Streams(lab, mesh_of_streams(lab, [one for one in found if one.node != LEAVING], SPARING)) as streams:
        run = fleet.play("remove_node.yml", *without, "-e", "confirm=true").check()
        report = streams.stop()
    assert report.lost_by_us == 0 and not report.silent_hosts, report.summary()
    assert f"{LEAVING} left the fleet." in run.output
    for node in staying:
        assert not routes(lab, node) & own, node
        assert sessions(lab, node) == len(staying) - 1
    assert "/var/lib/calico/state.json" not in lab.exec(LEAVING, ["find", "/var/lib/calico"], check=False).stdout
    assert lab.exec(LEAVING, ["systemctl", "is-active", "calico-agent"], check=False).stdout.strip() == "inactive"
    quarantine = generations.read_text("utf-8").partition("quarantine:")[2]
    assert all(block in quarantine for block in own)
    fleet.site().check()
    assert blocks(lab, LEAVING) >= {block for block in own if block in routes(lab, staying[0])}
    assert workloads(lab) == found
    assert all(sessions(lab, node) == len(staying) for node in (*staying, LEAVING))
