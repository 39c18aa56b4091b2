# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of policy that the datastore has: live documents, and those of the inventory as a run published them.

Each is listed once. The inventory's is in force if both have the same kind and name. Documents may be put into etcd by
hand: one that cannot be understood is left out and named, as nodes do.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import typing as t

from ...base import terminal_text
from ...base.document_limits import BeyondLimits
from ...base.live_source import SOURCE, with_source
from ...datastore import gateway, keys
from ...datastore.client import EtcdClient, Unreachable
from ...datastore.documents import RefusedDocument
from ...datastore.gateway import AskLater, EtcdError, KeyChange, Unavailable
from ...datastore.keys import DocumentKey, KeyRange, parse_document_key, parse_inventory_key
from ...datastore.live import live_documents
from ...datastore.settings import DatastoreSettings, DatastoreSettingsError
from ...datastore.transport import TransportError
from ...resources import api as resources
from .. import datastore_source
from ..connection.datastore_ways import DatastoreWays, NotOurs
from ..errors import CommandError
from ..render.kind import Document, Kind, name_of, namespace_of
from .policy_sources import BOTH, INVENTORY, LIVE

#: Seconds for a listing, and the most keys and bytes of values that are read for it.
_SECONDS, _MOST_KEYS, _MOST_BYTES = 20.0, 50_000, 256 << 20
#: Seconds without a message after which a watch begins again, and before it does.
_SILENCE, _AGAIN = 900.0, 1.0
_TYPES = {"ADDED": "created", "MODIFIED": "changed", "DELETED": "deleted"}


class PolicyListingTooLarge(Exception):
    def __init__(self) -> None:
        super().__init__(f"it has more than {_MOST_KEYS:,} documents of a kind, or {_MOST_BYTES >> 20} MiB of them")


_FAILURES = (DatastoreSettingsError, EtcdError, Unreachable, NotOurs, PolicyListingTooLarge, asyncio.TimeoutError)


class Listed(t.NamedTuple):
    """The documents of a kind, sorted by namespace and name, the revision they are from, and what is left out."""

    documents: list[Document]
    revision: int
    complaints: list[str]


def of_kind(ways: DatastoreWays, kind: Kind) -> t.Optional[Listed]:
    """Return the documents of a kind of policy, None without a way to a datastore. Raise CommandError."""

    async def read(found: DatastoreSettings) -> Listed:
        client = datastore_source.connect(found)
        try:
            await _check(client)
            return await asyncio.wait_for(_listed(client, kind.name), _SECONDS)
        finally:
            await client.close()

    try:
        return ways.first(lambda found: asyncio.run(read(found)), _FAILURES)
    except asyncio.TimeoutError:
        raise CommandError(f"the datastore has not answered within {_SECONDS:g} s.") from None
    except _FAILURES as error:
        raise CommandError(f"the datastore cannot be read: {error}") from error


def watch(ways: DatastoreWays, kind: Kind, revision: int, chosen: t.Callable[[Document], bool], output: str) -> None:
    """Print a line for each change of a live document of a kind after a revision, until interrupted.

    `chosen` chooses among documents. Raise CommandError if the datastore does not keep the revision any more.
    """

    def show(change: KeyChange) -> None:
        shown = _shown(change, chosen, output)
        if shown:
            sys.stdout.write(shown)
            sys.stdout.flush()

    try:
        ways.first(lambda found: asyncio.run(_watch(found, kind.name, revision, show)), _FAILURES)
    except _FAILURES as error:
        raise CommandError(f"the datastore cannot be watched: {error}") from error


async def _watch(found: DatastoreSettings, kind: str, revision: int, show: t.Callable[[KeyChange], None]) -> None:
    client = datastore_source.connect(found)
    try:
        await _check(client)
        while True:
            try:
                async with client.member.watch(_range(keys.DOCUMENTS, kind), revision + 1) as lines:
                    while True:
                        answer = gateway.watch_answer_of(await lines.next(_SILENCE))
                        if answer.canceled:
                            raise gateway.cancellation_of(answer)
                        for change in answer.changes:
                            show(change)
                            revision = max(revision, change.mod_revision)
            except (TransportError, Unavailable, AskLater, gateway.Unauthenticated):
                client.rotate()
                await asyncio.sleep(_AGAIN)
            except EtcdError as error:
                raise CommandError(f"the datastore cannot be watched: {error}") from error
    finally:
        await client.close()


async def _check(client: EtcdClient) -> None:
    """Raise NotOurs if the datastore is not that of a fleet of this collection."""
    (blocks,) = await client.counts([keys.under(keys.BLOCKS)])
    if not blocks:
        raise NotOurs


def _shown(change: KeyChange, chosen: t.Callable[[Document], bool], output: str) -> str:
    """Return the line about a change, "" for one that is not chosen."""
    key = parse_document_key(change.key)
    if key is None:
        return ""
    metadata = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
    document: Document = {"apiVersion": resources.API_VERSION, "kind": key.kind, "metadata": metadata, "spec": {}}
    why = ""
    if change.value is not None:
        try:
            document = live_documents.decode(key, change.value).to_document()
        except (RefusedDocument, BeyondLimits) as error:
            why = f", and is left out: {error}"
    if not chosen(document):
        return ""
    kind = "DELETED" if change.value is None else "ADDED" if change.created else "MODIFIED"
    if output == "json":
        document = with_source(document, LIVE, change.mod_revision)
        return json.dumps({"type": kind, "object": document}) + "\n"
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    name = f"{key.namespace}/{key.name}" if key.namespace else key.name
    text = f"{now}   {key.kind}({name}) {_TYPES[kind]} at revision {change.mod_revision}{why}"
    return terminal_text.line(text) + "\n"


def _range(root: str, kind: str) -> KeyRange:
    return keys.under(f"{root}{keys.LIVE_KINDS[kind]}/")


async def _listed(client: EtcdClient, kind: str) -> Listed:
    complaints: list[str] = []
    found: dict[DocumentKey, Document] = {}
    revision, budget = 0, _MOST_BYTES
    for root, parse in ((keys.DOCUMENTS, parse_document_key), (keys.INVENTORY, parse_inventory_key)):
        count = 0
        async for page in client.pages(_range(root, kind)):
            revision = revision or page.header.revision
            count += len(page.entries)
            budget -= sum(len(entry.value) for entry in page.entries)
            if count > _MOST_KEYS or budget < 0:
                raise PolicyListingTooLarge
            for entry in page.entries:
                key = parse(entry.key)
                try:
                    if key is None:
                        raise RefusedDocument("its key is none of a document.")
                    document = live_documents.decode(key, entry.value).to_document()
                except (RefusedDocument, BeyondLimits) as error:
                    complaints.append(f"{terminal_text.cut(entry.key, 320)} of the datastore is left out: {error}")
                    continue
                if root == keys.DOCUMENTS:
                    found[key] = with_source(document, LIVE, entry.mod_revision)
                else:
                    found[key] = with_source(document, BOTH if key in found else INVENTORY)
    default = DocumentKey("Tier", "", resources.DEFAULT_TIER)
    if kind == "Tier":
        document = resources.parse({"kind": "Tier", "metadata": {"name": resources.DEFAULT_TIER}}).to_document()
        found.setdefault(default, with_source(document, INVENTORY))
    documents = sorted(found.values(), key=lambda document: (namespace_of(document), name_of(document)))
    return Listed(documents, revision, complaints[:1] + _more(complaints))


def _more(complaints: t.Sequence[str]) -> list[str]:
    return [f"{len(complaints) - 1} more keys are left out."] if len(complaints) > 1 else []


def source_of(document: Document, dummy: t.Any = None) -> str:
    """Return where a document is from, as the cell of a table."""
    annotations = document["metadata"].get("annotations") or {}
    return str(annotations.get(SOURCE, ""))
