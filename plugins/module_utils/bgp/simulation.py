# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of BGP in a fleet before it exists: sessions, routes, announcements and memory of each node.

Sessions are those of `Peering`. Every block is followed over all sessions as BIRD passes it on (best paths, RFC 4271;
reflection, RFC 4456; the role's filters). Blocks that reach the nodes with a cluster id, which alone pass routes on, in
the same way take the same paths from there, so such a group is followed once. The mesh is not examined pair by pair. So
5,000 nodes take a second.

Two things are unknown. Each router outside of the fleet is assumed to advertise all blocks that any node sends to any
of them. By eBGP, those of a node's own AS are not counted, unless the session allows that number. And BGPFilters may
reject routes that are counted here.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import ipaddress
import typing as t

from .bird_state import BirdPeer
from .load import Load
from .peer_definition import PeerDefinition, Unasked
from .peering import Peering
from .speaker import Speaker


@dataclasses.dataclass(frozen=True)
class _Path:
    """The path of a group's blocks to a node that reflects.

    `by` is the name of the neighbour that sent it, "" if that is the owner of the blocks. `client` (the receiver
    reflects for the neighbour) and `external` (eBGP) describe that session, `arrived` is the receiver's cluster id in
    it. `number` decides between paths that are otherwise equal.
    """

    by: str
    as_path: tuple[int, ...] = ()
    clusters: tuple[str, ...] = ()
    client: bool = False
    external: bool = False
    arrived: str = ""
    number: int = 0

    @property
    def rank(self) -> tuple[int, bool, int, int]:
        """The sort key of the path, lowest first. Whatever else BIRD compares is the same for all paths of a block."""
        return len(self.as_path), not self.external, len(self.clusters), self.number


@dataclasses.dataclass(frozen=True)
class _Way:
    """One direction of a session, as far as routes depend on it: first the sender's end, then the receiver's."""

    sender: str  # the name of the sending node
    client: bool  # whether the sender reflects for the receiver
    external: bool  # whether the session is eBGP
    cluster: str  # the cluster id of the sender's end; BIRD uses the router id if none is set
    own_as: int  # the sender's AS number
    passes_on: bool  # whether the sender sends what it received from others
    received_as: int  # the receiver's AS number
    received_cluster: str  # the cluster id of the receiver's end, "" if it does not reflect
    from_client: bool  # whether the receiver reflects for the sender
    allowed: int  # how often the receiver's own AS number may be in a path that it accepts


@dataclasses.dataclass(frozen=True)
class _Group:
    """Owners whose blocks take the same paths, and the number of these blocks.

    `best` is the best path to them by the name of each node that reflects and receives them.
    """

    members: frozenset[str]
    blocks: int
    best: t.Mapping[str, _Path]


@dataclasses.dataclass(frozen=True)
class _Announced:
    """The blocks of other nodes that are sent over one direction of a session.

    `announced` counts the blocks sent, `accepted` those that the receiver accepts. `groups` are the groups (indexes) of
    the accepted ones, perhaps with the receiver's own.
    """

    announced: int
    accepted: int
    groups: frozenset[int]


class Simulation:
    """The BGP sessions and routes of a whole fleet in one family, 4 or 6.

    `blocks` maps a node's name to the number of blocks that it advertises, 0 if it is missing. Making a Simulation
    raises selectors.SelectorError for an invalid selector, ValueError for an invalid address, subnet or router id.
    """

    def __init__(
        self,
        speakers: t.Iterable[Speaker],
        definitions: t.Sequence[PeerDefinition],
        unasked: Unasked,
        blocks: t.Mapping[str, int],
        family: int = 4,
    ) -> None:
        self._family = family
        self._speakers = {one.name: one for one in speakers if one.end(family)}
        self._blocks = {name: blocks.get(name, 0) for name in self._speakers}
        everyone = Peering(self._speakers.values(), definitions, dataclasses.replace(unasked, mesh=False))
        self._sessions = {
            name: tuple(peer for peer in everyone.sessions(name) if peer.family == family) for name in self._speakers
        }
        self._mesh = frozenset(name for name, one in self._speakers.items() if unasked.mesh and not one.cluster_id)
        self._ends = {(name, peer.address): peer for name, own in self._sessions.items() for peer in own}
        self._reflecting = [name for name, one in self._speakers.items() if one.cluster_id]
        self._group_of: dict[str, int] = {}
        self._groups = tuple(self._grouped())
        self._passed: dict[tuple[_Way, str], _Announced] = {}
        self._covered: dict[t.Any, tuple[frozenset[str], int]] = {}

    def sessions(self) -> int:
        """Return the number of sessions of the whole fleet in this family.

        A session that only one of its two nodes has counts half; the sum is rounded down.
        """
        outside = sum(not peer.node for own in self._sessions.values() for peer in own)
        within = sum(len(own) + self._meshed(name) for name, own in self._sessions.items())
        return (within + outside) // 2

    def load(self, name: str) -> Load:
        """Return the load of node `name` in this family, all 0 if the node is unknown or has no address of the family.

        A session that the peer's node lacks counts in `sessions` and `sent` alone.
        """
        if name not in self._speakers:
            return Load()
        own, blocks = self._sessions[name], self._blocks[name]
        meshed = self._meshed(name)
        sent, received, paths = meshed * blocks, 0, 0
        groups: set[int] = set()
        direct: set[str] = set()
        outside: set[int] = set()
        for peer in own:
            sent += blocks + self._announced_to(name, peer).announced
            if not peer.node:
                own_as = self._own_as_outside(name, peer)
                outside.add(own_as)
                announced = self._by_outside(name, own_as)
                received, paths = received + announced, paths + announced
                continue
            back = self._back(name, peer)
            if back is None:
                continue
            reflected = self._announced_to(peer.node, back)
            received += self._blocks[peer.node] + reflected.announced
            paths += self._blocks[peer.node] + reflected.accepted
            groups |= reflected.groups
            direct.add(peer.node)
        if name in self._mesh:
            among = self._blocks_of_mesh - blocks - sum(self._blocks[other] for other in self._taken(name))
            received, paths = received + among, paths + among
        known, count = self._cover(frozenset(groups), name in self._mesh, min(outside, default=None))
        count += sum(self._blocks[other] for other in direct - known)
        routes = count - (blocks if name in known else 0)
        return Load(len(own) + meshed, paths, routes, sent, received)

    def announcements(self, name: str) -> int:
        """Return how many UPDATE messages announce a new block of node `name` in the whole fleet.

        Announcements to routers outside of the fleet count, theirs do not. Raise KeyError if the node is not in the
        fleet or has no address of this family.
        """
        count = len(self._sessions[name]) + self._meshed(name)
        group = self._groups[self._group_of[name]]
        for reflector, best in group.best.items():
            for peer in self._sessions[reflector]:
                if peer.node != (best.by or name) and self._export(best, self._way(reflector, peer)) is not None:
                    count += 1
        return count

    # --- sessions ---------------------------------------------------------------------------------------------------

    def _back(self, name: str, peer: BirdPeer) -> t.Optional[BirdPeer]:
        """Return the session as the node `peer.node` has it, or None. Sessions of the mesh are not searched."""
        own = peer.source_address or self._speakers[name].end(self._family)
        return self._ends.get((peer.node, own))

    def _taken(self, name: str) -> frozenset[str]:
        """Return the names of the members of the mesh with which a BGPPeer of `name` replaces the mesh's session."""
        if name not in self._mesh:
            return frozenset()
        ends = ((peer.node, peer.address) for peer in self._sessions[name] if peer.node in self._mesh)
        return frozenset(node for node, address in ends if address == self._speakers[node].end(self._family))

    def _meshed(self, name: str) -> int:
        return len(self._mesh) - 1 - len(self._taken(name)) if name in self._mesh else 0

    @functools.cached_property
    def _blocks_of_mesh(self) -> int:
        return sum(self._blocks[name] for name in self._mesh)

    def _way(self, name: str, peer: BirdPeer) -> _Way:
        own = self._speakers[name]
        own_as = own.as_towards(peer)
        back = self._back(name, peer) if peer.node else None
        other = self._speakers.get(peer.node)
        reflects = other is not None and bool(other.cluster_id)
        return _Way(
            sender=name,
            client=peer.cluster_id is not None,
            external=peer.as_number != own_as,
            cluster=peer.cluster_id or f"router {name}",
            own_as=own_as,
            # templates/bird/peer_policy.j2 has the same rule. If a reflector passed blocks on to an outside router with
            # itself as next hop, that router would send the packets to the reflector.
            passes_on=bool(own.cluster_id) and bool(peer.node or peer.cluster_id or peer.next_hop == "keep"),
            received_as=peer.as_number,
            # "" for a peer that does not reflect, because no path contains a cluster id of its own
            received_cluster=((back and back.cluster_id) or f"router {peer.node}") if reflects else "",
            from_client=back is not None and back.cluster_id is not None,
            allowed=(back.allow_local_as or 0) if back is not None else 0,
        )

    # --- paths of blocks --------------------------------------------------------------------------------------------

    def _grouped(self) -> t.Iterator[_Group]:
        entering: dict[t.Any, list[str]] = {}
        reflecting = frozenset(self._reflecting)
        numbers = sorted(self._number(name, True) for name in reflecting)
        for name in self._speakers:
            ways = [
                (peer.node, self._way(name, peer))
                for peer in self._sessions[name]
                if peer.node in reflecting and self._back(name, peer) is not None
            ]
            entry = tuple(sorted((at, _without_sender(way)) for at, way in ways))
            # Between two paths by eBGP the lower router id decides. So owners with eBGP sessions belong to one group
            # only if the same number of reflectors have lower router ids than they.
            between = (
                bisect.bisect(numbers, self._number(name, True)) if any(way.external for dummy, way in ways) else 0
            )
            # A reflector has its own blocks without a session, so it is the only member of its group.
            entering.setdefault((entry, between, name if name in reflecting else ""), []).append(name)
        for index, ((entry, dummy, owner), members) in enumerate(entering.items()):
            self._group_of.update((name, index) for name in members)
            blocks = sum(self._blocks[name] for name in members)
            ways_in = [(at, _Way("", *way)) for at, way in entry]
            yield _Group(frozenset(members), blocks, self._followed(ways_in, owner, self._number(members[0], True)))

    def _followed(self, entry: t.Sequence[tuple[str, _Way]], owner: str, number: int) -> dict[str, _Path]:
        """Return the best path to a group's blocks by the name of each node that reflects and receives them.

        `entry` has the sessions by which the owners advertise the blocks. `owner` is the owner's name if it reflects
        itself, else "". `number` is the router id of a member of the group.
        """
        heard: dict[str, dict[str, _Path]] = {name: {} for name in self._reflecting}
        for at, way in entry:
            path = self._import(_Path("", (way.own_as,) if way.external else (), number=number), way)
            if path is not None:
                heard[at][""] = path
        best: dict[str, _Path] = {}
        # In each round, the best paths go over one more session between reflectors.
        for dummy in range(len(self._reflecting) + 1):
            found = {name: min(paths.values(), key=lambda one: one.rank) for name, paths in heard.items() if paths}
            if found == best:
                break
            best = found
            for name, peer, way in self._among_reflectors:
                if name == owner or peer.node == owner:
                    continue
                path = best.get(name)
                passed = self._export(path, way) if path is not None and path.by != peer.node else None
                passed = self._import(passed, way) if passed is not None else None
                if passed is None:
                    heard[peer.node].pop(name, None)
                else:
                    number = self._number(name, way.external)
                    heard[peer.node][name] = dataclasses.replace(passed, by=name, number=number)
        return best

    @functools.cached_property
    def _among_reflectors(self) -> tuple[tuple[str, BirdPeer, _Way], ...]:
        reflecting = frozenset(self._reflecting)
        return tuple(
            (name, peer, self._way(name, peer))
            for name in self._reflecting
            for peer in self._sessions[name]
            if peer.node in reflecting and self._back(name, peer) is not None
        )

    def _number(self, name: str, external: bool) -> int:
        """Return the number by which BIRD decides between equal paths from `name`; the lowest is best.

        By iBGP it is the neighbour's address: behind reflectors the router id is the owner's in all paths.
        """
        own = self._speakers[name]
        if external and (own.router_id or own.address):
            return int(ipaddress.ip_address(own.router_id or own.address))
        return int(ipaddress.ip_address(own.end(self._family)))

    @staticmethod
    def _export(path: _Path, way: _Way) -> t.Optional[_Path]:
        """Return `path`, the sender's best, as it is announced to the receiver, or None if it is not announced.

        The rules are those of BIRD's bgp_preexport and bgp_update_attrs.
        """
        if not way.passes_on:
            return None
        if way.external:
            return _Path("", (way.own_as, *path.as_path))
        if path.external:
            return _Path("", path.as_path)
        if not (way.client or path.client) or way.cluster in path.clusters:
            return None
        clusters = (path.arrived, *path.clusters)
        return _Path("", path.as_path, clusters if way.cluster == path.arrived else (way.cluster, *clusters))

    @staticmethod
    def _import(path: _Path, way: _Way) -> t.Optional[_Path]:
        """Return the announced `path` as the receiver stores it, or None if it rejects it because of a loop."""
        if path.as_path.count(way.received_as) > way.allowed or way.received_cluster in path.clusters:
            return None
        return dataclasses.replace(path, client=way.from_client, external=way.external, arrived=way.received_cluster)

    def _announced_to(self, name: str, peer: BirdPeer) -> _Announced:
        """Return the blocks of other nodes that `name` sends to `peer`. There are none if `name` does not reflect."""
        if not self._speakers[name].cluster_id:
            return _NOTHING
        way = self._way(name, peer)
        shared = "" if peer.node not in self._speakers or not self._speakers[peer.node].cluster_id else peer.node
        found = self._passed.get((way, shared))
        if found is None:
            found = self._passed[way, shared] = self._announced_over(way, shared)
        index = self._group_of.get(peer.node)
        if shared or index is None or not self._blocks[peer.node]:
            return found
        # The sums of `found` contain the peer's own blocks. It accepts none of them, and is sent none that `name` has
        # from the peer itself.
        best = self._groups[index].best.get(name)
        sent = self._export(best, way) if best is not None else None
        own = self._blocks[peer.node]
        accepted = own if sent is not None and index in found.groups else 0
        announced = own if best is not None and sent is not None and not best.by else 0
        return _Announced(found.announced - announced, found.accepted - accepted, found.groups)

    def _announced_over(self, way: _Way, receiver: str) -> _Announced:
        announced = accepted = 0
        groups = set()
        for index, group in enumerate(self._groups):
            best = group.best.get(way.sender)
            if best is None or not group.blocks or (receiver and best.by == receiver):
                continue
            is_owner = bool(receiver) and receiver in group.members
            if is_owner and not best.by:
                continue
            sent = self._export(best, way)
            if sent is None:
                continue
            announced += group.blocks
            if not is_owner and self._import(sent, way) is not None:
                accepted += group.blocks
                groups.add(index)
        return _Announced(announced, accepted, frozenset(groups))

    # --- known blocks -----------------------------------------------------------------------------------------------

    def _cover(self, groups: frozenset[int], meshed: bool, outside: t.Optional[int]) -> tuple[frozenset[str], int]:
        """Return (the names of the owners whose blocks a node knows, the number of these blocks).

        `outside` is the AS whose blocks the node does not accept from outside routers (0: none), or None without such
        routers.
        """
        key = (groups, meshed, outside)
        found = self._covered.get(key)
        if found is None:
            names = frozenset[str]().union(*(self._groups[index].members for index in groups))
            names |= self._mesh if meshed else frozenset()
            if outside is not None:
                names |= {name for name in self._outside if self._speakers[name].as_number != outside}
            found = self._covered[key] = (names, sum(self._blocks[name] for name in names))
        return found

    @functools.cached_property
    def _outside(self) -> frozenset[str]:
        """The names of the owners whose blocks any router outside of the fleet receives."""
        found: set[str] = set()
        for name, own in self._sessions.items():
            for peer in own:
                if not peer.node:
                    found.add(name)
                    found.update(*(self._groups[index].members for index in self._announced_to(name, peer).groups))
        return frozenset(found)

    def _own_as_outside(self, name: str, peer: BirdPeer) -> int:
        """Return the number of the AS whose blocks `name` rejects from the outside router `peer`, or 0 for none."""
        own_as = self._speakers[name].as_towards(peer)
        return 0 if peer.as_number == own_as or peer.allow_local_as else own_as

    def _by_outside(self, name: str, own_as: int) -> int:
        names, blocks = self._cover(frozenset(), False, own_as)
        return blocks - (self._blocks[name] if name in names else 0)


_NOTHING = _Announced(0, 0, frozenset())


def _without_sender(way: _Way) -> tuple[t.Any, ...]:
    """Return the direction's fields from `client` on, with `cluster` "": equal for owners of one group."""
    return dataclasses.astuple(dataclasses.replace(way, cluster=""))[1:]
