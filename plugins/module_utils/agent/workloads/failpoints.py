# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Points at which a test can have the agent killed: `CALICO_AGENT_FAULT=add.linked` ends it there like `kill -9`."""

from __future__ import annotations

import os
import signal

VARIABLE = "CALICO_AGENT_FAULT"

#: The points of an add, in the order in which it passes them.
ADD = (
    "add.assigned",  # an address in memory, nothing anywhere else
    "add.begun",  # the record says what is under way
    "add.linked",  # the veth pair exists, the address may or may not be on the disk
    "add.written",  # the address is on the disk
    "add.guarded",  # policy includes the workload, on nodes with policy
    "add.routed",  # reachable
    "add.committed",  # the record says that the workload is attached; not answered yet
)
#: The points of a delete, in the order in which it passes them.
DELETE = (
    "delete.begun",  # the record says that the workload is being deleted
    "delete.unrouted",  # not reachable any more
    "delete.released",  # the address is free on the disk; not answered yet
    "delete.answered",
    "delete.unlinked",  # the veth pair is gone, the record is not
    "delete.forgotten",  # nothing is left
)
POINTS = (*ADD, *DELETE)

_armed = os.environ.get(VARIABLE, "")


def point(name: str) -> None:
    """Kill this process with SIGKILL if the environment variable CALICO_AGENT_FAULT is `name`; else do nothing."""
    if name == _armed:
        os.kill(os.getpid(), signal.SIGKILL)
