# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rack of inventories/as-per-rack-tor has an AS and two FRR switches, with which its nodes speak eBGP.

Here the nodes have IPv6 as well. Sessions have passwords and BFD, and no pool has a tunnel.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Fleet, Pool
from tests.lab.measure.observed import Observed
from tests.lab.measure.streams import Stream, Streams
from tests.lab.shell import wait_until
from tests.lab.suite_converged import *  # noqa: F403
from tests.lab.suite_converged import NAMES, every_node
from tests.lab.topology import NODES, TORS

POOLS = (
    Pool("default-ipv4-ippool", "10.244.0.0/16", "direct", nat_outgoing=True),
    Pool("default-ipv6-ippool", "fd00:10:244::/64", "direct", 122),
)
WORKLOADS = {
    "web-1": ("node1", "default-ipv4-ippool"),
    "web-2": ("node2", "default-ipv4-ippool"),
    "db-1": ("node3", "default-ipv4-ippool"),
    "db-2": ("node4", "default-ipv4-ippool"),
}
BY_SWITCHES = True

every_switch = pytest.mark.parametrize("name", TORS)


def vtysh(lab: BaseLab, tor: str, command: str) -> dict:
    return json.loads(lab.exec(tor, ["vtysh", "-c", f"{command} json"]).stdout)


def blocks(fleet: Fleet, family: int) -> dict[str, Observed]:
    """Return the nodes with blocks of an IP version, by block."""
    return {block: node for node in fleet.nodes.values() for block in node.blocks if (":" in block) == (family == 6)}


@pytest.mark.parametrize("family", [4, 6])
@every_switch
def test_a_switch_knows_every_block_by_the_as_of_its_rack(fleet: Fleet, lab: BaseLab, name: str, family: int) -> None:
    tor = TORS[name]
    routes = vtysh(lab, name, f"show bgp ipv{family} unicast")["routes"]
    near, far = 64600 + tor.rack, 3 - tor.rack
    expected = {
        block: str(near) if node.node.rack == tor.rack else f"{65100 + far} {64600 + far}"
        for block, node in blocks(fleet, family).items()
    }
    assert {block: paths[0]["path"] for block, paths in routes.items()} == expected


@every_switch
def test_blocks_bear_the_fleets_community(fleet: Fleet, lab: BaseLab, name: str) -> None:
    bearing = vtysh(lab, name, "show bgp ipv4 unicast community 64600:100")["routes"]
    assert set(bearing) == set(blocks(fleet, 4))


@every_switch
def test_bfd_stands_with_every_host_of_the_rack_and_every_other_switch(lab: BaseLab, name: str) -> None:
    tor = TORS[name]
    hosts = [NODES[node] for node in NAMES if NODES[node].rack == tor.rack]
    others = [other for other in TORS.values() if other.rack != tor.rack]
    expected = {address for node in hosts for address in (node.address, node.address6)}
    expected |= {address for other in others for address in (other.spine_address, other.spine_address6)}
    peers = {peer["peer"]: peer["status"] for peer in vtysh(lab, name, "show bfd peers")}
    assert peers == dict.fromkeys(expected, "up")


@every_node
def test_the_password_stands_in_no_file_but_its_own(lab: BaseLab, name: str) -> None:
    secret = f"change-me-rack-{'ab'[NODES[name].rack - 1]}"
    found = lab.exec(name, ["grep", "-rl", secret, "/etc/calico", "/var/lib/calico"], check=False).stdout.split()
    assert found == ["/etc/calico/bird.secrets.conf"]
    said = lab.exec(name, ["stat", "-c", "%a %U %G", *found]).stdout
    assert said == "640 root bird\n"


@pytest.fixture(scope="module")
def hash_of_ports(lab: BaseLab) -> Iterator[None]:
    """Let nodes and switches choose among equal paths by ports, too: streams with many ports then use all paths."""
    settings = [f"net.ipv{version}.fib_multipath_hash_policy" for version in (4, 6)]

    def write(value: int) -> None:
        for name in (*NAMES, *TORS):
            lab.exec(name, ["sysctl", "-q", "-w", *(f"{setting}={value}" for setting in settings)])

    write(1)
    yield
    write(0)


#: Ports of the streams between two nodes. Each stream's path is chosen by a hash: that 64 streams of one IP version
#: leave out a switch has a probability of 2 to the power of -63.
PORTS = range(7400, 7408)


def streams_between_racks(fleet: Fleet) -> list[Stream]:
    """Return streams of both IP versions between the first workloads of all pairs of nodes in two racks, on PORTS."""
    first = {node.name: node.workloads[0] for node in fleet.nodes.values()}
    return [
        Stream(a, first[a]["netns"], b, first[b]["netns"], first[b][key], size=64, pps=50, port=port)
        for a in NAMES
        for b in NAMES
        if NODES[a].rack != NODES[b].rack
        for key in ("address", "address6")
        for port in PORTS
    ]


def carried(lab: BaseLab) -> dict[str, tuple[int, int]]:
    """Return the number of IPv4 and of IPv6 packets that each switch has forwarded since it started.

    Raise CommandFailed if one does not run.
    """
    found = {}
    for tor in TORS:
        names, values = lab.exec(tor, ["grep", "^Ip:", "/proc/net/snmp"]).stdout.splitlines()
        six = lab.exec(tor, ["grep", "^Ip6OutForwDatagrams", "/proc/net/snmp6"]).stdout.split()[1]
        found[tor] = int(dict(zip(names.split(), values.split()))["ForwDatagrams"]), int(six)
    return found


def next_hops(fleet: Fleet, lab: BaseLab, name: str, family: int) -> list[list[str]]:
    """Return the next hops of each route of a node's BIRD to a block of the other rack.

    Those of IPv6 are link-local addresses. Raise CommandFailed if the node is off.
    """
    far = {block for block, node in blocks(fleet, family).items() if node.node.rack != NODES[name].rack}
    routes = lab.json(name, ["ip", f"-{family}", "-j", "route", "show", "proto", "bird"])
    hops = [route.get("nexthops", [route]) for route in routes if route["dst"] in far]
    return [[hop["gateway"] for hop in found] for found in hops]


def carrying(lab: BaseLab) -> Callable[[], bool]:
    """Return a function that tells whether each switch has forwarded 20 more packets of each IP version since now."""
    before = carried(lab)

    def enough() -> bool:
        now = carried(lab)
        return all(now[tor][at] >= before[tor][at] + 20 for tor in TORS for at in (0, 1))

    return enough


def wait_for_hops(fleet: Fleet, lab: BaseLab, names: Iterable[str], count: int) -> None:
    """Wait until these nodes have `count` next hops to each block of the other rack; raise LabError after 60 s."""
    wait_until(
        f"{count} next hops to the other rack",
        lambda: all(
            [len(hops) for hops in next_hops(fleet, lab, name, family)] == [count, count]
            for name in names
            for family in (4, 6)
        ),
        60,
        1,
    )


@pytest.mark.parametrize("name", ["tor1a", "tor2b"])
def test_both_switches_carry_traffic_and_one_takes_over(
    fleet: Fleet,
    lab: BaseLab,
    hash_of_ports: None,
    name: str,
    record_property: Callable[[str, object], None],
) -> None:
    """Both switches of each rack forward streams of both IP versions; when one dies, the other one forwards all.

    It does so before BGP's hold time is over, because BFD ends the sessions. The hosts of the rack then have one next
    hop instead of two, and the switch's return loses no packet. This test is the last one, since it takes a switch
    down.
    """
    entries = streams_between_racks(fleet)
    wait_for_hops(fleet, lab, NAMES, 2)
    with Streams(lab, entries) as streams:
        wait_until("both switches of each rack carry both IP versions", carrying(lab), 60, 1)
        lab.power_cut(name)
        time.sleep(3)
        died = streams.stop()
    assert len(died.streams) == len(entries) and not died.silent_hosts
    gaps = sorted(round(result.longest_gap_ms) for result in died.streams)
    record_property("gaps", f"{gaps} ms\n{died.summary()}")
    # BGP's hold time ends 6 to 9 s after the last keepalive; no stream waited for that.
    assert 100 < max(gaps) < 5500, died.summary()
    wait_for_hops(fleet, lab, [node for node in NAMES if NODES[node].rack == TORS[name].rack], 1)

    with Streams(lab, entries) as streams:
        lab.start(name)
        wait_for_hops(fleet, lab, NAMES, 2)
        back = streams.stop()
    assert back.lost == 0, back.summary()
