# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses that a node probes to test its paths to the other nodes."""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.addresses import contains, family_of
from ..bgp import route_sources
from ..state.node_state import NodeIpam, NodeState, overhead
from .fleet import TUNNEL_DEVICE, tunnel_kind

_KINDS = {device: kind for kind, device in TUNNEL_DEVICE.items()}


@dataclasses.dataclass(frozen=True)
class ProbePath:
    """An address of another node to probe. `size` is the size of the largest IP packet on this path, in bytes."""

    node: str
    address: str
    size: int


def paths(state: NodeState, others: t.Mapping[str, NodeIpam], sample: int = 0, proof: bool = False) -> list[ProbePath]:
    """Return the paths that a node probes: one for each other node and each pool in which that node answers.

    `others` maps node names to what they own. In its blocks a node answers at the addresses of its tunnels only, and
    those count whose kind a pool or device of `state` uses. In a pool without such an address the address of a workload
    is used, unless there is policy, which may deny the probe. With BGP, pools with disable_bgp_export are left out. So
    are pools of an IP version that the node has no address of. A `sample` > 0 keeps at most that many paths, spread
    over the fleet from a place that the node's name gives; 0 keeps all. The list is empty for a pure reflector, which
    has no route to any block.

    `proof` is True for probes before the phase `flip`. Then packets that only routers outside the fleet will forward
    still take the old path, so on those paths `size` is at most the MTU that fits both modes.
    """
    if state.bird is not None and not state.bird.workload_node:
        return []
    # The devices count besides the pools' tunnels, because nodes have the tunnels of both modes during a change.
    kinds = {tunnel_kind(pool) for pool in state.pools} | {_KINDS.get(device.name) for device in state.devices}
    found = []
    for name, ipam in sorted(others.items()):
        if name == state.node:
            continue
        # A node keeps a tunnel's address after the tunnel is removed, for a later change back to that mode.
        tunnels = sorted(address for kind, address in ipam.tunnels.items() if kind in kinds)
        workloads = [*sorted(ipam.workloads.values()), *sorted(ipam.workloads6.values())]
        answering = [*tunnels, *(workloads if state.policy is None else ())]
        for pool in state.pools:
            if not (state.address6 if family_of(pool.cidr) == 6 else state.address):
                continue  # this node has no address of the pool's IP version
            address = next((address for address in answering if contains(pool.cidr, address)), None)
            hidden = pool.disable_bgp_export and state.bird is not None
            if address is not None and not hidden:
                size = state.underlay_mtu - overhead(pool.encapsulation, pool.cidr)
                if proof and pool.route_mtu is not None and _by_routers(state, address):
                    size = min(size, pool.route_mtu)
                found.append(ProbePath(name, address, size))
    if 0 < sample < len(found):
        start = sum(state.node.encode()) % len(found)
        step = len(found) // sample
        found = [found[(start + index * step) % len(found)] for index in range(sample)]
    return found


def _by_routers(state: NodeState, address: str) -> bool:
    routes = [route for route in state.bird_routes if contains(route.destination, address)]
    return state.bird is not None and any(route_sources.by_routers_alone(state.bird, route) for route in routes)
