# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of files after a planned change: each document where it is written, a new one in a file of its own."""

from __future__ import annotations

import hashlib
import re
import typing as t

from ...resources import api as resources
from .. import text_edit
from ..text_edit import TextPlace
from ..text_nodes import EditRefused, parse, values
from .change_plan import PlannedChange
from .resource_key import ResourceKey, key_in

_NO_DOCUMENT = re.compile(r"(?:\s|\ufeff|^---[ \t]*$|^\.\.\.[ \t]*$)*", re.MULTILINE)
#: The most characters of a file's name before its ending.
_NAME_LIMIT = 200


class CannotWrite(Exception):
    """The error for a file in which a change cannot be made; the message names the file and says why."""


def changed_texts(
    changes: t.Iterable[PlannedChange], texts: t.Mapping[str, t.Optional[str]], folder: str
) -> dict[str, t.Optional[str]]:
    """Return the texts of the files that change, None for one that goes because its last document goes.

    `texts` has the text of each file that a change names and of the files of `new_file`, None for a missing one. New
    documents go to `folder`, "" if there is none. Raise CannotWrite if a document cannot be edited alone.
    """
    found: dict[str, t.Optional[str]] = {}
    for change in changes:
        if not change.is_written:
            continue
        path = change.file or new_file(folder, change.key)
        before = found.get(path, texts[path])
        try:
            found[path] = _changed(before, change, path)
        except EditRefused as error:
            where = f"{path}: {change.key}" if change.file else path
            raise CannotWrite(f"{where} cannot be changed: {error}. Edit the file by hand.") from error
    return {path: text for path, text in found.items() if text != texts[path]}


def new_file(folder: str, key: ResourceKey) -> str:
    """Return the file for a new resource: FOLDER/ippool/NAME.yml, with NAMESPACE. before a name in another namespace.

    A name that is too long for a file is cut, and ends in a digest of it.
    """
    name = key.name
    if key.namespace and key.namespace != resources.DEFAULT_NAMESPACE:
        name = f"{key.namespace}.{name}"
    name = name.replace("/", "_")
    if len(name) > _NAME_LIMIT:
        name = f"{name[:_NAME_LIMIT]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return f"{folder}/{key.kind.lower()}/{name}.yml"


def place_of(text: str, key: ResourceKey, is_json: bool) -> TextPlace:
    """Return where a resource is written in a text: a document, or an item of a list document or of an array.

    Raise EditRefused if it is not there or twice.
    """
    found = [place for place, content in _contents(values(text, is_json)) if key_in(content) == key]
    if len(found) != 1:
        raise EditRefused("it is not written in it" if not found else "it is written in it twice")
    return found[0]


def _contents(documents: t.Sequence[t.Any]) -> t.Iterator[tuple[TextPlace, t.Any]]:
    """Yield what the reader of resources takes as documents, each with its place: an array may have lists as items."""
    for index, document in enumerate(documents):
        if isinstance(document, list):
            for position, item in enumerate(document):
                yield from _items(TextPlace(index, (position,)), item)
        else:
            yield from _items(TextPlace(index), document)


def _items(place: TextPlace, document: t.Any) -> t.Iterator[tuple[TextPlace, t.Any]]:
    items = document.get("items") if isinstance(document, dict) and str(document.get("kind")).endswith("List") else None
    if isinstance(items, list):
        for position, item in enumerate(items):
            yield TextPlace(place.document, (*place.path, "items", position)), item
    else:
        yield place, document


def _with_empty_lists(text: str, place: TextPlace, is_json: bool) -> TextPlace:
    """Return the place of what goes with a document: the lists that have nothing else, or the document itself."""
    root = parse(text, is_json)[place.document].root
    path = place.path
    while path:
        node = root
        for step in path[:-1]:
            node = node.child(step) or node
        if len(node.children) != 1:
            break
        path = path[:-1]
        if path and path[-1] == "items":
            path = path[:-1]
    return TextPlace(place.document, path)


def _changed(before: t.Optional[str], change: PlannedChange, path: str) -> t.Optional[str]:
    is_json = path.endswith(".json")
    if not change.file:
        return text_edit.append(before or "", change.document, is_json)
    text = before or ""
    place = place_of(text, change.key, is_json)
    if change.document is not None:
        return text_edit.replace(text, place, change.document, is_json)
    after = text_edit.delete(text, _with_empty_lists(text, place, is_json), is_json)
    return None if _NO_DOCUMENT.fullmatch(after) else after
