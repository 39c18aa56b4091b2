# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a change: everything that differs between a target state and this node. Nothing here changes anything."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t
from types import MappingProxyType

from ...bgp import session_changes
from ...bgp.bird_state import BirdRoute
from ...dataplane.change import Change, change_lines, in_reading_order
from ...dataplane.planning.plan import NodePlan
from ...state.node_state import PROBE_INTERFACE, TABLE_PROBE, NodeState
from .. import desired
from ..host import units
from ..host.ssh_session import SshSession
from ..machine import Machine
from ..probe import sessions
from ..store import unconfirmed
from ..store.store import Store, Stored
from ..store.stored_file import StoreError
from ..store.unconfirmed import UnconfirmedStore
from ..write import datastore_files, session_passwords, writer
from ..write.session_passwords import PasswordPlan
from . import comparison, policy_diff
from .comparison import Engine

_UNITS = "/etc/systemd/"
#: How routes of the table for probes are written, and those to the probe endpoint.
_OF_PROBES = (f"table {TABLE_PROBE}", f"dev {PROBE_INTERFACE}")


@dataclasses.dataclass(frozen=True)
class ChangePlan:
    """What differs between `target` and the node, by the part that makes the change.

    `stored` is the node's stored state, None without one, and `writer` writes the kernel. `node` holds the kernel's
    part; `node.expected` is what BIRD will do because of this change. `units_asked` says whether any unit was asked
    for or the agent must restart, and `last_files` are the paths of files to write last. `bird_to_read` is a reload of
    BIRD without a new bird.cfg. `left_sessions` are restarts of sessions that a stopped run may have left undone.

    These fields inform and are no changes: `policy` sums up the policy part of `node`, `sessions` are the BGP sessions
    that end or restart, `cut` the SSH connections that could not be opened again, `flows` the connections that the new
    policy ends, `unseen_revert` an automatic revert that no run has shown.
    """

    target: Stored
    stored: t.Optional[Stored]
    writer: t.Union[writer.Direct, writer.Through] = dataclasses.field(repr=False, compare=False)
    node: NodePlan
    files: tuple[Change, ...]
    bird: tuple[Change, ...]
    bird_to_read: tuple[Change, ...]
    left_sessions: tuple[Change, ...]
    engine: tuple[Change, ...]
    state: tuple[Change, ...]
    units: tuple[Change, ...]
    units_asked: bool
    last_files: frozenset[str]
    passwords: PasswordPlan
    policy: tuple[Change, ...] = ()
    sessions: tuple[Change, ...] = ()
    cut: tuple[Change, ...] = ()
    flows: tuple[Change, ...] = ()
    unseen_revert: tuple[Change, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the plan has a change or a conflict.

        That state.json gets another plan, or is marked as complete, is no change.
        """
        return bool(self.node.changed or self._others)

    @property
    def shown(self) -> tuple[Change, ...]:
        """All changes for people: problems, removals, changes, additions, notes. Policy's chains are one change."""
        information = (*self.sessions, *self.cut, *self.flows, *self.unseen_revert)
        node: t.Sequence[Change] = self.node.shown()
        if self.target.state.policy is not None or (self.stored and self.stored.state.policy is not None):
            node = policy_diff.folded(node)
        return tuple(in_reading_order((*self.policy, *node, *self._others, *information)))

    @property
    def _others(self) -> tuple[Change, ...]:
        """The changes besides the kernel's."""
        return (
            *self.bird,
            *self.bird_to_read,
            *self.left_sessions,
            *self.passwords.changes,
            *self.files,
            *self.engine,
            *self.units,
            *self.state,
        )

    @property
    def lines(self) -> list[str]:
        """The changes for people, one line each, in the order of `shown`."""
        return change_lines(self.shown)

    @property
    def units_changed(self) -> bool:
        """Whether a file below /etc/systemd/ changes, so that systemd must read its units again."""
        return any(_UNITS in change.subject for change in self.files)

    @property
    def files_by_time(self) -> tuple[list[Change], list[Change]]:
        """Two lists: the file changes made before those of the kernel, and those that write `last_files`, made last."""
        late = [change for change in self.files if change.subject in self.last_files and change.action in "+~"]
        return [change for change in self.files if change not in late], late

    def with_notes(self, notes: t.Iterable[Change]) -> ChangePlan:
        """Return a copy of the plan with these notes about the kernel's objects, but for those that it has already."""
        known = {(change.subject, change.note) for change in self.node.kept}
        more = [change for change in notes if (change.subject, change.note) not in known]
        return dataclasses.replace(self, node=dataclasses.replace(self.node, kept=(*self.node.kept, *more)))

    @property
    def kept(self) -> list[str]:
        """The kernel's notes (subject, a blank, note): objects kept or left out, and problems of workloads."""
        return [f"{change.subject} {change.note}" for change in self.node.kept]

    @property
    def cut_sentences(self) -> list[str]:
        """The changes in `cut` as sentences: `a new connection like ssh from ... port 22 would be cut by ...`."""
        return [
            change.note.replace("a new connection", f"a new connection like {change.subject}", 1) for change in self.cut
        ]

    @property
    def another_policy(self) -> bool:
        """Whether nothing is stored, the stored state is not complete, or its policy differs from the target's."""
        return self.stored is None or not self.stored.complete or self.stored.state.policy != self.target.state.policy

    @property
    def sessions_reset(self) -> int:
        """The number of BGP sessions that the plan ends or restarts; 0 if nothing is stored."""
        old = self.stored.state if self.stored else None
        return len(sessions.resets(old, self.target.state, self.passwords.changed))

    @property
    def sessions_begun(self) -> int:
        """The number of BGP sessions that the plan begins: all of the target's if nothing is stored."""
        before = self.stored.state.bird if self.stored else None
        return sum(change.what == "begins" for change in session_changes.changes(before, self.target.state.bird))

    @property
    def sessions_to_restart(self) -> tuple[str, ...]:
        """The names in BIRD of the sessions to restart after a reload, because BIRD keeps them with another partner.

        Those that an earlier run left undone come first.
        """
        before = self.stored.state.bird if self.stored else None
        left = tuple(change.subject for change in self.left_sessions)
        new = session_changes.with_other_partners(before, self.target.state.bird, self.passwords.changed)
        return (*left, *(name for name in new if name not in left))

    @property
    def routes_withdrawn(self) -> int:
        """The number of CIDRs that go: blocks that BIRD may no longer advertise, and destinations of our routes.

        A CIDR that is both counts once. Routes that probes alone take do not count.
        """
        old = self.stored.state if self.stored else None
        gone = set(sessions.withdrawn(old, self.target.state))
        gone |= {
            change.subject
            for change in self.node.removals
            if change.kind == "route" and not any(words in (change.before or "") for words in _OF_PROBES)
        }
        return len(gone)


def plan_change(
    machine: Machine,
    target: Stored,
    *,
    by: t.Union[writer.Direct, writer.Through, None] = None,
    engine: t.Optional[Engine] = None,
    wanted_units: t.Sequence[units.WantedUnit] = (),
    connections: t.Sequence[SshSession] = (),
    passwords: t.Mapping[str, str] = MappingProxyType({}),
    undoable: bool = False,
    datastore: t.Optional[t.Mapping[str, str]] = None,
) -> ChangePlan:
    """Return the plan that brings the node to `target`. Change nothing.

    `by` plans the kernel's part, by default this process, which also plans it if the agent must restart first. `engine`
    and `wanted_units` are what the node must have, None and () to leave them; the restart is planned in any case.
    `target.files` None stands for the stored files. `passwords` and `datastore` are as in `apply.bring_to`.
    `connections` are the SSH sessions to check against the new policy, if the plan changes anything. `undoable` is True
    if the node may revert the change by itself.

    Raise an error of `errors.ERRORS`, OSError if a file or the passwords cannot be read, or ValueError if a file's mode
    is not octal or the policy cannot be compiled.
    """
    stored = Store(machine.store).load()
    if target.files is None:
        target = dataclasses.replace(target, files=stored.files if stored else ())
    direct = writer.Direct(machine, target.who)
    by = by or direct
    files = tuple(comparison.file_changes(machine, target, stored))
    restart = comparison.agent_restart(by, engine, target, files)
    # The agent notices files of the datastore by itself: they need no restart.
    files += tuple(datastore_files.plan(machine, datastore))
    wanted_units = _with_restart(wanted_units, restart)
    # An agent that is to be restarted may run another engine, which may not know all fields of this engine's state.
    node = (direct if restart else by).plan(target.state)
    expected = _expected(machine, node.expected, stored.state if stored else None, target.state)
    node = dataclasses.replace(node, expected=tuple(expected))
    bird = tuple(comparison.bird_changes(machine, target))
    password_plan = session_passwords.plan(
        machine,
        target.state,
        target.bird_config is not None,
        passwords,
        _returned_to(machine, target),
        _undone_to(target, stored) if undoable else None,
    )
    reads_anyway = bird or password_plan.changes or target.bird_config is None
    planned = ChangePlan(
        target=target,
        stored=stored,
        writer=by,
        node=node,
        files=files,
        bird=bird,
        bird_to_read=() if reads_anyway else tuple(comparison.bird_to_read(machine)),
        left_sessions=tuple(comparison.left_sessions(target, stored)),
        engine=tuple(comparison.engine_changes(machine, engine)),
        state=tuple(comparison.state_changes(machine, target, stored)),
        units=tuple(units.diff(wanted_units, units.observe(wanted_units, machine.systemctl))),
        units_asked=bool(wanted_units),
        last_files=frozenset(machine.placed(entry.path) for entry in target.files or () if entry.last),
        passwords=password_plan,
        policy=tuple(
            policy_diff.changes(stored.state.policy if stored else None, target.state.policy, target.state.node)
        ),
        sessions=tuple(sessions.planned(stored.state if stored else None, target.state, password_plan.changed)),
        unseen_revert=tuple(_unseen_revert(machine)),
    )
    if planned.another_policy:
        from .verdicts import (
            denied_flows,  # with lockout_check a tenth of what the module loads, and few runs need them
        )

        ending = len(denied_flows.of_machine(machine, target.state).ending)
        planned = dataclasses.replace(planned, flows=tuple(_flows(ending)))
    if connections and planned.changed:
        from .verdicts import lockout_check

        others = desired.others(machine, target.state)
        # The state of a plan that the agent made lacks the workloads that it attached.
        present = desired.with_attached(machine, node.state)
        cut = lockout_check.cut(machine.kernel, present, connections, others.endpoints(), others.live)
        planned = dataclasses.replace(planned, cut=tuple(cut))
    return planned


def _with_restart(wanted: t.Sequence[units.WantedUnit], reason: str) -> list[units.WantedUnit]:
    """Return the units with the agent's restart for `reason`, which comes last; unchanged if `reason` is empty."""
    if not reason:
        return list(wanted)
    others = [unit for unit in wanted if unit.name != units.AGENT_UNIT]
    found = [unit for unit in wanted if unit.name == units.AGENT_UNIT] or [units.WantedUnit(units.AGENT_UNIT)]
    return [*others, *(unit._replace(restart=reason) for unit in found)]


def _expected(
    machine: Machine, changes: t.Sequence[Change], old: t.Optional[NodeState], new: NodeState
) -> t.Iterator[Change]:
    """Yield those of BIRD's expected route changes that this change causes: all of them if `old` is None.

    Left out are a route that is missing because its node is down, and a route that neither state knows (another node
    opened a spare block of its own). While BIRD does not answer, a change of a route that `new` has is never left out.
    """
    if not changes:
        return
    if old is None:
        yield from changes
        return
    before, after = _by_destination(old), _by_destination(new)
    answers = machine.bird_answers(machine.bird_socket)
    for change in changes:
        was, will = before.get(change.subject), after.get(change.subject)
        if was != will or (not answers and will is not None):
            yield change


def _by_destination(state: NodeState) -> dict[str, BirdRoute]:
    return {route.destination: route for route in state.bird_routes}


def _returned_to(machine: Machine, target: Stored) -> t.Optional[NodeState]:
    """Return the state before an unconfirmed change to the plan of `target`; None if no such change can be read."""
    with contextlib.suppress(StoreError):
        pending = UnconfirmedStore(machine.store).load()
        if pending is not None and pending.plan == target.state.plan:
            return pending.previous.state
    return None


def _undone_to(target: Stored, stored: t.Optional[Stored]) -> t.Optional[NodeState]:
    """Return the state to which the node can revert from `target`, None if there is none."""
    previous = unconfirmed.before(target, stored)
    return previous.state if previous else None


def _unseen_revert(machine: Machine) -> t.Iterator[Change]:
    """Yield one note about a revert that no run has shown yet; nothing without one, or if it cannot be read."""
    with contextlib.suppress(StoreError):
        revert = UnconfirmedStore(machine.store).unseen_revert()
        if revert is not None:
            yield Change("state", "=", f"plan {revert.plan[:12]}", None, None, revert.sentence)


def _flows(ending: int) -> t.Iterator[Change]:
    """Yield `! flows    3 connections  that are now denied will be cut`; nothing for 0."""
    if ending:
        subject, verb = ("1 connection", "is") if ending == 1 else (f"{ending} connections", "are")
        yield Change("flows", "!", subject, None, f"that {verb} now denied will be cut")
