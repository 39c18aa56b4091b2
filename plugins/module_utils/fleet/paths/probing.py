# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses that a node probes to test its paths to the other nodes."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import contains, family_of
from ...bgp import route_sources
from ...state.node_state import NodeIpam, NodeState, overhead
from ..fleet import TUNNEL_DEVICE, tunnel_kind
from . import untried

_KINDS = {device: kind for kind, device in TUNNEL_DEVICE.items()}


@dataclasses.dataclass(frozen=True)
class ProbePath:
    """An address of another node to probe. `size` is the size of the largest IP packet on this path, in bytes."""

    node: str
    address: str
    size: int
    pool: str = ""


class ProbePlan(t.NamedTuple):
    """The paths that a node probes, and those to other nodes' blocks that it does not probe."""

    paths: list[ProbePath]
    untried: list[untried.Untried]


def plan(state: NodeState, others: t.Mapping[str, NodeIpam], sample: int = 0, proof: bool = False) -> ProbePlan:
    """Return what a node probes: one path for each other node and each pool in which that node answers.

    `others` maps node names to what they own. In its blocks a node answers at the addresses of its tunnels only, and
    those count whose kind a pool or device of `state` uses. Each block of another node in a pool without such an
    address is untried. With BGP, pools with disable_bgp_export are untried. Pools of an IP version that the node has no
    address of are left out. A `sample` > 0 keeps at most that many paths, spread over the fleet from a place that the
    node's name gives, and the others are untried; 0 keeps all. Both lists are empty for a pure reflector, which has no
    route to any block.

    `proof` is True for probes before the phase `flip`. Then packets that only routers outside the fleet will forward
    still take the old path, so on those paths `size` is at most the MTU that fits both modes.
    """
    if state.bird is not None and not state.bird.workload_node:
        return ProbePlan([], [])
    # The devices count besides the pools' tunnels, because nodes have the tunnels of both modes during a change.
    kinds = {tunnel_kind(pool) for pool in state.pools} | {_KINDS.get(device.name) for device in state.devices}
    found: list[ProbePath] = []
    gaps: dict[tuple[str, str], list[str]] = {}
    for name, ipam in sorted(others.items()):
        if name == state.node:
            continue
        for pool in state.pools:
            if not (state.address6 if family_of(pool.cidr) == 6 else state.address):
                continue  # this node has no address of the pool's IP version
            # A node keeps a tunnel's address after the tunnel is removed, for a later change back to that mode.
            address = untried.address_in(pool, ipam.tunnels, kinds)
            hidden = pool.disable_bgp_export and state.bird is not None
            if address is None or hidden:
                reason = untried.reason_for(pool, ipam)
                if reason is not None:
                    gaps.setdefault((pool.name, untried.NOT_ADVERTISED if hidden else reason), []).append(name)
                continue
            size = state.underlay_mtu - overhead(pool.encapsulation, pool.cidr)
            if proof and pool.route_mtu is not None and _by_routers(state, address):
                size = min(size, pool.route_mtu)
            found.append(ProbePath(name, address, size, pool.name))
    if 0 < sample < len(found):
        start = sum(state.node.encode()) % len(found)
        step = len(found) // sample
        picked = [found[(start + index * step) % len(found)] for index in range(sample)]
        for path in set(found).difference(picked):
            gaps.setdefault((path.pool, untried.SAMPLED), []).append(path.node)
        found = picked
    return ProbePlan(found, untried.grouped(gaps))


def _by_routers(state: NodeState, address: str) -> bool:
    routes = [route for route in state.bird_routes if contains(route.destination, address)]
    return state.bird is not None and any(route_sources.by_routers_alone(state.bird, route) for route in routes)
