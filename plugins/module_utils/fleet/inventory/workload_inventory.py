# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of the workloads in a fleet's inventory. It also decides which IP versions each workload has."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...base.addresses import ip_address
from ...policy.documents.from_resources import workload_endpoint
from ...policy.model import DefinedPort
from ...resources import api as resources
from ...state.attachment import OF_PROBES, reserved_for_probes
from ...state.errors import FleetError, did_you_mean, within
from .. import variables
from ..host import Host
from . import node_address
from .flat_resource import label_texts, refused
from .node_inventory import FleetNode
from .policy_settings import profile_names
from .pool_inventory import Get

_WORKLOAD_FIELDS = (
    "name",
    "node",
    "namespace",
    "labels",
    "pool",
    "address",
    "pool_ipv6",
    "address_ipv6",
    "ip_families",
    "endpoint",
    "profiles",
    "ports",
)
#: Mappings from IP version to the field of a workload that chooses its pool or its address.
_POOL_FIELD = {4: "pool", 6: "pool_ipv6"}
_ADDRESS_FIELD = {4: "address", 6: "address_ipv6"}
_FAMILIES = {"IPv4": 4, "IPv6": 6}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
#: The most characters of a device name: IFNAMSIZ without the terminating zero.
_DEVICE_NAME_LIMIT = 15
_DEVICE_NAME = re.compile(r"[^\s/:]{1,15}")


@dataclasses.dataclass(frozen=True)
class InventoryWorkload:
    """A workload as the inventory declares it; `pool` and `address` are of IPv4, `pool6` and `address6` of IPv6."""

    name: str
    node: str
    namespace: str = "default"
    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    pool: t.Optional[str] = None
    address: t.Optional[str] = None
    endpoint: str = "eth0"  # interface inside the workload's network namespace
    where: str = ""  # how errors name it: calico_workloads[0]
    profiles: t.Optional[tuple[str, ...]] = None  # None: those in calico_workload_profiles
    ports: tuple[DefinedPort, ...] = ()
    pool6: t.Optional[str] = None
    address6: t.Optional[str] = None
    families: tuple[int, ...] = (4,)  # the IP versions of its addresses


def read(
    get: Get,
    hosts: t.Sequence[Host],
    pools: t.Sequence[resources.IPPool],
    nodes: t.Mapping[str, FleetNode],
    profiles: t.Collection[str],
) -> t.Iterator[InventoryWorkload]:
    """Yield the workloads of the fleet's list, then those of the nodes' lists.

    Raise FleetError for an invalid entry, and for a name or an address that two workloads have.
    """
    entries: list[tuple[str, t.Any, t.Optional[str]]] = [
        (f"calico_workloads[{i}]", entry, None) for i, entry in enumerate(get("calico_workloads"))
    ]
    for host in sorted(hosts, key=lambda host: host.name):
        own = variables.of_host(host, "calico_node_workloads") or ()
        entries += [(f"calico_node_workloads[{i}] of {host.name}", entry, host.name) for i, entry in enumerate(own)]
    seen: dict[str, str] = {}
    addresses: dict[str, str] = {}
    families = _Families(pools)
    for label, entry, node in entries:
        workload = _workload(label, entry, node, nodes, families, profiles)
        if workload.name in seen:
            raise FleetError(
                within(label, "name"), workload.name, f"is also the name of {seen[workload.name]}.", "Rename one."
            )
        seen[workload.name] = label
        for version, address in ((4, workload.address), (6, workload.address6)):
            if address and address in addresses:
                raise FleetError(
                    within(label, _ADDRESS_FIELD[version]),
                    address,
                    f"is also the address of {addresses[address]}.",
                    "Give one of them another address, or none: it then gets a free one.",
                )
            if address:
                addresses[address] = label
        yield workload


class _Families:
    """The IP versions of the addresses that workloads get. `versions` maps names of pools to their IP versions."""

    def __init__(self, pools: t.Sequence[resources.IPPool]) -> None:
        self.versions = {pool.name: pool.version for pool in pools}
        # Disabled pools count, because workloads keep addresses from them.
        self._selectors = [
            (pool.version, pool.selector)
            for pool in pools
            if "Workload" in pool.allowedUses and pool.assignmentMode != "Manual"
        ]
        self._of_node: dict[str, tuple[int, ...]] = {}

    def of(self, node: FleetNode) -> tuple[int, ...]:
        """Return the sorted IP versions (4, 6) of the pools, even disabled ones, that assign to workloads on `node`.

        Without such a pool, the result is (4,) if the node has an IPv4 address, else (6,).
        """
        if node.address and 6 not in self.versions.values():
            return (4,)
        found = self._of_node.get(node.name)
        if found is None:
            versions = {version for version, selector in self._selectors if selector.matches(node.labels)}
            found = self._of_node[node.name] = tuple(sorted(versions)) or ((4,) if node.address else (6,))
        return found


def _workload(
    label: str,
    entry: t.Any,
    node: t.Optional[str],
    nodes: t.Mapping[str, FleetNode],
    families: _Families,
    profiles: t.Collection[str],
) -> InventoryWorkload:
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
    if reserved_for_probes(entry.get("namespace", "default"), entry["name"], entry["name"]):
        remedy = "Choose another name: it is also that of the workload's network namespace."
        raise FleetError(within(label, "name"), entry["name"], OF_PROBES, remedy)
    if node is None and entry.get("node") is None:
        raise FleetError(within(label, "node"), None, "is missing.", "Name the node that the workload runs on.")
    owner = str(entry["node"]) if node is None else node
    if owner not in nodes or not nodes[owner].workload_node:
        raise FleetError(
            within(label, "node"),
            entry.get("node", node),
            "is not a host of group calico_nodes.",
            did_you_mean(owner, [name for name in nodes if nodes[name].workload_node], "The nodes are"),
        )
    pool, pool6 = (_workload_pool(label, entry, version, families.versions) for version in (4, 6))
    address, address6 = (_workload_address(label, entry, version) for version in (4, 6))
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
    texts = label_texts(labels, within(label, "labels"))
    own = entry.get("profiles")
    return InventoryWorkload(
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
        pool6,
        address6,
        _workload_families(label, entry, nodes[owner], families),
    )


def _workload_pool(
    label: str, entry: t.Mapping[str, t.Any], version: int, versions: t.Mapping[str, int]
) -> t.Optional[str]:
    field = _POOL_FIELD[version]
    pool = entry.get(field)
    if pool is None:
        return None
    if not isinstance(pool, str) or pool not in versions:
        raise FleetError(within(label, field), pool, "is not a pool.", f"The pools are {', '.join(sorted(versions))}.")
    if versions[pool] != version:
        other = versions[pool]
        raise FleetError(within(label, field), pool, f"is an IPv{other} pool.", f"Write it as {_POOL_FIELD[other]}.")
    return pool


def _workload_address(label: str, entry: t.Mapping[str, t.Any], version: int) -> t.Optional[str]:
    field = _ADDRESS_FIELD[version]
    given = entry.get(field)
    if given is None:
        return None
    text = str(given)
    suffix = "/32" if version == 4 else "/128"
    bare: t.Any = text[: -len(suffix)] if text.endswith(suffix) else given
    remedy = f"Write one IPv{version} address out of a pool, or leave it out to get a free one."
    try:
        return str(ip_address(bare if isinstance(bare, str) else "", version))
    except ValueError:
        raise FleetError(within(label, field), bare, f"is not an IPv{version} address.", remedy) from None


def _workload_families(
    label: str, entry: t.Mapping[str, t.Any], node: FleetNode, families: _Families
) -> tuple[int, ...]:
    """Return the sorted IP versions (4, 6) of a workload's addresses.

    They are those in its field ip_families, else those of the node's pools and of the pools and addresses that the
    workload names.
    """
    asked = [v for v in (4, 6) if entry.get(_POOL_FIELD[v]) is not None or entry.get(_ADDRESS_FIELD[v]) is not None]
    given = entry.get("ip_families")
    if given is None:
        found = tuple(sorted({*families.of(node), *asked}))
    else:
        if not isinstance(given, (list, tuple)) or not given or any(name not in tuple(_FAMILIES) for name in given):
            raise FleetError(
                within(label, "ip_families"),
                given,
                "is not a list of IP families.",
                "Write [IPv4], [IPv6] or [IPv4, IPv6], or leave it out for those that the pools have.",
            )
        found = tuple(sorted({_FAMILIES[name] for name in given}))
        for version in asked:
            if version not in found:
                field = next(f[version] for f in (_ADDRESS_FIELD, _POOL_FIELD) if entry.get(f[version]) is not None)
                raise FleetError(
                    within(label, field),
                    entry[field],
                    f"is there, but ip_families has no IPv{version}.",
                    f"Remove it, or add IPv{version}.",
                )
    for version in found:
        if not node.address_of(version):
            raise FleetError(
                node_address.label(version, node.name),
                None,
                f"is not set, but workload {entry['name']} on this node has IPv{version}.",
                f"Set it in host_vars/{node.name}.yml, or write ip_families: [IPv{10 - version}] for the workload.",
            )
    return found


def _ports(ports: t.Any, label: str) -> tuple[DefinedPort, ...]:
    """Return the named ports of a workload, () for none. Raise FleetError if a WorkloadEndpoint cannot have them."""
    if not ports:
        return ()
    flat = {"name": "workload", "interfaceName": "cali0", "ports": ports}
    try:
        endpoint = t.cast(resources.WorkloadEndpoint, resources.parse_flat("WorkloadEndpoint", flat))
        resources.check_supported(endpoint, flat=True)
    except resources.ResourceError as error:
        raise refused(error, label) from error
    return workload_endpoint(endpoint).ports
