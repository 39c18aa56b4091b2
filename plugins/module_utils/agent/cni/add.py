# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CNI command ADD: an address and an interface for a container, or an error and nothing left behind."""

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
    present = identity.find(agent, network, attachment)
    if present is not None and present.netns != attachment.netns:
        # The container was restarted, and the runtime sent no DEL for its former namespace (podman after a crash).
        await agent.delete(present.id)
        present = None
    request = _request(network, attachment, arguments, add_params)
    try:
        workload = await agent.add(request)
    except AgentError as error:
        if error.code != protocol.CONFLICT or error.data.get("field") != "netns":
            raise
        # The container was restarted, and the path of its namespace leads to another namespace.
        await agent.delete(request.id)
        present = None
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
    """Return the workload's name, which no other attachment on the node normally has.

    It is "<name>.<first 12 digits of the container id>.<interface>" if the runtime gives a name, as podman and
    Kubernetes do, and the id is 32 or more lower-case hex digits. Otherwise it is "<container id>.<interface>". Name
    and interface are as `_readable` returns them, "if" for an empty interface. `given` is the runtime's name or "".
    """
    name = _readable(given)
    if name and _RANDOM.fullmatch(attachment.container):
        return f"{name}.{attachment.container[:12]}.{_readable(attachment.ifname) or 'if'}"
    return f"{attachment.container}.{_readable(attachment.ifname) or 'if'}"


def _readable(text: str) -> str:
    """Return `text` as part of a name: at most 100 ASCII letters, digits and "-_.", with "-" for any other character.

    It neither begins nor ends with "-", "_" or "."; it may be empty.
    """
    kept = "".join(letter if letter.isascii() and letter.isalnum() or letter in "-_." else "-" for letter in text)
    return kept[:_NAME_LIMIT].strip("-_.")


_NAME_LIMIT = 100
#: A random id of a container, whose first digits identify it as in lists of containers.
_RANDOM = re.compile(r"[0-9a-f]{32,}")
