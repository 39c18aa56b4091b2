# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers of what a report needs beyond the lines of a run: changes with their subjects, and losses by second."""

from __future__ import annotations

import typing as t

from ..base.typed_json import Reader, flag, items, maybe, number, one_of, open_table, text, whole
from ..fleet.node_answers import results

#: The most seconds for which a watch tells of its losses.
SECONDS = 100_000
_TEXT = 400


def _cut(value: t.Any) -> str:
    """Return a text, cut; "" for what is none."""
    return str.__str__(value[:_TEXT]) if isinstance(value, str) else ""


#: The reader of answers of the module `node`, with the subjects of its changes. Long texts are cut.
CHANGES: Reader = open_table(
    {},
    {
        "changes": items(
            open_table(
                {"kind": text(64), "action": one_of(*results.ACTIONS)},
                {"subject": _cut, "before": maybe(_cut), "after": maybe(_cut), "note": _cut},
            )
        )
    },
)

_WATCH = open_table(
    {},
    {
        "complete": flag,
        "reason": text(),
        "seconds": number(0.0, 1e7),
        "resolution": number(0.0, 1e9),
        "lost_by_second": items(items(whole(0, 10**9), 2), SECONDS),
    },
)


def soak(value: t.Any) -> t.Any:
    """Return the known fields of an answer of the module `soak`. Raise Unreadable if one of them is invalid."""
    return {**results.PROBES(value), **open_table({}, {"watch": _WATCH})(value)}
