# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of typed JSON: bytes become a value, and a value one of the right type and size, or an error says why not.

    NODE = table({"name": text(63)}, {"pools": items(text())})
    NODE(parse(b'{"name": "node1"}'))       # {"name": "node1"}
    NODE({"name": "node1", "pools": "p"})   # raises Unreadable: pools is p, not a list of at most 131072
    NODE({"name": "node1", "pool": []})     # raises Unreadable: pool is not known. There are: name, pools

A reader is a function that returns a value or raises Unreadable, with the path of an entry that is refused. It accepts
Ansible's own lists and tables, and returns builtin types. A new one may be added beside its use: it raises Unreadable
with an empty place, by `refuse`.
"""

from __future__ import annotations

import json
import marshal
import math
import typing as t

#: The most characters of one text, if its reader has no other limit.
TEXT = 4_096
#: The most entries of one list or table, if its reader has no other limit.
ENTRIES = 131_072
#: The most levels of nested lists and tables, and the most values, that `plain` accepts. Eight levels are the deepest
#: correct answer of a node.
DEPTH = 32
VALUES = 4_000_000

Reader = t.Callable[[t.Any], t.Any]
_Read = t.TypeVar("_Read")


_KINDS = {"list": "list", "tuple": "list", "dict": "table"}


def shown(value: t.Any) -> str:
    """Return a value as errors show it: at most 80 characters, on one line, no control characters.

    A text is escaped and in quotes if it is empty, has characters that cannot be printed, or begins or ends with a
    space. A whole number of more than 40 digits is only named, and so are lists, tables and other objects.
    """
    if isinstance(value, str):
        text = str.__str__(value[:TEXT])
        if not text or not text.isprintable() or text[0].isspace() or text[-1].isspace():
            text = ascii(text)
    elif value is None or isinstance(value, (bool, float)):
        text = repr(value)
    elif isinstance(value, int):
        text = str(value) if abs(value) < 10**40 else "a very large number"
    else:
        text = f"a {_KINDS.get(type(value).__name__, 'value')}"
    return text if len(text) <= 80 else f"{text[:77]}..."


class Unreadable(ValueError):
    """The error that a value has the wrong type or size.

    `place` is its path in the document (`targets[3].lost`), "" for the document itself. `why` is a clause that
    continues "it is".
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


def refuse(value: t.Any, wanted: str, sized: t.Any = ()) -> t.NoReturn:
    """Raise Unreadable: the value is not what is `wanted`, a noun phrase such as "a text".

    The error says how many entries a value of the types `sized` has.
    """
    size = f" of {len(value)}" if isinstance(value, sized) else ""
    raise Unreadable("", f"{shown(value)}{size}, not {wanted}")


def text(most: int = TEXT, least: int = 0) -> t.Callable[[t.Any], str]:
    """Return a reader of texts of `least` to `most` characters."""

    def read(value: t.Any) -> str:
        if not isinstance(value, str) or not least <= len(value) <= most:
            refuse(
                value, f"a text of {least} to {most} characters" if least else f"a text of at most {most} characters"
            )
        return str.__str__(value)

    return read


def secret(most: int = TEXT) -> t.Callable[[t.Any], str]:
    """Return a reader of texts of at most `most` characters, whose error does not show the value."""

    def read(value: t.Any) -> str:
        if not isinstance(value, str) or len(value) > most:
            raise Unreadable("", f"no text of at most {most} characters")
        return str.__str__(value)

    return read


def matching(pattern: t.Pattern[str], wanted: str) -> t.Callable[[t.Any], str]:
    """Return a reader of texts that `pattern` matches in full; `wanted` says in errors what they are."""

    def read(value: t.Any) -> str:
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            refuse(value, wanted)
        return str.__str__(value)

    return read


def one_of(*words: str) -> t.Callable[[t.Any], str]:
    """Return a reader of texts that are one of `words`."""

    def read(value: t.Any) -> str:
        if not isinstance(value, str) or value not in words:
            refuse(value, f"one of {', '.join(words)}")
        return str.__str__(value)

    return read


def whole(least: int = 0, most: int = 2**53) -> t.Callable[[t.Any], int]:
    """Return a reader of integers, not booleans, from `least` to `most`."""
    wanted = f"a whole number from {least} to {most}" if least < most else f"{least}"

    def read(value: t.Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            refuse(value, wanted)
        return int.__int__(value)

    return read


def number(least: float = 0.0, most: float = 1e12) -> t.Callable[[t.Any], float]:
    """Return a reader of numbers from `least` to `most`, not booleans or NaN, which returns floats."""

    def read(value: t.Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            refuse(value, f"a number from {least:g} to {most:g}")
        return float(value)

    return read


def flag(value: t.Any) -> bool:
    """Return `value` if it is True or False. Otherwise raise Unreadable."""
    if not isinstance(value, bool):
        refuse(value, "true or false")
    return value


@t.overload
def maybe(reader: t.Callable[[t.Any], _Read]) -> t.Callable[[t.Any], t.Optional[_Read]]: ...


@t.overload
def maybe(reader: t.Callable[[t.Any], _Read], default: _Read) -> t.Callable[[t.Any], _Read]: ...


def maybe(reader: t.Callable[[t.Any], t.Any], default: t.Any = None) -> t.Callable[[t.Any], t.Any]:
    """Return a reader that returns `default` for None, and what `reader` reads for any other value."""
    return lambda value: default if value is None else reader(value)


def items(reader: t.Callable[[t.Any], _Read], most: int = ENTRIES, least: int = 0) -> t.Callable[[t.Any], list[_Read]]:
    """Return a reader of lists and tuples of `least` to `most` entries that `reader` reads; it returns a list."""

    def read(value: t.Any) -> list[_Read]:
        if not isinstance(value, (list, tuple)) or not least <= len(value) <= most:
            refuse(value, f"a list of {least} to {most}" if least else f"a list of at most {most}", (list, tuple))
        found = []
        for index, entry in enumerate(value):
            try:
                found.append(reader(entry))
            except Unreadable as error:
                raise error.inside(f"[{index}]") from None
        return found

    return read


def _is_table(value: t.Any) -> bool:
    # The check of a dict's own type is much faster than that of any mapping.
    return value.__class__ is dict or isinstance(value, t.Mapping)


def by_name(
    reader: t.Callable[[t.Any], _Read], most: int = ENTRIES, name: t.Callable[[t.Any], str] = text()
) -> t.Callable[[t.Any], dict[str, _Read]]:
    """Return a reader of tables of at most `most` entries, as a dict: `name` reads the names, `reader` the values."""

    def read(value: t.Any) -> dict[str, _Read]:
        if not _is_table(value) or len(value) > most:
            refuse(value, f"a table of at most {most}", t.Mapping)
        found: dict[str, _Read] = {}
        for key, entry in value.items():
            try:
                found[name(key)] = reader(entry)
            except Unreadable as error:
                raise error.inside(shown(key)) from None
        return found

    return read


def table(
    fields: t.Mapping[str, Reader], optional: t.Optional[t.Mapping[str, Reader]] = None
) -> t.Callable[[t.Any], dict[str, t.Any]]:
    """Return a reader of mappings that have all of `fields`, any of `optional`, and nothing else; it returns a dict.

    `fields` and `optional` map names to readers.
    """
    known = {**fields, **(optional or {})}
    read_known = open_table(fields, optional)

    def read(value: t.Any) -> dict[str, t.Any]:
        found = read_known(value)
        if len(found) != len(value):
            left = next(key for key in value if key not in known)
            raise Unreadable(shown(left), f"not known. There are: {', '.join(known)}" if known else "not known")
        return found

    return read


def open_table(
    fields: t.Mapping[str, Reader], optional: t.Optional[t.Mapping[str, Reader]] = None
) -> t.Callable[[t.Any], dict[str, t.Any]]:
    """Return a reader that differs from `table` in one thing: it ignores and drops what is left over.

    It is for documents to which another release or program may add fields.
    """
    readers = tuple({**fields, **(optional or {})}.items())

    def read(value: t.Any) -> dict[str, t.Any]:
        if not _is_table(value):
            refuse(value, "a table")
        found = {}
        key = ""
        try:
            for key, reader in readers:
                if key in value:
                    found[key] = reader(value[key])
                elif key in fields:
                    raise Unreadable("", "missing")
        except Unreadable as error:
            raise error.inside(key) from None
        return found

    return read


def sparse_table(fields: t.Mapping[str, Reader]) -> t.Callable[[t.Any], dict[str, t.Any]]:
    """Return a reader of tables, like `open_table`, that reads a missing field as None.

    Use it for answers of programs that may leave out null or zero. Its dict has all of `fields`.
    """
    readers = tuple(fields.items())

    def read(value: t.Any) -> dict[str, t.Any]:
        if value.__class__ is not dict and not _is_table(value):
            refuse(value, "a table")
        found = {}
        key = ""
        get = value.get
        try:
            for key, reader in readers:
                found[key] = reader(get(key))
        except Unreadable as error:
            raise error.inside(key) if key in value else Unreadable(key, "missing") from None
        return found

    return read


def maybe_table(fields: t.Mapping[str, Reader]) -> t.Callable[[t.Any], dict[str, t.Any]]:
    """Return a reader of tables, like `sparse_table`, that reads None as a table without entries."""
    reader = sparse_table(fields)
    return lambda value: reader({} if value is None else value)


def anything(value: t.Any) -> t.Any:
    """Return `value`, which another reader examines further."""
    return value


def plain(value: t.Any) -> t.Any:
    """Return a copy of `value` in builtin types: None, booleans, numbers, texts, lists and dicts with text keys.

    It is for answers that another reader examines further. Raise Unreadable for other types, numbers that are not
    finite, more than 32 levels or more than 4,000,000 values.
    """
    left = VALUES

    def walk(found: t.Any, depth: int) -> t.Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise Unreadable("", f"more than {VALUES} values")
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
        if depth >= DEPTH:
            raise Unreadable("", f"a table or list with more than {DEPTH} levels")
        if isinstance(found, t.Mapping):
            for key in found:
                if not isinstance(key, str):
                    raise Unreadable("", "a table with a name that is not a text")
            return {str.__str__(key): walk(found[key], depth + 1) for key in found}
        if isinstance(found, (list, tuple)):
            return [walk(entry, depth + 1) for entry in found]
        raise Unreadable("", f"{shown(found)}, which is not a plain value")

    return walk(value, 0)


class NotJson(ValueError):
    """The error for bytes that are no JSON. Its text says why."""


def parse(data: t.Union[bytes, str], once: bool = True) -> t.Any:
    """Return the value of a JSON document, which bytes have in UTF-8.

    Raise NotJson if it is not JSON, has NaN, Infinity or -Infinity, or is nested too deeply for Python's stack. Raise
    it for a key twice in an object, too; without `once` the last one counts, which takes less time. A number too great
    for a float becomes infinite, which `number` refuses. What the document may cost in memory is up to its size, which
    the caller bounds.
    """
    return _decoded(_ONCE if once else _LAST, data)


def parse_shared(data: t.Union[bytes, str]) -> t.Any:
    """Return the value of a JSON document as `parse` does, in which equal objects are one, which must not be changed.

    A large document with many equal parts, as rules of policies are, so takes a fraction of the memory, and no more
    time. An object with a list of objects is not compared with others.
    """
    known: dict[bytes, dict[str, t.Any]] = {}

    def shared(pairs: list[tuple[str, t.Any]]) -> dict[str, t.Any]:
        found = _once(pairs)
        for value in found.values():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                return found
        # Version 2 writes equal values as equal bytes, and other types as other bytes.
        return known.setdefault(marshal.dumps(pairs, 2), found)

    return _decoded(json.JSONDecoder(object_pairs_hook=shared, parse_constant=_no_number), data)


def _decoded(decoder: json.JSONDecoder, data: t.Union[bytes, str]) -> t.Any:
    try:
        return decoder.decode(data if isinstance(data, str) else data.decode("utf-8"))
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except ValueError as error:
        raise NotJson(str(error)) from None


def parse_table(data: t.Union[bytes, str]) -> dict[str, t.Any]:
    """Return the object that is a JSON document, as `parse` does. Raise NotJson if it is another value, too."""
    found = parse(data)
    if not isinstance(found, dict):
        raise NotJson("it is no JSON object")
    return found


def _no_number(name: str) -> t.NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _once(pairs: list[tuple[str, t.Any]]) -> dict[str, t.Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, dummy in pairs:
            if key in seen:
                raise ValueError(f"an object has the key {shown(key)} twice")
            seen.add(key)
    return found


# Decoders are made once, because making one costs more than a short document.
_ONCE = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)
_LAST = json.JSONDecoder(parse_constant=_no_number)
