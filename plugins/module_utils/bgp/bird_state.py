# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What BIRD is to do on one node, as a value: the part of a NodeState that bird.cfg is rendered from.

Times are seconds unless said otherwise, AS numbers integers, addresses strings without a prefix length. Both families
stand in one list; what belongs to which is told by `family` (4 or 6), or by the CIDR itself. Secrets are named, never
held: a value of this kind may be printed, stored and compared.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.ports import BGP_PORT
from .filter_rules import FilterFunction


@dataclasses.dataclass(frozen=True)
class BirdRoute:
    """A route that BIRD is expected to write (protocol bird): for the plan and the checks, never written by a driver.

    `gateway` is "" where `next_hop` lies in another subnet and no tunnel is used: the underlay's routing decides then.
    """

    destination: str
    gateway: str
    device: str = ""  # a tunnel device, or "" where the next hop decides
    onlink: bool = False
    node: str = ""
    mtu: t.Optional[int] = None
    next_hop: str = ""  # BGP next hop: the address of `node`


@dataclasses.dataclass(frozen=True)
class Bfd:
    """Bidirectional forwarding detection (RFC 5880) of one session: intervals in milliseconds."""

    min_rx: int = 100
    min_tx: int = 100
    multiplier: int = 5


@dataclasses.dataclass(frozen=True)
class BirdPeer:
    """One BGP session: it carries the routes of the family of its addresses. None: what holds for all sessions
    (Bird.with_defaults).

    `kind` is mesh, client (I reflect for it), reflector (it reflects for me), node (another session with a node of the
    fleet) or external (with a router outside of it).
    """

    name: str  # BIRD protocol name, Mesh_10_10_1_12
    address: str
    as_number: int
    kind: str
    passive: bool = False
    node: str = ""  # inventory name, "" for external peers
    multihop: bool = True
    family: int = 4
    port: t.Optional[int] = None  # the peer's; None: Bird.listen_port, of an external peer BGP_PORT
    local_port: t.Optional[int] = None
    local_as: t.Optional[int] = None
    source_address: t.Optional[str] = None  # None: the node's address of that family. "": the kernel chooses
    cluster_id: t.Optional[str] = None  # this node reflects for the peer, in that cluster
    password: str = ""  # name of the secret, name:key
    ttl_security: t.Optional[int] = None  # hops (RFC 5082)
    hold_time: t.Optional[int] = None
    keepalive_time: t.Optional[int] = None
    connect_retry_time: t.Optional[int] = None
    graceful_restart_time: t.Optional[int] = None
    long_lived_stale_time: t.Optional[int] = None  # RFC 9494
    bfd: t.Optional[Bfd] = None
    next_hop: str = "auto"  # auto, self or keep
    allow_local_as: t.Optional[int] = None
    reachable_by: str = ""  # gateway of a host route to the peer
    filters: tuple[str, ...] = ()  # names of BGPFilters, in their order


@dataclasses.dataclass(frozen=True)
class BirdPool:
    """What the kernel filter says of a pool: `device` "" for direct, `cross_subnet`: device only outside own subnet."""

    cidr: str
    device: str = ""
    cross_subnet: bool = False
    mtu: t.Optional[int] = None
    export: bool = True
    block_size: t.Optional[int] = None  # prefix length of its blocks: peers are believed nothing longer or shorter


@dataclasses.dataclass(frozen=True)
class BackupRoute:
    """A static route to a block of another node, of the lowest preference and never announced: it holds traffic while
    sessions restart. The kernel filter places it, as if BGP had brought it with `next_hop`."""

    destination: str
    next_hop: str


@dataclasses.dataclass(frozen=True)
class Communities:
    """What this node adds to all that it announces of `cidr` (BGPConfiguration's prefixAdvertisements): communities of
    two numbers (RFC 1997) and of three (RFC 8092)."""

    cidr: str
    standard: tuple[tuple[int, ...], ...] = ()
    large: tuple[tuple[int, ...], ...] = ()


@dataclasses.dataclass(frozen=True)
class Vtep6:
    """Packets for what `next_hop`, a node's IPv6 address, announces go into vxlan-v6.calico to `gateway`, the
    link-local address of that node's end: the kernel takes no global gateway that is on-link by way of another device.
    """

    next_hop: str
    gateway: str


@dataclasses.dataclass(frozen=True)
class Bird:
    """Data for the bird.cfg template; the template holds syntax, not decisions."""

    router_id: str
    address: str
    as_number: int
    subnet: str  # own underlay subnet, CIDR
    listen_port: int = BGP_PORT
    blocks: tuple[str, ...] = ()  # own blocks, spare ones included, that may be announced
    pools: tuple[BirdPool, ...] = ()
    peers: tuple[BirdPeer, ...] = ()
    cluster_id: t.Optional[str] = None  # set on a route reflector
    workload_node: bool = True  # False: a pure reflector, writes no workload routes
    log_severity: str = "Info"
    graceful_restart_time: int = 120  # seconds
    hold_time: int = 90  # seconds
    keepalive_time: int = 30  # seconds
    long_lived_stale_time: t.Optional[int] = None  # seconds; None: no long-lived graceful restart
    address6: str = ""  # the node's own, "" without one
    subnet6: str = ""
    secrets: tuple[str, ...] = ()  # names of those that peers use; their values stand in a file of their own
    backups: tuple[BackupRoute, ...] = ()
    backup_pools: tuple[BirdPool, ...] = ()  # where backup routes go another way than those of `pools`; (): nowhere
    backups_lead: bool = False  # what BGP says of these blocks goes that way, too: whoever said it may end its session
    routers_alone: tuple[str, ...] = ()  # then: blocks that go like `pools` when an external peer says them, no other
    vteps6: tuple[Vtep6, ...] = ()  # of the other nodes, where an IPv6 pool is tunnelled
    filters: tuple[FilterFunction, ...] = ()  # those of BGPFilters that peers name, in the order of their symbols
    communities: tuple[Communities, ...] = ()
    ignored_interfaces: tuple[str, ...] = ()  # patterns of names: their subnets resolve no next hop
    strict_bind: bool = False  # listen on the node's own addresses alone
    include_dir: str = ""  # folder of the operator's own snippets, *.conf; "": none

    def with_defaults(self, peer: BirdPeer) -> BirdPeer:
        """A session of this BIRD with what holds for all of them in the place of None, as templates/bird writes it."""
        defaults = {
            "port": BGP_PORT if peer.kind == "external" else self.listen_port,
            "local_port": self.listen_port,
            "local_as": self.as_number,
            "source_address": self.address6 if peer.family == 6 else self.address,
            "hold_time": self.hold_time,
            "keepalive_time": self.keepalive_time,
            "graceful_restart_time": self.graceful_restart_time,
            "long_lived_stale_time": self.long_lived_stale_time,
        }
        missing = {field: value for field, value in defaults.items() if getattr(peer, field) is None}
        return dataclasses.replace(peer, **t.cast("dict[str, t.Any]", missing))
