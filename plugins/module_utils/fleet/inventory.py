# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the variables of an inventory to the fleet that they mean, or to one FleetError. Pure."""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import re
import typing as t

from .. import resources, selectors
from ..policy.from_resources import workload_endpoint
from ..policy.model import EndpointPort
from . import policy_inventory, variables
from .errors import FleetError, shown, within
from .policy_inventory import FleetPolicy
from .policy_settings import profile_names
from .policy_sources import Document

_MISSING = object()
_WORKLOAD_FIELDS = ("name", "node", "namespace", "labels", "pool", "address", "endpoint", "profiles", "ports")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
_HOST_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_HOSTNAME_LABEL = "kubernetes.io/hostname"
#: IFNAMSIZ less its final zero.
_DEVICE_NAME_LIMIT = 15
_DEVICE_NAME = re.compile(r"[^\s/:]{1,15}")


@dataclasses.dataclass(frozen=True)
class Host:
    """One host of the inventory as the inventory gives it.

    `origins` maps variables, and what is in them (`calico_ip_pools[0].cidr`), to the file and line they stand in.
    `ssh_port` is the port by which it is reached, None for the usual one. `groups` are all that it is in.
    """

    name: str
    variables: t.Mapping[str, t.Any]
    workload_node: bool = True
    reflector: bool = False
    origins: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    ssh_port: t.Optional[int] = None
    groups: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Settings:
    bgp_enabled: bool
    as_number: int
    mesh: bool
    listen_port: int
    log_severity: str
    graceful_restart_time: int  # seconds
    cluster_id: str
    underlay_mtu: int  # bytes
    vxlan_vni: int
    vxlan_port: int
    spare_blocks: int
    release_blocks: tuple[str, ...]
    ip_reservations: tuple[str, ...] = ()  # CIDRs, in order of their addresses


@dataclasses.dataclass(frozen=True)
class FleetNode:
    name: str
    address: str
    prefix: int
    ip: int
    subnet: str  # CIDR
    labels: t.Mapping[str, str]
    workload_node: bool
    reflector: bool


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    node: str
    namespace: str = "default"
    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    pool: t.Optional[str] = None
    address: t.Optional[str] = None
    endpoint: str = "eth0"  # interface inside the namespace
    where: str = ""  # the variable it was written in
    profiles: t.Optional[tuple[str, ...]] = None  # None: those of all workloads that name none
    ports: tuple[EndpointPort, ...] = ()


@dataclasses.dataclass(frozen=True)
class ExternalPeer:
    name: str
    address: str
    as_number: int
    selector: t.Optional[selectors.Selector]  # None: the node it was written for
    node: str = ""

    def nodes(self, nodes: t.Mapping[str, FleetNode]) -> t.Iterator[str]:
        """Names of those of `nodes` that peer with it."""
        return (
            node.name
            for node in nodes.values()
            if node.name == self.node or (self.selector is not None and self.selector.matches(node.labels))
        )


@dataclasses.dataclass(frozen=True)
class Inventory:
    """What the variables say, checked against each other; without the blocks, which the lockfile decides."""

    settings: Settings
    pools: tuple[resources.IPPool, ...]  # in order of the inventory
    nodes: t.Mapping[str, FleetNode]  # in order of names
    workloads: tuple[Workload, ...]
    peers: tuple[ExternalPeer, ...]
    policy: t.Optional[FleetPolicy] = None  # None: none is in force

    def labelled_pools(self) -> t.Iterator[tuple[str, resources.IPPool]]:
        """Each pool with the variable that it is written in."""
        return ((f"calico_ip_pools[{index}]", pool) for index, pool in enumerate(self.pools))


def read(hosts: t.Sequence[Host], documents: t.Sequence[Document] = ()) -> Inventory:
    """Check and default everything. `documents` are policy resources that stand in files. Raises FleetError for the
    first thing that is wrong."""
    try:
        return _read(hosts, documents)
    except FleetError as error:
        error.origin = error.origin or origin(error.variable, hosts)
        raise


def origin(variable: str, hosts: t.Sequence[Host]) -> str:
    """File and line of what an error names: of the field itself, else of the nearest thing around it."""
    path, dummy, owner = variable.partition(" of ")
    while path:
        for host in hosts:
            if path in host.origins and owner in ("", host.name):
                return host.origins[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return ""


def _read(hosts: t.Sequence[Host], documents: t.Sequence[Document]) -> Inventory:
    if not any(host.workload_node for host in hosts):
        raise FleetError("group calico_nodes", None, "has no hosts.", "Put the hosts that route for workloads into it.")
    reader = _Reader(hosts)
    for host in hosts:
        for name, meant in variables.misspelt(host.variables):
            raise FleetError(name, None, "is not a variable of this collection.", f"Did you mean {meant}?")
    settings = _settings(reader, hosts)
    pools = _pools(reader, settings)
    nodes = _nodes(hosts)
    _check_underlay(reader, pools, nodes)
    settings = dataclasses.replace(settings, ip_reservations=_reservations(reader, pools))
    peers = tuple(_peers(reader, hosts, pools, nodes))
    if not settings.bgp_enabled and any(host.reflector for host in hosts):
        raise FleetError(
            "group calico_rr",
            None,
            "has hosts, but calico_bgp_enabled is false: there is nothing to reflect.",
            "Empty the group, or leave BGP enabled.",
        )
    if settings.bgp_enabled and not settings.mesh and not peers and not any(host.reflector for host in hosts):
        raise FleetError(
            "calico_bgp_node_to_node_mesh",
            False,
            "leaves the nodes without any BGP session.",
            "Put route reflectors into group calico_rr, name peers in calico_bgp_peers, or leave the mesh on.",
        )
    policy, profiles = policy_inventory.read(reader.get, hosts, nodes, documents)
    return Inventory(settings, pools, nodes, tuple(_workloads(reader, hosts, pools, nodes, profiles)), peers, policy)


class _Reader:
    """Fleet variables, which must be the same on all hosts."""

    def __init__(self, hosts: t.Sequence[Host]) -> None:
        self.hosts = hosts
        self.pool_labels: dict[str, str] = {}  # pool name -> calico_ip_pools[i]

    def get(self, name: str) -> t.Any:
        variable = variables.BY_NAME[name]
        first = next((host for host in self.hosts if name in host.variables), None)
        if first is None:
            if variable.required:
                raise FleetError(
                    name, None, "is not set.", f"Set it in group_vars/all, for example to {variable.example}."
                )
            return variable.default
        value = first.variables[name]
        for host in self.hosts:
            other = host.variables.get(name, _MISSING)
            if other is not value and other != value:
                found = "nothing" if other is _MISSING else shown(other)
                raise FleetError(
                    name,
                    None,
                    f"differs between hosts: {first.name} has {shown(value)}, {host.name} has {found}.",
                    "It is one value for the whole fleet: set it once, in group_vars/all.",
                )
        return variables.check(name, value)


def _settings(reader: _Reader, hosts: t.Sequence[Host]) -> Settings:
    mesh = reader.get("calico_bgp_node_to_node_mesh")
    if mesh is None:
        mesh = not any(host.reflector for host in hosts)
    cluster_id = reader.get("calico_rr_cluster_id")
    _address(cluster_id, "calico_rr_cluster_id", "A cluster id is written as an IPv4 address, for example 244.0.0.1.")
    for name in ("calico_lockfile", "calico_rebuild_lockfile"):
        reader.get(name)  # what only the controller needs is checked all the same
    released = tuple(str(entry) for entry in reader.get("calico_release_blocks"))
    return Settings(
        bgp_enabled=reader.get("calico_bgp_enabled"),
        as_number=reader.get("calico_bgp_as_number"),
        mesh=mesh,
        listen_port=reader.get("calico_bgp_listen_port"),
        log_severity=reader.get("calico_bgp_log_severity"),
        graceful_restart_time=reader.get("calico_bgp_graceful_restart_time"),
        cluster_id=cluster_id,
        underlay_mtu=reader.get("calico_underlay_mtu"),
        vxlan_vni=reader.get("calico_vxlan_vni"),
        vxlan_port=reader.get("calico_vxlan_port"),
        spare_blocks=reader.get("calico_spare_blocks"),
        release_blocks=released,
    )


def _address(value: t.Any, label: str, remedy: str) -> str:
    try:
        return str(ipaddress.IPv4Address(value))
    except ValueError:
        raise FleetError(label, value, "is not an IPv4 address.", remedy) from None


def _pools(reader: _Reader, settings: Settings) -> tuple[resources.IPPool, ...]:
    entries = reader.get("calico_ip_pools")
    if not entries:
        raise FleetError(
            "calico_ip_pools", None, "is empty.", "Workloads need at least one pool to get addresses from."
        )
    pools: list[resources.IPPool] = []
    labels = reader.pool_labels
    for index, entry in enumerate(entries):
        label = f"calico_ip_pools[{index}]"
        pool = t.cast(resources.IPPool, _resource("IPPool", entry, label))
        if pool.name in labels:
            raise FleetError(f"{label}.name", pool.name, f"is also the name of {labels[pool.name]}.", "Rename one.")
        if ":" in pool.cidr:
            raise FleetError(f"{label}.cidr", pool.cidr, "is IPv6.", "This release routes IPv4 only: remove the pool.")
        if not settings.bgp_enabled and not pool.encapsulation.startswith("VXLAN"):
            raise FleetError(
                f"{label}",
                pool.name,
                f"has encapsulation {pool.encapsulation}, but calico_bgp_enabled is false.",
                "Without BGP only VXLAN pools work: set vxlanMode: Always or CrossSubnet, or leave BGP enabled.",
            )
        labels[pool.name] = label
        pools.append(pool)
    by_range = sorted(((ipaddress.IPv4Network(pool.cidr), pool) for pool in pools), key=lambda item: item[0])
    for (lower, one), (upper, other) in zip(by_range, by_range[1:]):
        if lower.overlaps(upper):
            raise FleetError(
                f"{labels[other.name]}.cidr",
                other.cidr,
                f"overlaps {one.cidr} of {labels[one.name]} ({one.name}).",
                "An address must belong to one pool: choose ranges that do not share addresses.",
            )
    return tuple(pools)


def _resource(kind: str, entry: t.Any, label: str) -> t.Any:
    if not isinstance(entry, t.Mapping):
        raise FleetError(label, entry, "is not a dictionary.", f"Write the fields of one {kind} there.")
    try:
        return resources.parse_flat(kind, entry)
    except resources.ResourceError as error:
        field = within(label, error.field) if error.field else label
        raise FleetError(field, error.value, error.rule, error.remedy) from error


def _nodes(hosts: t.Sequence[Host]) -> dict[str, FleetNode]:
    nodes: dict[str, FleetNode] = {}
    owners: dict[str, str] = {}
    subnets: dict[tuple[int, int], str] = {}
    for host in sorted(hosts, key=lambda host: host.name):
        if not _HOST_NAME.fullmatch(host.name) or len(host.name) > 63:
            raise FleetError(
                f"host {host.name}",
                None,
                "is not a name that a node can have.",
                "Use at most 63 letters, digits, '-', '_' and '.' for its name in the inventory.",
            )
        address, prefix = _node_address(host)
        label = f"calico_node_address of {host.name}"
        if address in owners:
            raise FleetError(
                label,
                f"{address}/{prefix}",
                f"is also the address of {owners[address]}.",
                "Every node needs an address of its own.",
            )
        owners[address] = host.name
        ip = int(ipaddress.IPv4Address(address))
        key = (ip >> (32 - prefix), prefix)
        subnet = subnets.get(key)
        if subnet is None:
            subnet = subnets[key] = str(ipaddress.IPv4Network((key[0] << (32 - prefix), prefix)))
        labels = _labels(host)
        nodes[host.name] = FleetNode(host.name, address, prefix, ip, subnet, labels, host.workload_node, host.reflector)
    return nodes


def _node_address(host: Host) -> tuple[str, int]:
    label = f"calico_node_address of {host.name}"
    if host.variables.get("calico_node_address") is None:
        raise FleetError(
            label, None, "is not set.", f"Set it in host_vars/{host.name}.yml, for example to 10.10.1.11/24."
        )
    value = variables.check("calico_node_address", host.variables["calico_node_address"], host.name)
    address, slash, length = value.partition("/")
    remedy = "Write the node's own address on the underlay with its prefix length, for example 10.10.1.11/24."
    try:
        ip = ipaddress.IPv4Address(address)
    except ValueError:
        raise FleetError(label, value, "is not an IPv4 address with a prefix length.", remedy) from None
    if not slash or not length.isdigit() or not 1 <= int(length) <= 32:
        raise FleetError(label, value, "has no prefix length from /1 to /32.", remedy)
    prefix = int(length)
    if ip.is_loopback or ip.is_multicast or ip.is_link_local or ip.is_unspecified or ip.is_reserved:
        raise FleetError(label, value, "is not an address that other nodes can reach.", remedy)
    if prefix < 31:
        host_part = int(ip) & ((1 << (32 - prefix)) - 1)
        if host_part in (0, (1 << (32 - prefix)) - 1):
            word = "network" if host_part == 0 else "broadcast"
            raise FleetError(label, value, f"is the {word} address of its subnet.", remedy)
    return str(ip), prefix


def _labels(host: Host) -> dict[str, str]:
    value = host.variables.get("calico_node_labels")
    labels = {} if value is None else variables.check("calico_node_labels", value, host.name)
    texts = _label_texts(labels, f"calico_node_labels of {host.name}")
    texts.setdefault(_HOSTNAME_LABEL, host.name)
    return texts


def _label_texts(labels: t.Mapping[t.Any, t.Any], label: str) -> dict[str, str]:
    """Keys and values as texts (YAML makes true and 1 of unquoted ones), checked. Raises FleetError."""
    texts = {str(key): str(entry).lower() if isinstance(entry, bool) else str(entry) for key, entry in labels.items()}
    if texts:
        try:
            _check_labels(tuple(texts.items()))
        except resources.ResourceError as error:
            raise FleetError(label, error.value, error.rule, error.remedy) from error
    return texts


@functools.lru_cache(maxsize=1024)
def _check_labels(items: tuple[tuple[str, str], ...]) -> None:
    """Raises ResourceError. Many hosts and workloads have the same labels."""
    resources.parse({"kind": "Node", "metadata": {"name": "node", "labels": dict(items)}, "spec": {}})


def _check_underlay(reader: _Reader, pools: t.Sequence[resources.IPPool], nodes: t.Mapping[str, FleetNode]) -> None:
    """No pool may cover the addresses by which the nodes reach each other."""
    subnets: dict[str, FleetNode] = {}
    for node in nodes.values():
        subnets.setdefault(node.subnet, node)
    ranges = [(ipaddress.IPv4Network(pool.cidr), pool) for pool in pools]
    networks = [(ipaddress.IPv4Network(subnet), node) for subnet, node in subnets.items()]
    for network, pool in ranges:
        for subnet, node in networks:
            if not network.overlaps(subnet):
                continue
            inside = next((other for other in nodes.values() if ipaddress.IPv4Address(other.address) in network), None)
            what = (
                f"{inside.name}'s own address {inside.address}" if inside else f"part of {node.name}'s subnet {subnet}"
            )
            raise FleetError(
                f"{reader.pool_labels[pool.name]}.cidr",
                pool.cidr,
                f"covers {what}. Workload addresses would shadow the underlay.",
                "Choose a range that no node, peer or gateway uses.",
            )


def _reservations(reader: _Reader, pools: t.Sequence[resources.IPPool]) -> tuple[str, ...]:
    """As CIDRs, each once."""
    ranges = [ipaddress.IPv4Network(pool.cidr) for pool in pools]
    found = set()
    for index, entry in enumerate(reader.get("calico_ip_reservations")):
        label = f"calico_ip_reservations[{index}]"
        try:
            network = ipaddress.IPv4Network(entry if isinstance(entry, str) else "", strict=False)
        except ValueError:
            raise FleetError(
                label,
                entry,
                "is not an IPv4 CIDR.",
                "Write for example 10.244.0.0/28, or 10.244.3.7/32 for one address.",
            ) from None
        address = entry.partition("/")[0]
        if address != str(network.network_address):
            raise FleetError(label, entry, f"begins inside of {network}.", f"Write {network} or {address}/32.")
        if not any(network.overlaps(pool) for pool in ranges):
            raise FleetError(
                label, entry, "lies in no pool, so it reserves nothing.", "Correct it, or remove it from the list."
            )
        found.add(network)
    return tuple(str(network) for network in sorted(found))


_PEER_REMEDY = "Write its IPv4 address alone, for example 10.10.1.1: this release peers over IPv4, at port 179."
#: What of a BGPPeer counts here; all else would have to be kept silent about.
_PEER_FIELDS = ("metadata", "node", "nodeSelector", "peerIP", "asNumber")


def _peers(
    reader: _Reader,
    hosts: t.Sequence[Host],
    pools: t.Sequence[resources.IPPool],
    nodes: t.Mapping[str, FleetNode],
) -> t.Iterator[ExternalPeer]:
    entries = [(f"calico_bgp_peers[{i}]", entry, "") for i, entry in enumerate(reader.get("calico_bgp_peers"))]
    for host in hosts:
        own = host.variables.get("calico_node_bgp_peers")
        if own is not None:
            variables.check("calico_node_bgp_peers", own, host.name)
            entries += [(f"calico_node_bgp_peers[{i}] of {host.name}", entry, host.name) for i, entry in enumerate(own)]
    ranges = [(ipaddress.IPv4Network(pool.cidr), pool) for pool in pools]
    owners = {node.address: node.name for node in nodes.values()}
    seen: dict[tuple[str, str], str] = {}
    for label, entry, owner in entries:
        named = entry
        if isinstance(entry, t.Mapping) and "metadata" not in entry and "spec" not in entry:
            named = {"name": "peer", **entry}
            if isinstance(entry.get("peerIP"), str):
                _address(entry["peerIP"], within(label, "peerIP"), _PEER_REMEDY)
        peer = t.cast(resources.BGPPeer, _resource("BGPPeer", named, label))
        for field in dataclasses.fields(peer):
            if field.name not in _PEER_FIELDS and getattr(peer, field.name) != field.default:
                raise FleetError(
                    within(label, field.name),
                    None,
                    "has no effect in this release.",
                    f"Remove it: a peer has {', '.join(('name', *_PEER_FIELDS[1:]))}.",
                )
        if not peer.peerIP or not peer.asNumber:
            raise FleetError(
                label, None, "needs peerIP and asNumber.", "Write for example peerIP: 10.10.1.1, asNumber: 65000."
            )
        where = within(label, "peerIP")
        address = _address(peer.peerIP, where, _PEER_REMEDY)
        for network, pool in ranges:
            if ipaddress.IPv4Address(address) in network:
                raise FleetError(
                    where,
                    address,
                    f"lies in pool {pool.name} ({pool.cidr}).",
                    "A peer outside the fleet has an address outside the pools.",
                )
        if address in owners:
            raise FleetError(
                where,
                address,
                f"is the address of {owners[address]}.",
                "Nodes of the fleet peer by themselves: name peers outside of it only.",
            )
        node = owner or peer.node
        if node and node not in nodes:
            raise FleetError(
                within(label, "node"), node, "is not a host of the fleet.", "Name one of the inventory's nodes."
            )
        found = ExternalPeer(
            peer.name, address, peer.asNumber, None if node else selectors.parse(peer.nodeSelector or "all()"), node
        )
        for name in found.nodes(nodes):
            other = seen.setdefault((name, address), label)
            if other != label:
                raise FleetError(
                    where,
                    address,
                    f"is also the address of {other}, and {name} would peer with it twice.",
                    "Remove one, or let their nodeSelectors choose different nodes.",
                )
        yield found


def _workloads(
    reader: _Reader,
    hosts: t.Sequence[Host],
    pools: t.Sequence[resources.IPPool],
    nodes: t.Mapping[str, FleetNode],
    profiles: t.Collection[str],
) -> t.Iterator[Workload]:
    entries: list[tuple[str, t.Any, t.Optional[str]]] = [
        (f"calico_workloads[{i}]", entry, None) for i, entry in enumerate(reader.get("calico_workloads"))
    ]
    for host in sorted(hosts, key=lambda host: host.name):
        own = host.variables.get("calico_node_workloads")
        if own is not None:
            variables.check("calico_node_workloads", own, host.name)
            entries += [(f"calico_node_workloads[{i}] of {host.name}", entry, host.name) for i, entry in enumerate(own)]
    seen: dict[str, str] = {}
    addresses: dict[str, str] = {}
    names = {pool.name for pool in pools}
    for label, entry, node in entries:
        workload = _workload(label, entry, node, nodes, names, profiles)
        if workload.name in seen:
            raise FleetError(
                within(label, "name"), workload.name, f"is also the name of {seen[workload.name]}.", "Rename one."
            )
        seen[workload.name] = label
        if workload.address:
            if workload.address in addresses:
                raise FleetError(
                    within(label, "address"),
                    workload.address,
                    f"is also the address of {addresses[workload.address]}.",
                    "Give one of them another address, or none: it then gets a free one.",
                )
            addresses[workload.address] = label
        yield workload


def _workload(
    label: str,
    entry: t.Any,
    node: t.Optional[str],
    nodes: t.Mapping[str, FleetNode],
    pools: t.Collection[str],
    profiles: t.Collection[str],
) -> Workload:
    if not isinstance(entry, t.Mapping):
        raise FleetError(label, entry, "is not a dictionary.", "Write at least a name and a node there.")
    allowed = _WORKLOAD_FIELDS if node is None else tuple(field for field in _WORKLOAD_FIELDS if field != "node")
    for field in entry:
        if field not in allowed:
            raise FleetError(
                within(label, str(field)), None, "is not a field of a workload.", f"It may have {', '.join(allowed)}."
            )
    for field in ("name", "namespace"):
        value = entry.get(field, "default" if field == "namespace" else None)
        if value is None:
            raise FleetError(within(label, field), None, "is missing.", "Write for example name: web-1.")
        if not isinstance(value, str) or not _NAME.fullmatch(value) or len(value) > 63:
            raise FleetError(
                within(label, str(field)),
                value,
                "is not a name.",
                "Use at most 63 lower case letters, digits, '-' and '.', beginning and ending with a letter or digit.",
            )
    if node is None and entry.get("node") is None:
        raise FleetError(within(label, "node"), None, "is missing.", "Name the node that the workload runs on.")
    owner = str(entry["node"]) if node is None else node
    if owner not in nodes or not nodes[owner].workload_node:
        raise FleetError(
            within(label, "node"),
            entry.get("node", node),
            "is not a host of group calico_nodes.",
            "Name one of the inventory's nodes.",
        )
    pool = entry.get("pool")
    if pool is not None and (not isinstance(pool, str) or pool not in pools):
        raise FleetError(within(label, "pool"), pool, "is not a pool.", f"The pools are {', '.join(sorted(pools))}.")
    address = entry.get("address")
    if address is not None:
        address = _address(
            str(address).partition("/32")[0] if str(address).endswith("/32") else address,
            within(label, "address"),
            "Write one IPv4 address out of a pool, or leave it out to get a free one.",
        )
    endpoint = entry.get("endpoint", "eth0")
    if not isinstance(endpoint, str) or not _DEVICE_NAME.fullmatch(endpoint) or endpoint == "lo":
        raise FleetError(
            within(label, "endpoint"),
            endpoint,
            "cannot be the name of a device.",
            f"Use 1 to {_DEVICE_NAME_LIMIT} characters without spaces, '/' and ':'.",
        )
    labels = entry.get("labels") or {}
    if not isinstance(labels, t.Mapping):
        raise FleetError(within(label, "labels"), labels, "is not a dictionary.", "Write for example {app: web}.")
    texts = _label_texts(labels, within(label, "labels"))
    own = entry.get("profiles")
    return Workload(
        entry["name"],
        owner,
        entry.get("namespace", "default"),
        texts,
        pool,
        address,
        endpoint,
        label,
        None if own is None else profile_names(own, within(label, "profiles"), profiles),
        _ports(entry.get("ports") or (), label),
    )


def _ports(ports: t.Any, label: str) -> tuple[EndpointPort, ...]:
    """Named ports, as a WorkloadEndpoint has them."""
    if not ports:
        return ()
    flat = {"name": "workload", "interfaceName": "cali0", "ports": ports}
    try:
        endpoint = t.cast(resources.WorkloadEndpoint, resources.parse_flat("WorkloadEndpoint", flat))
        resources.check_supported(endpoint, flat=True)
    except resources.ResourceError as error:
        raise FleetError(within(label, error.field), error.value, error.rule, error.remedy) from error
    return workload_endpoint(endpoint).ports
