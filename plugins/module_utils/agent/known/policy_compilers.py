# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy compiler of the agent, for the policy in force and for one that Ansible plans.

Once a policy is loaded, another workload takes milliseconds, here or on another node. A changed policy takes about as
long as what changed in it, and compiling a large policy from nothing takes seconds. It runs in the drivers' thread,
while the event loop continues with everything that needs no policy. Only a dump (dump.py) compiles on the event loop.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import threading
import typing as t

from ...policy.host_endpoints import Interfaces
from ...state.node_policy_tables import NodePolicyTables
from ...state.node_state import NodeState, VethEndpoint
from ...state.other_endpoints import OtherEndpoints
from ...state.policy_state import PolicyState

#: A function that returns a state, for the drivers' thread. Its inputs were taken on the loop at one moment.
StateThunk = t.Callable[[], NodeState]

_MADE = 3  # results that are cached, such as the desired state, the one before, and a planned one


class PolicyNotCompiled(ValueError):
    """The error for a policy without rules and sets, in words with the remedy. Those in the kernel stay as they are."""


class LivePolicyUnknown(PolicyNotCompiled):
    """The error for a policy that lacks its live part: the disk's copy cannot be read, and the datastore is not yet."""


class _Made(t.NamedTuple):
    """A cached result: `result` is `state` with policy, or the reason why there is none.

    `given` and the `version` of other nodes' endpoints are what it was compiled from.
    """

    state: NodeState
    given: tuple[t.Any, ...]
    version: int
    result: t.Union[NodeState, ValueError]


class PolicyCompilers:
    """The compiler of the policies used last. Any thread may call; one compiles at a time while others wait.

    There is one index of endpoints, whatever the number of policies. `NodePolicyTables` keeps the chains of two.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._compiler: t.Optional[NodePolicyTables] = None
        self._made: list[_Made] = []  # cached results, the newest last
        self._in_force: t.Optional[PolicyState] = None
        self._replaced = False  # whether policies of before `_in_force` may still be in memory

    @contextlib.contextmanager
    def still(self, others: OtherEndpoints) -> t.Iterator[None]:
        """Hold the locks of the compiler and of `others`, so that a process that is forked meanwhile has both whole."""
        with self._lock, others.lock:
            yield

    def put_in_force(self, policy: t.Optional[PolicyState]) -> None:
        """Note the policy in force, None for none: the next `with_policy` for it forgets all others.

        Until then they stay, because what both have need not be compiled anew. A policy that is planned afterwards
        stays as well. It does not block.
        """
        if policy is not self._in_force:
            self._in_force, self._replaced = policy, True

    def with_policy(
        self,
        state: NodeState,
        coming: tuple[VethEndpoint, ...],
        interfaces: Interfaces,
        others: OtherEndpoints,
    ) -> NodeState:
        """Return `state` with the rules and sets of its policy, or `state` itself without policy. Block up to seconds.

        The rules and sets include the `coming` workloads, which are being added; the result's `workloads` do not.
        `interfaces` maps the host's interfaces to their addresses; `others` are the endpoints on other nodes, as they
        are when this is called. The last three results are cached: the same `state` object with equal other arguments
        gives the same object or error. Raise PolicyNotCompiled.
        """
        if state.policy is None:
            if self._replaced and self._in_force is None:
                with self._lock:
                    self._forget_others(None)
            return state
        with self._lock:
            given, version = (coming, interfaces), others.version
            for made in self._made:
                if made.state is state and made.version == version and made.given == given:
                    if isinstance(made.result, ValueError):
                        raise _invalid(made.result)
                    return made.result
            known = {workload.interface for workload in state.workloads}
            more = tuple(workload for workload in coming if workload.interface not in known)
            everybody = dataclasses.replace(state, workloads=(*state.workloads, *more)) if more else state
            if self._compiler is None:
                gc.unfreeze()  # so that the objects of a compiler that was dropped can be collected
                self._compiler = NodePolicyTables()
            compiler, loaded = self._compiler, self._compiler.loaded
            try:
                guarded = compiler.with_policy(everybody, interfaces, others)
            except BaseException as error:
                self._compiler = None  # A compiler that stopped halfway must not be used again.
                if isinstance(error, ValueError):
                    # The traceback of `error` itself would keep the compiler in memory.
                    self._remember(_Made(state, given, version, ValueError(str(error))))
                    raise _invalid(error) from error
                raise
            if compiler.loaded != loaded:
                # A policy may have 100,000s of objects: collections would visit them in vain. None refers to itself, so
                # those of a policy that is dropped are freed without a collection.
                gc.freeze()
            result = dataclasses.replace(guarded, workloads=state.workloads) if more else guarded
            self._remember(_Made(state, given, compiler.version, result))
            if self._replaced and state.policy is self._in_force:
                self._forget_others(state.policy)
            return result

    def _forget_others(self, policy: t.Optional[PolicyState]) -> None:
        """Forget all but this policy."""
        self._replaced = False
        self._made = [made for made in self._made if made.state.policy is policy]
        if policy is None:
            self._compiler = None
        elif self._compiler is not None:
            self._compiler.keep_last()

    def version_of(self, result: NodeState) -> t.Optional[int]:
        """Return the version of other nodes' endpoints in one of the last three results, None for another one."""
        return next((made.version for made in self._made if made.result is result), None)

    def _remember(self, made: _Made) -> None:
        self._made = [*self._made[1 - _MADE :], made]


def _invalid(error: ValueError) -> PolicyNotCompiled:
    """Return the error for a selector, a protocol or a mark mask that is not valid. Ansible writes only valid ones."""
    return PolicyNotCompiled(
        f"The node's policy cannot be compiled: {error} Another release may have stored it. Sets and rules stay as"
        " they are. Run playbooks/site.yml, which writes the policy anew."
    )
