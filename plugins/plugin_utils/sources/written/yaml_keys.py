# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of YAML files, with their lines: those that a mapping has twice, and the places of groups and hosts."""

from __future__ import annotations

import typing as t

import yaml

_LOADER: t.Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"  # the key <<, which may be there more than once
_VAULT = "$ANSIBLE_VAULT"


class Key(t.NamedTuple):
    """A key of a mapping. `line` counts from 1; `first_line` is that of an equal key of the same mapping, or None."""

    text: str
    line: int
    first_line: t.Optional[int]


def is_encrypted(path: str) -> bool:
    """Return whether ansible-vault has encrypted the whole file. A file that cannot be read gives False."""
    try:
        with open(path, "rb") as stream:
            return stream.read(len(_VAULT)) == _VAULT.encode()
    except OSError:
        return False


def of_file(path: str) -> list[Key]:
    """Return the keys of all mappings of the file; [] if it is encrypted, cannot be read or is not YAML.

    Ansible itself says of a file that it cannot read what is wrong there.
    """
    if is_encrypted(path):
        return []
    found: list[Key] = []
    try:
        with open(path, encoding="utf-8") as stream:
            for document in yaml.compose_all(stream, _LOADER):
                _add(document, found, set())
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return []
    return found


def _add(node: t.Any, found: list[Key], seen: set[int]) -> None:
    if id(node) in seen:  # an alias of a node that was examined
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _add(item, found, seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}  # (tag, text) of a key: the number 1 is another key than the text 1
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                line = key.start_mark.line + 1
                found.append(Key(key.value, line, lines.get((key.tag, key.value))))
                lines.setdefault((key.tag, key.value), line)
            _add(value, found, seen)
