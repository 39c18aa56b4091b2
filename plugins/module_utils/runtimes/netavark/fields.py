# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of what podman sends: bounded, with errors that name the field.

null counts as left out, as podman writes it for both. Fields that are not read are ignored.
"""

from __future__ import annotations

import typing as t

from ...base.typed_json import Reader, Unreadable, by_name, items, maybe, text
from ...wire.plugin_errors import PluginError
from ..json_input import NotAnObject, is_deeper, read_object

#: The most entries of a list or an object.
ENTRIES_LIMIT = 256
_DEPTH = 50  # the most levels of nesting; what podman sends has five

SENT_BY_PODMAN = "podman sends it: ask it for something else, update podman and netavark, or report this."

Document = dict[str, t.Any]
_Read = t.TypeVar("_Read")

TEXT = maybe(text(), "")
TEXTS: Reader = maybe(items(text(), ENTRIES_LIMIT), [])
TEXT_MAP: Reader = maybe(by_name(text(), ENTRIES_LIMIT), {})


class NetavarkError(PluginError):
    """An error of the plugin."""


def document_of(stdin: bytes) -> Document:
    """Return the JSON object on `stdin`, which has at most 50 levels. Raise NetavarkError for anything else."""
    try:
        document = read_object(stdin)
    except NotAnObject as error:
        raise NetavarkError(f"stdin is {error}", "podman sends one JSON object: call podman, not the plugin.") from None
    if is_deeper(document, _DEPTH):
        raise NetavarkError(f"stdin has more than {_DEPTH} levels", SENT_BY_PODMAN)
    return document


def read(reader: t.Callable[[t.Any], _Read], document: Document) -> _Read:
    """Return what `reader` reads in a document. Raise NetavarkError for what it refuses."""
    try:
        return reader(document)
    except Unreadable as error:
        raise NetavarkError(str(error), SENT_BY_PODMAN) from None
