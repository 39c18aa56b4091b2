# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds for YAML and JSON documents, so that reading one takes time in proportion to its size.

A document of a few kilobytes can stand for gigabytes by its aliases, or exhaust the reader's stack by its nesting.
Both are found here while the text is parsed, before anything is built from it.
"""

from __future__ import annotations

import json
import re
import typing as t

_MIB = 1024 * 1024


class DocumentLimits(t.NamedTuple):
    """`size` is in bytes. `values` counts keys, scalars, mappings and lists, those of aliases each time."""

    size: int
    values: int
    depth: int


#: For resources and for variables that hold them, and for the lockfile of a large fleet.
RESOURCES = DocumentLimits(10 * _MIB, 1_000_000, 64)
LOCKFILE = DocumentLimits(64 * _MIB, 10_000_000, 64)

#: Characters of a number. YAML reads 1:1:1... as a number to the base 60, in quadratic time.
_DIGITS = 64
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

#: What counts for nesting in JSON. A string that has no end reaches to the end of the text.
_JSON_TOKEN = re.compile(r'"(?:[^"\\]+|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


class BeyondLimits(ValueError):
    """A document that is not read. `rule` says why, `remedy` how to go on; `line` is None where it is not known."""

    def __init__(self, rule: str, remedy: str, line: t.Optional[int] = None) -> None:
        super().__init__(f"{rule} {remedy}")
        self.rule = rule
        self.remedy = remedy
        self.line = line


def too_large(limits: DocumentLimits) -> BeyondLimits:
    return BeyondLimits(f"is larger than {limits.size // _MIB} MiB.", "Split it into several files.")


def too_deep(limits: DocumentLimits, line: t.Optional[int] = None) -> BeyondLimits:
    rule = f"is nested deeper than {limits.depth} levels."
    return BeyondLimits(rule, "No resource needs more than about ten: write it flat.", line)


def too_many(limits: DocumentLimits, line: t.Optional[int] = None) -> BeyondLimits:
    rule = f"has more than {limits.values:,} values, those of its aliases counted each time."
    return BeyondLimits(rule, "Split it into several files, and write out what its aliases stand for.", line)


def check_yaml(text: str, loader: t.Any, limits: DocumentLimits = RESOURCES) -> None:
    """Check the documents in `text` without building them. `loader` is the class that is to load them.

    Raises BeyondLimits, and yaml.YAMLError as the loader does.
    """
    import yaml

    if len(text) > limits.size:
        raise too_large(limits)
    walk = _Walk(limits)
    parser = loader(text)
    try:
        while parser.check_event():
            event = parser.get_event()
            line = event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent):
                walk.alias(str(event.anchor), line)
            elif isinstance(event, yaml.ScalarEvent):
                if len(event.value) > _DIGITS:
                    tag = event.tag or parser.resolve(yaml.ScalarNode, event.value, event.implicit)
                    if tag in _NUMBER_TAGS:
                        raise _long_number(len(event.value), line)
                walk.scalar(event.anchor, line)
            elif isinstance(event, yaml.CollectionStartEvent):
                walk.begin(event.anchor, line)
            elif isinstance(event, yaml.CollectionEndEvent):
                walk.end()
            elif isinstance(event, yaml.DocumentStartEvent):
                walk.anchors.clear()
    finally:
        parser.dispose()


def _long_number(characters: int, line: t.Optional[int] = None) -> BeyondLimits:
    rule = f"has a number of {characters:,} characters, and {_DIGITS} are the most."
    return BeyondLimits(rule, "Write it in quotes if it is text.", line)


class _Size(t.NamedTuple):
    values: int
    depth: int


class _Walk:
    """How much the values of a document are, and how deep, with everything that aliases stand for."""

    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits
        self._total = 0
        #: The collections that are open: [their anchor, the total before them, the depth below them].
        self._open: list[list[t.Any]] = []
        #: None for a collection that is still open.
        self.anchors: dict[str, t.Optional[_Size]] = {}

    def scalar(self, anchor: t.Optional[str], line: int) -> None:
        self._add(_Size(1, 0), line)
        if anchor is not None:
            self.anchors[anchor] = _Size(1, 0)

    def alias(self, anchor: str, line: int) -> None:
        """Add what an alias stands for. One that has no anchor is left to the loader, which says so."""
        size = self.anchors.get(anchor, _Size(1, 0))
        if size is None:
            raise BeyondLimits(f"has alias *{anchor} inside of what it stands for.", "Write it out.", line)
        self._add(size, line)

    def begin(self, anchor: t.Optional[str], line: int) -> None:
        if anchor is not None:
            self.anchors[anchor] = None
        self._open.append([anchor, self._total, 0])
        self._add(_Size(1, 0), line)

    def end(self) -> None:
        anchor, before, below = self._open.pop()
        size = _Size(self._total - before, below + 1)
        if self._open:
            self._open[-1][2] = max(self._open[-1][2], size.depth)
        if anchor is not None:
            self.anchors[anchor] = size

    def _add(self, size: _Size, line: int) -> None:
        self._total += size.values
        if self._total > self._limits.values:
            raise too_many(self._limits, line)
        if len(self._open) + size.depth > self._limits.depth:
            raise too_deep(self._limits, line)
        if self._open:
            self._open[-1][2] = max(self._open[-1][2], size.depth)


def read_json(text: str, limits: DocumentLimits = RESOURCES) -> t.Any:
    """Return the value in `text`. Raises BeyondLimits and json.JSONDecodeError."""
    if len(text) > limits.size:
        raise too_large(limits)
    depth = 0
    for token in _JSON_TOKEN.finditer(text):
        first = text[token.start()]
        if first != '"':
            depth += 1 if first in "[{" else -1
            if depth > limits.depth:
                raise too_deep(limits, text.count("\n", 0, token.start()) + 1)
    return json.loads(
        text, parse_int=_integer, parse_float=_float, parse_constant=_no_number, object_pairs_hook=_without_repetition
    )


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
    shown = key if len(key) <= 80 and key.isprintable() else f"{key[:60]!r}..."
    return BeyondLimits(f"has key {shown} twice.", "Remove one of them.", line)


def check_value(value: t.Any, limits: DocumentLimits = RESOURCES) -> None:
    """Check a value that is built already, in which aliases are one object in several places. Raises BeyondLimits."""
    left = limits.values
    level: list[t.Any] = [value]
    for dummy in range(limits.depth + 1):
        left -= len(level)
        below: list[t.Any] = []
        for item in level:
            inner = item.values() if isinstance(item, t.Mapping) else item
            if isinstance(item, (t.Mapping, list, tuple)):
                below.extend(inner)
                if len(below) > left:
                    raise too_many(limits)
        if not below:
            return
        level = below
    raise too_deep(limits)
