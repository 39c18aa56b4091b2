# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The iptables rules and sets that every node needs without any policy: encapsulation and outgoing NAT.

Encapsulated packets are accepted from the fleet's nodes and from nobody else: whoever can send IPIP or VXLAN to a node
could otherwise put packets with any source address behind its policy (Felix renders the same in its cali-INPUT).
"""

from __future__ import annotations

import typing as t

from .node_state import Hook, IpSet, IptablesTable, Pool, TunnelDevice

ALL_HOSTS = "cali40all-hosts-net"

_FROM_FLEET = f"-m set --match-set {ALL_HOSTS} src -m addrtype --dst-type LOCAL -j ACCEPT"


def ipsets(addresses: t.Iterable[str]) -> tuple[IpSet, ...]:
    """`addresses`: those of all nodes of the fleet, without prefix length."""
    return (IpSet(ALL_HOSTS, "hash:net", tuple(sorted(addresses))),)


def tables(pools: t.Sequence[Pool], devices: t.Sequence[TunnelDevice]) -> tuple[IptablesTable, ...]:
    return tuple(table for table in (_filter(devices), _nat(pools, devices)) if table.chains)


def _filter(devices: t.Sequence[TunnelDevice]) -> IptablesTable:
    rules: list[str] = []
    for device in devices:
        match = "-p 4" if device.kind == "ipip" else f"-p udp -m udp --dport {device.port}"
        rules.append(f"{match} {_FROM_FLEET}")
        rules.append(f"{match} -m addrtype --dst-type LOCAL -j DROP")
    if not rules:
        return IptablesTable("filter")
    return IptablesTable("filter", {"cali-INPUT": tuple(rules)}, (Hook("INPUT", "-j cali-INPUT"),))


def _nat(pools: t.Sequence[Pool], devices: t.Sequence[TunnelDevice]) -> IptablesTable:
    chains: dict[str, tuple[str, ...]] = {}
    jumps: list[str] = []
    outgoing = [pool for pool in pools if pool.nat_outgoing]
    if outgoing:
        inside = [f"-d {pool.cidr} -j RETURN" for pool in pools]
        chains["cali-nat-outgoing"] = tuple(
            inside + [f"-s {pool.cidr} -j MASQUERADE --random-fully" for pool in outgoing]
        )
        jumps.append("-j cali-nat-outgoing")
    for device in devices:
        if device.address:
            # The host picked another of its addresses before the route sent the packet into the tunnel: answers to that
            # address would come back outside of it.
            jumps.append(
                f"-o {device.name} -m addrtype ! --src-type LOCAL --limit-iface-out -m addrtype --src-type LOCAL "
                "-j MASQUERADE --random-fully"
            )
    if not jumps:
        return IptablesTable("nat")
    chains["cali-POSTROUTING"] = tuple(jumps)
    return IptablesTable("nat", chains, (Hook("POSTROUTING", "-j cali-POSTROUTING"),))
