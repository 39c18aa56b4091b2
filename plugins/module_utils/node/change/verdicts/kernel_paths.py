# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths of flows through this node by the policy of a state, with the interfaces and routes of its kernel."""

from __future__ import annotations

import dataclasses
import typing as t

from ....dataplane.kernel.port import Kernel
from ....policy.explain.evaluator import Evaluator
from ....policy.explain.packet_path import PathHost, Paths
from ....policy.model import HOST_ENDPOINT, Endpoint
from ....state.fleet_list import probe_nodes
from ....state.node_policy_tables import all_endpoints, chain_settings
from ....state.node_state import NodeState
from ....state.policy_state import PolicyState
from ... import desired


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelHost(PathHost):
    """A node whose kernel says which interface leads to an address. `known` caches the answers by address."""

    kernel: Kernel
    known: dict[str, str] = dataclasses.field(default_factory=dict)

    def interface_to(self, address: str) -> str:
        """Return the interface by which the kernel reaches an address, "" if no route does. Raise KernelError."""
        if address not in self.known:
            route = self.kernel.route_to(address)
            self.known[address] = (route.device if route else "") or ""
        return self.known[address]


def kernel_host(kernel: Kernel, node: str) -> KernelHost:
    """Return this node as the kernel knows it. Raise KernelError."""
    interfaces = desired.host_interfaces(kernel).items()
    return KernelHost(node, tuple((name, tuple(held)) for name, held in interfaces), kernel=kernel)


def paths(
    host: PathHost,
    state: NodeState,
    policy: PolicyState,
    others: t.Iterable[Endpoint],
    live: t.Collection[str],
    ends: t.Optional[t.Collection[str]] = None,
) -> Paths:
    """Return the paths through `host` by `policy`, which is that of `state`. `state` has all workloads of the node.

    `others` are other nodes' endpoints that the inventory does not have; what it says of workloads of `live` nodes does
    not count. If `ends` is given, the paths are only those of flows between these addresses, which takes less time.
    """
    endpoints = all_endpoints(state, policy, others, live)
    if ends is not None:
        # A rule selects an address by its owner, so that those of other addresses do not matter.
        own, held = state.node, frozenset(ends)
        endpoints = (
            one
            for one in endpoints
            if (one.kind == HOST_ENDPOINT and one.node == own) or not held.isdisjoint(one.addresses)
        )
    nodes = {cidr.partition("/")[0] for member in state.nodes for cidr in (member.address, member.address6) if cidr}
    evaluator = Evaluator(policy.policy_set, endpoints)
    return Paths(evaluator, [host], chain_settings(state, policy.settings), nodes, probe_nodes(state.nodes))
