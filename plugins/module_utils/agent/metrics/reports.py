# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of the reconciler's work to people and programs: the log, metrics, events, and counts of drift."""

from __future__ import annotations

import logging
import typing as t

from ...dataplane.change import Change
from ...dataplane.drivers.workload import GONE
from ..known.events import Events
from ..known.workload_table import WorkloadTable
from ..reconcile import repair
from ..reconcile.drift import Drift
from ..reconcile.stages import Listener
from .instruments import Instruments

_log = logging.getLogger("calico.agent")

#: The kinds of changes that each attachment and each change of policy makes many of.
_OF_POLICY = ("ipset", "iptables")


class Reports:
    """The receiver of reports about the agent's work, most of them the reconciler's. `drift` counts repairs."""

    def __init__(
        self, instruments: Instruments, events: Events, table: WorkloadTable, clock: t.Callable[[], float]
    ) -> None:
        self.drift = Drift(clock)
        self._instruments = instruments
        self._events = events
        self._table = table

    def listener(self) -> Listener:
        """Return the functions that the reconciler calls."""
        return Listener(
            on_change=self.made,
            on_step=self.stepped,
            on_failure=self._instruments.errors.add,
            on_ended=self.ended,
            on_resync=self._instruments.resyncs.add,
        )

    def made(self, change: Change, drift: bool) -> None:
        """Log and count a change that was made; if it is drift, also publish an event `drift`.

        What workloads and policy need of sets and chains is logged at level debug, unless it is drift.

        It is drift if `drift` is True, because another program made it necessary, or if it is about a workload that was
        attached exactly as desired.
        """
        drift = drift or self._table.settled(change)
        own = logging.DEBUG if change.kind in _OF_POLICY else logging.INFO
        _log.log(logging.WARNING if drift else own, "%s", repair.sentence(change, drift))
        self._instruments.changes.add(change.kind)
        if drift:
            self.drift.count(change.kind)
            self._instruments.drift.add(change.kind)
            self._events.tell("drift", change=plain(change))

    def ended(self, change: Change) -> None:
        """Log a workload that is not repaired because its name or path leads to another network namespace."""
        if change.note == GONE:
            return  # The namespace is gone, which is the ordinary end of a container; the runtime sends a DEL.
        _log.warning(
            "Workload %s is no longer repaired: %s. Nothing was changed there. Delete the workload, and add it again"
            " if it is still wanted.",
            change.subject,
            change.note,
        )

    def stepped(self, kinds: t.Collection[str], seconds: float) -> None:
        """Record for each of these kinds that the drivers held the lock for `seconds`; adds and deletes waited then."""
        for kind in kinds:
            self._instruments.apply_seconds.observe(kind, value=seconds)

    def flows_cut(self, count: int) -> None:
        """Count connections that were cut, and publish an event `flows_cut` with their number."""
        self._instruments.flows_cut.add(amount=count)
        self._events.tell("flows_cut", connections=count)


def plain(change: Change) -> dict[str, t.Any]:
    """Return a change in JSON-ready form: kind, action, subject, before, after, note and detail, each text or None."""
    return {name: getattr(change, name) for name in ("kind", "action", "subject", "before", "after", "note", "detail")}
