# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One NodeState per node, out of a Fleet. Pure, and linear in the number of nodes."""

from __future__ import annotations

import typing as t

from .. import naming
from . import firewall
from .attachment import endpoint_sysctls, own_routes
from .cidr import number
from .fleet import Fleet
from .inventory import FleetNode
from .node_state import (
    OVERHEAD,
    UNDERLAY,
    Bird,
    BirdPeer,
    BirdPool,
    BirdRoute,
    Block,
    FdbEntry,
    Ipam,
    Neighbor,
    NodeState,
    Pool,
    Route,
    Sysctl,
    TunnelDevice,
    WorkloadEndpoint,
)

DEVICE = {
    "IPIP": "tunl0",
    "IPIPCrossSubnet": "tunl0",
    "VXLAN": "vxlan.calico",
    "VXLANCrossSubnet": "vxlan.calico",
    "None": "",
}
TUNNEL = {"tunl0": "ipip", "vxlan.calico": "vxlan"}


def node_state(fleet: Fleet, name: str) -> NodeState:
    """All that node `name` must have. Raises KeyError for a node that is not in the fleet."""
    node = fleet.nodes[name]
    settings = fleet.settings
    pools = tuple(
        Pool(
            pool.name,
            pool.cidr,
            pool.blockSize,
            pool.encapsulation,
            pool.natOutgoing,
            pool.disabled,
            pool.disableBGPExport,
            settings.underlay_mtu - OVERHEAD[pool.encapsulation],
            node_selector=pool.nodeSelector or "all()",
            allowed_uses=pool.allowedUses,
            assignment_mode=pool.assignmentMode,
        )
        for pool in fleet.pools
    )
    ipam = fleet.ipam_of(name)
    by_name = {pool.name: pool for pool in pools}
    devices = _devices(fleet, node, ipam, pools) if node.workload_node else ()
    workloads = _workloads(fleet, node, ipam, by_name)
    remote = [
        (peer, fleet.ipam_of(peer.name)) for peer in fleet.nodes.values() if peer.name != name and peer.workload_node
    ]
    vxlan = next((device for device in devices if device.kind == "vxlan"), None)
    routes = own_routes(settings.bgp_enabled, ipam, workloads)
    bird: t.Optional[Bird] = None
    bird_routes: tuple[BirdRoute, ...] = ()
    if settings.bgp_enabled:
        bird = _bird(fleet, node, ipam, pools)
        bird_routes = tuple(_bird_routes(node, remote, by_name)) if node.workload_node else ()
    else:
        routes += tuple(_routes_from_plan(node, remote, by_name))
    return NodeState(
        node=name,
        address=f"{node.address}/{node.prefix}",
        plan=fleet.digest,
        underlay_mtu=settings.underlay_mtu,
        pools=pools,
        ipam=ipam,
        devices=devices,
        neighbors=tuple(_neighbors(vxlan, remote, settings.bgp_enabled)),
        fdb=tuple(FdbEntry(vxlan.name, naming.vtep_mac(peer.name), peer.address) for peer, dummy in remote)
        if vxlan
        else (),
        workloads=workloads,
        routes=routes,
        sysctls=tuple(_sysctls(devices, workloads)) if node.workload_node else (),
        ipsets=firewall.ipsets(peer.address for peer in fleet.nodes.values()) if devices else (),
        iptables=firewall.tables(pools, devices) if node.workload_node else (),
        bird_routes=bird_routes,
        bird=bird,
        nodes=fleet.members,
        policy=fleet.policy.of(name) if fleet.policy is not None and node.workload_node else None,
    )


def _devices(fleet: Fleet, node: FleetNode, ipam: Ipam, pools: t.Sequence[Pool]) -> tuple[TunnelDevice, ...]:
    """Every pool's device stands on every node: also one that holds none of its blocks reaches them through it."""
    settings = fleet.settings
    used = {DEVICE[pool.encapsulation] for pool in pools}
    devices = []
    if "tunl0" in used:
        mtu = settings.underlay_mtu - OVERHEAD["IPIP"]
        devices.append(TunnelDevice("tunl0", "ipip", mtu, node.address, ipam.tunnels.get("ipip")))
    if "vxlan.calico" in used:
        devices.append(
            TunnelDevice(
                "vxlan.calico",
                "vxlan",
                settings.underlay_mtu - OVERHEAD["VXLAN"],
                node.address,
                ipam.tunnels.get("vxlan"),
                naming.vtep_mac(node.name),
                settings.vxlan_vni,
                settings.vxlan_port,
            )
        )
    return tuple(devices)


def _workloads(fleet: Fleet, node: FleetNode, ipam: Ipam, pools: t.Mapping[str, Pool]) -> tuple[WorkloadEndpoint, ...]:
    endpoints = []
    for workload in fleet.workloads.get(node.name, ()):
        address = ipam.workloads[workload.name]
        pool = pools[fleet.pool_of_address(address)]
        endpoints.append(
            WorkloadEndpoint(
                name=workload.name,
                namespace=workload.namespace,
                netns=workload.name,
                interface=naming.interface_name(workload.namespace, workload.name),
                address=address,
                mtu=pool.workload_mtu,
                pool=pool.name,
                labels=workload.labels,
                peer_interface=workload.endpoint,
            )
        )
    return tuple(endpoints)


def _tunnelled(node: FleetNode, peer: FleetNode, encapsulation: str) -> str:
    """The device by which `node` reaches blocks of `peer`, or "" for the underlay itself."""
    if encapsulation.endswith("CrossSubnet") and peer.subnet == node.subnet:
        return ""
    return DEVICE[encapsulation]


def _bird_routes(
    node: FleetNode, remote: t.Sequence[tuple[FleetNode, Ipam]], pools: t.Mapping[str, Pool]
) -> t.Iterator[BirdRoute]:
    for peer, ipam in remote:
        for block in ipam.blocks:
            pool = pools[block.pool]
            if pool.disable_bgp_export:
                continue
            device = _tunnelled(node, peer, pool.encapsulation)
            # Across subnets without a tunnel the underlay's router is the gateway; only the node knows which.
            gateway = peer.address if device or peer.subnet == node.subnet else ""
            yield BirdRoute(block.cidr, gateway, device, bool(device), peer.name, next_hop=peer.address)


def _routes_from_plan(
    node: FleetNode, remote: t.Sequence[tuple[FleetNode, Ipam]], pools: t.Mapping[str, Pool]
) -> t.Iterator[Route]:
    """Without BGP: the remote blocks as the Calico documents show them, via the remote VTEP's address."""
    for peer, ipam in remote:
        for block in ipam.blocks + ipam.spare_blocks:
            device = _tunnelled(node, peer, pools[block.pool].encapsulation)
            if device:
                yield Route(block.cidr, device=device, gateway=ipam.tunnels["vxlan"], onlink=True)
            else:
                yield Route(block.cidr, device=UNDERLAY, gateway=peer.address)


def _neighbors(
    vxlan: t.Optional[TunnelDevice], remote: t.Sequence[tuple[FleetNode, Ipam]], bgp: bool
) -> t.Iterator[Neighbor]:
    """The gateway of a route into vxlan.calico is the BGP next hop, or the VTEP's address where there is no BGP."""
    if vxlan is None:
        return
    for peer, ipam in remote:
        gateway = peer.address if bgp else ipam.tunnels.get("vxlan")
        if gateway:
            yield Neighbor(vxlan.name, gateway, naming.vtep_mac(peer.name))


def _sysctls(devices: t.Sequence[TunnelDevice], workloads: t.Sequence[WorkloadEndpoint]) -> t.Iterator[Sysctl]:
    yield Sysctl("net/ipv4/ip_forward", "1")
    # Loose: during a change of mode packets of one flow arrive over both ways. The kernel takes max(all, interface).
    for name in (UNDERLAY, *(device.name for device in devices)):
        yield Sysctl(f"net/ipv4/conf/{name}/rp_filter", "2")
    for workload in workloads:
        yield from endpoint_sysctls(workload)


def _bird(fleet: Fleet, node: FleetNode, ipam: Ipam, pools: t.Sequence[Pool]) -> Bird:
    settings = fleet.settings
    return Bird(
        router_id=node.address,
        address=node.address,
        as_number=settings.as_number,
        subnet=node.subnet,
        listen_port=settings.listen_port,
        blocks=tuple(block.cidr for block in _exportable(ipam, pools)),
        pools=tuple(
            BirdPool(
                pool.cidr,
                DEVICE[pool.encapsulation],
                pool.encapsulation.endswith("CrossSubnet"),
                export=not pool.disable_bgp_export,
                block_size=pool.block_size,
            )
            for pool in pools
        ),
        peers=tuple(_peers(fleet, node)),
        cluster_id=settings.cluster_id if node.reflector else None,
        workload_node=node.workload_node,
        log_severity=settings.log_severity,
        graceful_restart_time=settings.graceful_restart_time,
    )


def _exportable(ipam: Ipam, pools: t.Sequence[Pool]) -> t.Iterator[Block]:
    hidden = {pool.name for pool in pools if pool.disable_bgp_export}
    return (block for block in ipam.blocks + ipam.spare_blocks if block.pool not in hidden)


def _peers(fleet: Fleet, node: FleetNode) -> t.Iterator[BirdPeer]:
    for peer in fleet.nodes.values():
        if peer.name == node.name:
            continue
        if node.reflector:
            kind = "mesh" if peer.reflector else "client"
        elif peer.reflector:
            kind = "reflector"
        elif fleet.settings.mesh:
            kind = "mesh"
        else:
            continue
        yield BirdPeer(
            naming.bird_peer_name("Mesh" if kind == "mesh" else "Node", peer.address),
            peer.address,
            fleet.settings.as_number,
            kind,
            passive=listens(node.ip, peer.ip),
            node=peer.name,
        )
    for external in fleet.peers.get(node.name, ()):
        yield BirdPeer(
            naming.bird_peer_name("Global", external.address),
            external.address,
            external.as_number,
            "external",
            multihop=not _same_subnet(external.address, node),
        )


def _same_subnet(address: str, node: FleetNode) -> bool:
    return number(address) >> (32 - node.prefix) == node.ip >> (32 - node.prefix)


def listens(own: int, peer: int) -> bool:
    """Whether this side of a pair is the passive one. One side always is, so that sessions never collide; which one
    goes by the parity of the bits of both addresses: no node has to take all SYNs of a starting fleet (BIRD's backlog
    is 8), also where all addresses are even. Other nodes have no say: their coming and going resets no session."""
    lower_listens = bin(own ^ peer).count("1") % 2 == 0
    return (own < peer) == lower_listens
