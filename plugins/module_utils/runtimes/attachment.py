# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An attachment: one interface of one container on one network, and what its workload is called.

The interface's name is part of a workload's id, so that a container can be attached to a network twice. Calico's handle
`<network>.<containerID>` cannot distinguish the two.
"""

from __future__ import annotations

import dataclasses
import re

#: The most characters of a container's id and of a network's name: both have to fit into the alias of a link together.
CONTAINER_LIMIT = 128
NETWORK_LIMIT = 64
_PATH_LIMIT = 4096
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)
_NAME_LIMIT = 100
#: A random id of a container, whose first digits identify it as in lists of containers.
_RANDOM = re.compile(r"[0-9a-f]{32,}")


@dataclasses.dataclass(frozen=True)
class Attachment:
    """One interface of one container, which a request of a runtime is about."""

    container: str
    ifname: str
    netns: str = ""  # absolute path, but not checked when an attachment is removed; "" if not given


def is_container_id(text: str) -> bool:
    """Return whether `text` has 1 to 128 letters, digits, "_", "." and "-", and begins with a letter or digit."""
    return bool(_PLAIN.fullmatch(text)) and len(text) <= CONTAINER_LIMIT


def is_network_name(text: str) -> bool:
    """Return whether `text` has 1 to 64 letters, digits, "_", "." and "-", and begins with a letter or digit."""
    return bool(_PLAIN.fullmatch(text)) and len(text) <= NETWORK_LIMIT


def is_netns_path(text: str) -> bool:
    """Return whether `text` is an absolute path of at most 4096 printable characters."""
    return text.startswith("/") and len(text) <= _PATH_LIMIT and text.isprintable()


def workload_id(network: str, container: str, ifname: str) -> str:
    """Return the id of the workload of an attachment: "<network>.<container>.<ifname>"."""
    return f"{network}.{container}.{ifname}"


def workload_name(attachment: Attachment, given: str) -> str:
    """Return the workload's name, which no other attachment on the node normally has.

    It is "<name>.<first 12 digits of the container id>.<interface>" if the runtime gives a name, as podman and
    Kubernetes do, and the id is 32 or more lower-case hex digits. Otherwise it is "<container id>.<interface>". Name
    and interface are as `readable` returns them, "if" for an empty interface. `given` is the runtime's name or "".
    """
    name = readable(given)
    if name and _RANDOM.fullmatch(attachment.container):
        return f"{name}.{attachment.container[:12]}.{readable(attachment.ifname) or 'if'}"
    return f"{attachment.container}.{readable(attachment.ifname) or 'if'}"


def readable(text: str) -> str:
    """Return `text` as part of a name: at most 100 ASCII letters, digits and "-_.", with "-" for any other character.

    It neither begins nor ends with "-", "_" or "."; it may be empty.
    """
    kept = "".join(letter if letter.isascii() and letter.isalnum() or letter in "-_." else "-" for letter in text)
    return kept[:_NAME_LIMIT].strip("-_.")
