# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CNI command ADD: an address and an interface for a container, or an error and nothing left behind."""

from __future__ import annotations

import typing as t

from ...wire.plugin_errors import INVALID_ENVIRONMENT, CniError
from ..attachment import Attachment, attach
from ..json_input import shown
from . import result
from .configuration import Configuration
from .environment import Arguments
from .port import CniBackend


async def add(
    agent: CniBackend, attachment: Attachment, arguments: Arguments, configuration: Configuration
) -> dict[str, t.Any]:
    """Attach a container's interface to a network, and return the CNI result, a JSON object.

    See `attachment.attach`. Raise CniError if a variable, the configuration or `prevResult` is wrong, and AgentError if
    the agent refuses or fails. A new workload is deleted again if the result cannot be made.
    """
    previous, dns = configuration.previous, configuration.dns
    request = configuration.request(attachment, arguments)
    if previous is not None:
        # The previous result is checked before the container is attached, so that a bad one leaves nothing attached.
        before = result.checked(previous)
        if result.interface_index(before, attachment.ifname, attachment.netns) is not None:
            raise CniError(
                INVALID_ENVIRONMENT,
                f"environment variable CNI_IFNAME has the value {shown(attachment.ifname)}",
                "A plugin before this one in the chain has made an interface of that name in the container.",
            )
    workload, is_new = await attach(agent, request)
    try:
        return result.added(workload, configuration.version, previous, dns)
    except CniError:
        if is_new:
            await agent.delete(workload.id)
        raise
