# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of plain values in a node's answer: each returns what it read, of the type and size that it promises.

    NAMES = items(text())
    NAMES(["a", "b"])      # ["a", "b"]
    NAMES("ab")            # Unreadable: "" is 'ab', not a list of at most 131072

Every reader takes lists and tables of Ansible's own, and returns the builtin types.
"""

from __future__ import annotations

import math
import typing as t

from ...state.answers import limits
from ...state.answers.left_out import shown

Reader = t.Callable[[t.Any], t.Any]


class Unreadable(ValueError):
    """A value that is not what it has to be: `place` in the answer (`targets[3].lost`), and `why`, a clause."""

    def __init__(self, place: str, why: str) -> None:
        self.place = place
        self.why = why
        super().__init__(place, why)

    def __str__(self) -> str:
        return f"{self.place or 'it'} is {self.why}"

    def inside(self, outer: str) -> Unreadable:
        """Return the same, seen from one container further out."""
        glue = "." if self.place and not self.place.startswith("[") else ""
        return Unreadable(f"{outer}{glue}{self.place}", self.why)


def _refuse(value: t.Any, wanted: str) -> t.NoReturn:
    raise Unreadable("", f"{shown(value)}, not {wanted}")


def text(most: int = limits.TEXT) -> Reader:
    """Return a reader of texts of at most that many characters."""

    def read(value: t.Any) -> str:
        if not isinstance(value, str) or len(value) > most:
            _refuse(value, f"a text of at most {most} characters")
        return str.__str__(value)

    return read


def one_of(*words: str) -> Reader:
    """Return a reader of one of these words."""

    def read(value: t.Any) -> str:
        if not isinstance(value, str) or value not in words:
            _refuse(value, f"one of {', '.join(words)}")
        return str.__str__(value)

    return read


def whole(least: int = 0, most: int = 2**53) -> Reader:
    """Return a reader of whole numbers."""

    def read(value: t.Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            _refuse(value, f"a whole number from {least} to {most}")
        return int.__int__(value)

    return read


def number(least: float = 0.0, most: float = 1e12) -> Reader:
    """Return a reader of finite numbers."""

    def read(value: t.Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            _refuse(value, f"a number from {least:g} to {most:g}")
        return float(value)

    return read


def flag(value: t.Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        _refuse(value, "true or false")
    return value


def maybe(reader: Reader) -> Reader:
    """Return a reader of what `reader` reads, or null."""
    return lambda value: None if value is None else reader(value)


def items(reader: Reader, most: int = limits.ENTRIES) -> Reader:
    """Return a reader of lists of at most that many."""

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
    """Return a reader of tables of at most that many entries, whose keys are texts."""
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
    """Return a reader of tables with these fields, and the optional ones. Others are left out of what it returns."""
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
    """Return `value`, whatever it is made of, as builtin types; bounded in depth and in how much it has in all.

    For answers that another reader takes apart: nothing that walks through what this returns can recurse too deep or
    meet a number that is none. Raises Unreadable.
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
