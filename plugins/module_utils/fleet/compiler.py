# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compiler from a Fleet to one NodeState per node. It is pure; the work for one node is linear in the nodes."""

from __future__ import annotations

import typing as t

from ..base import naming
from ..base.addresses import family_of
from ..bgp.bird_state import Bird, BirdPool, BirdRoute, Vtep6, may_bring_equal_paths
from ..policy.chains.settings import ChainSettings
from ..policy.sets.ip_sets import PROBES, name_of
from ..state.attachment import LOOSE, block_sets, endpoint_sysctls, own_routes, probe_endpoint
from ..state.node_state import (
    UNDERLAY,
    Block,
    FdbEntry,
    IpSet,
    IptablesTable,
    Neighbor,
    NodeIpam,
    NodeState,
    Pool,
    Route,
    Sysctl,
    TunnelDevice,
    VethEndpoint,
    overhead,
)
from . import firewall
from .fleet import TUNNEL_DEVICE, Fleet, tunnel_device
from .inventory.node_inventory import FleetNode

_VXLAN4, _VXLAN6 = TUNNEL_DEVICE["vxlan"], TUNNEL_DEVICE["vxlan6"]


def node_state(fleet: Fleet, name: str) -> NodeState:
    """Return all that node `name` must have. Raise KeyError if the fleet has no such node."""
    node = fleet.nodes[name]
    settings = fleet.settings
    pools = _pools(fleet)
    ipam = fleet.ipam_of(name)
    by_name = {pool.name: pool for pool in pools}
    devices = _devices(fleet, node, ipam, pools) if node.workload_node else ()
    workloads = _workloads(fleet, node, ipam, by_name)
    probes = probe_endpoint(
        (ipam.probes[pool.name] for pool in pools if pool.name in ipam.probes),
        pools,
        source_spoofing=node.workload_source_spoofing,
    )
    endpoints = workloads if probes is None else (*workloads, probes)
    remote = [
        (peer, fleet.ipam_of(peer.name)) for peer in fleet.nodes.values() if peer.name != name and peer.workload_node
    ]
    vxlan = [device.name for device in devices if device.kind == "vxlan"]
    routes = own_routes(settings.bgp_enabled, ipam, endpoints)
    sets, tables = _packet_filter(fleet, node, ipam, pools, devices)
    bird: t.Optional[Bird] = None
    bird_routes: tuple[BirdRoute, ...] = ()
    if settings.bgp_enabled:
        bird = _bird(fleet, node, ipam, pools)
        bird_routes = tuple(_bird_routes(node, remote, by_name)) if node.workload_node else ()
    else:
        routes += tuple(_routes_from_plan(node, remote, by_name))
    return NodeState(
        node=name,
        address=node.cidr,
        address6=node.cidr6,
        plan=fleet.digest,
        underlay_mtu=settings.underlay_mtu,
        pools=pools,
        ipam=ipam,
        devices=devices,
        neighbors=tuple(_neighbors(vxlan, remote, settings.bgp_enabled)),
        fdb=tuple(_fdb(vxlan, [peer for peer, dummy in remote])),
        workloads=workloads,
        routes=routes,
        sysctls=tuple(_sysctls(node, devices, endpoints, _has_ipv6(node, pools))) if node.workload_node else (),
        ipsets=sets,
        iptables=tables,
        bird_routes=bird_routes,
        bird=bird,
        nodes=fleet.members,
        policy=fleet.policy.of(name) if fleet.policy is not None and node.workload_node else None,
        workload_source_spoofing=node.workload_source_spoofing,
        probe_endpoint=probes,
    )


def bird(fleet: Fleet, name: str) -> t.Optional[Bird]:
    """Return only the data for bird.cfg of node `name`, None without BGP. Raise KeyError for an unknown node."""
    if not fleet.settings.bgp_enabled:
        return None
    return _bird(fleet, fleet.nodes[name], fleet.ipam_of(name), _pools(fleet))


def _pools(fleet: Fleet) -> tuple[Pool, ...]:
    return tuple(
        Pool(
            pool.name,
            pool.cidr,
            pool.blockSize,
            pool.encapsulation,
            pool.natOutgoing,
            pool.disabled,
            pool.disableBGPExport,
            fleet.settings.underlay_mtu - overhead(pool.encapsulation, pool.cidr),
            node_selector=pool.nodeSelector or "all()",
            allowed_uses=pool.allowedUses,
            assignment_mode=pool.assignmentMode,
        )
        for pool in fleet.pools
    )


def _devices(fleet: Fleet, node: FleetNode, ipam: NodeIpam, pools: t.Sequence[Pool]) -> tuple[TunnelDevice, ...]:
    """Return a node's tunnel devices: one for each kind of tunnel in `pools` of its IP versions, with blocks or not."""
    settings = fleet.settings
    used = {tunnel_device(pool) for pool in pools}
    devices = []
    if "tunl0" in used and node.address:
        mtu = settings.underlay_mtu - overhead("IPIP", node.address)
        devices.append(TunnelDevice("tunl0", "ipip", mtu, node.address, ipam.tunnels.get("ipip")))
    for kind, local in (("vxlan", node.address), ("vxlan6", node.address6)):
        if TUNNEL_DEVICE[kind] in used and local:
            devices.append(
                TunnelDevice(
                    TUNNEL_DEVICE[kind],
                    "vxlan",
                    settings.underlay_mtu - overhead("VXLAN", local),
                    local,
                    ipam.tunnels.get(kind),
                    naming.vtep_mac(node.name),
                    settings.vxlan_vni,
                    settings.vxlan_port,
                )
            )
    return tuple(devices)


def _packet_filter(
    fleet: Fleet, node: FleetNode, ipam: NodeIpam, pools: t.Sequence[Pool], devices: t.Sequence[TunnelDevice]
) -> tuple[tuple[IpSet, ...], tuple[IptablesTable, ...]]:
    """Return a node's IP sets and iptables tables for the case without policy, both () if it is not a workload node."""
    if not node.workload_node:
        return (), ()
    settings = fleet.settings
    own_pools = _of_families(node, pools)
    versions = tuple(sorted({family_of(pool.cidr) for pool in own_pools}))
    checks = ChainSettings(
        vxlan_port=settings.vxlan_port,
        allow_vxlan_from_workloads=settings.allow_vxlan_from_workloads,
        allow_ipip_from_workloads=settings.allow_ipip_from_workloads,
        workload_source_spoofing=node.workload_source_spoofing,
        local_blocks=versions,
        own_address6=node.address6.partition("/")[0],
        etcd_members=settings.etcd_members,
    )
    own = block_sets((*ipam.blocks, *ipam.spare_blocks), versions)
    probes = firewall.probes(fleet.members, versions)
    excluded = [pool for pool in own_pools if pool.nat_outgoing] if settings.nat_excludes_hosts else []
    probed = [version for version in versions if name_of(version, PROBES) in {ipset.name for ipset in probes}]
    return (
        (
            *firewall.ipsets(devices, fleet.nodes.values(), fleet.earlier_addresses, excluded),
            *firewall.etcd_members(settings.etcd_members),
            *own,
            *probes,
        ),
        (
            *firewall.sources(checks),
            *firewall.tables(own_pools, devices, fleet.bgp.ports, probed, settings.nat_excludes_hosts),
        ),
    )


def _of_families(node: FleetNode, pools: t.Iterable[Pool]) -> list[Pool]:
    """Return the pools whose IP version `node` has an address of."""
    return [pool for pool in pools if node.address_of(family_of(pool.cidr))]


def _has_ipv6(node: FleetNode, pools: t.Sequence[Pool]) -> bool:
    """Return whether the node routes IPv6: it has an IPv6 address, and the fleet an IPv6 pool."""
    return bool(node.address6) and any(family_of(pool.cidr) == 6 for pool in pools)


def workloads_of(fleet: Fleet, name: str) -> tuple[VethEndpoint, ...]:
    """Return only the workloads in the state of node `name`. Raise KeyError if the fleet has no such node."""
    return _workloads(fleet, fleet.nodes[name], fleet.ipam_of(name), {pool.name: pool for pool in _pools(fleet)})


def _workloads(fleet: Fleet, node: FleetNode, ipam: NodeIpam, pools: t.Mapping[str, Pool]) -> tuple[VethEndpoint, ...]:
    endpoints = []
    for workload in fleet.workloads.get(node.name, ()):
        address, address6 = ipam.workloads.get(workload.name, ""), ipam.workloads6.get(workload.name, "")
        own = {found: pools[fleet.pool_of_address(found)] for found in (address, address6) if found}
        endpoints.append(
            VethEndpoint(
                name=workload.name,
                namespace=workload.namespace,
                netns=workload.name,
                interface=naming.interface_name(workload.namespace, workload.name),
                address=address,
                mtu=min(pool.workload_mtu for pool in own.values()),
                pool=own[address].name if address else "",
                labels=workload.labels,
                peer_interface=workload.endpoint,
                address6=address6,
                pool6=own[address6].name if address6 else "",
                source_spoofing=node.workload_source_spoofing,
            )
        )
    return tuple(endpoints)


class _Way(t.NamedTuple):
    """The path on which a node reaches a block of another node, its peer.

    `device` is a tunnel device, "" for the underlay itself. `gateway` is "" if the peer is in another subnet and there
    is no tunnel: then a router of the underlay is the gateway, and only the node knows which.
    """

    device: str
    gateway: str
    next_hop: str  # the peer's own address


def _way(node: FleetNode, peer: FleetNode, pool: Pool) -> _Way:
    version6 = family_of(pool.cidr) == 6
    next_hop = peer.address6 if version6 else peer.address
    near = peer.subnet6 == node.subnet6 if version6 else peer.subnet == node.subnet
    device = "" if near and pool.encapsulation.endswith("CrossSubnet") else tunnel_device(pool)
    if device == _VXLAN6:
        # The gateway is a link-local address: the kernel refuses a global one that is on-link through another device.
        return _Way(device, naming.vtep_link_local(peer.name), next_hop)
    return _Way(device, next_hop if device or near else "", next_hop)


def _reachable(node: FleetNode, blocks: t.Iterable[Block]) -> t.Iterator[Block]:
    """Yield the blocks whose IP version `node` has an address of."""
    if node.address and node.address6:
        return iter(blocks)
    return (block for block in blocks if (family_of(block.cidr) == 6) == bool(node.address6))


def _bird_routes(
    node: FleetNode, remote: t.Sequence[tuple[FleetNode, NodeIpam]], pools: t.Mapping[str, Pool]
) -> t.Iterator[BirdRoute]:
    for peer, ipam in remote:
        for block in _reachable(node, ipam.blocks):
            pool = pools[block.pool]
            if not pool.disable_bgp_export:
                way = _way(node, peer, pool)
                yield BirdRoute(block.cidr, way.gateway, way.device, bool(way.device), peer.name, next_hop=way.next_hop)


def _routes_from_plan(
    node: FleetNode, remote: t.Sequence[tuple[FleetNode, NodeIpam]], pools: t.Mapping[str, Pool]
) -> t.Iterator[Route]:
    """Yield the routes to the blocks of other nodes, spare ones included, that a node has without BGP.

    Within a subnet the routes of a VXLANCrossSubnet pool are direct. All others lead into a tunnel, whose gateway is
    the other node's VXLAN tunnel address, or for an IPv6 pool the link-local address of its VTEP.
    """
    for peer, ipam in remote:
        for block in _reachable(node, ipam.blocks + ipam.spare_blocks):
            way = _way(node, peer, pools[block.pool])
            if way.device:
                gateway = way.gateway if way.device == _VXLAN6 else ipam.tunnels["vxlan"]
                yield Route(block.cidr, device=way.device, gateway=gateway, onlink=True)
            else:
                yield Route(block.cidr, device=UNDERLAY, gateway=way.next_hop)


def _fdb(vxlan: t.Sequence[str], remote: t.Sequence[FleetNode]) -> t.Iterator[FdbEntry]:
    for device in vxlan:
        for peer in remote:
            destination = peer.address6 if device == _VXLAN6 else peer.address
            if destination:
                yield FdbEntry(device, naming.vtep_mac(peer.name), destination)


def _neighbors(
    vxlan: t.Sequence[str], remote: t.Sequence[tuple[FleetNode, NodeIpam]], bgp: bool
) -> t.Iterator[Neighbor]:
    """Yield the neighbour entries of the `vxlan` devices: the gateway of routes to each of `remote`, at its VTEP's MAC.

    The gateway is the VTEP's link-local address for IPv6, else the BGP next hop, or without BGP the VTEP's address.
    """
    for device in vxlan:
        for peer, ipam in remote:
            gateway: t.Optional[str]
            if device == _VXLAN6:
                gateway = naming.vtep_link_local(peer.name) if peer.address6 else None
            else:
                gateway = (peer.address or None) if bgp else ipam.tunnels.get("vxlan")
            if gateway:
                yield Neighbor(device, gateway, naming.vtep_mac(peer.name))


def _sysctls(
    node: FleetNode, devices: t.Sequence[TunnelDevice], endpoints: t.Sequence[VethEndpoint], ipv6: bool
) -> t.Iterator[Sysctl]:
    if node.address:
        yield Sysctl("net/ipv4/ip_forward", "1")
    if ipv6:
        yield Sysctl("net/ipv6/conf/all/forwarding", "1")
    if node.address:
        # With early demux, datagrams to a connected socket of the host bypass rp_filter on any interface.
        yield Sysctl("net/ipv4/udp_early_demux", "0")
        # rp_filter is loose (2) because packets of one flow arrive on both paths during a change of mode. The kernel
        # applies the larger of the values for `all` and for the interface. A rule in table raw drops packets that come
        # in by these interfaces with a source in a block of this node.
        for name in (UNDERLAY, *(device.name for device in devices if device.name != _VXLAN6)):
            yield Sysctl(f"net/ipv4/conf/{name}/rp_filter", LOOSE)
    for device in devices:
        if device.name == _VXLAN6:
            yield Sysctl(f"net/ipv6/conf/{device.name}/disable_ipv6", "0")
            yield Sysctl(f"net/ipv6/conf/{device.name}/accept_ra", "0")
            yield Sysctl(f"net/ipv6/conf/{device.name}/forwarding", "1")
    for endpoint in endpoints:
        yield from endpoint_sysctls(endpoint)


def _bird(fleet: Fleet, node: FleetNode, ipam: NodeIpam, pools: t.Sequence[Pool]) -> Bird:
    settings = fleet.settings
    speaker = fleet.bgp.speakers[node.name]
    peers = fleet.bgp.peering.sessions(node.name)
    announced = fleet.bgp.announcements.of(node.name)
    filters = fleet.bgp.announcements.functions(peers)
    return Bird(
        router_id=speaker.router_id,
        address=node.address,
        as_number=speaker.as_number,
        subnet=node.subnet,
        listen_port=speaker.listen_port,
        blocks=tuple(block.cidr for block in _exportable(ipam, pools)),
        pools=tuple(
            BirdPool(
                pool.cidr,
                tunnel_device(pool),
                pool.encapsulation.endswith("CrossSubnet"),
                export=not pool.disable_bgp_export,
                block_size=pool.block_size,
            )
            for pool in _of_families(node, pools)
        ),
        peers=peers,
        cluster_id=speaker.cluster_id or None,
        workload_node=node.workload_node,
        log_severity=settings.log_severity,
        graceful_restart_time=settings.graceful_restart_time,
        hold_time=fleet.bgp.hold_time,
        keepalive_time=fleet.bgp.keepalive_time,
        long_lived_stale_time=fleet.bgp.long_lived_stale_time,
        strict_bind=fleet.bgp.bind_mode == "NodeIP",
        merge_paths=fleet.bgp.merge_paths and may_bring_equal_paths(peers, filters),
        secrets=tuple(sorted({peer.password for peer in peers if peer.password})),
        filters=filters,
        communities=announced.communities,
        ignored_interfaces=fleet.bgp.announcements.ignored_interfaces,
        include_dir=announced.include_dir,
        address6=node.address6,
        subnet6=node.subnet6,
        vteps6=tuple(_vteps6(fleet, node, pools)),
    )


def _vteps6(fleet: Fleet, node: FleetNode, pools: t.Sequence[Pool]) -> t.Iterator[Vtep6]:
    if node.workload_node and node.address6 and any(tunnel_device(pool) == _VXLAN6 for pool in pools):
        for peer in fleet.nodes.values():
            if peer.workload_node and peer.address6 and peer.name != node.name:
                yield Vtep6(peer.address6, naming.vtep_link_local(peer.name))


def _exportable(ipam: NodeIpam, pools: t.Sequence[Pool]) -> t.Iterator[Block]:
    hidden = {pool.name for pool in pools if pool.disable_bgp_export}
    return (block for block in ipam.blocks + ipam.spare_blocks if block.pool not in hidden)
