# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arming of commit-confirm: before a change, the node prepares to revert it. auto_revert.py does the revert."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import typing as t

from ..engine import bundle, engine_start
from ..machine import Machine
from ..store import unconfirmed
from ..store.atomic_file import FileError
from ..store.unconfirmed import Confirm, Unconfirmed, UnconfirmedStore
from .plan import ChangePlan

_MOST_CHANGES = 20  # the most unconfirmed changes whose names are kept, the latest ones


def arm(machine: Machine, planned: ChangePlan, confirm: Confirm) -> t.Optional[Unconfirmed]:
    """Store what the node reverts to, and start the detached process that does it unless the change is confirmed.

    Changes that were not confirmed before are reverted along with this one; only the latest 20 are named. Return what
    was stored, but with `boot` "" and `deadline` 0; None if there is nothing to revert to, and then nothing is done.
    Raise BundleError if no engine is installed. After an error the change that waited before waits again, or none.
    """
    waiting = UnconfirmedStore(machine.store)
    pending = waiting.load()
    previous = pending.previous if pending else unconfirmed.before(planned.target, planned.stored)
    previous = unconfirmed.with_address(previous, planned.target, confirm.previous)
    if previous is None:
        return None
    if bundle.installed_digest(machine.engine) is None:
        raise bundle.BundleError(
            f"there is no engine in {machine.engine} that could go back from this change. Nothing was changed. "
            "Give the module's options files or observed, with which it brings one, or confirm_timeout: 0."
        )
    armed = Unconfirmed(
        changes=(*(pending.changes if pending else ()), confirm.change)[-_MOST_CHANGES:],
        previous=previous,
        plan=planned.target.state.plan,
        boot="",
        deadline=0.0,
        within=confirm.within,
        bgp=planned.target.state.bird is not None,
        session=confirm.session,
        cut=tuple(planned.cut_sentences),
    )
    interpreter = sys.executable or "/usr/bin/python3"
    start = os.path.join(machine.engine, engine_start.START)
    try:
        restart_time(machine, armed)
        machine.start_detached([interpreter, "-I", start, unconfirmed.WAIT, confirm.change])
    except BaseException:
        # The change is not made. If it waited all the same, the next boot would report that it was reverted.
        with contextlib.suppress(FileError, OSError):
            waiting.replace(pending)
        raise
    return armed


def restart_time(machine: Machine, armed: Unconfirmed) -> None:
    """Store `armed` with the id of this boot, and with its deadline `armed.within` seconds from the call."""
    uptime = machine.uptime()
    deadline = uptime.seconds + armed.within
    UnconfirmedStore(machine.store).save(dataclasses.replace(armed, boot=uptime.boot, deadline=deadline))
