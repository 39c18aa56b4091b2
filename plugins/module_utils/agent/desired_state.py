# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the node must have: Ansible's state, the workloads attached here, and what policy makes of both.

    persisted state ─┐
    workload table ──┼─► DesiredState ─► reconciler, plans, policy's admission of workloads
    host interfaces ─┘

Nothing here reads the kernel or waits. DesiredState imports neither the reconciler nor the transactions on workloads;
they read it, and say `changed` after they changed what it is made of.
"""

from __future__ import annotations

import functools
import typing as t

from ..policy.host_endpoints import Interfaces
from ..state.node_policy_tables import NO_INTERFACES
from ..state.node_state import NodeState
from .persisted_state import PersistedState
from .reconcile.policy_compilers import PolicyCompilers
from .reconcile.stages import Make
from .workloads.table import WorkloadTable


class DesiredState:
    """The answers to "what must be there now". Belongs to the event loop.

    `interfaces` are the host's, as far as policy depends on them. `on_change` is called by `changed`.
    """

    def __init__(
        self, persisted: PersistedState, table: WorkloadTable, on_change: t.Callable[[], None] = lambda: None
    ) -> None:
        self.interfaces: Interfaces = NO_INTERFACES
        self._persisted = persisted
        self._table = table
        self._on_change = on_change
        self._compilers = PolicyCompilers()
        self._cached: t.Optional[NodeState] = None  # without policy

    def changed(self) -> None:
        """Forget what was made of the former state, workloads or interfaces."""
        self._cached = None
        self._on_change()

    @property
    def has_policy(self) -> bool:
        """Whether the node has policy to enforce."""
        return self._persisted.state is not None and self._persisted.state.policy is not None

    @property
    def cached(self) -> t.Optional[NodeState]:
        """What `without_policy` returned last, None after a change."""
        return self._cached

    def without_policy(self) -> t.Optional[NodeState]:
        """Return all that the node must have but policy's rules and sets; None while that is not known.

        The same object until a change.
        """
        if self._cached is None and self._persisted.state is not None:
            self._cached = self._table.added_to(self._persisted.state)
        return self._cached

    def need(self) -> NodeState:
        """Return `without_policy`. Raises AgentError while it is not known."""
        desired = self.without_policy()
        if desired is None:
            raise self._persisted.no_state()
        return desired

    def whole(self) -> t.Optional[NodeState]:
        """Return all that the node must have; None while that is not known. Compiling policy can take seconds."""
        desired = self.without_policy()
        return self.with_policy(desired)() if desired is not None else None

    def with_policy(self, state: NodeState) -> Make:
        """Return a function, for any thread, that compiles policy and adds its rules and sets to `state`.

        The workloads that are coming are taken here, in one step with the attached ones: taken in that thread, a
        workload attached meanwhile would be in neither and lose its place in the sets.
        """
        coming, others = self._table.coming(), self._persisted.remote.endpoints
        return functools.partial(self._compilers.whole, state, coming, self.interfaces, others)

    def of(self, state: NodeState) -> NodeState:
        """Return what the node would have to have if `state` were Ansible's, without policy."""
        return self._table.added_to(state)

    def for_policy(self) -> t.Optional[NodeState]:
        """Return what policy depends on: Ansible's state and the attached workloads; None while it is not known."""
        state = self._persisted.state
        return self._table.added_for_policy(state) if state is not None else None


class RemovalPermission:
    """Whether objects that are ours and not desired may be removed.

    They may when all that is desired is known, and either `grace` seconds have passed since the start (workloads
    without a record may belong to a runtime that comes back), or a run of Ansible says that it is `given`.
    """

    def __init__(self, persisted: PersistedState, grace: float, clock: t.Callable[[], float]) -> None:
        self.given = False
        self._persisted = persisted
        self._ends = clock() + grace
        self._clock = clock

    def __call__(self) -> bool:
        """Return whether removals may be made now."""
        return self._persisted.whole and (self.given or self._clock() >= self._ends)
