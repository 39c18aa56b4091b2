# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CNI command GC: it removes a network's attachments that the runtime does not know. Other networks stay."""

from __future__ import annotations

from ...wire.plugin_errors import GC_INCOMPLETE, CniError
from ...wire.protocol import AgentError
from ..attachment import key
from .configuration import Configuration
from .port import CniBackend


async def collect(agent: CniBackend, configuration: Configuration) -> list[str]:
    """Delete a network's attachments that the configuration does not list as valid; return their workloads' sorted ids.

    Attachments that have left only an address are among them. Raise CniError if the configuration is wrong, before
    anything is deleted, or if some could not be deleted, after all were tried. Raise AgentError if the agent's
    allocations cannot be read.
    """
    network, valid = configuration.name, configuration.valid_attachments
    stale = {workload.id for workload in agent.list() if workload.network == network and key(workload) not in valid}
    # Only the addresses are left of workloads that did not come back after a reboot.
    stale |= {
        allocation.handle
        for allocation in agent.node.ipam.allocations()
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
