# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison of one attached workload with the kernel."""

from __future__ import annotations

import dataclasses
import typing as t

from ...dataplane.drivers import workload as workload_driver
from ...dataplane.planning.plan import plan_node
from ...state.node_state import NodeState
from .context import WorkloadContext


async def check(on: WorkloadContext, id: str, need_desired: t.Callable[[], NodeState]) -> list[str]:
    """Return texts that say how a workload differs from its desired state; [] if it does not differ.

    Its link, sysctls, routes and addresses are compared, not policy. Something superfluous is no difference. Change
    nothing. `need_desired` returns the node's desired state, or raises AgentError. Raise AgentError with code
    `not_found` if no workload `id` is attached, or `kernel` if the kernel cannot be read.
    """
    async with on.locks(id), on.rwlock.shared():
        workload = on.table.need(id)
        desired = need_desired()
        problems = []
        stray = on.addresses.missing(workload)
        if stray:
            problems.append(f"its address {', '.join(stray)} is not allocated to it")
        own = on.table.endpoint(workload)
        alone = dataclasses.replace(
            desired,
            workloads=(own,),
            probe_endpoint=None,
            routes=tuple(item for item in desired.routes if item.device == own.interface),
            sysctls=tuple(item for item in desired.sysctls if own.interface in item.key.split("/")),
        )
        planned = await on.in_kernel(plan_node, alone, ("workload", "sysctl", "route"), (own.interface,))
    # Only additions are problems: `alone` lacks the other workloads, so removals in its plan may concern those.
    problems += [change.line().strip() for change in planned.additions]
    return problems + [change.note for change in planned.kept if change.subject == workload_driver.identity(own)]
