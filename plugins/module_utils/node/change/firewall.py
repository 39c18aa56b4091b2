# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The firewall at boot: IP sets and iptables of the stored state, written before the host's network comes up.

Rules name devices and addresses that need not exist yet. Devices, routes and workloads are boot.restore's, which runs
later and writes the firewall again, with the addresses that interfaces have then.
"""

from __future__ import annotations

from ...dataplane.apply import apply_node
from ...dataplane.plan import NodePlan, plan_node
from ...dataplane.registry import REGISTRY
from ...state.node_state import NodeState
from .. import desired
from ..machine import Machine
from ..store import lock, writer
from ..store.store import Store
from ..store.unconfirmed import Waiting

WHO = "boot firewall"

_LOCK = 10.0  # seconds; at boot nobody else runs


class NothingStored(Exception):
    """The node has no state yet."""


class AgentWrites(Exception):
    """The agent runs, so the firewall is there and its business."""


def restore(machine: Machine) -> NodePlan:
    """Write the firewall of the state that boot brings the node to; return what was changed.

    Raises NothingStored, AgentWrites, LockError, StoreError, ObserveError, ApplyError or AgentSilent.
    """
    with lock.held(WHO, _LOCK, machine.lock):
        state = _state(machine)
        if isinstance(writer.of(machine, WHO), writer.Through):
            raise AgentWrites
        with lock.held(WHO, _LOCK, machine.writer_lock):
            wanted = desired.before_network(machine, state)
            plan = plan_node(machine.kernel, wanted, REGISTRY.guards)
            apply_node(machine.kernel, plan)
        return plan


def _state(machine: Machine) -> NodeState:
    """Return the state of before if a change was not confirmed, as boot.restore does; stores nothing."""
    stored = Store(machine.store).load()
    if stored is None:
        raise NothingStored
    overdue = Waiting(machine.store).overdue(machine.uptime)
    return stored.state if overdue is None else overdue.previous.state
