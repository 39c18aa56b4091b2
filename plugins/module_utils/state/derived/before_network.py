# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NodeState for a host whose interfaces have no addresses yet. Pure.

A HostEndpoint with expectedIPs alone governs the interface that has one of them. Before the network is up it cannot be
known which interface that will be. So all interfaces that no HostEndpoint names are closed, except for failsafe ports
and the packets that configure an interface by IPv6.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.ports import PortRange
from ...policy import model
from ..node_policy_tables import needs_interfaces
from ..node_state import NodeState
from ..policy_state import PolicyState

#: The name of the HostEndpoint that closes interfaces, the name of its tier, and the beginning of its policies' names.
#: It sorts before every valid name, so this HostEndpoint governs "*" in place of the node's own.
NAME = "!before-network"

_LABEL = "baremetal.host-routing/before-network"
_FIRST = float("-inf")
#: ICMPv6 types 130 to 136: multicast listeners (MLD version 1), routers and neighbours. Without routers' and
#: neighbours' messages an interface gets no IPv6 address from a router.
_IPV6_SETUP = range(130, 137)
_DHCPV6_CLIENT, _DHCPV6_SERVER = 546, 547


def closed(state: NodeState) -> NodeState:
    """Return `state` with all interfaces closed that may turn out to belong to a HostEndpoint.

    A HostEndpoint for "*" denies. Failsafe ports, DHCPv6 and IPv6 discovery of neighbours, routers and multicast
    listeners stay open. The same object is returned without a policy, or if every HostEndpoint of the node names its
    interface.
    """
    if state.policy is None or not needs_interfaces(state):
        return state
    return dataclasses.replace(state, policy=_closed(state.node, state.policy))


def _closed(node: str, policy: PolicyState) -> PolicyState:
    everything = model.Endpoint(
        kind=model.HOST_ENDPOINT, name=NAME, node=node, interface=model.WILDCARD, labels=((_LABEL, ""),)
    )
    before = policy.policy_set
    tiers = (model.PolicyTier(NAME, _FIRST), *before.tiers)
    policies = (*_policies(), *before.policies)
    policy_set = model.policy_set(tiers, policies, before.profiles, before.network_sets)
    return dataclasses.replace(policy, policy_set=policy_set, endpoints=(everything, *policy.endpoints))


def _policies() -> t.Iterator[model.Policy]:
    """Yield the policies that deny all but ICMPv6 of `_IPV6_SETUP` and DHCPv6, in which the host is the client.

    The second denies packets that policy before DNAT would accept.
    """
    ingress = (*_setup(_DHCPV6_CLIENT), model.PolicyRule(model.DENY))
    egress = (*_setup(_DHCPV6_SERVER), model.PolicyRule(model.DENY))
    both = model.Policy(
        name=NAME,
        tier=NAME,
        selector=f"has({_LABEL})",
        types=(model.INGRESS, model.EGRESS),
        ingress=ingress,
        egress=egress,
        apply_on_forward=True,
    )
    yield both
    yield dataclasses.replace(both, name=f"{NAME}-dnat", types=(model.INGRESS,), egress=(), pre_dnat=True)


def _setup(dhcpv6_port: int) -> t.Iterator[model.PolicyRule]:
    for kind in _IPV6_SETUP:
        yield model.PolicyRule(model.ALLOW, ip_version=6, protocol="icmpv6", icmp=model.Icmp(kind))
    port = model.Entity(ports=(PortRange(dhcpv6_port, dhcpv6_port),))
    yield model.PolicyRule(model.ALLOW, ip_version=6, protocol="udp", destination=port)
