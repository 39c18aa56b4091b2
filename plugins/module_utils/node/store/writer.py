# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who writes this node's kernel: the agent where one runs, else the process that asks. Never both.

The agent holds writer.lock for as long as it lives; whoever writes without one holds it meanwhile. What is planned is
the same either way: the fleet's state, and the workloads and blocks of the node itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import typing as t

from ...dataplane.apply import apply_node, ready_to_write
from ...dataplane.change import Change
from ...dataplane.plan import NodePlan, plan_node
from ...state.attachment import address_conflicts, with_opened
from ...state.node_state import NodeState
from .. import desired
from ..ipam.local_ipam import IpamUnreadable, LocalIpam
from ..machine import Agent, Machine
from . import lock, packed_state
from .endpoints import Endpoints
from .lock import LockError

#: How often a hand-over is asked for that takes the agent longer than it has for an answer.
_ATTEMPTS = 6
_STEP = 0.1


class AgentSilent(Exception):
    """There is an agent, and it does not answer. Nothing was changed."""


class NotTakenOver(Exception):
    """The agent took the state over and could not do all of it."""


class Writer(t.Protocol):
    def plan(self, state: NodeState) -> NodePlan:
        """What differs. Reads only. Raises ObserveError, KernelError, RecordsUnreadable or IpamUnreadable."""

    def prepare(self, plan: NodePlan) -> None:
        """Raises what is known before anything is changed to make `apply` fail."""

    def apply(self, state: NodeState, plan: NodePlan, bird: t.Optional[t.Callable[[], None]]) -> None:
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
        time.sleep(min(_STEP, patience))


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

    def plan(self, state: NodeState) -> NodePlan:
        wanted = desired.of_machine(self._machine, state)
        return _Own(self._machine).judged(state, plan_node(self._machine.kernel, wanted))

    def prepare(self, plan: NodePlan) -> None:
        ready_to_write(self._machine.kernel, plan.changes)

    def apply(self, state: NodeState, plan: NodePlan, bird: t.Optional[t.Callable[[], None]]) -> None:
        """Raises ApplyError, MissingLibrary, what `bird` does, or AgentSilent where an agent came in between."""
        machine = self._machine
        try:
            with lock.held(self._who, machine.agent_patience, machine.writer_lock):
                apply_node(machine.kernel, plan, bird)
        except LockError as error:
            raise AgentSilent(f"An agent started on this node meanwhile: {error} {REMEDY}") from error


class Adding(Direct):
    """No agent runs, and not all of what the node gave away is known: only what is missing is written."""

    def plan(self, state: NodeState) -> NodePlan:
        plan = plan_node(self._machine.kernel, state)
        return plan.only(lambda change: change.action != "-")


class Through:
    """The agent writes, and is told what the node shall have."""

    def __init__(self, machine: Machine, agent: Agent) -> None:
        self._machine = machine
        self.agent = agent

    def plan(self, state: NodeState) -> NodePlan:
        """By the agent, which knows what it is just attaching and taking away. Raises also AgentSilent."""
        answer = self._ask("node.plan", state=packed_state.pack(state))
        changes = [_change(entry) for entry in answer["changes"]]
        plan = NodePlan(
            state=self._with_opened(state),
            underlay=answer["underlay"],
            additions=tuple(change for change in changes if change.action != "-"),
            removals=tuple(change for change in changes if change.action == "-"),
            expected=tuple(_change(entry) for entry in answer["expected"]),
            kept=tuple(_change(entry) for entry in answer["kept"]),
        )
        return _Own(self._machine).judged(state, plan)

    def _with_opened(self, state: NodeState) -> NodeState:
        """For the notes that tell open blocks from spare ones."""
        ipam = LocalIpam(self._machine.ipam)
        with contextlib.suppress(IpamUnreadable):
            ipam.load()
        return dataclasses.replace(state, ipam=with_opened(state.ipam, ipam.opened))

    def prepare(self, plan: NodePlan) -> None:
        pass  # the agent runs, so it has what it needs

    def apply(self, state: NodeState, plan: NodePlan, bird: t.Optional[t.Callable[[], None]]) -> None:
        """Raises NotTakenOver, AgentSilent or what `bird` does. The agent keeps trying what failed."""
        packed = packed_state.pack(state)
        self._hand_over(packed, removals=False)
        if bird is not None:
            bird()
        self._hand_over(packed, removals=True)

    def resync(self) -> None:
        """Has it look at everything and repair it. Raises as `apply`."""
        self._raise_problems(self._ask("resync"))

    def reload_remote_endpoints(self) -> None:
        """Has it read again what is known of other nodes' workloads, and its policy count on it. Raises as `apply`."""
        self._raise_problems(self._ask("remote_endpoints.reload"))

    def _hand_over(self, packed: str, removals: bool) -> None:
        self._raise_problems(self._ask("node.apply", state=packed, removals=removals))

    def _ask(self, method: str, **params: t.Any) -> dict[str, t.Any]:
        for attempt in range(_ATTEMPTS):
            try:
                return self.agent.call(method, **params)
            except TimeoutError as error:
                if attempt == _ATTEMPTS - 1:
                    raise AgentSilent(f"{error} {REMEDY}") from error
        raise AssertionError("unreachable")

    def _raise_problems(self, answer: t.Mapping[str, t.Any]) -> None:
        own = _Own(self._machine)
        problems = [text for text in answer["problems"] if not own.is_about(text)]
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


class _Own:
    """The workloads that came to this node between runs.

    What is wrong with one of them is told and holds up nothing of what the fleet wants here: its owner may have done
    it.
    """

    def __init__(self, machine: Machine) -> None:
        self._workloads, dummy = Endpoints(machine.workloads).load()

    def judged(self, state: NodeState, plan: NodePlan) -> NodePlan:
        """The plan, with what was planned for an address that the node gave away meanwhile standing in the way, and
        what stands in the way of its own workloads kept as it is."""
        names = {f"{found.namespace}/{found.name}" for found in self._workloads}

        def is_own(change: Change) -> bool:
            return change.action == "!" and change.kind == "workload" and change.subject in names

        conflicts = [
            Change("workload", "!", "", None, None, text) for text in address_conflicts(state, self._workloads)
        ]
        own = [change for change in plan.additions if is_own(change)]
        if not conflicts and not own:
            return plan
        parts = [
            part._replace(changes=[change for change in part.changes if not is_own(change)]) for part in plan.parts
        ]
        return dataclasses.replace(
            plan,
            additions=(*conflicts, *(change for change in plan.additions if not is_own(change))),
            kept=(*plan.kept, *(change._replace(action="=") for change in own)),
            parts=tuple(parts),
        )

    def is_about(self, problem: str) -> bool:
        """Whether a sentence of the agent begins with something of theirs: `workload default/web: ...`."""
        subject = problem.partition(": ")[0]
        kind, dummy, name = subject.partition(" ")
        return any(
            (kind == "workload" and name == f"{found.namespace}/{found.name}")
            or (kind == "route" and name in [f"{address}/32" for address in found.addresses])
            or (kind == "sysctl" and found.interface in name.split("/"))
            for found in self._workloads
        )
