# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of a report: states, links and routes by mode. Its page is tested with plugin_utils/report."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.report import (
    run_report,
    sections,
    status_report,
    switch_loss,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import report_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.heartbeat_lines import HeartbeatStatus
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import FleetReport
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.places import Places
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.path_status import PathStatus

from tests.unit.plugin_utils.report import simulated
from tests.unit.state.derived.test_path_status import DOWN


def report_of_run(
    check: bool, changing: t.Collection[str] = (), warnings: t.Sequence[str] = (), probes: t.Sequence[t.Any] = ()
) -> FleetReport:
    """Return the report of a run over four nodes in two racks; `probes` are node1's answers of `probe`."""
    fleet = simulated.fleet(4, 2)
    hosts, answers = list(fleet.nodes), simulated.plans(fleet, changing)
    facts = run_report.RunFacts(check, fleet.digest, warnings=warnings)
    lines = report_lines.plan(hosts, answers) if check else ["converged  4/4 nodes"]
    reachability = {"node1": {"targets": list(probes)}}
    return run_report.report(
        simulated.ORIGIN, hosts, answers, answers, reachability, Places(fleet, hosts), facts, lines
    )


def probe(name: t.Optional[str], lost: int) -> dict[str, t.Any]:
    return {"address": "10.244.0.1", "name": name, "sent": 10, "lost": lost, "reason": ""}


@pytest.mark.parametrize(
    "check, changing, warnings, state",
    [
        (True, (), (), "good"),
        (True, ("node1",), (), "warn"),
        (True, (), ("a warning",), "warn"),
        (False, ("node1",), (), "good"),
        (False, (), ("a warning",), "good"),
    ],
)
def test_a_plan_with_changes_or_warnings_asks_for_attention(
    check: bool, changing: t.Sequence[str], warnings: t.Sequence[str], state: str
) -> None:
    assert report_of_run(check, changing, warnings).state == state


def test_probes_of_a_node_to_others_belong_to_their_links() -> None:
    report = report_of_run(False, probes=[probe("node1", 3), probe("node3", 2), probe(None, 4)])
    assert [(link.a, link.b, link.sent, link.lost) for link in report.links] == [("node1", "node3", 10, 2)]
    assert report.state == "warn"  # the verdict, in the lines of the run, says whether it is more


def test_probes_that_all_answer_leave_a_run_good() -> None:
    assert report_of_run(False, probes=[probe("node3", 0)]).state == "good"


def test_a_missing_route_counts_in_the_mode_between_its_two_nodes() -> None:
    """Both routes are of the pool with IPIP across subnets: node4 and node3 share a subnet, node1 and node3 do not."""
    fleet = simulated.fleet(4, 2)
    report = simulated.status_of(fleet, down={("node4", "node3"), ("node1", "node3")})
    missing = {(mode.mode, mode.pool): mode.missing for mode in report.modes}
    assert missing == {
        ("direct", "default-ipv4-ippool"): 1,
        ("IPIP", "default-ipv4-ippool"): 1,
        ("VXLAN", "db-pool"): 0,
    }


def test_a_missing_route_to_a_nodes_own_block_is_no_link() -> None:
    fleet = simulated.fleet(4, 2)
    answers = simulated.status(fleet)
    own = fleet.allocation.nodes["node3"].blocks[0].cidr
    answers["node3"]["routes"]["missing"] = [f"blackhole {own} is missing"]
    assert sum(link.missing for link in simulated.report_of(fleet, answers).links) == 0


def test_the_word_of_a_run_begins_its_last_line() -> None:
    assert report_of_run(False).word == "Converged"


def test_nodes_with_fresh_heartbeats_are_good() -> None:
    """The heartbeat of node2 is too old, and node3 has one session less than it should have."""
    fleet = simulated.fleet(4, 2)
    hosts = list(fleet.nodes)
    report = status_report.by_heartbeats(
        simulated.ORIGIN,
        HeartbeatStatus(hosts, set(hosts), simulated.heartbeats(fleet, 1e6), {}, 1e6),
        Places(fleet, hosts),
    )
    assert [(node.state, node.word) for node in report.nodes] == [
        ("good", "ok"),
        ("bad", "old heartbeat"),
        ("bad", "1 session down"),
        ("good", "ok"),
    ]


def test_the_map_of_heartbeats_has_paths_that_are_down() -> None:
    """Paths are those of fresh heartbeats, between nodes of the status. Without any, the map has no link."""
    fleet = simulated.fleet(4, 2)
    hosts = list(fleet.nodes)

    def links(paths: dict[str, list[str]]) -> list[tuple[str, str, int]]:
        found = simulated.heartbeats(fleet, 1e6)
        for host, others in paths.items():
            down = tuple(dataclasses.replace(DOWN, node=other) for other in others)
            found[host] = dataclasses.replace(found[host], paths=PathStatus(True, "", (), down))
        status = HeartbeatStatus(hosts, set(hosts), found, {}, 1e6)
        report = status_report.by_heartbeats(simulated.ORIGIN, status, Places(fleet, hosts))
        assert {link.state for link in report.links} <= {"bad"}
        return [(link.a, link.b, link.lost) for link in report.links]

    assert links({}) == []
    # The heartbeat of node2 is too old, and node9 is unknown.
    assert links({"node1": ["node3", "node9"], "node2": ["node4"], "node3": ["node1"]}) == [("node1", "node3", 10)]


@pytest.mark.parametrize("line", ["flip  4/4  routes replaced", "4/4  routes replaced"])
def test_the_words_of_a_phase_do_not_repeat_its_name(line: str) -> None:
    gates = {"flip": {"line": line, "ok": True, "at": 7.0}}
    loss = switch_loss.measured("to ipip", gates, {}, True, lambda at, form: "")
    assert [(phase.name, phase.line) for phase in loss.phases] == [("flip", "4/4  routes replaced")]


def test_the_bar_of_drift_is_a_share_of_the_largest() -> None:
    fleet = simulated.fleet(4, 2)
    answers = simulated.status(fleet)
    for node, count in (("node1", 8), ("node2", 2)):
        answers[node]["agent"]["drift"]["day"] = count
    shown = sections._drift(simulated.report_of(fleet, answers))
    assert shown is not None and shown.table is not None
    assert [row[1].part for row in shown.table.rows if isinstance(row[1], sections.Cell)] == [1.0, 3 / 8, 2 / 8]
