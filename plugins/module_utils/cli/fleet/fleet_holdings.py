# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses that `ipam check` compares on this host: those of the datastore, and on a node its own.

Nodes cannot be asked by the datastore. Each says in its heartbeat how many workloads it has.
"""

from __future__ import annotations

import os
import time
import typing as t

from ..sources import Sources
from . import fleet_view

if t.TYPE_CHECKING:
    from .fleet_check import FleetCheck, FleetKnowledge, NodeHolds
    from .published_fleet import PublishedFleet

_ETCD = "etcd"
#: Seconds until a change of workloads is published, and until it is counted in a heartbeat, which comes every 10 s.
_PUBLISHES, _BEATS = 2.0, 11.0
_ALL = "`calicoctl ipam check -i INVENTORY` on the controller asks all nodes."


def compare(sources: Sources, says_so: bool, node: str = "") -> t.Optional[FleetCheck]:
    """Return the check of the fleet with this node's answer, or with none on the controller; None without a datastore.

    With `node`, another one, only its workloads are read, and this node does not answer. Differences that may be a
    moment's are looked at again. The user gets a sentence about what the check does not cover; without a datastore only
    with `says_so`. Raise CommandError for what `fleet_view.ask` raises it.
    """
    if sources.is_node and not os.access(sources.paths.state, os.R_OK):
        if sources.connection.possible:
            sources.warn("this is this node's view alone: only root may ask the datastore.")
        return None
    view = fleet_view.ask(sources, node, says_so=says_so, complains=False)
    if view.published is None:
        return None
    from . import fleet_check

    own = "" if node else view.own
    found = fleet_check.check(_knowledge(sources, own, view.published, node))
    if any(found.found.get(kind) for kind in fleet_check.MOMENTARY):
        time.sleep(_BEATS if found.found["counts"] else _PUBLISHES)
        view = fleet_view.ask(sources, node, complains=False)
        if view.published is None:
            return None
        found = fleet_check.check(_knowledge(sources, own, view.published, node), found)
    if node:
        who = f"{node} was not asked: this is what it has"
    else:
        asked = f"of the nodes, only {own}" if own else "no node"
        who = f"{asked} was asked: of the others this is what they have"
    sources.warn(f"{who} published. {_ALL}")
    return found


def _knowledge(sources: Sources, own: str, published: PublishedFleet, node: str) -> FleetKnowledge:
    from . import fleet_check

    return fleet_check.FleetKnowledge(
        _ETCD,
        published.blocks,
        fleet_check.knowledge_of(published),
        {own: _own(sources)} if own else {},
        counts=_counts(sources, published, own, node),
        complaints=published.complaints,
    )


def _own(sources: Sources) -> NodeHolds:
    from . import fleet_check

    state = sources.state()
    return fleet_check.NodeHolds(
        tuple(block.cidr for block in (*state.ipam.blocks, *state.ipam.spare_blocks)),
        {f"{one.namespace}/{one.name}": one.addresses for one in sources.workloads()},
        {f"{one.namespace}/{one.name}": one.addresses for one in state.workloads},
    )


def _counts(sources: Sources, published: PublishedFleet, own: str, only: str) -> dict[str, tuple[int, int]]:
    """Return (workloads by its heartbeat, workloads that it has published) of other nodes where they differ."""
    by_node = dict.fromkeys(published.blocks, 0)
    for one in published.workloads:
        by_node[one.endpoint.node] = by_node.get(one.endpoint.node, 0) + 1
    beats = sources.heartbeats() or {}
    counted = {
        node: beat.workloads for node, beat in beats.items() if node in by_node and node != own and only in ("", node)
    }
    return {node: (count, by_node[node]) for node, count in counted.items() if count != by_node[node]}
