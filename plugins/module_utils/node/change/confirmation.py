# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The confirmation of commit-confirm: a new connection proves that the node is reachable.

The node then keeps the change; auto_revert.py does the opposite. This module changes nothing in the kernel, because it
runs in each phase on each host.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ..machine import Machine
from ..store import lock
from ..store.store import KEPT, Store
from ..store.unconfirmed import Revert, UnconfirmedStore
from ..write import session_passwords

#: The outcomes of a confirmation: the node keeps the change; the node has reverted the change; another change waits for
#: a confirmation of its own; the confirmation came by the connection that made the change, which proves nothing.
CONFIRMED, WENT_BACK, REPLACED, SAME_CONNECTION = "confirmed", "went_back", "replaced", "same_connection"

#: The name under which a confirmation holds the node's lock.
WHO = "confirmation"


@dataclasses.dataclass(frozen=True)
class Confirmation:
    """The result of `confirm`.

    `outcome` is one of the four constants above. `revert` is given if the change was reverted. `generation` is the
    number of the generation that the change became, None if none was recorded.
    """

    outcome: str
    revert: t.Optional[Revert] = None
    generation: t.Optional[int] = None


def confirm(
    machine: Machine, change: str, session: str = "", keep: int = KEPT, lock_timeout: float = 60.0
) -> Confirmation:
    """Confirm `change`, so that the node does not revert it, and record the stored state as a generation.

    `session` is the SSH connection by which the confirmation comes, "" if there is none or it does not matter. The
    outcome is REPLACED if another change waits; SAME_CONNECTION if `change` waits and `session` is its own; WENT_BACK,
    with `revert`, if nothing waits and the stored revert names `change`; else CONFIRMED, also for a change that
    the node does not know. `keep` is the number of generations to keep, `lock_timeout` is in seconds. A state that is
    not completely applied becomes no generation, nor does one that `Store.record` leaves out. Passwords that the state
    does not need are removed if it has BGP and the disk allows it. Raise LockError, StoreError, FileError or OSError.
    """
    store, waiting = Store(machine.store), UnconfirmedStore(machine.store)
    with lock.held(WHO, lock_timeout, machine.lock):
        pending = waiting.load()
        if pending is None:
            revert = waiting.last_revert()
            return (
                Confirmation(WENT_BACK, revert)
                if revert is not None and change in revert.changes
                else Confirmation(CONFIRMED)
            )
        if change != pending.change:
            return Confirmation(REPLACED)
        if session and session == pending.session:
            return Confirmation(SAME_CONNECTION)
        stored = store.load()
        number = store.record(stored, keep) if stored is not None and stored.complete else None
        waiting.clear()
        if stored is not None:
            with contextlib.suppress(OSError):  # A superfluous password does no harm; the next run removes it.
                session_passwords.prune(machine, stored.state)
        return Confirmation(CONFIRMED, generation=number)
