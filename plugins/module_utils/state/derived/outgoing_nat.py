# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packets that natOutgoing does not masquerade, although they leave the pools.

Those to ports of BGP and BFD are never masqueraded, because the peers of a node trust its address.
A masqueraded packet has the node's address as its source, so a workload's connection to port 179 of a peer would be
accepted as the node's own. With the workload's own address as source, the peer refuses it. The rule depends on the
port alone, because a router accepts sessions on each of its addresses, and the inventory contains only one of them.

With calico_nat_outgoing_exclusions IPPoolsAndHostIPs, packets to addresses of nodes are not masqueraded, either.
"""

from __future__ import annotations

import typing as t

from ...base.ports import BFD_PORTS, BGP_PORT
from ...policy.sets.ip_sets import ALL_HOSTS, name_of
from ..node_state import NodeState

#: The chain of the table nat with the rules of natOutgoing.
CHAIN = "cali-nat-outgoing"


def to_hosts(family: int) -> str:
    """Return the rule of CHAIN that exempts packets of this IP version to addresses of nodes."""
    return f"-m set --match-set {name_of(family, ALL_HOSTS)} dst -j RETURN"


def excludes_hosts(state: NodeState, family: int) -> bool:
    """Return whether natOutgoing in `state` leaves packets of this IP version to nodes' addresses alone."""
    return _has_rule(state, to_hosts(family))


def exemptions(bgp_ports: t.Iterable[int]) -> tuple[str, ...]:
    """Return the rules of CHAIN that exempt packets to `bgp_ports` (TCP), the assigned port of BGP, and those of BFD.

    They are as iptables-restore reads them, without -A, and must precede the rules that masquerade.
    """
    tcp = sorted({BGP_PORT, *bgp_ports})
    return (*(_exemption("tcp", port) for port in tcp), *(_exemption("udp", port) for port in BFD_PORTS))


def is_exempt(state: NodeState, protocol: str, port: t.Optional[int]) -> bool:
    """Return whether `state` exempts packets of `protocol`, such as "tcp", to this port (None: it has no ports)."""
    return _has_rule(state, _exemption(protocol, port or 0))


def _has_rule(state: NodeState, rule: str) -> bool:
    return any(rule in table.chains.get(CHAIN, ()) for table in state.iptables if table.name == "nat")


def _exemption(protocol: str, port: int) -> str:
    return f"-p {protocol} -m {protocol} --dport {port} -j RETURN"
