# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The revert of commit-confirm: a node undoes a change that was not confirmed by a new connection.

The node does it by itself, because the change may be what cuts it off. Before a change, arming.py stores the state to
return to (store/unconfirmed.py) and starts a detached process, which waits here. After a reboot the boot unit reverts.
The revert is one more change by the same writer as any other, the agent where one runs. Files, units and the engine
stay as they are, except BIRD's unit, which runs where the state has BGP. Workloads that came meanwhile stay too.
"""

from __future__ import annotations

import contextlib
import syslog
import time
import typing as t

from .. import units
from ..machine import Machine
from ..store import lock, writer
from ..store.store import Store, StoreError
from ..store.unconfirmed import Unconfirmed, Waiting, WentBack
from . import apply
from .confirmation import WHO
from .plan import plan_change

_STEP = 1.0  # seconds between two looks at whether somebody confirmed
_PAUSE = 3.0  # seconds before what failed is tried again
_ATTEMPTS = 20
_LOCK = 600.0  # seconds: longer than a run changes a node


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
            with lock.held(WHO, _LOCK, machine.lock):
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
            with lock.held(WHO, _LOCK, machine.lock):
                _store_previous(machine, pending)
                say(_finish(machine, pending, problem).sentence)
            return
        sleep(_PAUSE)


def _go_back(machine: Machine, pending: Unconfirmed) -> None:
    """Raises as apply.bring_to. What stands in the way keeps nothing else from going back."""
    _store_previous(machine, pending)
    by = writer.of(machine, WHO, machine.agent_patience)
    bgp = pending.previous.state.bird is not None
    wanted = [units.WantedUnit(units.BIRD_UNIT, enabled=bgp, started=bgp)] if bgp != pending.bgp else []
    apply.carry_out(machine, plan_change(machine, pending.previous, by=by, wanted_units=wanted))


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
