# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CNI command ADD: an address and an interface for a container, or an error and nothing left behind."""

from __future__ import annotations

import typing as t

from ...wire.request import AddRequest
from .. import attaching
from ..attachment import Attachment, readable, workload_id, workload_name
from ..json_input import shown
from . import result
from .configuration import AddParams, Configuration
from .environment import Arguments
from .errors import INVALID_ENVIRONMENT, CniError
from .port import CniBackend

Environment = t.Mapping[str, str]


async def add(
    agent: CniBackend, attachment: Attachment, arguments: Arguments, configuration: Configuration
) -> dict[str, t.Any]:
    """Attach a container's interface to a network, and return the CNI result, a JSON object.

    A workload of the same network, container and interface in another network namespace is deleted first. Raise
    CniError if a variable, the configuration or `prevResult` is wrong, and AgentError if the agent refuses or fails. A
    new workload is deleted again if the result cannot be made.
    """
    network, previous, dns = configuration.name, configuration.previous, configuration.dns
    add_params = configuration.add_params(arguments)
    if previous is not None:
        # The previous result is checked before the container is attached, so that a bad one leaves nothing attached.
        before = result.checked(previous)
        if result.interface_index(before, attachment.ifname, attachment.netns) is not None:
            raise CniError(
                INVALID_ENVIRONMENT,
                f"environment variable CNI_IFNAME has the value {shown(attachment.ifname)}",
                "A plugin before this one in the chain has made an interface of that name in the container.",
            )
    workload, is_new = await attaching.attach(agent, _request(network, attachment, arguments, add_params))
    try:
        return result.added(workload, configuration.version, previous, dns)
    except CniError:
        if is_new:
            await agent.delete(workload.id)
        raise


def _request(network: str, attachment: Attachment, arguments: Arguments, add_params: AddParams) -> AddRequest:
    return AddRequest(
        id=workload_id(network, attachment.container, attachment.ifname),
        name=workload_name(attachment, arguments.name),
        namespace=readable(arguments.namespace) or "default",
        netns=attachment.netns,
        netns_owned=False,
        peer_interface=attachment.ifname,
        address=add_params.address,
        address6=add_params.address6,
        families=add_params.families,
        pools=add_params.pools,
        labels=add_params.labels,
        mac=add_params.mac,
        mtu=add_params.mtu,
        network=network,
        container=attachment.container,
    )
