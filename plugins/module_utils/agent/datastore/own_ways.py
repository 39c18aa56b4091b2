# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of live policy before it is in force: it must not cut the node off from those who could take it back."""

from __future__ import annotations

import typing as t

from ...base.addresses import parse_address
from ...dataplane.kernel.port import Kernel, KernelError
from ...datastore.settings import DatastoreSettings, address_of
from ...node.change.verdicts import own_ways
from ...node.change.verdicts.own_ways import DeniedWay
from ...node.host import ssh_session
from ...node.host.ssh_session import SshSession
from ...node.machine import Machine
from ...node.store import run_session
from ...state.live_policy import LivePolicy
from ...state.node_state import NodeState
from ..known.known import Known

_NAMED = 3

#: Asks the kernel, in the thread that may use it.
Ask = t.Callable[[t.Callable[[Kernel], list[DeniedWay]]], t.Awaitable[list[DeniedWay]]]


def said(denied: t.Sequence[DeniedWay]) -> str:
    """Return the first of the ways that would be cut, in words, and how many more there are; "" for none."""
    more = f", and {len(denied) - _NAMED} more ways" if len(denied) > _NAMED else ""
    return "; ".join(map(str, denied[:_NAMED])) + more


class OwnWays:
    """The ways that this node needs, and the check of live policy against them.

    They lead to each member or gate of `settings`, to BGP peers and from them, and from the clients of SSH that are
    connected, or from which the last run of Ansible came.
    """

    def __init__(
        self,
        machine: Machine,
        known: Known,
        ask: Ask,
        settings: t.Callable[[], t.Optional[DatastoreSettings]],
        established: t.Callable[[int], list[SshSession]] = ssh_session.established,
    ) -> None:
        self._machine = machine
        self._desired = known.desired
        self._others = known.persisted.others
        self._ask = ask
        self._settings = settings
        self._established = established

    async def cut_by(self, live: LivePolicy) -> str:
        """Return which ways this live policy would deny, in words; "" for none, or if the kernel cannot be asked.

        It takes time only on a node with a HostEndpoint of its own.
        """
        question = self.question(self._desired.with_live(live))
        if question is None:
            return ""
        try:
            return said(await self._ask(question))
        except KernelError:
            return ""

    def question(self, state: t.Optional[NodeState]) -> t.Optional[t.Callable[[Kernel], list[DeniedWay]]]:
        """Return a function, for any thread, that returns the ways that the policy of a state would deny.

        The state has all workloads of this node. The function raises KernelError. Return None if policy denies none.
        """
        policy = state.policy if state is not None else None
        if state is None or policy is None or not any(own_ways.governs(one, state.node) for one in policy.endpoints):
            return None
        ways = [*own_ways.of_node(state, self._members()), *own_ways.of_sessions(self._sessions())]
        others = self._others
        return lambda kernel: own_ways.denied(kernel, state, ways, others.endpoints(state.node), others.live)

    def _members(self) -> list[tuple[str, int]]:
        """Return address and port of each member or gate; one that is a name is left out."""
        settings = self._settings()
        found = [address_of(endpoint) for endpoint in settings.endpoints] if settings is not None else []
        return [(one.host, one.port) for one in found if parse_address(one.host) is not None]

    def _sessions(self) -> list[SshSession]:
        last = run_session.load(self._machine.store)
        if last is None:
            return []
        return [*self._established(last.server_port), last]
