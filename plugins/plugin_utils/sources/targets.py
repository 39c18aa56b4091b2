# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each node shall become, kept for the length of a run in a private folder on the controller.

Action plugins fork per host and share nothing: the fleet is compiled once, every host then reads its own part here.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import tempfile
import typing as t

from ansible import constants
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler, transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.policy_parts import PolicyWire
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Ipam, NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import PHASES, Phase

_FILE, _POLICY = "targets", "policy"


@dataclasses.dataclass
class Targets:
    """Either a fleet, compiled per node on demand, or stored states of the nodes (a rollback).

    `lockfile` is where to remember, at the end of a change, that the fleet runs its pools in `encapsulations` ({pool:
    IPIP, ...}); "" where this run cannot say it of the whole fleet. `hold`: backup routes hold traffic in the phases,
    `divert`: all of it before sessions change.
    `refused`: nodes whose own part cannot be gone on with, and why; the others go on.
    `sessions_of`: states whose BGP sessions the nodes are to have, instead of those of the fleet (a return).
    """

    fleet: t.Optional[Fleet] = None
    states: t.Mapping[str, NodeState] = dataclasses.field(default_factory=dict)
    lockfile: str = ""
    encapsulations: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    hold: bool = False
    divert: bool = False
    sessions_of: t.Mapping[str, t.Optional[NodeState]] = dataclasses.field(default_factory=dict)
    refused: t.Mapping[str, FleetError] = dataclasses.field(default_factory=dict)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Return the phases that this change goes through, in their order."""
        return tuple(phase for phase in PHASES if phase != Phase.DIVERT or self.divert)

    def state(self, node: str) -> NodeState:
        """Raises KeyError for a node without a target."""
        if self.fleet is not None:
            return transition.with_sessions_of(compiler.node_state(self.fleet, node), self.sessions_of.get(node))
        return self.states[node]

    def ipams(self) -> dict[str, Ipam]:
        """What each node that routes for workloads owns."""
        if self.fleet is not None:
            return {
                node.name: self.fleet.ipam_of(node.name) for node in self.fleet.nodes.values() if node.workload_node
            }
        return {name: state.ipam for name, state in self.states.items()}

    def phase(self, node: str, current: t.Optional[NodeState], phase: Phase) -> NodeState:
        return transition.phase_state(current, self.state(node), phase, self.hold)


def save(targets: Targets) -> str:
    """The folder's path. It is 0700 and goes when ansible-playbook ends.

    What policy says, which is much and the same for all nodes, is kept apart: `load` gives states that have its
    settings alone.
    """
    folder = tempfile.mkdtemp(prefix="host_routing-", dir=constants.DEFAULT_LOCAL_TMP)
    if targets.fleet is not None and targets.fleet.policy is not None:
        with open(os.path.join(folder, _POLICY), "wb") as stream:
            pickle.dump(targets.fleet.policy.wire(), stream)
        targets = dataclasses.replace(
            targets, fleet=dataclasses.replace(targets.fleet, policy=targets.fleet.policy.bare())
        )
    with open(os.path.join(folder, _FILE), "wb") as stream:
        pickle.dump(targets, stream)
    return folder


def load(folder: str) -> Targets:
    with open(os.path.join(folder, _FILE), "rb") as stream:
        return t.cast(Targets, pickle.load(stream))


def load_policy(folder: str, node: str) -> t.Optional[dict[str, t.Any]]:
    """What the node's state has as policy on its way; None where no fleet with policy was saved."""
    try:
        with open(os.path.join(folder, _POLICY), "rb") as stream:
            return t.cast(PolicyWire, pickle.load(stream)).of(node)
    except FileNotFoundError:
        return None
