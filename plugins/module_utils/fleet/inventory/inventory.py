# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of an inventory's variables, which returns an Inventory or raises one FleetError. It is pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ...resources import api as resources
from ...state.errors import FleetError, shown
from .. import variables
from ..host import Host, locate, origin
from . import bgp_inventory, datastore_inventory, node_inventory, policy_inventory, pool_inventory, workload_inventory
from .bgp_inventory import FleetBGP
from .node_inventory import FleetNode
from .policy_inventory import FleetPolicy
from .policy_sources import Document
from .workload_inventory import InventoryWorkload

_MISSING = object()
#: The value of calico_nat_outgoing_exclusions by which workloads keep their addresses towards nodes, too.
HOSTS_TOO = "IPPoolsAndHostIPs"


@dataclasses.dataclass(frozen=True)
class FleetSettings:
    """Settings of a whole fleet; FleetBGP and FleetPolicy have more.

    `as_number` and `listen_port` are for nodes that have none of their own. `etcd_members` are the addresses of hosts
    with a member of etcd to which workloads may not connect, sorted.
    """

    bgp_enabled: bool
    as_number: int
    listen_port: int
    log_severity: str
    graceful_restart_time: int  # seconds
    underlay_mtu: int  # bytes
    vxlan_vni: int
    vxlan_port: int
    spare_blocks: int
    release_blocks: tuple[str, ...]
    ip_reservations: tuple[str, ...] = ()  # CIDRs, in order of their addresses
    allow_vxlan_from_workloads: bool = False
    allow_ipip_from_workloads: bool = False
    etcd_members: tuple[str, ...] = ()
    unprobed_pools: tuple[str, ...] = ()  # names of pools without probe endpoints, sorted
    nat_excludes_hosts: bool = False  # natOutgoing keeps the source of packets to addresses of nodes


@dataclasses.dataclass(frozen=True)
class Inventory:
    """The content of the variables, checked for consistency; without blocks, which depend on the lockfile."""

    settings: FleetSettings
    pools: tuple[resources.IPPool, ...]  # in order of the inventory
    nodes: t.Mapping[str, FleetNode]  # in order of names
    workloads: tuple[InventoryWorkload, ...]
    bgp: FleetBGP
    policy: t.Optional[FleetPolicy] = None  # None: no policy is in force

    def labelled_pools(self) -> t.Iterator[tuple[str, resources.IPPool]]:
        """Yield each pool with the label by which errors name it (`calico_ip_pools[0]`)."""
        return ((pool_inventory.label_of(index), pool) for index, pool in enumerate(self.pools))


def read(
    hosts: t.Sequence[Host], documents: t.Sequence[Document] = (), etcd_members: t.Iterable[str] = ()
) -> Inventory:
    """Return the checked content of the inventory's variables, with defaults for those that are not set.

    Errors about a value that a document of a file gives name the resource and its field, and others the variable.

    `documents` are policy resources from files. `etcd_members` are the addresses of hosts with a member of etcd, also
    of those that are no hosts of the fleet. Raise FleetError for the first missing, invalid or contradictory value
    or misspelt or renamed variable, with its file and line if they are known, and if group calico_nodes has no hosts.
    """
    try:
        return read_variables(hosts, documents, etcd_members)
    except FleetError as error:
        locate(error, hosts)
        raise


def read_variables(
    hosts: t.Sequence[Host], documents: t.Sequence[Document] = (), etcd_members: t.Iterable[str] = ()
) -> Inventory:
    """Return what `read` returns. Errors name variables in any case."""
    try:
        return _read(hosts, documents, etcd_members)
    except FleetError as error:
        error.origin = error.origin or origin(error.variable, hosts)
        raise


def _read(hosts: t.Sequence[Host], documents: t.Sequence[Document], etcd_members: t.Iterable[str]) -> Inventory:
    if not any(host.workload_node for host in hosts):
        raise FleetError("group calico_nodes", None, "has no hosts.", "Put the hosts that route for workloads into it.")
    reader = _Reader(hosts)
    for host in hosts:
        variables.check_renamed(host.variables)
        for name, meant in variables.misspelt(host.variables):
            raise FleetError(name, None, "is not a variable of this collection.", f"Did you mean {meant}?")
    settings = _settings(reader, etcd_members)
    pools = pool_inventory.read(reader.get, settings.bgp_enabled)
    pool_inventory.check_known_to_routers(reader.get, pools)
    nodes = node_inventory.read(hosts)
    datastore_inventory.operators(
        reader.get(datastore_inventory.OPERATORS), nodes, reader.get(datastore_inventory.USERNAME)
    )
    pool_inventory.check_families(pools, nodes, settings.underlay_mtu)
    pool_inventory.check_underlay(pools, nodes)
    settings = dataclasses.replace(
        settings,
        ip_reservations=pool_inventory.reservations(reader.get, pools),
        unprobed_pools=pool_inventory.unprobed(reader.get, pools),
    )
    bgp = bgp_inventory.read(reader.get, hosts, nodes, pools)
    if not settings.bgp_enabled and any(host.reflector for host in hosts):
        raise FleetError(
            "group calico_rr",
            None,
            "has hosts, but calico_bgp_enabled is false: there is nothing to reflect.",
            "Empty the group, or leave BGP enabled.",
        )
    if settings.bgp_enabled and not bgp.unasked.mesh and not bgp.peers and not any(host.reflector for host in hosts):
        raise FleetError(
            "calico_bgp_node_to_node_mesh",
            False,
            "leaves the nodes without any BGP session.",
            "Put route reflectors into group calico_rr, name peers in calico_bgp_peers, or leave the mesh on.",
        )
    policy, profiles = policy_inventory.read(reader.get, hosts, nodes, bgp, documents)
    workloads = tuple(workload_inventory.read(reader.get, hosts, pools, nodes, profiles))
    return Inventory(settings, pools, nodes, workloads, bgp, policy)


class _Reader:
    """A reader of fleet variables, which must be the same on all hosts."""

    def __init__(self, hosts: t.Sequence[Host]) -> None:
        self.hosts = hosts
        self._known: dict[str, t.Any] = {}

    def get(self, name: str) -> t.Any:
        """Return the value of variable `name`, converted as by `variables.check`, or its default; it is cached.

        Raise FleetError if it is required and missing, set on some hosts only, differs between hosts, or is invalid.
        """
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> t.Any:
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
                found = "nothing" if other is _MISSING else "another" if variable.secret else shown(other)
                has = "one" if variable.secret else shown(value)
                raise FleetError(
                    name,
                    None,
                    f"differs between hosts: {first.name} has {has}, {host.name} has {found}.",
                    "It is one value for the whole fleet: set it once, in group_vars/all.",
                )
        return variables.check(name, value)


def _settings(reader: _Reader, etcd_members: t.Iterable[str]) -> FleetSettings:
    for name in ("calico_lockfile", "calico_rebuild_lockfile"):
        reader.get(name)  # checks the value of a variable that only the controller uses
    datastore_inventory.read(reader.get)
    return FleetSettings(
        bgp_enabled=reader.get("calico_bgp_enabled"),
        as_number=reader.get("calico_bgp_as_number"),
        listen_port=reader.get("calico_bgp_listen_port"),
        log_severity=reader.get("calico_bgp_log_severity"),
        graceful_restart_time=reader.get("calico_bgp_graceful_restart_time"),
        underlay_mtu=reader.get("calico_underlay_mtu"),
        vxlan_vni=reader.get("calico_vxlan_vni"),
        vxlan_port=reader.get("calico_vxlan_port"),
        spare_blocks=reader.get("calico_spare_blocks"),
        release_blocks=tuple(reader.get("calico_release_blocks")),
        allow_vxlan_from_workloads=reader.get("calico_allow_vxlan_packets_from_workloads"),
        allow_ipip_from_workloads=reader.get("calico_allow_ipip_packets_from_workloads"),
        nat_excludes_hosts=reader.get("calico_nat_outgoing_exclusions") == HOSTS_TOO,
        etcd_members=() if reader.get("calico_allow_etcd_from_workloads") else tuple(sorted(set(etcd_members))),
    )
