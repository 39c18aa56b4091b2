# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the reconciler did, for the people and programs that watch a node: log, metrics, events, counts of drift."""

from __future__ import annotations

import logging
import typing as t

from ...dataplane.change import Change
from ...dataplane.drivers.workload import GONE
from ..reconcile import repair
from ..reconcile.drift import Drift
from ..watch.events import Events
from ..workloads.table import WorkloadTable
from .instruments import Instruments

_log = logging.getLogger("calico.agent")


class Reports:
    """Receives what the reconciler reports."""

    def __init__(self, instruments: Instruments, drift: Drift, events: Events, table: WorkloadTable) -> None:
        self._instruments = instruments
        self._drift = drift
        self._events = events
        self._table = table

    def made(self, change: Change, drift: bool) -> None:
        """Report a change that was made; `drift` says that another program had made it necessary."""
        drift = drift or self._table.settled(change)
        _log.log(logging.WARNING if drift else logging.INFO, "%s", repair.sentence(change, drift))
        self._instruments.changes.add(change.kind)
        if drift:
            self._drift.count(change.kind)
            self._instruments.drift.add(change.kind)
            self._events.tell("drift", change=plain(change))

    def ended(self, change: Change) -> None:
        """Report a workload that is not repaired: it ended with its namespace, or that is another one now."""
        if change.note == GONE:
            return  # the ordinary end of a container, which a DEL follows
        _log.warning(
            "Workload %s is looked after no more: %s. Nothing was changed there. Delete the workload, and add it again"
            " if it is still wanted.",
            change.subject,
            change.note,
        )

    def stepped(self, kinds: t.Collection[str], seconds: float) -> None:
        """Report for how long the kernel was written, with adds and deletes waiting."""
        for kind in kinds:
            self._instruments.apply_seconds.observe(kind, value=seconds)

    def flushed(self, seconds: float) -> None:
        """Report how long a write of addresses to the disk took."""
        self._instruments.flush_seconds.observe(value=seconds)

    def flows_cut(self, count: int) -> None:
        """Report how many connections were cut."""
        self._instruments.flows_cut.add(amount=count)
        self._events.tell("flows_cut", connections=count)


def plain(change: Change) -> dict[str, t.Any]:
    """Return a change in JSON-ready form."""
    return {name: getattr(change, name) for name in ("kind", "action", "subject", "before", "after", "note", "detail")}
