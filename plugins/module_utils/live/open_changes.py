# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The open change as an operator writes it, and what nodes answer to it.

There is one at a time: its key is created, never replaced. Its lease ends it by time, whatever becomes of this process,
and it is removed at the end of its context, also if the user interrupts the command. A change of documents that nobody
tries is written only while no trial is open, or removes the key in its own transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
import typing as t

from ..datastore import gateway, keys
from ..datastore.client import EtcdClient, Unreachable
from ..datastore.documents import RefusedDocument
from ..datastore.gateway import Condition, Delete, EtcdError, Operation, Put, Unchanged
from ..datastore.keys import DocumentKey
from ..datastore.live import change_answer, open_change
from ..datastore.live.change_answer import ChangeAnswer
from ..datastore.live.open_change import OpenChange
from ..editing.change.change_plan import ChangeRefused
from ..editing.change.resource_key import ResourceKey
from ..editing.live.live_plan import DocumentChange
from .new_id import time_of
from .store import LiveStore

#: The seconds for which the key outlives the time of its change, if nobody removes it.
_SPARE = 10
#: Seconds between two looks at the answers, at first and at last.
_PAUSE, _LONGEST = 0.05, 0.25
_NAMED = 3
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class OwnChange(t.NamedTuple):
    """The open change of this process: its id, and the mod revision of its key."""

    id: str
    revision: int


class SeenChange(t.NamedTuple):
    """The open change as a writer of documents has seen it: the mod revision of its key, 0 if there is none.

    `trial` says who tries what until when. It is "" if a change of documents ends no trial.
    """

    revision: int = 0
    trial: str = ""

    def transaction(self) -> tuple[tuple[Operation, ...], tuple[Condition, ...]]:
        """Return what a transaction that changes documents has in addition: nothing else was opened, a trial ends."""
        ended = (Delete(keys.OPEN_CHANGE),) if self.trial else ()
        return ended, (Unchanged(keys.OPEN_CHANGE, self.revision),)


class CollectedAnswers(t.NamedTuple):
    """What nodes have answered: `found` by node, and why the answers of `unreadable` nodes cannot be read."""

    found: t.Mapping[str, ChangeAnswer]
    unreadable: t.Mapping[str, str]


async def seen(client: EtcdClient) -> SeenChange:
    """Return the change that is open now. One that cannot be read counts as a trial."""
    entry = await client.get(keys.OPEN_CHANGE)
    if entry is None:
        return SeenChange()
    try:
        other = open_change.decode(entry.value)
    except RefusedDocument as error:
        return SeenChange(entry.mod_revision, f"another change is open, which cannot be read: {str(error).rstrip('.')}")
    return SeenChange(entry.mod_revision, _said(other) if other.kind == open_change.TRIAL else "")


@contextlib.asynccontextmanager
async def opened(
    store: LiveStore, kind: str, change: str, documents: t.Iterable[DocumentChange], seconds: int
) -> t.AsyncIterator[OwnChange]:
    """Yield the open change of this kind with the id `change`, and remove it at the end if it is still there.

    Raise ChangeRefused if another one is open, or this one is too large.
    """
    client = store.client
    page = gateway.page_of(await client.call("/v3/kv/range", gateway.get_request(keys.OPEN_CHANGE)))
    if page.entries:
        raise ChangeRefused(_busy(page.entries[0].value))
    values = {DocumentKey(*one.key): one.value for one in documents}
    try:
        value = open_change.encode(OpenChange(change, store.user, kind, seconds, page.header.revision, values))
    except RefusedDocument as error:
        raise ChangeRefused(f"nodes are not asked about this change: {error}") from error
    lease = await client.lease(seconds + _SPARE)
    revision = 0
    try:
        revision = await _created(client, value, lease)
        yield OwnChange(change, revision)
    finally:
        await _removed(client, revision, lease)


async def _created(client: EtcdClient, value: bytes, lease: int) -> int:
    """Create the key, and return its mod revision."""
    answer = await client.call(
        "/v3/kv/txn",
        gateway.transaction_request([Put(keys.OPEN_CHANGE, value, lease)], [Unchanged(keys.OPEN_CHANGE, 0)]),
    )
    if gateway.succeeded(answer):
        return gateway.header_of(answer).revision
    there = await client.get(keys.OPEN_CHANGE)
    if there is None:
        raise ChangeRefused("another change was open a moment ago. Try again")
    if there.value != value:  # It is equal if a member's answer got lost, and another one was asked.
        raise ChangeRefused(_busy(there.value))
    return there.mod_revision


async def _removed(client: EtcdClient, revision: int, lease: int) -> None:
    """Remove the key if it is still that of this process. Without an answer, its lease removes it."""
    with contextlib.suppress(EtcdError, Unreachable):
        if revision:
            await client.write([Delete(keys.OPEN_CHANGE)], [Unchanged(keys.OPEN_CHANGE, revision)])
    with contextlib.suppress(EtcdError, Unreachable):
        await client.revoke(lease)


def _busy(value: bytes) -> str:
    """Return the reason why no other change can be opened."""
    try:
        other = open_change.decode(value)
    except RefusedDocument as error:
        return f"another change is open, which cannot be read: {error} Delete {keys.OPEN_CHANGE} from the datastore"
    return f"{_said(other)}. Try again when that has ended"


def _said(other: OpenChange) -> str:
    """Return who tries, or asks about, what, since when and until when by the clock of its writer's host."""
    what = "tries a change" if other.kind == open_change.TRIAL else "asks nodes about a change"
    names = [str(ResourceKey(*key)) for key in other.documents]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    of = f" of {', '.join(names[:_NAMED])}{more}" if names else ""
    begun = time_of(other.id)
    if begun is None:
        return f"{other.user} {what} ({other.id}){of}, for {other.seconds} s at most"
    end = begun + datetime.timedelta(seconds=other.seconds)
    return f"{other.user} {what} ({other.id}){of} since {begun:{_TIME}}, until {end:{_TIME}} at the latest"


async def collected(
    store: LiveStore,
    change: str,
    nodes: t.Collection[str],
    until: float,
    is_enough: t.Callable[[CollectedAnswers], bool] = lambda found: False,
) -> CollectedAnswers:
    """Return what nodes answer to the open change: when all have, `is_enough` says so, or at `until`.

    `until` is a time of time.monotonic().
    """
    found: dict[str, ChangeAnswer] = {}
    unreadable: dict[str, str] = {}
    pause = _PAUSE
    while True:
        waiting = [node for node in nodes if node not in found and node not in unreadable]
        wanted = {keys.answer_key(node, change): node for node in waiting}
        for entry in await store.client.named(list(wanted)):
            node = wanted[entry.key]
            try:
                found[node] = change_answer.decode(node, change, entry.value)
            except RefusedDocument as error:
                unreadable[node] = str(error)
        answers = CollectedAnswers(found, unreadable)
        left = until - time.monotonic()
        if len(found) + len(unreadable) == len(nodes) or left <= 0 or is_enough(answers):
            return answers
        await asyncio.sleep(min(pause, left))
        pause = min(_LONGEST, pause * 1.2)
