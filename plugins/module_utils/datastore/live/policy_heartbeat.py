# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node says of its live policy, in the key keys.policy_heartbeat_key, at most twice a second.

    {"written": 1795770000.5, "release": "0.1.0", "cluster": 14841639068965178418, "revision": 5120, "held_back": "",
     "count_refused": 1, "refused": [["/host-routing/v1/documents/tiers/a", "it is not JSON."]]}

A node writes it as it likes, so readers check types and sizes, and skip fields that their release does not know.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...base.typed_json import Unreadable, matching, number, open_table, refuse, text, whole
from .. import documents, keys
from ..documents import RefusedDocument

#: The most characters of a reason, and the most documents that are named.
REASON_LIMIT, NAMED = 300, 4
_KEY_LIMIT = 512
_LARGEST = (1 << 64) - 1  # of etcd's numbers
_LATEST = 1e11  # seconds since 1970
_MOST = 1 << 32  # of what is counted
_RELEASE = re.compile(r"[0-9A-Za-z.+-]{1,40}", re.ASCII)


@dataclasses.dataclass(frozen=True)
class PolicyHeartbeat:
    """What `node` said of its live policy at the time `written`, in seconds of its clock time.time().

    The live documents of the store `cluster` up to, and with, `revision` are in the kernel; both are 0 before that.
    `held_back` says why later ones are not, "" if they only need time. `refused` are the first of `count_refused`
    documents that the node cannot understand, as pairs of key and reason.
    """

    node: str
    written: float
    release: str
    cluster: int = 0
    revision: int = 0
    held_back: str = ""
    count_refused: int = 0
    refused: tuple[tuple[str, str], ...] = ()


def encode(heartbeat: PolicyHeartbeat) -> bytes:
    """Return the document. Texts and the list of refused documents are cut to their limits; the key has the node."""
    body = dataclasses.asdict(heartbeat)
    del body["node"]
    body["held_back"] = heartbeat.held_back[:REASON_LIMIT]
    for most in range(NAMED, -1, -1):
        body["refused"] = [[key[:_KEY_LIMIT], why[:REASON_LIMIT]] for key, why in heartbeat.refused[:most]]
        found = documents.encoded(body)
        if len(found) <= keys.POLICY_HEARTBEAT_BYTES:
            break
    return found


def decode(node: str, value: bytes) -> PolicyHeartbeat:
    """Return what is in the document `value` of a node. Raise RefusedDocument; skip unknown fields."""
    try:
        found = _HEARTBEAT(documents.decoded(value, keys.POLICY_HEARTBEAT_BYTES))
    except Unreadable as error:
        raise RefusedDocument(f"its field {error}.") from None
    return PolicyHeartbeat(node=node, **found)


def _refused(value: t.Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list) or len(value) > NAMED:
        refuse(value, f"a list of at most {NAMED} pairs")
    pairs = []
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            refuse(pair, "a pair of a key and a reason")
        pairs.append((text(_KEY_LIMIT)(pair[0]), text(REASON_LIMIT)(pair[1])))
    return tuple(pairs)


_HEARTBEAT = open_table(
    {
        "written": number(0.0, _LATEST),
        "release": matching(_RELEASE, "the number of a release"),
        "cluster": whole(0, _LARGEST),
        "revision": whole(0, _LARGEST),
        "held_back": text(REASON_LIMIT),
        "count_refused": whole(0, _MOST),
        "refused": _refused,
    }
)
