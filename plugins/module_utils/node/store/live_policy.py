# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live policy on the disk: what the agent has last put in force, for the boot and for runs without an agent.

    /var/lib/calico/live-policy.jsonl
    {"format": "calico-live-policy", "version": 1, "cluster": "...", "revision": ..., "referred": [...], "documents": 2}
    ["/host-routing/v1/documents/tiers/a", "..."]        a line for each document, its value packed

The values are stored as they were read from the documents, so that they need not be read again before the network.
"""

from __future__ import annotations

import json
import os
import re
import typing as t

from ...base.typed_json import NotJson, Unreadable, matching, open_table, parse, text, whole
from ...datastore import keys
from ...datastore.keys import DocumentKey
from ...datastore.live import live_documents
from ...datastore.live.live_reader import ReadDocument
from ...files import bounded, replacement
from ...policy.model import PolicySet, PolicyTier
from ...state import live_policy
from ...state.live_policy import NO_LIVE_POLICY, LivePolicy
from ...state.plain_data import SharedValues, reader, to_plain

FILE = "live-policy.jsonl"
_FORMAT, _VERSION = "calico-live-policy", 1
#: The most bytes of the file: packed values are smaller than their documents.
_LIMIT = 128 << 20
_HEADER = open_table(
    {
        "cluster": matching(re.compile("[0-9]{1,20}"), "the identity of a cluster"),
        "revision": whole(0, (1 << 63) - 1),
        "documents": whole(0, 1_000_000),
        "referred": reader(tuple[PolicyTier, ...]),
    }
)
_LINE = text(_LIMIT)


class StoredLivePolicy(t.NamedTuple):
    """Live policy, and the documents that it was made from, as the store `cluster` had them at `revision`."""

    policy: LivePolicy
    documents: t.Mapping[DocumentKey, ReadDocument]
    cluster: int = 0
    revision: int = 0


NOTHING_STORED = StoredLivePolicy(NO_LIVE_POLICY, {})


class LivePolicyUnreadable(Exception):
    """A file of live policy that cannot be read, with the reason and the remedy."""


def path(folder: str) -> str:
    return os.path.join(folder, FILE)


def save(folder: str, stored: StoredLivePolicy) -> None:
    """Replace the file in `folder`, and return after it is on the disk. Raise OSError."""
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "cluster": str(stored.cluster),
        "revision": stored.revision,
        "referred": to_plain(stored.policy.referred),
        "documents": len(stored.documents),
    }
    with replacement.beside(path(folder), 0o600) as new:
        new.write(_line(header))
        for key, document in stored.documents.items():
            new.write(_line([keys.document_key(key), document.packed]))
        new.put()


def load(folder: str) -> StoredLivePolicy:
    """Return the live policy in `folder`; without a file there is none. Raise LivePolicyUnreadable."""
    name = path(folder)
    try:
        lines = bounded.read(name, _LIMIT).decode("ascii").splitlines()
        return _read(lines)
    except FileNotFoundError:
        return NOTHING_STORED
    except (OSError, ValueError, Unreadable) as error:
        raise LivePolicyUnreadable(
            f"{name} cannot be read: {error}. IP sets and rules stay as they are, and no workload can be added, until"
            " the agent has read the datastore. If the fleet has none any more, remove the file and restart"
            " calico-agent."
        ) from error


def _read(lines: t.Sequence[str]) -> StoredLivePolicy:
    if not lines:
        raise ValueError("it is empty")
    body = _value(lines[0])
    if not isinstance(body, dict) or body.get("format") != _FORMAT or body.get("version") != _VERSION:
        raise ValueError("it has the form of another release")
    header = _HEADER(body)
    if len(lines) != header["documents"] + 1:
        raise ValueError(f"it has {len(lines) - 1} documents instead of {header['documents']}")
    documents: dict[DocumentKey, ReadDocument] = {}
    known = SharedValues()
    for line in lines[1:]:
        pair = _value(line)
        key = keys.parse_document_key(_LINE(pair[0])) if isinstance(pair, list) and len(pair) == 2 else None
        if key is None:
            raise ValueError("a line of it is no live document")
        packed = _LINE(pair[1])
        documents[key] = ReadDocument(live_documents.unpack(key, packed, known), packed)
    values = [one.value for one in documents.values() if one.value is not None]
    policy = live_policy.resolve(PolicySet(tiers=header["referred"]), values)
    return StoredLivePolicy(policy, documents, int(header["cluster"]), header["revision"])


def _value(line: str) -> t.Any:
    try:
        return parse(line, once=False)
    except NotJson:
        raise ValueError("a line of it is not JSON") from None


def _line(value: t.Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
