# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this node must have: what the fleet planned for it, with what came to it since."""

from __future__ import annotations

import typing as t

from ..fleet.attachment import Workload, with_workloads
from ..fleet.node_state import NodeState
from .endpoints import Endpoints
from .local_ipam import LocalIpam

if t.TYPE_CHECKING:
    from .machine import Machine


class RecordsUnreadable(Exception):
    """Records of workloads cannot be read: planned without them, those workloads would be taken away."""


def desired(state: NodeState, endpoints: t.Sequence[Workload], opened: t.Collection[str]) -> NodeState:
    """`endpoints` are the workloads that stand, `opened` the CIDRs of spare blocks that the node opened."""
    return with_workloads(state, endpoints, opened)


def of_machine(machine: Machine, state: NodeState) -> NodeState:
    """By what lies on the disk, for where no agent runs. Writes nothing.

    Raises RecordsUnreadable or IpamUnreadable rather than leave out what is there.
    """
    workloads, problems = Endpoints(machine.workloads).load()
    if problems:
        raise RecordsUnreadable(" ".join(problems))
    ipam = LocalIpam(machine.ipam)
    ipam.load()
    return desired(state, workloads, ipam.opened)
