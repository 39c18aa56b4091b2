# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser of YAML and JSON documents, as calicoctl and kubectl accept them, with line numbers."""

from __future__ import annotations

import functools
import json
import re
import typing as t

from ...base.document_limits import BeyondLimits, read_json
from ...resources.api import KINDS
from ..errors import CommandError
from . import yaml_values

EXTENSIONS = (".yaml", ".yml", ".json")

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")

#: A function that returns the line, from 1, of a path into a document ("spec.cidr", "" for its beginning), or None if
#: the line is not known.
Lines = t.Callable[[str], t.Optional[int]]


class NotReadable(Exception):
    """A text that is not YAML or JSON, or is beyond the limits of a document. `line` counts from 1, None if unknown."""

    def __init__(self, text: str, line: t.Optional[int] = None) -> None:
        super().__init__(text)
        self.line = line


def documents_of(text: str, name: str) -> t.Iterator[tuple[t.Any, Lines]]:
    """Yield each document of a text with its function of lines; in place of a list, yield its items.

    Lists have the kind List, IPPoolList and so on. calicoctl also prints lists without a kind, whose items may be such
    lists. A `name` that ends in .json means JSON, any other YAML. Empty documents are left out, but not empty items of
    a list. Raise NotReadable if the text cannot be parsed so, has a key twice or is beyond the limits, and CommandError
    if PyYAML is needed and missing.
    """
    for document, lines in _json(text) if name.endswith(".json") else _yaml(text):
        if isinstance(document, list):
            for index, item in enumerate(document):
                yield from _items(item, _below(lines, f"[{index}]"))
        elif document is not None:
            yield from _items(document, lines)


def _items(document: t.Any, lines: Lines) -> t.Iterator[tuple[t.Any, Lines]]:
    """Yield the items of a document that is a list with a kind, any other document itself."""
    if isinstance(document, dict) and _is_list(document):
        for index, item in enumerate(document["items"] or ()):
            yield item, _below(lines, f"items[{index}]")
    else:
        yield document, lines


def _is_list(document: t.Mapping[str, t.Any]) -> bool:
    kind, items = document.get("kind"), document.get("items", ())
    named = isinstance(kind, str) and (kind == "List" or kind.removesuffix("List") in KINDS and kind not in KINDS)
    return named and (items is None or isinstance(items, list))


def _below(lines: Lines, prefix: str) -> Lines:
    return lambda path: lines(f"{prefix}.{path}" if path and not path.startswith("[") else f"{prefix}{path}")


def _json(text: str) -> t.Iterator[tuple[t.Any, Lines]]:
    try:
        yield read_json(text), lambda dummy: None
    except json.JSONDecodeError as error:
        raise NotReadable(f"is not JSON: {error.msg}.", error.lineno) from error
    except BeyondLimits as error:
        raise NotReadable(str(error), error.line) from error


def _yaml(text: str) -> t.Iterator[tuple[t.Any, Lines]]:
    try:
        import yaml
    except ImportError:
        raise CommandError(
            "PyYAML is not installed here, so only files *.json can be validated. Install python3-yaml, "
            "or validate on the controller."
        ) from None
    fast = getattr(yaml, "CSafeLoader", None)
    if fast is not None:
        try:
            found = _loaded(text, fast)
        except yaml.YAMLError:
            pass  # The text is parsed again below by PyYAML's Python parser, whose messages are clearer.
        else:
            yield from found
            return
    try:
        yield from _loaded(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = error.problem or error.context
        raise NotReadable(f"is not YAML: {why}.", mark.line + 1 if mark else None) from error
    except yaml.YAMLError as error:
        raise NotReadable(f"is not YAML: {error}.") from error


def _loaded(text: str, kind: t.Any) -> list[tuple[t.Any, Lines]]:
    """Return the documents of YAML text, each with its function of lines. `kind` is a loader class of PyYAML."""
    roots = functools.cache(lambda: _roots(text, kind))
    try:
        found = enumerate(yaml_values.documents(text, kind))
        return [(value, _lines_of(roots, index, line)) for index, (value, line) in found]
    except BeyondLimits as error:
        raise NotReadable(str(error), error.line) from error
    except ValueError as error:
        raise NotReadable(f"is not YAML: {error}.") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:  # raised by PyYAML's constructors
        raise NotReadable("is not YAML: a value does not fit its tag.") from error


def _roots(text: str, kind: t.Any) -> list[t.Any]:
    """Return the nodes of the documents of YAML text, which is known to be readable and within the limits."""
    import yaml

    return list(yaml.compose_all(text, kind))


def _lines_of(roots: t.Callable[[], list[t.Any]], index: int, first: int) -> Lines:
    """Return the function of lines of one document; a path beyond its fields has the line of the last one found.

    `roots` returns the nodes of all documents of a text, and `index` is the document's place among them. `first` is its
    first line. The nodes are made for the first path in a document, which only errors ask about.
    """

    def find(path: str) -> int:
        if not path:
            return first
        node, line = roots()[index], first - 1
        for key, item in _STEP.findall(path):
            inner = None
            if item and node.id == "sequence" and int(item) < len(node.value):
                inner = node.value[int(item)]
                line = inner.start_mark.line
            elif key and node.id == "mapping":
                for name, value in node.value:
                    if name.value == key:
                        inner = value
                        line = name.start_mark.line
            if inner is None:
                break
            node = inner
        return int(line) + 1

    return find
