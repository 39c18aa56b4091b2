# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three shipped inventories, one after the other, each by one run of site.yml under traffic without a lost packet.

They are a mesh (inventories/lab), two reflectors (two-racks-reflectors) and an AS per rack behind FRR switches
(as-per-rack-tor). Sessions, AS numbers, next hops and tunnels differ.

The first step has no tunnel before and after. There the subnets' router stays a peer, with the AS number under which it
knows the nodes: it forwards what direct routes carry until the switches do. Its sessions end with the change to
reflectors.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import topology
from tests.lab.fleet import POOL, mesh_of_streams, no_way_around, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Streams
from tests.lab.shell import wait_until

from .conftest import LAB, LEAST_PPS, PPS, ROOT, Fleet, Run, new_lab
from .test_path_faults import Loss, losses, said_soon

NAME = f"{LAB}-switches"
FLEET_AS = 64512
ROUTERS = [
    {
        "name": f"router-rack{rack}",
        "peerIP": f"10.10.{rack}.1",
        "asNumber": topology.ROUTER_AS,
        "nodeSelector": f"rack in {{'{letter}', 'rack{rack}'}}",
        "localASNumber": FLEET_AS,
    }
    for rack, letter in ((1, "a"), (2, "b"))
]
MESH, REFLECTORS, SWITCHES = "inventories/lab", "inventories/two-racks-reflectors", "inventories/as-per-rack-tor"
NODES = ("node1", "node2", "node3", "node4")
# As `patient_bfd`, for the sessions with reflectors.
PATIENT_BFD = {"minRx": 1000, "minTx": 1000, "multiplier": 5}
EXTERNAL = "-ecalico_node_max_external_resets=-1"
CONNECTION = f"-e@{ROOT}/inventories/lab/group_vars/all/connection.yml"


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(NAME, switches=True) as lab:
        for tor in topology.TORS:
            patient_bfd(lab, tor)
        yield lab


@pytest.fixture(scope="module")
def run(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(lab, tmp_path_factory.mktemp("switches"))


def patient_bfd(lab: BaseLab, tor: str) -> None:
    """Make a switch send BFD packets each second, and end sessions after 5 s without; raise CommandFailed if it cannot.

    The inventories have 0.5 s. A busy machine can let all daemons stand still for longer, so that both switches of a
    rack end their sessions and about 3 s of the traffic between racks are lost, whatever the nodes do.
    """
    lines = ("configure terminal", "bfd", "profile fast", "transmit-interval 1000", "receive-interval 1000")
    lab.exec(tor, ["vtysh", *(word for line in lines for word in ("-c", line))])


class Site:
    """Runs of site.yml that share a lockfile, whatever their inventory."""

    def __init__(self, lab: BaseLab, folder: Path) -> None:
        self.lab, self.folder, self.fleet = lab, folder, Fleet(lab)

    def __call__(self, inventory: str, *arguments: str, encapsulation: str = "", **variables: object) -> Run:
        return self.play("site.yml", inventory, *arguments, encapsulation=encapsulation, **variables)

    def play(self, playbook: str, inventory: str, *arguments: str, encapsulation: str = "", **variables: object) -> Run:
        """Run a playbook with the shared lockfile and these variables of all hosts."""
        self.fleet.environment["HOST_ROUTING_LAB_ENCAPSULATION"] = encapsulation
        lockfile = str(self.lab.places.state / "calico.lock.yml")
        if inventory == REFLECTORS:
            variables["calico_bgp_bfd"] = PATIENT_BFD
        more = self.folder / "more.yml"
        more.write_text(json.dumps({"calico_lockfile": lockfile, "calico_node_soak_seconds": 3, **variables}))
        # The lab's own inventory already has the connection's variables.
        connection = [] if inventory == MESH else [CONNECTION]
        return self.fleet.play(playbook, *connection, f"-e@{more}", *arguments, inventory=inventory)


@contextlib.contextmanager
def nothing_lost(lab: BaseLab) -> Iterator[None]:
    """Assert that streams between all nodes reach LEAST_PPS and lose nothing by us while the body of the context runs.

    They begin when all sessions of all nodes are Established. Raise LabError if that takes over 60 seconds, a node's
    BIRD does not answer or the streams cannot start. The unreachable route of `no_way_around` stays on all nodes.
    """
    wait_until("all sessions are Established", lambda: all(established(lab, name) for name in NODES), 60, 1)
    no_way_around(lab)
    with Streams(lab, mesh_of_streams(lab, workloads(lab), PPS)) as streams:
        yield
        report = streams.stop()
    print(report.summary())
    if report.lost:
        print(*(f"{tor}:\n{lab.exec(tor, ['cat', '/run/frr/frr.log'], check=False).stdout}" for tor in topology.TORS))
    assert report.sent > 0 and not report.silent_hosts
    assert min(result.rate for result in report.streams) >= LEAST_PPS, report.summary()
    assert report.lost_by_us == 0 and report.resets == 0 and report.bytes_missing == 0, report.summary()


def bgp_lines(lab: BaseLab, node: str) -> list[str]:
    """Return the lines of a node's BGP sessions as birdc prints them; raise CommandFailed if BIRD does not answer."""
    lines = lab.exec(node, ["birdc", "-s", "/run/calico/bird.ctl", "show", "protocols"]).stdout.splitlines()
    return [line for line in lines if " BGP " in line]


def established(lab: BaseLab, node: str) -> bool:
    """Return whether all BGP sessions of a node are Established; raise CommandFailed if BIRD does not answer."""
    return all("Established" in line for line in bgp_lines(lab, node))


def sessions(lab: BaseLab, node: str) -> list[str]:
    """Return the names of a node's BGP sessions; assert that all are Established.

    Raise CommandFailed if its BIRD does not answer.
    """
    found = bgp_lines(lab, node)
    assert all("Established" in line for line in found), found
    return [line.split()[0] for line in found]


def by_bird(lab: BaseLab, node: str) -> list[str]:
    answer: list[str] = lab.exec(node, ["ip", "route", "show", "proto", "bird"]).stdout.splitlines()
    return answer


def wait_for_switches(lab: BaseLab, name: str) -> None:
    """Wait until both switches of its rack are next hops of a node to both blocks of the other rack.

    Raise LabError after 60 seconds.
    """
    tors = sorted(tor.address for tor in topology.TORS.values() if tor.rack == topology.NODES[name].rack)

    def has_both() -> bool:
        routes = lab.json(name, ["ip", "-j", "route", "show", "proto", "bird"])
        several = [sorted(hop["gateway"] for hop in route["nexthops"]) for route in routes if "nexthops" in route]
        return several == [tors, tors]

    wait_until(f"{name} has both switches as next hops", has_both, 60, 1)


def at_rest(lab: BaseLab) -> None:
    for node in NODES:
        assert "calico_backup" not in lab.exec(node, ["cat", "/etc/calico/bird.cfg"]).stdout


def without_tunnel(lab: BaseLab, name: str) -> None:
    """Wait until a host's vxlan.calico is gone; assert that this takes at most 120 s.

    Streams that begin on a host have the tunnel's address, which stays until their sockets close. The agent checks
    again about every 90 s.
    """
    there = ["ip", "link", "show", "vxlan.calico"]
    deadline = time.monotonic() + 120
    while "does not exist" not in (done := lab.exec(name, there, check=False)).stderr:
        assert time.monotonic() < deadline, f"{name} has vxlan.calico still: {done}"
        time.sleep(1)


def test_from_a_mesh_to_an_as_per_rack_by_one_run(lab: BaseLab, run: Site) -> None:
    """One run changes a mesh to an AS per rack without a lost packet, with no tunnel before and after."""
    run(MESH, encapsulation="None", calico_bgp_peers=ROUTERS).check()
    with nothing_lost(lab):
        run(SWITCHES, calico_bgp_peers=ROUTERS).check()
    for name in NODES:
        # Four sessions: with the other node of the rack, with its two switches, and with the router.
        assert len(sessions(lab, name)) == 4
        wait_for_switches(lab, name)


def test_a_filter_on_switches_is_seen(lab: BaseLab, run: Site) -> None:
    """If rack 1's switches no longer pass on node3's block, status.yml names the paths, and says no more of it later.

    The router also loses that block: it would forward instead of the switches.
    """
    (block,) = [route["dst"] for route in lab.json("node3", ["ip", "-j", "route", "show", "type", "blackhole"])]
    line = f"ip prefix-list BLOCKS seq 4 deny {block}"
    switches = [tor.name for tor in topology.TORS.values() if tor.rack == 1]

    def status() -> str:
        output: str = run.play("status.yml", SWITCHES, calico_bgp_peers=ROUTERS).check().output
        return output

    def until(expected: set[Loss]) -> None:
        said_soon(status, lambda output: losses(output) == expected, time.monotonic())

    until(set())
    try:
        lab.exec("router", f"ip rule add pref 90 to {block} unreachable")
        for tor in switches:
            lab.exec(tor, ["vtysh", "-c", "configure terminal", "-c", line])
        # The hosts of rack 1 have no route left: they say so themselves, and accept no packet from there (rp_filter).
        rack = {name: topology.NODES[name].address for name in ("node1", "node2")}
        there = {Loss(POOL, name, "node3", "unreachable", address, "there") for name, address in rack.items()}
        until({*there, *(Loss(POOL, "node3", name, "no answer", "", "there") for name in rack)})
    finally:
        lab.exec("router", f"ip rule del pref 90 to {block} unreachable", check=False)
        for tor in switches:
            lab.exec(tor, ["vtysh", "-c", "configure terminal", "-c", f"no {line}"], check=False)
    until(set())
    for name in ("node1", "node2"):
        wait_for_switches(lab, name)


def test_from_switches_to_a_mesh_with_a_tunnel(lab: BaseLab, run: Site) -> None:
    """A change from switches to a mesh ends sessions with routers, so it needs an approval; no packet is lost.

    Before the sessions end, all traffic goes into tunnels.
    """
    refused = run(MESH, encapsulation="VXLANCrossSubnet")
    assert refused.code != 0
    found = re.search(r"run it with -e approve=([0-9a-f]{12})", refused.output)
    assert found, refused.output[-3000:]
    assert "with routers outside the fleet and calico_node_max_external_resets is 0" in refused.output
    with nothing_lost(lab):
        done = run(MESH, f"-eapprove={found.group(1)}", encapsulation="VXLANCrossSubnet").check()
    assert "divert    4/4  all traffic goes into tunnels, sessions as they were" in done.output
    at_rest(lab)
    for name in NODES:
        assert len([session for session in sessions(lab, name) if session.startswith("Mesh_")]) == 3
        assert sum("dev vxlan.calico" in route for route in by_bird(lab, name)) == 2


def test_from_the_mesh_to_two_reflectors(lab: BaseLab, run: Site) -> None:
    """One run changes the mesh to two reflectors on new hosts without a lost packet.

    The sessions with the subnets' router end, and no backup route is left.
    """
    with nothing_lost(lab):
        lab.up(["node5", "node6"])
        run(REFLECTORS, EXTERNAL).check()
    at_rest(lab)
    for name in NODES:
        assert len(sessions(lab, name)) == 2


@pytest.mark.soak  # test_from_a_mesh_to_an_as_per_rack_by_one_run has the same from a mesh
def test_from_reflectors_to_an_as_per_rack(lab: BaseLab, run: Site) -> None:
    """One run changes two reflectors to an AS per rack without a lost packet.

    Backup routes stay in the tunnel until the switches have advertised their routes.
    """
    with nothing_lost(lab):
        run(SWITCHES, EXTERNAL).check()
    at_rest(lab)
    for name in NODES:
        assert len(sessions(lab, name)) == 3
        wait_for_switches(lab, name)
        without_tunnel(lab, name)


@pytest.mark.soak  # test_topology.py has the same with sessions between nodes
def test_switches_that_take_no_session_are_returned_from(lab: BaseLab, run: Site) -> None:
    """When one switch of each rack takes no session, the change from a mesh to sessions with switches is undone.

    All nodes have their mesh again, and no packet is lost.
    """
    with nothing_lost(lab):
        run(MESH, EXTERNAL, encapsulation="VXLANCrossSubnet").check()
    for tor in ("tor1b", "tor2b"):
        lab.power_cut(tor)
    with nothing_lost(lab):
        done = run(SWITCHES, EXTERNAL, "-ecalico_node_convergence_timeout=8")
    assert done.code != 0
    assert "The change of sessions did not go through." in done.output
    assert "4 of 4 nodes run as before." in done.output
    at_rest(lab)
    for name in NODES:
        assert len([session for session in sessions(lab, name) if session.startswith("Mesh_")]) == 3
        assert sum("dev vxlan.calico" in route for route in by_bird(lab, name)) == 2
