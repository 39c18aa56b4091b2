# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this node must have: the fleet's plan for it, with the workloads and blocks that the node has added since."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ..dataplane.kernel.port import Kernel
from ..policy.host_endpoints import Interfaces
from ..policy.model import LiveNames
from ..state import live_policy
from ..state.attachment import AttachedWorkload, with_workloads
from ..state.derived import before_network as network_to_come
from ..state.live_policy import LivePolicy
from ..state.node_policy_tables import NO_INTERFACES, NO_OTHERS, NodePolicyTables, needs_interfaces
from ..state.node_state import NodeState
from ..state.other_endpoints import OtherEndpoints
from .ipam.local_ipam import IpamUnreadable, LocalIpam
from .store.endpoints import Endpoints

if t.TYPE_CHECKING:
    from .machine import Machine


class RecordsUnreadable(Exception):
    """The error for records of workloads that cannot be read: a plan without them would remove those workloads."""


def desired(
    state: NodeState,
    endpoints: t.Iterable[AttachedWorkload],
    opened: t.Collection[str],
    interfaces: Interfaces = NO_INTERFACES,
    others: OtherEndpoints = NO_OTHERS,
) -> NodeState:
    """Return `state` with the node's own workloads and opened blocks, and with its policy compiled for all workloads.

    `endpoints` are the attached workloads. One without an address is left out, and so is one with the interface or an
    address of another (see `beside_inventory`). `opened` are the CIDRs of spare blocks that the node uses. `interfaces`
    are those of the host (see `interfaces_of`), `others` endpoints of other nodes (see the function `others`). Raise
    SelectorError if a selector of the policy is not valid, and ValueError if its mark mask has fewer than five bits or
    the name of a protocol is unknown.
    """
    return NodePolicyTables().with_policy(with_workloads(state, endpoints, opened), interfaces, others)


def interfaces_of(kernel: Kernel, state: NodeState) -> Interfaces:
    """Return the host's interfaces that have addresses and are no workload's, as a mapping from name to addresses.

    Addresses have no prefix length. The mapping is empty if policy does not depend on them. Raise KernelError.
    """
    return host_interfaces(kernel) if needs_interfaces(state) else NO_INTERFACES


def host_interfaces(kernel: Kernel) -> dict[str, list[str]]:
    """Return the host's interfaces as `interfaces_of` does, whether policy depends on them or not."""
    found: dict[str, list[str]] = {}
    for address in (*kernel.addresses(), *kernel.addresses(family=6)):
        if not address.device.startswith("cali"):
            found.setdefault(address.device, []).append(address.address)
    return found


def of_machine(machine: Machine, state: NodeState) -> NodeState:
    """Return what the node must have for `state`, by what is on its disk; for use without a running agent.

    Raise RecordsUnreadable or IpamUnreadable if a workload's record or the allocations cannot be read, KernelError, or
    what `desired` raises.
    """
    workloads, problems = Endpoints(machine.workloads).load()
    if problems:
        raise RecordsUnreadable(" ".join(problems))
    ipam = LocalIpam(machine.ipam)
    ipam.load()
    state = with_live_policy(machine.store, state)
    interfaces = interfaces_of(machine.kernel, state)
    return desired(state, workloads, ipam.opened, interfaces=interfaces, others=others(machine, state))


def as_readable(machine: Machine, state: NodeState) -> NodeState:
    """Return what `of_machine` does, by those of the node's records and allocations that can be read.

    A workload without a record has no rule that accepts its packets.
    """
    state = with_live_policy(machine.store, state)
    return _readable(machine, state, interfaces_of(machine.kernel, state))


def before_network(machine: Machine, state: NodeState) -> NodeState:
    """Return what `as_readable` does, for a firewall while the host's interfaces have no addresses yet."""
    return _readable(machine, network_to_come.closed(with_live_policy(machine.store, state)), NO_INTERFACES)


def _readable(machine: Machine, state: NodeState, interfaces: Interfaces) -> NodeState:
    workloads, dummy = Endpoints(machine.workloads).load()
    ipam = LocalIpam(machine.ipam)
    with contextlib.suppress(IpamUnreadable):
        ipam.load()
    return desired(state, workloads, ipam.opened, interfaces=interfaces, others=others(machine, state))


def with_attached(machine: Machine, state: NodeState) -> NodeState:
    """Return `state` with live policy and the attached workloads whose records can be read; nothing is compiled."""
    workloads, dummy = Endpoints(machine.workloads).load()
    return with_workloads(with_live_policy(machine.store, state), workloads, ())


def with_live_policy(folder: str, state: NodeState) -> NodeState:
    """Return `state` with the live policy that an agent has last put in force, which is in the store at `folder`.

    It is `state` itself where live policy is not allowed.
    """
    return with_live_names(folder, state)[0]


def with_live_names(folder: str, state: NodeState) -> tuple[NodeState, t.Optional[LiveNames]]:
    """Return what `with_live_policy` does, and the names of live documents in it; None where there are none."""
    live = stored_live_policy(folder, state)
    if state.policy is None or live is None:
        return state, None
    names = live_policy.names_with_effect(state.policy.policy_set, live)
    return dataclasses.replace(state, policy=live_policy.merged(state.policy, live)), names


def stored_live_policy(folder: str, state: NodeState) -> t.Optional[LivePolicy]:
    """Return the live policy that an agent has last put in force, from the store at `folder`; None without any.

    There is none where it is not allowed. A file that cannot be read has none: the agent reports it.
    """
    if state.policy is None or not state.policy.settings.live:
        return None
    from .store import live_policy as stored  # few runs need it, and it loads what reads resources

    try:
        return stored.load(folder).policy
    except stored.LivePolicyUnreadable:
        return None


def others(machine: Machine, state: NodeState) -> OtherEndpoints:
    """Return the endpoints of other nodes that the inventory does not have; none if `state` has no policy.

    They are those on the disk that the node with this state accepts. A file that cannot be read has none: calicoctl
    reports that, and the next sync or the running agent replaces the file.
    """
    if state.policy is None:
        return NO_OTHERS
    from .store import other_endpoints  # the datastore's code takes a third of the time in which the module node loads

    return other_endpoints.load(machine.store, state)
