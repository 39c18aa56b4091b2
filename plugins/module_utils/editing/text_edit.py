# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits of a YAML or JSON text: one document or one item of a list changes, and all other characters stay.

    replace(text, place, value)     another value in the place of a document or an item
    delete(text, place)             no such document or item
    append(text, value)             one more document
    remove_key(text, place, key)    no such key of a mapping

Each of them reads its result again. Where the documents are not those that the edit should give, it raises EditRefused.
So it does where an alias or a tag would change its meaning.
"""

from __future__ import annotations

import re
import typing as t

from ..base.document_limits import BeyondLimits
from .text_nodes import BREAKS, EditRefused, TextDocument, TextNode, parse, same, values
from .text_style import block, brackets, json_lines, style_of

_REST_OF_LINE = re.compile(rf"[ \t]*(?:#[^{BREAKS}]*)?(?=[{BREAKS}]|\Z)")
_BREAK = re.compile(rf"\r\n|[{BREAKS}]")
_EMPTY_LINES = re.compile(rf"(?:[ \t]*(?:\r\n|[{BREAKS}]))*")

Step = t.Union[str, int]


class TextPlace(t.NamedTuple):
    """A place in a text: a document, counted from 0 with empty ones, and the path of an item in it, () for all of it.

    ("items", 2) is the third item of the list `items`.
    """

    document: int
    path: tuple[Step, ...] = ()


def replace(text: str, place: TextPlace, value: t.Any, is_json: bool = False) -> str:
    """Return the text with `value` in the place of a document or an item of a list.

    Comments inside it go, and on the line of its end. Raise EditRefused for an empty document and for another place.
    """
    documents = parse(text, is_json)
    node, above = _found(documents, place)
    if node.start == node.end:
        raise EditRefused(f"line {line_of(text, node.start)} is empty")
    _refuse_shared(text, documents[place.document], node, replaced=True)
    in_brackets = above is not None and above.flow
    end = node.end if in_brackets or is_json else _line_end(text, node)
    new = _written(text, documents, node, value, is_json, in_brackets)
    before = text[: node.start]
    if node.column and above is None and not new.startswith(("{", "[")) and before.rstrip(" \t").endswith("---"):
        before = before.rstrip(" \t") + style_of(text, documents).line_end
        new = block(value, style_of(text, documents, node), 0)
    elif before.endswith("-"):
        before += " "
    return _checked(f"{before}{new}{text[end:]}", _with(values(text, is_json), place, value), is_json)


def delete(text: str, place: TextPlace, is_json: bool = False) -> str:
    """Return the text without a document or an item of a list.

    Comments inside it go, and those between the marker --- and a document. Comments behind it stay. A list without
    items is written [].
    """
    documents = parse(text, is_json)
    node, above = _found(documents, place)
    document = documents[place.document]
    if above is None:
        start, end = _extent(text, document)
        after = text[:start] + text[end:]
    else:
        _refuse_shared(text, document, node, replaced=False)
        after = _without_item(text, documents, node, above)
    return _checked(after, _without(values(text, is_json), place), is_json)


def remove_key(text: str, place: TextPlace, key: str, is_json: bool = False) -> str:
    """Return the text without a key of the mapping at a place, which is a document or anywhere in it, and its value.

    Comments inside the value go, and on the line of its end. A mapping without keys is written {}.
    """
    documents = parse(text, is_json)
    node: t.Optional[TextNode] = documents[place.document].root
    for step in place.path:
        node = node.child(step) if node is not None else None
    value = node.child(key) if node is not None else None
    if node is None or value is None:
        raise EditRefused(f"{key} is not written out in it")
    _refuse_shared(text, documents[place.document], value, replaced=False)
    after = _without_pair(text, documents, node, node.children.index(value) - 1)
    found = values(text, is_json)
    inner: t.Any = found[place.document]
    for step in place.path:
        inner = inner[step]
    rest = {name: one for name, one in inner.items() if name != key}
    return _checked(after, _with(found, place, rest), is_json)


def append(text: str, value: t.Any, is_json: bool = False) -> str:
    """Return the text with one more document at its end, behind a line ---. JSON has one document alone."""
    documents = parse(text, is_json)
    style = style_of(text, documents)
    if is_json:
        if documents:
            raise EditRefused("a file of JSON has one document")
        return _checked(text.rstrip() + json_lines(value, "  ", "", "\n") + "\n", [value], True)
    separator = "" if not text or text[-1] in BREAKS else style.line_end
    new = f"{separator}---{style.line_end}{block(value, style, 0)}{style.line_end}"
    return _checked(text + new, [*values(text, False), value], False)


def line_of(text: str, index: int) -> int:
    """Return the number of the line, counted from 1, with the character at `index`."""
    return len(_BREAK.findall(text, 0, index)) + 1


def _found(documents: t.Sequence[TextDocument], place: TextPlace) -> tuple[TextNode, t.Optional[TextNode]]:
    """Return the node at a place and the list that it is an item of, None for a document."""
    if not 0 <= place.document < len(documents):
        raise EditRefused(f"it has no document {place.document + 1}")
    node: t.Optional[TextNode] = documents[place.document].root
    above = None
    for step in place.path:
        above = node
        node = node.child(step) if node is not None else None
    if node is None or (above is not None and above.kind != "list"):
        raise EditRefused("the list is not written out in it")
    return node, above


def _refuse_shared(text: str, document: TextDocument, node: TextNode, replaced: bool) -> None:
    """Raise EditRefused if the document shares a part of `node` by an anchor, or if a tag or alias in it would go."""
    inside = list(node.within())
    own = {id(one) for one in inside}
    anchors: set[str] = set()
    for one in inside:
        line = line_of(text, one.start)
        if replaced and one.tag is not None:
            raise EditRefused(f"line {line} has the tag {one.tag}")
        if replaced and one.kind == "alias" and one.name not in anchors:
            raise EditRefused(f"line {line} has the alias *{one.name}, which stands for a value elsewhere")
        if one.anchor is not None:
            anchors.add(one.anchor)
    for one in document.root.within():
        if one.kind == "alias" and one.name in anchors and id(one) not in own and one.start > node.start:
            line = line_of(text, one.start)
            raise EditRefused(f"it defines the anchor &{one.name}, which line {line} uses")


def _written(
    text: str, documents: t.Sequence[TextDocument], node: TextNode, value: t.Any, is_json: bool, in_brackets: bool
) -> str:
    """Return the text of `value` in the style of the node that it replaces; raise EditRefused if it has none."""
    style = style_of(text, documents, node)
    content = text[node.start : node.end]
    try:
        if is_json or (node.flow and _is_json(content)):
            return json_lines(value, *_json_style(text, node), style.line_end)
        if in_brackets or (node.flow and not _BREAK.search(content)):
            return brackets(value)
        return block(value, style, node.column)
    except (TypeError, ValueError) as error:
        raise EditRefused(f"a value has no form there: {error}") from error


def _is_json(content: str) -> bool:
    try:
        return bool(values(content, True))
    except EditRefused:
        return False


def _json_style(text: str, node: TextNode) -> tuple[str, str]:
    """Return (indentation of one level, beginning of the lines) of a node of JSON; the first is "" for one line."""
    line_start = max((text.rfind(end, 0, node.start) for end in BREAKS), default=-1) + 1
    line = text[line_start : node.start].removeprefix("\ufeff")
    before = line[: len(line) - len(line.lstrip(" \t"))]
    inner = re.match(rf"[{{[][ \t]*(?:\r\n|[{BREAKS}])([ \t]*)", text[node.start : node.end])
    if inner is None:
        return "", before
    step = inner.group(1).removeprefix(before)
    return step or "  ", before


def _line_end(text: str, node: TextNode) -> int:
    """Return the index of the end of the node's last line, if only a comment follows there, else that of the node."""
    rest = _REST_OF_LINE.match(text, node.end)
    return rest.end() if rest else node.end


def _extent(text: str, document: TextDocument) -> tuple[int, int]:
    """Return where a document begins, its marker included, and the index behind it and the empty lines after it."""
    root = document.root
    start = document.start if document.explicit else root.start - root.column
    end = document.finish if document.finish >= 0 else max(_line_end(text, root), document.start + 3)
    if document.finish < 0 and root.start == root.end:
        end = max(end, root.end)
    empty = _EMPTY_LINES.match(text, end)
    return start, empty.end() if empty else end


def _without_item(text: str, documents: t.Sequence[TextDocument], node: TextNode, above: TextNode) -> str:
    position = above.children.index(node)
    if len(above.children) == 1:
        return text[: above.start] + "[]" + text[above.end :] if above.flow else _emptied(text, documents, above)
    if above.flow:
        if position + 1 < len(above.children):
            return text[: node.start] + text[above.children[position + 1].start :]
        return text[: above.children[position - 1].end] + text[node.end :]
    end = _line_end(text, node)
    if text[node.dash - above.column : node.dash].strip(" "):
        # Another dash or a key is on the line of this one, so the next item takes its place there.
        following = above.children[position + 1] if position + 1 < len(above.children) else None
        if following is None:
            raise EditRefused(f"line {line_of(text, node.start)} holds another list's item, too")
        return text[: node.dash] + text[following.dash :]
    broken = _BREAK.match(text, end)
    return text[: node.dash - above.column] + text[broken.end() if broken else end :]


def _without_pair(text: str, documents: t.Sequence[TextDocument], node: TextNode, position: int) -> str:
    """Return the text without the key at a position among the children of a mapping, and its value."""
    key, value = node.children[position : position + 2]
    following = node.children[position + 2] if position + 2 < len(node.children) else None
    if len(node.children) == 2:
        return f"{text[: node.start]}{{}}{text[node.end :]}" if node.flow else _emptied(text, documents, node, "{}")
    if node.flow:
        if following is not None:
            return text[: key.start] + text[following.start :]
        return text[: node.children[position - 1].end] + text[value.end :]
    end = _line_end(text, value)
    if text[key.start - key.column : key.start].strip(" "):
        if following is None:
            raise EditRefused(f"line {line_of(text, key.start)} holds something else, too")
        return text[: key.start] + text[following.start :]
    broken = _BREAK.match(text, end)
    return text[: key.start - key.column] + text[broken.end() if broken else end :]


def _emptied(text: str, documents: t.Sequence[TextDocument], node: TextNode, nothing: str = "[]") -> str:
    """Return the text in which [] or {} replaces `node`, a block list or mapping that has one item."""
    end = _line_end(text, node)
    for document in documents:
        for one in document.root.within():
            if one.kind == "mapping" and any(value is node for value in one.children[1::2]):
                key = one.children[[value is node for value in one.children].index(True) - 1]
                colon = text.find(":", key.end) + 1
                broken = _BREAK.match(text, end)
                rest = text[broken.end() if broken else end :]
                return f"{text[:colon]} {nothing}{text[colon : node.start - node.column]}{rest}"
    return f"{text[: node.start]}{nothing}{text[end:]}"


def _with(found: list[t.Any], place: TextPlace, value: t.Any) -> list[t.Any]:
    """Return a copy of the documents with `value` at a place."""

    def changed(inner: t.Any, path: t.Sequence[Step]) -> t.Any:
        if not path:
            return value
        copy: t.Any = dict(inner) if isinstance(inner, dict) else list(inner)
        copy[path[0]] = changed(inner[path[0]], path[1:])
        return copy

    copy: list[t.Any] = changed(found, (place.document, *place.path))
    return copy


def _without(found: list[t.Any], place: TextPlace) -> list[t.Any]:
    path = (place.document, *place.path)
    inner: t.Any = found
    for step in path[:-1]:
        inner = inner[step]
    rest = [item for index, item in enumerate(inner) if index != path[-1]]
    return _with(found, TextPlace(place.document, place.path[:-1]), rest) if place.path else rest


def _checked(after: str, wanted: list[t.Any], is_json: bool) -> str:
    """Return the text if its documents are those wanted, else raise EditRefused."""
    try:
        found = values(after, is_json)
    except (EditRefused, BeyondLimits):
        found = None
    if found is None or not same(found, wanted):
        raise EditRefused("it is not written so that this part of it can be changed alone")
    return after
