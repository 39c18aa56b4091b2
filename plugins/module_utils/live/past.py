# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history as far as a change is undone by it: what the change did, and what came after it.

A document that is there names the change that wrote it: both have the same revision. One that is not there has no
revision, so its last change is looked for in the history, the newest entries first.
"""

from __future__ import annotations

import typing as t

from ..datastore.keys import DocumentKey, HistoryKey
from ..editing.change.change_plan import ChangeRefused
from ..editing.change.resource_key import ResourceKey
from ..editing.live.live_plan import StoredDocument
from ..editing.live.rollback import DocumentPast, DoneChange
from .store import LiveStore

#: The entries that are read at once.
_PAGE = 64


class Past:
    """The history: its list, and those entries that were read so far. Methods raise what those of LiveStore do."""

    def __init__(self, store: LiveStore, known: t.Sequence[tuple[HistoryKey, int]]) -> None:
        self._store, self._known = store, known
        self._names = {revision: key for key, revision in known}
        self._read: dict[HistoryKey, DoneChange] = {}
        self._refused: dict[HistoryKey, str] = {}

    async def parts(self, change: str) -> list[DoneChange]:
        """Return the transactions of a change, the last one first. Raise ChangeRefused if it is not in the history."""
        first = next((place for place, (key, dummy) in enumerate(self._known) if key.change == change), None)
        if first is None:
            raise ChangeRefused(f"the history has no change {change}. `calicoctl history` lists all")
        own = self._known[first][0]
        later = [key for key, dummy in self._known[first:] if key.user == own.user]
        found = await self._changes(later)
        if own in self._refused:
            raise ChangeRefused(f"the change {change} of the history cannot be read: {self._refused[own]}")
        return [part for part in reversed(found) if change in (part.id, part.entry.change)]

    async def of_document(self, key: ResourceKey, stored: t.Optional[StoredDocument], own: int) -> DocumentPast:
        """Return the past of a document, None if it is not there, back to the revision `own`.

        By it, changes of a document can be undone one after the other.
        """
        found = [stored.revision if stored is not None else await self._absent_since(key, None) or 0]
        while found[-1] > own and found[-1] in self._names:
            earlier = await self._before_undone(key, self._names[found[-1]], own)
            if earlier is None or earlier >= found[-1]:
                break
            found.append(earlier)
        name = self._names.get(found[-1])
        if name is None:
            return DocumentPast(tuple(found), "")
        read = self._read.get(name)
        return DocumentPast(tuple(found), f"{read.entry.change if read else name.change} of {name.user}")

    async def _before_undone(self, key: ResourceKey, name: HistoryKey, own: int) -> t.Optional[int]:
        """Return the revision of a document that a rollback has restored, 0 if another tool had deleted it.

        Return None if the change is no rollback, or one of a change that is not later than the revision `own`.
        """
        undone = [done.entry.undone for done in await self._changes([name])]
        try:
            parts = await self.parts(undone[0]) if undone and undone[0] else []
        except ChangeRefused:
            return None
        for part in parts:
            if part.revision > own and DocumentKey(*key) in part.entry.after:
                there = part.entry.revisions.get(DocumentKey(*key), 0)
                return there or await self._absent_since(key, part.revision - 1)
        return None

    async def _absent_since(self, key: ResourceKey, until: t.Optional[int]) -> t.Optional[int]:
        """Return the revision of the last change of a document, which deleted it: until a revision, or of all.

        Return 0 if that did not delete it, so that another tool has, and None if the history has none.
        """
        known = [name for name, revision in self._known if until is None or revision <= until]
        for end in range(len(known), 0, -_PAGE):
            for done in reversed(await self._changes(known[max(0, end - _PAGE) : end])):
                if DocumentKey(*key) in done.entry.after:
                    return done.revision if done.entry.after[DocumentKey(*key)] is None else 0
        return None

    async def _changes(self, wanted: t.Sequence[HistoryKey]) -> list[DoneChange]:
        """Return those of the changes that can be read."""
        new = [key for key in wanted if key not in self._read and key not in self._refused]
        found, refused = await self._store.changes(new)
        self._read.update(found)
        self._refused.update({key: refused.get(key, "it is gone") for key in new if key not in found})
        return [self._read[key] for key in wanted if key in self._read]
