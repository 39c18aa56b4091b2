# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commit-confirm: a node goes back from a change that nobody confirms by a new connection.

It does so by itself, for the change may be what cuts it off. Before anything is changed what was there is put on the
disk (unconfirmed.py, by apply.py), and a process is left behind that waits; after a reboot the boot unit does its part.
Going back is one more change, by the same writer as any other, the agent where one runs. Files, units and the engine
stay as they are, but for BIRD's unit, which runs where the state has BGP; so do workloads that came meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import syslog
import time
import typing as t

from . import apply, lock, session_passwords, units, writer
from .machine import Machine
from .store import KEPT, Store, StoreError
from .unconfirmed import Unconfirmed, Waiting, WentBack

#: What a confirmation comes to: the change stays; the node went back from it; a later change waits for a confirmation
#: of its own; it came by the connection of the change, which proves nothing.
CONFIRMED, WENT_BACK, REPLACED, SAME_CONNECTION = "confirmed", "went_back", "replaced", "same_connection"

_WHO = "confirmation"
_BIRD_UNIT = "calico-bird.service"
_STEP = 1.0  # seconds between two looks at whether somebody confirmed
_PAUSE = 3.0  # seconds before what failed is tried again
_ATTEMPTS = 20
_LOCK = 600.0  # seconds: longer than a run changes a node


@dataclasses.dataclass(frozen=True)
class Answer:
    """`generation` is the one that the change became, None where it is the newest one already."""

    outcome: str
    news: t.Optional[WentBack] = None
    generation: t.Optional[int] = None


def confirm(machine: Machine, change: str, session: str = "", keep: int = KEPT, lock_timeout: float = 60.0) -> Answer:
    """`session` is the connection by which this comes, "" where there is none or it does not matter.

    Raises LockError, StoreError or FileError.
    A state becomes a generation here: one that was gone back from never is.
    """
    store, waiting = Store(machine.store), Waiting(machine.store)
    with lock.held(_WHO, lock_timeout, machine.lock):
        pending = waiting.load()
        if pending is None:
            news = waiting.last_time()
            return Answer(WENT_BACK, news) if news is not None and change in news.changes else Answer(CONFIRMED)
        if change != pending.change:
            return Answer(REPLACED)
        if session and session == pending.session:
            return Answer(SAME_CONNECTION)
        stored = store.load()
        number = store.record(stored, keep) if stored is not None and stored.complete else None
        waiting.confirmed()
        if stored is not None:
            with contextlib.suppress(OSError):  # a password too many does no harm, and goes with the next run
                session_passwords.prune(machine, stored.state)
        return Answer(CONFIRMED, generation=number)


def wait(
    machine: Machine,
    change: str,
    sleep: t.Callable[[float], None] = time.sleep,
    say: t.Optional[t.Callable[[str], None]] = None,
) -> None:
    """Until the change is confirmed, or another one waits instead, or the node went back from it.

    What fails is tried again for a minute; then the node's stored state is the one before all the same, for the agent,
    the boot unit or the next run to complete. `say` gets what the log shall have. Raises StoreError.
    """
    say = say or _log
    waiting = Waiting(machine.store)
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
            with lock.held(_WHO, _LOCK, machine.lock):
                found = waiting.load()
                if found is None or found.change != change or found.left(machine.uptime()) > 0:
                    continue
                say(f"the change to plan {found.plan[:12]} was not confirmed within {found.within:g} s: going back")
                _go_back(machine, found)
                say(_finish(machine, found).sentence)
                return
        except Exception as error:  # noqa: BLE001 - nobody is above, and the node may be cut off
            problem = str(error) or type(error).__name__
            say(f"attempt {attempt} of {_ATTEMPTS} to go back failed: {problem}")
        if attempt >= _ATTEMPTS:
            with lock.held(_WHO, _LOCK, machine.lock):
                _store_previous(machine, pending)
                say(_finish(machine, pending, problem).sentence)
            return
        sleep(_PAUSE)


def _go_back(machine: Machine, pending: Unconfirmed) -> None:
    """Raises as apply.bring_to. What stands in the way keeps nothing else from going back."""
    _store_previous(machine, pending)
    by = writer.of(machine, _WHO, writer.PATIENCE)
    bgp = pending.previous.state.bird is not None
    wanted = [units.WantedUnit(_BIRD_UNIT, enabled=bgp, started=bgp)] if bgp != pending.bgp else []
    apply.carry_out(machine, apply.plan(machine, pending.previous, wanted_units=wanted, by=by))


def _store_previous(machine: Machine, pending: Unconfirmed) -> None:
    """First, so that whoever is next to look goes on from there."""
    store = Store(machine.store)
    with contextlib.suppress(StoreError):
        stored = store.load()
        store.save(pending.as_stored(stored.files if stored else ()))


def _finish(machine: Machine, pending: Unconfirmed, problem: str = "") -> WentBack:
    news = pending.went_back(f"it was not confirmed within {pending.within:g} s", problem)
    Waiting(machine.store).gone_back(news)
    return news


def _log(text: str) -> None:
    """To the system's log, as calico-node. Raises nothing."""
    syslog.openlog("calico-node", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_WARNING, text)
