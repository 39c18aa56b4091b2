# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory with the modes and the MTU that the running nodes have, so that a run keeps them."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ...state.errors import FleetError
from ...state.node_state import NodeState
from ...state.phase import AT_REST
from ..change import transition
from ..inventory.inventory import Inventory
from .pool_modes import live_modes, some


def with_modes(inventory: Inventory, modes: t.Mapping[str, str]) -> Inventory:
    """Return the inventory with these encapsulations by pool. Raise ResourceError for one that its pool cannot have."""
    if not modes:
        return inventory
    pools = tuple(pool.with_encapsulation(modes[pool.name]) if pool.name in modes else pool for pool in inventory.pools)
    return dataclasses.replace(inventory, pools=pools)


def as_live(inventory: Inventory, states: t.Sequence[NodeState], remembered: t.Mapping[str, str]) -> Inventory:
    """Return the inventory with the modes that the nodes run, and the underlay's MTU that most of those at rest have.

    Most are more than half; without such an MTU the inventory's stays. A pool whose mode `live_modes` does not tell has
    the mode that the lockfile remembers, or else the inventory's. A pool that no node has keeps the inventory's mode,
    and so does an IPv6 pool if its other mode were IPIP.
    """
    mtus = collections.Counter(state.underlay_mtu for state in states if state.phase in AT_REST)
    mtu, count = next(iter(mtus.most_common(1)), (0, 0))
    if 2 * count > sum(mtus.values()):
        settings = dataclasses.replace(inventory.settings, underlay_mtu=mtu)
        inventory = dataclasses.replace(inventory, settings=settings)
    live = live_modes(states)
    contested = {pool.name for state in states for pool in state.pools if pool.name not in live}
    live.update((name, remembered[name]) for name in contested if name in remembered)
    six = {item.name for item in inventory.pools if item.version == 6}
    return with_modes(inventory, {name: mode for name, mode in live.items() if name not in six or "IPIP" not in mode})


def joined_first(
    inventory: Inventory, observed: t.Mapping[str, t.Optional[NodeState]], fresh: t.Sequence[str], mode: t.Optional[str]
) -> Inventory:
    """Return the inventory with the modes and the MTU that the running nodes have, so that new nodes can join first.

    Those nodes count that `_agreeing` returns. A node without sessions and routes cannot take part in a change in
    phases. Raise FleetError if the command line asks for a mode (`mode`), or if a node that counts would need phases
    even so, as when it is in the middle of a change or the nodes that count have different modes.
    """
    states = [state for state in observed.values() if state is not None]
    agreeing = _agreeing(states)
    live = as_live(inventory, agreeing, {})
    settled = not any(transition.needed(state, live.pools, live.settings.underlay_mtu) for state in agreeing)
    if mode is None and settled:
        return live
    are = "is" if len(fresh) == 1 else "are"
    stopped = [state for state in states if state.phase not in AT_REST]
    if stopped:
        names = sorted(state.node for state in stopped)
        raise FleetError(
            "plan",
            None,
            f"has to end a change of {_what_was_changed(inventory, states)} first, which an earlier run left half-way "
            f"on {some(names)}, and {', '.join(fresh)} {are} not running yet.",
            f"Take {'it' if len(fresh) == 1 else 'them'} out of the inventory for one run of playbooks/site.yml, which "
            "ends that change, and put back for the next. Nothing was changed.",
        )
    variable, value, what = asked_change(inventory.settings.underlay_mtu, states)
    raise FleetError(
        variable,
        value,
        f"{what}, and {', '.join(fresh)} {are} not running yet.",
        "Run playbooks/site.yml first, so that they join the fleet as it is, or leave them out of group calico_nodes. "
        "Nothing was changed.",
    )


def asked_change(underlay_mtu: int, states: t.Iterable[t.Optional[NodeState]]) -> tuple[str, t.Optional[int], str]:
    """Return the variable that asks for a change in phases, its value to show, and the words for what it asks.

    `underlay_mtu` is the inventory's, in bytes; `states` are those of the nodes.
    """
    others = sorted({state.underlay_mtu for state in states if state is not None} - {underlay_mtu})
    if others:
        return "calico_underlay_mtu", underlay_mtu, f"asks for a change from {' and '.join(map(str, others))}"
    return "calico_ip_pools", None, "asks for a change of mode or MTU"


def _agreeing(states: t.Sequence[NodeState]) -> t.Sequence[NodeState]:
    """Return the states at rest in the same modes and MTU if they are more than half, else all; there must be one."""
    alike: dict[t.Any, list[NodeState]] = {}
    for state in states:
        modes = tuple(sorted(live_modes([state]).items()))
        alike.setdefault((state.phase in AT_REST, state.underlay_mtu, modes), []).append(state)
    (resting, *dummy), most = max(alike.items(), key=lambda item: len(item[1]))
    return most if resting and 2 * len(most) > len(states) else states


def _what_was_changed(inventory: Inventory, states: t.Sequence[NodeState]) -> str:
    """Return "BGP sessions" if a stopped run changed only these (there are backup routes), else "mode or MTU"."""
    wanted = {item.name: item.encapsulation for item in inventory.pools}
    modes = [entry for state in states for entry in live_modes([state]).items()]
    same_modes = all(wanted.get(name, mode) == mode for name, mode in modes)
    same_mtu = {state.underlay_mtu for state in states} == {inventory.settings.underlay_mtu}
    if same_modes and same_mtu and any(state.bird and state.bird.backups for state in states):
        return "BGP sessions"
    return "mode or MTU"
