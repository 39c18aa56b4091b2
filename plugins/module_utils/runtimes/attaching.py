# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workload of an attachment: found, attached and detached with the agent.

Tests use an agent in memory in place of `agent.agent.Agent`.
"""

from __future__ import annotations

import typing as t

from ..state.attachment import AttachedWorkload
from ..wire import protocol
from ..wire.protocol import AgentError
from ..wire.request import AddRequest
from .attachment import Attachment, workload_id


class AttachmentBackend(t.Protocol):
    """An agent, as every plugin uses it. All members may raise AgentError."""

    async def add(self, request: AddRequest) -> AttachedWorkload:
        """Attach a workload, and return it once it can be reached; its `mac` and `mtu` are those of its inner link.

        Repeating an equal request is no error: it returns the same workload. Raise AgentError if the workload cannot be
        attached, or an attached one does not meet the request.
        """

    async def delete(self, id: str) -> bool:
        """Delete a workload; return False if the id has neither a workload nor an address.

        Raise AgentError if the disk refuses to record that.
        """

    def get(self, id: str) -> t.Optional[AttachedWorkload]: ...

    def list(self, selector: t.Optional[str] = None) -> t.Sequence[AttachedWorkload]: ...


def key(workload: AttachedWorkload) -> tuple[str, str]:
    """Return (container id, interface name) of a workload's attachment."""
    return workload.container, workload.peer_interface


def find(agent: AttachmentBackend, network: str, attachment: Attachment) -> t.Optional[AttachedWorkload]:
    """Return the workload of an attachment, or None if there is none.

    Dots may be part of all three names in an id, so the container and the interface are compared as well.
    """
    found = agent.get(workload_id(network, attachment.container, attachment.ifname))
    return found if found is not None and key(found) == (attachment.container, attachment.ifname) else None


async def attach(agent: AttachmentBackend, request: AddRequest) -> tuple[AttachedWorkload, bool]:
    """Attach the container of `request`; return its workload, and whether this call has made it.

    A workload of the same network, container and interface in another network namespace is deleted first: a container
    that was killed is started again without a request to remove its attachment. Raise AgentError if the agent refuses
    or fails.
    """
    present = find(agent, request.network, Attachment(request.container, request.peer_interface))
    if present is not None and present.netns != request.netns:
        await agent.delete(present.id)
        present = None
    try:
        return await agent.add(request), present is None
    except AgentError as error:
        if error.code != protocol.CONFLICT or error.data.get("field") != "netns":
            raise
    # The container was restarted, and the path of its namespace leads to another namespace.
    await agent.delete(request.id)
    return await agent.add(request), True


async def detach(agent: AttachmentBackend, network: str, attachment: Attachment) -> bool:
    """Delete the workload of an attachment and release its address; return True, or False if neither is known.

    Only the address may be left; it is not known while the allocations cannot be read. What the kernel refuses is
    retried later. Raise AgentError if the disk refuses to record the delete, or to release an address that is left
    without a workload.
    """
    id = workload_id(network, attachment.container, attachment.ifname)
    if agent.get(id) is not None and find(agent, network, attachment) is None:
        return False
    try:
        # Called also if there is no workload: after a reboot only its address may be left.
        return await agent.delete(id)
    except AgentError as error:
        if error.code == protocol.NOT_FOUND:
            return False
        raise
