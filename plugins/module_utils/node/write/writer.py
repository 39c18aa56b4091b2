# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The writer of this node's kernel: the agent if one runs, else the calling process.

Never both. The agent holds writer.lock for as long as it lives; a process that writes without an agent holds it
meanwhile. Both plan the same: the fleet's state, with the workloads and blocks that the node itself has added.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import typing as t

from ...base.addresses import host
from ...dataplane.change import Change
from ...dataplane.drivers import workload
from ...dataplane.planning.apply import apply_node, ready_to_write
from ...dataplane.planning.plan import NodePlan, plan_node
from ...state.attachment import address_conflicts, with_opened
from ...state.node_state import NodeState
from ...wire.running_agent import RunningAgent
from .. import desired
from ..errors import AgentSilent, NotTakenOver
from ..ipam.local_ipam import IpamUnreadable, LocalIpam
from ..machine import Machine
from ..store import lock, packed_state
from ..store.endpoints import Endpoints
from ..store.lock import LockError, LockUnusable

#: The number of times that a request is sent to an agent that does not answer in time, before it counts as silent.
_ATTEMPTS = 6
_STEP = 0.1  # seconds between two looks for an agent that begins to start


class KernelWriter(t.Protocol):
    """A writer of the kernel: this process, or the agent.

    Methods raise AgentSilent if an agent that writes does not answer in time, and AgentRefused if it answers with an
    error.
    """

    def plan(self, state: NodeState) -> NodePlan:
        """Return what differs between the kernel and `state` with the node's own workloads and policy. Change nothing.

        Raise ObserveError, KernelError, RecordsUnreadable, IpamUnreadable or, for a policy that cannot be compiled,
        ValueError if this process plans.
        """

    def prepare(self, plan: NodePlan) -> None:
        """Raise MissingLibrary if `apply` needs pyroute2 in this process and it is not installed. Change nothing."""

    def apply(self, state: NodeState, plan: NodePlan, bird: t.Optional[t.Callable[[], None]]) -> tuple[Change, ...]:
        """Make the additions, call `bird` unless it is None, then make the removals.

        Return a note (`=`) for each problem of a workload that was passed over, because its owner may have caused it.
        Raise ApplyError, MissingLibrary, ObserveError, KernelError, LockUnusable, or AgentSilent for an agent that
        starts meanwhile, if this process writes; NotTakenOver if the agent could not apply all; or what `bird` raises.
        """


def from_machine(machine: Machine, who: str, patience: float = 0.0) -> t.Union[Direct, Through]:
    """Return the writer of this machine's kernel: Through if an agent runs, else Direct.

    `who` names this process in the lock, for others that wait. `patience` is the seconds to wait for an agent that has
    taken writer.lock and does not listen yet; with 0 the result is Direct then. Raise AgentSilent if the agent does not
    answer in time or does not listen after `patience`, AgentRefused if it answers with an error or its socket may not
    be opened, or LockUnusable if `patience` is not 0 and writer.lock cannot be opened.
    """
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


#: What to do about a silent agent. It does not say what was changed: a change may have begun.
REMEDY = (
    "Look at it (journalctl -u calico-agent), restart it (systemctl restart calico-agent: running workloads do not "
    "notice), then run again: what was begun is completed then."
)


class Direct:
    """The writer for a node without a running agent: this process, which `who` names in writer.lock."""

    agent: t.Optional[RunningAgent] = None

    def __init__(self, machine: Machine, who: str) -> None:
        self._machine = machine
        self._who = who

    def plan(self, state: NodeState) -> NodePlan:
        wanted = desired.of_machine(self._machine, state)
        return _Own(self._machine).judged(state, plan_node(self._machine.kernel, wanted))

    def prepare(self, plan: NodePlan) -> None:
        ready_to_write(self._machine.kernel, plan.changes)

    def apply(self, state: NodeState, plan: NodePlan, bird: t.Optional[t.Callable[[], None]]) -> tuple[Change, ...]:
        """Make the additions, call `bird` unless it is None, then make the removals, and hold writer.lock meanwhile.

        `state` is not used: the plan has it. Wait `machine.agent_patience` seconds for writer.lock. After an ApplyError
        of additions, `bird` is not called and nothing is removed.
        """
        machine, own = self._machine, _Own(self._machine)

        def harmless(change: Change, reason: str) -> bool:
            return own.is_about(f"{change.kind} {change.subject}: {reason}")

        try:
            with lock.held(self._who, machine.agent_patience, machine.writer_lock):
                passed_over = apply_node(machine.kernel, plan, bird, harmless)
            return tuple(change._replace(action="=", note=reason) for change, reason in passed_over)
        except LockUnusable:
            raise
        except LockError as error:
            raise AgentSilent(f"An agent started on this node meanwhile: {error} {REMEDY}") from error


class Adding(Direct):
    """The writer for a node without a running agent whose own records cannot be read: it removes nothing."""

    def plan(self, state: NodeState) -> NodePlan:
        """Return what differs between the kernel and `state` with the workloads and policy that can be read.

        Removals are left out: the objects may belong to what cannot be read.
        """
        plan = plan_node(self._machine.kernel, desired.as_readable(self._machine, state))
        return plan.only(lambda change: change.action != "-")


class Through:
    """The writer for a node whose agent runs: it sends the agent the state that the node must have.

    A request that the agent does not answer in time is sent again, six times in all, before AgentSilent is raised. Each
    method but `plan` raises NotTakenOver for problems of the agent.
    """

    def __init__(self, machine: Machine, agent: RunningAgent) -> None:
        self._machine = machine
        self.agent = agent

    def plan(self, state: NodeState) -> NodePlan:
        """Ask the agent what differs, because it knows which workloads it is just attaching; `parts` are empty."""
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
        """Return the state with the spare blocks that the node opened moved to its blocks, for notes about routes."""
        ipam = LocalIpam(self._machine.ipam)
        with contextlib.suppress(IpamUnreadable):
            ipam.load()
        return dataclasses.replace(state, ipam=with_opened(state.ipam, ipam.opened))

    def prepare(self, plan: NodePlan) -> None:
        pass  # pyroute2 is needed by the agent, which writes, and not by this process

    def apply(self, state: NodeState, plan: NodePlan, bird: t.Optional[t.Callable[[], None]]) -> tuple[Change, ...]:
        """Send `state` to the agent for additions, call `bird` unless it is None, then send `state` again for removals.

        `plan` is not used, because the agent makes its own. The agent keeps retrying what failed. NotTakenOver has the
        first five problems that are not passed over.
        """
        packed = packed_state.pack(state)
        self._hand_over(packed, removals=False)
        if bird is not None:
            bird()
        return self._hand_over(packed, removals=True)

    def resync(self) -> None:
        """Let the agent compare everything with the kernel and repair it."""
        self._raise_problems(self._ask("resync"))

    def reload_remote_endpoints(self) -> None:
        """Let the agent read again what other nodes reported, and apply its policy with it."""
        self._raise_problems(self._ask("remote_endpoints.reload"))

    def _hand_over(self, packed: str, removals: bool) -> tuple[Change, ...]:
        return self._raise_problems(self._ask("node.apply", state=packed, removals=removals))

    def _ask(self, method: str, **params: t.Any) -> dict[str, t.Any]:
        for attempt in range(_ATTEMPTS):
            try:
                return self.agent.call(method, **params)
            except TimeoutError as error:
                if attempt == _ATTEMPTS - 1:
                    raise AgentSilent(f"{error} {REMEDY}") from error
        raise AssertionError("unreachable")

    def _raise_problems(self, answer: t.Mapping[str, t.Any]) -> tuple[Change, ...]:
        own = _Own(self._machine)
        problems = [text for text in answer["problems"] if not own.is_about(text)]
        if problems:
            more = [f"... and {len(problems) - 5} more."] if len(problems) > 5 else []
            raise NotTakenOver("\n".join([*problems[:5], *more]))
        return tuple(map(_note, answer["problems"]))


def _note(problem: str) -> Change:
    what, _colon, reason = problem.partition(": ")
    kind, _blank, subject = what.partition(" ")
    return Change(kind, "=", subject, note=reason)


#: The fields of a change that the agent answers.
_ANSWERED = ("kind", "action", "subject", "before", "after", "note", "detail")


def _change(entry: t.Mapping[str, t.Any]) -> Change:
    return Change(**{field: entry[field] for field in _ANSWERED})


class _Own:
    """The workloads that were attached to this node between runs.

    A problem with one of them does not block what the fleet wants here, because the workload's owner may have caused
    it. Only an address that the fleet plans otherwise does. Nor does a problem inside any workload's network namespace.
    """

    def __init__(self, machine: Machine) -> None:
        self._workloads, dummy = Endpoints(machine.workloads).load()

    def judged(self, state: NodeState, plan: NodePlan) -> NodePlan:
        """Return `plan` with a problem (`!`) for each address of an attached workload that `state` plans otherwise.

        Problems that must not block become notes (`=`) in `kept`. If a workload with such a problem has no host end,
        the additions that need that device, its routes and sysctls, are left out, but not of a plan of the agent.
        """
        names = {f"{found.namespace}/{found.name}" for found in self._workloads}

        def is_own(change: Change) -> bool:
            if change.action != "!" or change.kind != "workload":
                return False
            return change.subject in names or workload.is_inside(change.note)

        conflicts = [
            Change("workload", "!", "", None, None, text) for text in address_conflicts(state, self._workloads)
        ]
        own = [change for change in plan.additions if is_own(change)]
        if not conflicts and not own:
            return plan
        # A plan of the agent has no values of drivers, and the agent itself waits for missing devices.
        missing = {change.new.interface for change in own if change.new is not None and change.old.link is None}

        def stays(change: Change) -> bool:
            return not is_own(change) and not (missing and change.action in "+~" and _device(plan, change) in missing)

        parts = [part._replace(changes=[change for change in part.changes if stays(change)]) for part in plan.parts]
        return dataclasses.replace(
            plan,
            additions=(*conflicts, *(change for change in plan.additions if stays(change))),
            kept=(*plan.kept, *(change._replace(action="=") for change in own)),
            parts=tuple(parts),
        )

    def is_about(self, problem: str) -> bool:
        """Return whether `problem`, a sentence of the agent such as `workload a/b: ...`, is one that must not block.

        It may also begin with `route` and a CIDR (/32 or /128), or with `sysctl` and a key as sysctl(8) writes it
        (net.ipv4.conf.cali1.forwarding).
        """
        subject, dummy, reason = problem.partition(": ")
        kind, dummy, name = subject.partition(" ")
        return (kind == "workload" and workload.is_inside(reason)) or any(
            (kind == "workload" and name == f"{found.namespace}/{found.name}")
            or (kind == "route" and name in map(host, found.addresses))
            or (kind == "sysctl" and found.interface.replace(".", "/") in name.split("."))
            for found in self._workloads
        )


def _device(plan: NodePlan, change: Change) -> str:
    return plan.registry.step(plan.registry.name_of(change)).device(change)
