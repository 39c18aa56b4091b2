# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the CNI plugin needs of the agent. `agent.agent.Agent` is one; tests have a small one in memory."""

from __future__ import annotations

import typing as t

from ...ipam.allocations import Allocation, Usage
from ...state.attachment import AttachedWorkload
from ...state.node_state import NodeState
from ..api.request import AddRequest


class CniIpam(t.Protocol):
    def usage(self) -> t.Sequence[Usage]: ...

    def allocations(self) -> t.Sequence[Allocation]: ...


class CniMachine(t.Protocol):
    @property
    def bird_socket(self) -> str: ...


class CniBackend(t.Protocol):
    """All may raise AgentError."""

    @property
    def machine(self) -> CniMachine: ...

    @property
    def state(self) -> t.Optional[NodeState]: ...

    @property
    def ipam(self) -> CniIpam: ...

    async def add(self, request: AddRequest) -> AttachedWorkload:
        """The workload, when it can be reached; `mac` and `mtu` are those of the link inside. The same again is no
        error."""

    async def delete(self, id: str) -> bool:
        """False if there was none. It cannot be reached any more when this returns."""

    def get(self, id: str) -> t.Optional[AttachedWorkload]: ...

    def list(self, selector: t.Optional[str] = None) -> t.Sequence[AttachedWorkload]: ...

    async def check(self, id: str) -> t.Sequence[str]:
        """What of it is not as it has to be, in the kernel and in IPAM."""

    def health(self) -> t.Sequence[str]:
        """Why no workload can be added."""
