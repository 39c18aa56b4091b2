# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An attachment: one interface of one container on one network, and its workload with the agent.

The interface's name is part of a workload's id, so that a container can be attached to a network twice. Calico's handle
`<network>.<containerID>` cannot distinguish the two.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..state.attachment import AttachedWorkload
from ..wire import protocol
from ..wire.protocol import AgentError
from ..wire.request import AddRequest

#: The most characters of a container's id and of a network's name: both have to fit into the alias of a link together.
_CONTAINER_LIMIT = 128
_NETWORK_LIMIT = 64
#: What such an id and such a name have to be, as remedies of errors.
CONTAINER_RULE = f"It is 1 to {_CONTAINER_LIMIT} letters, digits, '_', '.' and '-', beginning with a letter or digit."
NETWORK_RULE = f"Use 1 to {_NETWORK_LIMIT} letters, digits, '_', '.' and '-', beginning with a letter or digit."
_PATH_LIMIT = 4096
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_NAME_LIMIT = 100
#: A random id of a container, whose first digits identify it as in lists of containers.
_RANDOM = re.compile(r"[0-9a-f]{32,}")


@dataclasses.dataclass(frozen=True)
class Attachment:
    """One interface of one container on one network, which a request of a runtime is about."""

    network: str
    container: str
    ifname: str
    netns: str = ""  # absolute path, but not checked when an attachment is removed; "" if not given

    @property
    def id(self) -> str:
        """The id of its workload: "<network>.<container>.<ifname>"."""
        return f"{self.network}.{self.container}.{self.ifname}"

    def workload_name(self, given: str) -> str:
        """Return the workload's name, which no other attachment on the node normally has.

        It is "<name>.<first 12 digits of the container id>.<interface>" if the runtime has `given` a name, as podman
        and Kubernetes do, and the id is 32 or more lower-case hex digits. Otherwise it is "<container id>.<interface>".
        Name and interface are as `readable` returns them, "if" for an empty interface.
        """
        name, ifname = readable(given), readable(self.ifname) or "if"
        if name and _RANDOM.fullmatch(self.container):
            return f"{name}.{self.container[:12]}.{ifname}"
        return f"{self.container}.{ifname}"


def is_container_id(text: str) -> bool:
    """Return whether `text` has 1 to 128 letters, digits, "_", "." and "-", and begins with a letter or digit."""
    return bool(_PLAIN.fullmatch(text)) and len(text) <= _CONTAINER_LIMIT


def is_network_name(text: str) -> bool:
    """Return whether `text` has 1 to 64 letters, digits, "_", "." and "-", and begins with a letter or digit."""
    return bool(_PLAIN.fullmatch(text)) and len(text) <= _NETWORK_LIMIT


def is_netns_path(text: str) -> bool:
    """Return whether `text` is an absolute path of at most 4096 printable characters."""
    return text.startswith("/") and len(text) <= _PATH_LIMIT and text.isprintable()


def readable(text: str) -> str:
    """Return `text` as part of a name: at most 100 ASCII letters, digits and "-_.", with "-" for any other character.

    It neither begins nor ends with "-", "_" or "."; it may be empty.
    """
    kept = "".join(letter if letter.isascii() and letter.isalnum() or letter in "-_." else "-" for letter in text)
    return kept[:_NAME_LIMIT].strip("-_.")


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

    def list(self) -> t.Sequence[AttachedWorkload]: ...


def key(workload: AttachedWorkload) -> tuple[str, str]:
    """Return (container id, interface name) of a workload's attachment."""
    return workload.container, workload.peer_interface


def find(agent: AttachmentBackend, attachment: Attachment) -> t.Optional[AttachedWorkload]:
    """Return the workload of an attachment, or None if there is none.

    Dots may be part of all three names in an id, so the container and the interface are compared as well.
    """
    found = agent.get(attachment.id)
    return found if found is not None and key(found) == (attachment.container, attachment.ifname) else None


async def attach(agent: AttachmentBackend, request: AddRequest) -> tuple[AttachedWorkload, bool]:
    """Attach the container of `request`; return its workload, and whether this call has made it.

    A workload of the same network, container and interface in another network namespace is deleted first: a container
    that was killed is started again without a request to remove its attachment. Raise AgentError.
    """
    present = _present(agent, request)
    if present is not None and present.netns != request.netns:
        await agent.delete(present.id)
        present = None
    try:
        return await agent.add(request), present is None
    except AgentError as error:
        if error.code != protocol.CONFLICT:
            raise
        # A call that was killed may have been under way when this one began.
        since = _present(agent, request)
        if error.data.get("field") != "netns" and (since is None or since.netns == request.netns):
            raise
    # The container was restarted, and the path of its namespace leads to another namespace.
    await agent.delete(request.id)
    return await agent.add(request), True


def _present(agent: AttachmentBackend, request: AddRequest) -> t.Optional[AttachedWorkload]:
    return find(agent, Attachment(request.network, request.container, request.peer_interface))


async def detach(agent: AttachmentBackend, attachment: Attachment) -> bool:
    """Delete the workload of an attachment and release its address; return True, or False if neither is known.

    Only the address may be left; it is not known while the allocations cannot be read. What the kernel refuses is
    retried later. Raise AgentError if the disk refuses.
    """
    if agent.get(attachment.id) is not None and find(agent, attachment) is None:
        return False
    try:
        # Called also if there is no workload: after a reboot only its address may be left.
        return await agent.delete(attachment.id)
    except AgentError as error:
        if error.code == protocol.NOT_FOUND:
            return False
        raise
