# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which addresses a node probes to prove its paths to the others."""

from __future__ import annotations

import dataclasses
import typing as t

from .cidr import inside
from .fleet import TUNNEL_KIND
from .node_state import OVERHEAD, Ipam, NodeState


@dataclasses.dataclass(frozen=True)
class Path:
    """`size` is that of the whole IP packet in bytes: the largest that the path has to carry."""

    node: str
    address: str
    size: int


def paths(state: NodeState, others: t.Mapping[str, Ipam], sample: int = 0) -> list[Path]:
    """One path to each pool of each other node (`others`: name -> what it owns) in which something answers.

    A node itself answers at the addresses of its tunnels and at nothing else in its blocks; where it has none in a pool
    a workload's address stands in, unless there is policy, which may keep it from answering. `sample` > 0 keeps that
    many paths, spread over the fleet and different from node to node. A pure reflector has no way to any block, so none
    to probe.
    """
    if state.bird is not None and not state.bird.workload_node:
        return []
    # During a change the tunnels of both modes stand, on all nodes alike.
    kinds = {TUNNEL_KIND.get(pool.encapsulation) for pool in state.pools} | {device.kind for device in state.devices}
    found = []
    for name, ipam in sorted(others.items()):
        if name == state.node:
            continue
        # A tunnel address outlives its tunnel: it is kept for the case that the mode comes back.
        tunnels = sorted(address for kind, address in ipam.tunnels.items() if kind in kinds)
        answering = [*tunnels, *(sorted(ipam.workloads.values()) if state.policy is None else ())]
        for pool in state.pools:
            address = next((address for address in answering if inside(f"{address}/32", pool.cidr)), None)
            hidden = pool.disable_bgp_export and state.bird is not None
            if address is not None and not hidden:
                found.append(Path(name, address, state.underlay_mtu - OVERHEAD[pool.encapsulation]))
    if 0 < sample < len(found):
        start = sum(state.node.encode()) % len(found)
        step = len(found) // sample
        found = [found[(start + index * step) % len(found)] for index in range(sample)]
    return found
