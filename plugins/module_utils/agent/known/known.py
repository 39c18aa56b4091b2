# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The knowledge of the agent that needs no look at the kernel: files, workloads, the desired state, events."""

from __future__ import annotations

import dataclasses

from ...node.ipam.local_ipam import LocalIpam
from .desired_state import DesiredState, RemovalPermission
from .events import Events
from .host import AgentHost
from .persisted_state import PersistedState
from .workload_table import WorkloadTable


@dataclasses.dataclass(frozen=True)
class Known:
    """The parts of the agent that know and do not act. They belong to one event loop."""

    persisted: PersistedState
    table: WorkloadTable
    desired: DesiredState
    may_remove: RemovalPermission
    events: Events

    @classmethod
    def from_host(cls, host: AgentHost) -> Known:
        """Return the parts for a host; nothing is read yet."""
        machine, settings = host.machine, host.settings
        persisted = PersistedState(
            machine, host.ipam or LocalIpam(machine.ipam, cooldown=settings.cooldown, sticky=settings.sticky)
        )
        table = WorkloadTable(persisted)
        return cls(
            persisted,
            table,
            DesiredState(persisted, table),
            RemovalPermission(persisted, settings.cleanup_grace, host.clock),
            Events(),
        )
