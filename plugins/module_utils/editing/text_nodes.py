# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values in a YAML or JSON text with their places in it, as indexes of characters."""

from __future__ import annotations

import functools
import json
import re
import typing as t

from ..base.document_limits import BeyondLimits, check_yaml, read_json

#: The characters that end a line for PyYAML; a carriage return and a line feed together end one line.
BREAKS = "\n\r\x85\u2028\u2029"
_BOM = "\ufeff"
_JSON_TOKEN = re.compile(r'"(?:[^"\\]+|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
#: What PyYAML's constructors raise for values that do not fit their tags.
_FAULTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class EditRefused(Exception):
    """The error for a text that cannot be edited as asked; the message says why, without the file's name."""


class TextNode:
    """One value in a text: its characters begin at `start`, anchor and tag included, and end before `end`.

    `kind` is "mapping", "list", "scalar" or "alias". `column` counts from 0. `name` is the text of a scalar and the
    anchor of an alias. `children` are the items of a list, and the keys and values of a mapping, alternately. `flow` is
    whether it is written in brackets. `dash` is the index of the dash before an item of a block list, -1 for others.
    """

    __slots__ = ("anchor", "children", "column", "dash", "end", "flow", "kind", "name", "start", "tag")

    def __init__(self, kind: str, start: int, end: int, column: int, name: str = "", flow: bool = False) -> None:
        self.kind, self.start, self.end, self.column, self.name, self.flow = kind, start, end, column, name, flow
        self.anchor: t.Optional[str] = None
        self.tag: t.Optional[str] = None
        self.children: list[TextNode] = []
        self.dash = -1

    def within(self) -> t.Iterator[TextNode]:
        """Yield this node and all nodes below it, in the order of the text."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def child(self, step: t.Union[str, int]) -> t.Optional[TextNode]:
        """Return an item by its index or the value of a key, None if there is none or the key is written twice."""
        if isinstance(step, int):
            return self.children[step] if self.kind == "list" and 0 <= step < len(self.children) else None
        if self.kind != "mapping":
            return None
        pairs = zip(self.children[::2], self.children[1::2])
        found = [value for key, value in pairs if key.kind == "scalar" and key.name == step]
        return found[0] if len(found) == 1 else None


class TextDocument(t.NamedTuple):
    """One document of a text: it begins at `start`, with its marker --- if it is `explicit`.

    `finish` is the index behind its marker ... at the end, -1 without one.
    """

    start: int
    explicit: bool
    root: TextNode
    finish: int


def parse(text: str, is_json: bool) -> list[TextDocument]:
    """Return the documents of a text, empty ones included. Raise EditRefused if it is not YAML, or not JSON."""
    return _json_documents(text) if is_json else _yaml_documents(text)


def values(text: str, is_json: bool) -> list[t.Any]:
    """Return the values of a text's documents, None for an empty one. Raise EditRefused as `parse` does.

    A value with a tag that YAML does not define is a pair of the tag and the text or the list of what it contains.
    """
    import yaml

    if is_json:
        try:
            return [read_json(text.removeprefix(_BOM))] if text.removeprefix(_BOM).strip() else []
        except json.JSONDecodeError as error:
            raise EditRefused(f"line {error.lineno} is not JSON: {error.msg}") from error
        except BeyondLimits as error:
            raise EditRefused(f"it {error}") from error
    kind = _value_loader()
    try:
        check_yaml(text, kind)
        return list(yaml.load_all(text, kind))
    except BeyondLimits as error:
        raise EditRefused(f"it {error}") from error
    except (yaml.YAMLError, *_FAULTS) as error:
        raise EditRefused("it cannot be read as plain YAML") from error


@functools.cache
def _value_loader() -> t.Any:
    """Return PyYAML's safe loader class, in C if there is one, that reads a value with an unknown tag as a pair."""
    import yaml

    base: t.Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        pass

    def opaque(loader: t.Any, node: t.Any) -> t.Any:
        if isinstance(node, yaml.ScalarNode):
            return node.tag, loader.construct_scalar(node)
        content = loader.construct_pairs if isinstance(node, yaml.MappingNode) else loader.construct_sequence
        return node.tag, content(node, deep=True)

    Loader.add_constructor(None, opaque)
    return Loader


def same(one: t.Any, other: t.Any) -> bool:
    """Return whether two values are equal with their types: 1, 1.0 and True differ. The order of keys is no matter."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        keys = {(type(key), key): value for key, value in other.items()}
        return len(one) == len(other) and all(
            (type(key), key) in keys and same(value, keys[type(key), key]) for key, value in one.items()
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other) if isinstance(one, float) else bool(one == other)


def _yaml_documents(text: str) -> list[TextDocument]:
    import yaml

    try:
        check_yaml(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return _from_events(text)
    except BeyondLimits as error:
        raise EditRefused(f"it {error}") from error
    except (yaml.YAMLError, *_FAULTS) as error:
        raise EditRefused("it cannot be read as plain YAML") from error


@functools.cache
def _event_loader() -> t.Any:
    """Return the class of a parser that records as `dash` where the last dash of a list is that it has read.

    It skips tabs before comments and values where PyYAML's parser in C does, which reads the resources.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        dash = -1

        def scan_to_next_token(self) -> None:
            super().scan_to_next_token()
            while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
                self.forward()
                super().scan_to_next_token()

        def get_token(self) -> t.Any:
            token: t.Any = super().get_token()  # type: ignore[no-untyped-call]
            if isinstance(token, yaml.BlockEntryToken):
                self.dash = token.start_mark.index
            return token

    return Loader


def _from_events(text: str) -> list[TextDocument]:
    import yaml

    loader = _event_loader()(text)
    found: list[TextDocument] = []
    open_nodes: list[TextNode] = []
    begin: t.Any = None
    root: t.Optional[TextNode] = None
    try:
        while loader.check_event():
            event: t.Any = loader.get_event()
            end = event.end_mark.index
            if isinstance(event, yaml.DocumentStartEvent):
                begin = event
            elif isinstance(event, yaml.DocumentEndEvent) and root is not None:
                start = begin.start_mark.index if begin.explicit else root.start
                finish = end if event.explicit else -1
                found.append(TextDocument(start, bool(begin.explicit), root, finish))
                root = None
            elif isinstance(event, yaml.CollectionEndEvent):
                node = open_nodes.pop()
                if node.flow:
                    node.end = end
                elif node.children:
                    node.end = node.children[-1].end
            elif isinstance(event, yaml.NodeEvent):
                node = _node(text, event)
                if open_nodes:
                    open_nodes[-1].children.append(node)
                    if open_nodes[-1].kind == "list" and not open_nodes[-1].flow:
                        node.dash = loader.dash
                else:
                    root = node
                if isinstance(event, yaml.CollectionStartEvent):
                    open_nodes.append(node)
    finally:
        loader.dispose()
    return found


def _node(text: str, event: t.Any) -> TextNode:
    import yaml

    start, end, column = event.start_mark.index, event.end_mark.index, event.start_mark.column
    if isinstance(event, yaml.CollectionStartEvent):
        kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "list"
        node = TextNode(kind, start, end, column, flow=bool(event.flow_style))
    elif isinstance(event, yaml.AliasEvent):
        return TextNode("alias", start, end, column, str(event.anchor))
    else:
        if event.style in ("|", ">"):  # PyYAML counts the empty lines behind it
            while end > start and text[end - 1] in f" {BREAKS}":
                end -= 1
        node = TextNode("scalar", start, end, column, event.value, flow=event.style in ("'", '"'))
    node.anchor, node.tag = event.anchor, event.tag
    return node


def _json_documents(text: str) -> list[TextDocument]:
    if not values(text, True):
        return []
    open_nodes: list[TextNode] = []
    root: t.Optional[TextNode] = None
    for token in _JSON_TOKEN.finditer(text, 1 if text.startswith(_BOM) else 0):
        first, start, end = text[token.start()], token.start(), token.end()
        if first in ",:":
            continue
        if first in "]}":
            open_nodes.pop().end = end
            continue
        column = start - text.rfind("\n", 0, start) - 1
        if first in "[{":
            node = TextNode("list" if first == "[" else "mapping", start, end, column, flow=True)
        else:
            node = TextNode("scalar", start, end, column, str(json_scalar(token.group())), flow=True)
        if open_nodes:
            open_nodes[-1].children.append(node)
        root = root or node
        if first in "[{":
            open_nodes.append(node)
    return [] if root is None else [TextDocument(root.start, False, root, -1)]


def json_scalar(token: str) -> t.Any:
    """Return the value of one text, number or word of JSON."""
    return read_json(token)
