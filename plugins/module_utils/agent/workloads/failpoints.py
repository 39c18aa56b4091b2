# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Points at which a test can have the agent killed: `CALICO_AGENT_FAULT=add.linked` ends it there like `kill -9`."""

from __future__ import annotations

import os
import signal

VARIABLE = "CALICO_AGENT_FAULT"

#: The points of an add, in the usual order.
ADD = (
    "add.assigned",  # the workload has an address in memory, and nothing on the disk or in the kernel
    "add.begun",  # the workload's record says that an add is under way
    "add.linked",  # the veth pair exists; the address may or may not be on the disk
    "add.written",  # the address is on the disk
    "add.guarded",  # policy in the kernel includes the workload, on nodes with policy
    "add.routed",  # the workload's route exists
    "add.committed",  # the record says that the workload is attached; the caller has no answer yet
)
#: The points of a delete, in the usual order.
DELETE = (
    "delete.begun",  # the record says that the workload is being deleted
    "delete.unrouted",  # the workload's route is removed, or could not be
    "delete.released",  # the address is free on the disk, or that failed; the caller has no answer yet
    "delete.answered",  # at most link, connections, record and what failed are left; the caller gets its answer next
    "delete.unlinked",  # the removal of a batch of veth pairs was tried; the records still exist
    "delete.forgotten",  # nothing is left of the workload, its record included
)
POINTS = (*ADD, *DELETE)

_armed = os.environ.get(VARIABLE, "")


def point(name: str) -> None:
    """Kill this process with SIGKILL if CALICO_AGENT_FAULT was `name` when this module was imported."""
    if name == _armed:
        os.kill(os.getpid(), signal.SIGKILL)
