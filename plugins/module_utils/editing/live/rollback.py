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


def plan(
    change: str,
    done: t.Sequence[DoneChange],
    documents: t.Mapping[ResourceKey, StoredDocument],
    revisions: t.Mapping[ResourceKey, t.Collection[int]],
) -> LivePlan:
    """Return the plan that undoes the transactions `done` of a change. `documents` are those that are there.

    `revisions` are those after which all changes of a document are undone. Raise ChangeRefused, with names, if a later
    change has touched one of the documents, or one before was not kept.
    """
    changes, later, lost = [], [], []
    for one in done:
        for name, after in one.entry.after.items():
            key, before = ResourceKey(*name), one.entry.before[name]
            stored = documents.get(key)
            if (stored is None) is not (after is None) or (stored and one.revision not in revisions[key]):
                later.append(str(key))
            elif isinstance(before, int):
                lost.append(str(key))
            elif before != (stored.value if stored else None):
                changes.append(DocumentChange(key, stored, before))
    if later:
        raise ChangeRefused(
            f"{change} is not undone, because later changes touch the same: {_some(later)}. Undo those first: "
            "calicoctl history"
        )
    if lost:
        raise ChangeRefused(f"{change} is not undone: the history does not have what was there before: {_some(lost)}")
    return LivePlan(tuple(changes), f"Successfully undone {change}: {len(changes)} resource(s)")


def _some(names: t.Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(sorted(names)[:_NAMED]) + more
