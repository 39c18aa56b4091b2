# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers that come and go after site.yml.

podman runs on four hosts. One host reboots, and agents are killed for 20 seconds, or for 60 in `make soak`.
"""

from __future__ import annotations

import datetime
import functools
import ipaddress
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.bird_sessions import changed_sessions, established_since
from tests.lab import calicoctl, containers
from tests.lab.containers import Container
from tests.lab.fleet import workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.checks import PROBE_INTERFACE
from tests.lab.measure.streams import Stream, Streams
from tests.long_form import LONG
from tests.pauses import pause

from .conftest import LAB, LEAST_PPS, PPS, Fleet, new_lab

NODES = ("node1", "node2", "node3", "node4")
CHAOS_SECONDS = 60 if LONG else 20
_VERBS = {"restart": "restart", "kill -9": "kill -s KILL"}


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-agent", podman=True) as lab:
        yield lab


@pytest.fixture(scope="module")
def fleet(lab: BaseLab) -> Fleet:
    fleet = Fleet(lab)
    fleet.site().check()
    return fleet


@pytest.fixture(scope="module")
def boxes(lab: BaseLab, fleet: Fleet) -> dict[str, Container]:
    """One running container on each node, as {node: container}."""
    return {node: containers.run(lab, node, f"box-{node}") for node in NODES}


def ipam_is_clean(lab: BaseLab) -> None:
    for node in NODES:
        done = lab.exec(node, ["calicoctl", "ipam", "check"], check=False)
        assert done.returncode == 0, (node, done.stdout, done.stderr)
        assert "found 0 problems" in done.stdout, (node, done.stdout)


def sessions_since(lab: BaseLab) -> dict[str, datetime.datetime]:
    """Return {"node session": time of its establishment} of the Established BGP sessions of all nodes.

    Raise AssertionError if a node has none, and CommandFailed if its BIRD does not answer.
    """
    found = {}
    for node in NODES:
        shown = lab.exec(node, ["birdc", "-s", "/run/calico/bird.ctl", "show", "protocols"]).stdout
        here = established_since(shown)
        assert here, shown
        found.update({f"{node} {session}": since for session, since in here.items()})
    return found


def no_session_was_reset(lab: BaseLab, before: Mapping[str, datetime.datetime]) -> None:
    """Assert that the sessions of `before`, an answer of `sessions_since`, and no others are Established since then."""
    assert changed_sessions(before, sessions_since(lab)) == []


def in_sync(lab: BaseLab, node: str) -> bool:
    done = lab.exec(node, ["calicoctl", "status", "-o", "json"], check=False)
    return done.returncode == 0 and json.loads(done.stdout)["in_sync"]


def wait(what: str, condition: Callable[[], bool], seconds: float = 60) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, f"{what}: not within {seconds:g} s"
        pause(began, least=0.25)


def mesh(boxes: dict[str, Container]) -> list[Stream]:
    sizes: Iterator[int | str] = itertools.cycle((64, "full"))
    return [
        Stream(one.node, one.netns, other.node, other.netns, other.address, size, PPS)
        for (one, other), size in zip(itertools.permutations(boxes.values(), 2), sizes)
    ]


def test_agents_run_and_agree_with_the_inventory(lab: BaseLab, fleet: Fleet) -> None:
    for node in NODES:
        assert in_sync(lab, node)
        state = lab.exec(node, ["systemctl", "show", "-p", "ActiveState,SubState,NRestarts", "calico-agent"]).stdout
        assert state.splitlines() == ["NRestarts=0", "ActiveState=active", "SubState=running"] or set(
            state.splitlines()
        ) == {"NRestarts=0", "ActiveState=active", "SubState=running"}
    fleet.site().unchanged(*NODES)


def test_containers_reach_each_other_across_subnets(lab: BaseLab, boxes: dict[str, Container]) -> None:
    assert len({box.address for box in boxes.values()}) == len(NODES)
    for one, other in itertools.permutations(boxes.values(), 2):
        assert containers.ping(lab, one, other.address), (one, other)
    for box in boxes.values():
        for workload in workloads(lab):
            assert containers.ping(lab, box, workload.address), (box, workload)
    ipam_is_clean(lab)


def test_a_run_of_the_site_leaves_the_containers_alone(lab: BaseLab, fleet: Fleet, boxes: dict[str, Container]) -> None:
    with Streams(lab, mesh(boxes)) as streams:
        fleet.site().unchanged(*NODES)
        report = streams.stop()
    assert report.lost_by_us == 0, report.summary()


def test_status_of_the_fleet_is_one_table(lab: BaseLab, fleet: Fleet, boxes: dict[str, Container]) -> None:
    run = fleet.play("status.yml").check()
    for node in NODES:
        [line] = [line for line in run.output.splitlines() if line.strip().startswith(f"{node} ")][:1]
        assert " ok " in line and "2/" in line, run.output  # 2 workloads: the inventory's and the container


@pytest.mark.parametrize("way", ["restart", "kill -9", "upgrade"])
def test_an_agent_that_begins_anew_loses_nothing(
    lab: BaseLab,
    fleet: Fleet,
    boxes: dict[str, Container],
    way: str,
    record_property: Callable[[str, object], None],
) -> None:
    before = sessions_since(lab)
    with Streams(lab, mesh(boxes)) as streams:
        if way == "upgrade":
            # A new setting is delivered like a new release: the role writes it, and the agent restarts.
            run = fleet.site("-e", "calico_node_agent_resync_interval=45").check()
            assert all(entry["changed"] for entry in run.recap().values()), run.output
        else:
            for node in NODES:
                lab.exec(
                    node,
                    "systemctl restart calico-agent" if way == "restart" else "systemctl kill -s KILL calico-agent",
                )
        for node in NODES:
            wait(f"{node} is in sync", functools.partial(lambda node: in_sync(lab, node), node))
        report = streams.stop()
    record_property("loss", f"{way}: {report.summary()}")
    assert report.lost_by_us == 0, report.summary()
    assert min(result.rate for result in report.streams) >= LEAST_PPS, report.summary()
    no_session_was_reset(lab, before)
    ipam_is_clean(lab)


def tunnelled_routes(lab: BaseLab, node: str) -> set[str]:
    lines = lab.exec(node, "ip -4 route show proto bird").stdout.splitlines()
    return {line.split()[0] for line in lines if " dev vxlan.calico " in f"{line} "}


@pytest.mark.parametrize("healer", ["agent", "site.yml"])
def test_bird_that_starts_before_its_tunnel_device_exists_gets_its_routes(
    lab: BaseLab, fleet: Fleet, boxes: dict[str, Container], healer: str
) -> None:
    """On Debian 12, BIRD does not write routes whose device was missing, until the node or a run makes it."""
    node = "node1"
    wanted = tunnelled_routes(lab, node)
    assert wanted
    lab.exec(
        node, "systemctl stop calico-agent calico-bird && ip link delete vxlan.calico && ip route flush proto bird"
    )
    lab.exec(node, "journalctl --rotate -q && journalctl --vacuum-time=1s -q && systemctl start calico-bird")
    wait(
        "BIRD learns routes", lambda: "Invalid iface name" in lab.exec(node, "journalctl -u calico-bird -o cat").stdout
    )
    for block in sorted(wanted):
        has = f"birdc -s /run/calico/bird.ctl show route {block} primary"
        wait(
            f"BIRD has {block}",
            functools.partial(lambda has, block: block in lab.exec(node, has, check=False).stdout, has, block),
        )
    assert not tunnelled_routes(lab, node)
    if healer == "agent":
        lab.exec(node, "systemctl start calico-agent")
        wait("the routes are back", lambda: tunnelled_routes(lab, node) == wanted)
    else:
        fleet.site().check()
        assert tunnelled_routes(lab, node) == wanted
    wait(f"{node} is in sync", lambda: in_sync(lab, node))


def test_a_pool_changes_its_mode_under_containers(lab: BaseLab, fleet: Fleet, boxes: dict[str, Container]) -> None:
    """Containers that agents attached lose no packet while the pool's mode changes to direct and back to VXLAN."""
    with Streams(lab, mesh(boxes)) as streams:
        fleet.switch("direct").check()
        wide = streams.status()
        fleet.switch("vxlan").check()
        report = streams.stop()
    assert wide["missing"] == 0, report.summary()
    assert report.lost_by_us == 0, report.summary()


def test_a_full_block_is_followed_by_the_spare_one_and_the_next_run_grants_another(
    lab: BaseLab, fleet: Fleet, boxes: dict[str, Container]
) -> None:
    """An agent opens its spare block when the first is full, and the other nodes learn it by BGP.

    The next run of site.yml, which grants another spare block, loses no packet; the one after changes nothing.
    """
    before = blocks(lab, "node4")
    names = [f"guest-{number}" for number in range(70)]
    lab.exec("node4", f"set -e; for n in {' '.join(names)}; do ip netns add $n; done")
    calicoctl.must_each(lab, "node4", [["workload", "add", name, "--netns", name] for name in names])
    [opened] = set(blocks(lab, "node4")) - set(before)
    found = containers.workload_addresses(lab, "node4")
    late = [name for name in names if ipaddress.ip_address(found[name]) in ipaddress.ip_network(opened)]
    # Four more addresses of the first block belong to the tunnel, the probe endpoint, the inventory's workload and the
    # box.
    assert len(late) == len(names) + 4 - 64, late
    for box in boxes.values():
        if box.node != "node4":
            wait(
                f"{box.name} reaches {late[0]}",
                functools.partial(lambda box: containers.ping(lab, box, found[late[0]]), box),
            )
    with Streams(lab, mesh(boxes)) as streams:
        run = fleet.site().check()
        report = streams.stop()
    assert run.recap()["node4"]["changed"] == 1, run.output
    assert report.lost_by_us == 0, report.summary()
    state = json.loads(lab.exec("node4", ["cat", "/var/lib/calico/state.json"]).stdout)["state"]["ipam"]
    assert [entry["cidr"] for entry in state["blocks"]] == [*before, opened]
    [spare] = [entry["cidr"] for entry in state["spare_blocks"]]
    assert spare not in (*before, opened)
    fleet.site().unchanged(*NODES)
    calicoctl.must_each(lab, "node4", [["workload", "delete", name] for name in names])
    lab.exec("node4", f"set -e; for n in {' '.join(names)}; do ip netns del $n; done")
    ipam_is_clean(lab)


def blocks(lab: BaseLab, node: str) -> list[str]:
    """Return the blocks that a node holds, which are its blackhole routes, sorted by address.

    Raise CommandFailed if the node does not run.
    """
    routes = lab.json(node, ["ip", "-j", "route", "show", "type", "blackhole"])
    return sorted((route["dst"] for route in routes), key=ipaddress.ip_network)


def test_a_rebooted_node_gives_no_address_twice(lab: BaseLab, fleet: Fleet, boxes: dict[str, Container]) -> None:
    """A container that podman starts again after a reboot has its address of before.

    A container that was started first after the reboot does not get that address.
    """
    before = boxes["node3"]
    lab.reboot("node3")
    wait("node3 is in sync", lambda: in_sync(lab, "node3"))
    other = containers.run(lab, "node3", "stranger")
    lab.exec("node3", ["podman", "start", before.name])
    after = containers.inspect(lab, "node3", before.name)
    assert after.address == before.address != other.address
    boxes["node3"] = after
    for box in boxes.values():
        if box is not after:
            wait(
                f"{box.name} reaches {after.name}",
                functools.partial(lambda box: containers.ping(lab, box, after.address), box),
            )
            assert containers.ping(lab, box, other.address)
    containers.remove(lab, other)
    ipam_is_clean(lab)


class Visitors:
    """Workloads that come and go on a node, one after the other, from the constructor until `stop` or an error.

    ADD and DEL are retried for two minutes each, as a container runtime does: a busy machine may not start an agent
    between two kills. `rounds` counts workloads that came and went. `failures` has the error that ended it, if any.
    `stop` asserts that the last one goes within 120 seconds.
    """

    def __init__(self, lab: BaseLab, node: str) -> None:
        self.lab, self.node = lab, node
        self.rounds = 0
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            name = f"visitor-{self.rounds}"
            box = containers.Container(self.node, name, "", name)
            try:
                self._until("add", f"ip netns add {name}; calicoctl workload add {name} --netns {name}")
                self._until("delete", f"calicoctl workload delete {name}")
                self.lab.exec(self.node, ["ip", "netns", "del", name])
            except Exception as error:  # noqa: BLE001  the test asserts at its end that there is none
                self.failures.append(f"{box}: {error}")
                return
            self.rounds += 1

    def _until(self, what: str, command: str) -> None:
        deadline = time.monotonic() + 120
        while True:
            done = self.lab.exec(self.node, command, check=False)
            if done.returncode == 0:
                return
            assert time.monotonic() < deadline, f"{what}: {done.stdout}{done.stderr}"
            time.sleep(0.1)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), f"{self.node}: a visitor has not gone within 120 s"


def test_killed_agents_lose_nothing(
    lab: BaseLab, fleet: Fleet, boxes: dict[str, Container], record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(179)
    before, kills = sessions_since(lab), 0
    with Streams(lab, mesh(boxes)) as streams:
        visitors = [Visitors(lab, node) for node in NODES]
        end = time.monotonic() + CHAOS_SECONDS
        while time.monotonic() < end:
            node = chance.choice(NODES)
            # Between its end and its restart an agent cannot be killed.
            kills += lab.exec(node, "systemctl kill -s KILL calico-agent", check=False).returncode == 0
            time.sleep(chance.uniform(0.2, 2.0))
        for visitor in visitors:
            visitor.stop()
        for node in NODES:
            wait(f"{node} is in sync", functools.partial(lambda node: in_sync(lab, node), node))
        report = streams.stop()
    rounds = {visitor.node: visitor.rounds for visitor in visitors}
    record_property("chaos", f"{kills} kills, workloads come and gone {rounds}\n{report.summary()}")
    assert [failure for visitor in visitors for failure in visitor.failures] == []
    assert kills and all(rounds.values()), (kills, rounds)
    assert report.lost_by_us == 0 and not report.silent_hosts, report.summary()
    no_session_was_reset(lab, before)
    for node in NODES:
        left = [name for name in containers.workload_addresses(lab, node) if name.startswith("visitor-")]
        assert left == [], (node, left)
    ipam_is_clean(lab)
    run = fleet.site().check()
    assert all(entry["failed"] == 0 for entry in run.recap().values())


def test_containers_leave_nothing(lab: BaseLab, boxes: dict[str, Container]) -> None:
    for box in boxes.values():
        containers.remove(lab, box)
    for node in NODES:
        wait(
            f"{node} has the inventory's workload and the probe endpoint alone",
            functools.partial(
                lambda node, expected: (
                    {name for link in lab.json(node, ["ip", "-j", "link"]) if (name := link["ifname"])[:4] == "cali"}
                    == expected
                ),
                node,
                {PROBE_INTERFACE, *(one.interface for one in workloads(lab) if one.node == node)},
            ),
        )
    ipam_is_clean(lab)


def test_teardown_takes_all_of_it_away(lab: BaseLab, fleet: Fleet) -> None:
    """teardown.yml changes no device with --check, then removes what the collection made, and a third run nothing."""
    before = {node: lab.exec(node, ["ip", "-o", "link"]).stdout for node in NODES}
    planned = fleet.play("teardown.yml", "-e", "confirm=true", "--check", "--diff").check()
    assert all(entry["changed"] for entry in planned.recap().values()), planned.output
    assert {node: lab.exec(node, ["ip", "-o", "link"]).stdout for node in NODES} == before
    fleet.play("teardown.yml", "-e", "confirm=true").check()
    for node in NODES:
        links = {link["ifname"] for link in lab.json(node, ["ip", "-j", "link"])}
        assert not {name for name in links if name.startswith(("cali", "vxlan.calico"))}, (node, links)
        assert lab.json(node, ["ip", "-j", "route", "show", "proto", "179", "table", "all"]) == []
        assert "cali" not in lab.exec(node, ["iptables-save"]).stdout
        assert "cali" not in lab.exec(node, ["ip6tables-save"]).stdout
        assert "cali" not in lab.exec(node, ["ipset", "list", "-n"]).stdout
        assert "calico" not in lab.exec(node, ["ip", "netns", "list"]).stdout
        assert "179" not in lab.exec(node, "ip rule; ip -6 rule").stdout
        for unit in ("calico-agent", "calico-bird"):
            assert lab.exec(node, ["systemctl", "is-active", unit], check=False).stdout.strip() == "inactive"
    fleet.play("teardown.yml", "-e", "confirm=true").unchanged(*NODES)
