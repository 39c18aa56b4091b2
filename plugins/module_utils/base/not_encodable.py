# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The error that encoders of text protocols raise for a value that their protocol cannot carry."""

from __future__ import annotations

_SHOWN = 60  # characters at which a long value is cut in the text of a NotEncodable


class NotEncodable(ValueError):
    """A value that cannot be written in the text protocol `protocol`, for example in the input of iptables-restore.

    `value` is that value. `kind` is the kind of text that is needed ("an address"), `allowed` describes the texts that
    are valid for it, or says what is wrong with the value.
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

    A text of more than `most` characters is cut to `most` before it is represented, and "..." and its full length are
    added. Any other representation is cut to `most` characters and "..." if it has more than four times as many.
    """
    if isinstance(value, str) and len(value) > most:
        return f"{value[:most]!r}... ({len(value)} characters)"
    text = repr(value)
    return text if len(text) <= 4 * most else f"{text[:most]}..."
