# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BGPPeers of an inventory, read and checked against its nodes and pools."""

from __future__ import annotations

import dataclasses
import ipaddress
import typing as t

from ... import resources
from ...base.addresses import family_of
from ...base.ports import BGP_PORT
from ...bgp import peer_extensions
from ...bgp.peer_definition import PeerDefinition
from ...bgp.peering import Peering
from ...bgp.speaker import Speaker, lies_in
from ...resources.durations import parse_duration
from ...resources.errors import Refused
from ...resources.fields import types_of
from ...state.errors import FleetError, did_you_mean, within
from . import bgp_secrets, flat_resource
from .bgp_peer_lists import PeerEntry

#: The name of a BGPPeer whose entry has none.
UNNAMED = "peer"


class Times(t.NamedTuple):
    """The hold time and keepalive time of a session, in seconds."""

    hold: int
    keepalive: int

    def with_own(self, hold: t.Optional[int], keepalive: t.Optional[int]) -> Times:
        """Return the times of a session that has these values itself; None keeps the present one."""
        return Times(self.hold if hold is None else hold, self.keepalive if keepalive is None else keepalive)

    def check(self, label: str, value: t.Optional[int]) -> None:
        """Raise FleetError about field `label` with `value` if the hold time is below the keepalive time."""
        if self.keepalive > self.hold:
            raise FleetError(
                label,
                value,
                f"makes the hold time {self.hold} s with keepalives every {self.keepalive} s: BIRD refuses a hold time "
                "that is shorter.",
                "Set both, the hold time to three keepalive times or more.",
            )


class Peers:
    """A reader of BGPPeers, which parses equal entries of several hosts only once.

    `secrets` are the names of all existing secrets. `times` apply to sessions without times of their own.
    """

    def __init__(
        self,
        speakers: t.Mapping[str, Speaker],
        pools: t.Sequence[resources.IPPool],
        secrets: t.Collection[str],
        times: Times,
    ) -> None:
        self.speakers = speakers
        self.times = times
        self.secrets = secrets
        self.addresses = {address for one in speakers.values() for address in (one.address, one.address6) if address}
        self.pools = pools
        self._read: dict[str, tuple[resources.BGPPeer, peer_extensions.PeerExtensions]] = {}

    def read(self, entry: PeerEntry) -> PeerDefinition:
        """Return the checked BGPPeer of `entry`. Raise FleetError, or TypeError for a key that JSON cannot have."""
        peer, extensions = self._resource(entry)
        given = PeerDefinition(peer, extensions, entry.members, entry.label)
        self._check(given)
        password = bgp_secrets.referred(peer.password, self.secrets, within(entry.label, "password"))
        return dataclasses.replace(given, password=password)

    def _resource(self, entry: PeerEntry) -> tuple[resources.BGPPeer, peer_extensions.PeerExtensions]:
        label = entry.label
        content = flat_resource.mapping(resources.BGPPeer, entry.content, label)
        key = flat_resource.text_of(content)
        if key not in self._read:
            named = content if "metadata" in content or "spec" in content else {"name": UNNAMED, **content}
            try:
                theirs, extensions = peer_extensions.split(named)
            except Refused as refused:
                raise flat_resource.refused(refused.inside("spec") if "spec" in content else refused, label) from None
            _check_names(theirs, label)
            self._read[key] = (flat_resource.read(resources.BGPPeer, theirs, label), extensions)
        return self._read[key]

    def _check(self, given: PeerDefinition) -> None:
        peer, label = given.peer, given.where
        if peer.localWorkloadSelector:
            raise _wrong(
                given,
                "localWorkloadSelector",
                "would have this node speak BGP with its own workloads, which is not done here.",
                "Remove it. Nodes advertise the addresses of their workloads, which come from the pools.",
            )
        if peer.node and peer.node not in self.speakers:
            raise _wrong(given, "node", "is not a host of the fleet.", "Name one of the inventory's nodes.")
        if not peer.peerIP and not peer.peerSelector:
            raise FleetError(
                label,
                None,
                "names no peer.",
                "Write peerIP: 10.10.1.1 and asNumber: 65000 for a router, or peerSelector: has(reflector) for nodes.",
            )
        if peer.sourceAddress == "None" and given.extensions.bfd:
            raise _wrong(
                given,
                "sourceAddress",
                "stands beside bfd. BFD has to know both addresses of a session.",
                "Leave it out, which means the node's own address, or write one there.",
            )
        _check_ranges(given)
        _check_reach(given)
        _check_family(given)
        own = given.extensions
        if own.holdTime is not None or own.keepaliveTime is not None:
            field, value = ("keepaliveTime", own.keepaliveTime) if own.holdTime is None else ("holdTime", own.holdTime)
            self.times.with_own(own.holdTime, own.keepaliveTime).check(within(label, field), value)
        if given.address:
            self._check_address(given, given.address.address)

    def _check_address(self, given: PeerDefinition, address: str) -> None:
        for pool in self.pools:
            if lies_in(address, pool.cidr):
                rule = f"lies in pool {pool.name} ({pool.cidr})."
                remedy = "A peer outside the fleet has an address outside the pools."
                raise FleetError(within(given.where, "peerIP"), address, rule, remedy)
        if not given.peer.asNumber and address not in self.addresses:
            raise FleetError(
                given.where,
                None,
                "needs asNumber beside peerIP: the peer is no node of the fleet.",
                "Write for example peerIP: 10.10.1.1, asNumber: 65000.",
            )

    def check_pairs(self, peering: Peering) -> None:
        """Raise FleetError if two BGPPeers give a node the same peer address and port, or one suits none of its nodes.

        A missing port counts as BGP_PORT. A BGPPeer suits a node that has an address of the peer's IP version.
        """
        seen: dict[tuple[str, str, int], PeerDefinition] = {}
        for given, local, dummy in peering.meant():
            if given.address is None:
                continue
            address, port, family = given.address
            if local and not any(speaker.end(family) for speaker in local):
                raise _wrong(
                    given,
                    "peerIP",
                    f"is IPv{family}, and no node that it is for has an IPv{family} address.",
                    "A session runs between two addresses of one family: set calico_node_address"
                    f"{'_ipv6' if family == 6 else ''}, or remove the peer.",
                )
            for speaker in local:
                other = seen.setdefault((speaker.name, address, port or BGP_PORT), given)
                if other is not given:
                    raise _wrong(
                        given,
                        "peerIP",
                        f"is also the address of {other.where}, and {speaker.name} would peer with it twice.",
                        "Remove one, or let their nodeSelectors choose different nodes.",
                    )


def _wrong(given: PeerDefinition, field: str, rule: str, remedy: str) -> FleetError:
    """Return, not raise, the error about a field of a BGPPeer."""
    return FleetError(within(given.where, field), getattr(given.peer, field), rule, remedy)


def _check_reach(given: PeerDefinition) -> None:
    """Raise FleetError if the peer's peerIP, sourceAddress or reachableBy is an IPv6 link-local address.

    BIRD needs an interface for such an address. Unspecified addresses and IPv4 multicast are refused, too.
    """
    peer = given.peer
    named = (
        ("peerIP", peer.peerIP, given.address.address if given.address else ""),
        ("sourceAddress", given.extensions.sourceAddress, given.extensions.source),
        ("reachableBy", peer.reachableBy, peer.reachableBy),
    )
    for field, value, address in named:
        ip = ipaddress.ip_address(address) if address else None
        if ip is None:
            continue
        # Calico and BIRD take peers from ff00::/8, and configurations in use have them.
        if (ip.version == 4 and ip.is_multicast) or ip.is_unspecified:
            raise FleetError(
                within(given.where, field), value, "is not an address of one host.", "Write the address of one router."
            )
        if ip.version == 6 and ip.is_link_local:
            raise FleetError(
                within(given.where, field),
                value,
                "is a link-local address, which means nothing without an interface, and a BGPPeer names none.",
                "Write a global or unique local address, for example fd00:10:10:1::1.",
            )


def _check_family(given: PeerDefinition) -> None:
    """Raise FleetError if sourceAddress and peerIP differ in IP version. A peerSelector has sessions of both."""
    own = given.extensions
    if given.address is None or not own.source or family_of(own.source) == given.address.family:
        return
    raise FleetError(
        within(given.where, "sourceAddress"),
        own.sourceAddress,
        f"is IPv{family_of(own.source)}, and the peerIP {given.peer.peerIP} is IPv{given.address.family}.",
        f"A session runs between two addresses of one family: write an IPv{given.address.family} address of the node, "
        "or leave it out.",
    )


def _check_ranges(given: PeerDefinition) -> None:
    """Raise FleetError for AS number 0, a maxRestartTime outside 0 to 4095 s or numAllowedLocalASNumbers below 0."""
    peer = given.peer
    for field in ("asNumber", "localASNumber"):
        if getattr(peer, field) == 0:
            raise _wrong(
                given,
                field,
                "is reserved: no speaker may have it (RFC 7607).",
                "Write a number from 1 to 4294967295, or leave it out.",
            )
    least, most = peer_extensions.RESTART_TIME
    restart = (parse_duration(peer.maxRestartTime) if peer.maxRestartTime else None) or 0
    if restart < least:
        raise _wrong(
            given,
            "maxRestartTime",
            f"is less than {least}.",
            f"Write how long the peer keeps the routes of a BIRD that restarts, from {least}s to {most}s, or leave it "
            "out.",
        )
    if restart > most:
        raise _wrong(
            given,
            "maxRestartTime",
            "is longer than BGP can say (RFC 4724).",
            f"Choose {most}s or less; longLivedStaleTime keeps routes for longer.",
        )
    if peer.numAllowedLocalASNumbers is not None and peer.numAllowedLocalASNumbers < 0:
        raise _wrong(
            given,
            "numAllowedLocalASNumbers",
            "is less than 0.",
            "Write how often the own AS number may stand in a path, for example 1, or leave it out.",
        )


def _check_names(content: t.Mapping[str, t.Any], label: str) -> None:
    """Raise FleetError, which suggests a similar name, if the spec in `content` has an unknown field."""
    spec = content.get("spec", content)
    if not isinstance(spec, t.Mapping):
        return
    outside = ("name", "labels", "annotations", "kind", "apiVersion", "metadata") if spec is content else ()
    known = (*types_of(resources.BGPPeer), *peer_extensions.NAMES)
    for name in spec:
        if name not in known and name not in outside:
            path = name if spec is content else f"spec.{name}"
            raise FleetError(
                within(label, str(path)), None, "is not a field of a BGPPeer.", did_you_mean(str(name), known, "It has")
            )
