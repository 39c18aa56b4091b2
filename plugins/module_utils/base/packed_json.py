# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain data as one compressed text, for arguments of Ansible tasks.

Ansible visits every value in a task's arguments, which takes 40 seconds of CPU time for 8 MB of JSON. The same data as
one text takes one second.
"""

from __future__ import annotations

import base64
import json
import typing as t
import zlib

from . import typed_json

#: The largest data, in bytes of JSON, that `unpack` and `unpack_text` accept. The state of a node among 10,000 has a
#: tenth of that. Larger data is taken for an attempt to fill the memory.
LIMIT = 64 << 20


def pack(data: t.Any) -> str:
    """Return `data` as compressed JSON in base64.

    Raise TypeError if JSON cannot represent a value in it, ValueError if a value contains itself, and RecursionError if
    it is nested too deeply for Python's stack.
    """
    return pack_text(json.dumps(data))


def pack_text(text: str) -> str:
    """Return a JSON document as compressed base64, unchecked. Raise ValueError for half of a surrogate pair."""
    return base64.b64encode(zlib.compress(text.encode(), 1)).decode()


def unpack_text(text: str) -> str:
    """Return the document that `pack_text` made `text` of, without checking that it is JSON.

    Raise ValueError if `text` is not packed data, is cut short, or is larger than 64 MiB when decompressed.
    """
    try:
        return _inflated(base64.b64decode(text, validate=True)).decode()
    except (ValueError, zlib.error) as error:
        raise ValueError(f"it is not packed data: {error}") from error


def unpack(text: str) -> t.Any:
    """Return the data that `pack` made `text` of; tuples come back as lists. Raise ValueError as `unpack_text` does."""
    try:
        return json.loads(_inflated(base64.b64decode(text, validate=True)))
    except (ValueError, RecursionError, zlib.error) as error:
        raise ValueError(f"it is not packed data: {error}") from error


def unpack_shared(text: str) -> t.Any:
    """Return the data as `unpack` does, but with equal objects as one, which must not be changed.

    Raise ValueError as `unpack_text` does, and for NaN and infinite numbers.
    """
    try:
        return typed_json.parse_shared(_inflated(base64.b64decode(text, validate=True)))
    except (ValueError, zlib.error) as error:
        raise ValueError(f"it is not packed data: {error}") from error


def _inflated(data: bytes) -> bytes:
    inflating = zlib.decompressobj()
    text = inflating.decompress(data, LIMIT)
    if not inflating.eof:
        raise ValueError(f"it is cut short, or larger than {LIMIT >> 20} MiB")
    return text
