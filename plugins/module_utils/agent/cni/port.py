# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the CNI plugin needs of the agent. `agent.agent.Agent` is one; tests have a small one in memory."""

from __future__ import annotations

import typing as t

from ...fleet.attachment import Workload
from ..request import AddRequest


class Readiness(t.NamedTuple):
    """Whether workloads can be added, in words for people: empty tuples are good news."""

    unable: tuple[str, ...] = ()  # why none can be added
    limited: tuple[str, ...] = ()  # what those that exist suffer from as well


class Agent(t.Protocol):
    """All raise AgentError."""

    async def add(self, request: AddRequest) -> Workload:
        """The workload, when it can be reached; `mac` and `mtu` are those of the link inside. The same again is no
        error."""

    async def delete(self, id: str) -> bool:
        """False if there was none. It cannot be reached any more when this returns."""

    def get(self, id: str) -> t.Optional[Workload]: ...

    def list(self, selector: t.Optional[str] = None) -> t.Sequence[Workload]: ...

    async def check(self, id: str) -> t.Sequence[str]:
        """What of it is not as it has to be, in the kernel and in IPAM."""

    async def readiness(self) -> Readiness: ...
