# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""inventories/as-per-rack-tor: an AS per rack, eBGP with two FRR switches in each, MD5, BFD, and no tunnel."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest

from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Fleet, Pool
from tests.lab.measure.streams import Stream, Streams
from tests.lab.suite_converged import *  # noqa: F403
from tests.lab.suite_converged import NAMES, every_node
from tests.lab.topology import NODES, TORS

POOLS = (Pool("default-ipv4-ippool", "10.244.0.0/16", "direct", nat_outgoing=True),)
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


@every_switch
def test_a_switch_knows_every_block_by_the_as_of_its_rack(fleet: Fleet, lab: BaseLab, name: str) -> None:
    tor = TORS[name]
    routes = vtysh(lab, name, "show bgp ipv4 unicast")["routes"]
    near, far = 64600 + tor.rack, 3 - tor.rack
    expected = {
        block: str(near) if NODES[node.name].rack == tor.rack else f"{65100 + far} {64600 + far}"
        for node in fleet.nodes.values()
        for block in node.blocks
    }
    assert {block: paths[0]["path"] for block, paths in routes.items()} == expected


@every_switch
def test_blocks_bear_the_fleets_community(fleet: Fleet, lab: BaseLab, name: str) -> None:
    bearing = vtysh(lab, name, "show bgp ipv4 unicast community 64600:100")["routes"]
    assert set(bearing) == {block for node in fleet.nodes.values() for block in node.blocks}


@every_switch
def test_bfd_stands_with_every_host_of_the_rack_and_every_other_switch(lab: BaseLab, name: str) -> None:
    tor = TORS[name]
    hosts = {NODES[node].address for node in NAMES if NODES[node].rack == tor.rack}
    others = {other.spine_address for other in TORS.values() if other.rack != tor.rack}
    peers = {peer["peer"]: peer["status"] for peer in vtysh(lab, name, "show bfd peers")}
    assert peers == dict.fromkeys(hosts | others, "up")


@every_node
def test_the_password_stands_in_no_file_but_its_own(lab: BaseLab, name: str) -> None:
    secret = f"change-me-rack-{'ab'[NODES[name].rack - 1]}"
    found = lab.exec(name, ["grep", "-rl", secret, "/etc/calico", "/var/lib/calico"], check=False).stdout.split()
    assert found == ["/etc/calico/bird.secrets.conf"]
    said = lab.exec(name, ["stat", "-c", "%a %U %G", *found]).stdout
    assert said == "640 root bird\n"


@pytest.mark.parametrize("name", ["tor1a", "tor2b"])
def test_the_other_switch_takes_over_before_the_hold_time(
    fleet: Fleet, lab: BaseLab, name: str, record_property: Callable[[str, object], None]
) -> None:
    """When the power of a switch is cut, its rack's other switch forwards its streams before BGP's hold time is over.

    A hash over addresses decides which of a rack's switches forwards what comes from the other rack. So a switch may
    forward none of the streams, and its end then loses no packet. Afterwards no host of the rack has a route by way of
    it, and its return loses no packet. This test is the last one, since it takes a switch down.
    """
    names = {node.name: node.workloads[0] for node in fleet.nodes.values()}
    pairs = [(a, b) for a in NAMES for b in NAMES if NODES[a].rack != NODES[b].rack]
    entries = [Stream(a, names[a]["netns"], b, names[b]["netns"], names[b]["address"], pps=500) for a, b in pairs]
    with Streams(lab, entries) as streams:
        before = forwarded_packets(lab, name)
        time.sleep(1)
        carried = forwarded_packets(lab, name) - before
        lab.power_cut(name)
        time.sleep(3)
        died = streams.stop()
    assert len(died.streams) == len(pairs) and not died.silent_hosts
    gaps = [result.longest_gap_ms for result in died.streams]
    record_property("gaps", f"{name} forwarded {carried} packets in a second: {gaps} ms\n{died.summary()}")
    # BGP's hold time ends 6 to 9 s after the last keepalive; no stream waited for that.
    assert max(gaps) < 5500, died.summary()
    if carried >= 100:
        assert max(gaps) > 100, died.summary()
    else:
        assert died.lost == 0, died.summary()
    dead = TORS[name].address
    for node in (node for node in NAMES if NODES[node].rack == TORS[name].rack):
        routes = lab.exec(node, ["ip", "route", "show", "proto", "bird"]).stdout
        assert dead not in re.findall(r"via (\S+)", routes), routes

    with Streams(lab, entries) as streams:
        lab.start(name)
        wait_established(lab, TORS[name].rack, dead)
        time.sleep(2)
        back = streams.stop()
    assert back.lost == 0, back.summary()


def forwarded_packets(lab: BaseLab, name: str) -> int:
    """Return the number of IPv4 packets that the host or switch `name` has forwarded since it started.

    Raise CommandFailed if it does not run.
    """
    names, values = lab.exec(name, ["grep", "^Ip:", "/proc/net/snmp"]).stdout.splitlines()
    return int(dict(zip(names.split(), values.split()))["ForwDatagrams"])


def wait_established(lab: BaseLab, rack: int, address: str) -> None:
    protocol = f'"*_{address.replace(".", "_")}"'
    deadline = time.monotonic() + 60
    for node in (node for node in NAMES if NODES[node].rack == rack):
        while "Established" not in lab.exec(node, f"birdc -s /run/calico/bird.ctl show protocols '{protocol}'").stdout:
            assert time.monotonic() < deadline, f"the session of {node} with {address} does not come back"
            time.sleep(0.5)
