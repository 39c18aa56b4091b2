# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The target state of each node, kept during a run in a private folder on the controller.

Action plugins fork per host and share no memory. So the fleet is planned once, and the process of every host reads it
here and compiles its own state.
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
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeIpam, NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import PHASES, Phase

from ..datastore.access import FleetDatastore

_FILE, _POLICY = "targets", "policy"
_WORKLOAD_NODES = "calico_nodes"  # the group of hosts that may have workloads


@dataclasses.dataclass
class Targets:
    """Either a fleet, compiled per node on demand, or stored states of the nodes (a rollback).

    `lockfile` is the file that records, at the end of a change, that the fleet runs its pools in `encapsulations` (by
    pool name, such as IPIP). It is "" if this run does not know that for the whole fleet. With `hold`, backup routes
    keep traffic flowing during the phases; with `divert`, all traffic uses them before sessions change. `refused` has
    the error of each node that cannot be changed; the others can. `sessions_of` has the states whose BGP sessions the
    nodes shall have instead of the fleet's (a return to earlier modes). `datastore` is None without one, and
    with stored states; it has no secret.
    """

    fleet: t.Optional[Fleet] = None
    states: t.Mapping[str, NodeState] = dataclasses.field(default_factory=dict)
    lockfile: str = ""
    encapsulations: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    hold: bool = False
    divert: bool = False
    sessions_of: t.Mapping[str, t.Optional[NodeState]] = dataclasses.field(default_factory=dict)
    refused: t.Mapping[str, FleetError] = dataclasses.field(default_factory=dict)
    datastore: t.Optional[FleetDatastore] = None

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of this change, in their order; DIVERT is left out unless `divert` is True."""
        return tuple(phase for phase in PHASES if phase != Phase.DIVERT or self.divert)

    def state(self, node: str) -> NodeState:
        """Return the target state of a node. Raise KeyError if it has none."""
        if self.fleet is not None:
            return transition.with_sessions_of(compiler.node_state(self.fleet, node), self.sessions_of.get(node))
        return self.states[node]

    def ipams(self) -> dict[str, NodeIpam]:
        """Return blocks and addresses by node: of a fleet's workload nodes, or of all nodes with a stored state."""
        if self.fleet is not None:
            return {
                node.name: self.fleet.ipam_of(node.name) for node in self.fleet.nodes.values() if node.workload_node
            }
        return {name: state.ipam for name, state in self.states.items()}

    def phase(self, node: str, current: t.Optional[NodeState], phase: Phase) -> NodeState:
        """Return the node's state in a phase on the way from `current` to its target.

        `current` is None for a node without a state. Raise KeyError if it has no target. A `current` with invalid
        values may raise ValueError, LookupError, TypeError or AttributeError.
        """
        return transition.phase_state(current, self.state(node), phase, self.hold)


def save(targets: Targets) -> str:
    """Store the targets in a new folder on the controller and return its path.

    It has mode 0700 and is removed when ansible-playbook ends. A fleet's policy is large and stored separately: the
    states of `load` have only its settings. Raise OSError if it cannot be written.
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
    """Return the targets that `save` stored in the folder. Raise OSError if they cannot be read."""
    with open(os.path.join(folder, _FILE), "rb") as stream:
        return t.cast(Targets, pickle.load(stream))


def members(folder: str, task_vars: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    """Return the names of the fleet's nodes that may have workloads, by the targets in the folder; () without targets.

    Stored states may be those of a part of the fleet: then the nodes are those of the inventory's group calico_nodes.
    """
    try:
        found = load(folder)
    except OSError:
        return ()
    if found.fleet is not None:
        return tuple(node.name for node in found.fleet.nodes.values() if node.workload_node)
    return tuple(map(str, task_vars.get("groups", {}).get(_WORKLOAD_NODES, ())))


def load_policy(folder: str, node: str) -> t.Optional[dict[str, t.Any]]:
    """Return the policy of the node's state as it is sent: {"shared", "own", "settings"} of PolicyWire.

    It is None if no fleet with policy was saved in the folder, or if the fleet does not have the node. Raise OSError if
    the file cannot be read.
    """
    try:
        with open(os.path.join(folder, _POLICY), "rb") as stream:
            return t.cast(PolicyWire, pickle.load(stream)).of(node)
    except FileNotFoundError:
        return None
