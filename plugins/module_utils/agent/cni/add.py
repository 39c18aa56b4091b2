# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ADD: an address and an interface for a container, or an error and nothing left behind."""

from __future__ import annotations

import re
import typing as t

from ..api import protocol
from ..api.protocol import AgentError
from ..api.request import AddRequest
from . import identity, result
from .configuration import AddParams, Configuration
from .environment import Arguments, Attachment
from .errors import INVALID_ENVIRONMENT, CniError, shown
from .port import CniBackend

Environment = t.Mapping[str, str]


async def add(
    agent: CniBackend, attachment: Attachment, arguments: Arguments, configuration: Configuration
) -> dict[str, t.Any]:
    """The result. Raises CniError or AgentError."""
    network, previous, dns = configuration.name, configuration.previous, configuration.dns
    add_params = configuration.add_params(arguments)
    if previous is not None:
        # Before anything is done, not when its result is to be printed
        before = result.checked(previous)
        if result.interface_index(before, attachment.ifname, attachment.netns) is not None:
            raise CniError(
                INVALID_ENVIRONMENT,
                f"environment variable CNI_IFNAME has the value {shown(attachment.ifname)}",
                "A plugin before this one in the chain has made an interface of that name in the container.",
            )
    present = identity.find(agent, network, attachment)
    if present is not None and present.netns != attachment.netns:
        # The container was started again, and nobody sent a DEL for what it was before (podman after a crash).
        await agent.delete(present.id)
    request = _request(network, attachment, arguments, add_params)
    try:
        workload = await agent.add(request)
    except AgentError as error:
        if error.code != protocol.CONFLICT or error.data.get("field") != "netns":
            raise
        # Started again at the same path, which leads to another namespace now.
        await agent.delete(request.id)
        workload = await agent.add(request)
    try:
        return result.added(workload, configuration.version, previous, dns)
    except CniError:
        if present is None:
            await agent.delete(workload.id)
        raise


def _request(network: str, attachment: Attachment, arguments: Arguments, add_params: AddParams) -> AddRequest:
    return AddRequest(
        id=identity.workload_id(network, attachment.container, attachment.ifname),
        name=_name(attachment, arguments.name),
        namespace=_readable(arguments.namespace) or "default",
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


def _name(attachment: Attachment, given: str) -> str:
    """Of the workload: one of its own for each attachment, and where the runtime has a name for the container
    (podman and Kubernetes do) one that people recognise."""
    name = _readable(given)
    if name and _RANDOM.fullmatch(attachment.container):
        return f"{name}.{attachment.container[:12]}.{_readable(attachment.ifname) or 'if'}"
    return f"{attachment.container}.{_readable(attachment.ifname) or 'if'}"


def _readable(text: str) -> str:
    """What a runtime calls something, as part of a name."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() or letter in "-_." else "-" for letter in text)
    return kept[:_NAME_LIMIT].strip("-_.")


_NAME_LIMIT = 100
#: A container's id of which the first digits are enough, as everywhere where containers are listed.
_RANDOM = re.compile(r"[0-9a-f]{32,}")
