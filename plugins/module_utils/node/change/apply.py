# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bringing this node to a state: plan, write down, apply, tell BIRD, clear away. Run by the node module and at boot.

The order makes any point of it a good one to be killed at. The engine and the new state are on the disk first, so that
boot or the next run completes what was begun. Additions stand before anything is removed, and BIRD is told in between.
Units are started when the node is ready for them, and what tells others that it is comes last.
A generation is recorded when all of it stands and, where that is asked for, somebody confirmed it (confirmation.py).

The kernel's part is the agent's where one runs (see writer.py). An agent of another engine than the node shall have is
started anew before it is told anything: only then it can read the state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import sys
import typing as t
from types import MappingProxyType

from ...bgp import session_changes
from ...bgp.bird_state import BirdRoute
from ...bird import client, configuration, secrets_file
from ...bird.errors import NotAnswering
from ...dataplane import underlay
from ...dataplane.change import Change
from ...dataplane.drivers import file
from ...dataplane.plan import NodePlan
from ...state.node_state import NodeState
from .. import desired, drain, units
from ..engine import bundle
from ..ipam.local_ipam import IpamUnreadable
from ..machine import Machine
from ..probe import sessions
from ..store import lock, session_passwords, unconfirmed, writer
from ..store.session_passwords import PasswordPlan
from ..store.store import KEPT, Store, Stored, StoreError, now
from ..store.unconfirmed import Confirm, Unconfirmed, Waiting
from . import denied_flows, lockout_check, policy_diff
from .ssh_session import Session

_UNITS = "/etc/systemd/"
_REMEMBERED = 20  # changes that are gone back from together
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
    says in other words what part of the node's changes come to; `sessions` are those of BGP that end or restart, `cut`
    connections that would not come about again, `flows` those that policy ends, and `news` what happened to the node
    since the last run: none of these is a change."""

    target: Stored
    stored: t.Optional[Stored]
    node: NodePlan
    files: tuple[Change, ...]
    bird: tuple[Change, ...]
    engine: tuple[Change, ...]
    state: tuple[Change, ...]
    bird_to_read: tuple[Change, ...]
    units: tuple[Change, ...] = ()
    units_asked: bool = False
    last_files: frozenset[str] = frozenset()
    policy: tuple[Change, ...] = ()
    sessions: tuple[Change, ...] = ()
    cut: tuple[Change, ...] = ()
    flows: tuple[Change, ...] = ()
    news: tuple[Change, ...] = ()
    passwords: PasswordPlan = dataclasses.field(default_factory=PasswordPlan)
    writer: t.Any = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def changed(self) -> bool:
        others = self.files or self.bird or self.passwords.changes or self.engine or self.state or self.units
        return bool(self.node.changed or others or self.bird_to_read)

    @property
    def shown(self) -> tuple[Change, ...]:
        """What breaks first, then what changes, then what is added; BIRD's own routes among them."""
        others = (
            *self.bird,
            *self.bird_to_read,
            *self.passwords.changes,
            *self.files,
            *self.engine,
            *self.units,
            *self.state,
        )
        told = (*self.sessions, *self.cut, *self.flows, *self.news)
        node: t.Sequence[Change] = self.node.shown()
        if self.target.state.policy is not None or (self.stored and self.stored.state.policy is not None):
            node = policy_diff.folded(node)
        return tuple(sorted((*self.policy, *node, *others, *told), key=lambda change: "!-~+=".index(change.action)))

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
    unconfirmed: str = ""  # the change that waits for being confirmed, this one or another


def plan(
    machine: Machine,
    target: Stored,
    engine: t.Optional[Engine] = None,
    wanted_units: t.Sequence[units.WantedUnit] = (),
    by: t.Optional[writer.Writer] = None,
    connections: t.Sequence[Session] = (),
    passwords: t.Mapping[str, str] = MappingProxyType({}),
    undoable: bool = False,
) -> Plan:
    """What bring_to would do, the kernel's part `by` whoever sees to that, by default this process. Changes nothing.
    Of `connections` it is said which would not come about again. `undoable`: the node may go back by itself.

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
    secrets = session_passwords.plan(
        machine,
        target.state,
        target.bird_config is not None,
        passwords,
        _returned_to(machine, target),
        _undone_to(target, stored) if undoable else None,
    )
    planned = Plan(
        target=target,
        stored=stored,
        node=node,
        files=files,
        bird=bird,
        engine=tuple(_engine_changes(machine, engine)),
        state=tuple(_state_changes(machine, target, stored)),
        bird_to_read=() if bird or secrets.changes or target.bird_config is None else tuple(_unread(machine)),
        units=tuple(units.diff(wanted_units, units.observe(wanted_units, machine.systemctl))),
        units_asked=bool(wanted_units),
        last_files=frozenset(placed(machine, entry.path) for entry in target.files or () if entry.last),
        policy=tuple(
            policy_diff.changes(stored.state.policy if stored else None, target.state.policy, target.state.node)
        ),
        sessions=tuple(sessions.planned(stored.state if stored else None, target.state, secrets.changed)),
        news=tuple(_news(machine)),
        passwords=secrets,
        writer=by,
    )
    if _another_policy(target, stored):
        ending = len(denied_flows.of_machine(machine, target.state).ending)
        planned = dataclasses.replace(planned, flows=tuple(_flows(ending)))
    if connections and planned.changed:
        others = desired.others(machine, target.state)
        cut = lockout_check.cut(machine.kernel, node.state, connections, others)
        planned = dataclasses.replace(planned, cut=tuple(cut))
    return planned


def bring_to(
    machine: Machine,
    target: Stored,
    *,
    engine: t.Optional[Engine] = None,
    wanted_units: t.Sequence[units.WantedUnit] = (),
    check: bool = False,
    keep: int = KEPT,
    lock_timeout: float = 60.0,
    confirm: t.Optional[Confirm] = None,
    passwords: t.Mapping[str, str] = MappingProxyType({}),
) -> Result:
    """Makes this node what `target` says (its `when` and `complete` are set here). With `confirm` a change is gone back
    from unless it is confirmed; without, nothing is gone back from, whatever waited for that. `passwords` are those
    that there are for BGP sessions, by the names of their secrets.

    Raises what `plan` does, and LockError, InTheWay, BundleError, FileError, ApplyError or BirdError.
    """
    if check:
        by = writer.of(machine, target.who)
        planned = plan(machine, target, engine, wanted_units, by, machine.sessions(), passwords, confirm is not None)
        planned = _into_service(machine, planned)
        planned.passwords.check()
        if os.path.exists(machine.bird_program):
            _check_bird(machine, planned)
        return Result(planned, None)
    with lock.held(target.who, lock_timeout, machine.lock):
        by = writer.of(machine, target.who, writer.PATIENCE)
        planned = plan(machine, target, engine, wanted_units, by, machine.sessions(), passwords, confirm is not None)
        planned = _into_service(machine, planned)
        if planned.node.problems:
            raise InTheWay("\n".join(change.note for change in planned.node.problems))
        waiting = Waiting(machine.store)
        if confirm is None:
            waiting.confirmed()
        generation = carry_out(machine, planned, engine, keep, confirm)
        pending = waiting.load()
        if pending is None:
            waiting.told()
        return Result(planned, generation, pending.change if pending else "")


def _into_service(machine: Machine, planned: Plan) -> Plan:
    """A node that was drained and is brought to a state takes workloads again; a reboot brings it to nothing new."""
    wanted = [file.WantedFile(drain.path(machine.store), None)]
    return dataclasses.replace(planned, files=(*planned.files, *file.diff(wanted, file.observe(None, wanted))))


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
        overdue = overdue_change(machine)
        if overdue is not None:
            stored = overdue.as_stored(stored.files)
            store.save(stored)
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
                    planned.passwords.check()
                    configuration.install(stored.bird_config, machine.bird_config, machine.bird_program)
        if unknown is not None:
            raise unknown
        if not stored.complete:
            _complete(store, stored, KEPT, to_stay=overdue is not None or not Waiting(machine.store).any())
        if overdue is not None:
            Waiting(machine.store).gone_back(overdue.went_back("the host was restarted before it was confirmed"))
        return planned


def carry_out(
    machine: Machine,
    planned: Plan,
    engine: t.Optional[Engine] = None,
    keep: int = KEPT,
    confirm: t.Optional[Confirm] = None,
) -> t.Optional[int]:
    """Does what bring_to planned, by one who holds the node's lock. Returns the number of the generation that it
    recorded. Raises as bring_to."""
    armed: t.Optional[Unconfirmed] = None

    def arm() -> None:
        nonlocal armed
        armed = _arm(machine, planned, confirm) if confirm is not None and planned.changed else None

    try:
        return _apply(machine, planned, engine, keep, arm)
    finally:
        if armed is not None:
            # The time to confirm begins when the node is changed, however long that took.
            Waiting(machine.store).save(_renewed(machine, armed))


def _apply(
    machine: Machine, planned: Plan, engine: t.Optional[Engine], keep: int, arm: t.Callable[[], None]
) -> t.Optional[int]:
    """`arm` is called when the engine is here, before anything else is changed."""
    store = Store(machine.store)
    target = dataclasses.replace(planned.target, when=now(), complete=False)
    by: writer.Writer = planned.writer
    _check_bird(machine, planned)
    by.prepare(planned.node)
    if engine is not None and engine.data is not None:
        bundle.install(engine.data, engine.digest, machine.engine)
    arm()
    another = not target.same_as(planned.stored)
    if another and planned.changed:
        store.save(target)
    early, late = planned.files_by_time
    file.apply(None, early)

    def tell_bird() -> None:
        wanted = planned.passwords.wanted
        if target.bird_config is not None:
            configuration.apply(
                target.bird_config,
                machine.bird_config,
                machine.bird_socket,
                machine.bird_program,
                passwords=wanted,
            )
        elif wanted is not None:
            secrets_file.install(machine.bird_config, wanted)

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
    if isinstance(by, writer.Direct) and (unfinished or _another_policy(target, planned.stored)):
        denied_flows.of_machine(machine, target.state).carry_out(machine.kernel)
    if planned.units_asked:
        others = [change for change in planned.units if change not in first]
        units.apply(others, planned.units_changed and not first, machine.systemctl)
    file.apply(None, late)
    if unfinished:
        return _complete(store, target, keep, to_stay=not Waiting(machine.store).any())
    return None


def _another_policy(target: Stored, stored: t.Optional[Stored]) -> bool:
    return stored is None or not stored.complete or stored.state.policy != target.state.policy


def _flows(ending: int) -> t.Iterator[Change]:
    """`! flows    3 connections  that are now denied will be cut`."""
    if ending == 1:
        yield Change("flows", "!", "1 connection", None, "that is now denied will be cut")
    elif ending:
        yield Change("flows", "!", f"{ending} connections", None, "that are now denied will be cut")


def _arm(machine: Machine, planned: Plan, confirm: Confirm) -> t.Optional[Unconfirmed]:
    """Has the node go back from what is planned, and from what was not confirmed before that, unless it is confirmed.
    None where there is nothing to go back to. Raises BundleError, StoreError or FileError."""
    waiting = Waiting(machine.store)
    pending = waiting.load()
    previous = pending.previous if pending else unconfirmed.before(planned.target, planned.stored)
    if previous is None:
        return None
    if bundle.installed_digest(machine.engine) is None:
        raise bundle.BundleError(
            f"there is no engine in {machine.engine} that could go back from this change. Nothing was changed. "
            "Give the module's options files or observed, with which it brings one, or confirm_timeout: 0."
        )
    armed = Unconfirmed(
        changes=(*(pending.changes if pending else ()), confirm.change)[-_REMEMBERED:],
        previous=previous,
        plan=planned.target.state.plan,
        boot="",
        deadline=0.0,
        within=confirm.within,
        bgp=planned.target.state.bird is not None,
        session=confirm.session,
        cut=tuple(lockout_check.sentence(change) for change in planned.cut),
    )
    armed = _renewed(machine, armed)
    waiting.save(armed)
    interpreter = sys.executable or "/usr/bin/python3"
    engine = os.path.join(machine.engine, "current")
    machine.leave_behind([interpreter, "-I", engine, unconfirmed.WAIT, confirm.change])
    return armed


def _renewed(machine: Machine, armed: Unconfirmed) -> Unconfirmed:
    uptime = machine.uptime()
    return dataclasses.replace(armed, boot=uptime.boot, deadline=uptime.seconds + armed.within)


def overdue_change(machine: Machine) -> t.Optional[Unconfirmed]:
    """What the node goes back from now. What cannot be read keeps no node from starting."""
    try:
        pending = Waiting(machine.store).load()
    except StoreError:
        return None
    return pending if pending is not None and pending.left(machine.uptime()) <= 0 else None


def _news(machine: Machine) -> t.Iterator[Change]:
    with contextlib.suppress(StoreError):
        news = Waiting(machine.store).news()
        if news is not None:
            yield Change("state", "=", f"plan {news.plan[:12]}", None, None, news.sentence)


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
    """Raises ConfigurationRefused for a bird.cfg that BIRD could not read, or PasswordMissing."""
    planned.passwords.check()
    if (planned.bird or planned.bird_to_read) and planned.target.bird_config is not None:
        names = planned.passwords.wanted or ()
        configuration.check(planned.target.bird_config, machine.bird_config, machine.bird_program, names)


def _complete(store: Store, target: Stored, keep: int, to_stay: bool = True) -> t.Optional[int]:
    done = dataclasses.replace(target, complete=True)
    number = store.record(done, keep) if to_stay else None
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


def _unread(machine: Machine) -> t.Iterator[Change]:
    """bird.cfg is as it shall be, and BIRD goes by an older one, or by older snippets."""
    if configuration.unread(machine.bird_config, machine.bird_socket):
        yield Change("bird", "~", machine.bird_config, "read before", "and its snippets as they are now", "soft reload")


def _returned_to(machine: Machine, target: Stored) -> t.Optional[NodeState]:
    """The state that the node goes back to by itself unless `target`, which it has already, is confirmed."""
    with contextlib.suppress(StoreError):
        pending = Waiting(machine.store).load()
        if pending is not None and pending.plan == target.state.plan:
            return pending.previous.state
    return None


def _undone_to(target: Stored, stored: t.Optional[Stored]) -> t.Optional[NodeState]:
    """The state that the node may go back to by itself from `target`."""
    previous = unconfirmed.before(target, stored)
    return previous.state if previous else None


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
    subject = os.path.join(machine.engine, "current")
    before = bundle.installed_digest(machine.engine)
    damage = bundle.damage(machine.engine) if before == engine.digest else ()
    if before != engine.digest:
        yield Change("file", "~" if before else "+", subject, before, engine.digest, "engine of the boot unit")
    elif damage:
        yield Change(
            "file", "~", subject, f"damaged: {', '.join(damage[:3])}", engine.digest, "engine of the boot unit"
        )


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
    old = planned.stored.state if planned.stored else None
    return len(sessions.resets(old, planned.target.state, planned.passwords.changed))


def begun(planned: Plan) -> int:
    """Number of BGP sessions that the plan begins."""
    before = planned.stored.state.bird if planned.stored else None
    return sum(change.what == "begins" for change in session_changes.changes(before, planned.target.state.bird))


def withdrawals(planned: Plan) -> int:
    """Number of this node's routes that go: announced blocks, and what the kernel has of ours."""
    old = planned.stored.state if planned.stored else None
    gone = set(sessions.withdrawn(old, planned.target.state))
    gone |= {change.subject for change in planned.node.removals if change.kind == "route"}
    return len(gone)
