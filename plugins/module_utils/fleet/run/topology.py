# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory with another BGP topology, for one run."""

from __future__ import annotations

import dataclasses
import typing as t

from ...state.errors import FleetError
from ..host import Host

#: The values of the parameter `topology`; `inventory` leaves the topology as the inventory has it.
TOPOLOGIES = ("inventory", "mesh", "reflectors")
_MESH, _CLUSTER_ID = "calico_bgp_node_to_node_mesh", "calico_node_route_reflector_cluster_id"


def with_topology(hosts: t.Sequence[Host], topology: str) -> list[Host]:
    """Return the hosts with this topology: inventory (unchanged), mesh or reflectors.

    In a mesh no node reflects, and hosts that are reflectors only become nodes without workloads. With reflectors there
    is no mesh. The given hosts are not changed. Raise FleetError if the inventory has no reflectors for the latter.
    """
    if topology == "inventory":
        return list(hosts)
    if topology == "mesh":
        return [_in_mesh(host) for host in hosts]
    if not any(host.reflector or host.variables.get(_CLUSTER_ID) for host in hosts):
        raise FleetError(
            "topology",
            topology,
            "needs reflectors, and the inventory has none.",
            f"Put hosts into group calico_rr, or set {_CLUSTER_ID} for nodes that shall reflect.",
        )
    return [dataclasses.replace(host, variables={**host.variables, _MESH: False}) for host in hosts]


def _in_mesh(host: Host) -> Host:
    variables = {name: value for name, value in host.variables.items() if name != _CLUSTER_ID}
    return dataclasses.replace(host, reflector=False, variables={**variables, _MESH: True})
