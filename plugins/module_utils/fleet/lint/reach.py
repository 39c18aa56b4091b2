# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether every node hears of every other one's blocks, over whatever sessions.

Worked out as BGP passes routes on (RFC 4456 for reflectors): a set of origins for each node, as bits of a number, until
nothing is added. Of routers outside the fleet it is assumed that they pass on what they hear.
"""

from __future__ import annotations

import typing as t

from ...bgp.bird_state import BirdPeer
from .finding import Issue
from .network import LintedFleet, address_of, counted, listed


def incomplete(network: LintedFleet) -> t.Iterator[Issue]:
    """Some nodes never hear of the blocks of others: no chain of sessions carries them."""
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
                address_of(name),
                None,
                f"is that of a node that never hears of the blocks of {listed(missing)}: no chain of sessions carries "
                f"them{f' ({more} also lack some)' if len(lacking) > 1 else ''}.",
                "Connect the reflectors with each other, or give the nodes reflectors in common.",
            )


def _has_sessions(network: LintedFleet, name: str, family: int) -> bool:
    """Of one without any another rule speaks."""
    return name in network.mesh or any(peer.family == family for peer in network.sessions[name])


class _Rib(t.NamedTuple):
    """What a node knows, as bits: what it may pass on to everybody, what iBGP peers that are no clients told it, and
    what another reflector of its own cluster reflected, which it passes on to nobody."""

    free: int
    inner: int
    reflected: int = 0


def heard_of(network: LintedFleet, family: int, bit: t.Mapping[str, int]) -> dict[str, int]:
    """{node: the origins that it hears of, itself among them}"""
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
    """`name` tells its peer its own blocks; a reflector what others announced as well, to each as BGP lets it."""
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
