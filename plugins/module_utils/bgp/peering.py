# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BGP sessions of each node, computed from a fleet's nodes, its BGPPeers and its mesh.

The rules are Calico's (confd/pkg/backends/calico/client.go, updatePeersV1, and bgp_processor.go):

- The mesh joins all nodes that have no cluster id. A session carries the routes of one family.
- A BGPPeer is global (for every node), or for some nodes. If two have the same address and port on a node, a global one
  takes precedence over one for some nodes, and else the first one is used.
- A peerIP is a node's if that node's BIRD listens at the address and port. Else it is another program's on that host.
- A BGPPeer whose peers are nodes of the fleet also applies on these nodes, with the ends swapped, unless reversePeering
  is Manual or such a node has a definition of its own.
- In a session of a BGPPeer, a node with a cluster id reflects for a peer of its own AS that has none, or another one.

Three rules are ours. Reflectors of the inventory's group find their clients without a BGPPeer (`Speaker.reflector`).
One end of every session within the fleet is passive (`waits`). A BGPPeer between two nodes replaces the session that
both would have without it.
"""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import typing as t

from ..base import naming, selectors
from ..base.addresses import family_of
from ..base.ports import BGP_PORT
from ..resources.durations import parse_duration
from ..resources.kinds.bgp import BGPPeer
from .bird_state import BirdPeer
from .peer_definition import PLAIN_MESH, PeerAddress, PeerDefinition, Unasked
from .speaker import Speaker, lies_in

_NEXT_HOP = {"Self": "self", "Keep": "keep"}


@dataclasses.dataclass(frozen=True)
class _Definition:
    """A BGPPeer and its nodes: `local` have the session as it is written, `remote` are their peers in the fleet.

    `options` are the fields of a BirdPeer that are the same at both ends.
    """

    given: PeerDefinition
    local: tuple[Speaker, ...]
    remote: tuple[Speaker, ...]
    options: dict[str, t.Any]

    def families(self) -> tuple[int, ...]:
        return (self.given.address.family,) if self.given.address else (4, 6)


class Peering:
    """The sessions of every node of a fleet.

    Of several BGPPeers for the same address and port on one node, one for all nodes takes precedence over one for
    some, this one over one that names the node as its peer, and else the earlier definition over the later one.

    Making a Peering raises selectors.SelectorError for an invalid selector of a BGPPeer or of a reflector's `clients`,
    and ValueError if an address of a speaker is not an IP address.
    """

    def __init__(
        self, speakers: t.Iterable[Speaker], definitions: t.Iterable[PeerDefinition], unasked: Unasked = PLAIN_MESH
    ) -> None:
        self._speakers = {speaker.name: speaker for speaker in speakers}
        self._unasked = unasked
        self._all = tuple(self._speakers.values())
        self._selected: dict[str, tuple[Speaker, ...]] = {}
        self._by_address = {address: speaker for speaker in self._all for dummy, address, number in speaker.ends}
        self._mesh = tuple(speaker for speaker in self._all if not speaker.cluster_id) if unasked.mesh else ()
        self._reflectors = tuple(speaker for speaker in self._all if speaker.reflector)
        self._served = {speaker.name: self._clients_of(speaker) for speaker in self._reflectors}
        self._serving: dict[str, list[Speaker]] = {}
        for reflector in self._reflectors:
            for client in self._served[reflector.name]:
                self._serving.setdefault(client.name, []).append(reflector)
        self._ports: dict[str, set[int]] = {}  # by node: the ports of BGPPeers on which it listens (listenPort)
        self._globals: list[_Definition] = []
        self._forward: dict[str, list[_Definition]] = {}
        self._reverse: dict[str, list[_Definition]] = {}
        self._definitions = tuple(self._resolve(definition) for definition in definitions)
        for definition in self._definitions:
            self._index(definition)
            if definition.given.extensions.listenPort:
                for speaker in definition.local:
                    self._ports.setdefault(speaker.name, set()).add(definition.given.extensions.listenPort)

    def sessions(self, name: str) -> tuple[BirdPeer, ...]:
        """Return the sessions of node `name`: first those without a BGPPeer, then those of BGPPeers by precedence.

        A node with which a BGPPeer makes a session has no session of that IP version without a BGPPeer. Raise KeyError
        if `name` is not a node of the fleet, and ValueError if the node's subnet, which is compared with routers
        outside of the fleet, is not a CIDR.
        """
        own = self._speakers[name]
        defined = self._defined(own)
        replaced = {(peer.node, peer.family) for peer in defined.values() if peer.node}
        unasked = (peer for peer in self._of_themselves(own) if (peer.node, peer.family) not in replaced)
        return (*unasked, *defined.values())

    def at_address(self, far: PeerAddress) -> t.Optional[Speaker]:
        """Return the node with this address, whatever the port; None without one."""
        return self._by_address.get(far.address)

    def listener(self, far: PeerAddress) -> t.Optional[Speaker]:
        """Return the node whose BIRD listens at an address and port, None if it is not a node's. Port 0 means any."""
        speaker = self._by_address.get(far.address)
        if speaker is None or far.port in (0, speaker.listen_port) or far.port in self._ports.get(speaker.name, ()):
            return speaker
        return None

    def own_end(self, name: str, peer: BirdPeer) -> tuple[str, int]:
        """Return (address, port) of node `name` in its session `peer`; the address is "" if the kernel chooses it."""
        own = self._speakers[name]
        address = own.end(peer.family) if peer.source_address is None else peer.source_address
        return address, peer.local_port or own.listen_port

    def meant(self) -> t.Iterator[tuple[PeerDefinition, tuple[Speaker, ...], tuple[Speaker, ...]]]:
        """Return an iterator over (definition, its nodes, their peers in the fleet), in the order of definition.

        Both tuples may be (), and a node may be in both. A node whose address is the peerIP is a peer only if asNumber
        and port, where given, are its own. Otherwise the peers are (), even where `sessions` has a session with that
        node.
        """
        return ((one.given, one.local, one.remote) for one in self._definitions)

    # --- sessions without a BGPPeer ---------------------------------------------------------------------------------

    def _of_themselves(self, own: Speaker) -> t.Iterator[BirdPeer]:
        options: dict[str, t.Any] = {
            "password": self._unasked.password,
            "graceful_restart_time": self._unasked.graceful_restart_time,
            "bfd": self._unasked.bfd,
        }
        if own.reflector:
            yield from self._with(own, self._reflectors, "mesh", options)
            yield from self._with(own, self._served[own.name], "client", options)
            return
        if not own.cluster_id:
            yield from self._with(own, self._mesh, "mesh", options)
        yield from self._with(own, self._serving.get(own.name, ()), "reflector", options)

    def _clients_of(self, reflector: Speaker) -> tuple[Speaker, ...]:
        return tuple(speaker for speaker in self._matching(reflector.clients) if not speaker.reflector)

    @staticmethod
    def _with(
        own: Speaker, peers: t.Iterable[Speaker], kind: str, options: t.Mapping[str, t.Any]
    ) -> t.Iterator[BirdPeer]:
        prefix = "Mesh_" if kind == "mesh" else "Node_"
        for peer in peers:
            if peer is own:
                continue
            reflects = kind == "client" and peer.as_number == own.as_number
            for (family, dummy, own_number), (address, number) in _common(own, peer):
                yield BirdPeer(
                    prefix + peer.symbols[family],
                    address,
                    peer.as_number,
                    kind,
                    passive=waits(own, peer, own_number, number),
                    node=peer.name,
                    family=family,
                    port=peer.listen_port if peer.listen_port != own.listen_port else None,
                    cluster_id=own.cluster_id if reflects else None,
                    **options,
                )

    # --- sessions of BGPPeers ---------------------------------------------------------------------------------------

    def _matching(self, selector: str) -> tuple[Speaker, ...]:
        found = self._selected.get(selector)
        if found is None:
            matches = selectors.parse(selector).matches
            found = self._selected[selector] = tuple(speaker for speaker in self._all if matches(speaker.labels))
        return found

    def _resolve(self, given: PeerDefinition) -> _Definition:
        peer = given.peer
        local = self._all
        if peer.nodeSelector:
            local = self._matching(peer.nodeSelector)
        elif peer.node:
            local = tuple(speaker for speaker in (self._speakers.get(peer.node),) if speaker)
        if given.members is not None:
            if local is self._all:
                local = tuple(self._speakers[name] for name in sorted(given.members & self._speakers.keys()))
            else:
                local = tuple(speaker for speaker in local if speaker.name in given.members)
        if peer.peerSelector:
            return _Definition(given, local, self._matching(peer.peerSelector), _options(given))
        speaker = self._by_address.get(given.address.address) if given.address else None
        remote = (speaker,) if speaker and _is_meant(speaker, peer.asNumber, given.address) else ()
        return _Definition(given, local, remote, _options(given))

    def _index(self, definition: _Definition) -> None:
        if definition.given.is_global:
            self._globals.append(definition)
        else:
            for speaker in definition.local:
                self._forward.setdefault(speaker.name, []).append(definition)
        if definition.given.peer.reversePeering != "Manual":
            for speaker in definition.remote:
                self._reverse.setdefault(speaker.name, []).append(definition)

    def _defined(self, own: Speaker) -> dict[tuple[str, int], BirdPeer]:
        """Return the sessions that BGPPeers give `own`, by (address, port; 0 for BGP_PORT) in order of precedence."""
        found: dict[tuple[str, int], BirdPeer] = {}
        for prefix, definitions in (("Global", self._globals), ("Node", self._forward.get(own.name, ()))):
            for definition in definitions:
                for key, peer in self._ahead(own, definition, prefix):
                    found.setdefault(key, peer)
        for definition in self._reverse.get(own.name, ()):
            for key, peer in self._back(own, definition):
                found.setdefault(key, peer)
        return found

    def _ahead(self, own: Speaker, definition: _Definition, prefix: str) -> t.Iterator[_Keyed]:
        """Yield ((address, port), session) for each session that a BGPPeer gives to `own`, a node that it is for."""
        peer, extensions = definition.given.peer, definition.given.extensions
        ahead = {
            "local_as": peer.localASNumber or None,
            "local_port": extensions.listenPort or None,
            "source_address": "" if peer.sourceAddress == "None" else extensions.source or None,
        }
        far = definition.given.address
        if far is None:
            for speaker in definition.remote:
                if speaker is not own:
                    yield from _pairs(own, speaker, prefix, definition, ahead)
            return
        if own.end(far.family) in ("", far.address):
            return
        ahead["reachable_by"] = peer.reachableBy
        known = self.listener(far)
        if known is not None:
            yield _session(own, known, far.family, far.address, prefix, definition, far.port, ahead)
        else:
            yield _outside(own, far, prefix, definition, ahead)

    def _back(self, own: Speaker, definition: _Definition) -> t.Iterator[_Keyed]:
        """Yield ((address, port), session) for each session that a BGPPeer gives to `own`, a peer that it names.

        The ends are swapped. The other node's address is the BGPPeer's source address, if it gives one of that family.
        """
        peer, extensions = definition.given.peer, definition.given.extensions
        back: dict[str, t.Any] = {"source_address": "" if peer.sourceAddress == "None" else None}
        for speaker in definition.local:
            if speaker is own:
                continue
            for family in definition.families():
                address = speaker.end(family)
                if extensions.source and family_of(extensions.source) == family:
                    address = extensions.source
                if address and own.end(family):
                    yield _session(
                        own,
                        speaker,
                        family,
                        address,
                        "Node",
                        definition,
                        extensions.listenPort or 0,
                        back,
                        peer.localASNumber or None,
                    )


_Keyed = tuple[tuple[str, int], BirdPeer]


def _pairs(
    own: Speaker, speaker: Speaker, prefix: str, definition: _Definition, ahead: t.Mapping[str, t.Any]
) -> t.Iterator[_Keyed]:
    for family in (4, 6):
        source = ahead["source_address"]
        fits = not source or family_of(source) == family
        if own.end(family) and speaker.end(family):
            fields = ahead if fits else {**ahead, "source_address": None}
            yield _session(own, speaker, family, speaker.end(family), prefix, definition, 0, fields)


def _session(
    own: Speaker,
    speaker: Speaker,
    family: int,
    address: str,
    prefix: str,
    definition: _Definition,
    port: int,
    fields: t.Mapping[str, t.Any],
    as_number: t.Optional[int] = None,
) -> _Keyed:
    """Return the key (address, port) and the session of `own` with the node `speaker` at `address`.

    `port` 0 is the port on which that node listens; in the key, 0 stands for BGP_PORT. `as_number` None means the
    BGPPeer's, if `address` is its peerIP and it has one, else the node's. `fields` are the BirdPeer's at this end only.
    """
    if as_number is None:
        far = definition.given.address
        as_number = (definition.given.peer.asNumber if far and far.address == address else None) or speaker.as_number
    port = port or speaker.listen_port
    named = 0 if port == BGP_PORT else port
    same_as = as_number == (fields.get("local_as") or own.as_number)
    reflects = bool(own.cluster_id) and same_as and speaker.cluster_id != own.cluster_id
    kind = "client" if reflects else "reflector" if same_as and speaker.cluster_id and not own.cluster_id else "node"
    peer = BirdPeer(
        naming.bird_peer_name(prefix, address, named or None),
        address,
        as_number,
        kind,
        passive=waits(own, speaker, _number(fields["source_address"] or own.end(family)), _number(address)),
        node=speaker.name,
        family=family,
        port=port if port != own.listen_port else None,
        cluster_id=own.cluster_id if reflects else None,
        next_hop=_next_hop(definition.given.peer, same_as),
        **definition.options,
        **fields,
    )
    return (address, named), peer


def _outside(
    own: Speaker, far: PeerAddress, prefix: str, definition: _Definition, fields: t.Mapping[str, t.Any]
) -> _Keyed:
    """Return the key (address, port) and the session of `own` with a router outside of the fleet.

    In the key, port 0 stands for BGP_PORT. Without an asNumber the router has the AS number of `own`. `fields` are the
    BirdPeer's at this end only.
    """
    given = definition.given.peer
    as_number = given.asNumber or own.as_number
    same_as = as_number == (fields["local_as"] or own.as_number)
    reflects = bool(own.cluster_id) and same_as
    port = 0 if far.port == BGP_PORT else far.port
    subnet = definition.given.extensions.sourceAddress or own.subnet_of(far.family)
    near = lies_in(far.address, subnet) and not definition.options["ttl_security"] and not given.reachableBy
    peer = BirdPeer(
        naming.bird_peer_name(prefix, far.address, port or None),
        far.address,
        as_number,
        "external",
        multihop=not near,
        family=far.family,
        port=port or None,
        cluster_id=own.cluster_id if reflects else None,
        next_hop=_next_hop(given, same_as),
        **definition.options,
        **fields,
    )
    return (far.address, port), peer


def _options(given: PeerDefinition) -> dict[str, t.Any]:
    """Return the fields of a BirdPeer that are the same at both ends. A maxRestartTime is rounded to whole seconds."""
    peer, extensions = given.peer, given.extensions
    restart = parse_duration(peer.maxRestartTime) if peer.maxRestartTime else None
    return {
        "password": given.password,
        "ttl_security": peer.ttlSecurity or None,
        "hold_time": extensions.holdTime,
        "keepalive_time": extensions.keepaliveTime,
        "connect_retry_time": extensions.connectRetryTime,
        "graceful_restart_time": None if restart is None else int(restart + 0.5),
        "long_lived_stale_time": extensions.longLivedStaleTime,
        "bfd": extensions.bfd,
        "allow_local_as": peer.numAllowedLocalASNumbers or None,
        "filters": peer.filters,
    }


def _next_hop(peer: BGPPeer, same_as: bool) -> str:
    """Return the BirdPeer's `next_hop`. keepOriginalNextHop takes precedence, and needs keep only between two ASes."""
    if peer.keepOriginalNextHop:
        return "auto" if same_as else "keep"
    return _NEXT_HOP.get(peer.nextHopMode or "", "auto")


def _is_meant(speaker: Speaker, as_number: t.Optional[int], far: t.Optional[PeerAddress]) -> bool:
    """Return whether a BGPPeer for `far`, the address of `speaker`, means that node, and not another router."""
    return far is not None and as_number in (None, 0, speaker.as_number) and far.port in (0, speaker.listen_port)


def _common(own: Speaker, peer: Speaker) -> t.Iterator[tuple[tuple[int, str, int], tuple[str, int]]]:
    for end in own.ends:
        for family, address, number in peer.ends:
            if family == end[0]:
                yield end, (address, number)


@functools.lru_cache(maxsize=8192)
def _number(address: str) -> int:
    return int(ipaddress.ip_address(address))


def waits(own: Speaker, peer: Speaker, own_number: int, number: int) -> bool:
    """Return whether `own` is the passive side of the session with `peer`. The numbers are both addresses as integers.

    Exactly one side is passive, so that sessions never collide. BIRD's queue for connections has 8 places (`listen(fd,
    8)` in sysdep/unix/io.c of every BIRD 2); a client that finds it full waits seconds until TCP retries. So a node
    with a cluster id connects to the nodes without one, which have few sessions. Between others, the parity of the bits
    of both addresses decides: each side is passive for about half of its sessions, also if all addresses are even.
    Adding or removing other nodes resets no session.
    """
    if bool(own.cluster_id) != bool(peer.cluster_id):
        return not own.cluster_id
    return waits_by_address(own_number, number)


def waits_by_address(own_number: int, number: int) -> bool:
    """Return what `waits` does if both nodes have a cluster id, or neither has one."""
    lower_waits = bin(own_number ^ number).count("1") % 2 == 0
    return (own_number < number) == lower_waits
