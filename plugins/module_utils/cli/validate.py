# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl validate -f FILE`: whether documents are what the inventory takes; every one that is not is named."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import typing as t

from ..resources import KINDS, ResourceError, check_supported, parse
from .errors import DONE, PROBLEMS, CommandError

_EXTENSIONS = (".yaml", ".yml", ".json")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class Problem(t.NamedTuple):
    """`line` is None where it is not known."""

    file: str
    line: t.Optional[int]
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"


#: A document, and what finds the line on which a path into it stands ("spec.cidr", "" for its beginning).
Lines = t.Callable[[str], t.Optional[int]]


def run(arguments: argparse.Namespace, dummy: t.Any) -> int:
    good = 0
    problems: list[Problem] = []
    for path in _files(arguments.filename, arguments.recursive):
        name = "<stdin>" if path == "-" else path
        text = _read(path)
        try:
            documents = list(_documents(text, name))
        except _NotReadable as error:
            problems.append(Problem(name, error.line, str(error)))
            continue
        for document, lines in documents:
            problem = _problem(name, document, lines)
            if problem:
                problems.append(problem)
            else:
                good += 1
        if not documents:
            problems.append(Problem(name, None, "has no document. Write apiVersion, kind, metadata and spec."))
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    if not problems:
        sys.stdout.write(f"Successfully validated {good} resource(s)\n")
    else:
        sys.stderr.write(f"{len(problems)} of {good + len(problems)} are not valid\n")
    return PROBLEMS if problems else DONE


def _problem(name: str, document: t.Any, lines: Lines) -> t.Optional[Problem]:
    try:
        check_supported(parse(document))
    except ResourceError as error:
        # A field that is missing has no line of its own: the nearest one around it stands for it.
        return Problem(name, lines(error.field), str(error))
    return None


def _files(names: t.Sequence[str], recursive: bool) -> t.Iterator[str]:
    for name in names:
        if name == "-" or not os.path.isdir(name):
            yield name
            continue
        found = []
        for folder, folders, entries in os.walk(name):
            if not recursive:
                folders.clear()
            found += [os.path.join(folder, entry) for entry in entries if entry.endswith(_EXTENSIONS)]
        if not found:
            raise CommandError(f"no resources specified in directory {name}. It has no file *.yaml, *.yml or *.json.")
        yield from sorted(found)


def _read(path: str) -> str:
    try:
        if path == "-":
            return sys.stdin.read()
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 at byte {error.start}. Save it as UTF-8.") from error


class _NotReadable(Exception):
    def __init__(self, text: str, line: t.Optional[int] = None) -> None:
        super().__init__(text)
        self.line = line


def _documents(text: str, name: str) -> t.Iterator[tuple[t.Any, Lines]]:
    """Lists (kind List, IPPoolList...) are taken apart. Raises _NotReadable."""
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
        raise _NotReadable(f"is not JSON: {error.msg}.", error.lineno) from error


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
        raise _NotReadable(f"is not YAML: {why}.", mark.line + 1 if mark else None) from error
    except (yaml.YAMLError, ValueError) as error:
        raise _NotReadable(f"is not YAML: {error}.") from error


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
