# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and labels of containers, as calico-runtimes.service reports them: nothing else of a workload changes."""

from __future__ import annotations

import typing as t

from ...base import container_labels
from ...state.attachment import AttachedWorkload
from ...wire import protocol
from ...wire.container_description import DOCKER, PODMAN, ContainerDescription
from ...wire.protocol import AgentError
from ..log.transactions import transaction
from .context import WorkloadContext
from .updates import save_labels

#: The most changes at once, and in a second from then on. Each writes a record, and one of labels updates policy.
BURST, RATE = 200, 50.0
#: The runtimes whose containers can be asked for by the container's id.
_BY_ID = (PODMAN, "cni")


class Descriptions:
    """The names and labels of containers. `prefixes` begin the keys of labels that are taken, `clock` is in seconds."""

    def __init__(self, on: WorkloadContext, prefixes: t.Collection[str], clock: t.Callable[[], float]) -> None:
        self.prefixes = tuple(prefixes)
        self._on = on
        self._clock = clock
        self._left = float(BURST)
        self._since = clock()

    def known(self) -> dict[str, t.Any]:
        """Return what a reporter has to know at first: the prefixes, and which containers have workloads."""
        containers = {one.container for one in self._on.table if one.attached_by in _BY_ID}
        docker = any(one.attached_by == DOCKER for one in self._on.table)
        return {"event": "known", "prefixes": list(self.prefixes), "docker": docker, "containers": sorted(containers)}

    async def describe(self, description: ContainerDescription) -> list[AttachedWorkload]:
        """Give the container's name and labels to its workloads; return those that it changed.

        A container without a workload is no error. Policy is updated later. Raise AgentError with code `try_again`
        after too many changes, or `not_written` if the disk refuses.
        """
        changed = []
        for one in [one for one in self._on.table if description.is_about(one)]:
            async with transaction("describe", one.id), self._on.locks(one.id):
                before = self._on.table.get(one.id)
                # It may have been deleted, and another one may have its id, since the lock was waited for.
                if before is None or not description.is_about(before):
                    continue
                workload = before.described(description.name, description.labels)
                if workload is not before:
                    self._take_turn()
                    changed.append(save_labels(self._on, before, workload))
        return changed

    def _take_turn(self) -> None:
        now = self._clock()
        self._left = min(float(BURST), self._left + (now - self._since) * RATE)
        self._since = now
        if self._left < 1:
            raise AgentError(
                protocol.TRY_AGAIN,
                f"more than {RATE:g} containers a second changed. Report this one again in a second.",
            )
        self._left -= 1


def chosen_again(workload: AttachedWorkload, prefixes: t.Collection[str]) -> AttachedWorkload:
    """Return a workload of an earlier agent without those labels of its container that are not chosen any more."""
    labels, _left_out = container_labels.chosen(workload.container_labels, prefixes)
    return workload.described(workload.container_name, labels)
