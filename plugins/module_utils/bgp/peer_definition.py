# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory says of sessions: BGPPeers with what else is known of them, and what holds without a BGPPeer."""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import typing as t

from ..resources.kinds.bgp import BGPPeer, split_peer_ip
from .bird_state import Bfd
from .peer_extensions import PeerExtensions

_NONE = PeerExtensions()


class PeerAddress(t.NamedTuple):
    """A peerIP: the address as IPv4 and IPv6 write it (RFC 5952), `port` 0 where none is given, `family` 4 or 6."""

    address: str
    port: int
    family: int


@dataclasses.dataclass(frozen=True)
class PeerDefinition:
    """A BGPPeer with what else is known of it: `members` are the nodes that it is written for (None: it says itself
    for which), `where` the variable that it stands in, `password` the name of its secret."""

    peer: BGPPeer
    extensions: PeerExtensions = _NONE
    members: t.Optional[frozenset[str]] = None
    where: str = ""
    password: str = ""

    @functools.cached_property
    def address(self) -> t.Optional[PeerAddress]:
        """Its peerIP; None where it chooses its peers by a selector."""
        split = split_peer_ip(self.peer.peerIP) if self.peer.peerIP else None
        if split is None:
            return None
        address = ipaddress.ip_address(split[0])
        return PeerAddress(str(address), split[1], address.version)

    @property
    def is_global(self) -> bool:
        return self.members is None and not self.peer.node and not self.peer.nodeSelector


@dataclasses.dataclass(frozen=True)
class Unasked:
    """What holds for sessions that are there without a BGPPeer: the mesh, and those of the group of reflectors."""

    mesh: bool = True
    password: str = ""
    graceful_restart_time: t.Optional[int] = None  # seconds
    bfd: t.Optional[Bfd] = None


#: A mesh without any options.
PLAIN_MESH = Unasked()
