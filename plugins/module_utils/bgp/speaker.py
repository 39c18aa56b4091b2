# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of a fleet as BGP knows it."""

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
    """A node of the fleet, as BGP knows it. An address is "" where it has none of that family; subnets are CIDRs.

    `reflector`: it is of the group of reflectors, and speaks with those in it and with all nodes that `clients`
    selects. What has a `cluster_id` and is not in that group reflects where a BGPPeer gives it clients.
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
        """(family, address, address as a number) for each family that it has."""
        return tuple(
            (family, address, int(ipaddress.ip_address(address)))
            for family, address in ((4, self.address), (6, self.address6))
            if address
        )

    def end(self, family: int) -> str:
        """Its address of that family, "" without one."""
        return self.address if family == 4 else self.address6

    def subnet_of(self, family: int) -> str:
        return self.subnet if family == 4 else self.subnet6

    def as_towards(self, peer: BirdPeer) -> int:
        """Its AS number in one of its sessions."""
        return peer.local_as or self.as_number

    @functools.cached_property
    def symbols(self) -> dict[int, str]:
        """What a session with it is named by after its kind: 10_10_1_12."""
        return {family: naming.bird_peer_name("", address)[1:] for family, address, dummy in self.ends}


def lies_in(address: str, subnet: str) -> bool:
    """Whether a CIDR, with or without host bits, holds the address; "" holds none, nor does one of the other family."""
    return bool(subnet) and ipaddress.ip_address(address) in _network(subnet)


@functools.lru_cache(maxsize=1024)
def _network(cidr: str) -> t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]:
    return ipaddress.ip_network(cidr, strict=False)
