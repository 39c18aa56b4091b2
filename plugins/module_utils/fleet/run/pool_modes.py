# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mode in which the fleet runs each of its pools: by the nodes that were read, and by the lockfile.

A run that is limited to new hosts is checked against the modes in the lockfile. What running nodes agree on takes
precedence over these. So a lockfile that is old, or has no modes, changes no running fleet.
"""

from __future__ import annotations

import collections
import typing as t

from ...bgp.bird_state import BirdPool
from ...ipam.allocation_plan import AllocationPlan
from ...resources import api as resources
from ...state.errors import FleetError
from ...state.node_state import NodeState
from ...state.phase import AT_REST, Phase
from ..fleet import TUNNEL_DEVICE

#: The values of the parameter `mode`, and Calico's names of these encapsulations.
MODES = {
    "ipip": "IPIP",
    "ipip-crosssubnet": "IPIPCrossSubnet",
    "vxlan": "VXLAN",
    "vxlan-crosssubnet": "VXLANCrossSubnet",
    "direct": "None",
}
MODE_OF = {encapsulation: mode for mode, encapsulation in MODES.items()}
_ENCAPSULATION_OF = {
    "": "None",
    TUNNEL_DEVICE["ipip"]: "IPIP",
    TUNNEL_DEVICE["vxlan"]: "VXLAN",
    TUNNEL_DEVICE["vxlan6"]: "VXLAN",
}


def live_modes(states: t.Iterable[NodeState]) -> dict[str, str]:
    """Return the encapsulation (such as VXLANCrossSubnet) of each pool on which all these nodes agree, by pool name.

    A node's is that of BIRD's filter, which is the old one until the phase `flip`. If the filter lacks the pool, or
    without BGP, it is that of the node's state. Nodes that lack a pool do not count for it. A pool on which the nodes
    disagree is missing. Without BGP it is also missing if a node is in a phase before `flip`: the node's state has the
    new encapsulation already, and its packets take the old one.
    """
    found: dict[str, set[str]] = {}
    unknown: set[str] = set()
    for state in states:
        filtered = {pool.cidr: _encapsulation(pool) for pool in state.bird.pools} if state.bird else {}
        for pool in state.pools:
            found.setdefault(pool.name, set()).add(filtered.get(pool.cidr, pool.encapsulation))
            if state.bird is None and state.phase not in (*AT_REST, Phase.FLIP):
                unknown.add(pool.name)
    return {name: next(iter(modes)) for name, modes in found.items() if len(modes) == 1 and name not in unknown}


def modes_of_most(states: t.Collection[NodeState]) -> dict[str, str]:
    """Return the encapsulation of each pool that more than half of these nodes have by `live_modes`, by pool name."""
    found = collections.Counter(entry for state in states for entry in live_modes([state]).items())
    return {name: mode for (name, mode), count in found.items() if 2 * count > len(states)}


def _encapsulation(pool: BirdPool) -> str:
    plain = _ENCAPSULATION_OF[pool.device]
    return f"{plain}CrossSubnet" if pool.cross_subnet else plain


class _Fleet(t.Protocol):
    """An Inventory or a Fleet."""

    @property
    def pools(self) -> t.Sequence[resources.IPPool]: ...

    @property
    def nodes(self) -> t.Mapping[str, t.Any]: ...


def others(
    inventory: _Fleet, previous: t.Optional[AllocationPlan], asked: t.Collection[str], pool: t.Optional[str] = None
) -> list[str]:
    """Return the inventory's nodes, sorted, outside `asked` that have blocks (of `pool`, unless None) by `previous`."""
    return sorted(
        name
        for name, part in (previous.nodes if previous else {}).items()
        if name in inventory.nodes
        and name not in asked
        and any(grant.pool == pool or pool is None for grant in (*part.blocks, *part.spare_blocks))
    )


def to_remember(
    inventory: _Fleet,
    previous: t.Optional[AllocationPlan],
    observed: t.Mapping[str, t.Optional[NodeState]],
    change: bool,
) -> dict[str, str]:
    """Return the encapsulation of each pool for the lockfile, by name: as the fleet runs it when this run begins.

    It is what the nodes in `observed` agree on, else what the lockfile's plan `previous` remembers. During a `change`
    the plan takes precedence. Without a change it counts only if a node with blocks was not read. If neither tells it,
    the pool has the inventory's if all nodes with blocks were read or the plan lacks the pool; else it is missing.
    """
    live = live_modes(state for state in observed.values() if state is not None)
    known = previous.encapsulations if previous else {}
    rest = others(inventory, previous, observed)
    found = {}
    for pool in inventory.pools:
        sources = (known, live) if change else (live, known if rest else {})
        value = next((source[pool.name] for source in sources if pool.name in source), None)
        if value is None and (not rest or (previous is not None and pool.name not in previous.pools)):
            # As in the inventory: as far as is known no node runs the pool yet, or all were read and they disagree.
            value = pool.encapsulation
        if value is not None:
            found[pool.name] = value
    return found


def check_newcomers(
    inventory: _Fleet,
    previous: t.Optional[AllocationPlan],
    observed: t.Mapping[str, t.Optional[NodeState]],
    overrides: t.Collection[str] = (),
    origins: t.Optional[t.Mapping[str, str]] = None,
) -> None:
    """Raise FleetError if only new hosts were asked and they would use other modes than the rest of the fleet.

    The lockfile's plan `previous` tells which modes the others use; nothing is checked if it is None. `overrides` are
    the pools whose mode the command line chose. `origins` has the file and line of pools, by name.
    """
    if previous is None or any(state is not None for state in observed.values()):
        return
    for index, pool in enumerate(inventory.pools):
        known = previous.encapsulations.get(pool.name, pool.encapsulation)
        rest = others(inventory, previous, observed, pool.name)
        if known == pool.encapsulation or not rest:
            continue
        new = ", ".join(sorted(observed))
        old = MODE_OF[known]
        chosen = pool.name in overrides
        raise FleetError(
            "mode" if chosen else f"calico_ip_pools[{index}]",
            None,
            f"asks for mode {MODE_OF[pool.encapsulation]} of pool {pool.name}, and {some(rest)} still "
            f"{'runs' if len(rest) == 1 else 'run'} it in mode {old}; {new} would not reach them.",
            f"Run playbooks/site.yml without --limit: it takes {new} into the fleet as it is, and the run after "
            f"changes the mode of all nodes (or playbooks/switch_pool_mode.yml does). Or put mode {old} back into the "
            "inventory. Nothing was changed.",
            "" if chosen else (origins or {}).get(pool.name, ""),
        )


def some(names: t.Sequence[str]) -> str:
    """Return up to three names and the number of the others: `node1, node2, node3 and 4 more`; "" for no names."""
    shown = list(names[:3]) + ([f"{len(names) - 3} more"] if len(names) > 3 else [])
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
