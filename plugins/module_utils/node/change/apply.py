# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The change of this node to a state: plan, store, apply, reload BIRD, remove.

The order makes it safe to be killed at any point. The engine and the new state are on the disk first, so that boot or
the next run completes what was begun. Additions are in place before anything is removed, and BIRD is reloaded in
between. Units start when the node is ready for them, and the files that announce the node come last. A generation is
recorded when everything is in place and, with commit-confirm, confirmed (confirmation.py).

If an agent runs, it writes the kernel (write/writer.py). An agent of another engine than the node must have is
restarted before it gets the state, because only then it can read it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import typing as t
from types import MappingProxyType

from ...bird import configuration, secrets_file, unwritten_routes
from ...dataplane.change import Change
from ...dataplane.drivers import file
from ...dataplane.kernel.port import KernelError
from ...dataplane.planning import bird_routes
from .. import drain
from ..engine import bundle
from ..errors import InTheWay
from ..host import units
from ..machine import Machine
from ..store import lock, run_session
from ..store.clock import now
from ..store.store import KEPT, Store, Stored
from ..store.unconfirmed import Confirm, UnconfirmedStore
from ..write import own_folders, writer
from . import arming, missing_files
from .comparison import Engine
from .plan import ChangePlan, plan_change


@dataclasses.dataclass(frozen=True)
class Result:
    """What `bring_to` did.

    `plan` has a note also for each problem of a workload that was passed over while it was carried out. `generation` is
    the number that it recorded, None if it recorded none. `unconfirmed` names the change that waits for a confirmation
    (this one or an earlier one), "" if none does and with `check`.
    """

    plan: ChangePlan
    generation: t.Optional[int]
    unconfirmed: str = ""


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
    datastore: t.Optional[t.Mapping[str, str]] = None,
) -> Result:
    """Bring this node to `target`, whose `when` and `complete` are set here; with `check` only plan it.

    With `confirm` the node reverts the change unless it is confirmed, if it has a state to revert to; without it, a
    change that still waits counts as confirmed. `engine` and `wanted_units` are what the node must have, None and () to
    leave them as they are, but for an agent that must restart before it gets the state (`comparison.agent_restart`).
    `keep` is the number of generations to keep, `lock_timeout` is in seconds. `passwords` maps the name of a secret to
    the password of BGP sessions, `datastore` the names of files for the datastore to their contents (None: those of the
    node stay). A drained node returns to service. With `check` nothing is changed or locked, conflicts are part of the
    plan, bird.cfg is not checked without BIRD's program, and `generation` is None.

    Without `check`, raise LockError if the node's lock is not free in time, or InTheWay if the plan has a conflict:
    nothing is changed then. Raise another error of `errors.ERRORS`, BundleError or OSError, and ValueError for a mode
    that is not octal, a policy that cannot be compiled, or a password that cannot be written.
    """

    def planned_by(by: t.Union[writer.Direct, writer.Through]) -> ChangePlan:
        planned = plan_change(
            machine,
            target,
            by=by,
            engine=engine,
            wanted_units=wanted_units,
            connections=machine.sessions(),
            passwords=passwords,
            undoable=confirm is not None,
            datastore=datastore,
        )
        return _into_service(machine, planned)

    if check:
        planned = planned_by(writer.from_machine(machine, target.who))
        planned.passwords.check()
        if os.path.exists(machine.bird_program):
            _check_bird(machine, planned)
        return Result(planned, None)
    with lock.held(target.who, lock_timeout, machine.lock):
        planned = planned_by(writer.from_machine(machine, target.who, machine.agent_patience))
        if planned.node.problems:
            raise InTheWay("\n".join(change.note for change in planned.node.problems))
        waiting = UnconfirmedStore(machine.store)
        if confirm is None:
            waiting.clear()
        generation, passed_over = carry_out(machine, planned, engine, keep, confirm)
        if target.state.policy is not None and target.state.policy.settings.live:
            for session in machine.sessions()[:1]:  # the first is that of this process
                with contextlib.suppress(OSError):
                    run_session.save(machine.store, session)
        pending = waiting.load()
        if pending is None:
            waiting.mark_shown()
        return Result(planned.with_notes(passed_over), generation, pending.change if pending else "")


def _into_service(machine: Machine, planned: ChangePlan) -> ChangePlan:
    """Return the plan with the removal of the drain mark, if there is one: a run ends the drain, a reboot does not."""
    wanted = [file.WantedFile(drain.path(machine.store), None)]
    return dataclasses.replace(planned, files=(*planned.files, *file.changes(wanted)))


def carry_out(
    machine: Machine,
    planned: ChangePlan,
    engine: t.Optional[Engine] = None,
    keep: int = KEPT,
    confirm: t.Optional[Confirm] = None,
) -> tuple[t.Optional[int], tuple[Change, ...]]:
    """Make the planned changes; the caller holds the node's lock. `keep` is the number of generations to keep.

    Return the number of the recorded generation, and the notes of `KernelWriter.apply`. The number is None if none was
    recorded: the target was stored and complete before, a change waits for a confirmation, the phase is a step of a
    change, or the newest generation is the same. With `confirm`, if the plan changes anything, the revert is armed
    first, once the engine that would do it is installed. Raise the errors of `bring_to` but LockError and InTheWay.
    """
    _check_bird(machine, planned)
    planned.writer.prepare(planned.node)
    if engine is not None and engine.packed is not None:
        bundle.install(engine.packed, engine.digest, machine.engine)
    elif engine is not None:
        # The controller sends no engine that the node has already. It may be the one from before the last change.
        bundle.use(engine.digest, machine.engine)
    armed = arming.arm(machine, planned, confirm) if confirm is not None and planned.changed else None
    try:
        return _make(machine, planned, keep)
    finally:
        if armed is not None:
            # The time to confirm begins when the changes are made, or have failed, however long that took.
            arming.restart_time(machine, armed)


def _make(machine: Machine, planned: ChangePlan, keep: int) -> tuple[t.Optional[int], tuple[Change, ...]]:
    """Store the target and make the changes of the plan except the engine's. Return what `carry_out` returns."""
    store = Store(machine.store)
    target = dataclasses.replace(planned.target, when=now(), complete=False, restart=planned.sessions_to_restart)
    by: writer.KernelWriter = planned.writer
    another = not target.same_as(planned.stored)
    if another and planned.changed:
        store.save(target)
    early, late = planned.files_by_time
    own_folders.record(machine, target.files or ())
    missing_files.list_paths(machine, target.files or ())
    file.apply(early)
    node = planned.node
    agent_first = [change for change in planned.units if change.subject == units.AGENT_UNIT and change.old.started]
    if agent_first:
        units.apply(agent_first, planned.units_changed, machine.systemctl)
        by = writer.from_machine(machine, target.who, machine.agent_patience)
        node = by.plan(target.state)
    passed_over: tuple[Change, ...] = ()
    unfinished = another or (planned.stored is not None and not planned.stored.complete)
    if unfinished or node.changed or not isinstance(by, writer.Through):
        passed_over = by.apply(target.state, node, lambda: _tell_bird(machine, planned))
    else:
        _tell_bird(machine, planned)
    if isinstance(by, writer.Direct) and (unfinished or planned.another_policy):
        from .verdicts import denied_flows

        try:
            denied_flows.of_machine(machine, target.state).carry_out(machine.kernel)
        except KernelError as error:
            raise denied_flows.NotCut(error, "Run again.") from error
    if planned.units_asked:
        others = [change for change in planned.units if change not in agent_first]
        units.apply(others, planned.units_changed and not agent_first, machine.systemctl)
    file.apply(late)
    if unfinished:
        return store.complete(target, keep, record=not UnconfirmedStore(machine.store).any()), passed_over
    return None, passed_over


def _check_bird(machine: Machine, planned: ChangePlan) -> None:
    """Raise PasswordMissing if a password is missing, or BirdError if BIRD cannot read the new bird.cfg.

    Only a changed bird.cfg, or an unchanged one that is in the plan's `bird_to_read`, is checked. BIRD has 60 seconds.
    """
    planned.passwords.check()
    if (planned.bird or planned.bird_to_read) and planned.target.bird_config is not None:
        names = planned.passwords.wanted or ()
        configuration.check(planned.target.bird_config, machine.bird_config, machine.bird_program, names)


def _tell_bird(machine: Machine, planned: ChangePlan) -> None:
    """Install bird.cfg and the passwords, and let BIRD read them; without a bird.cfg only store the passwords.

    Sessions restart that BIRD keeps although their address is another node's now. A BIRD that learned routes before
    their tunnel device existed writes them to the kernel then.
    """
    wanted = planned.passwords.wanted
    if planned.target.bird_config is not None:
        configuration.apply(
            planned.target.bird_config,
            machine.bird_config,
            machine.bird_socket,
            machine.bird_program,
            passwords=wanted,
        )
        if planned.sessions_to_restart:
            configuration.restart_sessions(planned.sessions_to_restart, machine.bird_socket)
        unwritten_routes.offer_again(
            lambda: bird_routes.unwritten(machine.kernel, planned.target.state), machine.bird_socket
        )
    elif wanted is not None:
        secrets_file.install(machine.bird_config, wanted)
