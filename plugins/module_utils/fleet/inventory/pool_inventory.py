# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of a fleet's IP pools and reservations from its variables, with checks against its nodes."""

from __future__ import annotations

import ipaddress
import typing as t

from ...base import selectors
from ...base.addresses import contains, not_carried
from ...resources import api as resources
from ...state.errors import FleetError, did_you_mean
from ...state.node_state import overhead
from . import flat_resource, node_address
from .node_inventory import FleetNode

#: A function that returns the value of a fleet variable, or raises FleetError.
Get = t.Callable[[str], t.Any]

#: The least MTU in bytes of a device with IPv6 (RFC 8200, section 5). Linux disables IPv6 on a device with less.
_LEAST_MTU6 = 1280


def label_of(index: int) -> str:
    """Return how errors name the pool at this index of the list: `calico_ip_pools[0]`."""
    return f"calico_ip_pools[{index}]"


def read(get: Get, bgp_enabled: bool) -> tuple[resources.IPPool, ...]:
    """Return the pools in the order of the inventory.

    Raise FleetError if there is none, if one is invalid or needs disabled BGP, or if two share a name or addresses.
    """
    entries = get("calico_ip_pools")
    if not entries:
        raise FleetError(
            "calico_ip_pools", None, "is empty.", "Workloads need at least one pool to get addresses from."
        )
    pools: list[resources.IPPool] = []
    labels: dict[str, str] = {}
    for index, entry in enumerate(entries):
        label = label_of(index)
        pool = flat_resource.read(resources.IPPool, entry, label)
        _check_carried(pool, label)
        if pool.name in labels:
            raise FleetError(f"{label}.name", pool.name, f"is also the name of {labels[pool.name]}.", "Rename one.")
        if not bgp_enabled and not pool.encapsulation.startswith("VXLAN"):
            raise FleetError(
                f"{label}",
                pool.name,
                f"has encapsulation {pool.encapsulation}, but calico_bgp_enabled is false.",
                "Without BGP only VXLAN pools work: set vxlanMode: Always or CrossSubnet, or leave BGP enabled.",
            )
        labels[pool.name] = label
        pools.append(pool)
    by_range = sorted(
        ((ipaddress.ip_network(pool.cidr), pool) for pool in pools), key=lambda item: (item[0].version, item[0])
    )
    for (lower, one), (upper, other) in zip(by_range, by_range[1:]):
        if lower.version == upper.version and lower.overlaps(upper):
            raise FleetError(
                f"{labels[other.name]}.cidr",
                other.cidr,
                f"overlaps {one.cidr} of {labels[one.name]} ({one.name}).",
                "An address must belong to one pool: choose ranges that do not share addresses.",
            )
    return tuple(pools)


def _check_carried(pool: resources.IPPool, label: str) -> None:
    """Raise FleetError if a pool has addresses that Linux does not route from one host to another."""
    found = not_carried(pool.cidr)
    if found:
        example = "10.244.0.0/16" if pool.version == 4 else "fd00:10:244::/64"
        raise FleetError(
            f"{label}.cidr",
            pool.cidr,
            f"has addresses of {found[0]}, which {found[1]}: no packet carries them from one host to another.",
            f"Choose a range that is routed, for example {example}.",
        )


def check_families(pools: t.Sequence[resources.IPPool], nodes: t.Mapping[str, FleetNode], underlay_mtu: int) -> None:
    """Raise FleetError if a node lacks an address of a pool's IP version, or if an MTU is too small for IPv6.

    A node needs the address if it is in group calico_nodes and the pool selects it, or if it is in group calico_rr.
    `underlay_mtu` is in bytes. If there is any IPv6 pool, each pool must leave workloads at least 1280 bytes.
    """
    for pool in pools:
        lacking = [node for node in nodes.values() if not node.address_of(pool.version)]
        selector = selectors.parse(pool.nodeSelector or "all()")
        for node in lacking:
            selected = node.workload_node and selector.matches(node.labels)
            if selected or node.reflector:
                who = "whose nodeSelector selects this node" if selected else "whose blocks this node reflects"
                other = f", or leave the node out of the pool's nodeSelector ({pool.nodeSelector})" if selected else ""
                example = node_address.EXAMPLES[pool.version]
                raise FleetError(
                    node_address.label(pool.version, node.name),
                    None,
                    f"is not set, but there is the IPv{pool.version} pool {pool.name}, {who}.",
                    f"Set it in host_vars/{node.name}.yml, for example to {example}{other}.",
                )
    if any(pool.version == 6 for pool in pools):
        for pool in pools:
            # IPv4 pools count, too: a workload may have addresses of both families, and has only one MTU.
            added = overhead(pool.encapsulation, pool.cidr)
            left = underlay_mtu - added
            if left < _LEAST_MTU6:
                raise FleetError(
                    "calico_underlay_mtu",
                    underlay_mtu,
                    f"leaves {left} bytes inside of {pool.encapsulation} (pool {pool.name}); IPv6 needs {_LEAST_MTU6}.",
                    f"It has to be {_LEAST_MTU6 + added} at least; or route the pool directly.",
                )


def check_underlay(pools: t.Sequence[resources.IPPool], nodes: t.Mapping[str, FleetNode]) -> None:
    """Raise FleetError if a pool overlaps the underlay subnet of a node."""
    subnets: dict[str, FleetNode] = {}
    for node in nodes.values():
        for cidr in (node.subnet, node.subnet6):
            if cidr:
                subnets.setdefault(cidr, node)
    ranges = [(ipaddress.ip_network(pool.cidr), label_of(index), pool) for index, pool in enumerate(pools)]
    networks = [(ipaddress.ip_network(subnet), node) for subnet, node in subnets.items()]
    for network, label, pool in ranges:
        for subnet, node in networks:
            if network.version != subnet.version or not network.overlaps(subnet):
                continue
            owned = ((other.name, other.address_of(pool.version)) for other in nodes.values())
            inside = next((found for found in owned if found[1] and contains(pool.cidr, found[1])), None)
            what = f"{inside[0]}'s own address {inside[1]}" if inside else f"part of {node.name}'s subnet {subnet}"
            raise FleetError(
                f"{label}.cidr",
                pool.cidr,
                f"covers {what}. Workload addresses would shadow the underlay.",
                "Choose a range that no node, peer or gateway uses.",
            )


def check_known_to_routers(get: Get, pools: t.Sequence[resources.IPPool]) -> None:
    """Raise FleetError for an entry of calico_pools_known_to_routers that names no pool."""
    _check_names("calico_pools_known_to_routers", get("calico_pools_known_to_routers"), pools)


def unprobed(get: Get, pools: t.Sequence[resources.IPPool]) -> tuple[str, ...]:
    """Return the sorted names of the pools in calico_unprobed_pools; `*` stands for all pools.

    Raise FleetError for an entry that names no pool.
    """
    entries = get("calico_unprobed_pools")
    _check_names("calico_unprobed_pools", [entry for entry in entries if entry != "*"], pools)
    return tuple(sorted({pool.name for pool in pools} if "*" in entries else {*entries}))


def _check_names(variable: str, entries: t.Sequence[str], pools: t.Sequence[resources.IPPool]) -> None:
    """Raise FleetError for the first of a variable's `entries` that names no pool."""
    names = [pool.name for pool in pools]
    for index, entry in enumerate(entries):
        if entry not in names:
            remedy = did_you_mean(entry, names, "The pools are")
            raise FleetError(f"{variable}[{index}]", entry, "is not a pool of this inventory.", remedy)


def reservations(get: Get, pools: t.Sequence[resources.IPPool]) -> tuple[str, ...]:
    """Return the CIDRs in calico_ip_reservations, each once, IPv4 first, in order of their addresses.

    An address without a prefix length stands for itself alone; a netmask is accepted as a prefix length. Raise
    FleetError for an entry that is not a CIDR, has host bits set, or overlaps no pool.
    """
    ranges = [ipaddress.ip_network(pool.cidr) for pool in pools]
    found = set()
    for index, entry in enumerate(get("calico_ip_reservations")):
        label = f"calico_ip_reservations[{index}]"
        try:
            # An address with a zone (fe80::1%eth0) is refused: Python accepts it.
            network = ipaddress.ip_network(entry.replace("%", "zone") if isinstance(entry, str) else "", strict=False)
        except ValueError:
            raise FleetError(
                label,
                entry,
                "is not a CIDR.",
                "Write for example 10.244.0.0/28, or 10.244.3.7/32 for one address.",
            ) from None
        address = entry.partition("/")[0]
        if ipaddress.ip_address(address) != network.network_address:
            single = f"{address}/{network.max_prefixlen}"
            raise FleetError(label, entry, f"begins inside of {network}.", f"Write {network} or {single}.")
        if not any(network.version == pool.version and network.overlaps(pool) for pool in ranges):
            raise FleetError(
                label, entry, "lies in no pool, so it reserves nothing.", "Correct it, or remove it from the list."
            )
        found.add(network)
    return tuple(str(network) for network in sorted(found, key=lambda network: (network.version, network)))
