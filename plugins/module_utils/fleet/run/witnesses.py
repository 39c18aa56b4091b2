# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stored states of nodes may decide about a run of all nodes.

Root on a node writes that node's state. A change of the whole fleet, a limit that is exceeded and a phase that needs
all nodes therefore need more than the word of a few. What a few alone say concerns only these nodes: they go to their
target by themselves, or are left out and named.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...state.node_state import NodeState
from .. import transition
from .impact import Impact, ImpactLimits

#: The most nodes that are left out because a run would exceed its limits only by what their own stored states say.
MOST = 64

_Pools = t.Sequence[t.Any]  # pools with an encapsulation, as transition.needed takes them


@dataclasses.dataclass(frozen=True)
class FleetChange:
    """Whether all nodes have to go through the phases of a change, and the nodes that alone say so if not."""

    needed: bool
    alone: tuple[str, ...] = ()


def fleet_change(
    observed: t.Mapping[str, t.Optional[NodeState]],
    pools: _Pools,
    underlay_mtu: int,
    remembered: t.Mapping[str, str],
) -> FleetChange:
    """Return whether the fleet needs the phases of a change to get to `pools` and `underlay_mtu` (in bytes).

    A node says so if its state has backup routes or `transition.needed` holds for it. More than half of the nodes with
    a state must say so, or half of them if the lockfile remembers (`remembered`, by pool) another encapsulation of a
    pool, or none. If the fleet does not need them, the result names the nodes that say so, sorted. The phases of nodes
    in an interrupted change differ by one at most. So if half of the nodes are at rest in the new modes, the others are
    one step before or behind, and need no phases.
    """
    states = {node: state for node, state in observed.items() if state is not None}
    saying = tuple(sorted(node for node in states if _in_change(states[node], pools, underlay_mtu)))
    others = len(states) - len(saying)
    as_remembered = all(remembered.get(pool.name) == pool.encapsulation for pool in pools)
    if len(saying) > others or (len(saying) == others > 0 and not as_remembered):
        return FleetChange(True)
    return FleetChange(False, saying)


def _in_change(state: NodeState, pools: _Pools, underlay_mtu: int) -> bool:
    backups = state.bird is not None and bool(state.bird.backups)
    return backups or transition.needed(state, pools, underlay_mtu)


def renamed(claims: t.Mapping[str, str], remembered: t.Container[str], staying: t.Container[str]) -> dict[str, str]:
    """Return {host: node} of the hosts that are a node of the lockfile under another name.

    `claims` maps hosts to the other node whose state they have. `remembered` are the nodes in the lockfile, `staying`
    those that stay. A host that the lockfile has under its own name was not renamed: it cannot stop a run by what it
    says.
    """
    return {
        host: node
        for host, node in claims.items()
        if node in remembered and node not in staying and host not in remembered
    }


def sole_reporters(nodes: t.Collection[str], observed: t.Mapping[str, t.Optional[NodeState]]) -> bool:
    """Return whether these are at most half of the nodes with a state, and at least one."""
    return 0 < 2 * len(nodes) <= sum(state is not None for state in observed.values())


def too_far(
    found: Impact,
    limits: ImpactLimits,
    alone: t.Mapping[str, Impact],
    observed: t.Mapping[str, t.Optional[NodeState]],
) -> tuple[str, ...]:
    """Return the sorted nodes without whose states the run stays inside the limits; () if there are no such nodes.

    It is also () if the run exceeds no limit. They are at most 64 (MOST), and at most half of the nodes with a state,
    from the largest part in `alone` on; not all combinations are tried. `alone` is the result of `reported_alone`.
    """
    out: list[str] = []
    by_size = sorted(alone, key=lambda node: (-len(alone[node].resets) - len(alone[node].withdrawn), node))
    for node in by_size[:MOST]:
        if not limits.exceeded(found):
            break
        less = found.without(alone[node])
        if limits.excess(less) < limits.excess(found):
            out.append(node)
            found = less
    return tuple(sorted(out)) if not limits.exceeded(found) and sole_reporters(out, observed) else ()
