# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The firewall at boot: IP sets and iptables of the stored state, written before the host's network comes up.

Rules name devices and addresses that need not exist yet. boot.restore, which runs later, sets up devices, routes and
workloads, and writes the firewall again with the addresses that interfaces have then.
"""

from __future__ import annotations

from ...dataplane.planning.apply import apply_node
from ...dataplane.planning.plan import NodePlan, plan_node
from ...dataplane.planning.registry import REGISTRY
from ...state.node_state import NodeState
from .. import desired
from ..machine import Machine
from ..store import lock
from ..store.store import Store
from ..store.unconfirmed import UnconfirmedStore
from ..write import writer

WHO = "boot firewall"

_LOCK = 10.0  # the most seconds to wait for each lock; at boot, other processes that change the node are not expected


class NothingStored(Exception):
    """The error for a node without a stored state."""


class AgentWrites(Exception):
    """The error for a node whose agent runs and writes the firewall by itself."""


def restore(machine: Machine) -> NodePlan:
    """Write the firewall of the state to which boot brings the node; return the plan that was applied.

    It is the firewall for interfaces that have no addresses yet (see `desired.before_network`). Records and allocations
    that cannot be read are left out. Raise NothingStored, AgentWrites, LockError (if a lock is not free within 10
    seconds), another error of `errors.ERRORS`, ValueError for a policy that cannot be compiled, or OSError.
    """
    with lock.held(WHO, _LOCK, machine.lock):
        state = _state(machine)
        if isinstance(writer.from_machine(machine, WHO), writer.Through):
            raise AgentWrites
        with lock.held(WHO, _LOCK, machine.writer_lock):
            wanted = desired.before_network(machine, state)
            plan = plan_node(machine.kernel, wanted, REGISTRY.guards)
            apply_node(machine.kernel, plan)
        return plan


def _state(machine: Machine) -> NodeState:
    """Return the stored state, or the one before an unconfirmed change that is overdue, as boot.restore chooses it."""
    stored = Store(machine.store).load()
    if stored is None:
        raise NothingStored
    overdue = UnconfirmedStore(machine.store).overdue(machine.uptime)
    return stored.state if overdue is None else overdue.previous.state
