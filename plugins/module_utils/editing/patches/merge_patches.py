# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patches that look like the document: JSON merge patches (RFC 7386), and strategic ones as Calico's resources use."""

from __future__ import annotations

import typing as t

from .errors import PatchError

_DIRECTIVE = "$patch"
_REPLACE, _DELETE, _MERGE = "replace", "delete", "merge"
_DROPPED_KEYS = "$retainKeys"
_FROM_LIST = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def merge(document: t.Any, patch: t.Any) -> t.Any:
    """Return the document that RFC 7386 defines: mappings are merged, a null removes its key, other values replace."""
    if not isinstance(patch, dict):
        return patch
    found = dict(document) if isinstance(document, t.Mapping) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge(found.get(key), value)
    return found


def strategic(document: t.Any, patch: t.Any, where: str = "") -> t.Any:
    """Return the document that a strategic merge patch makes.

    No list of Calico's resources has a merge key, so a list replaces a list. `$patch: replace` replaces a mapping by
    the rest of the patch, `$patch: delete` removes it, and `$patch: merge` is the default. Raise PatchError for another
    directive, and for a directive in a list.
    """
    if not isinstance(patch, dict):
        _check_list(patch, where)
        return patch
    rest = {key: value for key, value in patch.items() if key != _DIRECTIVE}
    directive = patch.get(_DIRECTIVE, _MERGE)
    if directive == _REPLACE:
        return strategic({}, rest, where)
    if directive == _DELETE:
        return {}
    if directive != _MERGE:
        raise PatchError(_at(where, _DIRECTIVE), f"is {directive!r}.", "Write replace, delete or merge.")
    found = dict(document) if isinstance(document, t.Mapping) else {}
    for key, value in rest.items():
        inner = _at(where, key)
        if isinstance(key, str) and key.startswith((_DROPPED_KEYS, _FROM_LIST, _ORDER)):
            raise PatchError(inner, "is for lists with a merge key.", "No list here has one: write the whole list.")
        if value is None or (isinstance(value, dict) and value.get(_DIRECTIVE) == _DELETE):
            found.pop(key, None)
        else:
            found[key] = strategic(found.get(key), value, inner)
    return found


def _check_list(value: t.Any, where: str) -> None:
    """Raise PatchError if an item of a list has a directive, which would become a part of the document."""
    for index, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, dict) and _DIRECTIVE in item:
            raise PatchError(
                f"{where}[{index}].{_DIRECTIVE}", "is for lists with a merge key.", "Write the whole list without it."
            )


def _at(where: str, key: t.Any) -> str:
    return f"{where}.{key}" if where else str(key)
