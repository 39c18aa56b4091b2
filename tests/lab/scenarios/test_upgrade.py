# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet that an earlier release made: brought to this one and back under traffic, with generations of both.

The whole fleet changes its release in one run; test_upgrade_by_node.py does it node by node. See earlier_release.py for
the earlier release. The tests build upon each other.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab import containers
from tests.lab.containers import Container
from tests.lab.fleet import no_way_around, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Streams

from . import earlier_release
from .conftest import LAB, Fleet, new_lab
from .earlier_release import EARLIER, NODES, READABLE, engines, generations, mesh, names, nothing_lost, unchanged
from .test_agent import in_sync, ipam_is_clean, no_session_was_reset, sessions_since, wait

#: A workload that only one generation of the earlier release has.
GUEST = {"name": "guest-1", "node": "node1"}
#: A workload that only one generation of this release has.
LATE = {"name": "late-1", "node": "node2"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The earlier release's artifact, built from history and installed into a folder of its own."""
    return earlier_release.install(EARLIER, tmp_path_factory.mktemp("earlier"))


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-upgrade", podman=True) as lab:
        yield lab


@pytest.fixture(scope="module")
def earlier(lab: BaseLab, installed: Path) -> Fleet:
    """The earlier release, which has made the fleet by two runs; the second one added the workload GUEST."""
    fleet = earlier_release.fleet_of(lab, installed)
    fleet.site().check()
    fleet.site("-e", with_one_more(lab, GUEST)).check()
    return fleet


def with_one_more(lab: BaseLab, workload: dict[str, str]) -> str:
    """Return JSON for `-e` that gives the fleet its present workloads and one more; raise the errors of `workloads`."""
    present = [{"name": entry.name, "node": entry.node} for entry in workloads(lab)]
    return json.dumps({"calico_workloads": [*present, workload]})


@pytest.fixture(scope="module")
def present(lab: BaseLab) -> Fleet:
    """The release of this clone."""
    return Fleet(lab)


@pytest.fixture(scope="module")
def boxes(lab: BaseLab, earlier: Fleet) -> dict[str, Container]:
    """One container on each node, attached by the earlier release's agents, as {node: container}.

    A run then removes the workload GUEST. No container was given its address, so a rollback can restore GUEST.
    """
    found = {node: containers.run(lab, node, f"box-{node}") for node in NODES}
    earlier.site().check()
    return found


def test_the_earlier_release_is_upgraded_under_traffic(
    lab: BaseLab,
    earlier: Fleet,
    present: Fleet,
    boxes: dict[str, Container],
    record_property: Callable[[str, object], None],
) -> None:
    before, sessions, kept = engines(lab), sessions_since(lab), {node: generations(lab, node) for node in NODES}
    no_way_around(lab)
    with Streams(lab, mesh(lab, boxes, without=GUEST["name"])) as streams:
        run = present.site().check()
        for node in NODES:
            wait(f"{node} is in sync", functools.partial(lambda node: in_sync(lab, node), node))
        report = streams.stop()
    record_property("upgrade", f"{run.seconds:.0f} s\n{report.summary()}")
    nothing_lost(report)
    after = engines(lab)
    assert all(after[node] != before[node] for node in NODES), after
    no_session_was_reset(lab, sessions)
    assert all(generations(lab, node)[: len(kept[node])] == kept[node] for node in NODES)
    unchanged(present)
    ipam_is_clean(lab)


def test_this_release_returns_to_a_generation_of_the_earlier_one(
    lab: BaseLab, present: Fleet, boxes: dict[str, Container], record_property: Callable[[str, object], None]
) -> None:
    shipped = names(lab)
    [plan] = {str(entry["plan"]) for entry in generations(lab, "node1") if GUEST["name"] in json.dumps(entry)}
    with Streams(lab, mesh(lab, boxes, without=GUEST["name"])) as streams:
        present.play("rollback.yml", "-e", f"plan={plan}").check()
        report = streams.stop()
    record_property("rollback", report.summary())
    nothing_lost(report)
    assert names(lab) == shipped | {GUEST["name"]}
    present.site().check()
    assert names(lab) == shipped


def test_the_earlier_release_is_brought_back_under_traffic(
    lab: BaseLab,
    earlier: Fleet,
    present: Fleet,
    boxes: dict[str, Container],
    record_property: Callable[[str, object], None],
) -> None:
    before, sessions = engines(lab), sessions_since(lab)
    with Streams(lab, mesh(lab, boxes, without=GUEST["name"])) as streams:
        present.site(*READABLE).check()
        run = earlier.site().check()
        for node in NODES:
            wait(f"{node} is in sync", functools.partial(lambda node: in_sync(lab, node), node))
        report = streams.stop()
    record_property("return", f"{run.seconds:.0f} s\n{report.summary()}")
    nothing_lost(report)
    after = engines(lab)
    assert all(after[node] != before[node] for node in NODES), after
    no_session_was_reset(lab, sessions)
    unchanged(earlier)
    ipam_is_clean(lab)


def test_the_earlier_release_reads_generations_of_this_one(
    lab: BaseLab, earlier: Fleet, present: Fleet, boxes: dict[str, Container]
) -> None:
    shipped = names(lab)
    present.site("-e", with_one_more(lab, LATE), *READABLE).check()
    [plan] = {str(entry["plan"]) for entry in generations(lab, "node2") if LATE["name"] in json.dumps(entry)}
    earlier.site().check()
    assert names(lab) == shipped
    earlier.play("rollback.yml", "-e", f"plan={plan}").check()
    assert names(lab) == shipped | {LATE["name"]}
    earlier.site().check()
    assert names(lab) == shipped
    ipam_is_clean(lab)
