# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The restore at boot: the node returns to its stored state, without Ansible and before BIRD runs."""

from __future__ import annotations

import contextlib
import functools
import typing as t

from ...bird import configuration, unwritten_routes
from ...bird.errors import BirdError
from ...dataplane import underlay
from ...dataplane.drivers import file
from ...dataplane.planning import bird_routes
from .. import desired
from ..ipam.local_ipam import IpamUnreadable
from ..machine import Machine
from ..store import lock
from ..store.store import KEPT, Store
from ..store.unconfirmed import UnconfirmedStore
from ..write import writer
from .plan import ChangePlan, plan_change


def restore(machine: Machine, *, lock_timeout: float = 60.0) -> t.Optional[ChangePlan]:
    """Bring the node to its stored state, as far as possible.

    Return the plan that was made, with notes about problems of workloads that were passed over, or None if nothing is
    stored. Wait for the node's addresses, at most `machine.boot_wait` seconds; without them, raise ObserveError, with
    nothing changed but the stored state. A change that was not confirmed in time, or before the reboot, is reverted,
    unless its file cannot be read. A running agent repairs the kernel itself. If the node's allocations or records
    cannot be read, nothing is removed from the kernel, and that error is raised at the end. BIRD is not reloaded: it
    starts afterwards and reads its file then. One that runs already writes the routes whose tunnel device was missing
    when it learned them. `lock_timeout` is in seconds.

    A kernel that cannot be written does not keep the files and bird.cfg from being written. Raise an error of
    `errors.ERRORS` or OSError on failure, and ValueError for a stored mode that is not octal or a policy that cannot be
    compiled.
    """
    store, waiting = Store(machine.store), UnconfirmedStore(machine.store)
    with lock.held("boot", lock_timeout, machine.lock):
        stored = store.load()
        if stored is None:
            return None
        overdue = waiting.overdue(machine.uptime)
        if overdue is not None:
            stored = overdue.as_stored(stored.files)
            store.save(stored)
        underlay.wait(machine.kernel, stored.state, machine.boot_wait)
        by = writer.from_machine(machine, "boot", machine.agent_patience)
        unknown: t.Optional[Exception] = None
        try:
            planned = plan_change(machine, stored, by=by)
        except (desired.RecordsUnreadable, IpamUnreadable) as error:
            unknown, by = error, writer.Adding(machine, "boot")
            planned = plan_change(machine, stored, by=by)
        # The kernel is written first, then files, then bird.cfg. If one of these fails, the next is tried all the same.
        try:
            if isinstance(by, writer.Through):
                by.resync()
            else:
                planned = planned.with_notes(by.apply(stored.state, planned.node, None))
        finally:
            try:
                file.apply(planned.files)
            finally:
                if planned.bird and stored.bird_config is not None:
                    planned.passwords.check()
                    configuration.install(stored.bird_config, machine.bird_config, machine.bird_program)
        # BIRD runs already if the addresses came late, and this is not the first attempt.
        with contextlib.suppress(BirdError):
            missing = functools.partial(bird_routes.unwritten, machine.kernel, stored.state)
            unwritten_routes.offer_again(missing, machine.bird_socket)
        if unknown is not None:
            raise unknown
        if not stored.complete:
            store.complete(stored, KEPT, record=overdue is not None or not waiting.any())
        if overdue is not None:
            waiting.record_revert(overdue.reverted("the host was restarted before it was confirmed"))
        return planned
