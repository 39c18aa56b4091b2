# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sessions, routes and memory that BGP needs in a fleet, by a simulation with the fleet's own peers and blocks."""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.addresses import family_of
from ..bgp.load import MEASURED, Load
from ..bgp.simulation import Simulation
from ..state.errors import FleetError
from .fleet import Fleet

#: The roles of nodes: without a cluster id, with one, and with one but without workloads.
NODE, REFLECTING_NODE, REFLECTOR = "node", "node that reflects", "reflector"


@dataclasses.dataclass(frozen=True)
class Alike:
    """Nodes with the same `role`, `load` and `told_of_a_block`. `load` is that of both IP versions together."""

    nodes: tuple[str, ...]  # in order of names
    role: str  # NODE, REFLECTING_NODE or REFLECTOR
    load: Load
    # the number of UPDATE messages in the fleet for one new block of one of `nodes`, an IPv4 block if they have IPv4;
    # None for the role REFLECTOR
    told_of_a_block: t.Optional[int]

    @property
    def memory(self) -> int:
        """The estimated resident memory of BIRD on each of these nodes, in whole KiB."""
        return MEASURED.of(self.load)


@dataclasses.dataclass(frozen=True)
class FleetLoad:
    """The BGP load of a fleet.

    `sessions` is the number of all sessions of both IP versions, including those with routers outside the fleet. A
    session counts once, or half if only one of its two nodes has it, rounded down for each IP version. `blocks` are the
    numbers of IPv4 blocks and of IPv6 blocks that nodes advertise to each other, spare ones included.
    """

    alike: tuple[Alike, ...]  # by memory, the most first
    sessions: int
    blocks: tuple[int, int]

    @property
    def told_at_start(self) -> int:
        """A lower bound of the routes that nodes advertise at the fleet's start (see Load), over all sessions."""
        return sum(len(group.nodes) * group.load.sent for group in self.alike)


def of_fleet(fleet: Fleet) -> FleetLoad:
    """Return the BGP load of `fleet`. Raise FleetError if BGP is disabled."""
    if not fleet.settings.bgp_enabled:
        raise FleetError("calico_bgp_enabled", False, "has no sessions to count.", "Nothing has to be done.")
    blocks = {family: _announced(fleet, family) for family in (4, 6)}
    simulations = {
        family: Simulation(fleet.bgp.speakers.values(), fleet.bgp.peers, fleet.bgp.unasked, blocks[family], family)
        for family in blocks
    }
    alike: dict[tuple[str, Load, t.Optional[int]], list[str]] = {}
    for name in fleet.nodes:
        role = _role(fleet, name)
        load = simulations[4].load(name) + simulations[6].load(name)
        family = 4 if fleet.bgp.speakers[name].end(4) else 6
        told = None if role == REFLECTOR else simulations[family].announcements(name)
        alike.setdefault((role, load, told), []).append(name)
    groups = (Alike(tuple(names), role, load, told) for (role, load, told), names in alike.items())
    return FleetLoad(
        tuple(sorted(groups, key=lambda group: (-group.memory, -len(group.nodes), group.nodes))),
        sum(simulation.sessions() for simulation in simulations.values()),
        (sum(blocks[4].values()), sum(blocks[6].values())),
    )


def _announced(fleet: Fleet, family: int) -> dict[str, int]:
    known = fleet.announced
    found = {}
    for name in fleet.nodes:
        ipam = fleet.ipam_of(name)
        own = (block.cidr for block in ipam.blocks + ipam.spare_blocks)
        found[name] = sum(family_of(cidr) == family and cidr in known for cidr in own)
    return found


def _role(fleet: Fleet, name: str) -> str:
    if not fleet.bgp.speakers[name].cluster_id:
        return NODE
    return REFLECTING_NODE if fleet.nodes[name].workload_node else REFLECTOR
