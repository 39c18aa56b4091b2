# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths that agents watch, in the status of a fleet."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.report import status_report
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import status_lines, watch_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.watch_lines import (
    NOT_ASKED,
    NOT_WATCHED,
    Said,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import Origin
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.places import Places
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.path_status import (
    NO_ENDPOINT,
    Fragmenting,
    PathDown,
    PathStatus,
    PoolCounts,
)

from tests.unit.report.test_status_lines import AGENT, DRIFT, HOSTS, node

UP = PathStatus(True, "", (PoolCounts("web", 2, 2, 0, 0, 0, 5),))


def down(of: int, to: int, heard: float | None = None, pool: str = "web") -> PathDown:
    source, address = (f"10.244.{host}.7" for host in (of, to))
    return PathDown(pool, f"node{to}", source, address, 1480, "no answer", "", "", "2026-11-29T20:00:00Z", 30.0, heard)


def status(*paths: PathDown, nodes: tuple[str, ...] = ()) -> PathStatus:
    counts = PoolCounts("web", 2, 2 - len(paths) - len(nodes), len(paths), 0, len(nodes), 5)
    return PathStatus(True, "", (counts,), paths, nodes, len(nodes))


def answers(**paths: PathStatus) -> dict[str, t.Any]:
    return {host: node(host, agent={**AGENT, "drift": DRIFT, "paths": paths.get(host, UP).to_dict()}) for host in HOSTS}


def test_paths_that_are_up_are_counted() -> None:
    """A fleet whose paths are all up is good, and the verdict counts them."""
    lines = status_lines.text(HOSTS, answers())
    assert lines[-1] == "good  3/3 nodes · 3/3 sessions Established · 6 workloads · 6/6 paths up"


def test_a_path_that_is_down_is_a_problem_with_its_direction() -> None:
    """Both ends say what they know: the end that heard probes shows on which way they are lost."""
    lines = status_lines.text(HOSTS, answers(node1=status(down(1, 2, 3.0)), node2=status(down(2, 1))))
    assert [line for line in lines if line.startswith("!")] == [
        "! node1 -> node2 in pool web: no answer (lost on the way there), since 2026-11-29T20:00:00Z"
        " (10.244.1.7 -> 10.244.2.7, 1480 bytes)",
        "! node2 -> node1 in pool web: no answer (lost on the way back), since 2026-11-29T20:00:00Z"
        " (10.244.2.7 -> 10.244.1.7, 1480 bytes)",
    ]
    assert lines[-1].endswith("1/3 nodes good · 3/3 sessions Established · 6 workloads · 4/6 paths up")


def test_a_host_that_does_not_answer_is_no_path_s_fault() -> None:
    """What leads to a host that was not reached, or has no state, adds no lines to its own."""
    found = answers(node1=status(down(1, 3)), node2=status(nodes=("node3",)))
    found["node3"] = {"unreachable": True, "msg": "timed out"}
    lines = status_lines.text(HOSTS, found)
    assert [line for line in lines if line.startswith("!")] == ["! node3: unreachable: timed out"]


def test_a_node_that_is_down_is_named_once() -> None:
    """A node that is down as a whole is one line, however many nodes say so."""
    said: dict[str, Said] = {"node1": status(nodes=("node9",)), "node2": status(nodes=("node9",))}
    assert watch_lines.problems(said) == {
        "node1": ["node9 is down: node1, node2 have no session with it, and none of its paths answers"]
    }


def test_many_paths_are_counted() -> None:
    """At most twenty paths are named, and the others are counted, also those that agents did not name."""
    many = status(*(down(1, to, pool=pool) for to in (2, 3) for pool in ("a", "b", "c", "d", "e", "f", "g", "h")))
    counts = dataclasses.replace(many.pools[0], down=40)
    said: dict[str, Said] = {"node1": dataclasses.replace(many, pools=(counts,)), "node2": many}
    found = watch_lines.problems(said)
    assert sum(len(lines) for lines in found.values()) == 21
    assert found["node2"][-1] == "36 more paths are down: `calicoctl node status` there names them"


def test_other_findings() -> None:
    """A small MTU and dropped packets are sentences of their host."""
    one = dataclasses.replace(UP, reason="packets are dropped", fragmenting=Fragmenting("eth0", 1400, 1500, True))
    assert [line.partition(",")[0] for line in watch_lines.problems({"node1": one})["node1"]] == [
        "node1: packets are dropped",
        "node1: eth0 has MTU 1400",
    ]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([], "paths not watched"),
        ([NOT_WATCHED, NOT_WATCHED], "paths not watched"),
        ([NOT_ASKED, NOT_WATCHED], "paths not asked"),
        ([PathStatus(False, "no endpoint")], "paths not watched"),
        ([UP, UP], "4/4 paths up"),
        ([UP, PathStatus(False, NO_ENDPOINT)], "2/2 paths up"),
        (
            [UP, NOT_WATCHED, NOT_ASKED, NOT_ASKED],
            "2/2 paths up, those of 1 node not watched, those of 2 nodes not asked",
        ),
    ],
)
def test_verdict(said: list[Said], words: str) -> None:
    """The verdict says of how many nodes nothing is known, and why."""
    assert watch_lines.verdict(said) == words


def test_the_map_of_the_report_has_paths_that_are_down() -> None:
    """A link of the map shows the lost probes of a path that is down; one to a host that is not known is left out."""
    found = answers(node1=status(down(1, 2), down(1, 9)))
    report = status_report.by_nodes(
        Origin("Status", "status.yml", "prod", "now", "0.2.0"), HOSTS, found, Places(None, HOSTS), [], []
    )
    assert [(link.a, link.b, link.sent, link.lost) for link in report.links if link.lost] == [("node1", "node2", 5, 5)]
