# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON that a runtime sends on a plugin's stdin: one object, bounded, and its values as errors repeat them."""

from __future__ import annotations

import json
import math
import typing as t

from ..base.terminal_text import cut

#: Characters of the longest integer that is converted, its sign included. No field needs longer ones, which are slow to
#: convert.
_DIGITS = 20


class NotAnObject(ValueError):
    """The error for bytes that are no JSON object. Its text says why, and repeats nothing of them."""


def read_object(data: bytes) -> dict[str, t.Any]:
    """Return the JSON object in `data`. Raise NotAnObject if it is anything else.

    Integers of more than 20 characters, a sign included, become 0, and so do numbers too large for a float.
    """
    try:
        document = json.loads(
            data,
            parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS else 0,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError) as error:
        place = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "its whole"
        raise NotAnObject(f"not JSON ({place})") from None
    if not isinstance(document, dict):
        raise NotAnObject("not a JSON object")
    return document


def _finite(digits: str) -> float:
    """Return the number as a float, or 0.0 if it is too large for one, which could not be written as JSON again."""
    value = float(digits)
    return value if math.isfinite(value) else 0.0


def _no_constant(name: str) -> t.NoReturn:
    raise ValueError(f"{name} is not JSON")


def is_deeper(value: t.Any, levels: int) -> bool:
    """Return whether a JSON value has more than `levels` levels: writing needs more of the stack than reading.

    A number, a text or [] has one level, and [1] has two.
    """
    level = [value]
    for _each in range(levels):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def shown(value: t.Any) -> str:
    """Return a JSON value as an error may repeat it.

    A text is quoted, and of more than 80 characters only the first 77 and "..." are shown. A list becomes "a list", an
    object "an object", and any other value its JSON.
    """
    if isinstance(value, str):
        return repr(cut(value))
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value)
