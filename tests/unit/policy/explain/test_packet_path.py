# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The path of a flow through hosts, and its explanations.

The numbers in names of tests are those of LINES in tests/integration/policy/semantics.py.
"""

from __future__ import annotations

import dataclasses
import json
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import ETCD_PORTS, PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import (
    ChainSettings,
    Encapsulation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain import explanation
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import Evaluator
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.packet_path import (
    Path,
    PathHost,
    Paths,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.host_endpoints import endpoint_of, governing
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    EGRESS,
    INGRESS,
    Endpoint,
    Entity,
    Failsafe,
    Flow,
    Policy,
    PolicyProfile,
    PolicyRule,
    PolicyTier,
    policy_set,
)

from tests.unit.policy.explain import expected_path
from tests.unit.policy.random_policies import NODE, random_flow, random_world

OPEN = PolicyProfile("open", ingress=(PolicyRule("Allow"),), egress=(PolicyRule("Allow"),))
DEFAULT_ROUTES = (("0.0.0.0/0", "eth0"), ("::/0", "eth0"))
H0 = PathHost("node0", (("eth0", ("192.0.2.10", "fd02::10")), ("eth1", ("203.0.113.10",))), DEFAULT_ROUTES)
H1 = PathHost("node1", (("eth0", ("192.0.2.11", "fd02::11")),), (("198.51.100.0/24", "eth1"), *DEFAULT_ROUTES))
HOSTS = (H0, H1)


def workload(name: str, node: str, address: str) -> Endpoint:
    labels = (("role", name),)
    return Endpoint(
        "WorkloadEndpoint", f"default/{name}", node, f"cali{name}", (address, f"fd65::{name}"), labels, ("open",)
    )


A, B, C = workload("a", "node0", "10.65.0.1"), workload("b", "node0", "10.65.0.2"), workload("c", "node1", "10.65.1.1")


def host(
    node: str, interface: str = "eth0", profiles: tuple[str, ...] = (), name: str = "", **fields: t.Any
) -> Endpoint:
    name = name or f"{node}-{interface}"
    return Endpoint("HostEndpoint", name, node, interface, labels=(("host", node),), profiles=profiles, **fields)


def tcp(source: t.Union[Endpoint, str], destination: t.Union[Endpoint, str], port: int = 80) -> Flow:
    ends = (end if isinstance(end, str) else end.addresses[0] for end in (source, destination))
    return Flow(6, *ends, source_port=40000, destination_port=port)


class Fleet:
    """Two nodes, workloads a and b on the first and c on the second, and further policies and endpoints, `parts`.

    `settings` are fields of ChainSettings.
    """

    def __init__(self, *parts: t.Union[Policy, Endpoint], **settings: t.Any) -> None:
        policies = [part for part in parts if isinstance(part, Policy)]
        endpoints = [part for part in parts if isinstance(part, Endpoint)]
        self.evaluator = Evaluator(policy_set(policies=policies, profiles=[OPEN]), (A, B, C, *endpoints))
        self.settings = ChainSettings(**settings)

    def path(self, flow: Flow, nodes: t.Collection[str] = (), before_dnat: t.Optional[Flow] = None) -> Path:
        return Paths(self.evaluator, HOSTS, self.settings, nodes).of(flow, before_dnat)

    def says(self, *flows: Flow, **more: t.Any) -> str:
        return " ".join(self.path(flow, **more).action for flow in flows)


def for_hosts(*rules: PolicyRule, direction: str = "ingress", **fields: t.Any) -> Policy:
    """Return a policy with these rules in one direction for all host endpoints.

    `direction` is "ingress" or "egress". `fields` are other fields of Policy; the name is "hosts" without one.
    """
    return Policy(
        fields.pop("name", "hosts"),
        selector="has(host)",
        types=(direction.capitalize(),),
        **{direction: rules},
        **fields,
    )


HOST0, HOST1 = H0.interfaces[0][1][0], H1.interfaces[0][1][0]
OUTSIDE = "198.51.100.1"
DENY_WEB = PolicyRule("Deny", protocol="tcp", destination=Entity(ports=(PortRange(80, 80),)))


def test_17_both_workloads_have_a_say_and_no_host_between() -> None:
    same, other = Fleet().path(tcp(A, B)), Fleet(host("node0"), host("node1")).path(tcp(A, C))
    for found in (same, other):
        ends = [(stage.endpoint, stage.direction) for stage in found.stages if stage.hook == "normal"]
        assert ends[0] == (A, EGRESS)
        assert ends[-1][1] == INGRESS
        assert found.action == "allow"
    assert {stage.hook for stage in other.stages} == {"normal", "forward"}
    denied = Fleet(Policy("p", selector='role == "a"', types=("Egress",))).path(tcp(A, B))
    assert (denied.action, len(denied.stages)) == ("deny", 1)


PROBES = {
    "10.65.0.62": "node0",
    "fd65::3e": "node0",
    "10.65.1.62": "node1",
    "fd65::1:3e": "node1",
    "10.65.2.62": "node2",
}


def echo(source: str, destination: str, kind: int = 0) -> Flow:
    version6 = ":" in source
    return Flow(58 if version6 else 1, source, destination, None, None, kind or (128 if version6 else 8), 0)


def verdicts(fleet: Fleet, *flows: Flow) -> list[str]:
    paths = Paths(fleet.evaluator, HOSTS, fleet.settings, probes=PROBES)
    return [paths.of(flow).action for flow in flows]


def test_probe_endpoints_exchange_echoes_whatever_policy_says() -> None:
    closed = Fleet(Policy("p", types=("Ingress", "Egress")))
    passing = [
        echo("10.65.0.62", "10.65.1.62"),
        echo("10.65.1.62", "10.65.0.62"),
        echo("10.65.0.62", "10.65.2.62"),
        echo("10.65.1.62", "10.65.0.62", 0),
        echo("fd65::3e", "fd65::1:3e", 129),
    ]
    for fleet in (Fleet(), closed):
        assert verdicts(fleet, *passing) == ["allow"] * len(passing)
    own, other = A.addresses[0], "10.65.0.62"
    refused = [
        echo(own, other),
        echo(other, own),
        echo(other, HOST0),
        echo(other, OUTSIDE),
        echo(OUTSIDE, other),
        echo(other, "10.65.1.62", 13),
        tcp(other, "10.65.1.62"),
        tcp("10.65.1.62", other),
        tcp(C, other),
    ]
    for fleet in (Fleet(), Fleet(audit=True)):
        assert verdicts(fleet, *refused) == ["deny"] * len(refused)
    # The host reaches it, as it reaches its own workloads.
    assert verdicts(Fleet(), echo(HOST0, other)) == ["allow"]


def test_the_stages_of_a_probe() -> None:
    def said(flow: Flow) -> list[tuple[str, str, str]]:
        found = Paths(Fleet().evaluator, HOSTS, probes=PROBES).of(flow).stages
        return [(stage.host, stage.direction, stage.verdict.trace[-1].reason) for stage in found]

    allowed = "probe endpoints of nodes may always exchange echo messages"
    assert said(echo("10.65.0.62", "10.65.1.62")) == [("node0", EGRESS, allowed), ("node1", INGRESS, allowed)]
    denied = "a probe endpoint exchanges only echo messages, and only with probe endpoints of other nodes"
    assert said(echo(OUTSIDE, "10.65.1.62")) == [("node1", INGRESS, denied)]


@pytest.mark.parametrize(
    ("interface", "direction", "denied"),
    [("eth0", "ingress", (0, 1)), ("eth0", "egress", (1, 0)), ("*", "ingress", (1, 1)), ("*", "egress", (1, 1))],
)
def test_policy_on_forwarded_packets_applies_to_probes(interface: str, direction: str, denied: tuple[int, int]) -> None:
    policy = for_hosts(PolicyRule("Deny", protocol="icmp"), direction=direction, apply_on_forward=True)
    fleet = Fleet(host("node0", interface), policy)
    there_and_back = echo("10.65.0.62", "10.65.1.62"), echo("10.65.1.62", "10.65.0.62")
    expected = [("allow", "deny")[one] for one in denied]
    assert verdicts(fleet, *there_and_back) == expected


@pytest.mark.parametrize(("protocol", "port"), [(4, None), (17, 4789)])
def test_22_workloads_send_nothing_encapsulated(protocol: int, port: t.Optional[int]) -> None:
    from_a, to_a = Flow(protocol, *ends(A, OUTSIDE), None, port), Flow(protocol, *ends(OUTSIDE, A), None, port)
    assert Fleet().says(from_a, to_a) == "deny allow"
    assert Fleet(allow_ipip_from_workloads=True, allow_vxlan_from_workloads=True).says(from_a) == "allow"


def test_22_workloads_do_not_reach_the_loopback() -> None:
    assert Fleet(workload_source_spoofing=True).says(tcp(A, "127.0.0.1"), tcp(A, "127.255.0.9")) == "deny deny"
    assert Fleet().says(tcp("fd65::a", "::1"), tcp("fd65::a", "::2")) == "deny allow"


@pytest.mark.parametrize("port", ETCD_PORTS)
def test_22_workloads_do_not_reach_members_of_etcd(port: int) -> None:
    attempts = tcp(A, OUTSIDE, port), tcp("fd65::a", "2001:db8::8", port)
    fleet = Fleet(etcd_members=(OUTSIDE, "2001:db8::8"))
    assert fleet.says(*attempts) == "deny deny"
    assert (
        fleet.path(attempts[0]).stages[-1].verdict.decided_by.reason == "workloads may not connect to members of etcd"
    )
    assert fleet.says(tcp(A, OUTSIDE, 2381), tcp(A, "192.0.2.200", port)) == "allow allow"
    assert Fleet().says(*attempts) == "allow allow"


def ends(source: t.Union[Endpoint, str], destination: t.Union[Endpoint, str]) -> tuple[str, ...]:
    return tuple(end if isinstance(end, str) else end.addresses[0] for end in (source, destination))


def test_23_a_workload_and_its_host() -> None:
    flow = tcp(A, HOST0)
    assert [Fleet(default_endpoint_to_host_action=one).says(flow) for one in ("Drop", "Return", "Accept")] == [
        "deny",
        "allow",
        "allow",
    ]
    # The policy of the workload comes before the default action.
    assert Fleet(Policy("p", types=("Egress",)), default_endpoint_to_host_action="Accept").says(flow) == "deny"
    # Another host is treated like any other address.
    assert Fleet().says(tcp(A, HOST1)) == "allow"
    neighbour = Flow(58, "fd65::a", "fd02::10", icmp_type=135, icmp_code=0)
    assert Fleet(Policy("p", types=("Egress",))).says(neighbour) == "allow"


def test_24_a_host_always_reaches_its_own_workloads() -> None:
    deny = (Policy("p", types=("Ingress",)), for_hosts(direction="egress"))
    assert Fleet(*deny, host("node0"), host("node0", "*")).says(tcp(HOST0, A), tcp(HOST1, A)) == "allow deny"


def test_34_a_host_endpoint_without_policy_closes_the_host_and_not_what_it_forwards() -> None:
    fleet = Fleet(
        host("node0"), host("node1"), failsafe_inbound=(Failsafe("tcp", 22), Failsafe("tcp", 23, "10.0.0.0/8"))
    )
    assert fleet.says(tcp(OUTSIDE, HOST0), tcp(OUTSIDE, HOST0, 22), tcp(OUTSIDE, HOST0, 23)) == "deny allow deny"
    assert fleet.says(Flow(253, OUTSIDE, HOST0)) == "deny"
    assert fleet.says(tcp(A, C), tcp(A, B), tcp(OUTSIDE, A), tcp(A, OUTSIDE)) == "allow allow allow allow"
    # Without failsafes, SSH is closed, too.
    assert Fleet(host("node0"), failsafe_inbound=()).says(tcp(OUTSIDE, HOST0, 22)) == "deny"


def test_35_both_hosts_have_a_say() -> None:
    egress = Policy("e", selector='host == "node0"', types=("Egress",), egress=(PolicyRule("Allow"),))
    ingress = Policy("i", selector='host == "node1"', types=("Ingress",), ingress=(PolicyRule("Allow"),))
    there, back = tcp(HOST0, HOST1), tcp(HOST1, HOST0)
    both = (host("node0"), host("node1"))
    assert Fleet(*both, egress, ingress).says(there, back) == "allow deny"
    assert Fleet(*both, egress).says(there) == Fleet(*both, ingress).says(there) == "deny"


def test_36_a_profile_that_allows_all_and_a_policy_in_one_direction() -> None:
    both = (host("node0", profiles=("open",)), host("node1", profiles=("open",)))
    flows = tcp(HOST0, HOST1), tcp(HOST1, HOST0)
    assert Fleet(*both).says(*flows) == "allow allow"
    deny = Policy("p", selector='host == "node0"', types=("Ingress",))
    assert Fleet(*both, deny).says(*flows) == "allow deny"


def test_37_apply_on_forward() -> None:
    forwarded = tcp(OUTSIDE, A), tcp(C, A), tcp(A, OUTSIDE), tcp(A, B)
    ends = host("node0", profiles=("open",))
    assert Fleet(ends, for_hosts(PolicyRule("Deny"))).says(*forwarded) == "allow allow allow allow"
    assert Fleet(ends, for_hosts(PolicyRule("Deny"), apply_on_forward=True)).says(*forwarded) == "deny deny allow allow"
    outward = for_hosts(PolicyRule("Deny"), direction="egress", apply_on_forward=True)
    assert Fleet(ends, outward).says(*forwarded) == "allow allow deny allow"


def pre_dnat(*rules: PolicyRule, **fields: t.Any) -> Policy:
    return for_hosts(*rules, pre_dnat=True, apply_on_forward=True, **fields)


def test_38_before_dnat_it_is_the_port_before_dnat_that_counts() -> None:
    deny = pre_dnat(PolicyRule("Deny"), name="deny", order=20.0)

    def opened(port: int) -> str:
        entity = Entity(ports=(PortRange(port, port),))
        allow = pre_dnat(PolicyRule("Allow", protocol="tcp", destination=entity), name="allow", order=10.0)
        translated = tcp(OUTSIDE, A, 8055)
        return Fleet(host("node0"), deny, allow).says(translated, before_dnat=tcp(OUTSIDE, HOST0, 32010))

    assert (opened(32010), opened(8055)) == ("allow", "deny")


def test_38_the_next_host_sees_what_the_first_translated() -> None:
    fleet = Fleet(host("node1"), pre_dnat(DENY_WEB))
    assert fleet.says(tcp(A, C, 8055), before_dnat=tcp(A, "203.0.113.1", 80)) == "allow"
    assert fleet.says(tcp(A, C, 80), before_dnat=tcp(A, "203.0.113.1", 8055)) == "deny"


def test_38_before_dnat_workloads_meet_the_endpoint_of_all_interfaces_only() -> None:
    deny = pre_dnat(PolicyRule("Deny"))
    assert Fleet(host("node0"), deny).says(tcp(A, B), tcp(HOST0, A), tcp(OUTSIDE, A)) == "allow allow deny"
    assert Fleet(host("node0", "*"), deny).says(tcp(A, B), tcp(HOST0, A), tcp(OUTSIDE, A)) == "deny allow deny"
    # A flow that preDNAT policy allows skips other policy for the host, but not a workload's own policy.
    allow = pre_dnat(PolicyRule("Allow"))
    assert Fleet(host("node0"), allow).says(tcp(OUTSIDE, HOST0)) == "allow"
    forwarded = for_hosts(PolicyRule("Deny"), apply_on_forward=True, name="forwarded")
    assert Fleet(host("node0"), forwarded).says(tcp(OUTSIDE, A)) == "deny"
    assert Fleet(host("node0"), forwarded, allow).says(tcp(OUTSIDE, A)) == "allow"
    closed = Policy("p", selector='role == "a"')
    assert Fleet(host("node0"), allow, closed).says(tcp(OUTSIDE, A)) == "deny"


def test_39_untracked_policy_comes_before_everything_but_failsafes() -> None:
    deny = for_hosts(PolicyRule("Deny"), do_not_track=True, apply_on_forward=True)
    fleet = Fleet(host("node0", profiles=("open",)), deny)
    assert fleet.says(tcp(OUTSIDE, HOST0), tcp(OUTSIDE, HOST0, 22), tcp(OUTSIDE, A)) == "deny allow deny"
    # With untracked policy, replies of a failsafe port are not tracked, so the policy must not deny them either.
    out = for_hosts(PolicyRule("Deny"), direction="egress", do_not_track=True, apply_on_forward=True)
    fleet = Fleet(host("node0", profiles=("open",)), out)
    reply = Flow(6, HOST0, OUTSIDE, 22, 40000)
    assert fleet.says(tcp(HOST0, OUTSIDE), reply, tcp(A, OUTSIDE)) == "deny allow allow"
    fleet = Fleet(host("node0", profiles=("open",)), deny)
    assert fleet.says(Flow(6, OUTSIDE, HOST0, 179, 40000), Flow(6, OUTSIDE, HOST0, 180, 40000)) == "allow deny"
    allow = for_hosts(PolicyRule("Allow"), do_not_track=True, apply_on_forward=True)
    assert Fleet(host("node0"), allow).says(tcp(OUTSIDE, HOST0), tcp(HOST0, OUTSIDE)) == "deny deny"
    back = for_hosts(PolicyRule("Allow"), name="back", direction="egress", do_not_track=True, apply_on_forward=True)
    assert Fleet(host("node0"), allow, back).says(tcp(OUTSIDE, HOST0), tcp(HOST0, OUTSIDE)) == "allow allow"


UDP_OF_A, TCP_OF_A = Flow(17, OUTSIDE, A.addresses[0], 40000, 53), tcp(OUTSIDE, A)


def test_39_what_is_not_tracked_is_answered_only_if_policy_allows_the_answer_too() -> None:
    """The answer of a workload leaves by no untracked policy: it meets the workload's egress policy as a new flow.

    Connection tracking knows an answer of TCP or ICMP by itself as invalid, and UDP has no such packets.
    """
    allow = for_hosts(PolicyRule("Allow"), do_not_track=True, apply_on_forward=True)
    echo = Flow(1, OUTSIDE, A.addresses[0], icmp_type=8, icmp_code=0)
    unreachable = Flow(1, OUTSIDE, A.addresses[0], icmp_type=3, icmp_code=1)  # nobody answers such a message
    flows = UDP_OF_A, TCP_OF_A, echo, unreachable
    assert Fleet(host("node0"), allow).says(*flows) == "allow deny deny allow"
    assert Fleet(host("node0"), allow, drop_invalid=False).says(*flows) == "allow allow allow allow"
    quiet = Policy("quiet", selector='role == "a"', types=("Egress",))
    assert Fleet(host("node0"), allow, quiet).says(*flows) == "deny deny deny allow"
    # If a flow is tracked, untracked policy decides on the answer alone.
    deny = for_hosts(PolicyRule("Deny"), do_not_track=True, apply_on_forward=True)
    assert Fleet(host("node0", profiles=("open",)), deny).says(tcp(HOST0, OUTSIDE), tcp(A, OUTSIDE)) == "deny deny"
    answered = Fleet(host("node0", profiles=("open",)), allow).path(tcp(HOST0, OUTSIDE))
    assert [(stage.direction, stage.hook, stage.answer) for stage in answered.stages] == [
        ("Egress", "normal", False),
        ("Ingress", "untracked", True),
    ]


def test_39_in_audit_mode_the_answer_passes_as_the_flow_does() -> None:
    deny = for_hosts(PolicyRule("Deny"), do_not_track=True, apply_on_forward=True)
    back = dataclasses.replace(deny, name="back", types=("Egress",), ingress=(), egress=deny.ingress)
    fleet = Fleet(host("node0", profiles=("open",)), deny, back, audit=True)
    assert fleet.says(tcp(OUTSIDE, HOST0), tcp(HOST0, OUTSIDE), UDP_OF_A) == "allow allow allow"
    # The kernel finds the answer invalid, and drops it in audit mode, too.
    assert fleet.says(TCP_OF_A) == "deny"


def test_the_explanation_says_that_the_answer_is_dropped() -> None:
    allow = for_hosts(PolicyRule("Allow"), name="in", do_not_track=True, apply_on_forward=True)
    fleet = Fleet(host("node0", profiles=("open",)), allow)
    assert (
        explained(fleet, TCP_OF_A)
        == """\
DENY   by default, egress of default/a for the answer
  1 in            untracked ingress  MATCH rule 1: Allow
  2 profile open  ingress            MATCH rule 1: Allow
  3 default       egress (answer)    Deny: the answer to a flow that is not tracked is an invalid packet
hint   policies with doNotTrack decide on each packet alone: an answer needs rules of its own"""
    )
    deny = dataclasses.replace(
        allow, name="out", order=1, types=("Egress",), ingress=(), egress=(PolicyRule("Deny", protocol="tcp"),)
    )
    late = dataclasses.replace(deny, name="late", order=2, egress=(PolicyRule("Allow"),))
    fleet = Fleet(host("node0", profiles=("open",)), allow, deny, late)
    assert (
        explained(fleet, tcp(OUTSIDE, HOST0))
        == """\
DENY   by out#1 (tier default), untracked egress of node0-eth0 for the answer
  1 in   untracked ingress          MATCH rule 1: Allow
  2 out  untracked egress (answer)  MATCH rule 1: Deny
hint   late allows this, but it comes later
hint   policies with doNotTrack decide on each packet alone: an answer needs rules of its own"""
    )
    assert (
        explained(fleet, Flow(17, OUTSIDE, HOST0, 40000, 53))
        == """\
ALLOW  by in#1 (tier default), untracked ingress of node0-eth0, and late#1 (tier default), untracked egress of \
node0-eth0 for the answer
  1 in    untracked ingress          MATCH rule 1: Allow
  2 out   untracked egress (answer)  no match: udp is not tcp
  3 late  untracked egress (answer)  MATCH rule 1: Allow"""
    )
    stages = explanation.to_document(fleet.path(tcp(OUTSIDE, HOST0)))["stages"]
    assert [(stage["direction"], stage["answer"], stage["verdict"]) for stage in stages] == [
        ("Ingress", False, "allow"),
        ("Egress", True, "deny"),
    ]
    assert explanation.decided_by(fleet.path(tcp(OUTSIDE, HOST0)).stages[-1]) == (
        "out#1 (egress, HostEndpoint node0-eth0, for the answer)"
    )


def test_37_forward_policy_of_the_wildcard_is_also_for_workloads() -> None:
    """It holds for what workloads send and are sent, also between two of one node, and not for the host's own."""
    deny_in = for_hosts(DENY_WEB, PolicyRule("Allow"), apply_on_forward=True)
    deny_out = for_hosts(DENY_WEB, PolicyRule("Allow"), name="out", direction="egress", apply_on_forward=True)
    into_host = tcp(A, HOST0)
    through = tcp(A, B), tcp(A, C), tcp(A, OUTSIDE), tcp(OUTSIDE, A)
    for deny in (deny_in, deny_out):
        every = Fleet(host("node0", "*", ("open",)), deny, default_endpoint_to_host_action="Accept")
        assert every.says(*through, into_host, tcp(HOST0, A)) == "deny deny deny deny allow allow"
        assert every.says(tcp(A, B, 81), tcp(A, C, 81), tcp(A, OUTSIDE, 81)) == "allow allow allow"
        # The endpoint of eth0 replaces the wildcard there alone.
        both = Fleet(host("node0", "*"), dataclasses.replace(host("node0"), labels=()), deny)
        by_eth0 = "deny allow" if deny is deny_in else "allow deny"
        assert both.says(tcp(A, B), tcp(A, OUTSIDE), tcp(OUTSIDE, A)) == f"deny {by_eth0}"
    stages = Fleet(host("node0", "*"), deny_in, deny_out).path(tcp(A, B, 81)).stages
    assert [(stage.direction, stage.hook) for stage in stages] == [
        ("Ingress", "forward"),
        ("Egress", "normal"),
        ("Ingress", "normal"),
        ("Egress", "forward"),
    ]
    # What preDNAT policy allows skips the forward policy of the same endpoint.
    before = for_hosts(PolicyRule("Allow"), name="before", pre_dnat=True, apply_on_forward=True)
    assert Fleet(host("node0", "*"), deny_in, before).says(tcp(A, B), tcp(A, OUTSIDE)) == "allow allow"


def test_40_one_interfaces_endpoint_replaces_that_of_all() -> None:
    both = (host("node0", "*"), host("node0", "eth1", ("open",)))
    assert Fleet(*both).says(tcp(OUTSIDE, HOST0)) == "deny"
    through = PathHost("node0", H0.interfaces, (("0.0.0.0/0", "eth1"),))
    evaluator = Fleet(*both).evaluator
    assert Paths(evaluator, [through]).of(tcp(OUTSIDE, HOST0)).action == "allow"


def test_40_of_several_the_lowest_name_governs() -> None:
    z, a = host("node0", "eth0", name="z"), host("node0", "eth0", name="a")
    by_address = host("node0", "", name="m", addresses=("203.0.113.10", "192.0.2.10"))
    every = host("node0", "*")
    found = governing([z, by_address, a, every], dict(H0.interfaces))
    assert found == {"eth0": a, "eth1": by_address, "*": every}
    assert (endpoint_of("eth0", found), endpoint_of("wg0", found)) == (a, every)
    assert endpoint_of("wg0", {"eth0": a}) is None


@pytest.mark.parametrize(
    ("tunnel", "flow"),
    [
        (Encapsulation("ipip"), Flow(4, HOST1, HOST0)),
        (Encapsulation("vxlan", 4789), Flow(17, HOST1, HOST0, 5000, 4789)),
    ],
)
def test_41_encapsulation_is_between_nodes_only(tunnel: Encapsulation, flow: Flow) -> None:
    fleet = Fleet(host("node0"), host("node1"), encapsulations=(tunnel,))
    assert fleet.says(flow, nodes={HOST0, HOST1}) == "allow"
    assert fleet.says(flow, nodes={HOST0}) == "deny"
    stranger = dataclasses.replace(flow, source=OUTSIDE)
    assert fleet.says(stranger, nodes={HOST0, HOST1}) == "deny"
    # In a fleet without encapsulation, IPIP is a protocol like any other.
    assert Fleet(host("node0")).says(flow, nodes={HOST0, HOST1}) == "deny"


@pytest.mark.parametrize(("receiver", "verdict"), [(HOST1, "allow"), (OUTSIDE, "deny")])
def test_41_a_closed_host_sends_nodes_what_is_encapsulated_and_nothing_else(receiver: str, verdict: str) -> None:
    fleet = Fleet(host("node0"), encapsulations=(Encapsulation("ipip"),))
    assert fleet.says(Flow(4, HOST0, receiver), nodes={HOST0, HOST1}) == verdict
    assert fleet.says(tcp(HOST0, receiver), nodes={HOST0, HOST1}) == "deny"


def test_42_the_endpoint_of_the_interface_that_leads_there() -> None:
    """A host's own packets meet only the HostEndpoint of the interface whose route has the longest prefix."""
    fleet = Fleet(host("node1", "eth1"))
    assert fleet.says(tcp(HOST1, OUTSIDE), tcp(HOST1, "203.0.113.99")) == "deny allow"


def test_in_audit_mode_policy_denies_nothing() -> None:
    fleet = Fleet(host("node0"), Policy("p", types=("Egress",)), audit=True)
    found = fleet.path(tcp(A, B))
    assert [stage.verdict.action for stage in found.stages] == ["deny", "allow"]
    assert found.action == "allow"


@pytest.mark.parametrize("seed", range(25))
def test_the_way_that_the_compiled_chains_are_held_to(seed: int) -> None:
    """The path agrees with tests/unit/policy/explain/expected_path.py, which is independent of it."""
    rng = random.Random(seed)
    world = random_world(rng)
    settings = ChainSettings(
        failsafe_inbound=(Failsafe("tcp", 8080), Failsafe("udp", 53, "10.65.0.0/24")),
        failsafe_outbound=(Failsafe("tcp", 443, "fd65::/64"), Failsafe("udp", 53)),
        default_endpoint_to_host_action="Accept",
    )
    evaluator = Evaluator(world.policy_set, world.endpoints)
    expected = expected_path.Paths(evaluator, world.local_workloads, world.local_host_endpoints, settings)
    own = tuple(one for endpoint in world.local_host_endpoints for one in endpoint.addresses)
    interface_of = {one: w.interface for w in world.local_workloads for one in w.addresses}
    for _dummy in range(25):
        endpoint = rng.choice((*world.local_workloads, *world.local_host_endpoints))
        flow = random_flow(rng, world, endpoint, rng.choice((INGRESS, EGRESS)))
        if flow is None or flow.source == flow.destination or {flow.source, flow.destination} <= set(own):
            continue
        by = rng.choice(("eth0", "eth1"))
        node = PathHost(NODE, (("eth0", own), ("eth1", ())), (("0.0.0.0/0", by), ("::/0", by)))
        ingoing, outgoing = interface_of.get(flow.source, by), interface_of.get(flow.destination, by)
        if flow.source in own:
            passes = expected.sent(flow, outgoing)
        elif flow.destination in own:
            passes = expected.received(flow, ingoing)
        else:
            passes = expected.forwarded(flow, ingoing, outgoing)
            if not {flow.source, flow.destination} & interface_of.keys():
                continue  # NODE has neither end of the flow, and the path asks no other nodes
        assert (Paths(evaluator, [node], settings).there(flow).action == "allow") == passes, flow


# --- what people read, and what IPv6 needs ----------------------------------------------------------------------------


def explained(fleet: Fleet, flow: Flow, **more: t.Any) -> str:
    return "\n".join(explanation.explain(fleet.path(flow), flow, fleet.evaluator, **more))


def tiered() -> Fleet:
    fleet = Fleet()
    web = PolicyRule("Allow", protocol="tcp", destination=Entity(ports=(PortRange(443, 443), PortRange(8000, 8999))))
    policies = [
        Policy(
            "platform.dns", tier="platform", order=1.0, types=("Egress",), egress=(PolicyRule("Allow", protocol="udp"),)
        ),
        Policy(
            "platform.web",
            tier="platform",
            order=2.0,
            types=("Egress",),
            egress=(PolicyRule("Log"), web, PolicyRule("Deny")),
        ),
        Policy(
            "platform.watch", tier="platform", order=0.0, types=("Egress",), egress=(PolicyRule("Deny"),), staged=True
        ),
        Policy("app.db", types=("Egress",), egress=(PolicyRule("Allow"),)),
        Policy("else", selector="has(nothing)"),
    ]
    made = policy_set([PolicyTier("platform", 1.0)], policies, [OPEN])
    fleet.evaluator = Evaluator(made, (A, B, C))
    return fleet


def test_a_denied_flow_explained() -> None:
    assert (
        explained(tiered(), tcp(A, B))
        == """\
DENY   by platform.web#3 (tier platform), egress of default/a
  1 platform.watch  egress  staged: would Deny by rule 1
  2 platform.dns    egress  no match: tcp is not udp
  3 platform.web    egress  rule 1: logs
                            rule 2 no match: destination port 80 is not 443, 8000:8999
                            MATCH rule 3: Deny
other  1 policy does not apply (verbose: which, and why)
hint   app.db allows this, but its tier comes later"""
    )


def test_an_allowed_flow_explained() -> None:
    found = explained(tiered(), tcp(A, B, 443), knowledge={"default/b": "as of the run of 2026-11-22 01:02"})
    assert (
        found
        == """\
ALLOW  by platform.web#2 (tier platform), egress of default/a, and profile open#1, ingress of default/b
  1 platform.watch  egress   staged: would Deny by rule 1
  2 platform.dns    egress   no match: tcp is not udp
  3 platform.web    egress   rule 1: logs
                             MATCH rule 2: Allow
  4 profile open    ingress  MATCH rule 1: Allow
other  1 policy does not apply (verbose: which, and why)
hint   platform.watch would deny this if it were not staged
known  default/b: as of the run of 2026-11-22 01:02"""
    )


def test_policies_that_do_not_apply_are_explained() -> None:
    found = explained(tiered(), tcp(A, OUTSIDE), all_policies=True)
    assert found.splitlines()[6:] == [
        "  4 else            egress  does not apply: has(nothing) does not select default/a (role=a)",
        "hint   app.db allows this, but its tier comes later",
    ]
    fleet = Fleet(host("node0"), Policy("p", apply_on_forward=True, pre_dnat=True), Policy("q", types=("Egress",)))
    assert explained(fleet, tcp(OUTSIDE, HOST0), all_policies=True).splitlines() == [
        "DENY   by default, ingress of node0-eth0",
        "  1 p        preDNAT ingress  has no rules in this direction",
        "  2 default  ingress          Deny: the endpoint has no profile",
        "  3 q        preDNAT ingress  does not apply here: it is for Egress",
        "  4 p        ingress          does not apply here: it is for Ingress with preDNAT, applyOnForward",
        "  5 q        ingress          does not apply here: it is for Egress",
    ]


def test_defaults_explained() -> None:
    assert (
        explained(Fleet(Policy("p")), tcp(OUTSIDE, A))
        == """\
DENY   by the default of tier default, ingress of default/a
  1 p             ingress  has no rules in this direction
  2 tier default  ingress  Deny: no policy of the tier that applies decides"""
    )
    assert (
        explained(Fleet(host("node0")), tcp(OUTSIDE, HOST0))
        == """\
DENY   by default, ingress of node0-eth0
  1 default  ingress  Deny: the endpoint has no profile"""
    )
    assert (
        explained(Fleet(host("node0", profiles=("gone",))), tcp(OUTSIDE, HOST0))
        == """\
DENY   by profile gone, ingress of node0-eth0
  1 profile gone  ingress  Deny: the profile does not exist"""
    )
    assert (
        explained(Fleet(), tcp(HOST0, A))
        == """\
ALLOW  by default, egress of node0
  1 default  egress  Allow: a host may always reach its own workloads"""
    )
    assert explained(Fleet(), tcp(OUTSIDE, HOST0)) == (
        "ALLOW  nobody asks: neither address is that of a workload or a protected host here"
    )


def test_an_explanation_is_a_json_document() -> None:
    document = explanation.to_document(tiered().path(tcp(A, B)))
    assert json.loads(json.dumps(document)) == document
    assert (document["verdict"], document["stages"][0]["endpoint"]) == ("deny", "default/a")
    assert document["stages"][0]["tried"][-1] == {
        "action": "Deny", "matched": True, "reason": "", "tier": "platform", "policy": "platform.web", "profile": "",
        "rule": 3, "staged": False,
    }  # fmt: skip


def test_the_first_line_omits_a_forward_default_if_a_policy_decided() -> None:
    """The first line leaves out a default for forwarded packets if a policy or profile decided elsewhere.

    The lines below show it. The first line names a policy that decides on forwarded packets.
    """
    fleet = Fleet(host("node0"), host("node1"))
    found = explained(fleet, tcp(A, C)).splitlines()
    assert found[0] == "ALLOW  by profile open#1, egress of default/a, and profile open#1, ingress of default/c"
    assert any("forward" in line for line in found[1:])
    applied = Fleet(host("node0"), host("node1"), for_hosts(PolicyRule("Allow"), name="f", apply_on_forward=True))
    assert "f#1 (tier default), forward ingress of node1-eth0" in explained(applied, tcp(A, C)).splitlines()[0]


def test_the_decider_of_a_stage_is_named_in_one_text() -> None:
    """The decider of a stage is named with the direction and the endpoint or host, and a default with its reason."""
    denied = Fleet(host("node0"), for_hosts(PolicyRule("Deny"), name="no")).path(tcp(OUTSIDE, HOST0))
    assert explanation.decided_by(denied.stages[-1]) == "no#1 (ingress, HostEndpoint node0-eth0)"
    closed = Fleet(host("node0")).path(tcp(OUTSIDE, HOST0))
    assert explanation.decided_by(closed.stages[-1]) == (
        "default (the endpoint has no profile) (ingress, HostEndpoint node0-eth0)"
    )
    own = Fleet().path(tcp(HOST0, A))
    assert explanation.decided_by(own.stages[0]) == (
        "default (a host may always reach its own workloads) (egress, host node0)"
    )


def test_policies_that_do_not_apply_are_counted() -> None:
    """A policy that selects an endpoint but is for another direction is counted with those that select none."""
    policies = (Policy("in"), Policy("out", types=("Egress",)), Policy("never", selector="has(nothing)"))
    lines = explained(Fleet(*policies), tcp(OUTSIDE, A)).splitlines()
    assert "other  2 policies do not apply (verbose: which, and why)" in lines


def test_a_denial_without_effect_is_explained_where_it_was_made() -> None:
    """In audit mode only the rule that would deny says so, not the rules and policies before it."""
    web, log = PolicyRule("Allow", protocol="udp"), PolicyRule("Log")
    policies = (
        Policy("p", order=1.0, types=("Egress",), egress=(web, PolicyRule("Allow", protocol="icmp"))),
        Policy("q", order=2.0, types=("Egress",), egress=(log, web, PolicyRule("Deny"))),
    )
    assert explained(Fleet(*policies, audit=True), tcp(A, OUTSIDE)).splitlines() == [
        "ALLOW  audit mode: q#3 (tier default), egress of default/a, would deny",
        "  1 p  egress  rule 1 no match: tcp is not udp",
        "               rule 2 no match: tcp is not icmp",
        "  2 q  egress  rule 1: logs",
        "               rule 2 no match: tcp is not udp",
        "               MATCH rule 3: Deny (audit mode: logged and let through)",
    ]


def test_the_default_of_forwarding_is_explained_with_its_reason() -> None:
    fleet = Fleet(host("node0"), host("node1"))
    lines = [line for line in explained(fleet, tcp(A, C)).splitlines() if "forward" in line]
    assert lines and all(
        line.endswith("Allow: what is forwarded is allowed unless a policy denies it") for line in lines
    )


def test_profiles_and_tiers_that_decide_need_no_reason() -> None:
    opened = Fleet().path(tcp(A, B))
    assert explanation.decided_by(opened.stages[0]) == "profile open#1 (egress, WorkloadEndpoint default/a)"
    closed = Fleet(Policy("p")).path(tcp(OUTSIDE, A))
    assert explanation.decided_by(closed.stages[-1]) == (
        "the default of tier default (ingress, WorkloadEndpoint default/a)"
    )


def test_only_policies_that_would_allow_the_denied_flow_are_hinted_at() -> None:
    """A staged policy, one for the other direction and one that denies are no remedy, and hide none behind them."""
    allow, deny = (PolicyRule("Allow"),), (PolicyRule("Deny"),)
    policies = (
        Policy("a", order=1.0, ingress=deny),
        Policy("b", order=2.0, ingress=allow, staged=True),
        Policy("c", order=3.0, types=("Egress",), egress=allow),
        Policy("d", order=4.0, ingress=(PolicyRule("Log"), *deny)),
        Policy("e", order=5.0, ingress=(PolicyRule("Log"), *allow)),
    )
    hints = [line for line in explained(Fleet(*policies), tcp(OUTSIDE, A)).splitlines() if line.startswith("hint")]
    assert hints == ["hint   e allows this, but it comes later"]


def test_a_policy_behind_a_pass_of_its_own_tier_is_not_said_to_be_in_a_later_tier() -> None:
    policies = (
        Policy("first.pass", tier="first", order=1.0, ingress=(PolicyRule("Pass"),)),
        Policy("first.allow", tier="first", order=2.0, ingress=(PolicyRule("Allow"),)),
        Policy("deny", ingress=(PolicyRule("Deny"),)),
    )
    fleet = Fleet()
    fleet.evaluator = Evaluator(policy_set([PolicyTier("first", 1.0)], list(policies), [OPEN]), (A, B, C))
    hints = [line for line in explained(fleet, tcp(OUTSIDE, A)).splitlines() if line.startswith("hint")]
    assert hints == ["hint   first.allow allows this, but first.pass passes it to the next tier before"]


@pytest.mark.parametrize(
    ("kind", "action"),
    [*((kind, "allow") for kind in (130, 131, 132, 133, 135, 136)), *((kind, "deny") for kind in (128, 129, 134, 137))],
)
def test_workloads_always_send_their_host_the_messages_that_ipv6_needs(kind: int, action: str) -> None:
    flow = Flow(58, A.addresses[1], H0.interfaces[0][1][1], icmp_type=kind, icmp_code=0)
    assert Fleet().path(flow).action == action
