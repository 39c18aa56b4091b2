# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's firewall before its interfaces have addresses: interfaces are closed if their HostEndpoint is not known."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy import model
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules.names import policy_chain
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.before_network import NAME, closed
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import with_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import (
    PolicySettings,
    PolicyState,
)

OPEN = model.Policy("open", ingress=(model.PolicyRule(model.ALLOW),), selector="all()", order=-1.0)


def host_endpoint(name: str, interface: str = "", node: str = "node1") -> model.Endpoint:
    return model.Endpoint(model.HOST_ENDPOINT, name, node, interface, ("10.10.1.11",))


def state(*endpoints: model.Endpoint, **settings: t.Any) -> NodeState:
    policy = PolicyState(model.policy_set(policies=[OPEN]), endpoints, PolicySettings(**settings))
    return NodeState("node1", "10.10.1.11/24", policy=policy)


def chain(found: NodeState, name: str, table: str = "filter", family: int = 4) -> list[str]:
    [one] = [one for one in with_policy(found).iptables if (one.family, one.name) == (family, table)]
    return list(one.chains[name])


def test_a_node_whose_interfaces_are_named_or_that_has_no_policy_is_as_it_is() -> None:
    for same in (
        NodeState("node1", "10.10.1.11/24"),
        state(),
        state(host_endpoint("a", "eth0"), host_endpoint("b", "*")),
        state(host_endpoint("c", node="node2")),
    ):
        assert closed(same) is same


def test_unnamed_interfaces_are_closed_and_named_ones_unchanged() -> None:
    # closed() adds a HostEndpoint for "*", whose name begins with "!". It sorts before "0", so "0" has no effect.
    found = closed(state(host_endpoint("by-address"), host_endpoint("0", "*"), host_endpoint("a", "eth0")))
    dispatch = chain(found, "cali-from-host-endpoint")
    assert dispatch[:2] == ["-i eth0 -g cali-fh-eth0", "-i lo -j RETURN"]
    [everybody] = [rule[3:] for rule in dispatch[2:]]
    # The policy that closed() adds comes after failsafes and before the policy `open`, which allows everything.
    jumps = [rule[3:] for rule in chain(found, everybody) if rule.startswith("-j cali-")]
    assert jumps == ["cali-failsafe-in", policy_chain(NAME, model.INGRESS), "cali-pi-open"]
    assert "-j DROP" in chain(found, jumps[1])
    assert [rule for rule in chain(found, "cali-fh-eth0") if "-j cali-pi-" in rule] == ["-j cali-pi-open"]
    assert chain(found, everybody, "mangle").count(f"-j {policy_chain(NAME + '-dnat', model.INGRESS)}") == 1


def test_packets_that_configure_ipv6_pass_a_closed_interface() -> None:
    found = closed(state(host_endpoint("by-address")))
    rules = chain(found, policy_chain(NAME, model.INGRESS), family=6)
    kinds = [rule.split("--icmpv6-type ")[1].split()[0] for rule in rules if "--icmpv6-type" in rule]
    assert kinds == [str(kind) for kind in range(130, 137)]
    assert [rule for rule in rules if "-p udp" in rule and "546" in rule]
    sent = chain(found, policy_chain(NAME, model.EGRESS), family=6)
    assert [rule for rule in sent if "-p udp" in rule and "547" in rule]  # to the server of DHCPv6, RFC 8415


def test_the_host_endpoint_stays_in_sets_that_mean_it() -> None:
    by_address = dataclasses.replace(host_endpoint("by-address"), labels=(("role", "db"),))
    found = closed(state(by_address))
    assert found.policy is not None and by_address in found.policy.endpoints


def test_a_node_that_only_audits_is_not_closed() -> None:
    found = closed(state(host_endpoint("by-address"), audit=True))
    for family in (4, 6):
        for direction in (model.INGRESS, model.EGRESS):
            rules = chain(found, policy_chain(NAME, direction), family=family)
            assert not [rule for rule in rules if "-j DROP" in rule]
            assert rules[-1] == "-g cali-allow"


def test_forwarded_packets_are_denied_as_well() -> None:
    found = closed(state(host_endpoint("by-address")))
    for way, direction in (("from", model.INGRESS), ("to", model.EGRESS)):
        [everybody] = [rule[3:] for rule in chain(found, f"cali-{way}-hep-forward") if rule.startswith("-g ")]
        assert f"-j {policy_chain(NAME, direction)}" in chain(found, everybody)
