# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commit-confirm, its good end: somebody confirms a change by a new connection, and the node keeps it.

auto_revert.py is the other end. Nothing that changes a node is needed here: this runs once a phase on each host.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ..machine import Machine
from ..store import lock, session_passwords
from ..store.store import KEPT, Store
from ..store.unconfirmed import Revert, UnconfirmedStore

#: What a confirmation comes to: the change stays; the node went back from it; a later change waits for a confirmation
#: of its own; it came by the connection of the change, which proves nothing.
CONFIRMED, WENT_BACK, REPLACED, SAME_CONNECTION = "confirmed", "went_back", "replaced", "same_connection"

#: Who holds the node's lock for it.
WHO = "confirmation"


@dataclasses.dataclass(frozen=True)
class Confirmation:
    """`generation` is the one that the change became, None where it is the newest one already."""

    outcome: str
    news: t.Optional[Revert] = None
    generation: t.Optional[int] = None


def confirm(
    machine: Machine, change: str, session: str = "", keep: int = KEPT, lock_timeout: float = 60.0
) -> Confirmation:
    """`session` is the connection by which this comes, "" where there is none or it does not matter.

    Raises LockError, StoreError or FileError.
    A state becomes a generation here: one that was gone back from never is.
    """
    store, waiting = Store(machine.store), UnconfirmedStore(machine.store)
    with lock.held(WHO, lock_timeout, machine.lock):
        pending = waiting.load()
        if pending is None:
            news = waiting.last_revert()
            return (
                Confirmation(WENT_BACK, news)
                if news is not None and change in news.changes
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
            with contextlib.suppress(OSError):  # a password too many does no harm, and goes with the next run
                session_passwords.prune(machine, stored.state)
        return Confirmation(CONFIRMED, generation=number)
