# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan that undoes changes of the history exactly: each document becomes what it was before, byte for byte."""

from __future__ import annotations

import typing as t

from ...datastore.live.history import HistoryEntry
from ..change.change_plan import ChangeRefused
from ..change.resource_key import ResourceKey
from .live_plan import DocumentChange, LivePlan, StoredDocument

_NAMED = 5


class DoneChange(t.NamedTuple):
    """A transaction of the history: its id, what it changed, and the mod revision that it gave to all its documents."""

    id: str
    revision: int
    entry: HistoryEntry


def keys_of(done: t.Iterable[DoneChange]) -> list[ResourceKey]:
    """Return the resources that changes were about."""
    return [ResourceKey(*key) for one in done for key in one.entry.after]


class DocumentPast(t.NamedTuple):
    """What became of a document: the revisions after which all of its changes are undone, the newest one first.

    The last one is 0 if the document is not there and the history does not say who deleted it. `by` is the change that
    made the last one, with its user, and "" if the history has none.
    """

    revisions: tuple[int, ...]
    by: str


def plan(
    change: str,
    done: t.Sequence[DoneChange],
    documents: t.Mapping[ResourceKey, StoredDocument],
    pasts: t.Mapping[ResourceKey, DocumentPast],
) -> LivePlan:
    """Return the plan that undoes the transactions `done` of a change. `documents` are those that are there.

    `pasts` has all that are undone. Raise ChangeRefused, with names, if a later change has touched one of the
    documents, or one before was not kept.
    """
    changes, lost = [], []
    later: dict[str, list[str]] = {}
    for one in done:
        for name, after in one.entry.after.items():
            key, before = ResourceKey(*name), one.entry.before[name]
            stored, past = documents.get(key), pasts[key]
            if (stored is None) is not (after is None) or one.revision not in past.revisions:
                later.setdefault(past.by, []).append(str(key))
            elif isinstance(before, int):
                lost.append(str(key))
            elif before != (stored.value if stored else None):
                changes.append(DocumentChange(key, stored, before))
    if later:
        raise ChangeRefused(f"{change} is not undone, because later changes touch the same: {_later(change, later)}")
    if lost:
        raise ChangeRefused(f"{change} is not undone: the history does not have what was there before: {_some(lost)}")
    return LivePlan(tuple(changes), f"Successfully undone {change}: {len(changes)} resource(s)")


def _later(change: str, later: t.Mapping[str, t.Sequence[str]]) -> str:
    """Return the later changes with their documents, and what to do. `later` has documents by change, "" for none."""
    names = sorted((by, documents) for by, documents in later.items() if by)
    said = [f"{by} ({_some(documents)})" for by, documents in names[:_NAMED]]
    said += [f"{len(names) - _NAMED} more changes"] if len(names) > _NAMED else []
    said += [f"another tool ({_some(later[''])})"] if "" in later else []
    remedies = ["Undo those first, the newest one first: calicoctl history"] if names else []
    remedies += [f"See what was there before another tool: calicoctl history {change}"] if "" in later else []
    return f"{', '.join(said)}. {'. '.join(remedies)}"


def _some(names: t.Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(sorted(names)[:_NAMED]) + more
