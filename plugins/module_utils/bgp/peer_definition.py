# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory's settings for BGP sessions: BGPPeers with extensions, and options of sessions without a BGPPeer."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ..base.addresses import parse_address
from ..resources.kinds.bgp import BGPPeer, split_peer_ip
from .bird_state import Bfd
from .peer_extensions import PeerExtensions

_NONE = PeerExtensions()


class PeerAddress(t.NamedTuple):
    """A parsed peerIP: the address in canonical form (RFC 5952), `port` (0 if none is given), and `family` 4 or 6."""

    address: str
    port: int
    family: int


@dataclasses.dataclass(frozen=True)
class PeerDefinition:
    """A BGPPeer and what the inventory says beyond it.

    `members` are the nodes for which it is written; None if the BGPPeer's own fields alone select them. `where` is the
    name of its variable, `password` the name of its secret (name:key), "" for none.
    """

    peer: BGPPeer
    extensions: PeerExtensions = _NONE
    members: t.Optional[frozenset[str]] = None
    where: str = ""
    password: str = ""

    @functools.cached_property
    def address(self) -> t.Optional[PeerAddress]:
        """The parsed peerIP, None if it is invalid or missing."""
        split = split_peer_ip(self.peer.peerIP) if self.peer.peerIP else None
        address = parse_address(split[0]) if split else None
        return PeerAddress(address.text, split[1], address.version) if split and address else None

    @property
    def is_global(self) -> bool:
        """Whether it applies to every node."""
        return self.members is None and not self.peer.node and not self.peer.nodeSelector


@dataclasses.dataclass(frozen=True)
class Unasked:
    """The options of sessions that exist without a BGPPeer: those of the mesh and of the inventory's reflectors.

    `mesh` is whether the mesh exists. `password` is the name of a secret, "" for none. `bfd` None means no BFD.
    """

    mesh: bool = True
    password: str = ""
    graceful_restart_time: t.Optional[int] = None  # seconds; None: the default for all sessions
    bfd: t.Optional[Bfd] = None


#: The mesh exists, and its sessions have no options.
PLAIN_MESH = Unasked()
