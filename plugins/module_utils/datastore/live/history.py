# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An entry of the history: what one transaction changed, with the documents before and after it.

    {"user": "ada", "when": 1795770000.5, "verb": "apply", "change": "20261130T160212.123-9f3a1c", "revisions": {},
     "before": {"/host-routing/v1/documents/tiers/web": null}, "after": {"/host-routing/v1/documents/tiers/web": {...}}}

A document is there as a JSON object, and null if there was none. A value that is not a document in its usual form is
there as base64, so that it can be restored as it was, and one that is too large for the history as the number of its
bytes. An operator writes its entries as it likes, so readers check them. That a document was changed by the user in
the key of an entry is known by the revision alone, which both have.
"""

from __future__ import annotations

import base64
import binascii
import re
import typing as t

from ...base.document_limits import BeyondLimits, DocumentLimits, read_json
from ...base.typed_json import Unreadable, number, open_table, refuse, text, whole
from .. import keys
from ..documents import RefusedDocument, encoded
from ..keys import DocumentKey

#: The user in the keys of a cluster that asks nobody for a password.
NO_USER = "nobody"
_ID = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{3}-[0-9a-f]{6}", re.ASCII)
_LIMITS = DocumentLimits(keys.HISTORY_BYTES, 400_000, 40)
_MOST_KEYS = 1_000
_LATEST = 1e11  # seconds since 1970

#: A value of a key: its bytes, None for a key that did not exist, or how many bytes a value has that is not kept.
Content = t.Union[bytes, int, None]
Contents = t.Mapping[DocumentKey, Content]


class HistoryEntry(t.NamedTuple):
    """One transaction.

    `change` is the id of the first of those that one command made, and `undone` that of the change that it has undone.
    `revisions` are the mod revisions of the documents before, of those that there were.
    """

    user: str
    when: float
    verb: str
    change: str
    before: Contents
    after: Contents
    undone: str = ""
    revisions: t.Mapping[DocumentKey, int] = {}


def is_change_id(text: str) -> bool:
    """Return whether a text is like 20261130T160212.123-9f3a1c: a time in UTC and 24 random bits."""
    return _ID.fullmatch(text) is not None


def kept(value: t.Optional[bytes]) -> Content:
    """Return a value as the history keeps it: a document that is larger than any may be is only counted."""
    return len(value) if value is not None and len(value) > keys.DOCUMENT_BYTES else value


def encode(entry: HistoryEntry) -> bytes:
    """Return the value of an entry's key."""
    body = entry._asdict()
    for side in ("before", "after"):
        body[side] = {keys.document_key(key): _written(content) for key, content in body[side].items()}
    body["revisions"] = {keys.document_key(key): revision for key, revision in entry.revisions.items()}
    for name in ("undone", "revisions"):
        if not body[name]:
            del body[name]
    return encoded(body)


def decode(value: bytes) -> HistoryEntry:
    """Return the entry in the value of its key. Raise RefusedDocument for anything else."""
    if len(value) > keys.HISTORY_BYTES:
        raise RefusedDocument(f"it has more than {keys.HISTORY_BYTES} bytes.")
    try:
        found = _ENTRY(read_json(value.decode("utf-8"), _LIMITS))
    except BeyondLimits as error:
        raise RefusedDocument(f"it {error}") from None
    except Unreadable as error:
        raise RefusedDocument(f"its field {error}.") from None
    except ValueError:
        raise RefusedDocument("it is not JSON.") from None
    if found["before"].keys() != found["after"].keys():
        raise RefusedDocument("it has other documents before than after.")
    return HistoryEntry(**found)


def _written(content: Content) -> t.Any:
    if not isinstance(content, bytes):
        return content
    try:
        document = read_json(content.decode("utf-8"), _LIMITS)
        if isinstance(document, dict) and encoded(document) == content:
            return document
    except ValueError:
        pass
    return base64.b64encode(content).decode()


def _content(value: t.Any) -> Content:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, dict):
        return encoded(value)
    if isinstance(value, str):
        try:
            return binascii.a2b_base64(value, strict_mode=True)
        except ValueError:
            pass
    return refuse(value, "a document, null, a number of bytes or base64")


def _contents(value: t.Any) -> dict[DocumentKey, Content]:
    if not isinstance(value, dict) or len(value) > _MOST_KEYS:
        refuse(value, f"a table of at most {_MOST_KEYS} documents")
    found = {}
    for name, content in value.items():
        key = keys.parse_document_key(name)
        if key is None:
            refuse(name, "the key of a live document")
        found[key] = _content(content)
    return found


def _revisions(value: t.Any) -> dict[DocumentKey, int]:
    if not isinstance(value, dict) or len(value) > _MOST_KEYS:
        refuse(value, f"a table of at most {_MOST_KEYS} revisions")
    parsed = {keys.parse_document_key(name): _REVISION(revision) for name, revision in value.items()}
    return {key: revision for key, revision in parsed.items() if key is not None}


def _id(value: t.Any) -> str:
    if not isinstance(value, str) or not is_change_id(value):
        refuse(value, "the id of a change")
    return value


_REVISION = whole(0, (1 << 63) - 1)
_ENTRY = open_table(
    {
        "user": text(253),
        "when": number(0.0, _LATEST),
        "verb": text(40),
        "change": _id,
        "before": _contents,
        "after": _contents,
    },
    {"undone": _id, "revisions": _revisions},
)
