# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of live documents as `calicoctl history` shows it: who changed what, and what no entry explains."""

from __future__ import annotations

import datetime
import math
import typing as t

from ..base import terminal_text
from ..base.typed_json import NotJson, parse
from ..datastore.keys import HistoryKey, parse_document_key
from ..datastore.live.history import Content
from ..editing.change.resource_key import ResourceKey
from ..editing.live import differences
from ..editing.live.live_plan import DocumentChange, StoredDocument
from ..editing.live.rollback import DoneChange
from .store import LiveStore

Data = dict[str, t.Any]
_NAMED = 5
#: The words for documents whose revision no entry has: another tool wrote them, or it was before all entries.
OTHER_TOOL, BEFORE = "changed by another tool", "changed before this history begins"


class HistoryRow(t.NamedTuple):
    """One transaction: an entry of the history, why that cannot be read, or documents that no entry explains."""

    revision: int
    id: str = ""
    user: str = ""
    done: t.Optional[DoneChange] = None
    why: str = ""
    documents: tuple[ResourceKey, ...] = ()

    def said(self) -> str:
        """Return what was done."""
        if self.done is None:
            return self.why
        entry = self.done.entry
        more = f" of {entry.undone}" if entry.undone else ""
        return f"{entry.verb}{more}" + (f" (part of {entry.change})" if entry.change != self.id else "")

    def time(self) -> str:
        """Return when the change was made, by the clock of the user's host; "-" if that is not known."""
        if self.done is None:
            return "-"
        moment = datetime.datetime.fromtimestamp(self.done.entry.when, datetime.timezone.utc)
        return f"{moment:%Y-%m-%dT%H:%M:%SZ}"

    def documents_said(self) -> str:
        """Return the first of the documents, and how many more there are."""
        more = f" and {len(self.documents) - _NAMED} more" if len(self.documents) > _NAMED else ""
        return ", ".join(map(str, self.documents[:_NAMED])) + more

    def differences(self) -> list[str]:
        """Return the unified diff of the documents, without line ends."""
        if self.done is None:
            return [self.why]
        entry = self.done.entry
        changes = []
        for key in entry.after:
            before = _bytes(entry.before[key])
            stored = None if before is None else StoredDocument(before, self.revision)
            changes.append(DocumentChange(ResourceKey(*key), stored, _bytes(entry.after[key])))
        return differences.lines_of(changes)

    def to_dict(self) -> Data:
        """Return the row as plain data."""
        found: Data = {"id": self.id, "user": self.user, "revision": self.revision, "change": self.said()}
        found["documents"] = [str(key) for key in self.documents]
        if self.done is not None:
            entry = self.done.entry
            found.update(when=self.time(), verb=entry.verb, undone=entry.undone, of=entry.change)
            for side, contents in (("before", entry.before), ("after", entry.after)):
                found[side] = {str(ResourceKey(*key)): _plain(content) for key, content in contents.items()}
        return found


async def read(store: LiveStore, last: int, only: str = "") -> list[HistoryRow]:
    """Return the newest rows, at most `last`, the oldest one first; or those of the transactions of a change.

    Raise EtcdError, Unreachable or ListingBeyondLimits.
    """
    known = await store.history()
    if only:
        # Ids begin with the time by the user's clock, which may step back between two transactions.
        began = {key.user: revision for key, revision in known if key.change == only}
        wanted = [(key, revision) for key, revision in known if revision >= began.get(key.user, math.inf)]
    else:
        wanted = known[-last:]
    revisions = dict(wanted)
    found, refused = await store.changes(list(revisions))
    rows = [_row(key, revision, found.get(key), refused.get(key, "")) for key, revision in wanted]
    if only:
        return [row for row in rows if only in (row.id, row.done.entry.change if row.done else "")]
    explained = {revision for dummy, revision in known}
    first = min(explained, default=0)
    others: dict[int, list[ResourceKey]] = {}
    for name, revision in (await store.revisions()).items():
        document = parse_document_key(name)
        if document is not None and revision not in explained:
            others.setdefault(revision, []).append(ResourceKey(*document))
    for revision, documents in others.items():
        why = OTHER_TOOL if not first or revision > first else BEFORE
        rows.append(HistoryRow(revision, why=why, documents=tuple(sorted(documents))))
    return sorted(rows, key=lambda row: (row.revision, row.id))[-last:]


def _row(key: HistoryKey, revision: int, done: t.Optional[DoneChange], why: str) -> HistoryRow:
    if done is None:
        return HistoryRow(revision, key.change, key.user, why=f"its entry cannot be read: {why or 'it is gone'}")
    return HistoryRow(revision, key.change, key.user, done, "", tuple(ResourceKey(*one) for one in done.entry.after))


def _bytes(content: Content) -> t.Optional[bytes]:
    return f"{content} bytes, which are not kept".encode() if isinstance(content, int) else content


def _plain(content: Content) -> t.Any:
    if not isinstance(content, bytes):
        return content
    try:
        return parse(content)
    except NotJson:
        return terminal_text.text(content.decode("utf-8", "replace"))
