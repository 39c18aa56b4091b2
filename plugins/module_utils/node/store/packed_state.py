# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NodeState compressed to one text, for the agent's socket: as JSON, a large fleet's would exceed a request."""

from __future__ import annotations

import typing as t

from ...base.packed_json import pack as packed
from ...base.packed_json import unpack as unpacked
from ...state.node_state import NodeState


def pack(state: NodeState) -> str:
    """Return `state` as a text that `unpack` reads."""
    return packed(state.to_dict())


def unpack(value: t.Any) -> NodeState:
    """Return the NodeState from which `pack` or NodeState.to_dict made `value`. Raise ValueError for anything else."""
    if isinstance(value, str):
        try:
            value = unpacked(value)
        except ValueError as error:
            raise ValueError(f"it is not a packed NodeState: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("it is neither a NodeState nor a packed one")
    try:
        return NodeState.from_dict(value)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"it is not a NodeState: {error}") from error
