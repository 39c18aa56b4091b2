# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet that an earlier release made: brought to this one and back under traffic, with generations of both.

The earlier release is the artifact of one commit, built here from this clone's history. Each release runs its own
playbooks with its own inventory directory; the lockfile and the hosts are the same. The tests build upon each other.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab import Lab, containers
from tests.lab.containers import Container
from tests.lab.fleet import Workload, no_way_around, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Report, Stream, Streams

from .conftest import LEAST_PPS, PPS, ROOT, Fleet
from .test_agent import in_sync, ipam_is_clean, no_session_was_reset, sessions_since, wait

NODES = ("node1", "node2", "node3", "node4")
#: The commit of the earlier release, which made the fleet.
EARLIER = "862d17fbd4d369b4f8e02e123f82b74d146a15de"
#: A workload that only one generation of the earlier release has.
GUEST = {"name": "guest-1", "node": "node1"}
#: A workload that only one generation of this release has.
LATE = {"name": "late-1", "node": "node2"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The earlier release's artifact, built from history and installed into a folder of its own."""
    return install(EARLIER, tmp_path_factory.mktemp("earlier"))


def install(commit: str, work: Path) -> Path:
    """Build the artifact of `commit`, install it below `work`, and return the installed collection's folder.

    Fail the test if this clone has no such commit. Raise AssertionError if ansible-galaxy fails, and CalledProcessError
    if the sources cannot be unpacked.
    """
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True, check=False
    )
    if known.returncode:
        pytest.fail(
            f"this clone has no commit {commit[:7]}, from which the earlier release is built: it is shallow, or made "
            "without history. `git fetch --unshallow` brings it"
        )
    sources, collections = work / "sources", work / "collections"
    sources.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(sources)], input=archive.stdout, check=True)
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(sources / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(collections),  # so that no copy that is installed elsewhere is found
        "ANSIBLE_HOME": str(work / "home"),
    }
    galaxy(["build", str(sources), "--output-path", str(work)], environment)
    [artifact] = work.glob("baremetal-host_routing-*.tar.gz")
    galaxy(["install", "--offline", str(artifact), "-p", str(collections)], environment)
    found = collections / "ansible_collections" / "baremetal" / "host_routing"
    # An artifact lacks the clone's ansible.cfg. It names folders for collections, which the environment overrides.
    (found / "ansible.cfg").write_text((sources / "ansible.cfg").read_text("utf-8"), "utf-8")
    return found


def galaxy(words: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["ansible-galaxy", "collection", *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    lab = Lab("scenarios-upgrade")
    lab.down()
    lab.up(podman=True)
    yield lab
    if not os.environ.get("HOST_ROUTING_LAB_KEEP"):
        lab.down()


@pytest.fixture(scope="module")
def earlier(lab: BaseLab, installed: Path) -> Fleet:
    """The earlier release, which has made the fleet by two runs; the second one added the workload GUEST."""
    fleet = Fleet(lab, str(installed / "inventories" / "lab"), root=installed)
    fleet.environment["ANSIBLE_COLLECTIONS_PATH"] = str(installed.parents[2])
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


def engines(lab: BaseLab) -> dict[str, str]:
    """Return {node: digest of the engine in use}; raise CommandFailed if a node has none."""
    return {node: lab.exec(node, ["readlink", "/usr/local/lib/calico/current"]).stdout.strip() for node in NODES}


def generations(lab: BaseLab, node: str) -> list[dict[str, object]]:
    """Return the generations on a node's disk, as parsed JSON, the oldest first; [] if it has none."""
    command = "for f in $(ls -v /var/lib/calico/generations/*.json); do cat $f; echo; done"
    return [json.loads(line) for line in lab.exec(node, command).stdout.splitlines() if line.strip()]


def mesh(lab: BaseLab, boxes: dict[str, Container]) -> list[Stream]:
    """Return streams between the containers of all nodes, and from each to a workload of the inventory elsewhere.

    Raise the errors of `workloads`.
    """
    found = {entry.node: entry for entry in workloads(lab) if entry.name != GUEST["name"]}
    sizes = itertools.cycle((64, "full"))
    streams = [
        Stream(one.node, one.netns, other.node, other.netns, other.address, size, PPS)
        for (one, other), size in zip(itertools.permutations(boxes.values(), 2), sizes)
    ]
    for node, after in zip(NODES, (*NODES[1:], NODES[0])):
        target: Workload = found[after]
        streams.append(Stream(node, boxes[node].netns, after, target.name, target.address, 64, PPS))
    return streams


def nothing_lost(report: Report) -> None:
    assert report.lost_by_us == 0 and not report.silent_hosts, report.summary()
    assert min(result.rate for result in report.streams) >= LEAST_PPS, report.summary()


def unchanged(fleet: Fleet) -> None:
    """Assert that another run of `fleet`'s release succeeds and changes nothing."""
    run = fleet.site().check()
    assert {host: entry["changed"] for host, entry in run.recap().items()} == dict.fromkeys(NODES, 0), run.output


def names(lab: BaseLab) -> set[str]:
    return {entry.name for entry in workloads(lab)}


def test_the_earlier_release_is_upgraded_under_traffic(
    lab: BaseLab,
    earlier: Fleet,
    present: Fleet,
    boxes: dict[str, Container],
    record_property: Callable[[str, object], None],
) -> None:
    before, sessions, kept = engines(lab), sessions_since(lab), {node: generations(lab, node) for node in NODES}
    no_way_around(lab)
    with Streams(lab, mesh(lab, boxes)) as streams:
        run = present.site().check()
        for node in NODES:
            wait(f"{node} is in sync", lambda node=node: in_sync(lab, node))
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
    with Streams(lab, mesh(lab, boxes)) as streams:
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
    boxes: dict[str, Container],
    record_property: Callable[[str, object], None],
) -> None:
    before, sessions = engines(lab), sessions_since(lab)
    with Streams(lab, mesh(lab, boxes)) as streams:
        run = earlier.site().check()
        for node in NODES:
            wait(f"{node} is in sync", lambda node=node: in_sync(lab, node))
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
    present.site("-e", with_one_more(lab, LATE)).check()
    [plan] = {str(entry["plan"]) for entry in generations(lab, "node2") if LATE["name"] in json.dumps(entry)}
    earlier.site().check()
    assert names(lab) == shipped
    earlier.play("rollback.yml", "-e", f"plan={plan}").check()
    assert names(lab) == shipped | {LATE["name"]}
    earlier.site().check()
    assert names(lab) == shipped
    ipam_is_clean(lab)
