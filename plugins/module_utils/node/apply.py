# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bringing this node to a state: plan, write down, apply, tell BIRD, clear away. Run by the node module and at boot.

The order makes any point of it a good one to be killed at. The engine and the new state are on the disk first, so that
boot or the next run completes what was begun. Additions stand before anything is removed, and BIRD is told in between.
Units are started when the node is ready for them, and what tells others that it is comes last.
A generation is recorded when all of it stands.

The kernel's part is the agent's where one runs (see writer.py). An agent of another engine than the node shall have is
started anew before it is told anything: only then it can read the state.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import typing as t

from ..bird import client, configuration
from ..bird.errors import NotAnswering
from ..dataplane import file, underlay
from ..dataplane import node as dataplane
from ..dataplane.change import Change
from ..fleet.node_state import BirdRoute, NodeState
from . import bundle, desired, lock, policy_diff, sessions, units, writer
from .local_ipam import IpamUnreadable
from .machine import Machine
from .store import KEPT, Store, Stored, now

_UNITS = "/etc/systemd/"
AGENT_UNIT = "calico-agent.service"
AGENT_SETTINGS = "/etc/calico/agent.json"


class InTheWay(Exception):
    """Something that is not ours stands where ours has to be. Nothing was changed."""


@dataclasses.dataclass(frozen=True)
class Engine:
    """The engine that the node shall have. `data` None: it is not here yet (check mode)."""

    digest: str
    data: t.Optional[bytes] = None


@dataclasses.dataclass(frozen=True)
class Plan:
    """What differs, by who sees to it. `node.expected` is what BIRD will do by itself because of this change. `policy`
    says in other words what part of the node's changes come to."""

    target: Stored
    stored: t.Optional[Stored]
    node: dataplane.NodePlan
    files: tuple[Change, ...]
    bird: tuple[Change, ...]
    engine: tuple[Change, ...]
    state: tuple[Change, ...]
    bird_to_read: bool
    units: tuple[Change, ...] = ()
    units_asked: bool = False
    last_files: frozenset[str] = frozenset()
    policy: tuple[Change, ...] = ()
    writer: t.Any = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def changed(self) -> bool:
        others = self.files or self.bird or self.engine or self.state or self.units
        return bool(self.node.changed or others or self.bird_to_read)

    @property
    def shown(self) -> tuple[Change, ...]:
        """What breaks first, then what changes, then what is added; BIRD's own routes among them."""
        others = (*self.bird, *self.files, *self.engine, *self.units, *self.state)
        node: t.Sequence[Change] = self.node.shown()
        if self.target.state.policy is not None or (self.stored and self.stored.state.policy is not None):
            node = policy_diff.folded(node)
        return tuple(sorted((*self.policy, *node, *others), key=lambda change: "!-~+=".index(change.action)))

    @property
    def lines(self) -> list[str]:
        return lines(self.shown)

    @property
    def units_changed(self) -> bool:
        return any(_UNITS in change.subject for change in self.files)

    @property
    def files_by_time(self) -> tuple[list[Change], list[Change]]:
        """(those before anything else, those when all else stands)."""
        late = [change for change in self.files if change.subject in self.last_files and change.action in "+~"]
        return [change for change in self.files if change not in late], late

    @property
    def kept(self) -> list[str]:
        return [f"{change.subject} {change.note}" for change in self.node.kept]


def lines(changes: t.Sequence[Change]) -> list[str]:
    """For people, one per change, columns aligned."""
    width = min(max((len(change.subject) for change in changes), default=0), 40)
    return [change.line(width) for change in changes]


@dataclasses.dataclass(frozen=True)
class Result:
    plan: Plan
    generation: t.Optional[int]  # the one recorded by this run


def plan(
    machine: Machine,
    target: Stored,
    engine: t.Optional[Engine] = None,
    wanted_units: t.Sequence[units.WantedUnit] = (),
    by: t.Optional[writer.Writer] = None,
) -> Plan:
    """What bring_to would do, the kernel's part `by` whoever sees to that, by default this process. Changes nothing.

    Raises ObserveError, KernelError, StoreError, or what the writer does.
    """
    stored = Store(machine.store).load()
    if target.files is None:
        target = dataclasses.replace(target, files=stored.files if stored else ())
    direct = writer.Direct(machine, target.who)
    by = by or direct
    files = tuple(_file_changes(machine, target, stored))
    restart = _restart(machine, by, engine, target, files)
    wanted_units = _with_restart(wanted_units, restart)
    # An agent of another engine may not know all that a state of this one holds.
    node = (direct if restart else by).plan(target.state)
    expected = _expected(machine, node.expected, stored.state if stored else None, target.state)
    node = dataclasses.replace(node, expected=tuple(expected))
    bird = tuple(_bird_changes(machine, target))
    return Plan(
        target=target,
        stored=stored,
        node=node,
        files=files,
        bird=bird,
        engine=tuple(_engine_changes(machine, engine)),
        state=tuple(_state_changes(machine, target, stored)),
        bird_to_read=not bird
        and target.bird_config is not None
        and configuration.unread(machine.bird_config, machine.bird_socket),
        units=tuple(units.diff(wanted_units, units.observe(wanted_units, machine.systemctl))),
        units_asked=bool(wanted_units),
        last_files=frozenset(placed(machine, entry.path) for entry in target.files or () if entry.last),
        policy=tuple(
            policy_diff.changes(stored.state.policy if stored else None, target.state.policy, target.state.node)
        ),
        writer=by,
    )


def bring_to(
    machine: Machine,
    target: Stored,
    *,
    engine: t.Optional[Engine] = None,
    wanted_units: t.Sequence[units.WantedUnit] = (),
    check: bool = False,
    keep: int = KEPT,
    lock_timeout: float = 60.0,
) -> Result:
    """Makes this node what `target` says (its `when` and `complete` are set here).

    Raises what `plan` does, and LockError, InTheWay, BundleError, FileError, ApplyError or BirdError.
    """
    if check:
        planned = plan(machine, target, engine, wanted_units, writer.of(machine, target.who))
        if os.path.exists(machine.bird_program):
            _check_bird(machine, planned)
        return Result(planned, None)
    with lock.held(target.who, lock_timeout, machine.lock):
        by = writer.of(machine, target.who, writer.PATIENCE)
        planned = plan(machine, target, engine, wanted_units, by)
        if planned.node.problems:
            raise InTheWay("\n".join(change.note for change in planned.node.problems))
        return Result(planned, _apply(machine, planned, engine, keep))


def restore(machine: Machine, *, lock_timeout: float = 60.0) -> t.Optional[Plan]:
    """At boot: brings the node to its stored state, None if it has none. All that can be applied is. Where it cannot be
    read what the node gave away by itself nothing is removed.

    Waits for the node's address. BIRD is not told: it starts afterwards and reads its file then. Raises as bring_to.
    """
    store = Store(machine.store)
    with lock.held("boot", lock_timeout, machine.lock):
        stored = store.load()
        if stored is None:
            return None
        underlay.wait(machine.kernel, stored.state, machine.boot_wait)
        by: writer.Writer = writer.of(machine, "boot", writer.PATIENCE)
        unknown: t.Optional[Exception] = None
        try:
            planned = plan(machine, stored, by=by)
        except (desired.RecordsUnreadable, IpamUnreadable) as error:
            unknown, by = error, writer.Adding(machine, "boot")
            planned = plan(machine, stored, by=by)
        # Forwarding first, and whatever the one cannot do, the others are tried.
        try:
            if isinstance(by, writer.Through):
                by.resync()
            else:
                by.apply(stored.state, planned.node, None)
        finally:
            try:
                file.apply(None, planned.files)
            finally:
                if planned.bird and stored.bird_config is not None:
                    configuration.install(stored.bird_config, machine.bird_config, machine.bird_program)
        if unknown is not None:
            raise unknown
        if not stored.complete:
            _complete(store, stored, KEPT)
        return planned


def _apply(machine: Machine, planned: Plan, engine: t.Optional[Engine], keep: int) -> t.Optional[int]:
    store = Store(machine.store)
    target = dataclasses.replace(planned.target, when=now(), complete=False)
    by: writer.Writer = planned.writer
    _check_bird(machine, planned)
    by.prepare(planned.node)
    if engine is not None and engine.data is not None:
        bundle.install(engine.data, engine.digest, machine.engine)
    another = not target.same_as(planned.stored)
    if another and planned.changed:
        store.save(target)
    early, late = planned.files_by_time
    file.apply(None, early)

    def tell_bird() -> None:
        if target.bird_config is not None:
            configuration.apply(target.bird_config, machine.bird_config, machine.bird_socket, machine.bird_program)

    node = planned.node
    first = [change for change in planned.units if change.subject == AGENT_UNIT and change.old.started]
    if first:
        units.apply(first, planned.units_changed, machine.systemctl)
        by = writer.of(machine, target.who, writer.PATIENCE)
        node = by.plan(target.state)
    unfinished = another or (planned.stored is not None and not planned.stored.complete)
    if unfinished or node.changed or not isinstance(by, writer.Through):
        by.apply(target.state, node, tell_bird)
    else:
        tell_bird()
    if planned.units_asked:
        others = [change for change in planned.units if change not in first]
        units.apply(others, planned.units_changed and not first, machine.systemctl)
    file.apply(None, late)
    if unfinished:
        return _complete(store, target, keep)
    return None


def _restart(
    machine: Machine, by: writer.Writer, engine: t.Optional[Engine], target: Stored, files: t.Sequence[Change]
) -> str:
    """Why the agent that runs, if one does, has to be started anew."""
    agent = by.agent if isinstance(by, writer.Through) else None
    if agent is None:
        return ""
    if engine is not None and agent.engine != engine.digest:
        return "it runs another engine"
    settings = next((entry.content for entry in target.files or () if entry.path == AGENT_SETTINGS), None)
    if settings is not None and agent.settings != hashlib.sha256(settings.encode()).hexdigest()[:16]:
        return "it runs with other settings"
    if any(change.subject.endswith(f"/{AGENT_UNIT}") for change in files):
        return "its unit is another one"
    return ""


def _with_restart(wanted: t.Sequence[units.WantedUnit], reason: str) -> list[units.WantedUnit]:
    if not reason:
        return list(wanted)
    others = [unit for unit in wanted if unit.name != AGENT_UNIT]
    found = [unit for unit in wanted if unit.name == AGENT_UNIT] or [units.WantedUnit(AGENT_UNIT)]
    return [*others, *(unit._replace(restart=reason) for unit in found)]


def _check_bird(machine: Machine, planned: Plan) -> None:
    """Raises ConfigurationRefused for a bird.cfg that BIRD could not read."""
    if planned.bird and planned.target.bird_config is not None:
        configuration.check(planned.target.bird_config, machine.bird_config, machine.bird_program)


def _complete(store: Store, target: Stored, keep: int) -> t.Optional[int]:
    done = dataclasses.replace(target, complete=True)
    number = store.record(done, keep)
    store.save(done)
    return number


def _bird_changes(machine: Machine, target: Stored) -> t.Iterator[Change]:
    """bird.cfg; where there is no BGP it is left as it is, for the unit is stopped then."""
    if target.bird_config is None:
        return
    before = configuration.current(machine.bird_config)
    if before == target.bird_config:
        return
    detail = file.unified_diff(machine.bird_config, before, target.bird_config, bool(before))
    lines = f"{len(target.bird_config.splitlines())} lines"
    if not before:
        yield Change("bird", "+", machine.bird_config, None, lines, detail=detail)
        return
    running = _bird_answers(machine)
    note = "soft reload" if running else "read when BIRD starts"
    yield Change("bird", "~", machine.bird_config, f"{len(before.splitlines())} lines", lines, note, detail=detail)


def _bird_answers(machine: Machine) -> bool:
    try:
        with client.Client(machine.bird_socket, timeout=5.0):
            return True
    except NotAnswering:
        return False


def _file_changes(machine: Machine, target: Stored, stored: t.Optional[Stored]) -> list[Change]:
    """The files of the state, and those that the stored state had and this one has not."""
    wanted = [
        file.WantedFile(placed(machine, entry.path), entry.content, int(entry.mode, 8)) for entry in target.files or ()
    ]
    paths = {entry.path for entry in wanted}
    gone = [placed(machine, entry.path) for entry in reversed((stored.files if stored else None) or ())]
    wanted[:0] = [file.WantedFile(path, None) for path in gone if path not in paths]
    return file.diff(wanted, file.observe(None, wanted))


def placed(machine: Machine, path: str) -> str:
    return path if machine.root == "/" else os.path.join(machine.root, path.lstrip("/"))


def _engine_changes(machine: Machine, engine: t.Optional[Engine]) -> t.Iterator[Change]:
    if engine is None:
        return
    before = bundle.installed_digest(machine.engine)
    if before != engine.digest:
        subject = os.path.join(machine.engine, "current")
        yield Change("file", "~" if before else "+", subject, before, engine.digest, "engine of the boot unit")


def _state_changes(machine: Machine, target: Stored, stored: t.Optional[Stored]) -> t.Iterator[Change]:
    """That the state is of another plan alone makes no difference on the node: it is written down and not told."""
    subject = os.path.join(machine.store, "state.json")
    if stored is not None and stored.state == target.state:
        return
    after = f"{target.state.phase} {target.state.digest[:12]}"
    if stored is None:
        yield Change("file", "+", subject, None, after, "state to restore at boot")
    elif (stored.state.digest, stored.state.phase) != (target.state.digest, target.state.phase):
        before = f"{stored.state.phase} {stored.state.digest[:12]}"
        yield Change("file", "~", subject, before, after, "state to restore at boot")


def _expected(
    machine: Machine, changes: t.Sequence[Change], old: t.Optional[NodeState], new: NodeState
) -> t.Iterator[Change]:
    """Of what BIRD is to do, what comes of this change: a route that is missing because its node is down does not.

    Nor does one that neither state knows: another node opened a spare block of its own.
    """
    if not changes:
        return
    if old is None:
        yield from changes
        return
    before, after = _by_destination(old), _by_destination(new)
    answers = _bird_answers(machine)
    for change in changes:
        was, will = before.get(change.subject), after.get(change.subject)
        if was != will or (not answers and will is not None):
            yield change


def _by_destination(state: NodeState) -> dict[str, BirdRoute]:
    return {route.destination: route for route in state.bird_routes}


def resets(planned: Plan) -> int:
    """Number of BGP sessions that the plan ends or restarts."""
    return len(sessions.reset(planned.stored.state if planned.stored else None, planned.target.state))


def withdrawals(planned: Plan) -> int:
    """Number of this node's routes that go: announced blocks, and what the kernel has of ours."""
    old = planned.stored.state if planned.stored else None
    gone = set(sessions.withdrawn(old, planned.target.state))
    gone |= {change.subject for change in planned.node.removals if change.kind == "route"}
    return len(gone)
