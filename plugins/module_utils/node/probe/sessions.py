# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The effects of a change of state on BGP, derived from the two states."""

from __future__ import annotations

import typing as t

from ...bgp import session_changes
from ...bgp.session_changes import SessionChange
from ...dataplane.change import Change
from ...state.node_state import NodeState

#: The most sessions with the same reason that are a change each in `planned`; more are one change.
_SINGLE = 8


def resets(old: t.Optional[NodeState], new: NodeState, passwords: t.Collection[str] = ()) -> tuple[SessionChange, ...]:
    """Return the sessions that BIRD ends or restarts when the state changes from `old` to `new`; () if `old` is None.

    Changed filters restart none. `passwords` are the names of the secrets whose value changes.
    """
    return session_changes.resets(old.bird, new.bird, passwords) if old is not None else ()


def planned(old: t.Optional[NodeState], new: NodeState, passwords: t.Collection[str] = ()) -> t.Iterator[Change]:
    """Yield one change for each of the `resets`, but a single one for more than eight with the same reason.

    A change looks like `! session  Node_10_0_0_2 (node2)  restarts: cluster id`.
    """
    groups: dict[str, list[SessionChange]] = {}
    for change in resets(old, new, passwords):
        groups.setdefault(change.text, []).append(change)
    for text, group in groups.items():
        if len(group) > _SINGLE:
            names = ", ".join(change.node or change.address for change in group[:2])
            yield Change("session", "!", f"{len(group)} sessions", None, text, f"{names} and {len(group) - 2} more")
            continue
        for change in group:
            owner = f" ({change.node})" if change.node else ""
            yield Change("session", "!", f"{change.name}{owner}", None, text)


def withdrawn(old: t.Optional[NodeState], new: NodeState) -> tuple[str, ...]:
    """Return the blocks (CIDRs) that `old` may advertise and `new` may not; () if `old` is None or has no BGP."""
    if old is None or old.bird is None:
        return ()
    kept = set(new.bird.blocks) if new.bird else set()
    return tuple(block for block in old.bird.blocks if block not in kept)
