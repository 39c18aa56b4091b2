# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of plain values in a node's answer: functions that return a value of the right type and size, or raise.

    NAMES = items(text())
    NAMES(["a", "b"])      # ["a", "b"]
    NAMES("ab")            # raises Unreadable: it is ab, not a list of at most 131072

A reader raises Unreadable for any other value. It accepts Ansible's own lists and tables, and returns builtin types.
"""

from __future__ import annotations

import math
import typing as t

from ...state.answers import limits
from ...state.answers.left_out import shown

Reader = t.Callable[[t.Any], t.Any]


class Unreadable(ValueError):
    """The error that a value has the wrong type or size.

    `place` is its path in the answer (`targets[3].lost`), "" for the answer itself. `why` is a clause that continues
    "it is".
    """

    def __init__(self, place: str, why: str) -> None:
        self.place = place
        self.why = why
        super().__init__(place, why)

    def __str__(self) -> str:
        return f"{self.place or 'it'} is {self.why}"

    def inside(self, outer: str) -> Unreadable:
        """Return a new error with `outer`, the name or [index] of the container's entry, in front of the path."""
        glue = "." if self.place and not self.place.startswith("[") else ""
        return Unreadable(f"{outer}{glue}{self.place}", self.why)


def _refuse(value: t.Any, wanted: str) -> t.NoReturn:
    raise Unreadable("", f"{shown(value)}, not {wanted}")


def text(most: int = limits.TEXT) -> Reader:
    """Return a reader of texts of at most `most` characters. It raises Unreadable for any other value."""

    def read(value: t.Any) -> str:
        if not isinstance(value, str) or len(value) > most:
            _refuse(value, f"a text of at most {most} characters")
        return str.__str__(value)

    return read


def one_of(*words: str) -> Reader:
    """Return a reader of texts that are one of `words`. It raises Unreadable for any other value."""

    def read(value: t.Any) -> str:
        if not isinstance(value, str) or value not in words:
            _refuse(value, f"one of {', '.join(words)}")
        return str.__str__(value)

    return read


def whole(least: int = 0, most: int = 2**53) -> Reader:
    """Return a reader of integers from `least` to `most`. It raises Unreadable for other values, also for booleans."""

    def read(value: t.Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            _refuse(value, f"a whole number from {least} to {most}")
        return int.__int__(value)

    return read


def number(least: float = 0.0, most: float = 1e12) -> Reader:
    """Return a reader of numbers from `least` to `most`, which returns floats.

    It raises Unreadable for any other value, also for booleans and NaN.
    """

    def read(value: t.Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            _refuse(value, f"a number from {least:g} to {most:g}")
        return float(value)

    return read


def flag(value: t.Any) -> bool:
    """Return `value` if it is True or False. Otherwise raise Unreadable."""
    if not isinstance(value, bool):
        _refuse(value, "true or false")
    return value


def maybe(reader: Reader) -> Reader:
    """Return a reader of the values that `reader` reads, and of None. It raises Unreadable as `reader` does."""
    return lambda value: None if value is None else reader(value)


def items(reader: Reader, most: int = limits.ENTRIES) -> Reader:
    """Return a reader of lists and tuples of at most `most` entries, which returns a list; `reader` reads each entry.

    It raises Unreadable for any other value, and with the index of the entry for one that `reader` refuses.
    """

    def read(value: t.Any) -> list[t.Any]:
        if not isinstance(value, (list, tuple)) or len(value) > most:
            _refuse(value, f"a list of at most {most}")
        found = []
        for index, entry in enumerate(value):
            try:
                found.append(reader(entry))
            except Unreadable as error:
                raise error.inside(f"[{index}]") from None
        return found

    return read


def by_name(reader: Reader, most: int = limits.ENTRIES) -> Reader:
    """Return a reader of mappings of at most `most` entries from texts to values that `reader` reads.

    It returns a dict. It raises Unreadable for any other value, and with the key for an entry that is refused.
    """
    name = text()

    def read(value: t.Any) -> dict[str, t.Any]:
        if not isinstance(value, t.Mapping) or len(value) > most:
            _refuse(value, f"a table of at most {most}")
        found = {}
        for key, entry in value.items():
            try:
                found[name(key)] = reader(entry)
            except Unreadable as error:
                raise error.inside(shown(key)) from None
        return found

    return read


def table(fields: t.Mapping[str, Reader], optional: t.Optional[t.Mapping[str, Reader]] = None) -> Reader:
    """Return a reader of mappings that have all of `fields` and any of `optional`, which map names to readers.

    It returns a dict of these fields only. It raises Unreadable if the value is no mapping, if one of `fields` is
    missing, or if a reader refuses its field.
    """
    readers = {**fields, **(optional or {})}

    def read(value: t.Any) -> dict[str, t.Any]:
        if not isinstance(value, t.Mapping):
            _refuse(value, "a table")
        found = {}
        for key, reader in readers.items():
            if key not in value:
                if key in fields:
                    raise Unreadable(key, "missing")
                continue
            try:
                found[key] = reader(value[key])
            except Unreadable as error:
                raise error.inside(key) from None
        return found

    return read


def plain(value: t.Any) -> t.Any:
    """Return a copy of `value` in builtin types: None, booleans, numbers, texts, lists and dicts with text keys.

    It is for answers that another reader examines further. Raise Unreadable for other types, numbers that are not
    finite, more than 32 levels or more than 4,000,000 values.
    """
    left = limits.VALUES

    def walk(found: t.Any, depth: int) -> t.Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise Unreadable("", f"more than {limits.VALUES} values")
        if found is None or isinstance(found, bool):
            return found
        if isinstance(found, str):
            return str.__str__(found)
        if isinstance(found, int):
            return int.__int__(found)
        if isinstance(found, float):
            if not math.isfinite(found):
                raise Unreadable("", "a number that is not finite")
            return float(found)
        if depth >= limits.DEPTH:
            raise Unreadable("", f"a table or list with more than {limits.DEPTH} levels")
        if isinstance(found, t.Mapping):
            for key in found:
                if not isinstance(key, str):
                    raise Unreadable("", "a table with a name that is not a text")
            return {str.__str__(key): walk(found[key], depth + 1) for key in found}
        if isinstance(found, (list, tuple)):
            return [walk(entry, depth + 1) for entry in found]
        raise Unreadable("", f"{shown(found)}, which is no plain value")

    return walk(value, 0)
