# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inputs of the planner: pools, nodes and workloads of the inventory."""

from __future__ import annotations

import dataclasses
import typing as t

WORKLOAD, TUNNEL = "Workload", "Tunnel"

#: One address of a workload: its name and the IP version.
WorkloadKey = t.Tuple[str, int]


def _every_node(labels: t.Mapping[str, str]) -> bool:
    return True


@dataclasses.dataclass(frozen=True)
class PoolRange:
    """An IP pool as the planner needs it. `block_size` is the prefix length of its blocks.

    `selects` is the pool's nodeSelector as a function of a node's labels. `automatic` is False for assignmentMode
    Manual: then the pool is only for tunnels, and for workloads that ask for the pool or for an address of it.
    """

    name: str
    cidr: str
    block_size: int = 26
    disabled: bool = False
    allowed_uses: tuple[str, ...] = (WORKLOAD, TUNNEL)
    selects: t.Callable[[t.Mapping[str, str]], bool] = _every_node
    automatic: bool = True


@dataclasses.dataclass(frozen=True)
class NodeEntry:
    name: str
    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class WorkloadRequest:
    """One address of a workload that the inventory declares.

    The planner chooses `pool` and `address` where they are None. These have an IP version of their own; else `version`
    counts.
    """

    name: str
    node: str
    pool: t.Optional[str] = None
    address: t.Optional[str] = None
    version: int = 4
