# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits for YAML and JSON documents, so that the time to read one grows linearly with its size.

A document of a few kilobytes can expand to gigabytes by its aliases, or exhaust the reader's stack by its nesting.
`check_yaml` finds both, and `read_json` the nesting, before any value is built from the text. `check_value` checks
values that are already built.
"""

from __future__ import annotations

import collections
import json
import re
import typing as t
from collections import abc

_MIB = 1024 * 1024


class DocumentLimits(t.NamedTuple):
    """The greatest size, number of values and depth of one text.

    `size` is in bytes of UTF-8. `values` is the number of scalars, mappings and lists, where those behind an alias
    count each time; keys count in YAML text only. `depth` is the number of mappings and lists inside each other.
    """

    size: int
    values: int
    depth: int


#: The limits RESOURCES are for resources and variables that hold them, LOCKFILE for the lockfile of a large fleet.
RESOURCES = DocumentLimits(10 * _MIB, 1_000_000, 64)
LOCKFILE = DocumentLimits(64 * _MIB, 10_000_000, 64)

#: The most characters of a number in a document. YAML reads 1:1:1... as a number to the base 60, in quadratic time.
_DIGITS = 64
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

#: Strings, and opening and closing brackets of JSON. A string without a closing quote extends to the end of the text.
_JSON_TOKEN = re.compile(r'"(?:[^"\\]+|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


class BeyondLimits(ValueError):
    """A document that exceeds a limit, has too long a number or a repeated key, breaks a format's rule, or is no file.

    `rule` says what is wrong, as a sentence without its subject, and `remedy` how to go on. `line` counts from 1, and
    is None where it is not known.
    """

    def __init__(self, rule: str, remedy: str, line: t.Optional[int] = None) -> None:
        super().__init__(f"{rule} {remedy}")
        self.rule = rule
        self.remedy = remedy
        self.line = line


def too_large(limits: DocumentLimits) -> BeyondLimits:
    """Return, not raise, the error for a document of more than `limits.size`, which it states in MiB, rounded down."""
    return BeyondLimits(f"is larger than {limits.size // _MIB} MiB.", "Split it into several files.")


def too_deep(limits: DocumentLimits, line: t.Optional[int] = None) -> BeyondLimits:
    """Return, not raise, the error for a document with more than `limits.depth` levels; `line` counts from 1."""
    rule = f"is nested deeper than {limits.depth} levels."
    return BeyondLimits(rule, "No resource needs more than about ten: write it flat.", line)


def too_many(limits: DocumentLimits, line: t.Optional[int] = None) -> BeyondLimits:
    """Return, not raise, the error for a document with more than `limits.values` values; `line` counts from 1."""
    rule = f"has more than {limits.values:,} values, those of its aliases counted each time."
    return BeyondLimits(rule, "Split it into several files, and write out what its aliases stand for.", line)


def _check_size(text: str, limits: DocumentLimits) -> None:
    # A text that has too many characters is not encoded, because that takes memory; it has too many bytes, too.
    if len(text) > limits.size or len(text.encode("utf-8", "surrogatepass")) > limits.size:
        raise too_large(limits)


def check_yaml(text: str, loader: t.Any, limits: DocumentLimits = RESOURCES) -> None:
    """Check all YAML documents in `text` together against `limits` without building their values.

    Parameters and errors are those of `checked_events`. Repeated keys, aliases without an anchor and unknown tags are
    not noticed.
    """
    collections.deque(checked_events(text, loader, limits), maxlen=0)


def checked_events(text: str, loader: t.Any, limits: DocumentLimits = RESOURCES) -> t.Iterator[t.Any]:
    """Yield the events of PyYAML's parser for `text`, each after all before it are known to be within `limits`.

    `loader` is the PyYAML loader class that will load the documents. Raise BeyondLimits if a limit is exceeded, a
    number (unquoted, or tagged !!int or !!float) has more than 64 characters, or a collection contains an alias of
    itself. Raise yaml.YAMLError if the text is not YAML; PyYAML's own scanner may also raise OverflowError or
    ValueError, as for the escape UFFFFFFFF.
    """
    from yaml import events, nodes

    scalar, begins = events.ScalarEvent, (events.MappingStartEvent, events.SequenceStartEvent)
    ends = (events.MappingEndEvent, events.SequenceEndEvent)
    _check_size(text, limits)
    walk = _Walk(limits)
    parser = loader(text)
    try:
        while parser.check_event():
            event = parser.get_event()
            kind = type(event)
            if kind is scalar:
                if len(event.value) > _DIGITS:
                    tag = event.tag or parser.resolve(nodes.ScalarNode, event.value, event.implicit)
                    if tag in _NUMBER_TAGS:
                        raise _long_number(len(event.value), event.start_mark.line + 1)
                walk.scalar(event)
            elif kind in ends:
                walk.end()
            elif kind in begins:
                walk.begin(event)
            elif kind is events.AliasEvent:
                walk.alias(event)
            elif kind is events.DocumentStartEvent:
                walk.anchors.clear()
            yield event
    finally:
        parser.dispose()


def _long_number(characters: int, line: t.Optional[int] = None) -> BeyondLimits:
    rule = f"has a number of {characters:,} characters, and {_DIGITS} are the most."
    return BeyondLimits(rule, "Write it in quotes if it is text.", line)


class _Size(t.NamedTuple):
    values: int
    depth: int


class _Walk:
    """A count of the values and levels in a text, where an alias counts as much as the value it stands for.

    Methods take PyYAML's events, and raise BeyondLimits if a limit is exceeded.
    """

    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits
        self._total = 0
        #: For each open collection: [its anchor, the total of values before it, the depth of its content].
        self._open: list[list[t.Any]] = []
        #: The size of the value of each anchor in this document, None for a collection that is still open.
        self.anchors: dict[str, t.Optional[_Size]] = {}

    def scalar(self, event: t.Any) -> None:
        self._total += 1
        if self._total > self._limits.values:
            raise too_many(self._limits, event.start_mark.line + 1)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Size(1, 0)

    def alias(self, event: t.Any) -> None:
        """Count the value behind an alias, which must not contain it.

        An alias without an anchor counts as one value: the loader reports it later.
        """
        size, line = self.anchors.get(event.anchor, _Size(1, 0)), event.start_mark.line + 1
        if size is None:
            raise BeyondLimits(f"has alias *{event.anchor} inside of what it stands for.", "Write it out.", line)
        self._add(size, line)

    def begin(self, event: t.Any) -> None:
        """Count a mapping or list and open it."""
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self._open.append([event.anchor, self._total, 0])
        self._add(_Size(1, 0), event.start_mark.line + 1)

    def end(self) -> None:
        """Close the innermost open mapping or list, and record its size for aliases if it has an anchor."""
        anchor, before, below = self._open.pop()
        if self._open and self._open[-1][2] <= below:
            self._open[-1][2] = below + 1
        if anchor is not None:
            self.anchors[anchor] = _Size(self._total - before, below + 1)

    def _add(self, size: _Size, line: int) -> None:
        self._total += size.values
        if self._total > self._limits.values:
            raise too_many(self._limits, line)
        if len(self._open) + size.depth > self._limits.depth:
            raise too_deep(self._limits, line)
        if self._open:
            self._open[-1][2] = max(self._open[-1][2], size.depth)


def read_json(text: str, limits: DocumentLimits = RESOURCES) -> t.Any:
    """Return the value of the JSON document `text`.

    Raise BeyondLimits if one of `limits` is exceeded, a number has more than 64 characters, a key is repeated within an
    object, or a value is written NaN, Infinity or -Infinity. A number too great for a float, such as 1e999, becomes
    infinite. Keys are not counted as values. Raise json.JSONDecodeError if the text is not JSON.
    """
    _check_size(text, limits)
    depth = 0
    for token in _JSON_TOKEN.finditer(text):
        first = text[token.start()]
        if first != '"':
            depth += 1 if first in "[{" else -1
            if depth > limits.depth:
                raise too_deep(limits, text.count("\n", 0, token.start()) + 1)
    value = json.loads(
        text, parse_int=_integer, parse_float=_float, parse_constant=_no_number, object_pairs_hook=_without_repetition
    )
    check_value(value, limits)
    return value


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise _long_number(len(digits))
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > _DIGITS:
        raise _long_number(len(digits))
    return float(digits)


def _no_number(name: str) -> t.NoReturn:
    raise BeyondLimits(f"has {name}, which JSON has not.", "Write a number.")


def _without_repetition(pairs: list[tuple[str, t.Any]]) -> dict[str, t.Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, dummy in pairs:
            if key in seen:
                raise repeated(key)
            seen.add(key)
    return found


def repeated(key: str, line: t.Optional[int] = None) -> BeyondLimits:
    """Return, not raise, the error for a mapping that has `key` twice; `line` counts from 1."""
    shown = key if len(key) <= 80 and key.isprintable() else f"{key[:60]!r}..."
    return BeyondLimits(f"has key {shown} twice.", "Remove one of them.", line)


def check_value(value: t.Any, limits: DocumentLimits = RESOURCES) -> None:
    """Raise BeyondLimits if a value that is already built has more values or levels than `limits` allow.

    An object that occurs in several places, as YAML's aliases do, counts each time. Keys do not count, and an empty
    mapping or list is no level.
    """
    left = limits.values
    level: list[t.Any] = [value]
    for dummy in range(limits.depth + 1):
        left -= len(level)
        below: list[t.Any] = []
        for item in level:
            is_mapping = isinstance(item, abc.Mapping)
            if is_mapping or isinstance(item, (list, tuple)):
                below.extend(item.values() if is_mapping else item)
                if len(below) > left:
                    raise too_many(limits)
        if not below:
            return
        level = below
    raise too_deep(limits)
