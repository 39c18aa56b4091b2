# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests that every converged fleet passes, whatever its pools and peerings.

A scenario of molecule imports them (dual_stack only the names), defines its POOLS and WORKLOADS, and adds its own
tests. The fixtures are those of molecule/conftest.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from .measure import checks
from .measure.checks import Fleet
from .measure.observed import Pong, Runner, send

#: The nodes with workloads: all hosts of the scenario but the reflectors.
NAMES = tuple(
    sorted({"node1", "node2", "node3", "node4"}.intersection(os.environ["HOST_ROUTING_LAB_HOSTS"].split(",")))
)

every_node = pytest.mark.parametrize("name", NAMES)


def test_the_declared_workloads_stand(fleet: Fleet, workloads: Mapping[str, tuple[str, str]]) -> None:
    assert {w["name"]: (node.name, w["pool"]) for node in fleet.nodes.values() for w in node.workloads} == workloads


def test_each_block_has_one_owner(fleet: Fleet) -> None:
    checks.check_blocks(fleet)


@every_node
def test_routes_are_those_of_the_calico_documents(fleet: Fleet, name: str) -> None:
    checks.check_routes(fleet, fleet.nodes[name])


@every_node
def test_tunnel_devices_are_those_that_the_pools_ask_for(fleet: Fleet, name: str) -> None:
    checks.check_devices(fleet, fleet.nodes[name])


@every_node
def test_vxlan_has_a_neighbour_and_a_forwarding_entry_for_every_other_node(fleet: Fleet, name: str) -> None:
    checks.check_vteps(fleet, fleet.nodes[name])


@every_node
def test_workloads_are_joined_by_veth_pairs(fleet: Fleet, name: str) -> None:
    checks.check_workloads(fleet, fleet.nodes[name])


@every_node
def test_the_probe_endpoint_has_an_address_of_each_pool_of_its_node(fleet: Fleet, name: str) -> None:
    node = fleet.nodes[name]
    assert set(node.probes) == set(node.blocks.values())
    checks.check_probe_endpoint(node)


@every_node
def test_each_node_has_the_expected_sysctls(fleet: Fleet, name: str) -> None:
    checks.check_sysctls(fleet, fleet.nodes[name])


@every_node
def test_tunnel_packets_are_taken_from_the_fleet_only_and_pools_masqueraded(fleet: Fleet, name: str) -> None:
    checks.check_iptables(fleet, fleet.nodes[name])


@every_node
def test_each_node_has_the_expected_units(fleet: Fleet, name: str) -> None:
    checks.check_units(fleet, fleet.nodes[name])


@every_node
def test_sessions_stand_with_graceful_restart(fleet: Fleet, name: str) -> None:
    checks.check_sessions(fleet, fleet.nodes[name])


def test_one_side_of_each_pair_is_passive(fleet: Fleet) -> None:
    checks.check_passive_sides(fleet)


@every_node
def test_blocks_alone_are_learned(fleet: Fleet, name: str) -> None:
    checks.check_learned(fleet, fleet.nodes[name])


def test_everybody_reaches_everybody_at_full_size(
    fleet: Fleet, pongs: list[Pong], workloads: Mapping[str, tuple[str, str]]
) -> None:
    # Each workload is pinged by each other workload and by each host.
    assert len(pongs) == len(workloads) * (len(workloads) - 1 + len(NAMES))
    checks.check_pings(fleet, pongs)


def test_the_router_is_a_hop_where_no_tunnel_is_used(fleet: Fleet, pongs: list[Pong]) -> None:
    checks.check_ttls(fleet, pongs)


def test_outgoing_packets_are_masqueraded_where_the_pool_says_so(fleet: Fleet, outside_pongs: list[Pong]) -> None:
    checks.check_pings(fleet, outside_pongs)


def test_probe_endpoints_answer_each_other_and_no_workload(fleet: Fleet, run: Runner) -> None:
    checks.check_pings(fleet, send(run, checks.pings_to_probes(fleet)))
