# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What compiles the node's policy in the agent: a Guard for the policy in force, and one for that which Ansible plans.

A Guard that knows a policy takes milliseconds for a workload more. Compiling a large policy from nothing takes seconds,
for which the drivers' thread is, while the loop goes on with all that needs no policy.
"""

from __future__ import annotations

import dataclasses
import gc
import threading
import typing as t

from ...policy.host_endpoints import Interfaces
from ...policy.model import Endpoint
from ...state.node_policy_tables import NodePolicyTables
from ...state.node_state import NodeState, VethEndpoint
from ...state.policy_state import PolicyState

_KEPT = 2
_MADE = 3  # states: the desired one, the one before, one that is planned


class _Made(t.NamedTuple):
    """`state` with policy is `whole`; what else that depends on is `given`."""

    state: NodeState
    given: tuple[t.Any, ...]
    whole: NodeState


class PolicyCompilers:
    """For any thread; one at a time compiles, and others wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[tuple[PolicyState, NodePolicyTables]] = []  # the one used last is last
        self._made: list[_Made] = []  # the same

    def whole(
        self,
        state: NodeState,
        coming: tuple[VethEndpoint, ...],
        interfaces: Interfaces,
        others: tuple[Endpoint, ...],
    ) -> NodeState:
        """The state with its policy's rules and sets, for `coming` workloads too, which are not in it yet; the same
        object when it is asked for again. `interfaces` and `others`: see Guard."""
        if state.policy is None:
            return state
        with self._lock:
            given = coming, interfaces, others
            for made in self._made:
                if made.state is state and made.given == given:
                    return made.whole
            known = {workload.interface for workload in state.workloads}
            more = tuple(workload for workload in coming if workload.interface not in known)
            everybody = dataclasses.replace(state, workloads=(*state.workloads, *more)) if more else state
            guard = self._of(state.policy)
            new = guard is None
            if guard is None:
                gc.unfreeze()  # those that go with the policy that this one takes the place of
                guard = NodePolicyTables()
            self._keep(state.policy, guard)
            guarded = guard.with_policy(everybody, interfaces, others)
            if new:
                gc.freeze()  # hundreds of thousands of objects that stay: collections would look at each for nothing
            whole = dataclasses.replace(guarded, workloads=state.workloads) if more else guarded
            self._made = [*self._made[1 - _MADE :], _Made(state, given, whole)]
            return whole

    def _of(self, policy: PolicyState) -> t.Optional[NodePolicyTables]:
        """The one that knows this policy."""
        same = next((guard for kept, guard in self._kept if kept is policy), None)
        return same or next((guard for kept, guard in self._kept if kept == policy), None)

    def _keep(self, policy: PolicyState, guard: NodePolicyTables) -> None:
        others = [kept for kept in self._kept if kept[1] is not guard]
        self._kept = [*others, (policy, guard)][-_KEPT:]
