# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which addresses a node probes to prove its paths to the others."""

from __future__ import annotations

import dataclasses
import typing as t

from .compiler import OVERHEAD
from .node_state import Ipam, NodeState


@dataclasses.dataclass(frozen=True)
class Path:
    """`size` is that of the whole IP packet in bytes: the largest that the path has to carry."""

    node: str
    address: str
    size: int


def paths(state: NodeState, others: t.Mapping[str, Ipam], sample: int = 0) -> list[Path]:
    """One path to each other node (`others`: name -> what it owns) that answers inside one of its blocks.

    A node itself answers at its tunnel addresses and at nothing else in its blocks; where it has none a workload's
    address stands in. `sample` > 0 keeps that many paths, spread over the fleet and different from node to node.
    A pure reflector has no way to any block, so none to probe.
    """
    if state.bird is not None and not state.bird.workload_node:
        return []
    found = []
    encapsulations = {pool.name: pool.encapsulation for pool in state.pools}
    for name, ipam in sorted(others.items()):
        answering = sorted(ipam.tunnels.values()) or sorted(ipam.workloads.values())
        if name == state.node or not answering:
            continue
        overhead = max(OVERHEAD[encapsulations.get(block.pool, "None")] for block in ipam.blocks)
        found.append(Path(name, answering[0], state.underlay_mtu - overhead))
    if 0 < sample < len(found):
        start = sum(state.node.encode()) % len(found)
        step = len(found) // sample
        found = [found[(start + index * step) % len(found)] for index in range(sample)]
    return found
