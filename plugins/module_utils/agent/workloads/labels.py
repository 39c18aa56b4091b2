# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes to the labels of attached workloads. Links and addresses stay as they are."""

from __future__ import annotations

import typing as t

from ...state.attachment import AttachedWorkload
from .context import WorkloadContext


async def relabel(on: WorkloadContext, id: str, labels: t.Mapping[str, t.Optional[str]]) -> AttachedWorkload:
    """Set these labels on the workload `id` beside its own, None removing one; return the workload as it is then.

    Keys and values are not checked. Policy is updated later. If the record stays the same, nothing is written. Raise
    AgentError with code `not_found` if no such workload is attached, or `not_written` if the disk refuses.
    """
    async with on.locks(id):
        workload = on.table.need(id)
        return save_labels(on, workload, workload.labelled(labels))


def save_labels(on: WorkloadContext, before: AttachedWorkload, workload: AttachedWorkload) -> AttachedWorkload:
    """Record an attached workload with its new labels, report a change of them to policy and watchers, and return it.

    `before` is the version in the table; if `workload` is that very object, do nothing. Raise AgentError with code
    `not_written` if the disk refuses.
    """
    if workload is before:
        return before
    with on.persisted.writing("record"):
        on.persisted.records.save(workload)
    on.table.replace(workload)
    if workload.labels != before.labels:
        on.policy.workloads_changed()
        on.events.tell("labelled", workload=workload.to_dict())
    return workload
