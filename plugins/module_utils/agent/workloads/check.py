# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queries about attached workloads: selection by labels, and comparison of one workload with the kernel."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import selectors
from ...dataplane.drivers import workload as workload_driver
from ...dataplane.planning.plan import plan_node
from ...state.attachment import AttachedWorkload
from ...state.node_state import NodeState
from ...wire import protocol
from ...wire.protocol import AgentError
from ..known.workload_table import WorkloadTable
from .context import WorkloadContext

SELECTOR_LIMIT = 4096  # the most characters in a caller's selector


def select(table: WorkloadTable, selector: t.Optional[str] = None) -> list[AttachedWorkload]:
    """Return the attached workloads, sorted by id, that `selector` selects. Raise what `parsed_selector` raises."""
    found = sorted(table, key=lambda workload: workload.id)
    if selector is None:
        return found
    selects = parsed_selector(selector)
    return [workload for workload in found if selects.matches(workload.labels)]


def parsed_selector(text: str) -> selectors.Selector:
    """Return a caller's selector, parsed. Raise AgentError (invalid_params) above 4096 characters or if it is wrong."""
    if len(text) > SELECTOR_LIMIT:
        raise AgentError(
            protocol.INVALID_PARAMS,
            f"workload.list: selector has {len(text)} characters, and at most {SELECTOR_LIMIT} are taken. Ask for all "
            "workloads, and select among the answer.",
            {"field": "selector"},
        )
    try:
        return selectors.parse_once(text)
    except selectors.SelectorError as error:
        shown = repr(text if len(text) <= 80 else text[:77] + "...")
        raise AgentError(protocol.INVALID_PARAMS, f"workload.list: selector {shown}: {error}") from error


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
            routes=tuple(item for item in desired.routes if item.device == own.interface),
            sysctls=tuple(item for item in desired.sysctls if own.interface in item.key.split("/")),
        )
        planned = await on.in_kernel(plan_node, alone, ("workload", "sysctl", "route"), (own.interface,))
    # Only additions are problems: `alone` lacks the other workloads, so removals in its plan may concern those.
    problems += [change.line().strip() for change in planned.additions]
    return problems + [change.note for change in planned.kept if change.subject == workload_driver.identity(own)]
