# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The desired state: Ansible's state, the workloads attached here, and the policy compiled from both.

    persisted state ─┐
    live policy ─────┤
    workload table ──┼─► DesiredState ─► reconciler, plans, policy's admission of workloads
    host interfaces ─┘

Nothing here reads the kernel or the disk; only compiling policy takes long. DesiredState imports neither the reconciler
nor the transactions on workloads; they read it, and call `changed` after they changed its inputs.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ...policy.host_endpoints import Interfaces
from ...state import live_policy
from ...state.live_policy import LivePolicy
from ...state.node_policy_tables import NO_INTERFACES
from ...state.node_state import NodeState
from ...state.policy_state import PolicyState
from .persisted_state import PersistedState
from .policy_compilers import LivePolicyUnknown, PolicyCompilers, StateThunk
from .workload_table import WorkloadTable

_TOGETHER = 3  # policies with live policy that are kept, such as that in force, the one before and a planned one


class DesiredState:
    """The desired state of the node at this moment. It belongs to the event loop.

    `interfaces` are the host's, as far as policy depends on them. `version` grows with each call of `changed`, which
    then calls `on_change`.
    """

    def __init__(self, persisted: PersistedState, table: WorkloadTable) -> None:
        self.interfaces: Interfaces = NO_INTERFACES
        self.version = 0
        self._persisted = persisted
        self._table = table
        self.on_change: t.Callable[[], None] = lambda: None
        self._compilers = PolicyCompilers()
        self._cached: t.Optional[NodeState] = None  # the desired state without policy; None: derive it again
        self._together: list[tuple[PolicyState, LivePolicy, PolicyState]] = []  # the last results of `_with_live`

    def changed(self) -> None:
        """Forget the state that `without_policy` derived from former inputs, and call `on_change`."""
        self._cached = None
        self.version += 1
        state = self.planned()
        self._compilers.put_in_force(state.policy if state is not None else None)
        self.on_change()

    def planned(self) -> t.Optional[NodeState]:
        """Return Ansible's state with live policy, and without attached workloads; None while it is not known."""
        return self._with_live(self._persisted.state) if self._persisted.state is not None else None

    def with_live(self, live: LivePolicy) -> t.Optional[NodeState]:
        """Return what `for_policy` would return with this live policy; None while Ansible's state is not known."""
        state = self._persisted.state
        if state is None or state.policy is None:
            return state
        policy = live_policy.merged(state.policy, live)
        return dataclasses.replace(self._table.added_for_policy(state), policy=policy)

    def _with_live(self, state: NodeState) -> NodeState:
        """Return `state` with live policy beside its own. Equal calls have the same object as policy."""
        own, live = state.policy, self._persisted.live
        if own is None:
            return state
        known = next((found for policy, with_, found in self._together if policy is own and with_ is live), None)
        if known is None:
            known = live_policy.merged(own, live)
            self._together = [*self._together, (own, live, known)][-_TOGETHER:]
        return state if known is own else dataclasses.replace(state, policy=known)

    @property
    def has_policy(self) -> bool:
        """Whether Ansible's state is known and has a policy, with or without rules."""
        return self._persisted.state is not None and self._persisted.state.policy is not None

    @property
    def cached(self) -> t.Optional[NodeState]:
        """The state that `without_policy` returned last; None before its first call and after each `changed`."""
        return self._cached

    def without_policy(self) -> t.Optional[NodeState]:
        """Return all that the node must have but policy's rules and sets, or None; the same object until `changed`."""
        if self._cached is None and self._persisted.state is not None:
            self._cached = self._with_live(self._table.added_to(self._persisted.state))
        return self._cached

    def need(self) -> NodeState:
        """Return the state of `without_policy`. Raise AgentError with code `unavailable` while it is not known."""
        desired = self.without_policy()
        if desired is None:
            raise self._persisted.no_state()
        return desired

    def whole(self) -> t.Optional[NodeState]:
        """Return all that the node must have, None while that is not known. See `with_policy` for time and errors."""
        desired = self.without_policy()
        return self.with_policy(desired)() if desired is not None else None

    def with_policy(self, state: NodeState) -> StateThunk:
        """Return a function, for any thread, that compiles policy and returns `state` with its rules and sets.

        The function may block for seconds, and raises PolicyNotCompiled. The workloads being added are read here and
        not in that thread: one that is attached meanwhile would be neither in `state` nor among them, and would be
        missing from the sets. Endpoints of other nodes are taken in that thread, so a change since this call need not
        be compiled once more.
        """
        unknown = self._persisted.live_unknown
        if unknown and state.policy is not None and state.policy.settings.live:
            return functools.partial(_not_known, unknown)
        coming = self._table.coming()
        return functools.partial(self._compilers.with_policy, state, coming, self.interfaces, self._persisted.others)

    def compiler(self) -> t.Callable[[NodeState], NodeState]:
        """Return a function, for any thread, that returns a state with rules and sets as `with_policy` has them."""
        coming, interfaces, others = self._table.coming(), self.interfaces, self._persisted.others
        return lambda state: self._compilers.with_policy(state, coming, interfaces, others)

    def still(self) -> t.ContextManager[None]:
        """Return a context that holds the locks of what the function of `compiler` reads. Entering it may block."""
        return self._compilers.still(self._persisted.others)

    def is_outdated(self, whole: NodeState) -> bool:
        """Return whether endpoints of other nodes have changed since `whole`, a result of `with_policy`, was compiled.

        Return False for one that is not among the last results.
        """
        return self._compilers.version_of(whole) not in (None, self._persisted.others.version)

    def for_state(self, state: NodeState) -> NodeState:
        """Return what the node would have to have, without policy's rules and sets, if `state` were Ansible's state."""
        return self._with_live(self._table.added_to(state))

    def for_policy(self) -> t.Optional[NodeState]:
        """Return Ansible's state with the attached workloads, but not their routes and sysctls: the input of policy.

        Left out are workloads without an address, or with an address or host end of one in the inventory or of one with
        a smaller id. None while Ansible's state is not known.
        """
        state = self._persisted.state
        return self._with_live(self._table.added_for_policy(state)) if state is not None else None


def _not_known(reason: str) -> NodeState:
    raise LivePolicyUnknown(reason)


class RemovalPermission:
    """The permission to remove objects that are ours and not desired.

    They may be removed when everything that is desired is known, and either `grace` seconds of `clock` have passed
    since the start, or a run of Ansible has given the permission. Until then, objects without a record may belong to a
    container runtime that comes back.
    """

    def __init__(self, persisted: PersistedState, grace: float, clock: t.Callable[[], float]) -> None:
        self._persisted = persisted
        self._ends = clock() + grace
        self._clock = clock

    def give(self) -> None:
        """Give the permission for good: a run removes what was there before, so nothing is left to wait for."""
        self._ends = self._clock()

    def __call__(self) -> bool:
        """Return whether objects that are not desired may be removed now."""
        return self._persisted.whole and self._clock() >= self._ends
