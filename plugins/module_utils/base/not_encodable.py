# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The error that encoders of text protocols raise for a value that their protocol cannot carry."""

from __future__ import annotations

_SHOWN = 60  # characters of a value


class NotEncodable(ValueError):
    """A value that is not one token of `protocol`, or not the kind of token that is needed.

    `kind` is the kind that is needed ("an address"), `allowed` describes the texts that are valid for it.
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
    """Return `repr(value)`, shortened if it is long, so that it can be shown in a message.

    A text of more than `most` characters is cut to `most`, with "..." and its length behind it. The representation of
    any other value is cut to `most` characters if it has more than four times as many.
    """
    if isinstance(value, str) and len(value) > most:
        return f"{value[:most]!r}... ({len(value)} characters)"
    text = repr(value)
    return text if len(text) <= 4 * most else f"{text[:most]}..."
