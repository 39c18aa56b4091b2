# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NodeState as one short text, for the agent's socket: that of a large fleet would not fit into a request."""

from __future__ import annotations

import base64
import json
import typing as t
import zlib

from ..fleet.node_state import NodeState

#: Bytes of a state as JSON. That of a node among 10,000 has a tenth of it; what unpacks to more is made to fill memory.
LIMIT = 64 << 20


def pack(state: NodeState) -> str:
    return base64.b64encode(zlib.compress(json.dumps(state.to_dict()).encode(), 1)).decode()


def unpack(value: t.Any) -> NodeState:
    """Of `pack`, or of NodeState.to_dict. Raises ValueError."""
    if isinstance(value, str):
        try:
            value = json.loads(_inflated(base64.b64decode(value, validate=True)))
        except (ValueError, RecursionError, zlib.error) as error:
            raise ValueError(f"it is not a packed NodeState: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("it is neither a NodeState nor a packed one")
    try:
        return NodeState.from_dict(value)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"it is not a NodeState: {error}") from error


def _inflated(data: bytes) -> bytes:
    inflating = zlib.decompressobj()
    text = inflating.decompress(data, LIMIT)
    if not inflating.eof:
        raise ValueError(f"it is cut short, or larger than {LIMIT >> 20} MiB")
    return text
