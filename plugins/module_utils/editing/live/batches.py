# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transactions of a change: each is whole, has its history in itself, and fails if what was read has changed."""

from __future__ import annotations

import typing as t

from ...datastore.gateway import Condition, Delete, NotChangedSince, Operation, Put, Unchanged
from ...datastore.keys import CHANGE_BYTES, CHANGE_DOCUMENTS, DocumentKey, document_key, inventory_key
from ...datastore.live import history
from ...datastore.live.history import HistoryEntry
from . import references
from .live_plan import POLICY_KINDS, DocumentChange, documents_of
from .references import Tiers

#: The most bytes of a transaction with its history: etcd takes 1.5 MiB. An entry of the history has at most 1 MiB.
_WITH_HISTORY, _HISTORY = 1_400 << 10, 1_000 << 10
#: The most tiers that the policies of a transaction are in: etcd takes 128 conditions.
_TIERS = 16
_SETS = ("GlobalNetworkSet", "NetworkSet")


def divided(changes: t.Iterable[DocumentChange]) -> list[tuple[DocumentChange, ...]]:
    """Return the changes of each transaction: tiers, sets, policies, then deletions of policies, sets, tiers."""
    found: list[tuple[DocumentChange, ...]] = []
    batch: list[DocumentChange] = []
    for one in sorted(changes, key=_rank):
        if batch and not _fits([*batch, one]):
            found.append(tuple(batch))
            batch = []
        batch.append(one)
    return [*found, tuple(batch)] if batch else found


def entry_of(changes: t.Iterable[DocumentChange], entry: HistoryEntry) -> HistoryEntry:
    """Return an entry of the history with the documents of these changes."""
    before, after, revisions = {}, {}, {}
    for one in changes:
        key = DocumentKey(*one.key)
        if one.before is not None:
            revisions[key] = one.before.revision
        before[key] = history.kept(one.before.value if one.before else None)
        after[key] = history.kept(one.value)
    return entry._replace(before=before, after=after, revisions=revisions)


def transaction(
    changes: t.Sequence[DocumentChange], tiers: Tiers, history_key: str, entry: HistoryEntry
) -> tuple[list[Operation], list[Condition]]:
    """Return what a transaction does, and its conditions: nobody else changed what it was planned from."""
    operations: list[Operation] = []
    conditions: list[Condition] = [Unchanged(history_key, 0)]
    for one in changes:
        key = document_key(DocumentKey(*one.key))
        conditions.append(Unchanged(key, one.before.revision if one.before else 0))
        operations.append(Delete(key) if one.value is None else Put(key, one.value))
    for tier in sorted(references.referred(changes) - references.made(changes)):
        name = DocumentKey("Tier", "", tier)
        if tier in tiers.live:
            conditions.append(Unchanged(document_key(name), tiers.live[tier]))
        else:
            conditions.append(Unchanged(inventory_key(name), tiers.inventory[tier]))
    gone = references.removed(changes)
    if gone - set(tiers.inventory):
        conditions += [NotChangedSince(documents_of(kind), tiers.revision) for kind in POLICY_KINDS]
    for tier in sorted(gone & set(tiers.inventory)):
        conditions.append(Unchanged(inventory_key(DocumentKey("Tier", "", tier)), tiers.inventory[tier]))
    operations.append(Put(history_key, history.encode(entry)))
    return operations, conditions


def _rank(change: DocumentChange) -> tuple[int, DocumentChange]:
    kind = 0 if change.key.kind == "Tier" else 1 if change.key.kind in _SETS else 2
    return (5 - kind if change.value is None else kind), change


def _fits(batch: t.Sequence[DocumentChange]) -> bool:
    """Return whether the changes fit into one transaction."""
    written = sum(len(one.value or b"") for one in batch)
    if len(batch) > CHANGE_DOCUMENTS or written > CHANGE_BYTES:
        return False
    if len(references.referred(batch)) + len(references.removed(batch)) > _TIERS:
        return False
    kept = sum(_size(one.before.value if one.before else None) + _size(one.value) + 1_600 for one in batch)
    return kept <= _HISTORY and written + kept <= _WITH_HISTORY


def _size(value: t.Optional[bytes]) -> int:
    """Return the most bytes that a value takes in the history, where one in an unusual form is base64."""
    content = history.kept(value)
    if not isinstance(content, bytes):
        return 20
    return len(content) * 4 // 3 + 4
