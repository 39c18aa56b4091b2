# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain data as one short text, for where it passes through hands that walk through all that is in it: Ansible takes
forty seconds of a processor for a task with eight megabytes of JSON, and one for the same as a text."""

from __future__ import annotations

import base64
import json
import typing as t
import zlib

#: Bytes of the data as JSON. A node among 10,000 has a tenth of it; what unpacks to more is made to fill memory.
LIMIT = 64 << 20


def pack(data: t.Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(data).encode(), 1)).decode()


def unpack(text: str) -> t.Any:
    """Raises ValueError."""
    try:
        return json.loads(_inflated(base64.b64decode(text, validate=True)))
    except (ValueError, RecursionError, zlib.error) as error:
        raise ValueError(f"it is not packed data: {error}") from error


def _inflated(data: bytes) -> bytes:
    inflating = zlib.decompressobj()
    text = inflating.decompress(data, LIMIT)
    if not inflating.eof:
        raise ValueError(f"it is cut short, or larger than {LIMIT >> 20} MiB")
    return text
