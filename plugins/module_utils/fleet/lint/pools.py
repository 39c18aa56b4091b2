# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about pools that are full, serve no node, or cover addresses that are in use elsewhere or carried badly."""

from __future__ import annotations

import ipaddress
import typing as t

from ...base.addresses import inside
from .finding import Issue
from .network import LintedFleet, address_of, counted

_RESERVED = "240.0.0.0/4"
#: The share of taken blocks from which a pool counts as nearly full.
NEARLY_ALL = 0.9


def nearly_full(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a pool with nine of ten blocks or more granted or in quarantine."""
    granted: dict[str, int] = {}
    for part in network.fleet.allocation.nodes.values():
        for grant in (*part.blocks, *part.spare_blocks):
            granted[grant.pool] = granted.get(grant.pool, 0) + 1
    waiting: dict[str, int] = {}
    for entry in network.fleet.allocation.quarantine:
        waiting[entry.pool] = waiting.get(entry.pool, 0) + 1
    for label, pool in network.pools:
        blocks = 1 << max(pool.blockSize - int(pool.cidr.partition("/")[2]), 0)
        quarantined = waiting.get(pool.name, 0)
        taken = granted.get(pool.name, 0) + quarantined
        if pool.disabled or taken < NEARLY_ALL * blocks:
            continue
        aside = f" ({quarantined} in quarantine)" if quarantined else ""
        release = ", or give free what is in quarantine with calico_release_blocks" if quarantined else ""
        yield Issue(
            f"{label}.cidr",
            f"has {counted(blocks, 'block')}, and {taken} {'is' if taken == 1 else 'are'} taken{aside}: a node "
            "that is added or opens another block may get none.",
            f"Add a pool{release}.",
            value=pool.cidr,
        )


def for_nobody(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a pool that is not disabled and whose nodeSelector matches no node."""
    for label, pool in network.pools:
        if not pool.disabled and not network.selected(pool):
            yield Issue(
                f"{label}.nodeSelector",
                f"matches no node, so that no node gets addresses of pool {pool.name}.",
                "Correct it, or the calico_node_labels of the nodes that are meant.",
                value=pool.nodeSelector,
            )


def not_exported(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a pool with disableBGPExport that selects several nodes: they get no routes to each other's blocks of it.

    There is no issue if BGP is disabled.
    """
    for label, pool in network.pools:
        nodes = network.selected(pool) if pool.disableBGPExport and network.fleet.settings.bgp_enabled else []
        if len(nodes) > 1:
            yield Issue(
                f"{label}.disableBGPExport",
                f"leaves {len(nodes)} nodes without routes to each other's workloads of pool {pool.name}: its blocks "
                "are not advertised.",
                "Remove it, or let nodeSelector choose the one node whose workloads are to be on their own.",
                value=True,
            )


def over_management(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a pool that covers the address by which Ansible reaches a node.

    Only an ansible_host that is an address counts: names are not resolved. A pool's issue names the first such node.
    """
    ways = []
    for name, text in network.ways.items():
        try:
            ways.append((name, ipaddress.ip_address(text)))
        except ValueError:
            continue  # a name, which is not resolved here
    for label, pool in network.pools:
        covered = ipaddress.ip_network(pool.cidr)
        inside = next(((name, way) for name, way in ways if way in covered), None)
        if inside:
            yield Issue(
                f"{label}.cidr",
                f"covers {inside[1]}, by which Ansible reaches {inside[0]} (ansible_host): a run would cut itself off.",
                "Choose a range that nothing else uses.",
                value=pool.cidr,
            )


def reserved(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a pool or a subnet of nodes in 240.0.0.0/4, which Linux routes and much other equipment drops."""
    first = {node.subnet: node for node in reversed([*network.fleet.nodes.values()]) if node.address}
    found = [(f"{label}.cidr", pool.cidr, pool.cidr, "") for label, pool in network.pools]
    found += [
        (address_of(node.name), f"{node.address}/{node.prefix}", subnet, network.place_of(node.name))
        for subnet, node in first.items()
    ]
    for variable, value, subnet, place in found:
        if inside(subnet, _RESERVED):
            yield Issue(
                variable,
                f"lies in {_RESERVED}, which is reserved (RFC 1112): Linux routes such addresses, but many routers and "
                "other systems drop them.",
                "Choose a private range (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16), or name this rule in "
                "calico_lint_ignore if every system on the way carries them.",
                place,
                value,
            )


def public_behind_nat(network: LintedFleet) -> t.Iterator[Issue]:
    """Report a pool of public addresses with natOutgoing, which they do not need: the range may be mistyped."""
    for label, pool in network.pools:
        if pool.natOutgoing and ipaddress.ip_network(pool.cidr).is_global:
            yield Issue(
                f"{label}.cidr",
                "is a public range behind natOutgoing: its owners on the Internet cannot be reached from here.",
                "Choose a private one (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16), or remove natOutgoing if the range "
                "is yours.",
                value=pool.cidr,
            )
