# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The error that the encoders of text protocols raise for a value that their protocol cannot carry."""

from __future__ import annotations

_SHOWN = 60  # characters of a value


class NotEncodable(ValueError):
    """A value that would not be one token of `protocol`, or not the kind of token that its place needs.

    `kind` is what the value should have been (`an address`), `allowed` what that may look like.
    """

    def __init__(self, protocol: str, kind: str, value: object, allowed: str) -> None:
        self.protocol = protocol
        self.kind = kind
        self.value = value
        self.allowed = allowed
        super().__init__(protocol, kind, value, allowed)

    def __str__(self) -> str:
        return f"{shown(self.value, _SHOWN)} cannot be {self.kind} for {self.protocol}: {self.allowed}."


def shown(value: object, most: int = 400) -> str:
    """Return the representation of `value`, in printable characters, and cut where it has more than `most`."""
    if isinstance(value, str) and len(value) > most:
        return f"{value[:most]!r}... ({len(value)} characters)"
    text = repr(value)
    return text if len(text) <= 4 * most else f"{text[:most]}..."
