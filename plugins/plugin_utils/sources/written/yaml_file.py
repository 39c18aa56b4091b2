# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML files as they are written: keys and numbers, with their lines."""

from __future__ import annotations

import re
import typing as t

import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.written_inventory import (
    GROUP_KEYS,
    LABEL,
    OCTAL,
    SIXTIES,
    OddNumber,
    UnknownGroupKey,
)

_LOADER: t.Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"  # the key <<, which may be there more than once
_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_VAULT = "$ANSIBLE_VAULT"
_OCTAL = re.compile(r"[-+]?0[0-7_]+")
#: The keys whose values are mappings of labels.
_LABELS = ("labels", "calico_node_labels")
_MOST_GROUPS = 10_000  # a bound against aliases that contain themselves


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


class YamlFile(t.NamedTuple):
    """What the rules about files look at: all keys, numbers that YAML misreads, and unknown keys of groups.

    A number is misread if YAML makes another one of it than is written, such as 1230 of 20:30. Its variable is the path
    from a variable calico_*, such as calico_ip_pools[0].blockSize.
    """

    path: str
    keys: list[Key]
    numbers: list[OddNumber]
    group_keys: list[UnknownGroupKey]

    def place(self, node: t.Any) -> str:
        """Return the "file:line" of a node of the file."""
        return f"{self.path}:{node.start_mark.line + 1}"


def of_file(path: str) -> YamlFile:
    """Return what is in the file; nothing if it is encrypted, cannot be read or is not YAML."""
    found = YamlFile(path, [], [], [])
    if is_encrypted(path):
        return found
    try:
        with open(path, encoding="utf-8") as stream:
            for document in yaml.compose_all(stream, _LOADER):
                _add(document, found, set(), "", False)
                _add_group_keys(document, found)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return YamlFile(path, [], [], [])
    return found


def _add(node: t.Any, found: YamlFile, seen: set[int], variable: str, labels: bool) -> None:
    """Add what is in `node`. `variable` is its path from a variable calico_*, "" elsewhere. `labels`: it is a label."""
    if id(node) in seen:  # an alias of a node that was examined
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _add(item, found, seen, variable and f"{variable}[{index}]", labels)
    elif isinstance(node, yaml.ScalarNode):
        if variable:
            _add_number(node, found, variable, labels)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}  # (tag, text) of a key: the number 1 is another key than the text 1
        for key, value in node.value:
            inner, of_labels = variable, labels
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                line = key.start_mark.line + 1
                found.keys.append(Key(key.value, line, lines.get((key.tag, key.value))))
                lines.setdefault((key.tag, key.value), line)
                inner = key.value if key.value.startswith("calico_") else variable and f"{variable}.{key.value}"
                of_labels = labels or key.value in _LABELS
            _add(value, found, seen, inner, of_labels)


def _add_number(node: t.Any, found: YamlFile, variable: str, labels: bool) -> None:
    """Add the number that a scalar of `variable` is, if YAML makes another one of it than is written."""
    if node.tag not in (_INT, _FLOAT):
        return
    text = node.value
    value = yaml.safe_load(text)
    if ":" in text:
        why = SIXTIES
    elif node.tag == _INT and _OCTAL.fullmatch(text):
        why = OCTAL
    elif labels and str(value) != text:
        why = LABEL
    else:
        return
    found.numbers.append(OddNumber(variable, text, value, why, found.place(node)))


def _add_group_keys(document: t.Any, found: YamlFile) -> None:
    """Add the unknown keys of groups, if the document is an inventory and not the settings of an inventory plugin."""
    groups = document.value if isinstance(document, yaml.MappingNode) else []
    if any(isinstance(name, yaml.ScalarNode) and name.value == "plugin" for name, dummy in groups):
        return
    waiting = list(groups)
    for _number_of_group in range(_MOST_GROUPS):
        if not waiting:
            return
        name, group = waiting.pop()
        if not isinstance(group, yaml.MappingNode) or not isinstance(name, yaml.ScalarNode):
            continue
        for key, value in group.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE and key.value not in GROUP_KEYS:
                found.group_keys.append(UnknownGroupKey(name.value, key.value, found.place(key)))
            elif key.value == "children" and isinstance(value, yaml.MappingNode):
                waiting += value.value
