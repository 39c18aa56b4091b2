# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about BGP sessions that are missing, or whose two ends do not fit, and BGPPeers without any session."""

from __future__ import annotations

import typing as t

from ...bgp.peer_definition import PeerDefinition
from ...bgp.speaker import Speaker, lies_in
from ...state.errors import within
from .finding import Issue
from .network import LintedFleet, Pair, address_of, listed


def missing(network: LintedFleet) -> t.Iterator[Issue]:
    """Report nodes without any BGP session.

    In a mesh of two or more each node has sessions. It makes one issue for all nodes, and none in a fleet of one node.
    """
    if len(network.speakers) < 2:
        return
    alone = [
        name
        for name, found in network.sessions.items()
        if not found and (name not in network.mesh or len(network.mesh) < 2)
    ]
    if alone:
        others = f" (so {'is' if len(alone) == 2 else 'are'} {listed(alone[1:])})" if len(alone) > 1 else ""
        yield Issue(
            address_of(alone[0]),
            f"is that of a node without any BGP session{others}: no other node learns routes to its blocks.",
            "Make it a client of a reflector, let a BGPPeer select it, or leave the mesh on.",
        )


def for_nobody(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a BGPPeer that applies to no node, or whose peers are no node, or the one node that it applies to.

    It applies to nodes of its host or group, if any: those that nodeSelector matches, else its node, else all.
    """
    for given, local, remote in network.meant:
        peer = given.peer
        if not local:
            field = "nodeSelector" if peer.nodeSelector else "node"
            what, value = "matches no node", peer.nodeSelector or None
        elif peer.peerSelector and not remote:
            field, what, value = "peerSelector", "matches no node to peer with", peer.peerSelector
        elif len(local) == 1 and local == remote:
            field, value = ("peerSelector", peer.peerSelector) if peer.peerSelector else ("peerIP", peer.peerIP)
            verb = "matches only" if peer.peerSelector else "is the address of"
            what = f"{verb} {local[0].name}, the only node that has this peer"
        else:
            continue
        yield Issue(
            within(given.where, field),
            f"{what}, so that this BGPPeer makes no session.",
            "Correct it, or the calico_node_labels of the nodes that are meant.",
            value=value,
        )


def of_no_host(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a peerIP in the nodes' subnet, with their AS number, that no node has: it may be mistyped or outdated.

    Compared is the AS number of the nodes that the BGPPeer applies to, or its localASNumber.
    """
    subnets = {subnet for one in network.speakers.values() for subnet in (one.subnet, one.subnet6)}
    owned = {address for one in network.speakers.values() for dummy, address, number in one.ends}
    for given, local, dummy in network.meant:
        if given.address is None:
            continue
        address = given.address.address
        inner = any(given.peer.asNumber == (given.peer.localASNumber or one.as_number) for one in local)
        if inner and address not in owned and any(lies_in(address, subnet) for subnet in subnets):
            yield Issue(
                within(given.where, "peerIP"),
                f"lies in a subnet of the nodes and has their AS number {given.peer.asNumber}, but is no host's.",
                "Correct it, or remove the peer; a router of its own AS needs its own asNumber.",
                value=given.peer.peerIP,
            )


def at_own_address(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a BGPPeer for all nodes that is another program on one of them, which has no session with it.

    A peerIP with the port on which the node's BIRD listens is left out: it means that node.
    """
    peering = network.fleet.bgp.peering
    for given, local, _remote in network.meant:
        speaker = peering.at_address(given.address) if given.address else None
        if given.is_global and given.address and speaker in local and peering.listener(given.address) is None:
            yield Issue(
                within(given.where, "peerIP"),
                f"is {speaker.name}'s own address, so that {speaker.name} alone has no session with it: BGP speakers "
                "with one address would take each other's routes for their own.",
                f"Let nodeSelector leave {speaker.name} out, or give the other program another address.",
                value=given.peer.peerIP,
            )


def wrong_as(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a BGPPeer whose peerIP is a node's, with another AS number than that node's: it refuses the session.

    A peerIP with another port than the node's is left out, and an AS number that the node has as local AS.
    """
    by_address = {address: one for one in network.speakers.values() for dummy, address, number in one.ends}
    for given, _local, _remote in network.meant:
        speaker = by_address.get(given.address.address) if given.address else None
        if speaker is None or given.address is None or given.address.port not in (0, speaker.listen_port):
            continue  # not an address of a node, or the port of another program on that host
        if given.peer.asNumber not in (None, 0, speaker.as_number) and not _as_other(network, given, speaker):
            yield Issue(
                within(given.where, "asNumber"),
                f"is not the AS number of {speaker.name}, which has address {given.peer.peerIP}: {speaker.name} has "
                f"{speaker.as_number} and refuses the session.",
                "Correct it, or leave it out for a node of the fleet, whose own AS number is used.",
                value=given.peer.asNumber,
            )


def two_as_numbers(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a BGPPeer whose peerIP is also that of another BGPPeer, with another AS number: one may be mistyped."""
    first: dict[tuple[str, int], PeerDefinition] = {}
    for given, _local, _remote in network.meant:
        if given.address is None or not given.peer.asNumber:
            continue
        other = first.setdefault((given.address.address, given.address.port), given)
        if other.peer.asNumber != given.peer.asNumber:
            yield Issue(
                within(given.where, "asNumber"),
                f"is another AS number than {other.where} has for the same address {given.peer.peerIP}: "
                f"{other.peer.asNumber}.",
                "Correct one of them; if two routers have one address, name this rule in calico_lint_ignore.",
                value=given.peer.asNumber,
            )


def _as_other(network: LintedFleet, given: PeerDefinition, speaker: Speaker) -> bool:
    """Return whether `speaker` uses the AS number of the BGPPeer as its local AS in any of its sessions."""
    return any(peer.local_as == given.peer.asNumber for peer in network.sessions[speaker.name])


def one_sided(network: LintedFleet) -> t.Iterator[Issue]:
    """Report sessions that only one of two nodes has, so that the other node refuses them.

    It makes one issue for all of them. If both nodes are in the mesh, the mesh has the other end.
    """
    found = [pair for pair in network.pairs if pair.there is None]
    if found:
        node, here, dummy = found[0]
        yield Issue(
            address_of(node),
            f"is that of a node that peers with {here.node} ({here.address}), which does not peer with it and refuses "
            f"the session{_more(found)}.",
            f"Add a BGPPeer for {here.node}, too, or leave reversePeering at Auto.",
        )


def different_passwords(network: LintedFleet) -> t.Iterator[Issue]:
    """Report sessions whose two ends have different passwords, or a password at one end only.

    Compared are the names of the secrets, not the passwords in them. Sessions of the mesh are left out.
    """
    found = [pair for pair in network.pairs if pair.there is not None and pair.here.password != pair.there.password]
    if found:
        node, here, there = found[0]
        yield Issue(
            address_of(node),
            f"is that of a node that has {_secured(here.password)} for its session with {here.node}, which has "
            f"{_secured(there.password if there else '')} for it{_more(found)}: it never comes up.",
            "Name the same secret at both ends.",
        )


def _secured(password: str) -> str:
    return f"the password {password}" if password else "no password"


def bfd_on_one_side(network: LintedFleet) -> t.Iterator[Issue]:
    """Report sessions with BFD at one end only, where BFD never starts."""
    found = [
        pair for pair in network.pairs if pair.there is not None and (pair.here.bfd is None) != (pair.there.bfd is None)
    ]
    if found:
        node, here, dummy = found[0]
        has, lacks = (node, here.node) if here.bfd is not None else (here.node, node)
        yield Issue(
            address_of(node),
            f"is that of a node whose session with {here.node} has BFD at {has} and not at {lacks}{_more(found)}: "
            "BFD does not start, and only the hold time detects a failure.",
            "Set bfd at both ends, or at none.",
        )


def _more(found: t.Sequence[Pair]) -> str:
    return f" (and {len(found) - 1} more like it)" if len(found) > 1 else ""


def ttl_too_small(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a peer with ttlSecurity 1 outside the node's own subnet: its packets pass a router and are refused.

    Only BGPPeers with a peerIP are checked. A peer in the subnet of the sourceAddress is accepted, too.
    """
    for given, local, dummy in network.meant:
        if given.address is None or given.peer.ttlSecurity != 1:
            continue
        address, source = given.address.address, given.extensions.sourceAddress
        far = [
            one.name
            for one in local
            if not any(lies_in(address, subnet) for subnet in (one.subnet, one.subnet6, source))
        ]
        if far:
            yield Issue(
                within(given.where, "ttlSecurity"),
                f"accepts packets of direct neighbours only, and {given.peer.peerIP} is in no subnet of {listed(far)}: "
                "the session never comes up.",
                "Set it to the number of hops, 2 with one router between.",
                value=1,
            )


def own_as_refused(network: LintedFleet) -> t.Iterator[Issue]:
    """Report nodes of one AS that are connected by eBGP only: each drops routes with its own AS number in the path.

    All their sessions are with routers outside the fleet. Nodes that accept their own AS number in any session
    (numAllowedLocalASNumbers) are left out. It makes one issue for each AS of two such nodes or more.
    """
    meeting: dict[int, list[str]] = {}
    for name, found in network.sessions.items():
        own = network.speakers[name]
        outer = [peer for peer in found if peer.kind == "external" and peer.as_number != own.as_towards(peer)]
        if (
            outer
            and len(outer) == len(found)
            and name not in network.mesh
            and not any(peer.allow_local_as for peer in outer)
        ):
            meeting.setdefault(own.as_number, []).append(name)
    for as_number, nodes in meeting.items():
        if len(nodes) > 1:
            variable = f"calico_node_bgp_as_number of {nodes[0]}"
            given = any(
                "calico_node_bgp_as_number" in host.variables for host in network.hosts if host.name == nodes[0]
            )
            yield Issue(
                variable if given else "calico_bgp_as_number",
                f"is the AS number of {listed(nodes)}, which have only eBGP sessions: each finds its own number in "
                "the path of the others' routes and drops them.",
                "Set numAllowedLocalASNumbers: 1 in their BGPPeers, give them AS numbers of their own, or have the "
                "routers rewrite them and name this rule in calico_lint_ignore.",
                value=as_number,
            )
