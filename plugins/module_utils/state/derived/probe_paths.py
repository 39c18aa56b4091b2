# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths on which a node sends probes to the other nodes, and those that it does not try, with reasons.

A path leads from the node's probe endpoint to an address of another node's, in one pool. Controller and agents derive
the list from a NodeState alone, so that all speak of the same paths.
"""

from __future__ import annotations

import dataclasses
import typing as t
import zlib

from ...base import naming
from ...base.addresses import Network, family_of, network, within
from ...bgp import route_sources
from ...bgp.bird_state import BirdRoute
from ...bgp.filter_rules import EXPORT, IMPORT
from ...bgp.filter_verdict import surely_rejects
from ..fleet_list import bare
from ..node_state import TABLE_MAIN, NodeState, Pool, overhead
from ..phase import Phase

#: The most nodes that an Untried names.
NAMED = 6

SINGLE = "its blocks have one address each"
UNPROBED = "no node has a probe address in it"
NO_ENDPOINT = "nodes have no probe endpoint"
FULL = "no free address for a probe"
NOT_ADVERTISED = "disableBGPExport keeps its routes from other nodes"
FILTERED = "BGPFilters keep its routes from nodes"
SAMPLED = "calico_node_probe_sample leaves them out"


@dataclasses.dataclass(frozen=True)
class ProbePath:
    """A path in `pool` to an address of the probe endpoint of `node`.

    `source` is the address of the own endpoint, which is in the same pool if the node has a block of it. `size` is that
    of the largest IP packet on the path, in bytes.
    """

    pool: str
    node: str
    source: str
    address: str
    size: int


@dataclasses.dataclass(frozen=True)
class Untried:
    """Paths that are not tried for one `reason`.

    They are `count` paths of `pool`; or with pool "" all paths of `count` nodes. `nodes` has the names of at most NAMED
    nodes, sorted: of those at the other end, or of the nodes that took no part.
    """

    pool: str
    reason: str
    count: int
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.pool:
            more = f" and {self.count - len(self.nodes)} more" if self.count > len(self.nodes) else ""
            return f"paths of {', '.join(self.nodes)}{more} ({self.reason})"
        return f"{self.count} {'path' if self.count == 1 else 'paths'} of pool {self.pool} ({self.reason})"


class ProbePlan(t.NamedTuple):
    """The paths that a node probes, by node and pool, and those that it does not try."""

    paths: list[ProbePath]
    untried: list[Untried]


class PathEnd(t.NamedTuple):
    """What a node has at its end of paths: the names of the pools of its blocks, and {pool: probe address}."""

    pools: frozenset[str]
    probes: t.Mapping[str, str]


def plan(state: NodeState, *, sample: int = 0, turn: int = 0, proof: bool = False) -> ProbePlan:
    """Return what a node probes: one path for each other node and each pool in which that node has a probe address.

    A node without a block of a pool probes from its first address of the IP version: so its workloads send. Paths that
    are closed by intent are not tried: those of pools with disable_bgp_export, and those between blocks whose routes
    BGPFilters in `state` reject on all sessions. A `sample` > 0 keeps at most that many paths of each pool, spread over
    the fleet. Other values of `turn` give other samples: with n paths, n / sample successive ones (rounded up) have
    each path. Both lists are empty for a pure reflector, which has no route to any block.

    `proof` is True for probes before the phase `flip`, whose state `state` is. Then packets that only routers outside
    the fleet will forward still take the old path, so on those paths `size` is at most the MTU that fits both modes.
    """
    if state.bird is not None and not state.bird.workload_node:
        return ProbePlan([], [])
    pools = [pool for pool in state.pools if (state.address6 if family_of(pool.cidr) == 6 else state.address)]
    own, others = _ends(state)
    choice = _Choice(state, pools, own, others, proof)
    gaps: dict[tuple[str, str], list[str]] = {}
    paths: list[ProbePath] = []
    for pool in pools:
        kept: list[ProbePath] = []
        for name, other in others.items():
            if pool.name in other.pools or pool.name in other.probes:
                path = choice.path(pool, name, other)
                if isinstance(path, ProbePath):
                    kept.append(path)
                else:
                    gaps.setdefault((pool.name, path), []).append(name)
        picked = sampled(kept, sample, turn + zlib.crc32(f"{state.node} {pool.name}".encode()))
        if len(picked) < len(kept):
            gaps[pool.name, SAMPLED] = [path.node for path in set(kept).difference(picked)]
        paths += picked
    return ProbePlan(sorted(paths, key=lambda path: path.node), grouped(gaps))


T = t.TypeVar("T")


def sampled(found: t.Sequence[T], sample: int, turn: int) -> list[T]:
    """Return `sample` of `found` at equal distances, from a place on that moves by one with each `turn`; all for 0."""
    count = len(found)
    if not 0 < sample < count:
        return list(found)
    return [found[(turn + index * count // sample) % count] for index in range(sample)]


def missing(pool: Pool, own: PathEnd, other: PathEnd, probed: t.Container[str]) -> t.Optional[str]:
    """Return why a path between two ends lacks an address in `pool`, None if it has both.

    `probed` has the names of pools in which any node has an address. An `own` end without a block of the pool can have
    its address in another pool of the IP version.
    """
    if pool.name in own.pools or pool.name in own.probes:
        has_own = pool.name in own.probes
    else:
        has_own = any(family_of(address) == family_of(pool.cidr) for address in own.probes.values())
    if has_own and pool.name in other.probes:
        return None
    if pool.block_size == (128 if family_of(pool.cidr) == 6 else 32):
        return SINGLE
    if not own.probes or not other.probes:
        return NO_ENDPOINT
    return FULL if pool.name in probed else UNPROBED


def grouped(gaps: t.Mapping[tuple[str, str], t.Collection[str]]) -> list[Untried]:
    """Return an Untried for each (pool, reason) in `gaps`, whose values are the names of nodes at the other ends."""
    return [Untried(pool, reason, len(nodes), tuple(sorted(nodes)[:NAMED])) for (pool, reason), nodes in gaps.items()]


def _ends(state: NodeState) -> tuple[PathEnd, dict[str, PathEnd]]:
    """Return this node's end of paths, and those of the other nodes that have blocks or addresses, by sorted names."""
    networks = [(network(pool.cidr), pool.name) for pool in state.pools]
    blocks: dict[str, set[str]] = {}
    for cidr, name in _owners(state):
        pool = _pool_of(cidr, networks)
        if pool is not None:
            blocks.setdefault(name, set()).add(pool)
    others = {}
    for member in sorted(state.nodes, key=lambda one: one.name):
        probes = {_pool_of(address, networks): address for address in member.probes}
        named = {pool: address for pool, address in probes.items() if pool is not None}
        owned = frozenset(blocks.get(member.name, ()))
        if member.name != state.node and (owned or named):
            others[member.name] = PathEnd(owned, named)
    ipam = state.ipam
    own = frozenset(block.pool for block in (*ipam.blocks, *ipam.spare_blocks))
    return PathEnd(own, ipam.probes), others


def _pool_of(cidr: str, networks: t.Iterable[tuple[Network, str]]) -> t.Optional[str]:
    return next((name for outer, name in networks if within(cidr, outer)), None)


def _owners(state: NodeState) -> t.Iterator[tuple[str, str]]:
    """Yield (block, name of the other node that has it), as far as routes name the node."""
    if state.bird is not None:
        yield from ((route.destination, route.node) for route in state.bird_routes)
        return
    by_gateway = _gateways(state)
    for route in state.routes:
        if route.gateway and route.table == TABLE_MAIN and route.gateway in by_gateway:
            yield route.destination, by_gateway[route.gateway]


def _gateways(state: NodeState) -> dict[str, str]:
    """Return the name of each node by the addresses that are gateways to its blocks without BGP."""
    found = {}
    by_mac = {naming.vtep_mac(member.name): member.name for member in state.nodes}
    for member in state.nodes:
        found.update({bare(address): member.name for address in (member.address, member.address6) if address})
        found[naming.vtep_link_local(member.name)] = member.name
    for entry in state.neighbors:
        if entry.mac in by_mac:
            found.setdefault(entry.address, by_mac[entry.mac])
    return found


class _Choice:
    """The rules by which a node picks its path to another node in a pool, or the reason why it tries none."""

    def __init__(
        self, state: NodeState, pools: t.Sequence[Pool], own: PathEnd, others: t.Mapping[str, PathEnd], proof: bool
    ) -> None:
        self._state, self._pools, self._own, self._proof = state, pools, own, proof
        self._hidden = {pool.name for pool in pools if pool.disable_bgp_export and state.bird is not None}
        self._probed = {*own.probes, *(name for other in others.values() for name in other.probes)}
        self._routes = _Routes(state)

    def path(self, pool: Pool, name: str, other: PathEnd) -> t.Union[ProbePath, str]:
        """Return the path in `pool` to the node `name`, which has `other` there, or the reason why none is tried."""
        if pool.name in self._hidden:
            return NOT_ADVERTISED
        reason = missing(pool, self._own, other, self._probed)
        if reason is not None:
            return reason
        found = self._source(pool)
        if found.name in self._hidden:
            return NOT_ADVERTISED
        source, address = self._own.probes[found.name], other.probes[pool.name]
        if self._routes.closed(source, address, name):
            return FILTERED
        old_way = self._state.phase not in (Phase.FLIP, Phase.CONVERGE)
        old_way = old_way or (self._proof and self._routes.by_routers(address, name))
        size = min(_size(self._state, one, old_way) for one in (pool, found))
        return ProbePath(pool.name, name, source, address, size)

    def _source(self, pool: Pool) -> Pool:
        """Return the pool of the source address: `pool`, or the first of its IP version, if possible not a hidden one.

        It assumes that `missing` found an address.
        """
        if pool.name in self._own.probes:
            return pool
        version = family_of(pool.cidr)
        fitting = [one for one in self._pools if one.name in self._own.probes and family_of(one.cidr) == version]
        return next((one for one in fitting if one.name not in self._hidden), fitting[0])


def _size(state: NodeState, pool: Pool, old_way: bool) -> int:
    """Return the bytes of the largest IP packet in `pool`, with `old_way` of one that fits the mode before a change."""
    size = state.underlay_mtu - overhead(pool.encapsulation, pool.cidr)
    return size if pool.route_mtu is None or not old_way else min(size, pool.route_mtu)


class _Routes:
    """The routes of BIRD by node, and what the sessions do to them that may bring them."""

    def __init__(self, state: NodeState) -> None:
        self._bird = state.bird
        self._routes = state.bird_routes
        self._by_node: dict[str, list[tuple[Network, BirdRoute]]] = {}

    def _route(self, address: str, name: str) -> t.Optional[BirdRoute]:
        if not self._by_node:
            for route in self._routes:
                self._by_node.setdefault(route.node, []).append((network(route.destination), route))
        host = network(address)
        return next((route for block, route in self._by_node.get(name, ()) if block.holds(host)), None)

    def by_routers(self, address: str, name: str) -> bool:
        """Return whether only routers outside of the fleet bring the route to `address` of the node `name`."""
        route = self._route(address, name) if self._bird is not None else None
        return self._bird is not None and route is not None and route_sources.by_routers_alone(self._bird, route)

    def closed(self, source: str, address: str, name: str) -> bool:
        """Return whether BGPFilters of this node close the path from `source` to `address` of the node `name`.

        They do if they reject the route to either from all sessions, also those with routers, that may carry it.
        """
        bird = self._bird
        if bird is None or not bird.filters:
            return False
        route = self._route(address, name)
        if route is None:
            return False
        peers = route_sources.sessions(bird, route)
        if not peers:
            return False
        if all(surely_rejects(bird, peer, route.destination, IMPORT) for peer in peers):
            return True
        blocks = [block for block in bird.blocks if within(source, network(block))]
        return bool(blocks) and all(surely_rejects(bird, peer, blocks[0], EXPORT) for peer in peers)
