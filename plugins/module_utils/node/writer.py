# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who writes this node's kernel: the agent where one runs, else the process that asks. Never both.

The agent holds writer.lock for as long as it lives; whoever writes without one holds it meanwhile. What is planned is
the same either way: the fleet's state, and the workloads and blocks of the node itself.
"""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ..dataplane import node as dataplane
from ..dataplane.change import Change
from ..fleet.attachment import address_conflicts
from ..fleet.node_state import NodeState
from . import desired, lock, packed_state
from .endpoints import Endpoints
from .lock import LockError
from .machine import Agent, Machine

#: Seconds that an agent which has begun to start may take until it listens.
PATIENCE = 10.0
#: How often a hand-over is asked for that takes the agent longer than it has for an answer.
_ATTEMPTS = 6
_STEP = 0.1


class AgentSilent(Exception):
    """There is an agent, and it does not answer. Nothing was changed."""


class NotTakenOver(Exception):
    """The agent took the state over and could not do all of it."""


class Writer(t.Protocol):
    def plan(self, state: NodeState) -> dataplane.NodePlan:
        """What differs. Reads only. Raises ObserveError, KernelError, RecordsUnreadable or IpamUnreadable."""

    def prepare(self, plan: dataplane.NodePlan) -> None:
        """Raises what is known before anything is changed to make `apply` fail."""

    def apply(self, state: NodeState, plan: dataplane.NodePlan, bird: t.Optional[t.Callable[[], None]]) -> None:
        """Additions, `bird`, removals."""


def of(machine: Machine, who: str, patience: float = 0.0) -> t.Union[Direct, Through]:
    """`who` asks, for others to read; `patience` is in seconds, 0 for whoever only looks. Raises AgentSilent."""
    deadline = time.monotonic() + patience
    while True:
        try:
            agent = machine.agent(machine.agent_socket) if machine.agent else None
        except TimeoutError as error:
            raise AgentSilent(f"{error} {REMEDY}") from error
        if agent is not None:
            return Through(machine, agent)
        if patience <= 0 or not lock.taken(machine.writer_lock):
            return Direct(machine, who)
        if time.monotonic() >= deadline:
            raise AgentSilent(
                f"The agent of this node holds {machine.writer_lock}, but nobody answers at {machine.agent_socket}. "
                f"{REMEDY}"
            )
        time.sleep(_STEP)


REMEDY = (
    "Nothing was changed. Look at it (journalctl -u calico-agent), restart it (systemctl restart calico-agent: running "
    "workloads do not notice), then run again."
)


class Direct:
    """No agent runs: this process writes."""

    agent: t.Optional[Agent] = None

    def __init__(self, machine: Machine, who: str) -> None:
        self._machine = machine
        self._who = who

    def plan(self, state: NodeState) -> dataplane.NodePlan:
        wanted = desired.of_machine(self._machine, state)
        return _with_conflicts(self._machine, state, dataplane.plan_node(self._machine.kernel, wanted))

    def prepare(self, plan: dataplane.NodePlan) -> None:
        dataplane.ready_to_write(self._machine.kernel, plan.changes)

    def apply(self, state: NodeState, plan: dataplane.NodePlan, bird: t.Optional[t.Callable[[], None]]) -> None:
        """Raises ApplyError, MissingLibrary, what `bird` does, or AgentSilent where an agent came in between."""
        machine = self._machine
        try:
            with lock.held(self._who, PATIENCE, machine.writer_lock):
                dataplane.apply_node(machine.kernel, plan, bird)
        except LockError as error:
            raise AgentSilent(f"An agent started on this node meanwhile: {error} {REMEDY}") from error


class Adding(Direct):
    """No agent runs, and not all of what the node gave away is known: only what is missing is written."""

    def plan(self, state: NodeState) -> dataplane.NodePlan:
        plan = dataplane.plan_node(self._machine.kernel, state)
        groups = tuple(
            group._replace(changes=[change for change in group.changes if change.action != "-"])
            for group in plan.groups
        )
        return dataclasses.replace(plan, removals=(), groups=groups)


class Through:
    """The agent writes, and is told what the node shall have."""

    def __init__(self, machine: Machine, agent: Agent) -> None:
        self._machine = machine
        self.agent = agent

    def plan(self, state: NodeState) -> dataplane.NodePlan:
        """By the agent, which knows what it is just attaching and taking away. Raises also AgentSilent."""
        answer = self._ask("node.plan", state=packed_state.pack(state))
        changes = [_change(entry) for entry in answer["changes"]]
        plan = dataplane.NodePlan(
            state=desired.of_machine(self._machine, state),
            underlay=answer["underlay"],
            additions=tuple(change for change in changes if change.action != "-"),
            removals=tuple(change for change in changes if change.action == "-"),
            expected=tuple(_change(entry) for entry in answer["expected"]),
            kept=tuple(_change(entry) for entry in answer["kept"]),
        )
        return _with_conflicts(self._machine, state, plan)

    def prepare(self, plan: dataplane.NodePlan) -> None:
        pass  # the agent runs, so it has what it needs

    def apply(self, state: NodeState, plan: dataplane.NodePlan, bird: t.Optional[t.Callable[[], None]]) -> None:
        """Raises NotTakenOver, AgentSilent or what `bird` does. The agent keeps trying what failed."""
        packed = packed_state.pack(state)
        self._hand_over(packed, removals=False)
        if bird is not None:
            bird()
        self._hand_over(packed, removals=True)

    def resync(self) -> None:
        """Has it look at everything and repair it. Raises as `apply`."""
        _raise_problems(self._ask("resync"))

    def _hand_over(self, packed: str, removals: bool) -> None:
        _raise_problems(self._ask("node.apply", state=packed, removals=removals))

    def _ask(self, method: str, **params: t.Any) -> dict[str, t.Any]:
        for attempt in range(_ATTEMPTS):
            try:
                return self.agent.call(method, **params)
            except TimeoutError as error:
                if attempt == _ATTEMPTS - 1:
                    raise AgentSilent(f"{error} {REMEDY}") from error
        raise AssertionError("unreachable")


def _raise_problems(answer: t.Mapping[str, t.Any]) -> None:
    problems = answer["problems"]
    if problems:
        more = [f"... and {len(problems) - 5} more."] if len(problems) > 5 else []
        raise NotTakenOver("\n".join([*problems[:5], *more]))


def _change(entry: t.Mapping[str, t.Any]) -> Change:
    return Change(
        entry["kind"],
        entry["action"],
        entry["subject"],
        entry["before"],
        entry["after"],
        entry["note"],
        detail=entry["detail"],
    )


def _with_conflicts(machine: Machine, state: NodeState, plan: dataplane.NodePlan) -> dataplane.NodePlan:
    """What was planned for an address that the node gave away meanwhile stands in the way."""
    workloads, dummy = Endpoints(machine.workloads).load()
    conflicts = [Change("workload", "!", "", None, None, text) for text in address_conflicts(state, workloads)]
    return dataclasses.replace(plan, additions=(*conflicts, *plan.additions)) if conflicts else plan
