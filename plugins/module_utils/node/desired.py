# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this node must have: what the fleet planned for it, with what came to it since."""

from __future__ import annotations

import contextlib
import typing as t

from ..dataplane.kernel.port import Kernel
from ..policy.host_endpoints import Interfaces
from ..policy.model import Endpoint
from ..state import before_network as network_to_come
from ..state.attachment import AttachedWorkload, with_workloads
from ..state.node_policy_tables import NO_INTERFACES, NodePolicyTables, needs_interfaces
from ..state.node_state import NodeState
from .ipam.local_ipam import IpamUnreadable, LocalIpam
from .store import remote_endpoints
from .store.endpoints import Endpoints

if t.TYPE_CHECKING:
    from .machine import Machine


class RecordsUnreadable(Exception):
    """Records of workloads cannot be read: planned without them, those workloads would be taken away."""


def desired(
    state: NodeState,
    endpoints: t.Iterable[AttachedWorkload],
    opened: t.Collection[str],
    guard: t.Optional[NodePolicyTables] = None,
    interfaces: Interfaces = NO_INTERFACES,
    others: t.Iterable[Endpoint] = (),
) -> NodeState:
    """`endpoints` are the workloads that stand, `opened` the CIDRs of spare blocks that the node opened, `interfaces`
    those of the host (see `interfaces_of`), `others` what is known of other nodes' workloads beside the inventory's
    (see remote_endpoints.py). `guard` is that of one who asks again and again."""
    return (guard or NodePolicyTables()).with_policy(with_workloads(state, endpoints, opened), interfaces, others)


def interfaces_of(kernel: Kernel, state: NodeState) -> Interfaces:
    """The host's interfaces that are no workload's, with their addresses, if the state's policy depends on them."""
    if not needs_interfaces(state):
        return NO_INTERFACES
    found: dict[str, list[str]] = {}
    for address in (*kernel.addresses(), *kernel.addresses(family=6)):
        if not address.device.startswith("cali"):
            found.setdefault(address.device, []).append(address.address)
    return found


def of_machine(machine: Machine, state: NodeState) -> NodeState:
    """By what lies on the disk, for where no agent runs. Writes nothing.

    Raises RecordsUnreadable or IpamUnreadable rather than leave out what is there.
    """
    workloads, problems = Endpoints(machine.workloads).load()
    if problems:
        raise RecordsUnreadable(" ".join(problems))
    ipam = LocalIpam(machine.ipam)
    ipam.load()
    interfaces = interfaces_of(machine.kernel, state)
    return desired(state, workloads, ipam.opened, interfaces=interfaces, others=others(machine, state))


def before_network(machine: Machine, state: NodeState) -> NodeState:
    """Return what the firewall must be while the host's interfaces have no addresses yet. Writes nothing.

    Records that cannot be read are left out: a workload without a record has no rule that lets it through.
    """
    workloads, dummy = Endpoints(machine.workloads).load()
    ipam = LocalIpam(machine.ipam)
    with contextlib.suppress(IpamUnreadable):
        ipam.load()
    return desired(network_to_come.closed(state), workloads, ipam.opened, others=others(machine, state))


def others(machine: Machine, state: NodeState) -> tuple[Endpoint, ...]:
    """What is known of other nodes' workloads beside the inventory's.

    What cannot be read holds nothing up: calicoctl tells of it, and the next sync mends it."""
    with contextlib.suppress(remote_endpoints.RemoteUnreadable):
        if state.policy is not None:
            return remote_endpoints.load(machine.store, state).endpoints
    return ()
