# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of resources that `get` knows."""

from __future__ import annotations

import typing as t

from ...base import naming
from ...base.addresses import host
from ...state.fleet_list import FleetMember
from ..errors import UsageError
from .kind import (
    Document,
    HasAsNumber,
    Kind,
    View,
    document_of,
    name_of,
    namespace_of,
    spec_count,
    spec_field,
    spec_list,
)
from .policy_kinds import POLICY_KINDS

if t.TYPE_CHECKING:
    from ...bgp.bird_state import BirdPeer, Communities
    from ...bgp.filter_rules import FilterFunction
    from ...policy.model import Endpoint, Failsafe
    from ...state.attachment import AttachedWorkload
    from ...state.node_state import VethEndpoint


def _checked(kind: str, flat: Document) -> Document:
    """Return the document of a resource with the fields `flat`. Raise ResourceError if this release refuses it."""
    from ...resources.api import parse_flat  # which takes most of the time of `get nodes`, a kind without such a check

    return parse_flat(kind, flat).to_document()


# --- nodes ----------------------------------------------------------------------------------------------------------


def _nodes(view: View) -> list[Document]:
    found = view.fleet_list()
    documents = []
    for member in found.members:
        own = member.name == found.node
        tunnels, cluster_id = (found.tunnels, found.cluster_id) if own else ({}, None)
        documents.append(node(member, found.as_number, tunnels, cluster_id))
    return documents


def node(
    member: FleetMember,
    as_number: t.Optional[int],
    tunnels: t.Mapping[str, str],
    cluster_id: t.Optional[str],
) -> Document:
    """Return a node of the fleet as a Node. `as_number` is the fleet's, which a Node does not repeat.

    `tunnels` has the node's addresses by kind of tunnel, as far as they are known.
    """
    families = {"ipv4Address": member.address, "ipv6Address": member.address6}
    bgp: Document = {field: address for field, address in families.items() if address}
    if member.as_number != as_number:
        bgp["asNumber"] = member.as_number
    if member.reflector and cluster_id:
        bgp["routeReflectorClusterID"] = cluster_id
    spec: Document = {"bgp": bgp}
    if "ipip" in tunnels:
        bgp["ipv4IPIPTunnelAddr"] = tunnels["ipip"]
    if "vxlan" in tunnels:
        spec["ipv4VXLANTunnelAddr"] = tunnels["vxlan"]
        spec["vxlanTunnelMACAddr"] = naming.vtep_mac(member.name)
    if "vxlan6" in tunnels:
        spec["ipv6VXLANTunnelAddr"] = tunnels["vxlan6"]
        spec["vxlanTunnelMACAddrV6"] = naming.vtep_mac(member.name)
    metadata: Document = {"name": member.name}
    if member.labels:
        metadata["labels"] = dict(member.labels)
    return document_of("Node", metadata, spec)


def _as_number(document: Document, view: HasAsNumber) -> str:
    """Return the node's AS number, in parentheses if it is the fleet's or this node's BIRD's; "" if there is none."""
    own = document["spec"]["bgp"].get("asNumber")
    return str(own) if own else f"({view.as_number})" if view.as_number else ""


# --- pools, reservations --------------------------------------------------------------------------------------------


def _pools(view: View) -> list[Document]:
    return [
        _checked(
            "IPPool",
            {
                "name": pool.name,
                "cidr": pool.cidr,
                "blockSize": pool.block_size,
                "encapsulation": pool.encapsulation,
                "natOutgoing": pool.nat_outgoing,
                "disabled": pool.disabled,
                "disableBGPExport": pool.disable_bgp_export,
                "nodeSelector": pool.node_selector,
                "allowedUses": list(pool.allowed_uses),
                "assignmentMode": pool.assignment_mode,
            },
        )
        for pool in view.state().pools
    ]


def _reservations(view: View) -> list[Document]:
    cidrs = list(view.state().ipam.reservations)
    return [document_of("IPReservation", {"name": "calico-ip-reservations"}, {"reservedCIDRs": cidrs})] if cidrs else []


def ipam_configuration() -> Document:
    """Return Calico's settings of IPAM as they hold on every node, whatever the variables are.

    Only one node assigns from a block, and the plan grants blocks.
    """
    spec = {"strictAffinity": True, "autoAllocateBlocks": False, "maxBlocksPerHost": 0}
    return document_of("IPAMConfiguration", {"name": "default"}, spec)


# --- Felix ----------------------------------------------------------------------------------------------------------


def _felix_configuration(view: View) -> list[Document]:
    """Return the settings that this node's state has, by the variables of an inventory for them."""
    from ...resources import setting_fields

    state = view.state()
    values: dict[str, t.Any] = {}
    tunnel = next((device for device in state.devices if device.kind == "vxlan"), None)
    if tunnel is not None:
        values |= {"calico_vxlan_vni": tunnel.vni, "calico_vxlan_port": tunnel.port}
    if state.policy is not None:
        settings = state.policy.settings
        values |= {
            "calico_default_endpoint_to_host_action": settings.default_endpoint_to_host_action,
            "calico_iptables_filter_allow_action": settings.allow_action,
            "calico_iptables_filter_deny_action": settings.deny_action,
            "calico_failsafe_inbound_host_ports": _failsafes(settings.failsafe_inbound),
            "calico_failsafe_outbound_host_ports": _failsafes(settings.failsafe_outbound),
            "calico_iptables_mark_mask": settings.mark_mask,
            "calico_disable_conntrack_invalid_check": not settings.drop_invalid,
            "calico_allow_vxlan_packets_from_workloads": settings.allow_vxlan_from_workloads,
            "calico_allow_ipip_packets_from_workloads": settings.allow_ipip_from_workloads,
        }
    return [setting_fields.document_of("FelixConfiguration", setting_fields.DEFAULT, values)]


def _failsafes(ports: t.Iterable[Failsafe]) -> list[Document]:
    return [{"protocol": one.protocol, "port": one.port, **({"net": one.net} if one.net else {})} for one in ports]


# --- BGP ------------------------------------------------------------------------------------------------------------


def _bgp_configuration(view: View) -> list[Document]:
    bird = view.state().bird
    if bird is None:
        return []
    meshed = any(peer.kind == "mesh" for peer in bird.peers) and bird.cluster_id is None
    flat = {
        "asNumber": bird.as_number,
        "listenPort": bird.listen_port,
        "logSeverityScreen": bird.log_severity,
        "nodeToNodeMeshEnabled": meshed or not bird.peers,
        "bindMode": "NodeIP" if bird.strict_bind else "None",
        "ignoredInterfaces": list(bird.ignored_interfaces),
    }
    return [bgp_configuration(flat, bird.communities)]


def bgp_configuration(flat: Document, communities: t.Sequence[Communities]) -> Document:
    """Return the BGPConfiguration `default` with the fields `flat`, and one prefixAdvertisement per CIDR.

    The log severity may be None, which Calico does not have; it is shown as Fatal.
    """
    flat = {"name": "default", **flat}
    flat["logSeverityScreen"] = "Fatal" if flat["logSeverityScreen"] == "None" else flat["logSeverityScreen"]
    if communities:
        flat["prefixAdvertisements"] = [
            {
                "cidr": entry.cidr,
                "communities": [":".join(map(str, numbers)) for numbers in (*entry.standard, *entry.large)],
            }
            for entry in communities
        ]
    return _checked("BGPConfiguration", flat)


def _bgp_filters(view: View) -> list[Document]:
    """Return the BGPFilters that sessions of this node use, with the rules that concern those sessions."""
    from ...bgp import filters as bgp_filters

    bird = view.state().bird
    if bird is None:
        return []
    by_name: dict[str, list[FilterFunction]] = {}
    for function in bird.filters:
        by_name.setdefault(function.filter, []).append(function)
    return [_checked("BGPFilter", {"name": name, **bgp_filters.spec(found)}) for name, found in by_name.items()]


def _bgp_peers(view: View) -> list[Document]:
    """Return this node's sessions as BGPPeers, without the node-to-node mesh, which is no resource in Calico either."""
    bird = view.state().bird
    if bird is None:
        return []
    return [_bgp_peer(view.state().node, peer) for peer in bird.peers if peer.kind != "mesh"]


def _bgp_peer(node: str, peer: BirdPeer) -> Document:
    """Return the session as a BGPPeer. What that has no field for, such as BFD, is left out."""
    address = f"[{peer.address}]" if peer.family == 6 and peer.port else peer.address
    name, dummy, key = peer.password.partition(":")
    flat: Document = {
        "name": peer.name.lower().strip("_").replace("_", "-"),
        "node": node,
        "peerIP": f"{address}:{peer.port}" if peer.port else address,
        "asNumber": peer.as_number,
        "localASNumber": peer.local_as,
        "sourceAddress": "None" if peer.source_address == "" else None,
        "password": {"secretKeyRef": {"name": name, "key": key}} if peer.password else None,
        "ttlSecurity": peer.ttl_security,
        "maxRestartTime": None if peer.graceful_restart_time is None else f"{peer.graceful_restart_time}s",
        "nextHopMode": {"self": "Self", "keep": "Keep"}.get(peer.next_hop),
        "numAllowedLocalASNumbers": peer.allow_local_as,
        "reachableBy": peer.reachable_by or None,
        "filters": list(peer.filters) or None,
    }
    return _checked("BGPPeer", {field: value for field, value in flat.items() if value is not None})


def _peering_nodes(document: Document, dummy: HasAsNumber) -> str:
    """Return the node of a BGPPeer, or the selector of its nodes; "(global)" for all nodes."""
    spec = document["spec"]
    return str(spec.get("node") or spec.get("nodeSelector") or "(global)")


#: The lists of rules of a BGPFilter, in the order of its columns.
_FILTER_RULES = ("exportV4", "importV4", "exportV6", "importV6")


# --- workload endpoints ---------------------------------------------------------------------------------------------


def _workload_endpoints(view: View) -> list[Document]:
    policy = view.state().policy
    known = {one.name: one for one in policy.endpoints if one.node == view.state().node} if policy else {}
    found = [
        _of_inventory(view.state().node, endpoint, known.get(f"{endpoint.namespace}/{endpoint.name}"))
        for endpoint in view.state().workloads
    ]
    profiles = policy.settings.workload_profiles if policy else ()
    found += [_of_workload(view.state().node, workload, profiles) for workload in view.workloads()]
    return sorted(found, key=lambda document: (document["metadata"]["namespace"], name_of(document)))


def _of_inventory(node: str, endpoint: VethEndpoint, known: t.Optional[Endpoint]) -> Document:
    """Return the inventory's workload as a WorkloadEndpoint. `known` is its endpoint in policy, None if it has none."""
    from ...policy.documents import to_resources

    return workload_endpoint(
        node,
        "ansible",
        {
            "workload": endpoint.name,
            "namespace": endpoint.namespace,
            "labels": endpoint.labels,
            "endpoint": endpoint.peer_interface,
            "ipNetworks": [host(address) for address in endpoint.addresses],
            "profiles": list(known.profiles) if known else [],
            "ports": to_resources.ports(known.ports) if known else [],
            "interfaceName": endpoint.interface,
            "mac": endpoint.mac,
        },
    )


def _of_workload(node: str, workload: AttachedWorkload, profiles: tuple[str, ...]) -> Document:
    return workload_endpoint(
        node,
        workload.attached_by or "calicoctl",
        {
            "workload": workload.name,
            "namespace": workload.namespace,
            "labels": workload.labels,
            "endpoint": workload.peer_interface,
            "ipNetworks": [host(address) for address in workload.addresses],
            "profiles": list(profiles),
            "interfaceName": workload.interface,
            "containerID": workload.container,
            "mac": workload.mac,
            "container": workload.container_name,
        },
    )


#: The annotation with the name of a workload's container.
CONTAINER = "baremetal.host-routing/container"


def container_of(document: Document, dummy: t.Optional[HasAsNumber] = None) -> str:
    """Return the name of the container that a WorkloadEndpoint belongs to, "" if it is not known."""
    return str(document["metadata"].get("annotations", {}).get(CONTAINER, ""))


def workload_endpoint(node: str, orchestrator: str, about: Document) -> Document:
    """Return a WorkloadEndpoint with the fields `about`, and without empty ones. `container` is an annotation.

    Its name ends in the interface inside, `endpoint`, or if that is not known in the host's.
    """
    namespace, labels, container = about.pop("namespace"), about.pop("labels"), about.pop("container", "")
    # Calico's form of a WorkloadEndpoint's name: its parts joined by "-", and each "-" inside a part doubled.
    parts = (node, orchestrator, about["workload"], about.get("endpoint") or about["interfaceName"])
    metadata: Document = {"name": "-".join(part.replace("-", "--") for part in parts), "namespace": namespace}
    if labels:
        metadata["labels"] = dict(labels)
    if container:
        metadata["annotations"] = {CONTAINER: container}
    spec = {"node": node, "orchestrator": orchestrator, **{key: value for key, value in about.items() if value}}
    return document_of("WorkloadEndpoint", metadata, spec)


KINDS = (
    Kind(
        "Node",
        ("nodes", "node", "no", "nos"),
        {
            "NAME": name_of,
            "ASN": _as_number,
            "IPV4": spec_field("bgp", "ipv4Address"),
            "IPV6": spec_field("bgp", "ipv6Address"),
        },
        ("NAME",),
        _nodes,
        "calico_node_address and calico_node_labels of the host (host_vars)",
    ),
    Kind(
        "IPPool",
        ("ippools", "ippool", "ipp", "ipps", "pool", "pools"),
        {
            "NAME": name_of,
            "CIDR": spec_field("cidr"),
            "NAT": spec_field("natOutgoing"),
            "IPIPMODE": spec_field("ipipMode"),
            "VXLANMODE": spec_field("vxlanMode"),
            "DISABLED": spec_field("disabled"),
            "DISABLEBGPEXPORT": spec_field("disableBGPExport"),
            "SELECTOR": spec_field("nodeSelector"),
            "ASSIGNMENTMODE": spec_field("assignmentMode"),
        },
        ("NAME", "CIDR", "SELECTOR"),
        _pools,
        "calico_ip_pools (group_vars)",
    ),
    Kind(
        "BGPPeer",
        ("bgppeers", "bgppeer", "bgpp", "bgpps", "bp", "bps"),
        {
            "NAME": name_of,
            "PEERIP": spec_field("peerIP"),
            "NODE": _peering_nodes,
            "ASN": spec_field("asNumber"),
        },
        ("NAME", "PEERIP", "NODE", "ASN"),
        _bgp_peers,
        "calico_bgp_peers (group_vars) or calico_node_bgp_peers (host_vars)",
    ),
    Kind(
        "BGPFilter",
        ("bgpfilters", "bgpfilter", "bgpf", "bgpfs", "bf", "bfs"),
        {"NAME": name_of, **{f"NUM{rules.upper()}": spec_count(rules) for rules in _FILTER_RULES}},
        ("NAME", *(f"NUM{rules.upper()}" for rules in _FILTER_RULES)),
        _bgp_filters,
        "calico_bgp_filters (group_vars)",
    ),
    Kind(
        "BGPConfiguration",
        ("bgpconfigurations", "bgpconfiguration", "bgpconfig", "bgpconfigs"),
        {
            "NAME": name_of,
            "LOGSEVERITY": spec_field("logSeverityScreen", default="-"),
            "MESHENABLED": spec_field("nodeToNodeMeshEnabled", default="-"),
            "ASNUMBER": spec_field("asNumber", default="-"),
        },
        ("NAME", "LOGSEVERITY", "MESHENABLED", "ASNUMBER"),
        _bgp_configuration,
        "calico_bgp_as_number, calico_bgp_node_to_node_mesh, calico_bgp_listen_port, calico_bgp_log_severity, "
        "calico_bgp_prefix_advertisements or calico_bgp_ignored_interfaces (group_vars)",
    ),
    Kind(
        "IPReservation",
        ("ipreservations", "ipreservation", "ipr", "reservations", "reservation"),
        {"NAME": name_of, "CIDRS": spec_list("reservedCIDRs")},
        ("NAME",),
        _reservations,
        "calico_ip_reservations (group_vars)",
    ),
    Kind(
        "IPAMConfiguration",
        ("ipamconfigurations", "ipamconfiguration", "ipamconfig", "ipamconfigs"),
        {
            "NAME": name_of,
            "STRICTAFFINITY": spec_field("strictAffinity"),
            "AUTOALLOCATEBLOCKS": spec_field("autoAllocateBlocks"),
            "MAXBLOCKSPERHOST": spec_field("maxBlocksPerHost"),
        },
        ("NAME", "STRICTAFFINITY", "AUTOALLOCATEBLOCKS"),
        lambda dummy: [ipam_configuration()],
        "no variable: these settings always hold",
    ),
    Kind(
        "FelixConfiguration",
        ("felixconfigurations", "felixconfiguration", "felixconfig", "felixconfigs"),
        {"NAME": name_of},
        ("NAME",),
        _felix_configuration,
        "variables such as calico_failsafe_inbound_host_ports (group_vars); docs/how-to/resource-files.md has all",
    ),
    Kind(
        "WorkloadEndpoint",
        ("workloadendpoints", "workloadendpoint", "wep", "weps"),
        {
            "NAME": name_of,
            "WORKLOAD": spec_field("workload"),
            "NODE": spec_field("node"),
            "NETWORKS": spec_list("ipNetworks"),
            "INTERFACE": spec_field("interfaceName"),
            "PROFILES": spec_list("profiles"),
            "NATS": spec_list("ipNATs"),
            "CONTAINER": container_of,
            "NAMESPACE": namespace_of,
            "ORCHESTRATOR": spec_field("orchestrator"),
        },
        ("WORKLOAD", "NODE", "NETWORKS", "INTERFACE"),
        _workload_endpoints,
        "calico_workloads (group_vars) or calico_node_workloads (host_vars); for one that comes and goes, use "
        "`calicoctl workload add` and `calicoctl workload del`",
        namespaced=True,
        custom=("CONTAINER", "NAMESPACE", "ORCHESTRATOR"),
    ),
    *POLICY_KINDS,
)


_LONGEST_SHORT_NAME = 5
_OF_KUBERNETES = "It is for Kubernetes, which is not here."
_OF_BLOCKS = "`calicoctl ipam show --show-blocks` shows blocks, and the lockfile says which node has which."
#: {names of kinds of Calico that do not exist here: what takes their place}
_NOT_HERE = {
    ("clusterinformation", "clusterinformations", "clusterinfo", "clusterinfos"): (
        "`calicoctl version` shows the releases, and `calicoctl status` whether a node works."
    ),
    ("caliconodestatus", "caliconodestatuses", "nodestatus", "nodestatuses"): (
        "`calicoctl node status` shows the sessions of a node, and playbooks/status.yml those of all nodes."
    ),
    (
        "kubecontrollersconfiguration", "kubecontrollersconfigurations", "kubecontrollersconfig",
        "kubecontrollersconfigs",
    ): _OF_KUBERNETES,
    (
        "stagedkubernetesnetworkpolicy", "stagedkubernetesnetworkpolicies", "stagedkubernetespolicy",
        "stagedkubernetespolicies", "sknp", "skpol", "skpols",
    ): f"{_OF_KUBERNETES} Stage a policy as StagedNetworkPolicy.",
    ("blockaffinity", "blockaffinities", "ipamblock", "ipamblocks"): _OF_BLOCKS,
    ("ipamhandle", "ipamhandles"): "`calicoctl ipam show --ip ADDRESS` shows the handle of an address.",
}  # fmt: skip


def find(word: str) -> Kind:
    """Return the kind that has `word` among its names, whatever its case. Raise UsageError if there is none."""
    names = {name: kind for kind in KINDS for name in (kind.name.lower(), *kind.names)}
    kind = names.get(word.lower())
    if kind is None:
        import difflib

        long = [name for name in names if len(name) > _LONGEST_SHORT_NAME]  # nobody misspells "pros"
        instead = next((text for names_of, text in _NOT_HERE.items() if word.lower() in names_of), "")
        if not instead:
            near = difflib.get_close_matches(word.lower(), long, 1, 0.75)
            hint = f"Did you mean {near[0]}? " if near else ""
            instead = f"{hint}Here are: {', '.join(kind.names[0] for kind in KINDS)}."
        raise UsageError(f"resource type '{word}' is not supported. {instead}")
    return kind
