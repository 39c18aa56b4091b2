# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The payload of a probe of the watch. Every field of a payload that arrives may be forged.

It has the sender's session and the number of the probe, which an answer repeats, the sender's clock, and what the
sender heard last from the node that it probes: the beginning of that node's session, and the number of its probe.
"""

from __future__ import annotations

import struct
import typing as t

#: The bytes with which each payload begins.
MAGIC = b"CALW"
_VERSION = 1
_FORM = struct.Struct("!4sB3x8sId4sI")

#: The bytes of a payload. Padding may follow.
BYTES = _FORM.size
#: The bytes of the beginning of a session, by which another node repeats it.
SESSION_BEGINNING = 4


class Payload(t.NamedTuple):
    """The content of a probe.

    `number` counts the probes of its path from 1. `sent_at` is in seconds of the sender's own clock. `heard_session` is
    zeros and `heard` 0 if the sender heard no probe from the node that it probes.
    """

    session: bytes
    number: int
    sent_at: float
    heard_session: bytes = bytes(SESSION_BEGINNING)
    heard: int = 0


def encode(payload: Payload) -> bytes:
    return _FORM.pack(MAGIC, _VERSION, *payload)


def decode(data: bytes) -> t.Optional[Payload]:
    """Return the payload at the beginning of `data`, None if it is none of the watch, or one of a later version."""
    if len(data) < BYTES or data[:4] != MAGIC or data[4] != _VERSION:
        return None
    return Payload(*_FORM.unpack_from(data)[2:])
