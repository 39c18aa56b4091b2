# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The relation between an attachment and a workload of the agent.

The interface's name is part of a workload's id, so that a container can be attached to a network twice. Calico's handle
`<network>.<containerID>` cannot distinguish the two.
"""

from __future__ import annotations

import typing as t

from ...state.attachment import AttachedWorkload
from .environment import Attachment
from .port import CniBackend


def workload_id(network: str, container: str, ifname: str) -> str:
    """Return the id of the workload of an attachment: "<network>.<container>.<ifname>"."""
    return f"{network}.{container}.{ifname}"


def find(agent: CniBackend, network: str, attachment: Attachment) -> t.Optional[AttachedWorkload]:
    """Return the workload of an attachment, or None if there is none.

    Dots may be part of all three names in an id, so the container and the interface are compared as well.
    """
    found = agent.get(workload_id(network, attachment.container, attachment.ifname))
    return found if found is not None and key(found) == (attachment.container, attachment.ifname) else None


def key(workload: AttachedWorkload) -> tuple[str, str]:
    """Return (container id, interface name) of a workload's attachment, as GC names it."""
    return workload.container, workload.peer_interface
