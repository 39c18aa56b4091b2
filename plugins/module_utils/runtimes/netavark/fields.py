# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Typed reading of what podman sends: an object's fields one by one, bounded, with errors that name them.

null counts as left out, as podman writes it for both. SentFields that are not read are ignored.
"""

from __future__ import annotations

import typing as t

from ...wire.plugin_errors import PluginError
from ..json_input import NotAnObject, is_deeper, read_object, shown

#: The most characters of a text, and entries of a list or an object.
TEXT_LIMIT = 4096
ENTRIES_LIMIT = 256
_DEPTH = 50  # the most levels of nesting; what podman sends has five

SENT_BY_PODMAN = "podman sends it: update podman and netavark, or report this."

Document = t.Mapping[str, t.Any]


class NetavarkError(PluginError):
    """An error of the plugin."""


class SentFields:
    """The fields of the object `document`, whose path in the request is `where`, "" for the request itself.

    Reading a field of another form raises NetavarkError.
    """

    def __init__(self, document: Document, where: str = "") -> None:
        self.document = document
        self._where = f"{where}." if where else ""

    @classmethod
    def read(cls, stdin: bytes) -> SentFields:
        """Return the fields of the JSON object on `stdin`, which has at most 50 levels."""
        try:
            document = read_object(stdin)
        except NotAnObject as error:
            raise NetavarkError(
                f"stdin is {error}", "podman sends one JSON object: call podman, not the plugin."
            ) from None
        if is_deeper(document, _DEPTH):
            raise NetavarkError(f"stdin has more than {_DEPTH} levels", SENT_BY_PODMAN)
        return cls(document)

    def named(self, field: str) -> str:
        return f"{self._where}{field}"

    def text(self, field: str) -> str:
        """Return a text of at most 4096 characters, "" if it is left out."""
        value = self.document.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._wrong(field, "is not a text")
        if len(value) > TEXT_LIMIT:
            raise NetavarkError(f"{self.named(field)} has {len(value)} characters", f"Use at most {TEXT_LIMIT}.")
        return value

    def flag(self, field: str) -> bool:
        """Return a truth value, False if it is left out."""
        value = self.document.get(field)
        if not isinstance(value, bool) and value is not None:
            raise self._wrong(field, "is neither true nor false")
        return bool(value)

    def inner(self, field: str) -> SentFields:
        """Return the fields of an object, without any if it is left out."""
        value = self.document.get(field)
        if not isinstance(value, dict) and value is not None:
            raise self._wrong(field, "is not an object")
        return SentFields(value or {}, self.named(field))

    def objects(self, field: str) -> list[SentFields]:
        """Return the fields of each object of a list; [] if it is left out."""
        entries = self._entries(field)
        if not all(isinstance(entry, dict) for entry in entries):
            raise self._wrong(field, "is not a list of objects")
        return [SentFields(entry, f"{self.named(field)}[{index}]") for index, entry in enumerate(entries)]

    def texts(self, field: str) -> list[str]:
        """Return a list of texts; [] if it is left out."""
        entries = self._entries(field)
        if not all(isinstance(entry, str) and len(entry) <= TEXT_LIMIT for entry in entries):
            raise self._wrong(field, "is not a list of texts")
        return entries

    def text_map(self, field: str) -> dict[str, str]:
        """Return an object of at most 256 texts; {} if it is left out."""
        found = self.inner(field).document
        if not all(isinstance(value, str) and len(value) <= TEXT_LIMIT for value in found.values()):
            raise self._wrong(field, "is not an object of texts")
        if len(found) > ENTRIES_LIMIT:
            raise NetavarkError(f"{self.named(field)} has {len(found)} entries", f"Use at most {ENTRIES_LIMIT}.")
        return dict(found)

    def _entries(self, field: str) -> list[t.Any]:
        value = self.document.get(field)
        if not isinstance(value, list) and value is not None:
            raise self._wrong(field, "is not a list")
        if value and len(value) > ENTRIES_LIMIT:
            raise NetavarkError(f"{self.named(field)} has {len(value)} entries", f"Use at most {ENTRIES_LIMIT}.")
        return list(value or ())

    def _wrong(self, field: str, what: str) -> NetavarkError:
        return NetavarkError(f"{self.named(field)} {shown(self.document.get(field))} {what}", SENT_BY_PODMAN)
