# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which addresses a node probes to prove its paths to the others."""

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
    """`size` is that of the whole IP packet in bytes: the largest that the path has to carry."""

    node: str
    address: str
    size: int


def paths(state: NodeState, others: t.Mapping[str, NodeIpam], sample: int = 0, proof: bool = False) -> list[ProbePath]:
    """One path to each pool of each other node (`others`: name -> what it owns) in which something answers.

    A node itself answers at the addresses of its tunnels and at nothing else in its blocks; where it has none in a pool
    a workload's address stands in, unless there is policy, which may keep it from answering. `sample` > 0 keeps that
    many paths, spread over the fleet and different from node to node. A pure reflector has no way to any block, so none
    to probe.

    `proof`: as it is before the flip. What only routers outside the fleet will forward goes the old way until they have
    said how, and takes what that takes.
    """
    if state.bird is not None and not state.bird.workload_node:
        return []
    # During a change the tunnels of both modes stand, on all nodes alike.
    kinds = {tunnel_kind(pool) for pool in state.pools} | {_KINDS.get(device.name) for device in state.devices}
    found = []
    for name, ipam in sorted(others.items()):
        if name == state.node:
            continue
        # A tunnel address outlives its tunnel: it is kept for the case that the mode comes back.
        tunnels = sorted(address for kind, address in ipam.tunnels.items() if kind in kinds)
        workloads = [*sorted(ipam.workloads.values()), *sorted(ipam.workloads6.values())]
        answering = [*tunnels, *(workloads if state.policy is None else ())]
        for pool in state.pools:
            if not (state.address6 if family_of(pool.cidr) == 6 else state.address):
                continue  # no way to it from here
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
