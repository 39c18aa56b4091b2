# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes to attached workloads: their labels, and where a container engine moved what was handed over to it."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
import typing as t

from ...base.terminal_text import cut
from ...dataplane.drivers.workload import complete_handed_over
from ...state.attachment import AttachedWorkload
from ...wire import protocol
from ...wire.protocol import AgentError
from ..log.transactions import transaction
from .context import WorkloadContext

_log = logging.getLogger("calico.workloads")

_NAMESPACE = re.compile(r"(/[A-Za-z0-9_.:@+-]{1,255}){1,16}")
#: Seconds between two looks at the inner ends that are waited for, and for which one is waited for.
_PAUSE, _LONGEST_WAIT = 0.2, 60.0


async def relabel(on: WorkloadContext, id: str, labels: t.Mapping[str, t.Optional[str]]) -> AttachedWorkload:
    """Set these labels on the workload `id` beside its own, None removing one; return the workload as it is then.

    Keys and values are not checked. Policy is updated later. Raise AgentError with code `not_found` if no such workload
    is attached, or `not_written` if the disk refuses.
    """
    async with transaction("label", id), on.locks(id):
        workload = on.table.need(id)
        return save_labels(on, workload, workload.labelled(labels))


def save_labels(on: WorkloadContext, before: AttachedWorkload, workload: AttachedWorkload) -> AttachedWorkload:
    """Record an attached workload with new labels, or another name of its container, in place of `before`; return it.

    A change is reported.
    """
    if workload is before:
        return before
    with on.persisted.writing("record"):
        on.persisted.records.save(workload)
    on.table.replace(workload)
    if workload.labels != before.labels:
        on.policy.workloads_changed()
        on.events.tell("labelled", workload=workload.to_dict())
    elif workload.container_name != before.container_name:
        # It is published, and policy does not depend on it.
        on.policy.workloads_changed(later=True)
    return workload


async def join(on: WorkloadContext, id: str, netns: str) -> tuple[AttachedWorkload, list[str]]:
    """Record the path of the namespace that a workload's inner end is moved to; return the workload and its siblings.

    The namespace need not exist yet. Raise AgentError with code `invalid_params` for a text that is no path,
    `not_found` if no such workload is attached, `conflict` if it was not handed over, or `not_written` if the disk
    refuses.
    """
    if not _NAMESPACE.fullmatch(netns):
        raise AgentError(
            protocol.INVALID_PARAMS,
            f"workload.join: netns {cut(netns)!r} must be the absolute path of a network namespace.",
            {"field": "netns"},
        )
    async with transaction("join", id), on.locks(id):
        workload = on.table.need(id)
        if not workload.handed_over:
            raise AgentError(
                protocol.CONFLICT,
                f"workload {id} was not handed over: its end is where it was attached. Delete it, then add it anew.",
            )
        if workload.netns != netns:
            workload = dataclasses.replace(workload, netns=netns)
            with on.persisted.writing("record"):
                on.persisted.records.save(workload)
            on.table.replace(workload)
    return workload, siblings(on, workload)


def siblings(on: WorkloadContext, workload: AttachedWorkload) -> list[str]:
    """Return the ids of the other workloads that were handed over and are in the namespace of this one, sorted."""
    if not workload.handed_over or not workload.netns:
        return []
    return sorted(
        one.id for one in on.table if one.handed_over and one.netns == workload.netns and one.id != workload.id
    )


class JoinedEnds:
    """The inner ends that a container engine is moving, until each is found in its container.

    The engine configures an inner end. What it has no words for is added here as soon as the engine is done: answers
    have to leave by the interface that has their address, because the host drops them otherwise.
    """

    def __init__(self, on: WorkloadContext, clock: t.Callable[[], float]) -> None:
        self._on = on
        self._clock = clock
        self._until: dict[str, float] = {}  # id: when it is waited for no longer, in seconds of the clock
        self._asked = asyncio.Event()

    def expect(self, ids: t.Iterable[str]) -> None:
        """Wait for the inner ends of these workloads."""
        for id in ids:
            self._until[id] = self._clock() + _LONGEST_WAIT
        if self._until:
            self._asked.set()

    async def run(self) -> None:
        """Complete the inner ends as they are found, until cancelled. At first all that have joined are looked for."""
        self.expect(one.id for one in self._on.table if one.handed_over and one.netns)
        while True:
            await self._asked.wait()
            self._asked.clear()
            while self._until:
                await self.look()
                await asyncio.sleep(_PAUSE)

    async def look(self) -> None:
        """Complete each inner end that is in its container, and forget those waited for too long. Log refusals."""
        state = self._on.persisted.state
        pools = [pool.cidr for pool in (state.pools if state is not None else ())]
        for id, until in list(self._until.items()):
            async with self._on.locks(id):
                workload = self._on.table.get(id)
                done = workload is None
                if workload is not None:
                    try:
                        done = await self._on.in_kernel(complete_handed_over, self._on.table.endpoint(workload), pools)
                    except AgentError as error:
                        _log.warning("The inside of workload %s cannot be completed: %s", id, error)
            if (done or self._clock() >= until) and self._until.get(id) == until:
                del self._until[id]
