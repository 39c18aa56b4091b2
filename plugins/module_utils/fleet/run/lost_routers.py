# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths between subnets that a run cuts, because no router outside the fleet learns a node's blocks any more.

Without a tunnel, packets to a node of another subnet pass routers, which drop what they have no route for. Until a run
ends the session, the router still forwards, so that no probe of the run foretells the loss.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ...base.addresses import family_of, inside
from ...bgp.bird_state import Bird
from ...state.node_state import NodeState


@dataclasses.dataclass(frozen=True)
class Cut:
    """The paths of a pool to one node that a run cuts.

    They come from `paths` nodes of other subnets; `source` is the first of these.
    """

    pool: str
    node: str
    source: str
    paths: int

    def __str__(self) -> str:
        others = self.paths - 1
        more = f" and {others} other node{'s'[: others != 1]}" if others else ""
        return f"to {self.node} from {self.source}{more}"


def cuts(
    before: t.Mapping[str, t.Optional[NodeState]],
    after: t.Mapping[str, t.Optional[Bird]],
    pools: t.Mapping[str, str],
) -> tuple[Cut, ...]:
    """Return the paths that are cut, sorted by pool and node. The work is linear in the nodes.

    `before` has the stored states and `after` the new data for BIRD, by node name; nodes of one of them alone are left
    out. `pools` maps the CIDRs of the pools whose blocks routers learn from nodes alone to the pools' names. A node's
    blocks are learnt if it has a session with a router outside, or a reflector has one.
    """
    olds = {name: state.bird for name, state in before.items() if state is not None and state.bird is not None}
    news = {name: bird for name, bird in after.items() if bird is not None}
    found: list[Cut] = []
    lost = {family: _learnt(olds, family) - _learnt(news, family) for family in (4, 6)}
    for cidr, pool in pools.items():
        family = family_of(cidr)
        gone = lost[family].intersection(news)
        members = _members(news, cidr, family) if gone else []
        in_subnet = collections.Counter(subnet for _name, subnet in members)
        if len(in_subnet) < 2:
            continue
        first = members[0]
        beyond = next(member for member in members if member[1] != first[1])
        for name, subnet in members:
            if name in gone:
                source = first if subnet != first[1] else beyond
                found.append(Cut(pool, name, source[0], len(members) - in_subnet[subnet]))
    return tuple(sorted(found, key=lambda one: (one.pool, one.node)))


def _learnt(birds: t.Mapping[str, Bird], family: int) -> frozenset[str]:
    """Return the nodes whose blocks routers outside the fleet learn over sessions of this IP version."""
    told = frozenset(
        name
        for name, bird in birds.items()
        if any(peer.kind == "external" and peer.family == family for peer in bird.peers)
    )
    return frozenset(birds) if any(birds[name].cluster_id for name in told) else told


def _members(birds: t.Mapping[str, Bird], cidr: str, family: int) -> list[tuple[str, str]]:
    """Return (node, its subnet), sorted, for the nodes that advertise blocks of the pool and use no tunnel for it."""
    found = []
    for name, bird in sorted(birds.items()):
        pool = next((one for one in bird.pools if one.cidr == cidr), None)
        if pool is None or pool.device or not pool.export:
            continue
        if any(family_of(block) == family and inside(block, cidr) for block in bird.blocks):
            found.append((name, bird.subnet6 if family == 6 else bird.subnet))
    return found
