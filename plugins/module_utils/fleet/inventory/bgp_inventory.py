# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of BGP variables: the nodes as BGP speakers, and the BGPPeers with the nodes that have them."""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import typing as t

from ...base import naming, selectors
from ...base.ports import BGP_PORT
from ...bgp.bird_state import Bfd
from ...bgp.peer_definition import PLAIN_MESH, PeerDefinition, Unasked
from ...bgp.peer_extensions import BfdSwitch
from ...bgp.peering import Peering
from ...bgp.speaker import Speaker
from ...resources import api as resources
from ...resources.errors import Refused
from ...resources.kinds.bgp import PASSWORD_REFERENCE
from ...state.errors import FleetError, within
from .. import variables
from ..host import Host
from . import bgp_announcements, flat_resource
from .bgp_announcements import NO_ANNOUNCEMENTS, Announcements
from .bgp_checks import bgp_secrets, conflicts
from .bgp_peer_inventory import Peers, Times, entries
from .node_inventory import FleetNode
from .pool_inventory import Get


@dataclasses.dataclass(frozen=True)
class FleetBGP:
    """The BGP settings of a fleet. Times are in seconds, and for sessions that have none of their own.

    `long_lived_stale_time` None means no long-lived graceful restart. `speakers` are by node name, in order of names.
    `unasked` has the options of sessions that exist without a BGPPeer. With the `bind_mode` "NodeIP", BIRD listens on
    the node's own addresses only; with "None", on all. `merge_paths` is whether the kernel gets all equal paths.
    """

    speakers: t.Mapping[str, Speaker]
    peers: tuple[PeerDefinition, ...] = ()
    unasked: Unasked = PLAIN_MESH
    hold_time: int = 90
    keepalive_time: int = 30
    long_lived_stale_time: t.Optional[int] = None
    bind_mode: str = "None"
    announcements: Announcements = NO_ANNOUNCEMENTS
    merge_paths: bool = True

    @functools.cached_property
    def peering(self) -> Peering:
        """The sessions of all nodes."""
        return Peering(self.speakers.values(), self.peers, self.unasked)

    @functools.cached_property
    def ports(self) -> tuple[int, ...]:
        """The sorted TCP ports of all sessions at either end, also of nodes without sessions and of unused BGPPeers."""
        listening = {speaker.listen_port for speaker in self.speakers.values()}
        own = {given.extensions.listenPort for given in self.peers if given.extensions.listenPort}
        far = {given.address.port or BGP_PORT for given in self.peers if given.address}
        return tuple(sorted(listening | own | far))

    @property
    def has_bfd(self) -> bool:
        """Whether any BGPPeer has BFD, or sessions without a BGPPeer would have it."""
        return self.unasked.bfd is not None or any(given.extensions.bfd for given in self.peers)

    def content(self) -> dict[str, t.Any]:
        """Return the settings as data for JSON, for the hash that names the plan; passwords by name, without values.

        Times are in seconds. The speakers' addresses, subnets and labels are left out: they are those of the nodes.
        """
        return {
            "speakers": [
                [
                    one.name,
                    one.as_number,
                    one.listen_port,
                    one.cluster_id,
                    one.reflector,
                    one.clients,
                    one.router_id,
                ]
                for one in self.speakers.values()
            ],
            "peers": [
                [
                    given.peer.to_document(),
                    dataclasses.asdict(given.extensions),
                    None if given.members is None else sorted(given.members),
                ]
                for given in self.peers
            ],
            "announcements": self.announcements.content(),
            "unasked": dataclasses.asdict(self.unasked),
            "times": [self.hold_time, self.keepalive_time, self.long_lived_stale_time],
            "bind_mode": self.bind_mode,
            "merge_paths": self.merge_paths,
        }


def read(
    get: Get, hosts: t.Sequence[Host], nodes: t.Mapping[str, FleetNode], pools: t.Sequence[resources.IPPool]
) -> FleetBGP:
    """Return the BGP settings in the variables of `hosts`, also if BGP is disabled.

    `nodes` are by name and `hosts` has each of them. If calico_bgp_node_to_node_mesh is unset, there is a mesh if no
    node has a cluster id. Hold and keepalive times and equal router ids are refused only if BGP is enabled.
    """
    secrets = bgp_secrets.read(get(bgp_secrets.VARIABLE))
    _check_cluster_id(get("calico_rr_cluster_id"), "calico_rr_cluster_id")
    hosts_by_name = {host.name: host for host in hosts}
    speakers = {name: _speaker(get, hosts_by_name[name], node) for name, node in nodes.items()}
    mesh = get("calico_bgp_node_to_node_mesh")
    if mesh is None:
        mesh = not any(speaker.cluster_id for speaker in speakers.values())
    unasked = Unasked(
        mesh,
        _mesh_password(get("calico_bgp_mesh_password"), secrets),
        get("calico_bgp_mesh_max_restart_time"),
        _bfd(get("calico_bgp_bfd")),
    )
    times = Times(get("calico_bgp_hold_time"), get("calico_bgp_keepalive_time"))
    if get("calico_bgp_enabled"):
        times.check("calico_bgp_hold_time", times.hold)
        _check_router_ids(speakers, hosts_by_name)
    peers = Peers(speakers, pools, secrets, times)
    bgp = FleetBGP(
        speakers,
        tuple(peers.read(entry) for entry in entries(get, hosts)),
        unasked,
        times.hold,
        times.keepalive,
        get("calico_bgp_long_lived_stale_time"),
        get("calico_bgp_bind_mode"),
        bgp_announcements.read(get, hosts),
        get("calico_bgp_merge_paths"),
    )
    for given in bgp.peers:
        bgp.announcements.check_names(given.peer.filters, within(given.where, "filters"))
    conflicts.check(bgp.peering)
    return bgp


def _speaker(get: Get, host: Host, node: FleetNode) -> Speaker:
    own = functools.partial(variables.of_host, host)
    cluster_id = own("calico_node_route_reflector_cluster_id")
    if cluster_id is not None:
        _check_cluster_id(cluster_id, f"calico_node_route_reflector_cluster_id of {host.name}")
    elif node.reflector:
        cluster_id = get("calico_rr_cluster_id")
    clients = own("calico_node_route_reflector_clients") or "all()"
    try:
        selectors.parse(clients)
    except selectors.SelectorError as error:
        raise FleetError(
            f"calico_node_route_reflector_clients of {host.name}",
            clients,
            f"is no selector: at character {error.position + 1}, expected {error.expected}.",
            "Write for example rack == 'a', or !all() for none.",
        ) from None
    return Speaker(
        node.name,
        own("calico_node_bgp_as_number") or get("calico_bgp_as_number"),
        node.address,
        node.subnet,
        node.address6,
        node.subnet6,
        node.labels,
        own("calico_node_bgp_listen_port") or get("calico_bgp_listen_port"),
        cluster_id or "",
        node.reflector,
        clients,
        _router_id(own("calico_node_router_id"), host.name, node.address),
    )


def _router_id(value: t.Optional[str], node: str, address: str) -> str:
    if value is None:
        return address or naming.router_id(node)
    if value == "hash":
        return naming.router_id(node)
    label = f"calico_node_router_id of {node}"
    try:
        found = ipaddress.IPv4Address(value)
    except ValueError:
        raise FleetError(
            label,
            value,
            "is neither an IPv4 address nor hash.",
            "A router id is written as an IPv4 address, for example 10.10.1.11.",
        ) from None
    if found.is_unspecified:
        raise FleetError(
            label,
            value,
            "is not a router id: BIRD takes it as unset and chooses another one.",
            "Write another IPv4 address, for example 10.10.1.11.",
        )
    return str(found)


def _check_router_ids(speakers: t.Mapping[str, Speaker], hosts: t.Mapping[str, Host]) -> None:
    """Raise FleetError if two speakers of one AS have the same router id (RFC 6286, section 2.1).

    They would refuse each other's sessions, and drop each other's reflected routes as their own (RFC 4456, section 8).
    Two nodes without an IPv4 address may have the same hash: of the names node1 to node300000 17 pairs do.
    """
    variable = "calico_node_router_id"
    owners: dict[tuple[int, str], str] = {}
    for name, speaker in speakers.items():
        other = owners.setdefault((speaker.as_number, speaker.router_id), name)
        if other != name:
            said, quiet = name, other
            if hosts[name].variables.get(variable) is None and hosts[other].variables.get(variable) is not None:
                said, quiet = other, name
            value = hosts[said].variables.get(variable)
            raise FleetError(
                f"{variable} of {said}",
                value,
                f"{'is not set, which ' if value is None else ''}makes {speaker.router_id} its router id. {quiet}, "
                "which is of the same AS, has it, too: neither would take a session or a reflected route from the "
                "other.",
                "Write another one, an IPv4 address that is no other node's.",
            )


def _check_cluster_id(value: t.Any, label: str) -> None:
    try:
        found = ipaddress.IPv4Address(value)
    except ValueError:
        raise FleetError(
            label,
            value,
            "is not an IPv4 address.",
            "A cluster id is written as an IPv4 address, for example 244.0.0.1.",
        ) from None
    if found.is_unspecified:
        raise FleetError(
            label,
            value,
            "is not a cluster id: BIRD takes it as unset and uses the router id.",
            "Write another IPv4 address, for example 244.0.0.1.",
        )


def _mesh_password(value: t.Any, known: t.Collection[str]) -> str:
    if value is None:
        return ""
    label = "calico_bgp_mesh_password"
    try:
        password = PASSWORD_REFERENCE.read(value)
    except Refused as refused:
        raise flat_resource.refused(refused, label) from None
    return bgp_secrets.referred(password, known, label)


def _bfd(value: t.Any) -> t.Optional[Bfd]:
    try:
        return BfdSwitch().read(value)
    except Refused as refused:
        raise flat_resource.refused(refused, "calico_bgp_bfd") from None
