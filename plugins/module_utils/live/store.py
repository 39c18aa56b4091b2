# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The live documents and the history in the datastore, as one user reads and writes them."""

from __future__ import annotations

import typing as t

from ..base.typed_json import NotJson, parse
from ..datastore import gateway, keys
from ..datastore.client import EtcdClient
from ..datastore.documents import RefusedDocument
from ..datastore.gateway import Condition, Operation
from ..datastore.keys import (
    HISTORY,
    INVENTORY,
    DocumentKey,
    HistoryKey,
    InvalidKey,
    KeyRange,
    document_key,
    history_key,
    history_of,
    inventory_key,
    parse_document_key,
    parse_history_key,
    parse_inventory_key,
    under,
)
from ..datastore.live import history
from ..datastore.live.history import NO_USER, is_change_id
from ..editing.change.resource_key import ResourceKey
from ..editing.live import references
from ..editing.live.live_plan import (
    OWNER,
    POLICY_KINDS,
    DocumentChange,
    LiveView,
    StoredDocument,
    documents_of,
    tier_of,
)
from ..editing.live.references import Tiers
from ..editing.live.rollback import DoneChange

#: So many live documents cannot be too large together, and so many are asked for by their names.
FEW = 256
#: The most of a user's history that is kept, and of one entry. The sizes are looked at after so many new entries.
MOST_CHANGES, MOST_HISTORY_BYTES, MOST_ENTRY_BYTES = keys.MOST_HISTORY, keys.ALL_HISTORY_BYTES, keys.HISTORY_BYTES
_EVERY = 16
#: The most keys of a listing, and the most bytes of the live documents, that are read.
_MOST_KEYS, _MOST_BYTES = 200_000, 256 << 20
#: The keys of one page of the history. The member reads their values, which may be large.
_PAGE = 64


class ListingBeyondLimits(Exception):
    """More in the datastore than is read. The text says what."""


class LiveStore:
    """The live documents as the user `user` of etcd sees them, "" for a cluster that asks nobody for a password.

    `cluster` is the number of the cluster that a change was written to last, 0 before the first one. Methods raise
    EtcdError, Unreachable and ListingBeyondLimits.
    """

    def __init__(self, client: EtcdClient, user: str) -> None:
        self.client = client
        self.user = user or NO_USER
        self.cluster = 0

    async def view(self, wanted: t.Collection[ResourceKey], owner: str = "") -> LiveView:
        """Return what the datastore has of the documents `wanted`, and of those with the annotation of `owner`."""
        names = _names(wanted)
        (total,) = await self.client.counts([under(keys.DOCUMENTS)])
        of_inventory = [inventory_key(DocumentKey(*key)) for key in names.values()]
        if len(of_inventory) <= FEW:
            there = [entry.key for entry in await self.client.named(of_inventory)]
        else:
            there = [entry.key for entry in await self._keys(under(INVENTORY))]
        inventory = {ResourceKey(*key) for key in map(parse_inventory_key, there) if key is not None}
        if total <= FEW and len(names) <= FEW and not owner:
            entries = await self.client.named(list(names))
            found = {names[entry.key]: StoredDocument(entry.value, entry.mod_revision) for entry in entries}
            return LiveView(found, inventory & set(wanted), total)
        documents, owned, size = {}, set(), 0
        async for entry in self._entries(under(keys.DOCUMENTS)):
            size += len(entry.value)
            if entry.key in names:
                documents[names[entry.key]] = StoredDocument(entry.value, entry.mod_revision)
            elif owner and (key := parse_document_key(entry.key)) is not None and _owner(entry.value) == owner:
                documents[ResourceKey(*key)] = StoredDocument(entry.value, entry.mod_revision)
            else:
                continue
            if owner and _owner(entry.value) == owner:
                owned.add(ResourceKey(*t.cast(DocumentKey, parse_document_key(entry.key))))
        return LiveView(documents, inventory & set(wanted), total, size, owned)

    async def documents(self, wanted: t.Collection[ResourceKey]) -> dict[ResourceKey, StoredDocument]:
        """Return those of the documents `wanted` that there are."""
        names = _names(wanted)
        entries = await self.client.named(list(names))
        return {names[entry.key]: StoredDocument(entry.value, entry.mod_revision) for entry in entries}

    async def tiers(self, changes: t.Collection[DocumentChange]) -> Tiers:
        """Return what the datastore has of the tiers that changes refer to."""
        gone = references.removed(changes)
        names = [DocumentKey("Tier", "", name) for name in sorted(references.referred(changes) | gone)]
        live: dict[str, int] = {}
        inventory: dict[str, int] = {}
        wanted = [make(name) for name in names for make in (document_key, inventory_key) if keys.is_node(name.name)]
        for entry in await self.client.named(wanted):
            key = parse_document_key(entry.key)
            if key is not None:
                live[key.name] = entry.mod_revision
            else:
                inventory[t.cast(DocumentKey, parse_inventory_key(entry.key)).name] = entry.mod_revision
        if not gone - inventory.keys():
            return Tiers(live, inventory, {})
        used: dict[str, set[ResourceKey]] = {}
        revision = 0
        for kind in POLICY_KINDS:
            async for page in self.client.pages(documents_of(kind)):
                revision = revision or page.header.revision
                for entry in page.entries:
                    key = parse_document_key(entry.key)
                    if key is not None:
                        used.setdefault(tier_of(entry.value), set()).add(ResourceKey(*key))
        return Tiers(live, inventory, used, revision)

    async def commit(
        self, operations: t.Sequence[Operation], conditions: t.Sequence[Condition], change: str
    ) -> t.Optional[int]:
        """Do all operations at once, and return the revision; None if one of the conditions does not hold.

        `change` is the id in the key of the history that the transaction writes. If a member's answer got lost and
        another one was asked, that key says whether it was done.
        """
        answer = await self.client.call("/v3/kv/txn", gateway.transaction_request(operations, conditions))
        header = gateway.header_of(answer)
        self.cluster = header.cluster
        if gateway.succeeded(answer):
            return header.revision
        own = await self.client.get(history_key(self.user, change))
        return own.mod_revision if own is not None else None

    async def prune(self, new: int) -> None:
        """Delete this user's oldest changes if there are more, or larger ones, than are kept.

        `new` is the number of entries that were written since the last call. Entries are read only when their number
        passes a multiple of _EVERY. So as many of the largest ones as come until then are left room for.
        """
        prefix = under(history_of(self.user))
        (count,) = await self.client.counts([prefix])
        if count <= MOST_CHANGES and (count < 3 * _EVERY or count // _EVERY == (count - new) // _EVERY):
            return
        sizes = [(entry.key, len(entry.value)) async for entry in self._entries(prefix)]
        left, end = MOST_HISTORY_BYTES - _EVERY * MOST_ENTRY_BYTES, ""
        for place, (key, size) in enumerate(reversed(sizes)):
            left -= size
            if left < 0 or place >= MOST_CHANGES - _EVERY:
                end = key
                break
        if end:
            await self.client.delete(KeyRange(prefix.start, f"{end}\x00"))

    async def history(self) -> list[tuple[HistoryKey, int]]:
        """Return the changes of all users, in their order, each with its revision."""
        found = [(parse_history_key(entry.key), entry.mod_revision) for entry in await self._keys(under(HISTORY))]
        known = [(key, revision) for key, revision in found if key is not None and is_change_id(key.change)]
        return sorted(known, key=lambda one: one[1])

    async def changes(
        self, wanted: t.Sequence[HistoryKey]
    ) -> tuple[dict[HistoryKey, DoneChange], dict[HistoryKey, str]]:
        """Return changes of the history by their keys, and why others cannot be read."""
        found: dict[HistoryKey, DoneChange] = {}
        refused: dict[HistoryKey, str] = {}
        for entry in await self.client.named([history_key(*key) for key in wanted]):
            key = t.cast(HistoryKey, parse_history_key(entry.key))
            try:
                found[key] = DoneChange(key.change, entry.mod_revision, history.decode(entry.value))
            except RefusedDocument as error:
                refused[key] = str(error)
        return found, refused

    async def revisions(self) -> dict[str, int]:
        """Return the mod revision of each live document, by its key."""
        return {entry.key: entry.mod_revision for entry in await self._keys(under(keys.DOCUMENTS))}

    async def _keys(self, wanted: KeyRange) -> list[gateway.KeyValue]:
        found: list[gateway.KeyValue] = []
        async for page in self.client.pages(wanted, _PAGE, keys_only=True):
            found += page.entries
            if len(found) > _MOST_KEYS:
                raise ListingBeyondLimits(f"the datastore has more than {_MOST_KEYS:,} keys below {wanted.start}")
        return found

    async def _entries(self, wanted: KeyRange) -> t.AsyncIterator[gateway.KeyValue]:
        count, size = 0, 0
        async for page in self.client.pages(wanted):
            for entry in page.entries:
                count, size = count + 1, size + len(entry.value)
                if count > _MOST_KEYS or size > _MOST_BYTES:
                    most = f"{_MOST_KEYS:,} keys or {_MOST_BYTES >> 20} MiB"
                    raise ListingBeyondLimits(f"the datastore has more than {most} below {wanted.start}")
                yield entry


def _names(wanted: t.Iterable[ResourceKey]) -> dict[str, ResourceKey]:
    """Return the resources by their keys, without those whose names no key can have."""
    found = {}
    for key in wanted:
        try:
            found[document_key(DocumentKey(*key))] = key
        except InvalidKey:
            continue
    return found


def _owner(value: bytes) -> str:
    """Return the owner of a live document, "" for none."""
    try:
        metadata = parse(value)["metadata"]
        return str(metadata["annotations"][OWNER])
    except (NotJson, TypeError, KeyError):
        return ""
