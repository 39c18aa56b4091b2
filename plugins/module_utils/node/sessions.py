# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change of state does to BGP, told from the two states."""

from __future__ import annotations

import dataclasses
import typing as t

from ..fleet.node_state import Bird, NodeState


def reset(old: t.Optional[NodeState], new: NodeState) -> tuple[str, ...]:
    """Names of the sessions that BIRD ends or restarts when it goes from `old` to `new`; filters restart none."""
    if old is None or old.bird is None:
        return ()
    before = {peer.name: peer for peer in old.bird.peers}
    if new.bird is None:
        return tuple(before)
    after = {peer.name: peer for peer in new.bird.peers}
    everything = _of_all_sessions(old.bird) != _of_all_sessions(new.bird)
    return tuple(name for name, peer in before.items() if everything or name not in after or _differ(peer, after[name]))


def withdrawn(old: t.Optional[NodeState], new: NodeState) -> tuple[str, ...]:
    """Blocks that are announced now and will not be."""
    if old is None or old.bird is None:
        return ()
    kept = set(new.bird.blocks) if new.bird else set()
    return tuple(block for block in old.bird.blocks if block not in kept)


def _of_all_sessions(bird: Bird) -> tuple[t.Any, ...]:
    return (
        bird.router_id,
        bird.address,
        bird.as_number,
        bird.listen_port,
        bird.cluster_id,
        bird.graceful_restart_time,
    )


def _differ(old: t.Any, new: t.Any) -> bool:
    """`node` is a comment."""
    return bool(dataclasses.replace(old, node="") != dataclasses.replace(new, node=""))
