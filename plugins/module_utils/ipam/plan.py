# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner: all nodes of the inventory and the last plan in, the next plan out."""

from __future__ import annotations

import typing as t

from .allocation_plan import AllocationPlan
from .inputs import NodeEntry, PoolRange, WorkloadRequest


def plan(
    pools: t.Iterable[PoolRange],
    nodes: t.Iterable[NodeEntry],
    previous: t.Optional[AllocationPlan] = None,
    *,
    workloads: t.Iterable[WorkloadRequest] = (),
    tunnels: t.Optional[t.Mapping[str, t.Mapping[str, t.Collection[str]]]] = None,
    spare_blocks: int = 1,
    released: t.Collection[str] = (),
) -> AllocationPlan:
    """The plan that follows `previous` (None: nothing was planned before).

    `nodes` are ALL nodes of the inventory that may own blocks, never only those of a limited run.
    `tunnels` is {node: {"ipip"|"vxlan": names of the pools that use this encapsulation}}.
    `released` holds names of removed nodes and CIDRs whose blocks leave quarantine.
    Raises PlanError.
    """
    raise NotImplementedError
