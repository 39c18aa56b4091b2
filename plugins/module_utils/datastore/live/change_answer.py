# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's answer to the open change of live policy, in the key keys.answer_key.

    {"written": 1795770000.5, "state": "in_force", "reason": ""}

The answer to a question has what the change would do to the node, too (change_effect.py). A node writes it as it likes,
so readers check types and sizes, and skip fields that their release does not know.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.typed_json import Unreadable, maybe, number, one_of, open_table, text
from .. import documents, keys
from ..documents import RefusedDocument
from . import change_effect
from .change_effect import ChangeEffect

#: What became of a change: a trial is in the kernel; the node does not try or answer it; it is in force no longer; it
#: was committed, as the node has seen by a new connection; a question is answered.
IN_FORCE, REFUSED, REVERTED, KEPT, ANSWERED = "in_force", "refused", "reverted", "kept", "answered"
_STATES = (IN_FORCE, REFUSED, REVERTED, KEPT, ANSWERED)
#: The most characters of a reason.
REASON_LIMIT = 1000
_LATEST = 1e11  # seconds since 1970


@dataclasses.dataclass(frozen=True)
class ChangeAnswer:
    """The answer of `node` to the change with the id `change`, at the time `written` of its clock time.time().

    `effect` is what the change would do, None if the node does not say it.
    """

    node: str
    change: str
    written: float
    state: str
    reason: str = ""
    effect: t.Optional[ChangeEffect] = None


def encode(answer: ChangeAnswer) -> bytes:
    """Return the document of an answer. Long texts and lists are cut; the key has the node and the change."""
    body: dict[str, t.Any] = {"written": answer.written, "state": answer.state, "reason": answer.reason[:REASON_LIMIT]}
    effect = answer.effect
    while effect is not None:
        found = documents.encoded({**body, "effect": effect.to_dict()})
        if len(found) <= keys.ANSWER_BYTES:
            return found
        effect = effect.shorter()
    return documents.encoded(body)


def decode(node: str, change: str, value: bytes) -> ChangeAnswer:
    """Return the answer in the document `value`. Raise RefusedDocument; skip unknown fields."""
    try:
        found = _ANSWER(documents.decoded(value, keys.ANSWER_BYTES))
    except Unreadable as error:
        raise RefusedDocument(f"its field {error}.") from None
    return ChangeAnswer(node, change, **found)


_ANSWER: t.Callable[[t.Any], dict[str, t.Any]] = open_table(
    {"written": number(0.0, _LATEST), "state": one_of(*_STATES), "reason": text(REASON_LIMIT)},
    {"effect": maybe(change_effect.read)},
)
