# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet that an earlier release made: brought to this one node by node, and back, under traffic and with policy.

Half of the nodes have this release for a while each way: policy holds between old and new nodes, and the controller of
this release looks at all of them and exchanges their workloads. The tests build upon each other.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.release import VERSION

from tests.lab import containers
from tests.lab.containers import Container
from tests.lab.fleet import no_way_around, ping, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Streams

from . import earlier_release
from .conftest import LAB, Fleet, new_lab
from .earlier_release import EARLIER, NODES, READABLE, engines, mesh, nothing_lost, unchanged
from .test_agent import in_sync, ipam_is_clean, no_session_was_reset, sessions_since, wait

FIRST_HALF, SECOND_HALF = NODES[:2], NODES[2:]
#: Nodes of each half, for workloads that come between runs; the databases of the inventory run on the second half.
CLIENTS = {"client-1": "node1", "client-4": "node4"}
DATABASES = ("db-1", "db-2")
#: Only the web workloads and clients may ping databases. All else may pass, so that the streams of packets do.
POLICY = {
    "kind": "NetworkPolicy",
    "name": "db",
    "selector": "app == 'db'",
    "ingress": [
        {"action": "Allow", "protocol": "ICMP", "source": {"selector": "app == 'web' || role == 'client'"}},
        {"action": "Deny", "protocol": "ICMP"},
        {"action": "Allow"},
    ],
}
WITH_POLICY = ("-e", json.dumps({"calico_policies": [POLICY]}))


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-by-node", podman=True) as lab:
        yield lab


@pytest.fixture(scope="module")
def earlier(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """The earlier release, which has made the fleet."""
    installed = earlier_release.install(EARLIER, tmp_path_factory.mktemp("earlier"))
    fleet = earlier_release.fleet_of(lab, installed)
    fleet.site(*WITH_POLICY).check()
    return fleet


@pytest.fixture(scope="module")
def present(lab: BaseLab) -> Fleet:
    """The release of this clone."""
    return Fleet(lab)


@pytest.fixture(scope="module")
def boxes(lab: BaseLab, earlier: Fleet) -> dict[str, Container]:
    """One container on each node, attached by the earlier release's agents, as {node: container}."""
    return {node: containers.run(lab, node, f"box-{node}") for node in NODES}


def one_by_one(
    lab: BaseLab, fleet: Fleet, nodes: Sequence[str], boxes: Mapping[str, Container], *variables: str
) -> str:
    """Bring `nodes` to the release of `fleet`, one after the other, and return what became of the traffic meanwhile.

    `variables` are further arguments of its runs.
    Assert for each that it alone got another engine, that all nodes are in sync afterwards, that no session was reset
    and that no packet was lost.
    """
    sessions, lines = sessions_since(lab), []
    no_way_around(lab)
    with Streams(lab, mesh(lab, boxes)) as streams:
        for node in nodes:
            before = engines(lab)
            run = fleet.site(*WITH_POLICY, *variables, "--limit", node).check()
            after = engines(lab)
            assert [other for other in NODES if after[other] != before[other]] == [node], (before, after)
            for other in NODES:
                wait(f"{other} is in sync", functools.partial(lambda other: in_sync(lab, other), other))
            lines.append(f"{node} {run.seconds:.0f} s")
        report = streams.stop()
    nothing_lost(report)
    no_session_was_reset(lab, sessions)
    ipam_is_clean(lab)
    return "\n".join([*lines, report.summary()])


def reaches(lab: BaseLab, sources: Mapping[str, tuple[str, str]]) -> dict[str, list[bool]]:
    """Return for each of `sources`, {name: (node, namespace)}, which of DATABASES answer its pings."""
    addresses = {entry.name: entry.address for entry in workloads(lab)}
    return {
        name: [ping(lab, node, addresses[database], netns) for database in DATABASES]
        for name, (node, netns) in sources.items()
    }


def policy_holds(lab: BaseLab, boxes: Mapping[str, Container], clients: Mapping[str, str]) -> None:
    """Assert that the web workloads and `clients`, {name: node}, reach the databases, and that containers do not."""
    allowed = {"web-1": ("node1", "web-1"), "web-2": ("node2", "web-2")}
    allowed.update((name, (node, name)) for name, node in clients.items())
    denied = {box.name: (node, box.netns) for node, box in boxes.items()}
    assert reaches(lab, allowed) == {name: [True, True] for name in allowed}
    assert reaches(lab, denied) == {name: [False, False] for name in denied}


def attach(lab: BaseLab, name: str, node: str) -> None:
    lab.exec(node, ["ip", "netns", "add", name])
    lab.exec(node, ["calicoctl", "workload", "add", name, "--netns", name, "--label", "role=client"])


def detach(lab: BaseLab, name: str, node: str) -> None:
    lab.exec(node, ["calicoctl", "workload", "delete", name])
    lab.exec(node, ["ip", "netns", "delete", name])


def clients_come_and_go(lab: BaseLab, fleet: Fleet, boxes: Mapping[str, Container]) -> None:
    """Assert that workloads which come between runs are known to all nodes after `fleet`'s sync_workloads.yml."""
    for name, node in CLIENTS.items():
        attach(lab, name, node)
    synced = fleet.play("sync_workloads.yml", "-e", "strict=true").check()
    assert f"synced  {len(NODES)}/{len(NODES)} nodes" in synced.output, synced.output
    policy_holds(lab, boxes, CLIENTS)
    for name, node in CLIENTS.items():
        detach(lab, name, node)


def test_half_of_the_nodes_are_upgraded_one_by_one(
    lab: BaseLab,
    earlier: Fleet,
    present: Fleet,
    boxes: dict[str, Container],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("first half", one_by_one(lab, present, FIRST_HALF, boxes, *READABLE))


def test_old_and_new_nodes_work_together(
    lab: BaseLab, earlier: Fleet, present: Fleet, boxes: dict[str, Container]
) -> None:
    policy_holds(lab, boxes, {})
    clients_come_and_go(lab, present, boxes)
    status = present.play("status.yml", "-e", "strict=true").check()
    assert (
        f"warning: node3, node4 run release 0.1.0, and this controller has {VERSION}. playbooks/site.yml upgrades, "
        "also node by node with --limit (docs/how-to/upgrading.md)." in status.output
    ), status.output
    earlier.play("status.yml").check()
    present.play("validate.yml", *WITH_POLICY).check()
    planned = present.site(*WITH_POLICY, *READABLE, "--check", "--diff").check()
    assert {host: entry["changed"] for host, entry in planned.recap().items()} == {
        **dict.fromkeys(FIRST_HALF, 0),
        **dict.fromkeys(SECOND_HALF, 1),
    }, planned.output


def test_the_other_half_follows(
    lab: BaseLab, present: Fleet, boxes: dict[str, Container], record_property: Callable[[str, object], None]
) -> None:
    record_property("second half", one_by_one(lab, present, SECOND_HALF, boxes, *READABLE))
    unchanged(present, *WITH_POLICY, *READABLE)
    status = present.play("status.yml", "-e", "strict=true").check()
    assert "warning:" not in status.output and f"good  {len(NODES)}/{len(NODES)} nodes" in status.output, status.output
    clients_come_and_go(lab, present, boxes)


def test_nodes_return_one_by_one(
    lab: BaseLab,
    earlier: Fleet,
    present: Fleet,
    boxes: dict[str, Container],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("first half back", one_by_one(lab, earlier, FIRST_HALF, boxes))
    policy_holds(lab, boxes, {})
    clients_come_and_go(lab, present, boxes)
    record_property("second half back", one_by_one(lab, earlier, SECOND_HALF, boxes))
    unchanged(earlier, *WITH_POLICY)
    clients_come_and_go(lab, earlier, boxes)


def test_a_node_that_returned_is_upgraded_again(lab: BaseLab, present: Fleet, boxes: dict[str, Container]) -> None:
    """The engine of this release is still on the node, beside that of the earlier one, and becomes the one in use."""
    one_by_one(lab, present, FIRST_HALF[:1], boxes, *READABLE)
    policy_holds(lab, boxes, {})


def test_calicoctl_of_either_release_asks_an_agent_of_the_other(lab: BaseLab) -> None:
    """An interrupted run can leave calicoctl of one release beside an agent of the other; node1 has the newer agent."""
    words = ("version", "status", "plan", "node status", "workload list", "ipam show", "ipam check", "policy drops")
    for node in NODES[:2]:
        used = engines(lab)[node]
        folders = lab.exec(node, "ls -d /usr/local/lib/calico/????????????????").stdout.split()
        [other] = [folder for folder in folders if not folder.endswith(used)]
        found = {
            command: lab.exec(node, f"/usr/bin/python3 -I -B {other} calicoctl {command}", check=False)
            for command in words
        }
        assert {command: done.returncode for command, done in found.items()} == dict.fromkeys(words, 0), found
