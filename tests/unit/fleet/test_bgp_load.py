# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a fleet's BGP load, compared with the simulation of each IP version by itself."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.load import MEASURED
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.simulation import Simulation
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands import scale
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import bgp_load, compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import load_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from tests.unit.fleet.fleets import ADDRESSES6, LAB, build, hosts, pool

NODES = {f"node{number}": f"10.10.1.{number + 10}/24" for number in range(6)}
REFLECTORS = {f"rr{number}": f"10.10.2.{number + 10}/24" for number in range(2)}


def uniform(reflectors: int) -> Fleet:
    wanted = dict(list(REFLECTORS.items())[:reflectors])
    return build(pool("direct"), nodes=NODES, reflectors=wanted, workloads=[], spare_blocks=1)


@pytest.mark.parametrize("reflectors", [0, 1, 2])
def test_nodes_that_are_alike_cost_what_the_command_says(reflectors: int) -> None:
    found = bgp_load.of_fleet(uniform(reflectors))
    row = scale.row(6, reflectors, 2)
    nodes = next(group for group in found.alike if group.role == bgp_load.NODE)
    assert nodes.nodes == tuple(NODES)
    assert (nodes.load.sessions, nodes.load.paths) == (row.sessions, row.paths)
    assert (nodes.told_of_a_block, found.told_at_start) == (row.told_of_a_block, row.told_at_start)
    assert (found.sessions, found.blocks) == (row.fleet_sessions, (12, 0))
    assert scale.mebibytes(nodes.memory) == row.memory
    if reflectors:
        first = found.alike[0]
        assert (first.role, first.nodes, first.told_of_a_block) == ("reflector", tuple(REFLECTORS)[:reflectors], None)
        assert (first.load.sessions, first.load.paths) == (row.reflector_sessions, row.reflector_paths)


def test_blocks_are_those_that_a_node_announces() -> None:
    """The load counts the blocks that each node advertises, and none of a pool whose BGP export is disabled.

    A node receives as many routes as the others advertise.
    """
    workloads = [
        {"name": f"w{number}", "node": "node1", "pool": "own", "address": f"10.245.0.{number * 4}"}
        for number in range(9)
    ]
    own = pool("vxlan", name="own", cidr="10.245.0.0/24", blockSize=30)
    silent = pool("vxlan", name="silent", cidr="10.246.0.0/16", disableBGPExport=True)
    fleet = build(pool("vxlan"), own, silent, nodes=LAB, workloads=workloads)
    birds = {name: compiler.bird(fleet, name) for name in fleet.nodes}
    announced = {name: len(bird.blocks) for name, bird in birds.items() if bird}
    assert announced["node1"] > announced["node2"] > 0
    found = bgp_load.of_fleet(fleet)
    assert found.blocks == (sum(announced.values()), 0)
    assert {group.nodes: group.load.routes for group in found.alike} == {
        names: sum(announced.values()) - announced[names[0]] for names in (("node1",), ("node2", "node3", "node4"))
    }


def test_both_ip_versions_add_up() -> None:
    own = {name: {"calico_node_address_ipv6": f"fd00:10::{number + 1}/64"} for number, name in enumerate(LAB)}
    pools = pool("vxlan"), pool("vxlan", name="six", cidr="fd00:244::/112")
    fleet = build(*pools, nodes=LAB, workloads=[], own=own)
    found = bgp_load.of_fleet(fleet)
    (nodes,) = found.alike
    assert nodes.load.sessions == 6
    assert found.sessions == 12
    assert found.blocks[1] > 0
    birds = {name: compiler.bird(fleet, name) for name in fleet.nodes}
    loads = []
    for family in (4, 6):
        counted = {
            name: sum((":" in block) == (family == 6) for block in bird.blocks) for name, bird in birds.items() if bird
        }
        one = Simulation(fleet.bgp.speakers.values(), fleet.bgp.peers, fleet.bgp.unasked, counted, family)
        loads.append(one.load("node1"))
    assert nodes.load == loads[0] + loads[1]
    assert nodes.memory == MEASURED.of(nodes.load)


def test_a_node_that_reflects_is_a_group_of_its_own() -> None:
    own = {"node1": {"calico_node_route_reflector_cluster_id": "244.0.0.1"}}
    peers = [{"name": "rr", "nodeSelector": "all()", "peerSelector": "reflects == 'yes'"}]
    own["node1"]["calico_node_labels"] = {"reflects": "yes"}
    fleet = build(pool(), nodes=LAB, workloads=[], own=own, bgp_peers=peers, bgp_node_to_node_mesh=False)
    found = bgp_load.of_fleet(fleet)
    assert [(group.role, group.nodes, group.load.sessions) for group in found.alike] == [
        ("node that reflects", ("node1",), 3),
        ("node", ("node2", "node3", "node4"), 1),
    ]


def test_without_bgp_there_is_nothing_to_count() -> None:
    fleet = build(pool("vxlan"), nodes=LAB, workloads=[], bgp_enabled=False)
    with pytest.raises(FleetError) as error:
        bgp_load.of_fleet(fleet)
    assert str(error.value) == "calico_bgp_enabled false has no sessions to count. Nothing has to be done."


def test_a_fleet_without_ipv4_costs_what_the_same_fleet_costs_with_it() -> None:
    six = pool("direct", "six", "fd00:10:244::/48", blockSize=122)
    given = hosts(six, workloads=[], own=ADDRESSES6)
    alone = [
        dataclasses.replace(
            host,
            variables={
                **{name: value for name, value in host.variables.items() if name != "calico_node_address"},
                "calico_node_router_id": host.variables["calico_node_address"].partition("/")[0],
            },
        )
        for host in given
    ]
    found = bgp_load.of_fleet(Fleet.build(inventory.read(alone), None))
    four = bgp_load.of_fleet(build(pool("direct"), workloads=[]))
    assert found.blocks == (0, four.blocks[0])
    assert (found.alike, found.sessions) == (four.alike, four.sessions)
    assert found.alike[0].told_of_a_block == 3
    assert load_lines.document(found)["uniform"] == load_lines.document(four)["uniform"]
    assert load_lines.text(found) == load_lines.text(four)
