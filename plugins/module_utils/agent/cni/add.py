# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ADD: an address and an interface for a container, or an error and nothing left behind."""

from __future__ import annotations

import typing as t

from ..request import AddRequest
from . import identity, result
from .configuration import Configuration, Wishes
from .environment import Arguments, Attachment
from .errors import INVALID_ENVIRONMENT, CniError, shown
from .port import Agent

Environment = t.Mapping[str, str]


async def add(
    agent: Agent, attachment: Attachment, arguments: Arguments, configuration: Configuration
) -> dict[str, t.Any]:
    """The result. Raises CniError or AgentError."""
    network, previous, dns = configuration.name, configuration.previous, configuration.dns
    wishes = configuration.wishes(arguments)
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
    workload = await agent.add(_request(network, attachment, arguments, wishes))
    return result.added(workload, configuration.version, previous, dns)


def _request(network: str, attachment: Attachment, arguments: Arguments, wishes: Wishes) -> AddRequest:
    return AddRequest(
        id=identity.workload_id(network, attachment.container, attachment.ifname),
        name=_name(arguments.name) or _name(attachment.container),
        namespace=_name(arguments.namespace) or "default",
        netns=attachment.netns,
        netns_owned=False,
        peer_interface=attachment.ifname,
        address=wishes.address,
        pools=wishes.pools,
        labels=wishes.labels,
        mac=wishes.mac,
        mtu=wishes.mtu,
        network=network,
        container=attachment.container,
    )


def _name(text: str) -> str:
    """What a runtime calls a container, as the name of a workload: it is for people, the id is what counts."""
    kept = "".join(
        character if character.isascii() and character.isalnum() or character in "-_." else "-" for character in text
    )
    return kept[:_NAME_LIMIT].strip("-_.")


_NAME_LIMIT = 128
