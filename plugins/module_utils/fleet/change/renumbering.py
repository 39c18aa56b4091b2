# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that get other addresses on the underlay: which they are, and earlier states with the new addresses.

A host's address is no choice of the fleet. So a node that returns to an earlier state keeps the address that its host
has, and so do the other nodes in that state. Two nodes may have exchanged their addresses: an address alone does not
say which node it belongs to.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import iptables_encoding as encoding
from ...base import naming
from ...base.addresses import contains, family_of, inside, number
from ...bgp import peering, placement
from ...bgp.bird_state import Bird, BirdPeer, BirdRoute
from ...state.fleet_list import FleetMember, bare, has_moved
from ...state.node_state import TABLE_MAIN, IpSet, IptablesTable, NodeState, Route
from ...state.phase import AT_REST

#: A mapping from (name of a node, earlier address) to the node's new address of the same IP version.
Moves = t.Mapping[tuple[str, str], str]


def moves(current: NodeState, target: NodeState) -> Moves:
    """Return the addresses of `current` that nodes of `target` no longer have, with those that they have instead.

    An address that a node gets or loses is none of them. In the middle of a change the list of nodes in `current` is
    the new one, while its sessions are the old ones. Then the peers' addresses count as well.
    """
    now = {member.name: member for member in target.nodes}
    known = [(member.name, bare(cidr)) for member in current.nodes for cidr in (member.address, member.address6)]
    known += [(current.node, bare(cidr)) for cidr in (current.address, current.address6)]
    if current.bird is not None and current.phase not in AT_REST:
        known += [(current.node, current.bird.address), (current.node, current.bird.address6)]
        kept = {(peer.node, peer.address) for peer in target.bird.peers} if target.bird is not None else set()
        known += [end for end in ((peer.node, peer.address) for peer in current.bird.peers) if end not in kept]
    found = {}
    for name, old in known:
        new = _address_of(now.get(name), old)
        if new and new != old:
            found[name, old] = new
    return found


def _address_of(member: t.Optional[FleetMember], like: str) -> str:
    """Return the member's address of the IP version of `like`, "" for none; also "" if either argument is empty."""
    if member is None or not like:
        return ""
    return bare(member.address6 if family_of(like) == 6 else member.address)


def returned(before: NodeState, target: NodeState) -> NodeState:
    """Return the earlier state `before` of the node `target`, with the addresses that nodes have in `target`.

    Tunnels are accepted from earlier addresses, too: while a host has both, its kernel may choose either. Without BGP,
    a route to a block in a pool of the same mode is that of `target`, if there is one. The result is `before` itself if
    no node has another address.
    """
    found = moves(before, target)
    if not found:
        return before
    own = {old: new for (name, old), new in found.items() if name == before.node}
    owners = _by_owner(found)
    now = {member.name: member for member in target.nodes}
    bird = before.bird and bird_with_addresses(before.bird, found, target)
    routes = routes_with_addresses(before.bird_routes, found)
    return dataclasses.replace(
        before,
        address=target.address if bare(before.address) in own else before.address,
        address6=target.address6 if bare(before.address6) in own else before.address6,
        devices=tuple(dataclasses.replace(one, local=own.get(one.local, one.local)) for one in before.devices),
        neighbors=tuple(
            dataclasses.replace(one, address=owners.get(one.address, one.address)) for one in before.neighbors
        ),
        fdb=tuple(
            dataclasses.replace(one, destination=owners.get(one.destination, one.destination)) for one in before.fdb
        ),
        routes=tuple(_routes_of_plan(before, target, owners)),
        ipsets=tuple(_ipset(ipset, owners) for ipset in before.ipsets),
        iptables=tuple(_table(table, own) for table in before.iptables),
        bird=bird,
        bird_routes=tuple(placement.placed(route, bird) for route in routes) if bird is not None else routes,
        nodes=tuple(_member(member, now.get(member.name)) for member in before.nodes),
    )


def _routes_of_plan(before: NodeState, target: NodeState, owners: t.Mapping[str, str]) -> t.Iterator[Route]:
    """Yield the routes of `before`. Which nodes are neighbours of a node depends on all their addresses."""
    modes = {pool.cidr: pool.encapsulation for pool in target.pools}
    same = [pool.cidr for pool in before.pools if modes.get(pool.cidr) == pool.encapsulation]
    instead = {
        route.destination: route
        for route in target.routes
        if route.gateway and route.table == TABLE_MAIN and any(inside(route.destination, cidr) for cidr in same)
    }
    for route in before.routes:
        if route.gateway and route.table == TABLE_MAIN:
            moved = dataclasses.replace(route, gateway=owners.get(route.gateway, route.gateway))
            yield instead.get(route.destination, moved)
        else:
            yield route


def _ipset(ipset: IpSet, owners: t.Mapping[str, str]) -> IpSet:
    added = {owners[member] for member in ipset.members if member in owners}
    return dataclasses.replace(ipset, members=tuple(sorted({*ipset.members, *added}))) if added else ipset


def _table(table: IptablesTable, own: t.Mapping[str, str]) -> IptablesTable:
    if table.family == 4 or not own:
        return table
    words = {from_source(old): from_source(new) for old, new in own.items()}

    def changed(rule: str) -> str:
        old = next((word for word in words if rule.startswith(word)), "")
        return words[old] + rule[len(old) :] if old else rule

    return dataclasses.replace(table, chains={name: tuple(map(changed, rules)) for name, rules in table.chains.items()})


def from_source(address: str) -> str:
    """Return how a rule about packets from this address alone begins."""
    return f"-s {encoding.cidr(address)} "


def _member(member: FleetMember, now: t.Optional[FleetMember]) -> FleetMember:
    if now is None or not has_moved(member, now):
        return member
    return dataclasses.replace(
        member, address=member.address and now.address, address6=member.address6 and now.address6
    )


def bird_with_addresses(bird: Bird, found: Moves, target: NodeState) -> Bird:
    """Return `bird`, of an earlier state of the node `target`, with the addresses that `found` says; not its routes.

    `target` must have BIRD. Names of sessions follow their addresses. A router outside of the node's new subnet is no
    longer expected to be its neighbour.
    """
    if not found or target.bird is None:
        return bird
    own = {old: new for (name, old), new in found.items() if name == target.node}
    owners = _by_owner(found)
    subnets = {4: bird.subnet, 6: bird.subnet6}
    for new in own.values():
        subnets[family_of(new)] = target.bird.subnet6 if family_of(new) == 6 else target.bird.subnet
    return dataclasses.replace(
        bird,
        router_id=own.get(bird.router_id, bird.router_id),
        address=own.get(bird.address, bird.address),
        address6=own.get(bird.address6, bird.address6),
        subnet=subnets[4],
        subnet6=subnets[6],
        peers=tuple(_peer(bird, peer, found, own, subnets) for peer in bird.peers),
        vteps6=tuple(
            dataclasses.replace(vtep, next_hop=owners.get(vtep.next_hop, vtep.next_hop)) for vtep in bird.vteps6
        ),
    )


def _by_owner(found: Moves) -> dict[str, str]:
    """Return the new addresses by the earlier ones: in one state, no two nodes have the same."""
    return {old: new for (dummy, old), new in found.items()}


def _peer(bird: Bird, peer: BirdPeer, found: Moves, own: t.Mapping[str, str], subnets: t.Mapping[int, str]) -> BirdPeer:
    address = found.get((peer.node, peer.address), peer.address)
    source = peer.source_address and own.get(peer.source_address, peer.source_address)
    before = peer.source_address or (bird.address6 if peer.family == 6 else bird.address)
    after = own.get(before, before)
    if (address, after) == (peer.address, before):
        return peer
    if peer.kind == "external":
        subnet = subnets[peer.family]
        near = not peer.multihop and bool(subnet) and contains(subnet, peer.address)
        return dataclasses.replace(peer, source_address=source, multihop=not near)
    passive = peer.passive
    if peer.kind in ("mesh", "node"):
        # Both ends decide by their addresses alone, whichever states they return to.
        passive = peering.waits_by_address(number(after), number(address))
    symbols = [naming.bird_peer_name("", text) for text in (peer.address, address)]
    name = peer.name.replace(symbols[0], symbols[1], 1)
    return dataclasses.replace(peer, name=name, address=address, source_address=source, passive=passive)


def routes_with_addresses(routes: t.Iterable[BirdRoute], found: Moves) -> tuple[BirdRoute, ...]:
    """Return these routes of BIRD with the next hops that `found` says. Gateways stay as they are."""
    return tuple(
        dataclasses.replace(route, next_hop=found.get((route.node, route.next_hop), route.next_hop)) for route in routes
    )
