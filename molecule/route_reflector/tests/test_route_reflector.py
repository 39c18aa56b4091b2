# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Four nodes that peer with two pure reflectors, one in each subnet, and with nobody else."""

from __future__ import annotations

import time

import pytest

from tests.lab import checks
from tests.lab.checks import Fleet, Pool
from tests.lab.observed import Pong, Runner, observe, send

POOLS = (Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan-crosssubnet", nat_outgoing=True),)
NAMES = ("node1", "node2", "node3", "node4")
REFLECTORS = ("node5", "node6")

every_node = pytest.mark.parametrize("name", NAMES)
every_reflector = pytest.mark.parametrize("name", REFLECTORS)


def test_each_block_has_one_owner(fleet: Fleet) -> None:
    checks.check_blocks(fleet)


@every_node
def test_routes_are_those_of_the_calico_documents(fleet: Fleet, name: str) -> None:
    checks.check_routes(fleet, fleet.nodes[name])


@every_node
def test_devices(fleet: Fleet, name: str) -> None:
    checks.check_devices(fleet, fleet.nodes[name])
    checks.check_vteps(fleet, fleet.nodes[name])


@every_node
def test_the_host(fleet: Fleet, name: str) -> None:
    checks.check_workloads(fleet, fleet.nodes[name])
    checks.check_sysctls(fleet, fleet.nodes[name])
    checks.check_iptables(fleet, fleet.nodes[name])
    checks.check_units(fleet, fleet.nodes[name])


@every_node
def test_nodes_peer_with_both_reflectors_and_nobody_else(fleet: Fleet, name: str) -> None:
    node = fleet.nodes[name]
    assert set(node.sessions) == {"10.10.1.13", "10.10.2.13"}
    checks.check_sessions(fleet, node)


@every_reflector
def test_reflectors_peer_with_all_nodes_and_each_other(fleet: Fleet, name: str) -> None:
    reflector = fleet.reflectors[name]
    assert len(reflector.sessions) == len(NAMES) + 1
    checks.check_sessions(fleet, reflector)


def test_one_side_of_each_pair_is_passive(fleet: Fleet) -> None:
    checks.check_passive_sides(fleet)


@every_node
def test_nodes_learn_each_block_from_both_reflectors(fleet: Fleet, name: str) -> None:
    node = fleet.nodes[name]
    checks.check_learned(fleet, node)
    assert {block: len(protocols) for block, protocols in node.learned.items()} == dict.fromkeys(node.learned, 2)


@every_reflector
def test_reflectors_know_all_blocks(fleet: Fleet, name: str) -> None:
    checks.check_learned(fleet, fleet.reflectors[name])


@every_reflector
def test_reflectors_share_the_cluster_id(fleet: Fleet, name: str) -> None:
    config = fleet.reflectors[name].raw["bird_config"]
    assert config.count("rr client;") == len(NAMES)
    assert config.count("rr cluster id 244.0.0.1;") == len(NAMES)


@every_reflector
def test_pure_reflectors_have_no_part_in_forwarding(fleet: Fleet, name: str) -> None:
    reflector = fleet.reflectors[name]
    assert checks.pool_routes(fleet, reflector) == set()
    assert not [route for route in reflector.raw["tables"] if route.get("protocol") in ("bird", "calico")]
    assert "vxlan.calico" not in reflector.links
    assert not reflector.addresses.get("tunl0")
    assert not [link for link in reflector.links if link.startswith("cali")]
    assert not reflector.raw["namespaces"]
    assert not [chain for chain in reflector.chains if chain[1].startswith("cali-")]
    assert not reflector.ipsets
    checks.check_units(fleet, reflector)


def test_everybody_reaches_everybody_at_full_size(fleet: Fleet, pongs: list[Pong]) -> None:
    assert len(pongs) == 4 * 3 + 4 * 4
    checks.check_pings(fleet, pongs)
    checks.check_ttls(fleet, pongs)


def test_outgoing_packets_are_masqueraded(fleet: Fleet, outside_pongs: list[Pong]) -> None:
    checks.check_pings(fleet, outside_pongs)


def test_one_reflector_is_enough(fleet: Fleet, run: Runner) -> None:
    """Last, since it takes sessions down: node5 says goodbye to everybody, and nothing changes on the nodes."""
    birdc = ("birdc", "-s", "/run/calico/bird.ctl")
    run("node5", [*birdc, "disable", '"Node_*"'])
    try:
        nodes = observe(run, NAMES)
        without = Fleet(fleet.pools, nodes, fleet.reflectors)
        for node in nodes.values():
            assert {address: session.state == "Established" for address, session in node.sessions.items()} == {
                "10.10.1.13": False,
                "10.10.2.13": True,
            }
            checks.check_routes(without, node)
        checks.check_pings(without, send(run, checks.pings(without)))
    finally:
        run("node5", [*birdc, "enable", '"Node_*"'])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        nodes = observe(run, NAMES)
        if all(session.state == "Established" for node in nodes.values() for session in node.sessions.values()):
            return
        time.sleep(1)
    raise AssertionError("the sessions with node5 do not come back")
