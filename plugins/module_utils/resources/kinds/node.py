# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node: a host of the network, its addresses and its BGP settings."""

from __future__ import annotations

import base64
import dataclasses
import re
import typing as t

from ..errors import Refused
from ..fields import AS_NUMBER, IPV4, IPV6, MAC, NODE_IPV4, NODE_IPV6, TEXT, Fields, Items, Text, Type, field
from ..resource import Resource

_ROUTER_ID = Text(IPV4.check, "is not in the form of an IPv4 address.", "Write it as 244.0.0.1.")


def _is_key(text: str) -> bool:
    text = text.replace("\r", "").replace("\n", "")
    return bool(re.fullmatch(r"[A-Za-z0-9+/]{43}=", text, re.ASCII)) and len(base64.b64decode(text)) == 32


_PUBLIC_KEY = Text(_is_key, "is not a WireGuard public key.", "It has 32 bytes in base64, as wg pubkey prints them.")


@dataclasses.dataclass(frozen=True)
class NodeBGP:
    """A node's BGP settings, at least one. Addresses are as written, with their prefix length if one was given."""

    ipv4Address: str = field(NODE_IPV4, "")
    ipv6Address: str = field(NODE_IPV6, "")
    asNumber: t.Optional[int] = field(AS_NUMBER)
    ipv4IPIPTunnelAddr: str = field(IPV4, "")
    routeReflectorClusterID: str = field(_ROUTER_ID, "")

    def checked(self) -> NodeBGP:
        if self == NodeBGP():
            raise Refused(None, "is empty.", "Set one of its fields, or leave it out.")
        return self


@dataclasses.dataclass(frozen=True)
class NodeWireguard:
    """The addresses of a node's WireGuard devices."""

    interfaceIPv4Address: str = field(IPV4, "")
    interfaceIPv6Address: str = field(IPV6, "")


@dataclasses.dataclass(frozen=True)
class NodeAddress:
    """An address at which clients can reach a node. As in Calico, any text is accepted."""

    address: str = field(TEXT, "")
    type: str = field(TEXT, "")


@dataclasses.dataclass(frozen=True)
class OrchRef:
    """A node's name in an orchestrator."""

    nodeName: str = field(TEXT, "")
    orchestrator: str = field(TEXT, "")


@dataclasses.dataclass(frozen=True)
class NodeStatus:
    """The state that a node reports about itself."""

    wireguardPublicKey: str = field(_PUBLIC_KEY, "")
    wireguardPublicKeyV6: str = field(_PUBLIC_KEY, "")
    podCIDRs: tuple[str, ...] = field(Items(TEXT), ())


@dataclasses.dataclass(frozen=True)
class Node(Resource):
    """A host of the network."""

    KIND: t.ClassVar[str] = "Node"
    STATUS: t.ClassVar[t.Optional[Type]] = Fields(NodeStatus)

    status: NodeStatus = dataclasses.field(default=NodeStatus())
    bgp: t.Optional[NodeBGP] = field(Fields(NodeBGP))
    ipv4VXLANTunnelAddr: str = field(IPV4, "")
    vxlanTunnelMACAddr: str = field(MAC, "")
    ipv6VXLANTunnelAddr: str = field(IPV6, "")
    vxlanTunnelMACAddrV6: str = field(MAC, "")
    orchRefs: tuple[OrchRef, ...] = field(Items(Fields(OrchRef)), ())
    wireguard: t.Optional[NodeWireguard] = field(Fields(NodeWireguard))
    addresses: tuple[NodeAddress, ...] = field(Items(Fields(NodeAddress)), ())
