# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents out of files as calicoctl and kubectl take them, YAML or JSON, with the lines on which things stand."""

from __future__ import annotations

import json
import re
import typing as t

from ..resources import KINDS
from .errors import CommandError

EXTENSIONS = (".yaml", ".yml", ".json")

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")

#: Finds the line on which a path into a document stands ("spec.cidr", "" for its beginning).
Lines = t.Callable[[str], t.Optional[int]]


class NotReadable(Exception):
    """A text that is neither YAML nor JSON. `line` is None where it is not known."""

    def __init__(self, text: str, line: t.Optional[int] = None) -> None:
        super().__init__(text)
        self.line = line


def documents_of(text: str, name: str) -> t.Iterator[tuple[t.Any, Lines]]:
    """Each document of a text, and its lines; `name` says whether it is JSON. Lists (kind List, IPPoolList...) are
    taken apart. Raises NotReadable, and CommandError where PyYAML is needed and missing."""
    for document, lines in _json(text) if name.endswith(".json") else _yaml(text):
        if isinstance(document, dict) and _is_list(document):
            for index, item in enumerate(document["items"]):
                yield item, _below(lines, f"items[{index}]")
        elif document is not None:
            yield document, lines


def _is_list(document: t.Mapping[str, t.Any]) -> bool:
    kind = document.get("kind")
    names = {"List", *(f"{name}List" for name in KINDS)}
    return isinstance(kind, str) and kind in names and isinstance(document.get("items"), list)


def _below(lines: Lines, prefix: str) -> Lines:
    return lambda path: lines(f"{prefix}.{path}" if path else prefix)


def _json(text: str) -> t.Iterator[tuple[t.Any, Lines]]:
    try:
        yield json.loads(text), lambda dummy: None
    except json.JSONDecodeError as error:
        raise NotReadable(f"is not JSON: {error.msg}.", error.lineno) from error


def _yaml(text: str) -> t.Iterator[tuple[t.Any, Lines]]:
    try:
        import yaml
    except ImportError:
        raise CommandError(
            "PyYAML is not installed here, so only files *.json can be validated. Install python3-yaml, "
            "or validate on the controller."
        ) from None
    try:
        loader = yaml.SafeLoader(text)
        while loader.check_node():
            node = loader.get_node()
            yield loader.construct_document(node), _lines_of(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = error.problem or error.context
        raise NotReadable(f"is not YAML: {why}.", mark.line + 1 if mark else None) from error
    except (yaml.YAMLError, ValueError) as error:
        raise NotReadable(f"is not YAML: {error}.") from error


def _lines_of(root: t.Any) -> Lines:
    """Walks the tree of YAML's nodes as far as a path goes."""

    def find(path: str) -> int:
        node, line = root, root.start_mark.line
        for key, index in _STEP.findall(path):
            inner = None
            if index and node.id == "sequence" and int(index) < len(node.value):
                inner = node.value[int(index)]
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
