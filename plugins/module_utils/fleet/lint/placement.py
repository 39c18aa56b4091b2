# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about hosts that are in no group, and about nodes' addresses and subnets."""

from __future__ import annotations

import ipaddress
import typing as t

from ...resources import api as resources
from ..inventory.node_inventory import FleetNode
from .finding import Issue
from .network import LintedFleet, address_of, listed

_OWN = ("calico_node_address", "calico_node_address_ipv6", "calico_node_labels", "calico_node_workloads")


def in_no_group(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a host that has variables of a node, but is neither in group calico_nodes nor in calico_rr."""
    for host in network.outside:
        variable = next((name for name in _OWN if name in host.variables), None)
        if variable is not None:
            yield Issue(
                f"{variable} of {host.name}",
                f"has no effect: {host.name} is neither in group calico_nodes nor in calico_rr.",
                "Put it into one of them, or remove the variable.",
                value=host.variables[variable],
            )


def subnets_disagree(network: LintedFleet) -> t.Iterator[Issue]:
    """Report nodes of one network with different prefix lengths: they disagree about who is behind a router."""
    for family in (4, 6):
        subnets: dict[str, list[str]] = {}
        for node in network.fleet.nodes.values():
            prefix, subnet = (node.prefix, node.subnet) if family == 4 else (node.prefix6, node.subnet6)
            if 0 < prefix < (31 if family == 4 else 127):
                subnets.setdefault(subnet, []).append(node.name)
        yield from _overlapping(network, family, subnets)


def _overlapping(network: LintedFleet, family: int, subnets: t.Mapping[str, t.Sequence[str]]) -> t.Iterator[Issue]:
    """Report subnets that lie within others; `subnets` maps CIDRs of one IP version to the names of their nodes."""
    make = ipaddress.IPv4Network if family == 4 else ipaddress.IPv6Network
    ordered = sorted((make(subnet), names) for subnet, names in subnets.items())
    around: list[tuple[t.Any, t.Sequence[str]]] = []  # the subnets that contain the present one, the widest first
    for narrow, inside_narrow in ordered:
        while around and not around[-1][0].supernet_of(narrow):
            around.pop()
        if around:
            wide, inside_wide = around[-1]
            one, other = inside_narrow[0], inside_wide[0]
            yield Issue(
                address_of(one, family),
                f"lies in {other}'s subnet {wide}, but {other} lies outside of {one}'s: they disagree "
                "about whether a router is between them, and CrossSubnet depends on that.",
                "Give all nodes of a network its prefix length.",
                value=_written(network, one, family),
            )
        around.append((narrow, inside_narrow))


def _written(network: LintedFleet, name: str, family: int) -> str:
    node = network.fleet.nodes[name]
    return node.cidr if family == 4 else node.cidr6


def alone_in_its_subnet(network: LintedFleet) -> t.Iterator[Issue]:
    """Report nodes with a /32 address (IPv6: /128) and a CrossSubnet pool: all their traffic is encapsulated."""
    for family, whole in ((4, 32), (6, 128)):
        crossing = next((pool.name for pool in network.fleet.pools if _crosses(pool, family)), None)
        nodes = [node for node in network.workload_nodes if _prefix(node, family) == whole] if crossing else []
        if not nodes:
            continue
        yield Issue(
            address_of(nodes[0].name, family),
            f"is a subnet of its own: pool {crossing} (CrossSubnet) encapsulates everything to and from "
            f"{listed([node.name for node in nodes])}.",
            "Write the prefix length of the network that it is in.",
            value=_written(network, nodes[0].name, family),
        )


def _crosses(pool: resources.IPPool, family: int) -> bool:
    return pool.version == family and pool.encapsulation.endswith("CrossSubnet")


def _prefix(node: FleetNode, family: int) -> int:
    return node.prefix if family == 4 else node.prefix6


def no_common_family(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a fleet with nodes that have only IPv4 and others that have only IPv6, which cannot reach each other."""
    alone: dict[int, list[str]] = {4: [], 6: []}
    for node in network.workload_nodes:
        if not (node.address and node.address6):
            alone[4 if node.address else 6].append(node.name)
    if alone[4] and alone[6]:
        yield Issue(
            address_of(alone[6][0]),
            f"is not set, and {listed(alone[4])} {'has' if len(alone[4]) == 1 else 'have'} no IPv6 address: workloads "
            f"there and on {listed(alone[6])} do not reach each other.",
            "Give nodes of one kind an address of the other family, too, and a pool of it; or leave it so if it is "
            "meant.",
        )


def on_no_device(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a node whose address is on none of the host's devices, according to gathered facts."""
    for family, links in ((4, network.links), (6, network.links6)):
        for name, link in links.items():
            if link is None:
                yield Issue(
                    address_of(name, family),
                    f"is on no device of {name}, according to gathered facts.",
                    "Write the address that the host itself has on the underlay.",
                    value=_written(network, name, family),
                )


def moves_between_hosts(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a node whose address is an additional /32 of its device, like addresses that keepalived manages."""
    for name, link in network.links.items():
        if link is not None and link.alone:
            yield Issue(
                address_of(name),
                f"is an additional address of {link.name} with /32, as those that move between hosts.",
                "Write the address that stays with the host.",
                value=_written(network, name, 4),
            )


def no_spare_blocks(network: LintedFleet) -> t.Iterator[Issue]:
    """Report the value 0 of calico_spare_blocks, with which agents cannot open a block between runs."""
    if network.fleet.settings.spare_blocks == 0:
        yield Issue(
            "calico_spare_blocks",
            "leaves agents no block to open: a node whose blocks are full attaches no workload until the next run.",
            "Set it to 1, the default, unless workloads come by the inventory alone.",
            value=0,
        )
