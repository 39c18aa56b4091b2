# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of live documents: read, planned, and written in transactions that fail if what was read has changed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import typing as t

from ..datastore import keys
from ..datastore.client import Unreachable
from ..datastore.gateway import Condition, EtcdError, Operation
from ..datastore.keys import history_key
from ..datastore.live.history import HistoryEntry
from ..editing.change.change_plan import ChangeRefused
from ..editing.change.resource_key import ResourceKey
from ..editing.live import batches, live_plan, references, rollback
from ..editing.live.live_plan import Data, DocumentChange, LivePlan
from ..editing.live.references import Tiers
from . import nodes, open_changes
from .new_id import new_id
from .open_changes import SeenChange
from .past import Past
from .store import ListingBeyondLimits, LiveStore

#: How often a change is planned again because somebody else changed the same meanwhile, and the seconds between two.
_RETRIES, _PAUSE = 8, 0.02
_NAMED = 20
FAILURES = (EtcdError, Unreachable, ListingBeyondLimits, ChangeRefused)

#: A function that plans what is left of a change, without the resources that are done.
_Planner = t.Callable[[t.Collection[ResourceKey]], t.Awaitable[LivePlan]]
#: Returns a context in which a change may be made, by a transaction with these operations and conditions in addition.
Approve = t.Callable[
    [t.Sequence[DocumentChange]],
    t.AsyncContextManager[tuple[t.Sequence[Operation], t.Sequence[Condition]]],
]


class Conflict(Exception):
    """A change that others prevented each time by changing the same."""

    def __init__(self) -> None:
        super().__init__("others changed the same again and again meanwhile. Try again")


class PartialChange(Exception):
    """A change of several transactions whose last ones failed. The text says what is done."""


class LiveChange(t.NamedTuple):
    """A change that is made, or planned for a dry run.

    `change` is its id in the history and `revision` that of its last transaction; "" and 0 if nothing was written.
    `written` is the time.monotonic() of the answer to that transaction.
    """

    plan: LivePlan
    change: str = ""
    revision: int = 0
    written: float = 0.0


class Writer:
    """The writer of changes. It writes nothing while somebody tries a change, which would end that trial.

    `announce` gets a sentence before several transactions begin, and before a trial ends. `dry_run` writes nothing.
    `force` writes also for nodes that cannot have live policy in force, and ends a trial. With `approve`, a change is
    one transaction, and is not planned again if others change the same meanwhile.
    """

    def __init__(
        self,
        store: LiveStore,
        announce: t.Callable[[str], None],
        dry_run: bool = False,
        force: bool = False,
        approve: t.Optional[Approve] = None,
    ) -> None:
        self._store, self._announce, self._dry_run, self._force = store, announce, dry_run, force
        self._approve = approve
        self._ended = ""  # the trial whose end was announced

    async def change(self, request: Data) -> LiveChange:
        """Make the change that a request asks for. Raise one of FAILURES, Conflict or PartialChange."""
        owner = request.get("owner", "") if request.get("prune") else ""

        async def plan(done: t.Collection[ResourceKey]) -> LivePlan:
            rest = live_plan.without(request, done) if done else request
            view = await self._store.view(live_plan.wanted_keys(rest), owner)
            if done:  # what is pruned is that which none of the files has
                named = set(live_plan.wanted_keys(request))
                view = view._replace(owned=[key for key in view.owned if key not in named])
            return live_plan.planned(rest, view)

        return await self._written(plan, request["verb"])

    async def undo(self, change: str) -> LiveChange:
        """Undo a change of the history exactly. Raise one of FAILURES, Conflict or PartialChange."""
        parts = await Past(self._store, await self._store.history()).parts(change)

        async def plan(done: t.Collection[ResourceKey]) -> LivePlan:
            documents = await self._store.documents(rollback.keys_of(parts))
            past = Past(self._store, await self._store.history())
            left = [part._replace(entry=_without(part.entry, done)) for part in parts]
            own = {ResourceKey(*key): part.revision for part in left for key in part.entry.after}
            pasts = {key: await past.of_document(key, documents.get(key), own[key]) for key in own}
            return rollback.plan(change, left, documents, pasts)

        return await self._written(plan, "rollback", change)

    async def _written(self, plan_rest: _Planner, verb: str, undone: str = "") -> LiveChange:
        plan = first = await plan_rest(())
        done: list[DocumentChange] = []
        change, revision, written, tries, entries = "", 0, 0.0, 0, 0
        try:
            while True:
                tiers = await self._store.tiers(plan.changes)
                references.check(plan.changes, tiers)
                parts = batches.divided(plan.changes)
                if len(parts) > 1 and not done:
                    self._announce(
                        f"this change of {len(plan.changes)} documents is large: it is {len(parts)} transactions. Each "
                        "is whole, all of them together are not."
                    )
                if self._dry_run:
                    return LiveChange(await self._with_warning(plan))
                if plan.changes and not done and not self._force:
                    await nodes.check(self._store.client)
                if self._approve is not None and parts:
                    return await self._approved(self._approve, first, parts, tiers, verb, undone)
                open_change = await self._open_change() if parts else SeenChange()
                for part in parts:
                    found = await self._commit(part, tiers, verb, change, undone, open_change.transaction())
                    if found is None:
                        break
                    if open_change.trial:
                        open_change = SeenChange()
                    own, revision, written = found
                    change = change or own
                    done += part
                    entries += 1
                    tiers = _with_new_tiers(tiers, part, revision)
                else:
                    if done:
                        with contextlib.suppress(EtcdError, Unreachable, ListingBeyondLimits):
                            await self._store.prune(entries)
                    return LiveChange(first._replace(changes=tuple(done)), change, revision, written)
                tries += 1
                if tries > _RETRIES:
                    raise Conflict
                await asyncio.sleep(random.uniform(0, _PAUSE * tries))
                plan = await plan_rest([one.key for one in done])
                first = first if done else plan
        except (*FAILURES, Conflict) as error:
            if done:
                raise PartialChange(_partial(first, done, change, error)) from error
            raise

    async def _open_change(self) -> SeenChange:
        """Return the open change. Raise ChangeRefused if it is a trial, which only `force` ends."""
        found = await open_changes.seen(self._store.client)
        if found.trial and not self._force:
            raise ChangeRefused(
                f"{found.trial}. A change that is made meanwhile ends that trial. Wait until it has ended, or add "
                "--force, which ends it now"
            )
        if found.trial and found.trial != self._ended:
            self._ended = found.trial
            self._announce(f"{found.trial}. --force ends that trial.")
        return found

    async def _with_warning(self, plan: LivePlan) -> LivePlan:
        """Return the plan of a dry run, with a warning if the change is not made before a trial has ended."""
        found = await open_changes.seen(self._store.client) if plan.changes else SeenChange()
        if not found.trial:
            return plan
        what = "This change ends that trial." if self._force else "Until that has ended, this change is refused."
        return plan._replace(warnings=(*plan.warnings, f"{found.trial}. {what}"))

    async def _approved(
        self,
        approve: Approve,
        plan: LivePlan,
        parts: t.Sequence[t.Sequence[DocumentChange]],
        tiers: Tiers,
        verb: str,
        undone: str,
    ) -> LiveChange:
        """Make a change that has to be approved. Raise ChangeRefused if it is not, or if others change the same."""
        if len(parts) > 1:
            raise ChangeRefused(
                f"it is {len(parts)} transactions, and nodes are asked about one with at most "
                f"{keys.CHANGE_DOCUMENTS} documents. Divide it"
            )
        async with approve(parts[0]) as more:
            if not more[1]:  # a trial has its own condition on the open change
                more = (await self._open_change()).transaction()
            found = await self._commit(parts[0], tiers, verb, "", undone, more)
        if found is None:
            raise ChangeRefused("nothing is committed: others have changed the same meanwhile, or the time was over")
        with contextlib.suppress(EtcdError, Unreachable, ListingBeyondLimits):
            await self._store.prune(1)
        return LiveChange(plan, *found)

    async def _commit(
        self,
        part: t.Sequence[DocumentChange],
        tiers: Tiers,
        verb: str,
        change: str,
        undone: str,
        more: tuple[t.Sequence[Operation], t.Sequence[Condition]] = ((), ()),
    ) -> t.Optional[tuple[str, int, float]]:
        """Write one transaction. Return None for a conflict.

        Otherwise return the id of its entry in the history, its revision, and the time.monotonic() of its answer.
        """
        now = time.time()
        own = new_id(now)
        entry = HistoryEntry(self._store.user, round(now, 3), verb, change or own, {}, {}, undone)
        key = history_key(self._store.user, own)
        operations, conditions = batches.transaction(part, tiers, key, batches.entry_of(part, entry))
        revision = await self._store.commit([*more[0], *operations], [*more[1], *conditions], own)
        return None if revision is None else (own, revision, time.monotonic())


def _without(entry: HistoryEntry, done: t.Collection[ResourceKey]) -> HistoryEntry:
    after = {key: content for key, content in entry.after.items() if ResourceKey(*key) not in done}
    return entry._replace(after=after)


def _with_new_tiers(tiers: Tiers, part: t.Sequence[DocumentChange], revision: int) -> Tiers:
    return tiers._replace(live={**tiers.live, **dict.fromkeys(references.made(part), revision)})


def _partial(plan: LivePlan, done: t.Sequence[DocumentChange], change: str, error: Exception) -> str:
    names = ", ".join(str(one.key) for one in done[:_NAMED])
    more = f" and {len(done) - _NAMED} more" if len(done) > _NAMED else ""
    return (
        f"Partial success: {len(done)} of {len(plan.changes)} resources are changed: {names}{more}. The others are "
        f"not: {error}. Undo what is done: calicoctl rollback {change}"
    )
