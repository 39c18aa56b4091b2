# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON patches (RFC 6902): a list of operations at paths (RFC 6901); all are done or none."""

from __future__ import annotations

import re
import typing as t

from ...base.document_limits import check_value
from ..text_nodes import same
from .errors import PatchError

#: The most operations of one patch.
MOST = 10_000
_INDEX = re.compile("0|[1-9][0-9]{0,8}")
_ESCAPE = re.compile("~(?![01])")
_NEEDS = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("from", "path"),
    "copy": ("from", "path"),
    "test": ("path", "value"),
}
#: The most values in a document to which operations may copy.
_MOST_VALUES = 1_000_000


def apply(document: t.Any, patch: t.Any) -> t.Any:
    """Return the document that the operations of a patch make, one after the other.

    Raise PatchError if the patch is no list of operations, or at an operation that does not fit the document. A test
    that fails is one. Raise BeyondLimits for a copy of a value that is too large or too deep.
    """
    if not isinstance(patch, list):
        raise PatchError("", "is not a list of operations.", 'Write [{"op": "replace", "path": ..., "value": ...}].')
    if len(patch) > MOST:
        raise PatchError("", f"has more than {MOST:,} operations.", "Write several patches.")
    found: t.Any = [_copy(document)]
    left = _MOST_VALUES
    for index, operation in enumerate(patch):
        where = f"operation {index + 1}"
        left -= _do(found, operation, where)
        if left < 0:
            raise PatchError(where, f"makes more than {_MOST_VALUES:,} values.", "Write several patches.")
    return found[0]


def _do(root: list[t.Any], operation: t.Any, where: str) -> int:
    """Do one operation in `root`, whose only item is the document; return how many values it copied."""
    if not isinstance(operation, dict):
        raise PatchError(where, "is not a mapping.", "Write op, path and what else it needs.")
    verb = operation.get("op")
    if not isinstance(verb, str) or verb not in _NEEDS:
        raise PatchError(where, f"has the op {verb!r}.", f"Write one of {', '.join(_NEEDS)}.")
    for name in _NEEDS[verb]:
        if name not in operation:
            raise PatchError(where, f"has no {name}.", f"{verb.capitalize()} needs {' and '.join(_NEEDS[verb])}.")
    path = _steps(operation["path"], where)
    if verb == "test":
        found = _value(root, path, where)
        if not _equal(found, operation["value"]):
            raise PatchError(where, "is a test that fails.", f"The document has another value at {operation['path']}.")
        return 0
    if verb == "add":
        value = _copy(operation["value"])
    elif verb == "replace":
        _value(root, path, where)
        value = _copy(operation["value"])
        if path:
            _remove(root, path, where)
    elif verb == "remove":
        if not path:
            raise PatchError(where, "removes the whole document.", "Use `calicoctl delete`.")
        _remove(root, path, where)
        return 0
    else:
        source = _steps(operation["from"], where)
        value = _value(root, source, where)
        if verb == "copy":
            check_value(value)  # before a copy by recursion
            value = _copy(value)
        elif path[: len(source)] == source:
            if path == source:
                return 0
            raise PatchError(where, "moves a value into itself.", "Copy it instead.")
        else:
            _remove(root, source, where)
    _add(root, path, value, where)
    return _size(value) if verb == "copy" else 0


def _steps(pointer: t.Any, where: str) -> list[str]:
    """Return the keys and indexes of a JSON pointer, as texts. Raise PatchError if it is none."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")) or _ESCAPE.search(pointer):
        raise PatchError(
            where, f"has the path {pointer!r}.", "Begin it with /, and write ~1 for a / in a name, ~0 for a ~."
        )
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _value(root: list[t.Any], path: t.Sequence[str], where: str) -> t.Any:
    found = root[0]
    for depth, step in enumerate(path):
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list):
            found = found[_index(found, step, len(found) - 1, path[: depth + 1], where)]
        else:
            raise _missing(path[: depth + 1], where)
    return found


def _above(root: list[t.Any], path: t.Sequence[str], where: str) -> t.Any:
    """Return the mapping or list that has the last step of a path. Raise PatchError if another value is there."""
    found = _value(root, path[:-1], where)
    if not isinstance(found, (dict, list)):
        raise _missing(path, where)
    return found


def _add(root: list[t.Any], path: t.Sequence[str], value: t.Any, where: str) -> None:
    if not path:
        root[0] = value
        return
    above = _above(root, path, where)
    if isinstance(above, dict):
        above[path[-1]] = value
    else:
        above.insert(
            len(above) if path[-1] == "-" else _index(above, path[-1], len(above), path, where),
            value,
        )


def _remove(root: list[t.Any], path: t.Sequence[str], where: str) -> None:
    _value(root, path, where)
    above = _above(root, path, where)
    if isinstance(above, dict):
        del above[path[-1]]
    else:
        del above[int(path[-1])]


def _index(items: list[t.Any], step: str, last: int, path: t.Sequence[str], where: str) -> int:
    if not _INDEX.fullmatch(step) or int(step) > last:
        raise PatchError(where, f"has no item {_pointer(path)}.", f"The list there has {len(items)} items, from 0.")
    return int(step)


def _missing(path: t.Sequence[str], where: str) -> PatchError:
    return PatchError(where, f"finds nothing at {_pointer(path)}.", "Add what is above it first, or correct the path.")


def _pointer(path: t.Sequence[str]) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)


def _copy(value: t.Any) -> t.Any:
    if isinstance(value, t.Mapping):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _size(value: t.Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        inner = waiting.pop()
        count += 1
        waiting.extend(inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ())
    return count


def _equal(one: t.Any, other: t.Any) -> bool:
    """Return whether two values are equal as RFC 6902 says: numbers by their value, all others with their type."""
    numbers = (int, float)
    if isinstance(one, numbers) and isinstance(other, numbers) and bool not in (type(one), type(other)):
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return same(one, other)
