# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of a NodeState that bird.cfg is rendered from: all that BIRD does on one node.

Times are seconds unless said otherwise, addresses strings without a prefix length. Lists contain both families:
`family` (4 or 6), or the CIDR itself, says to which one an entry belongs. Secrets are named, never contained: these
values may be printed, stored and compared.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.ports import BGP_PORT
from .filter_rules import IMPORT, FilterFunction

#: The connect retry time of sessions without their own, in seconds, as in templates/bird/peer_templates.j2.
DEFAULT_CONNECT_RETRY_TIME = 5


@dataclasses.dataclass(frozen=True)
class BirdRoute:
    """A route to another node's block that BIRD is expected to write to the kernel. No driver writes it.

    `gateway` is "" if `next_hop` lies in another subnet and no tunnel is used: then the underlay's routing decides.
    `mtu` is in bytes, None if the route sets none.
    """

    destination: str
    gateway: str
    device: str = ""  # the tunnel device; "": no tunnel, so the kernel finds the device by the gateway or next hop
    onlink: bool = False  # True: the kernel takes the gateway for a neighbour on the device, whatever its routes say
    node: str = ""
    mtu: t.Optional[int] = None
    next_hop: str = ""  # the BGP next hop, which is the address of `node`


@dataclasses.dataclass(frozen=True)
class Bfd:
    """Bidirectional forwarding detection (RFC 5880) for one session.

    `min_rx` and `min_tx` are intervals in milliseconds, `multiplier` the number of packets that may be missed.
    """

    min_rx: int = 100
    min_tx: int = 100
    multiplier: int = 5


@dataclasses.dataclass(frozen=True)
class BirdPeer:
    """One BGP session of a node with the peer `address`. It carries the routes of the family of its addresses.

    `kind` is mesh, client (this node is a reflector of the peer), reflector (the peer is a reflector of this node),
    node (any other session with a node of the fleet) or external (a session with a router outside of the fleet).
    Between two ASes, or with a router outside, only `cluster_id` says whether this node reflects. A None of a field
    that `Bird.with_defaults` fills means the default for all sessions. Any other None means that the feature is off.
    """

    name: str  # the session's name in BIRD, such as Mesh_10_10_1_12
    address: str
    as_number: int
    kind: str
    passive: bool = False  # True: this node waits for the peer to connect
    node: str = ""  # the peer's name in the inventory, "" for external peers
    multihop: bool = True  # False: the peer must be on a subnet of an interface, with no router between
    family: int = 4
    port: t.Optional[int] = None  # the peer's port; None: Bird.listen_port, or BGP_PORT for an external peer
    local_port: t.Optional[int] = None
    local_as: t.Optional[int] = None
    # None: the node's address of the session's family; "": the kernel chooses, or with Bird.strict_bind the node's
    source_address: t.Optional[str] = None
    cluster_id: t.Optional[str] = None  # the cluster in which this node reflects for the peer; None: it does not
    password: str = ""  # name of the secret, name:key; "": no password
    ttl_security: t.Optional[int] = None  # the most hops to the peer (RFC 5082); None: off
    hold_time: t.Optional[int] = None
    keepalive_time: t.Optional[int] = None
    connect_retry_time: t.Optional[int] = None
    graceful_restart_time: t.Optional[int] = None
    long_lived_stale_time: t.Optional[int] = None  # seconds (RFC 9494)
    bfd: t.Optional[Bfd] = None
    next_hop: str = "auto"  # the next hop in routes that are advertised to the peer: auto, self or keep
    allow_local_as: t.Optional[int] = None  # how often a received path may have the own AS number; None: never
    reachable_by: str = ""  # the gateway of a host route to the peer; "": no host route
    filters: tuple[str, ...] = ()  # names of BGPFilters, in their order


@dataclasses.dataclass(frozen=True)
class BirdPool:
    """An IP pool as BIRD's kernel filter treats it.

    `device` is the tunnel device, or "" for direct routes. With `cross_subnet` the device is used only for nodes
    outside of the node's own subnet. `mtu` is in bytes, None if routes set none. Without `export`, this node neither
    advertises its blocks in the pool nor passes others on, unless a BGPFilter accepts them.
    """

    cidr: str
    device: str = ""
    cross_subnet: bool = False
    mtu: t.Optional[int] = None
    export: bool = True
    block_size: t.Optional[int] = None  # the prefix length that a peer's block must have without a BGPFilter; None: any


@dataclasses.dataclass(frozen=True)
class BackupRoute:
    """A static route to a block of another node by that node's address `next_hop`.

    It has the lowest preference and is never advertised. It keeps traffic flowing while sessions restart.
    """

    destination: str
    next_hop: str


@dataclasses.dataclass(frozen=True)
class Communities:
    """The communities that this node adds to the routes inside `cidr` that it advertises (prefixAdvertisements).

    Routes that a BGPFilter accepts do not get them. `standard` communities have two numbers (RFC 1997), `large` ones
    three (RFC 8092).
    """

    cidr: str
    standard: tuple[tuple[int, ...], ...] = ()
    large: tuple[tuple[int, ...], ...] = ()


@dataclasses.dataclass(frozen=True)
class Vtep6:
    """The link-local `gateway` in vxlan-v6.calico for packets to blocks of the node whose address is `next_hop`.

    It is that node's end of the tunnel. The kernel accepts no global gateway that is on-link on another device.
    """

    next_hop: str
    gateway: str


@dataclasses.dataclass(frozen=True)
class Bird:
    """The data for the bird.cfg template of one node. The template contains syntax, not decisions.

    An address or subnet is "" if the node has none of that family.
    """

    router_id: str
    address: str
    as_number: int
    subnet: str  # the node's underlay subnet (CIDR)
    listen_port: int = BGP_PORT
    blocks: tuple[str, ...] = ()  # the node's own blocks (CIDRs) that may be advertised, spare ones included
    pools: tuple[BirdPool, ...] = ()
    peers: tuple[BirdPeer, ...] = ()
    cluster_id: t.Optional[str] = None  # the cluster id of a route reflector; None: the node is none
    workload_node: bool = True  # False: the node only reflects routes, and BIRD writes no routes to blocks
    log_severity: str = "Info"
    graceful_restart_time: int = 120  # seconds
    hold_time: int = 90  # seconds
    keepalive_time: int = 30  # seconds
    long_lived_stale_time: t.Optional[int] = None  # seconds; None: no long-lived graceful restart
    address6: str = ""  # the node's own IPv6 address, "" if it has none
    subnet6: str = ""
    secrets: tuple[str, ...] = ()  # names (name:key) of the secrets that peers use; their values are in another file
    backups: tuple[BackupRoute, ...] = ()
    backup_pools: tuple[BirdPool, ...] = ()  # the pools as backup routes use them; (): as in `pools`
    backups_lead: bool = False  # True: BGP routes to destinations of `backups` get the backups' next hops and devices
    # Blocks (CIDRs) to which `backups_lead` is limited; their routes from external peers keep their own next hops. ()
    # means that `backups_lead` is for all destinations of `backups`, also of those that external peers announce.
    routers_alone: tuple[str, ...] = ()
    vteps6: tuple[Vtep6, ...] = ()  # the other nodes' ends of the IPv6 tunnel; (): there are none, or it is not used
    filters: tuple[FilterFunction, ...] = ()  # functions of the BGPFilters that peers name, in order of these names
    communities: tuple[Communities, ...] = ()
    ignored_interfaces: tuple[str, ...] = ()  # patterns of names of interfaces whose subnets resolve no next hop
    strict_bind: bool = False  # True: sessions with a source address listen on that address alone
    include_dir: str = ""  # the folder of the operator's own snippets of bird.cfg (*.conf); "": none
    merge_paths: bool = False  # True: the kernel gets all equally good paths to a destination, False: one of them

    def with_defaults(self, peer: BirdPeer) -> BirdPeer:
        """Return `peer` with this BIRD's defaults in place of None in its ports, own AS, own address and times.

        `long_lived_stale_time` stays None if this BIRD has none. The default of `port` is BGP_PORT for a router outside
        of the fleet, else the port of this BIRD. templates/bird uses the same defaults.
        """
        defaults = self._defaults(peer)
        missing = {field: value for field, value in defaults.items() if getattr(peer, field) is None}
        return dataclasses.replace(peer, **missing)

    def sockets(self, peer: BirdPeer) -> tuple[tuple[str, int], tuple[str, int]]:
        """Return (address, port) of both ends of the session with `peer`, sorted, so that both ends have the same.

        A source address that the kernel chooses counts as this node's address of the session's family.
        """
        defaults = self._defaults(peer)  # `with_defaults` takes several times as long, and a fleet has many sessions
        own = peer.source_address or defaults["source_address"]
        own_port = defaults["local_port"] if peer.local_port is None else peer.local_port
        port = defaults["port"] if peer.port is None else peer.port
        one, other = sorted(((own, own_port), (peer.address, port)))
        return one, other

    def _defaults(self, peer: BirdPeer) -> dict[str, t.Any]:
        return {
            "port": BGP_PORT if peer.kind == "external" else self.listen_port,
            "local_port": self.listen_port,
            "local_as": self.as_number,
            "source_address": self.address6 if peer.family == 6 else self.address,
            "hold_time": self.hold_time,
            "keepalive_time": self.keepalive_time,
            "connect_retry_time": DEFAULT_CONNECT_RETRY_TIME,
            "graceful_restart_time": self.graceful_restart_time,
            "long_lived_stale_time": self.long_lived_stale_time,
        }


def may_bring_equal_paths(peers: t.Iterable[BirdPeer], filters: t.Iterable[FilterFunction]) -> bool:
    """Return whether these sessions of a node may bring equally good paths to one destination. `filters` are its own.

    Two sessions of one IP version do that with routers outside of the fleet, or with nodes from which a BGPFilter
    accepts routes. Any other session with a node brings only blocks, and a block has one node.
    """
    accepting = {
        (function.filter, function.family)
        for function in filters
        if function.direction == IMPORT and any(rule.accept for rule in function.rules)
    }
    families = [
        peer.family
        for peer in peers
        if peer.kind == "external" or any((name, peer.family) in accepting for name in peer.filters)
    ]
    return len(families) > len(set(families))
