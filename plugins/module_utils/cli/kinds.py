# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of resources that `get` knows: their names, columns and documents."""

from __future__ import annotations

import dataclasses
import difflib
import typing as t

from .. import naming
from ..fleet.attachment import Workload
from ..fleet.node_state import NodeState, WorkloadEndpoint
from ..resources import parse_flat
from ..resources.resource import API_VERSION
from .errors import UsageError

Document = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class View:
    """What the documents are made from. `workloads` are those beside the inventory's."""

    state: NodeState
    workloads: t.Sequence[Workload] = ()

    @property
    def as_number(self) -> t.Optional[int]:
        return self.state.bird.as_number if self.state.bird else None


Cell = t.Callable[[Document, View], str]


@dataclasses.dataclass(frozen=True, eq=False)
class Kind:
    """`names` are all that the user may write; the first one is the plural. `columns` is {heading: cell}, in the order
    of the wide table; `short` are the headings of the ordinary one. `variable` is where the inventory says it."""

    name: str
    names: tuple[str, ...]
    columns: t.Mapping[str, Cell]
    short: tuple[str, ...]
    documents: t.Callable[[View], list[Document]]
    variable: str
    namespaced: bool = False

    @property
    def wide(self) -> tuple[str, ...]:
        return tuple(self.columns)


def find(word: str) -> Kind:
    """By any of its names, in any case. Raises UsageError."""
    names = {name: kind for kind in KINDS for name in (kind.name.lower(), *kind.names)}
    kind = names.get(word.lower())
    if kind is None:
        near = difflib.get_close_matches(word.lower(), names, 1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"resource type '{word}' is not supported. {hint}Here are: {', '.join(kind.names[0] for kind in KINDS)}."
        )
    return kind


def _spec(*path: str, default: str = "") -> Cell:
    def cell(document: Document, dummy: View) -> str:
        value: t.Any = document["spec"]
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            return default
        return str(value).lower() if isinstance(value, bool) else str(value)

    return cell


def _name(document: Document, dummy: t.Optional[View] = None) -> str:
    return str(document["metadata"]["name"])


def _joined(key: str, limit: int = 80) -> Cell:
    def cell(document: Document, dummy: View) -> str:
        text = ",".join(document["spec"].get(key, ()))
        return text if len(text) <= limit else f"{text[: limit - 3]}..."

    return cell


# --- nodes ----------------------------------------------------------------------------------------------------------


def _nodes(view: View) -> list[Document]:
    state = view.state
    documents = []
    for member in state.nodes:
        bgp: Document = {"ipv4Address": member.address}
        if member.as_number != view.as_number:
            bgp["asNumber"] = member.as_number
        if member.reflector and member.name == state.node and state.bird and state.bird.cluster_id:
            bgp["routeReflectorClusterID"] = state.bird.cluster_id
        spec: Document = {"bgp": bgp}
        if member.name == state.node:
            if "ipip" in state.ipam.tunnels:
                bgp["ipv4IPIPTunnelAddr"] = state.ipam.tunnels["ipip"]
            if "vxlan" in state.ipam.tunnels:
                spec["ipv4VXLANTunnelAddr"] = state.ipam.tunnels["vxlan"]
                spec["vxlanTunnelMACAddr"] = naming.vtep_mac(state.node)
        metadata: Document = {"name": member.name}
        if member.labels:
            metadata["labels"] = dict(member.labels)
        documents.append(_document("Node", metadata, spec))
    return documents


def _as_number(document: Document, view: View) -> str:
    """In parentheses where it is the fleet's."""
    own = document["spec"]["bgp"].get("asNumber")
    return str(own) if own else f"({view.as_number})" if view.as_number else ""


# --- pools, reservations --------------------------------------------------------------------------------------------


def _pools(view: View) -> list[Document]:
    return [
        parse_flat(
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
        ).to_document()
        for pool in view.state.pools
    ]


def _reservations(view: View) -> list[Document]:
    cidrs = list(view.state.ipam.reservations)
    return [_document("IPReservation", {"name": "calico-ip-reservations"}, {"reservedCIDRs": cidrs})] if cidrs else []


# --- BGP ------------------------------------------------------------------------------------------------------------


def _bgp_configuration(view: View) -> list[Document]:
    bird = view.state.bird
    if bird is None:
        return []
    reflected = any(peer.kind in ("client", "reflector") for peer in bird.peers)
    flat = {
        "name": "default",
        "asNumber": bird.as_number,
        "listenPort": bird.listen_port,
        "logSeverityScreen": "Fatal" if bird.log_severity == "None" else bird.log_severity,
        "nodeToNodeMeshEnabled": not reflected,
    }
    return [parse_flat("BGPConfiguration", flat).to_document()]


def _bgp_peers(view: View) -> list[Document]:
    """Sessions of this node beside the node-to-node mesh, which is no resource in Calico either."""
    bird = view.state.bird
    if bird is None:
        return []
    return [
        parse_flat(
            "BGPPeer",
            {
                "name": peer.name.lower().replace("_", "-"),
                "node": view.state.node,
                "peerIP": peer.address,
                "asNumber": peer.as_number,
            },
        ).to_document()
        for peer in bird.peers
        if peer.kind != "mesh"
    ]


# --- workload endpoints ---------------------------------------------------------------------------------------------


def _workload_endpoints(view: View) -> list[Document]:
    found = [_of_inventory(view.state.node, endpoint) for endpoint in view.state.workloads]
    found += [_of_workload(view.state.node, workload) for workload in view.workloads]
    return sorted(found, key=lambda document: (document["metadata"]["namespace"], _name(document)))


def _of_inventory(node: str, endpoint: WorkloadEndpoint) -> Document:
    return _workload_endpoint(
        node,
        "ansible",
        {
            "workload": endpoint.name,
            "namespace": endpoint.namespace,
            "labels": endpoint.labels,
            "endpoint": endpoint.peer_interface,
            "ipNetworks": [f"{endpoint.address}/32"],
            "interfaceName": endpoint.interface,
            "mac": endpoint.mac,
        },
    )


def _of_workload(node: str, workload: Workload) -> Document:
    return _workload_endpoint(
        node,
        "cni" if workload.container else "calicoctl",
        {
            "workload": workload.name,
            "namespace": workload.namespace,
            "labels": workload.labels,
            "endpoint": workload.peer_interface,
            "ipNetworks": [f"{address}/{128 if ':' in address else 32}" for address in workload.addresses],
            "interfaceName": workload.interface,
            "containerID": workload.container,
            "mac": workload.mac,
        },
    )


def _workload_endpoint(node: str, orchestrator: str, about: Document) -> Document:
    namespace, labels = about.pop("namespace"), about.pop("labels")
    # Calico's form of the name: its parts joined by '-', and a '-' inside of a part doubled.
    parts = (node, orchestrator, about["workload"], about["endpoint"])
    metadata: Document = {"name": "-".join(part.replace("-", "--") for part in parts), "namespace": namespace}
    if labels:
        metadata["labels"] = dict(labels)
    spec = {"node": node, "orchestrator": orchestrator, **{key: value for key, value in about.items() if value}}
    return _document("WorkloadEndpoint", metadata, spec)


def _document(kind: str, metadata: Document, spec: Document) -> Document:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


KINDS = (
    Kind(
        "Node",
        ("nodes", "node", "no", "nos"),
        {"NAME": _name, "ASN": _as_number, "IPV4": _spec("bgp", "ipv4Address"), "IPV6": _spec("bgp", "ipv6Address")},
        ("NAME",),
        _nodes,
        "calico_node_address and calico_node_labels of the host (host_vars)",
    ),
    Kind(
        "IPPool",
        ("ippools", "ippool", "ipp", "ipps", "pool", "pools"),
        {
            "NAME": _name,
            "CIDR": _spec("cidr"),
            "NAT": _spec("natOutgoing"),
            "IPIPMODE": _spec("ipipMode"),
            "VXLANMODE": _spec("vxlanMode"),
            "DISABLED": _spec("disabled"),
            "DISABLEBGPEXPORT": _spec("disableBGPExport"),
            "SELECTOR": _spec("nodeSelector"),
            "ASSIGNMENTMODE": _spec("assignmentMode"),
        },
        ("NAME", "CIDR", "SELECTOR"),
        _pools,
        "calico_ip_pools (group_vars)",
    ),
    Kind(
        "BGPPeer",
        ("bgppeers", "bgppeer", "bgpp", "bgpps", "bp", "bps"),
        {
            "NAME": _name,
            "PEERIP": _spec("peerIP"),
            "NODE": _spec("node", default="(global)"),
            "ASN": _spec("asNumber"),
        },
        ("NAME", "PEERIP", "NODE", "ASN"),
        _bgp_peers,
        "calico_bgp_peers (group_vars) or calico_node_bgp_peers (host_vars)",
    ),
    Kind(
        "BGPConfiguration",
        ("bgpconfigurations", "bgpconfiguration", "bgpconfig", "bgpconfigs"),
        {
            "NAME": _name,
            "LOGSEVERITY": _spec("logSeverityScreen", default="-"),
            "MESHENABLED": _spec("nodeToNodeMeshEnabled", default="-"),
            "ASNUMBER": _spec("asNumber", default="-"),
        },
        ("NAME", "LOGSEVERITY", "MESHENABLED", "ASNUMBER"),
        _bgp_configuration,
        "calico_bgp_as_number, calico_bgp_node_to_node_mesh, calico_bgp_listen_port or calico_bgp_log_severity "
        "(group_vars)",
    ),
    Kind(
        "IPReservation",
        ("ipreservations", "ipreservation", "ipr"),
        {"NAME": _name, "CIDRS": _joined("reservedCIDRs")},
        ("NAME",),
        _reservations,
        "calico_ip_reservations (group_vars)",
    ),
    Kind(
        "WorkloadEndpoint",
        ("workloadendpoints", "workloadendpoint", "wep", "weps"),
        {
            "NAME": _name,
            "WORKLOAD": _spec("workload"),
            "NODE": _spec("node"),
            "NETWORKS": _joined("ipNetworks"),
            "INTERFACE": _spec("interfaceName"),
            "PROFILES": _joined("profiles"),
            "NATS": _joined("ipNATs"),
        },
        ("WORKLOAD", "NODE", "NETWORKS", "INTERFACE"),
        _workload_endpoints,
        "calico_workloads (group_vars) or calico_node_workloads (host_vars); for one that comes and goes, use "
        "`calicoctl workload add` and `calicoctl workload del`",
        namespaced=True,
    ),
)
