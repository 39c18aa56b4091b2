# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a fleet as BGP knows them."""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import typing as t

from ..base import naming
from ..base.ports import BGP_PORT
from .bird_state import BirdPeer


@dataclasses.dataclass(frozen=True)
class Speaker:
    """A node of the fleet as BGP knows it.

    An address is "" if the node has none of that family. Subnets are CIDRs. `cluster_id` is "" if the node does not
    reflect. A `reflector` is in the inventory's group of reflectors: it has sessions with the others in it, and with
    all nodes that the selector `clients` selects. Any other node with a `cluster_id` reflects if a BGPPeer gives it
    clients. `ends` and `symbols` raise ValueError if an address is no IP address.
    """

    name: str
    as_number: int
    address: str = ""
    subnet: str = ""
    address6: str = ""
    subnet6: str = ""
    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    listen_port: int = BGP_PORT
    cluster_id: str = ""
    reflector: bool = False
    clients: str = "all()"
    router_id: str = ""

    @functools.cached_property
    def ends(self) -> tuple[tuple[int, str, int], ...]:
        """The tuple of (family, address, address as a number) for each address of the node, IPv4 first."""
        return tuple(
            (family, address, int(ipaddress.ip_address(address)))
            for family, address in ((4, self.address), (6, self.address6))
            if address
        )

    def end(self, family: int) -> str:
        """Return the node's address of that family, "" if it has none."""
        return self.address if family == 4 else self.address6

    def subnet_of(self, family: int) -> str:
        return self.subnet if family == 4 else self.subnet6

    def as_towards(self, peer: BirdPeer) -> int:
        """Return the node's own AS number in the session with `peer`: the session's `local_as`, else `as_number`."""
        return peer.local_as or self.as_number

    @functools.cached_property
    def symbols(self) -> dict[int, str]:
        """The node's part of BIRD protocol names by family, as in {4: "10_10_1_12", 6: "fd00__12"}."""
        return {family: naming.bird_peer_name("", address)[1:] for family, address, dummy in self.ends}


def lies_in(address: str, subnet: str) -> bool:
    """Return whether the subnet (a CIDR, with or without host bits; "" contains nothing) contains the address.

    Raise ValueError if a text is not an address or CIDR; for the subnet "", the address is not checked.
    """
    return bool(subnet) and ipaddress.ip_address(address) in _network(subnet)


@functools.lru_cache(maxsize=1024)
def _network(cidr: str) -> t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]:
    return ipaddress.ip_network(cidr, strict=False)
