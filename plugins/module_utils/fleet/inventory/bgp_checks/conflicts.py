# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of what several BGPPeers, and the sessions without one, make together on a node."""

from __future__ import annotations

import typing as t

from ....base.addresses import parse_address
from ....base.ports import BGP_PORT
from ....bgp.bird_state import BirdPeer
from ....bgp.peer_definition import PeerAddress, PeerDefinition
from ....bgp.peering import Peering
from ....bgp.speaker import Speaker
from ....state.errors import FleetError
from .addresses import wrong

_Seen = dict[tuple[str, str, int], PeerDefinition]


def check(peering: Peering) -> None:
    """Raise FleetError for a BGPPeer that cannot make the sessions that it means.

    That is one that suits none of its nodes, or is a node's own address or route to itself, or gives a node a session
    that it has already, or one that BIRD would mistake for another. A missing port counts as BGP_PORT.
    """
    seen: _Seen = {}
    for given, local, dummy in peering.meant():
        if given.address is not None:
            _check_family(given, given.address, local)
            _check_own(given, given.address, local, peering)
            _check_once(given, given.address, local, seen)
    _check_told_apart(peering)


def _check_family(given: PeerDefinition, far: PeerAddress, local: t.Sequence[Speaker]) -> None:
    if local and not any(speaker.end(far.family) for speaker in local):
        raise wrong(
            given,
            "peerIP",
            f"is IPv{far.family}, and no node that it is for has an IPv{far.family} address.",
            "A session runs between two addresses of one family: set calico_node_address"
            f"{'_ipv6' if far.family == 6 else ''}, or remove the peer.",
        )


def _check_own(given: PeerDefinition, far: PeerAddress, local: t.Sequence[Speaker], peering: Peering) -> None:
    """Raise FleetError for a peer or a gateway that is the node itself.

    A peer of all nodes is accepted: the others have it, and the rule peer-at-own-address of validate names this one.
    """
    reached = parse_address(given.peer.reachableBy)
    elsewhere = peering.at_address(far) is not None and peering.listener(far) is None
    for speaker in local:
        own = {speaker.end(far.family), given.extensions.source} - {""}
        if elsewhere and far.address in own and not given.is_global:
            raise wrong(
                given,
                "peerIP",
                f"is {speaker.name}'s own address, and its BIRD does not listen on port {far.port or BGP_PORT}. Routes "
                "of two BGP speakers with one address have the same next hop: each takes those of the other for its "
                "own and withdraws them.",
                f"Let nodeSelector leave {speaker.name} out, or give the other program another address.",
            )
        if reached and reached.text in own:
            raise wrong(
                given,
                "reachableBy",
                f"is {speaker.name}'s own address: the route to the peer would lead back to {speaker.name}.",
                f"Write the gateway's address, or let nodeSelector leave {speaker.name} out.",
            )
    if elsewhere and not given.peer.asNumber:
        raise FleetError(
            given.where,
            None,
            f"needs asNumber beside peerIP: no BIRD of the fleet listens at {given.peer.peerIP}.",
            "Correct the port, or write the AS number of the program that listens there, for example asNumber: 65000.",
        )


def _check_once(given: PeerDefinition, far: PeerAddress, local: t.Sequence[Speaker], seen: _Seen) -> None:
    for speaker in local:
        other = seen.setdefault((speaker.name, far.address, far.port or BGP_PORT), given)
        if other is not given:
            raise wrong(
                given,
                "peerIP",
                f"is also the address of {other.where}, and {speaker.name} would peer with it twice.",
                "Remove one, or let their nodeSelectors choose different nodes.",
            )


def _check_told_apart(peering: Peering) -> None:
    """Raise FleetError if a node's BIRD would take the connections of one session for those of another.

    BIRD finds the session of an incoming connection by both addresses and its own port, never by the peer's port
    (bgp_find_proto in proto/bgp/bgp.c). A session without a source address takes connections to any of its own.
    """
    for name, given in _doubtful(peering).items():
        seen: dict[tuple[str, int], list[tuple[BirdPeer, str]]] = {}
        for peer in peering.sessions(name):
            source, port = peering.own_end(name, peer)
            others = seen.setdefault((peer.address, port), [])
            for other, theirs in others:
                if not source or not theirs or source == theirs:
                    raise FleetError(
                        given.where,
                        None,
                        f"gives {name} a second session with {peer.address} on its own port {port}: {other.name} and "
                        f"{peer.name}. BIRD knows the session of an incoming connection by addresses and its own port, "
                        "not by the peer's port, and would take one for the other.",
                        "Write a listenPort of its own in one of the BGPPeers, or remove one.",
                    )
            others.append((peer, source))


def _doubtful(peering: Peering) -> dict[str, PeerDefinition]:
    """Return the nodes that may have two sessions with one address, each with a BGPPeer that makes one of them."""
    ports: dict[str, set[int]] = {}
    for given, _local, _remote in peering.meant():
        if given.address:
            ports.setdefault(given.address.address, set()).add(given.address.port or BGP_PORT)
    found: dict[str, PeerDefinition] = {}
    for given, local, remote in peering.meant():
        far = given.address
        if far and (len(ports[far.address]) > 1 or (peering.at_address(far) and not peering.listener(far))):
            found.update((speaker.name, given) for speaker in local)
        if given.extensions.listenPort:
            found.update((speaker.name, given) for speaker in remote)
    return found
