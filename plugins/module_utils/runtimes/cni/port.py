# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the agent that the CNI plugin needs: its `Transactions`. Tests use an agent in memory."""

from __future__ import annotations

import typing as t

from ...ipam.allocations import Allocation, Usage
from ...state.node_state import NodeState
from ..attachment import AttachmentBackend


class CniIpam(t.Protocol):
    def usage(self) -> t.Sequence[Usage]: ...

    def allocations(self) -> t.Sequence[Allocation]: ...


class CniMachine(t.Protocol):
    @property
    def bird_socket(self) -> str: ...


class CniNode(t.Protocol):
    """The node of an agent. `ipam` may raise AgentError."""

    @property
    def machine(self) -> CniMachine: ...

    @property
    def state(self) -> t.Optional[NodeState]: ...

    @property
    def ipam(self) -> CniIpam: ...


class CniBackend(AttachmentBackend, t.Protocol):
    """An agent, as the CNI plugin uses it. All methods may raise AgentError."""

    @property
    def node(self) -> CniNode: ...

    async def check(self, id: str) -> t.Sequence[str]:
        """Return in words what is wrong or missing of a workload in the kernel and in IPAM; empty if nothing is.

        Raise AgentError if it is not attached, the node has no state, or the kernel cannot be read.
        """

    def health(self) -> t.Sequence[str]:
        """Return in words why the node accepts no workload, whether or not an address is free; empty if it does."""
