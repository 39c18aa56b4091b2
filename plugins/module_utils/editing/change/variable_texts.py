# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of files of variables without entries of lists, or without variables; all other characters stay.

A list without entries is written []: its variable still hides that of another group.
"""

from __future__ import annotations

import json
import re
import typing as t

from ...base.document_limits import BeyondLimits, read_json
from .. import text_edit
from ..text_edit import Step, TextPlace
from ..text_nodes import EditRefused, TextNode, parse, same, values

WHOLE = -1
_TEMPLATE = re.compile(r"\{[{%#]")


class VariableEntry(t.NamedTuple):
    """An entry of a list in a variable, with its value as Ansible has it, and the file and line where it begins.

    `position` counts from 0, and is WHOLE for the variable itself. `file` is "" and `line` 0 where they are not known.
    """

    variable: str
    position: int
    value: t.Any
    file: str = ""
    line: int = 0


class CannotRemove(Exception):
    """The error for an `entry` that cannot be removed from a text; the message says why, without the file's name."""

    def __init__(self, entry: VariableEntry, why: str) -> None:
        super().__init__(why)
        self.entry = entry


def without_entries(text: str, entries: t.Iterable[VariableEntry], is_json: bool) -> str:
    """Return the text of a variables file without these entries of its lists, which are all in it.

    Raise CannotRemove for an entry that is not written there as it is, without templates and tags, and for one that
    cannot be removed alone.
    """
    for entry in sorted(entries, key=lambda one: (one.line, one.position), reverse=True):
        try:
            place = _place(text, entry, is_json)
            if entry.position == WHOLE:
                text = text_edit.remove_key(text, place._replace(path=place.path[:-1]), entry.variable, is_json)
            else:
                text = text_edit.delete(text, place, is_json)
        except (EditRefused, LookupError, TypeError) as error:
            why = str(error) if isinstance(error, EditRefused) else "its keys are no texts"
            raise CannotRemove(entry, why) from error
    return text


def paths_of(text: str, variable: str, is_json: bool) -> list[tuple[Step, ...]]:
    """Return the paths of all values of keys with a variable's name, [] for a text that cannot be read."""
    try:
        return [
            path
            for one in parse(text, is_json)
            for path, nodes in _written(one.root, VariableEntry(variable, WHOLE, None))
        ]
    except EditRefused:
        return []


def _place(text: str, entry: VariableEntry, is_json: bool) -> TextPlace:
    """Return where an entry is written. Raise EditRefused if that is not known, or if it is not written as it is."""
    found = [
        (TextPlace(index, path), node)
        for index, document in enumerate(parse(text, is_json))
        for path, nodes in _written(document.root, entry)
        for node in nodes[-1:]
        if not entry.line or entry.line in [text_edit.line_of(text, one.start) for one in nodes]
    ]
    if len(found) != 1:
        where = f"line {entry.line} of it" if entry.line else "it"
        what = (
            f"{entry.variable},"
            if entry.position == WHOLE
            else f"entry {entry.position + 1} of a list {entry.variable},"
        )
        raise EditRefused(f"{where} has no {what} or several")
    place, node = found[0]
    for inner in node.within():
        line = text_edit.line_of(text, inner.start)
        if inner.tag is not None:
            raise EditRefused(f"line {line} has the tag {inner.tag}")
        if inner.kind == "scalar" and _TEMPLATE.search(inner.name):
            raise EditRefused(f"line {line} is a template")
    if not _has(values(text, is_json)[place.document], place.path, entry.value):
        raise EditRefused(f"line {text_edit.line_of(text, node.start)} is not what Ansible reads there")
    return place


def _written(root: TextNode, entry: VariableEntry) -> t.Iterator[tuple[tuple[Step, ...], list[TextNode]]]:
    """Yield the path of each value that may be the entry, and the nodes that may have its line, the value last."""
    waiting: list[tuple[tuple[Step, ...], TextNode]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        if node.kind == "list":
            waiting.extend(((*path, index), item) for index, item in enumerate(node.children))
        elif node.kind == "mapping":
            for key, value in zip(node.children[::2], node.children[1::2]):
                if key.kind != "scalar":
                    continue
                inner = (*path, key.name)
                waiting.append((inner, value))
                if key.name == entry.variable and entry.position == WHOLE:
                    yield inner, [key, value]
                elif key.name == entry.variable and value.kind == "list":
                    item = value.child(entry.position)
                    if item is not None:
                        yield (*inner, entry.position), [item]


def _has(value: t.Any, path: t.Sequence[Step], wanted: t.Any) -> bool:
    """Return whether a document has the value at a path, as JSON knows values."""
    try:
        for step in path:
            value = value[step]
        return same(read_json(json.dumps(value, default=str)), wanted)
    except (LookupError, TypeError, ValueError, BeyondLimits):
        return False
