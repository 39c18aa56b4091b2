# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A topology from the command line gives the sessions that an inventory with that topology gives."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.topology import with_topology
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from tests.unit.fleet import fleets
from tests.unit.fleet.fleets import LAB

RACK = {"rr1": "10.10.1.251/24"}


def sessions(hosts: t.Sequence[Host]) -> dict[str, list[tuple[str, str]]]:
    compiled = fleets.states(Fleet.build(inventory.read(hosts), None))
    return {
        name: sorted((peer.node, peer.kind) for peer in state.bird.peers) if state.bird else []
        for name, state in compiled.items()
    }


def test_the_topology_of_the_inventory_leaves_hosts_unchanged() -> None:
    hosts = fleets.hosts(reflectors=RACK)
    assert with_topology(hosts, "inventory") == hosts


def test_a_mesh_of_a_fleet_with_reflectors() -> None:
    """In a mesh of a fleet with reflectors, reflectors have the sessions of nodes, and own cluster IDs do not count."""
    found = sessions(with_topology(fleets.hosts(reflectors={**RACK, "node1": LAB["node1"]}), "mesh"))
    everybody = {*LAB, "rr1"}
    assert found == {name: sorted((other, "mesh") for other in everybody - {name}) for name in everybody}
    own = {"node1": {"calico_node_route_reflector_cluster_id": "10.0.0.1"}}
    assert sessions(with_topology(fleets.hosts(own=own), "mesh")) == sessions(fleets.hosts())


def test_reflectors_of_a_fleet_that_keeps_its_mesh() -> None:
    hosts = fleets.hosts(reflectors=RACK, bgp_node_to_node_mesh=True)
    assert sessions(with_topology(hosts, "reflectors")) == sessions(fleets.hosts(reflectors=RACK))
    assert sessions(hosts) != sessions(fleets.hosts(reflectors=RACK))


def test_reflectors_have_to_be_there() -> None:
    with pytest.raises(FleetError) as caught:
        with_topology(fleets.hosts(), "reflectors")
    assert str(caught.value) == (
        "topology reflectors needs reflectors, and the inventory has none. Put hosts into group calico_rr, or set "
        "calico_node_route_reflector_cluster_id for nodes that shall reflect."
    )
