# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of live documents as an answer: from the way to the datastore and a request to lines and a verdict."""

from __future__ import annotations

import typing as t

from ..cli.connection.datastore_ways import DatastoreWays
from ..editing.live import differences
from ..editing.live.live_plan import Data
from . import agreement, nodes
from .change import LiveChange, Writer
from .connection import with_store
from .fleet_answer import FleetAnswer
from .nodes import Waited
from .store import LiveStore

_NAMED = 10
#: The seconds for which a change that was tried is waited for, unless something else is asked.
WAIT_AFTER_TRIAL = 30.0

Change = t.Callable[[Writer], t.Awaitable[LiveChange]]


class WriteOptions(t.NamedTuple):
    """How a change is written. `wait` is the most seconds to wait for nodes, None not to wait.

    With `ask`, nodes are asked what a dry run would do. With `plan`, the change is made only if it is what such a plan
    of this hash showed, "" for one that would change nothing. With `confirm`, it is made only if all nodes have tried
    it within so many seconds.
    """

    dry_run: bool = False
    force: bool = False
    wait: t.Optional[float] = None
    ask: bool = False
    plan: t.Optional[str] = None
    confirm: int = 0


class LiveOutcome(t.NamedTuple):
    """A change that was made, or planned, what nodes say that it would do, and the end of waiting for nodes."""

    change: LiveChange
    waited: t.Optional[Waited] = None
    asked: t.Optional[FleetAnswer] = None

    @property
    def is_everywhere(self) -> bool:
        """Whether no node is known that lacks the change, among those that were waited for."""
        return self.waited is None or (not self.waited.lacking and self.waited.in_force > 0)


def make(
    ways: DatastoreWays,
    change: Change,
    options: WriteOptions,
    announce: t.Callable[[str], None],
    written: t.Callable[[LiveChange], None] = lambda dummy: None,
) -> LiveOutcome:
    """Make a change, and wait for the nodes if that is asked. Raise CommandError.

    `announce` gets a sentence before several transactions begin, and about a trial. `written` gets the change before
    nodes are asked or waited for.
    """

    async def work(store: LiveStore) -> LiveOutcome:
        approve = None
        if options.plan is not None or options.confirm:
            approve = agreement.approval(store, options.plan, options.confirm, announce)
        found = await change(Writer(store, announce, options.dry_run, options.force, approve))
        written(found)
        if options.dry_run and options.ask and found.plan.changes:
            return LiveOutcome(found, asked=await agreement.ask(store, found.plan.changes))
        if options.wait is None or not found.revision:
            return LiveOutcome(found)
        keys = [one.key for one in found.plan.changes]
        waited = await nodes.wait(store.client, store.cluster, found.revision, keys, options.wait, found.written)
        return LiveOutcome(found, waited)

    return with_store(ways, work)


def request_change(request: Data) -> Change:
    """Return the change that a request asks for."""
    return lambda writer: writer.change(request)


def lines_of(change: LiveChange, dry_run: bool) -> list[str]:
    """Return what a change did, in the words of a change of an inventory."""
    plan = change.plan
    lines = differences.lines_of(plan.changes) if dry_run else []
    lines.append(f"Nothing was written: this is a dry run of: {plan.said}" if dry_run and plan.changes else plan.said)
    lines += [f"{key} is unchanged" for key in plan.unchanged]
    if change.change:
        lines.append(f"It is change {change.change}, revision {change.revision}.")
    return lines


def effect_of(waited: Waited) -> str:
    """Return a sentence that says on how many nodes a change is in force, and how long that took from the write."""
    count = "1 node" if waited.in_force == 1 else f"{waited.in_force} nodes"
    return f"It is in force on {count}" + (f" after {waited.seconds:.2f} s." if waited.in_force else ".")


def complaints_of(waited: Waited) -> list[str]:
    """Return sentences about the nodes that do not have a change in force, and those that do not say so."""
    found = [f"{node} does not have it in force: {why.rstrip('.')}." for node, why in sorted(waited.lacking.items())]
    if waited.silent:
        more = f" and {len(waited.silent) - _NAMED} more" if len(waited.silent) > _NAMED else ""
        clock = "" if waited.in_force or waited.lacking else " The clock of this host may be wrong."
        found.append(f"not known of nodes without a fresh heartbeat: {', '.join(waited.silent[:_NAMED])}{more}.{clock}")
    return found
