# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The revert of commit-confirm: a node undoes a change that was not confirmed by a new connection.

The node does it by itself, because the change may have made it unreachable. Before a change, arming.py stores the state
to return to (store/unconfirmed.py) and starts a detached process, which waits here. After a reboot the boot unit
reverts. The same writer makes the revert as any other change: the agent if one runs. Files except BIRD's, units except
BIRD's, which runs if the state has BGP, and the engine stay as they are. Workloads that were attached meanwhile stay
too.
"""

from __future__ import annotations

import contextlib
import syslog
import time
import typing as t

from ...dataplane.change import Change
from ..host import units
from ..machine import Machine
from ..store import lock
from ..store.store import Store
from ..store.stored_file import StoreError
from ..store.unconfirmed import Revert, Unconfirmed, UnconfirmedStore
from ..write import writer
from . import apply
from .confirmation import WHO
from .plan import plan_change

_STEP = 1.0  # seconds between two checks for a confirmation
_PAUSE = 3.0  # seconds before a failed revert is retried
_ATTEMPTS = 20
_LOCK = 600.0  # the most seconds to wait for the node's lock: longer than a run changes a node


def wait(
    machine: Machine,
    change: str,
    sleep: t.Callable[[float], None] = time.sleep,
    say: t.Optional[t.Callable[[str], None]] = None,
) -> None:
    """Block until `change` is confirmed, until another change waits instead, or until the node has reverted it.

    The revert begins at the stored deadline. A failed one is retried after 3 seconds; there are 20 attempts in all. If
    the last one fails too, the previous state is stored all the same, for the agent, the boot unit or the next run to
    complete, unless the stored state cannot be read. `sleep` takes seconds. `say` receives the sentences for the log,
    by default syslog. Raise StoreError if the file of the change cannot be read, or OSError if the boot's id cannot be.
    If the last attempt failed, raise LockError, FileError or OSError if the previous state cannot be stored.
    """
    say = say or _log
    waiting = UnconfirmedStore(machine.store)
    attempt = 0
    while True:
        pending = waiting.load()
        if pending is None or pending.change != change:
            return
        left = pending.left(machine.uptime())
        if left > 0:
            sleep(min(left, _STEP))
            continue
        attempt += 1
        try:
            with lock.held(WHO, _LOCK, machine.lock):
                found = waiting.load()
                if found is None or found.change != change or found.left(machine.uptime()) > 0:
                    continue
                say(f"the change to plan {found.plan[:12]} was not confirmed within {found.within:g} s: going back")
                for note in _go_back(machine, found):
                    say(f"{note.kind} {note.subject}: {note.note}")
                say(_finish(machine, found).sentence)
                return
        except Exception as error:  # noqa: BLE001 - no caller could handle it, and the node may be unreachable
            problem = str(error) or type(error).__name__
            say(f"attempt {attempt} of {_ATTEMPTS} to go back failed: {problem}")
        if attempt >= _ATTEMPTS:
            with lock.held(WHO, _LOCK, machine.lock):
                _store_previous(machine, pending)
                say(_finish(machine, pending, problem).sentence)
            return
        sleep(_PAUSE)


def _go_back(machine: Machine, pending: Unconfirmed) -> tuple[Change, ...]:
    """Store the previous state, and bring the node to it. Return the notes of `carry_out`."""
    _store_previous(machine, pending)
    by = writer.from_machine(machine, WHO, machine.agent_patience)
    bgp = pending.previous.state.bird is not None
    wanted = [units.WantedUnit(units.BIRD_UNIT, enabled=bgp, started=bgp)] if bgp != pending.bgp else []
    return apply.carry_out(machine, plan_change(machine, pending.previous, by=by, wanted_units=wanted))[1]


def _store_previous(machine: Machine, pending: Unconfirmed) -> None:
    """Store the previous state, not complete, for others to go on from; skip it if the stored one is unreadable."""
    store = Store(machine.store)
    with contextlib.suppress(StoreError):
        stored = store.load()
        store.save(pending.as_stored(stored.files if stored else ()))


def _finish(machine: Machine, pending: Unconfirmed, problem: str = "") -> Revert:
    """Record the revert, and return it. `problem` says what could not be restored, "" if everything was."""
    revert = pending.reverted(f"it was not confirmed within {pending.within:g} s", problem)
    UnconfirmedStore(machine.store).record_revert(revert)
    return revert


def _log(text: str) -> None:
    """Write `text` to the system's log, as calico-node."""
    syslog.openlog("calico-node", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_WARNING, text)
