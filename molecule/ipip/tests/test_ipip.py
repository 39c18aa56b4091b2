# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mesh of four nodes in two subnets; one pool over IPIP always, one across subnets alone. No router is told."""

from __future__ import annotations

import pytest

from tests.lab import checks
from tests.lab.checks import Fleet, Pool
from tests.lab.observed import Pong

POOLS = (
    Pool("always", "10.244.0.0/17", "ipip", nat_outgoing=True),
    Pool("crosssubnet", "10.244.128.0/17", "ipip-crosssubnet"),
)
NAMES = ("node1", "node2", "node3", "node4")

every_node = pytest.mark.parametrize("name", NAMES)


def test_each_block_has_one_owner(fleet: Fleet) -> None:
    checks.check_blocks(fleet)


@every_node
def test_routes_are_those_of_the_calico_documents(fleet: Fleet, name: str) -> None:
    checks.check_routes(fleet, fleet.nodes[name])


@every_node
def test_tunl0_stands_alone(fleet: Fleet, name: str) -> None:
    checks.check_devices(fleet, fleet.nodes[name])
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


def test_everybody_reaches_everybody_at_full_size(fleet: Fleet, pongs: list[Pong]) -> None:
    assert len(pongs) == 6 * 5 + 6 * 4
    checks.check_pings(fleet, pongs)


def test_no_packet_is_seen_by_the_router(fleet: Fleet, pongs: list[Pong]) -> None:
    checks.check_ttls(fleet, pongs)


def test_outgoing_packets_are_masqueraded_where_the_pool_says_so(fleet: Fleet, outside_pongs: list[Pong]) -> None:
    checks.check_pings(fleet, outside_pongs)
