# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workload of the agent an attachment is.

The interface's name is part of it, so that a container can be attached to a network twice; Calico's handle
`<network>.<containerID>` cannot tell the two from each other.
"""

from __future__ import annotations

import typing as t

from ...state.attachment import AttachedWorkload
from .environment import Attachment
from .port import CniBackend


def workload_id(network: str, container: str, ifname: str) -> str:
    return f"{network}.{container}.{ifname}"


def find(agent: CniBackend, network: str, attachment: Attachment) -> t.Optional[AttachedWorkload]:
    """The workload of this attachment. Dots may be part of all three names, so that the id alone does not prove it."""
    found = agent.get(workload_id(network, attachment.container, attachment.ifname))
    return found if found is not None and key(found) == (attachment.container, attachment.ifname) else None


def key(workload: AttachedWorkload) -> tuple[str, str]:
    """(container id, ifname), as GC names attachments."""
    return workload.container, workload.peer_interface
