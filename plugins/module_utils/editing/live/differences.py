# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of live documents as a unified diff, each document as YAML."""

from __future__ import annotations

import difflib
import typing as t

from ...base.typed_json import NotJson, parse
from ...cli.render import yaml_text
from .live_plan import DocumentChange

_NONE = "/dev/null"


def lines_of(changes: t.Iterable[DocumentChange]) -> list[str]:
    """Return the lines of the diff of all changes, without line ends."""
    found: list[str] = []
    for one in changes:
        name = f"live/{one.key}"
        found += difflib.unified_diff(
            _text(one.before.value if one.before else None),
            _text(one.value),
            f"{name} (revision {one.before.revision})" if one.before else _NONE,
            name if one.value is not None else _NONE,
            lineterm="",
        )
    return found


def _text(value: t.Optional[bytes]) -> list[str]:
    if value is None:
        return []
    try:
        return yaml_text.dump(parse(value)).splitlines()
    except (NotJson, TypeError):
        return value.decode("utf-8", "replace").splitlines()
