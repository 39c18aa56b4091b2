# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The upkeep of workloads: recovery at the start, then periodic deletions and completions."""

from __future__ import annotations

import typing as t

from ...known.host import AgentHost
from ..context import WorkloadContext
from ..updates import JoinedEnds
from .ended import EndedWorkloads
from .recovery import recover
from .unused_addresses import UnusedAddresses


class Upkeep:
    """The upkeep of the workloads of a node; `joined` are the inner ends that container engines are moving."""

    def __init__(self, on: WorkloadContext, host: AgentHost) -> None:
        self._on = on
        self._prefixes = host.settings.runtime_labels
        grace = host.settings.leak_grace
        self.unused_addresses = UnusedAddresses(on, grace, host.clock)
        self.joined = JoinedEnds(on, host.clock)
        self.ended = EndedWorkloads(on, grace, host.clock)

    async def recover(self) -> None:
        """Read the disk, and remove workloads whose add or delete was under way, as `recovery.recover` does."""
        await recover(self._on, *self._on.persisted.load(), self._prefixes)

    def run(self) -> dict[str, t.Coroutine[t.Any, t.Any, None]]:
        """Return the coroutines that have to run for as long as the agent lives, by names for messages."""
        return {
            "deletion": self._on.cleanup.run(),
            "unused addresses": self.unused_addresses.run(),
            "joined ends": self.joined.run(),
            "ended workloads": self.ended.run(),
        }
