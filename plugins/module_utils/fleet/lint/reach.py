# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules that each node receives the routes to all other nodes' blocks, and that routers between subnets do.

It simulates how BGP advertises routes (RFC 4456 for reflectors). Each node has a set of origins, the nodes whose routes
it has, as the bits of an integer. The simulation ends when no set grows. Routers outside the fleet are assumed to be
connected with each other, and to advertise the own blocks of all nodes that have a session with any of them.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ...bgp.bird_state import BirdPeer
from ...resources import api as resources
from ..inventory.node_inventory import FleetNode
from .finding import Issue
from .network import LintedFleet, address_of, counted, listed


def incomplete(network: LintedFleet) -> t.Iterator[Issue]:
    """Report nodes that never receive the routes to others' blocks, because no chain of sessions advertises them.

    It makes at most one issue for each IP version of pools without disableBGPExport, about the node that lacks the
    most. Nodes without any session of the IP version are left out: the rule `node-without-session` reports those that
    have no session at all.
    """
    for family in sorted({pool.version for pool in network.fleet.pools if not pool.disableBGPExport}):
        nodes = [node.name for node in network.workload_nodes if network.speakers.get(node.name)]
        nodes = [name for name in nodes if network.speakers[name].end(family)]
        if len(nodes) < 2:
            continue
        bit = {name: 1 << index for index, name in enumerate(nodes)}
        heard = heard_of(network, family, bit)
        everything = (1 << len(nodes)) - 1
        lacking = [name for name in nodes if heard[name] != everything and _has_sessions(network, name, family)]
        if lacking:
            name = max(lacking, key=lambda one: bin(everything & ~heard[one]).count("1"))
            missing = [other for other in nodes if not heard[name] & bit[other]]
            more = counted(len(lacking) - 1, "other node")
            yield Issue(
                address_of(name, family),
                f"is that of a node that never learns routes to the blocks of {listed(missing)}: no chain of sessions "
                f"advertises them{f' ({more} also lack some)' if len(lacking) > 1 else ''}.",
                "Connect the reflectors with each other, or give the nodes reflectors in common.",
            )


def unknown_to_routers(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a pool without a tunnel on several subnets, if no router outside the fleet learns some nodes' blocks.

    Packets between the subnets go through routers, which drop what they have no route for. A router learns the blocks
    of the nodes that have a session with it, and of those whose routes a reflector advertises to it. Pools in
    calico_pools_known_to_routers, and those with disableBGPExport, are left out.
    """
    known = network.variable("calico_pools_known_to_routers") or ()
    learnt: dict[int, frozenset[str]] = {}
    for label, pool in network.pools:
        if pool.encapsulation != "None" or pool.name in known or pool.disableBGPExport:
            continue
        nodes = [node for node in _nodes_of(network, pool) if node.address_of(pool.version)]
        written = [node.cidr if pool.version == 4 else node.cidr6 for node in nodes]
        subnets = sorted(map(str, {ipaddress.ip_network(text, strict=False) for text in written}))
        if len(subnets) < 2:
            continue
        if pool.version not in learnt:
            learnt[pool.version] = _learnt_by_routers(network, pool.version)
        missing = [node.name for node in nodes if node.name not in learnt[pool.version]]
        if missing:
            yield Issue(
                f"{label}.cidr",
                f"is pool {pool.name} without a tunnel on {len(subnets)} subnets ({listed(subnets, 4)}), and no router "
                f"learns the blocks of {listed(missing)} by BGP: routers drop packets between the subnets.",
                "Let these nodes peer with the routers (calico_bgp_peers), set ipipMode or vxlanMode to CrossSubnet, "
                "or name the pool in calico_pools_known_to_routers if the routers have routes to its blocks otherwise.",
                value=pool.cidr,
            )


def _nodes_of(network: LintedFleet, pool: resources.IPPool) -> list[FleetNode]:
    """Return the workload nodes that have blocks of the pool or, unless it is disabled, that it selects."""
    chosen = set() if pool.disabled else {node.name for node in network.selected(pool)}
    parts = network.fleet.allocation.nodes
    return [
        node
        for node in network.workload_nodes
        if node.name in chosen
        or (
            node.name in parts
            and any(grant.pool == pool.name for grant in (*parts[node.name].blocks, *parts[node.name].spare_blocks))
        )
    ]


def _learnt_by_routers(network: LintedFleet, family: int) -> frozenset[str]:
    """Return the names of the nodes whose blocks a router outside the fleet learns over sessions of this IP version."""
    told = {
        name
        for name, found in network.sessions.items()
        if any(not peer.node and peer.family == family for peer in found)
    }
    if not any(network.reflectors.get(name) for name in told):
        return frozenset(told)
    names = list(network.speakers)
    heard = heard_of(network, family, {name: 1 << index for index, name in enumerate(names)})
    through = 0
    for name in told:
        if network.reflectors.get(name):
            through |= heard[name]
    return frozenset(told | {name for index, name in enumerate(names) if through >> index & 1})


def _has_sessions(network: LintedFleet, name: str, family: int) -> bool:
    """Return whether a BGP speaker has any session of this IP version. A node in the mesh counts as one that has."""
    return name in network.mesh or any(peer.family == family for peer in network.sessions[name])


class _Rib(t.NamedTuple):
    """The origins of the routes that a node has, each set as the bits of an integer.

    `free` are those that it may advertise to all peers. `inner` are those from iBGP peers that are not its clients.
    `reflected` are those from another reflector of its own cluster, which it advertises to no peer.
    """

    free: int
    inner: int
    reflected: int = 0


def heard_of(network: LintedFleet, family: int, bit: t.Mapping[str, int]) -> dict[str, int]:
    """Return the origins whose routes each node receives, itself included: a mapping from node name to an integer.

    `bit` gives origins their bits in these integers. Apart from the mesh, sessions that only one of two nodes has do
    not count. Nodes with a session with any router outside the fleet receive each other's own blocks.
    """
    ribs = {name: _Rib(bit.get(name, 0), 0) for name in network.speakers}
    ways = [
        (name, peer)
        for name, found in network.sessions.items()
        for peer in found
        if peer.family == family and (not peer.node or network.back(name, peer) is not None)
    ]
    meshed = sum(bit.get(name, 0) for name in network.mesh)
    outside = sum({bit.get(name, 0) for name, peer in ways if not peer.node})
    for name in network.mesh:
        ribs[name] = ribs[name]._replace(inner=meshed)
    while True:
        before = dict(ribs)
        for name, peer in ways:
            if peer.node:
                _tell(network, ribs, name, peer, bit.get(name, 0))
            elif peer.cluster_id is not None or peer.as_number != network.speakers[name].as_towards(peer):
                ribs[name] = ribs[name]._replace(free=ribs[name].free | outside)
            else:
                ribs[name] = ribs[name]._replace(inner=ribs[name].inner | outside)
        if ribs == before:
            return {name: rib.free | rib.inner | rib.reflected for name, rib in ribs.items()}


def _tell(network: LintedFleet, ribs: dict[str, _Rib], name: str, peer: BirdPeer, own_bit: int) -> None:
    """Advertise the routes of node `name` to the node `peer.node`: update that node's entry in `ribs`.

    These are its own blocks, `own_bit`, and from a reflector with clients also others' routes, as BGP permits.
    """
    own, theirs = network.speakers[name], network.speakers[peer.node]
    back = network.back(name, peer)
    inner_bgp = peer.as_number == own.as_towards(peer)
    passed = 0
    if network.reflectors.get(name):
        passed = ribs[name].free
        if peer.cluster_id is not None or not inner_bgp:
            passed |= ribs[name].inner
    free, inner, reflected = ribs[peer.node]
    if inner_bgp and own.cluster_id and own.cluster_id == theirs.cluster_id:
        reflected |= passed & ~own_bit
        passed = 0
    told = own_bit | passed
    by_client = back is not None and back.cluster_id is not None
    if inner_bgp and not by_client:
        ribs[peer.node] = _Rib(free, inner | told, reflected)
    else:
        ribs[peer.node] = _Rib(free | told, inner, reflected)
