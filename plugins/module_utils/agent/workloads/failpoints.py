# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Points at which a test has the agent killed: `CALICO_AGENT_FAULT=add.linked` ends it there as kill -9 does."""

from __future__ import annotations

import os
import signal

VARIABLE = "CALICO_AGENT_FAULT"

#: In the order in which an add and a delete come by.
ADD = (
    "add.assigned",  # an address in memory, nothing anywhere else
    "add.begun",  # the record says what is under way
    "add.linked",  # the pair stands, the address may or may not be on the disk
    "add.written",  # the address is on the disk
    "add.guarded",  # policy knows it, on nodes that have any
    "add.routed",  # reachable
    "add.committed",  # the record says that it stands; not answered yet
)
DELETE = (
    "delete.begun",  # the record says that it goes
    "delete.unrouted",  # not reachable any more
    "delete.released",  # the address is free on the disk; not answered yet
    "delete.answered",
    "delete.unlinked",  # the pair is gone, the record is not
    "delete.forgotten",  # nothing is left
)
POINTS = (*ADD, *DELETE)

_armed = os.environ.get(VARIABLE, "")


def point(name: str) -> None:
    """Does nothing unless this very point is armed."""
    if name == _armed:
        os.kill(os.getpid(), signal.SIGKILL)
