# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What blocks are planned for."""

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
    """What an IP pool means to the planner. `selects` is its nodeSelector; `automatic` False is assignmentMode Manual:
    nothing is granted from the pool unless a workload or tunnel asks for it by name or address."""

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
    """One address of a workload declared in the inventory. `pool` and `address` None: the planner chooses.

    `version` (4 or 6) is that of the address; a pool or address that is named decides by itself.
    """

    name: str
    node: str
    pool: t.Optional[str] = None
    address: t.Optional[str] = None
    version: int = 4
