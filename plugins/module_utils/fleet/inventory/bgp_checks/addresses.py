# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of the addresses in one BGPPeer: peerIP, sourceAddress and reachableBy."""

from __future__ import annotations

import ipaddress
import typing as t

from ....base.addresses import cidr, family_of, parse_address, special_word
from ....bgp.peer_definition import PeerDefinition
from ....bgp.speaker import Speaker, lies_in
from ....resources import api as resources
from ....state.errors import FleetError, within

_ONE_ROUTER = "Write the address of one router."
_EVERYWHERE = ipaddress.IPv4Address("255.255.255.255")


class PeerAddresses:
    """The addresses of a fleet that those of BGPPeers are compared with."""

    def __init__(self, speakers: t.Iterable[Speaker], pools: t.Sequence[resources.IPPool]) -> None:
        self._pools = pools
        self._nodes: set[str] = set()
        subnets: set[str] = set()
        for one in speakers:
            self._nodes.update(filter(None, (one.address, one.address6)))
            subnets.update(filter(None, (one.subnet, one.subnet6)))
        self._special = {address: what for subnet in sorted(subnets) for address, what in _special(subnet)}

    def check(self, given: PeerDefinition) -> None:
        """Raise FleetError if an address of a BGPPeer cannot be that of one host outside the pools, or does not fit.

        IPv6 link-local addresses are refused, because BIRD needs an interface for them. A peerIP that is not a node's
        needs an asNumber.
        """
        peer, own = given.peer, given.extensions
        far = given.address.address if given.address else ""
        of_source = dict(_special(own.sourceAddress)) if "/" in own.sourceAddress else {}
        self._check_host(given, "peerIP", peer.peerIP, far, {**self._special, **of_source})
        self._check_host(given, "sourceAddress", own.sourceAddress, own.source, of_source)
        self._check_host(given, "reachableBy", peer.reachableBy, peer.reachableBy, {**self._special, **of_source})
        _check_family(given)
        if not far:
            return
        self._check_pools(given, "peerIP", far, "A peer outside the fleet")
        self._check_pools(given, "reachableBy", peer.reachableBy, "A gateway")
        if peer.reachableBy and parse_address(peer.reachableBy) == parse_address(far):
            raise wrong(
                given,
                "reachableBy",
                "is the peer itself: a route to it by way of itself leads nowhere.",
                "Write the gateway's address, or leave it out for a peer in a subnet of the node.",
            )
        if not peer.asNumber and far not in self._nodes:
            raise FleetError(
                given.where,
                None,
                "needs asNumber beside peerIP: the peer is no node of the fleet.",
                "Write for example peerIP: 10.10.1.1, asNumber: 65000.",
            )

    def _check_host(
        self, given: PeerDefinition, field: str, value: str, address: str, special: t.Mapping[str, str]
    ) -> None:
        """Raise FleetError if `address`, which field `field` has in `value`, is not one that a single host can have.

        `special` says what the addresses of subnets are that no host has.
        """
        ip = ipaddress.ip_address(address) if address else None
        if ip is None:
            return
        where = within(given.where, field)
        # Calico and BIRD take peers from ff00::/8, and configurations in use have them.
        if (ip.version == 4 and (ip.is_multicast or ip == _EVERYWHERE)) or ip.is_unspecified:
            raise FleetError(where, value, "is not an address of one host.", _ONE_ROUTER)
        if ip.is_loopback:
            raise FleetError(
                where,
                value,
                "is a loopback address, which every host has.",
                "Write an address of the network between both ends.",
            )
        if ip.version == 6 and ip.is_link_local:
            raise FleetError(
                where,
                value,
                "is a link-local address, which means nothing without an interface, and a BGPPeer names none.",
                "Write a global or unique local address, for example fd00:10:10:1::1.",
            )
        if str(ip) in special:
            own = field == "sourceAddress"
            remedy = "Write an address of the node, for example 10.20.1.11/24." if own else _ONE_ROUTER
            raise FleetError(where, value, f"is the {special[str(ip)]}.", remedy)

    def _check_pools(self, given: PeerDefinition, field: str, address: str, who: str) -> None:
        for pool in self._pools if address else ():
            if lies_in(address, pool.cidr):
                rule = f"lies in pool {pool.name} ({pool.cidr})."
                raise FleetError(within(given.where, field), address, rule, f"{who} has an address outside the pools.")


def _special(subnet: str) -> t.Iterator[tuple[str, str]]:
    """Yield each address of `subnet` that no host can have, with words such as "network address of the subnet ...".

    `subnet` is a CIDR, which may have bits beyond its prefix.
    """
    found = ipaddress.ip_network(subnet, strict=False)
    for address in (found.network_address, found.broadcast_address):
        word = special_word(cidr(f"{address}/{found.prefixlen}"))
        if word:
            yield str(address), f"{word} address of the subnet {found}"


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


def wrong(given: PeerDefinition, field: str, rule: str, remedy: str) -> FleetError:
    """Return, not raise, the error about a field of a BGPPeer."""
    return FleetError(within(given.where, field), getattr(given.peer, field), rule, remedy)
