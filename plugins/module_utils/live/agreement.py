# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions and trials: what nodes say to a change before it is made, and how it is made only if all of them agree."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ..datastore import keys
from ..datastore.gateway import Condition, Delete, Operation, Unchanged
from ..datastore.live.change_answer import IN_FORCE
from ..datastore.live.open_change import QUESTION, TRIAL
from ..editing.change.change_plan import ChangeRefused
from ..editing.live.live_plan import DocumentChange
from . import nodes, open_changes
from .fleet_answer import FleetAnswer
from .new_id import new_id
from .open_changes import CollectedAnswers
from .store import LiveStore

#: The seconds for which nodes are asked; they need 10 at most.
ASKED_SECONDS = 10
_PATIENCE = 1.0  # seconds in which an answer comes that was written at the last moment
#: The part of a trial's time, and the most seconds of it, that nodes have to see the commit before they go back.
_PROOF_PART, _PROOF_SECONDS = 0.1, 2.0
_NAMED = 10

#: What a transaction gets in addition to the change.
Approval = tuple[tuple[Operation, ...], tuple[Condition, ...]]


async def ask(store: LiveStore, changes: t.Sequence[DocumentChange]) -> FleetAnswer:
    """Return what all nodes would do with changes, after ten seconds at the latest. Raise ChangeRefused."""
    able = await nodes.able(store.client)
    if not able.nodes:
        raise ChangeRefused(f"no node can be asked: {_why(able.others) or 'there is none'}")
    change = new_id(time.time())
    async with open_changes.opened(store, QUESTION, change, changes, ASKED_SECONDS):
        until = time.monotonic() + ASKED_SECONDS + _PATIENCE
        found = await open_changes.collected(store, change, able.nodes, until)
    silent = {node: _silence(node, found, ASKED_SECONDS) for node in able.nodes if node not in found.found}
    return FleetAnswer(tuple(changes), found.found, silent, able.others)


def approval(
    store: LiveStore, plan: t.Optional[str], seconds: int, announce: t.Callable[[str], None]
) -> t.Callable[[t.Sequence[DocumentChange]], t.AsyncContextManager[Approval]]:
    """Return what Writer takes as `approve`: a change has to be what `plan` showed, and is tried for `seconds`.

    `plan` is None and `seconds` 0 for what is not asked. `announce` gets sentences about the trial.
    """

    @contextlib.asynccontextmanager
    async def approve(changes: t.Sequence[DocumentChange]) -> t.AsyncIterator[Approval]:
        if plan is not None:
            await _check(store, changes, plan)
        if not seconds:
            yield (), ()
            return
        async with tried(store, changes, seconds, announce) as more:
            yield more

    return approve


async def _check(store: LiveStore, changes: t.Sequence[DocumentChange], seen: str) -> None:
    """Raise ChangeRefused if a change is not what the plan with the hash `seen` showed.

    An empty hash is that of a plan that would change nothing, and also what an unset variable of a script gives.
    """
    if not seen:
        raise ChangeRefused(
            "the name of the plan is empty, which is a plan that would change nothing, and this change has documents. "
            "Look at it by --dry-run=server, and give the name that this shows"
        )
    plan = await ask(store, changes)
    if plan.hash != seen:
        raise ChangeRefused(
            f"it is no longer what plan {seen} showed: documents, their revisions or what nodes answer differ. It is "
            f"plan {plan.hash} now. Look at it by --dry-run=server"
        )


@contextlib.asynccontextmanager
async def tried(
    store: LiveStore, changes: t.Sequence[DocumentChange], seconds: int, announce: t.Callable[[str], None]
) -> t.AsyncIterator[Approval]:
    """Try a change on all nodes, and yield what commits it, once all have it in force on trial.

    Raise ChangeRefused, which names the nodes, if one of them does not. The trial ends then, and at the end of the
    context, unless the change was committed.
    """
    able = await nodes.able(store.client)
    if not able.nodes:
        raise ChangeRefused(f"no node can try it: {_why(able.others) or 'there is none'}")
    change = new_id(time.time())
    async with open_changes.opened(store, TRIAL, change, changes, seconds) as open_change:
        begun = time.monotonic()
        until = begun + seconds - min(_PROOF_SECONDS, seconds * _PROOF_PART)
        found = await open_changes.collected(store, change, able.nodes, until, _is_lost)
        bad = {node: _failure(node, found, seconds) for node in able.nodes}
        bad = {node: why for node, why in bad.items() if why}
        if bad and _is_lost(found):  # then not all have had their time
            bad = {node: why for node, why in bad.items() if node in found.found or node in found.unreadable}
        if bad:
            raise ChangeRefused(f"nothing is committed, and nodes go back to what was in force: {_why(bad)}")
        announce(f"trial    in force on {len(able.nodes)} nodes after {time.monotonic() - begun:.1f} s")
        yield (Delete(keys.OPEN_CHANGE),), (Unchanged(keys.OPEN_CHANGE, open_change.revision),)


def _is_lost(found: CollectedAnswers) -> bool:
    """Return whether a node does not try the change, so that waiting for others makes no sense."""
    return bool(found.unreadable) or any(answer.state != IN_FORCE for answer in found.found.values())


def _failure(node: str, found: CollectedAnswers, seconds: int) -> str:
    """Return why a node does not have the change in force on trial, "" if it has."""
    answer = found.found.get(node)
    if answer is None:
        return _silence(node, found, seconds)
    return "" if answer.state == IN_FORCE else f"it has {answer.state} it: {answer.reason}"


def _silence(node: str, found: CollectedAnswers, seconds: int) -> str:
    why = found.unreadable.get(node)
    return f"its answer cannot be read: {why}" if why else f"it did not answer within {seconds} s"


def _why(reasons: t.Mapping[str, str]) -> str:
    """Return the first nodes with their reasons, and how many more there are."""
    some = "; ".join(f"{node}: {why.rstrip('.')}" for node, why in sorted(reasons.items())[:_NAMED])
    return some + (f"; and {len(reasons) - _NAMED} more nodes" if len(reasons) > _NAMED else "")
