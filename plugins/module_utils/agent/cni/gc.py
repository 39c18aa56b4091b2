# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GC: removes what a network has and the runtime no longer knows of. Other networks are none of its business."""

from __future__ import annotations

from ..api.protocol import AgentError
from . import identity
from .configuration import Configuration
from .errors import GC_INCOMPLETE, CniError
from .port import CniBackend


async def collect(agent: CniBackend, configuration: Configuration) -> list[str]:
    """The ids that were removed. Raises CniError for those that could not be, once all were tried."""
    network, valid = configuration.name, configuration.valid_attachments
    stale = {
        workload.id for workload in agent.list() if workload.network == network and identity.key(workload) not in valid
    }
    # Of workloads that did not come back after a reboot only the addresses are left.
    stale |= {
        allocation.handle
        for allocation in agent.ipam.allocations()
        if allocation.attributes.get("network") == network
        and (allocation.attributes.get("container"), allocation.attributes.get("interface")) not in valid
    }
    failures = []
    for id in sorted(stale):
        try:
            await agent.delete(id)
        except AgentError as error:
            failures.append(f"{id}: {error}")
    if failures:
        raise CniError(
            GC_INCOMPLETE, f"{len(failures)} of {len(stale)} stale attachments were not removed", "; ".join(failures)
        )
    return sorted(stale)
