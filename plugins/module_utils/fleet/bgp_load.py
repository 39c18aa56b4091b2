# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What BGP costs in a fleet as its inventory has it: its own sessions, peers and blocks, simulated."""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.addresses import family_of
from ..bgp.load import MEASURED, Load
from ..bgp.simulation import Simulation
from ..state.errors import FleetError
from .fleet import Fleet

NODE, REFLECTING_NODE, REFLECTOR = "node", "node that reflects", "reflector"


@dataclasses.dataclass(frozen=True)
class Alike:
    """Nodes that BGP costs the same, of both IP versions together."""

    nodes: tuple[str, ...]  # in order of names
    role: str  # NODE, REFLECTING_NODE or REFLECTOR
    load: Load
    told_of_a_block: t.Optional[int]  # UPDATEs in the whole fleet for one more block of one of them; a REFLECTOR's None

    @property
    def memory(self) -> int:
        """KiB."""
        return MEASURED.of(self.load)


@dataclasses.dataclass(frozen=True)
class FleetLoad:
    """`sessions` of the whole fleet, each counted once, those with routers outside among them; `blocks` are those that
    nodes tell each other of, IPv4's and then IPv6's."""

    alike: tuple[Alike, ...]  # what takes the most memory first
    sessions: int
    blocks: tuple[int, int]

    @property
    def told_at_start(self) -> int:
        """Routes that the fleet announces when all of it starts from nothing. A least, see Load."""
        return sum(len(group.nodes) * group.load.sent for group in self.alike)


def of_fleet(fleet: Fleet) -> FleetLoad:
    """Raises FleetError where the fleet speaks no BGP."""
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
        told = None if role == REFLECTOR else simulations[4].announcements(name)
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
