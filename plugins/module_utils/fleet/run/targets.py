# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The target state of each node of a run."""

from __future__ import annotations

import dataclasses
import typing as t

from ...state.errors import FleetError
from ...state.fleet_list import Addressed, bare
from ...state.node_state import NodeState
from ...state.phase import PHASES, Phase
from .. import compiler
from ..change import transition
from ..fleet import Fleet


@dataclasses.dataclass(frozen=True)
class Targets:
    """Either a fleet, compiled per node on demand, or stored states of the nodes (a rollback).

    `lockfile` is the file that records, at the end of a change, that the fleet runs its pools in `encapsulations` (by
    pool name, such as IPIP). It is "" if this run does not know that for the whole fleet. With `hold`, backup routes
    keep traffic flowing during the phases; with `divert`, all traffic uses them before sessions change. `moved` says
    that nodes get other addresses. `refused` has the error of each node that cannot be changed; the others can.
    `sessions_of` has the states whose BGP sessions the nodes shall have instead of the fleet's (a return to earlier
    modes).
    """

    fleet: t.Optional[Fleet] = None
    states: t.Mapping[str, NodeState] = dataclasses.field(default_factory=dict)
    lockfile: str = ""
    encapsulations: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    hold: bool = False
    divert: bool = False
    moved: bool = False
    sessions_of: t.Mapping[str, t.Optional[NodeState]] = dataclasses.field(default_factory=dict)
    refused: t.Mapping[str, FleetError] = dataclasses.field(default_factory=dict)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of this change, in their order; DIVERT is left out unless `divert` is True."""
        return tuple(phase for phase in PHASES if phase != Phase.DIVERT or self.divert)

    def state(self, node: str) -> NodeState:
        """Return the target state of a node. Raise KeyError if it has none."""
        if self.fleet is not None:
            return transition.with_sessions_of(compiler.node_state(self.fleet, node), self.sessions_of.get(node))
        return self.states[node]

    def names(self) -> dict[str, str]:
        """Return the name of each node by its addresses: its own ones, and those of tunnels and its probe endpoint."""
        nodes: t.Mapping[str, Addressed] = self.fleet.nodes if self.fleet is not None else self.states
        found = {}
        for name, node in nodes.items():
            ipam = self.fleet.ipam_of(name) if self.fleet is not None else self.states[name].ipam
            own = (bare(address) for address in (node.address, node.address6) if address)
            found.update(dict.fromkeys((*own, *ipam.tunnels.values(), *ipam.probes.values()), name))
        return found

    def phase(self, node: str, current: t.Optional[NodeState], phase: Phase) -> NodeState:
        """Return the node's `transition.phase_state` from `current` to its target. Raise KeyError if it has none."""
        return transition.phase_state(current, self.state(node), phase, self.hold)
