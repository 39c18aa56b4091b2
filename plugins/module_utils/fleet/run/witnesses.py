# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stored states of nodes may decide about a run of all nodes.

Root on a node writes that node's state. A change of the whole fleet, a limit that is exceeded and a phase that needs
all nodes therefore need more than the word of a few. What a few alone say concerns only these nodes: they go to their
target by themselves, or are left out and named.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ...state.fleet_list import FleetMember, bare, has_moved
from ...state.node_state import NodeState
from .. import firewall
from ..change import transition
from .impact import Impact, ImpactLimits

#: The most nodes that are left out because a run would exceed its limits only by what their own stored states say.
MOST = 64

_Pools = t.Sequence[t.Any]  # pools with an encapsulation, as transition.needed takes them


@dataclasses.dataclass(frozen=True)
class FleetChange:
    """Whether all nodes have to go through the phases of a change, and the nodes that alone say so if not.

    `moved` has the nodes that get another address by their own word and that of most nodes, such as "node2 10.10.1.12
    -> 10.10.1.62" for each IP version.
    """

    needed: bool
    alone: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()


def fleet_change(
    observed: t.Mapping[str, t.Optional[NodeState]],
    pools: _Pools,
    underlay_mtu: int,
    remembered: t.Mapping[str, str],
    members: t.Iterable[FleetMember] = (),
) -> FleetChange:
    """Return whether the fleet needs the phases of a change to get to `pools` and `underlay_mtu` (in bytes).

    A node says so if its state has backup routes, if `transition.needed` holds for it, or if it knows the earlier
    address of a node that says that its address is another one than in `members`, the fleet's nodes to come. More than
    half of the nodes with a state must say so, or half of them if the lockfile remembers (`remembered`, by pool)
    another encapsulation of a pool, or none. If the fleet does not need them, the result names the nodes that say so,
    sorted. The phases of nodes in an interrupted change differ by one at most. So if half of the nodes are at rest in
    the new modes, the others are one step before or behind, and need no phases.
    """
    states = {node: state for node, state in observed.items() if state is not None}
    by_name = {member.name: member for member in members}
    moved = {
        node: by_name[node] for node, state in states.items() if node in by_name and has_moved(state, by_name[node])
    }
    saying = tuple(
        sorted(
            node
            for node, state in states.items()
            if _in_change(state, pools, underlay_mtu) or (moved and _knows_another_address(state, moved))
        )
    )
    others = len(states) - len(saying)
    as_remembered = all(remembered.get(pool.name) == pool.encapsulation for pool in pools)
    if len(saying) > others or (len(saying) == others > 0 and not as_remembered):
        return FleetChange(True, moved=tuple(_moved(states, moved)))
    return FleetChange(False, saying)


def _knows_another_address(state: NodeState, moved: t.Mapping[str, FleetMember]) -> bool:
    return any(known.name in moved and has_moved(known, moved[known.name]) for known in state.nodes)


def _moved(states: t.Mapping[str, NodeState], moved: t.Mapping[str, FleetMember]) -> t.Iterator[str]:
    """Yield the texts of `FleetChange.moved` about those nodes in `moved` whose earlier address most states know."""
    for name, now in sorted(moved.items()):
        before = states[name]
        if 2 * sum(_knows_another_address(state, {name: now}) for state in states.values()) > len(states):
            for old, new in ((before.address, now.address), (before.address6, now.address6)):
                if old and new and bare(old) != bare(new):
                    yield f"{name} {bare(old)} -> {bare(new)}"


def _in_change(state: NodeState, pools: _Pools, underlay_mtu: int) -> bool:
    backups = state.bird is not None and bool(state.bird.backups)
    return backups or transition.needed(state, pools, underlay_mtu)


def earlier_addresses(
    observed: t.Mapping[str, t.Optional[NodeState]],
    held: t.Mapping[str, t.Collection[str]],
    members: t.Iterable[FleetMember],
) -> dict[str, str]:
    """Return {IPv4 address: node} of the addresses that nodes had in the fleet, and that their hosts still have.

    `held` has the addresses that hosts say they have. More than half of the nodes that accept IPIP must accept tunnels
    from such an address: a host alone cannot add one. While a host has two addresses, its kernel chooses the source of
    IPIP, and often takes the older one.
    """
    expected = {bare(member.address) for member in members if member.address}
    accepted = [
        ipset.members
        for state in observed.values()
        if state is not None and any(device.kind == "ipip" for device in state.devices)
        for ipset in state.ipsets
        if ipset.name == firewall.ALL_HOSTS[4]
    ]
    known = tuple(sorted(expected))
    counts = collections.Counter(
        address for addresses in accepted if addresses != known for address in {*addresses} - expected
    )
    kept = [address for address, count in counts.items() if 2 * count > len(accepted)]
    return {address: node for address in kept for node in sorted(held) if address in held[node]}


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
    by_size = sorted(alone, key=lambda node: (-alone[node].entries, node))
    for node in by_size[:MOST]:
        if not limits.exceeded(found):
            break
        less = found.without(alone[node])
        if limits.excess(less) < limits.excess(found):
            out.append(node)
            found = less
    return tuple(sorted(out)) if not limits.exceeded(found) and sole_reporters(out, observed) else ()
