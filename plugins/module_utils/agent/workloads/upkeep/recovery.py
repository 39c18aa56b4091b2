# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's start: it reads the records back, and removes what was under way when the last agent ended."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import typing as t

from ....dataplane.drivers.workload import adopted
from ....state.attachment import AttachedWorkload
from ....wire.protocol import AgentError
from .. import publish
from ..context import WorkloadContext
from ..describe import chosen_again

_log = logging.getLogger("calico.workloads")

#: The identity that the table gets for a namespace that was not found or could not be read. No real namespace has it.
_UNKNOWN = "unknown"


async def recover(
    on: WorkloadContext,
    attached: t.Sequence[AttachedWorkload],
    unfinished: t.Sequence[AttachedWorkload],
    prefixes: t.Collection[str] = (),
) -> None:
    """Load the attached workloads into the table, and remove the unfinished ones, whose add or delete was under way.

    Addresses and identities of namespaces that the attached ones lack are allocated or looked for, and their ports
    claimed again. Labels of their containers stay if one of `prefixes` begins their keys. One attempt at each removal
    is awaited; the cleanup retries. No error of the disk or the kernel is raised.
    """
    on.table.load(chosen_again(workload, prefixes) for workload in attached)
    on.addresses.adopt(on.table)
    await _identify(on)
    on.persisted.note("ports", " ".join(publish.claim_again(on)))
    for workload in unfinished:
        on.cleanup.add(workload, on.table.endpoint(workload))
        on.table.forget_endpoint(workload)
    await on.cleanup.step()


async def _identify(on: WorkloadContext) -> None:
    """Find the namespaces of workloads whose records, written by an earlier release, do not identify them.

    A namespace is a workload's if the workload's link is in it with one of its addresses. If it is not, the workload
    has ended, and the table gets the identity "unknown" for it, which no namespace has; so it does if the namespace
    cannot be read. An identity that was found is also written to the record.
    """
    for workload in on.table:
        if workload.netns_identity or workload.netns_owned or workload.handed_over:
            continue
        try:
            found = await on.in_kernel(adopted, on.table.endpoint(workload))
        except AgentError as error:
            _log.warning("The network namespace of workload %s cannot be looked into: %s", workload.id, error)
            found = ""
        workload = dataclasses.replace(workload, netns_identity=found or _UNKNOWN)
        on.table.replace(workload)
        if found:
            with contextlib.suppress(OSError):  # If the record cannot be written, the next start searches again.
                on.persisted.records.save(workload)
