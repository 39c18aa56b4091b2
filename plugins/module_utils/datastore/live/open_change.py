# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The open change of live policy, in the key keys.OPEN_CHANGE: what nodes try, or are asked about, before it is made.

    {"id": "20261130T160102Z-1f0c", "user": "alice", "kind": "trial", "seconds": 60, "base": 5120,
     "documents": [["/host-routing/v1/documents/tiers/a", {"kind": "Tier", ...}],
                   ["/host-routing/v1/documents/tiers/b", null]]}

There is one at a time. Its key has a lease, so that it ends by time whatever becomes of its writer. An operator writes
it as it likes, so nodes check types and sizes.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.typed_json import Unreadable, items, one_of, open_table, refuse, whole
from .. import documents, keys
from ..documents import RefusedDocument
from ..keys import DocumentKey
from . import live_documents

#: A trial is in force on nodes until it is committed or its time is over. A question is only answered.
TRIAL, QUESTION = "trial", "question"
#: The most seconds of a trial.
MOST_SECONDS = 600


@dataclasses.dataclass(frozen=True)
class OpenChange:
    """A change of documents: the new value by key, None for one that goes. Values are those of `live_documents.encode`.

    `base` is the revision at which its writer read the documents. `seconds` is the time of a trial, or until nodes have
    to answer a question.
    """

    id: str
    user: str
    kind: str
    seconds: int
    base: int
    documents: t.Mapping[DocumentKey, t.Optional[bytes]]


def encode(change: OpenChange) -> bytes:
    """Return the value of the open change. Raise RefusedDocument if it is too large."""
    body = dataclasses.asdict(change)
    body["documents"] = [
        [keys.document_key(key), None if value is None else documents.decoded(value, keys.DOCUMENT_BYTES)]
        for key, value in change.documents.items()
    ]
    found = documents.encoded(body)
    if len(found) > keys.CHANGE_BYTES or len(change.documents) > keys.CHANGE_DOCUMENTS:
        raise RefusedDocument(
            f"it has {len(change.documents)} documents in {len(found)} bytes, and {keys.CHANGE_DOCUMENTS} in "
            f"{keys.CHANGE_BYTES} are the most."
        )
    return found


def decode(value: bytes) -> OpenChange:
    """Return the change in the value of keys.OPEN_CHANGE. Raise RefusedDocument; skip unknown fields.

    The documents in it are not read yet.
    """
    try:
        found = _CHANGE(documents.decoded(value, keys.CHANGE_BYTES))
    except Unreadable as error:
        raise RefusedDocument(f"its field {error}.") from None
    pairs = dict(found["documents"])
    if len(pairs) < len(found["documents"]):
        raise RefusedDocument("it has a document twice.")
    return OpenChange(**{**found, "documents": pairs})


def _pair(value: t.Any) -> tuple[DocumentKey, t.Optional[bytes]]:
    key = keys.parse_document_key(value[0]) if isinstance(value, list) and value and isinstance(value[0], str) else None
    if key is None or len(value) != 2 or not (value[1] is None or isinstance(value[1], dict)):
        refuse(value, "a pair of a live document's key and the document or null")
    return key, None if value[1] is None else live_documents.encode(value[1])


def _name(value: t.Any) -> str:
    if not isinstance(value, str) or not keys.is_node(value):
        refuse(value, "a name that can be a part of a key")
    return value


# Later releases may add fields.
_CHANGE = open_table(
    {
        "id": _name,
        "user": _name,
        "kind": one_of(TRIAL, QUESTION),
        "seconds": whole(1, MOST_SECONDS),
        "base": whole(0, (1 << 63) - 1),
        "documents": items(_pair, keys.CHANGE_DOCUMENTS),
    }
)
