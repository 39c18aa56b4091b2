# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host decides around policy, with real packets: each test is a line of Calico's documented behaviour."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.compile import compile_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import Settings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    EGRESS,
    HOST_ENDPOINT,
    INGRESS,
    WORKLOAD_ENDPOINT,
    Endpoint,
    Entity,
    Flow,
    Policy,
    PolicySet,
    PortRange,
    Profile,
    Rule,
    policy_set,
)

from tests.integration.policy.node_in_namespace import Node, workload_interface
from tests.integration.policy.packets import packet
from tests.unit.policy.obvious_node_policy import node_policy
from tests.unit.policy.random_policies import NODE

OPEN = Profile("open", ingress=(Rule("Allow"),), egress=(Rule("Allow"),))
DENY_ALL = Policy("deny", selector="all()", types=(INGRESS, EGRESS), ingress=(Rule("Deny"),), egress=(Rule("Deny"),))
W0, W1, OUTSIDE, ELSEWHERE = "10.65.0.1", "10.65.0.2", "192.0.2.9", "198.51.100.9"
HOST_ETH0 = "10.65.2.1"
CALI0, CALI1 = workload_interface(0), workload_interface(1)
_numbers = itertools.count(1)


def workload(index: int, **fields: t.Any) -> Endpoint:
    addresses = (f"10.65.0.{index + 1}", f"fd65::{index + 1:x}")
    given = {"profiles": ("open",), **fields}
    return Endpoint(WORKLOAD_ENDPOINT, f"w{index}", NODE, workload_interface(index), addresses, **given)


def host(interface: str, **fields: t.Any) -> Endpoint:
    return Endpoint(HOST_ENDPOINT, f"host-{interface}", NODE, interface, **fields)


WORKLOADS = (workload(0), workload(1))


def compiled(endpoints: t.Sequence[Endpoint], *policies: Policy, **settings: t.Any) -> list[t.Any]:
    policies_in_force: PolicySet = policy_set(policies=policies, profiles=[OPEN])
    made = node_policy(policies_in_force, endpoints, NODE)
    return [compile_node(made, Settings(**settings), family) for family in (4, 6)]


def udp(source: str, destination: str, port: int = 5000, source_port: int = 6000) -> Flow:
    return Flow(17, source, destination, source_port, port)


def leaves_by(node: Node, flow: Flow, comes_in_by: str = "") -> t.Optional[str]:
    """The interface by which a packet of `flow` leaves, "" if the node received it, None if it got nowhere."""
    number = next(_numbers)
    if comes_in_by:
        node.comes_in(comes_in_by, packet(flow, 0, number))
    else:
        node.sends(flow.destination, packet(flow, 0, number))
    return node.seen([(0, number)], patience=0.5).get((0, number))


def test_an_endpoint_that_nobody_knows_gets_nothing_and_sends_nothing(node: Node) -> None:
    node.load(compiled(WORKLOADS[:1]))
    assert leaves_by(node, udp(W0, OUTSIDE), CALI0) == "eth0"
    assert leaves_by(node, udp(W1, OUTSIDE), CALI1) is None
    assert leaves_by(node, udp(W0, W1), CALI0) is None
    assert leaves_by(node, udp(OUTSIDE, W1), "eth0") is None


@pytest.mark.parametrize(("own", "forged"), [(W0, W1), ("fd65::1", "fd65::2")])
def test_a_forged_source_is_dropped(node: Node, own: str, forged: str) -> None:
    node.load(compiled(WORKLOADS))
    outside = "2001:db8::7" if ":" in own else OUTSIDE
    assert leaves_by(node, udp(own, outside), CALI0) == "eth0"
    assert leaves_by(node, udp(forged, outside), CALI0) is None
    assert leaves_by(node, udp(outside, forged), CALI0) is None


def test_workloads_send_no_encapsulated_packets(node: Node) -> None:
    node.load(compiled(WORKLOADS))
    assert leaves_by(node, Flow(4, W0, OUTSIDE), CALI0) is None
    assert leaves_by(node, udp(W0, OUTSIDE, 4789), CALI0) is None
    assert leaves_by(node, udp(OUTSIDE, W0, 4789), "eth0") == CALI0
    node.load(compiled(WORKLOADS, allow_ipip_from_workloads=True, allow_vxlan_from_workloads=True))
    assert leaves_by(node, Flow(4, W0, OUTSIDE), CALI0) == "eth0"
    assert leaves_by(node, udp(W0, OUTSIDE, 4789), CALI0) == "eth0"


def test_established_flows_survive_a_policy_that_denies_them(node: Node) -> None:
    node.load(compiled(WORKLOADS))
    there, back = udp(W0, W1), udp(W1, W0, 6000, 5000)
    assert leaves_by(node, there, CALI0) == CALI1
    assert leaves_by(node, back, CALI1) == CALI0
    node.replace(compiled(WORKLOADS, DENY_ALL))
    assert leaves_by(node, there, CALI0) == CALI1
    assert leaves_by(node, back, CALI1) == CALI0
    assert leaves_by(node, udp(W0, W1, 5001), CALI0) is None
    node.forget_connections()
    assert leaves_by(node, there, CALI0) is None


@pytest.mark.parametrize(("action", "received"), [("Drop", None), ("Return", ""), ("Accept", "")])
def test_workload_to_host(node: Node, action: str, received: t.Optional[str]) -> None:
    node.load(compiled(WORKLOADS, default_endpoint_to_host_action=action))
    assert leaves_by(node, udp(W0, HOST_ETH0), CALI0) == received
    assert leaves_by(node, udp(HOST_ETH0, W0)) == CALI0


def test_the_host_reaches_its_workloads_whatever_policy_says(node: Node) -> None:
    node.load(compiled((*WORKLOADS, host("eth0")), DENY_ALL))
    assert leaves_by(node, udp(HOST_ETH0, W0)) == CALI0
    assert leaves_by(node, udp(HOST_ETH0, OUTSIDE)) is None


def test_a_host_that_forwards_nothing_forwards_what_policy_allows(node: Node) -> None:
    node.load(compiled(WORKLOADS))
    node.iptables("-P", "FORWARD", "DROP")
    assert leaves_by(node, udp(W0, W1), CALI0) == CALI1
    assert leaves_by(node, udp(OUTSIDE, ELSEWHERE), "eth0") is None


def test_rules_of_others_can_deny_what_policy_allows(node: Node) -> None:
    node.load(compiled(WORKLOADS))
    # Between our rules, of which one is the last.
    node.iptables("-I", "FORWARD", "2", "-p", "udp", "--dport", "5001", "-j", "DROP")
    assert leaves_by(node, udp(W0, W1), CALI0) == CALI1
    assert leaves_by(node, udp(W0, W1, 5001), CALI0) is None


def test_policy_before_dnat_sees_the_port_of_before(node: Node) -> None:
    """A port of the host's leads to a workload's; only a policy on the former opens it."""
    dnat = f"*nat\n-A PREROUTING -i eth0 -p udp --dport 32010 -j DNAT --to-destination {W0}:8055\nCOMMIT\n"
    deny = Policy("deny", order=2.0, ingress=(Rule("Deny"),), pre_dnat=True, apply_on_forward=True)

    def allowing(port: int) -> Policy:
        entity = Entity(ports=(PortRange(port, port),))
        rules = (Rule("Allow", protocol="udp", destination=entity),)
        return Policy("allow", order=1.0, ingress=rules, pre_dnat=True, apply_on_forward=True)

    there = udp(OUTSIDE, HOST_ETH0, 32010)
    hosts = (*WORKLOADS, host("eth0", profiles=("open",)))
    for policies, seen in (
        ((), CALI0),
        ((deny,), None),
        ((deny, allowing(8055)), None),
        ((deny, allowing(32010)), CALI0),
    ):
        node.load(compiled(hosts, *policies), more=dnat)
        assert leaves_by(node, there, "eth0") == seen, policies
    assert leaves_by(node, udp(W1, W0), CALI1) == CALI0


def test_what_the_host_sends_is_judged_by_the_interface_after_dnat(node: Node) -> None:
    """To an address beyond eth0, which DNAT makes one beyond eth1."""
    dnat = f"*nat\n-A OUTPUT -p udp -d {OUTSIDE} -j DNAT --to-destination {ELSEWHERE}\nCOMMIT\n"
    there = udp(HOST_ETH0, OUTSIDE)
    node.load(compiled((host("eth0"), host("eth1", profiles=("open",)))), more=dnat)
    assert leaves_by(node, there) == "eth1"
    node.load(compiled((host("eth0", profiles=("open",)), host("eth1"))), more=dnat)
    assert leaves_by(node, there) is None


def test_what_untracked_policy_allows_needs_a_policy_for_the_way_back(node: Node) -> None:
    incoming = Policy("in", ingress=(Rule("Allow", protocol="udp"),), do_not_track=True, apply_on_forward=True)
    outgoing = Policy(
        "out", types=(EGRESS,), egress=(Rule("Allow", protocol="udp"),), do_not_track=True, apply_on_forward=True
    )
    there, back = udp(OUTSIDE, HOST_ETH0), udp(HOST_ETH0, OUTSIDE, 6000, 5000)
    node.load(compiled((host("eth0"),), incoming))
    assert leaves_by(node, there, "eth0") == ""
    assert leaves_by(node, back) is None
    node.load(compiled((host("eth0"),), incoming, outgoing))
    assert leaves_by(node, there, "eth0") == ""
    assert leaves_by(node, back) == "eth0"
