# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The earlier release that the upgrade scenarios begin with, and what a fleet of two releases has to keep.

The earlier release is the artifact of one commit, built here from this clone's history. Each release runs its own
playbooks with its own inventory directory; the lockfile and the hosts are the same.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.lab.containers import Container
from tests.lab.fleet import Workload, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Report, Stream

from .conftest import LEAST_PPS, PPS, ROOT, Fleet

NODES = ("node1", "node2", "node3", "node4")
#: The commit of the earlier release, which made the fleet.
EARLIER = "862d17fbd4d369b4f8e02e123f82b74d146a15de"

#: Variables with which a node has no probe endpoint and no equal paths, so that the earlier release can read its state.
READABLE = ("-e", json.dumps({"calico_unprobed_pools": ["*"], "calico_bgp_merge_paths": False}))


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


def fleet_of(lab: BaseLab, installed: Path) -> Fleet:
    """Return the fleet of `lab` as a release sees it whose collection `install` has put into the folder `installed`."""
    fleet = Fleet(lab, str(installed / "inventories" / "lab"), root=installed)
    fleet.environment["ANSIBLE_COLLECTIONS_PATH"] = str(installed.parents[2])
    return fleet


def engines(lab: BaseLab) -> dict[str, str]:
    """Return {node: digest of the engine in use}; raise CommandFailed if a node has none."""
    return {node: lab.exec(node, ["readlink", "/usr/local/lib/calico/current"]).stdout.strip() for node in NODES}


def generations(lab: BaseLab, node: str) -> list[dict[str, object]]:
    """Return the generations on a node's disk, as parsed JSON, the oldest first; [] if it has none."""
    command = "for f in $(ls -v /var/lib/calico/generations/*.json); do cat $f; echo; done"
    return [json.loads(line) for line in lab.exec(node, command).stdout.splitlines() if line.strip()]


def mesh(lab: BaseLab, boxes: Mapping[str, Container], without: str = "") -> list[Stream]:
    """Return streams between the containers of all nodes, and from each to a workload of the inventory elsewhere.

    The workload `without` gets none. Raise the errors of `workloads`.
    """
    found = {entry.node: entry for entry in workloads(lab) if entry.name != without}
    sizes: Iterator[int | str] = itertools.cycle((64, "full"))
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


def unchanged(fleet: Fleet, *arguments: str) -> None:
    """Assert that another run of `fleet`'s release, with these arguments, succeeds and changes nothing."""
    fleet.site(*arguments).unchanged()


def names(lab: BaseLab) -> set[str]:
    return {entry.name for entry in workloads(lab)}
