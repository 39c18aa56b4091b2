# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mesh of four nodes in two subnets that peer with their router too; one pool over VXLAN, one routed directly."""

from __future__ import annotations

import re

import pytest

from tests.lab import checks
from tests.lab.checks import Fleet, Pool
from tests.lab.handle import BaseLab
from tests.lab.observed import Pong
from tests.lab.topology import NODES

POOLS = (
    Pool("overlay", "10.244.0.0/17", "vxlan", nat_outgoing=True),
    Pool("plain", "10.244.128.0/17", "direct", block_size=28),
)
NAMES = ("node1", "node2", "node3", "node4")
EXTERNAL = {name: [NODES[name].gateway] for name in NAMES}
WORKLOADS = {"web-1": "node1", "web-2": "node2", "web-3": "node3", "db-1": "node1", "db-2": "node2", "db-4": "node4"}

every_node = pytest.mark.parametrize("name", NAMES)


def test_the_declared_workloads_stand(fleet: Fleet) -> None:
    assert {w["name"]: node.name for node in fleet.nodes.values() for w in node.workloads} == WORKLOADS
    assert {w["name"]: w["pool"] for node in fleet.nodes.values() for w in node.workloads} == {
        name: "overlay" if name.startswith("web") else "plain" for name in WORKLOADS
    }


def test_each_block_has_one_owner(fleet: Fleet) -> None:
    checks.check_blocks(fleet)


@every_node
def test_routes_are_those_of_the_calico_documents(fleet: Fleet, name: str) -> None:
    checks.check_routes(fleet, fleet.nodes[name])


@every_node
def test_vxlan_device_stands_and_tunl0_does_not(fleet: Fleet, name: str) -> None:
    checks.check_devices(fleet, fleet.nodes[name])


@every_node
def test_every_other_node_has_a_neighbour_and_a_forwarding_entry(fleet: Fleet, name: str) -> None:
    checks.check_vteps(fleet, fleet.nodes[name])


@every_node
def test_workloads_are_joined_by_veth_pairs(fleet: Fleet, name: str) -> None:
    checks.check_workloads(fleet, fleet.nodes[name])


@every_node
def test_sysctls(fleet: Fleet, name: str) -> None:
    checks.check_sysctls(fleet, fleet.nodes[name])


@every_node
def test_tunnel_packets_are_taken_from_the_fleet_only_and_pools_masqueraded(fleet: Fleet, name: str) -> None:
    checks.check_iptables(fleet, fleet.nodes[name])


@every_node
def test_units(fleet: Fleet, name: str) -> None:
    checks.check_units(fleet, fleet.nodes[name])


@every_node
def test_sessions_stand_with_graceful_restart(fleet: Fleet, name: str) -> None:
    checks.check_sessions(fleet, fleet.nodes[name])


def test_one_side_of_each_pair_is_passive(fleet: Fleet) -> None:
    checks.check_passive_sides(fleet)


@every_node
def test_blocks_alone_are_learned(fleet: Fleet, name: str) -> None:
    checks.check_learned(fleet, fleet.nodes[name])


def test_the_router_was_told_of_blocks_alone(fleet: Fleet, lab: BaseLab) -> None:
    shown = lab.router_exec(["birdc", "-s", "/run/bird/bird.ctl", "show", "route"]).stdout
    told = {cidr for cidr in re.findall(r"^(\S+/\d+)", shown, re.MULTILINE) if cidr.startswith("10.244.")}
    blocks = {block for node in fleet.nodes.values() for block in node.blocks}
    assert told == blocks


def test_everybody_reaches_everybody_at_full_size(fleet: Fleet, pongs: list[Pong]) -> None:
    assert len(pongs) == 6 * 5 + 6 * 4
    checks.check_pings(fleet, pongs)


def test_the_router_is_a_hop_of_the_direct_pool_alone(fleet: Fleet, pongs: list[Pong]) -> None:
    checks.check_ttls(fleet, pongs)


def test_outgoing_packets_are_masqueraded_where_the_pool_says_so(fleet: Fleet, outside_pongs: list[Pong]) -> None:
    checks.check_pings(fleet, outside_pongs)
