# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CNI command DEL. It succeeds for an attachment that is gone already (specification, section 2, "DEL")."""

from __future__ import annotations

from ..api.protocol import NOT_FOUND, AgentError
from . import identity
from .environment import Attachment
from .port import CniBackend


async def delete(agent: CniBackend, network: str, attachment: Attachment) -> bool:
    """Delete the workload of an attachment and release its address; return True, or False if neither is known.

    Only the address may be left; it is not known while the allocations cannot be read. What the kernel refuses is
    retried later. Raise AgentError if the disk refuses to record the delete, or to release an address that is left
    without a workload.
    """
    id = identity.workload_id(network, attachment.container, attachment.ifname)
    if agent.get(id) is not None and identity.find(agent, network, attachment) is None:
        return False
    try:
        # Called also if there is no workload: after a reboot only its address may be left.
        return await agent.delete(id)
    except AgentError as error:
        if error.code == NOT_FOUND:
            return False
        raise
