# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of host endpoints with real packets: each tests the line of semantics.py with its number."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Failsafe
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import TunnelDevice
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicySettings

from tests.integration.policy.documents import (
    ALLOW,
    DENY,
    OPEN,
    WORKLOADS,
    Document,
    global_policy,
    host_endpoint,
)
from tests.integration.policy.policed_node import (
    ELSEWHERE,
    HOST,
    HOST_ETH1,
    HOST_V6,
    OUTSIDE,
    OUTSIDE_V6,
    W0,
    W1,
    PolicedNode,
    back,
    interface_of,
    of_protocol,
    ping,
    tcp,
    udp,
)

ETH0 = 'host == "eth0"'
FAILSAFES = PolicySettings(failsafe_inbound=(Failsafe("tcp", 22),), failsafe_outbound=(Failsafe("udp", 53),))


def in_and_out(*flows: t.Callable[..., t.Any]) -> list[t.Any]:
    return [kind(*ends) for kind in flows for ends in ((OUTSIDE, HOST), (HOST, OUTSIDE))]


def test_34_without_policy_nothing_but_failsafes_reaches_the_host_or_leaves_it(policed: PolicedNode) -> None:
    def of_254(source: str, destination: str) -> t.Any:
        return of_protocol(254, source, destination)

    everything = [*in_and_out(udp, tcp, ping, of_254), udp(OUTSIDE_V6, HOST_V6), udp(HOST_V6, OUTSIDE_V6)]
    failsafe = [tcp(OUTSIDE, HOST, 22), udp(HOST, OUTSIDE, 53), tcp(OUTSIDE_V6, HOST_V6, 22)]
    others = [udp(W0, W1), udp(W0, OUTSIDE), udp(OUTSIDE, W0), udp(ELSEWHERE, HOST_ETH1), udp(HOST, W0)]
    policed.apply(*WORKLOADS, settings=FAILSAFES)
    policed.expect([*everything, *failsafe, *others])
    policed.node.forget_connections()
    policed.apply(*WORKLOADS, host_endpoint("eth0"), settings=FAILSAFES)
    policed.expect(
        [*failsafe, *others],
        denied=[*everything, udp(OUTSIDE, HOST, 22), tcp(HOST, OUTSIDE, 22), tcp(OUTSIDE, HOST, 53)],
    )


@pytest.mark.parametrize("direction", ["Ingress", "Egress"])
def test_35_each_direction_of_a_host_has_to_be_allowed(policed: PolicedNode, direction: str) -> None:
    rules = {direction.lower(): [{**ALLOW, "protocol": "UDP"}]}
    policed.apply(host_endpoint("eth0"), global_policy("p", ETH0, types=[direction], **rules), settings=FAILSAFES)
    into, out = udp(OUTSIDE, HOST), udp(HOST, OUTSIDE)
    allowed, denied = (into, out) if direction == "Ingress" else (out, into)
    policed.expect([allowed], denied=[denied, tcp(OUTSIDE, HOST), tcp(HOST, OUTSIDE)])
    policed.expect([back(allowed)])  # an answer belongs to the established connection


@pytest.mark.parametrize("direction", ["Ingress", "Egress"])
def test_36_with_a_profile_that_allows_all_a_policy_takes_one_direction_away(
    policed: PolicedNode, direction: str
) -> None:
    policed.apply(host_endpoint("eth0", OPEN), settings=FAILSAFES)
    policed.expect(in_and_out(udp, tcp, ping))
    policed.node.forget_connections()
    rules = {direction.lower(): [DENY]}
    policed.apply(host_endpoint("eth0", OPEN), global_policy("p", ETH0, types=[direction], **rules), settings=FAILSAFES)
    flows = in_and_out(udp, tcp)
    into, out = flows[::2], flows[1::2]
    policed.expect(*((out, into) if direction == "Ingress" else (into, out)))


def test_37_what_is_forwarded_is_judged_by_policies_with_apply_on_forward_alone(policed: PolicedNode) -> None:
    through = [udp(OUTSIDE, W0), udp(W0, OUTSIDE), udp(OUTSIDE, ELSEWHERE)]
    policed.apply(*WORKLOADS, host_endpoint("eth0"), global_policy("p", ETH0, types=["Ingress", "Egress"]))
    policed.expect([*through, udp(W0, W1)], denied=[udp(OUTSIDE, HOST)])

    def forwarded(*types: str, **rules: t.Any) -> Document:
        return global_policy("p", ETH0, types=list(types), applyOnForward=True, **rules)

    policed.apply(*WORKLOADS, host_endpoint("eth0", OPEN), forwarded("Ingress", ingress=[DENY]))
    policed.expect(
        [udp(W0, OUTSIDE), udp(ELSEWHERE, OUTSIDE), udp(ELSEWHERE, W0), udp(W0, W1)],
        denied=[udp(OUTSIDE, W0), udp(OUTSIDE, ELSEWHERE), udp(OUTSIDE, HOST)],
    )
    policed.apply(*WORKLOADS, host_endpoint("eth0", OPEN), forwarded("Egress", egress=[DENY]))
    policed.expect([udp(OUTSIDE, W0), udp(OUTSIDE, HOST)], denied=[udp(W0, OUTSIDE), udp(ELSEWHERE, OUTSIDE)])
    # A policy with applyOnForward denies what it does not allow in its direction, and does not affect the other one.
    policed.apply(*WORKLOADS, host_endpoint("eth0"), forwarded("Ingress", ingress=[{**ALLOW, "protocol": "UDP"}]))
    policed.expect([udp(OUTSIDE, W0), udp(W0, OUTSIDE), tcp(W0, OUTSIDE)], denied=[tcp(OUTSIDE, W0)])
    # The wildcard's policy is also for what workloads send and are sent, even between two of the node.
    for direction in ("Ingress", "Egress"):
        policy = global_policy(
            "p", 'host == "all"', types=[direction], applyOnForward=True, **{direction.lower(): [DENY]}
        )
        policed.node.forget_connections()
        policed.apply(*WORKLOADS, host_endpoint("*", OPEN), policy)
        policed.expect([udp(HOST, W0), udp(HOST, OUTSIDE) if direction == "Ingress" else udp(OUTSIDE, HOST)],
                       denied=[udp(W0, W1), udp(W0, OUTSIDE), udp(OUTSIDE, W0), udp(OUTSIDE, ELSEWHERE)])  # fmt: skip
    policed.node.forget_connections()
    policed.apply(*WORKLOADS, host_endpoint("eth0"), forwarded("Ingress", ingress=[{**ALLOW, "protocol": "UDP"}]))
    # Policy's Allow is final also on a host whose chain FORWARD drops everything.
    policed.iptables("-P", "FORWARD", "DROP")
    policed.expect([udp(OUTSIDE, ELSEWHERE), udp(ELSEWHERE, OUTSIDE)], denied=[tcp(OUTSIDE, ELSEWHERE)])


@pytest.mark.parametrize("interface", ["eth0", "*"])
def test_38_policy_before_dnat_sees_the_port_of_before(policed: PolicedNode, interface: str) -> None:
    """A preDNAT policy matches the host's port 32010, not the workload's port 8055 to which another rule sends it.

    The endpoint of eth0 decides on packets from outside alone, the wildcard's ("*") also on those of workloads.
    """
    policed.iptables(*"-t nat -A PREROUTING -p udp --dport 32010 -j DNAT --to-destination".split(), f"{W0}:8055")
    selector = "has(host)"
    deny = global_policy(
        "deny", selector, order=2, types=["Ingress"], preDNAT=True, applyOnForward=True, ingress=[DENY]
    )

    def opening(port: int) -> Document:
        rules = [{**ALLOW, "protocol": "UDP", "destination": {"ports": [port]}}]
        return global_policy(
            "open", selector, order=1, types=["Ingress"], preDNAT=True, applyOnForward=True, ingress=rules
        )

    def seen(source: str) -> t.Optional[str]:
        """Send a new packet to the host's port 32010; return the interface by which it leaves.

        Return "" if the host receives it, and None if it is dropped.
        """
        flow = udp(source, HOST, 32010)
        policed.node.forget_connections()
        return policed.see({flow: None})[flow]

    to_w0, endpoint = interface_of(W0), host_endpoint(interface, OPEN)
    # A preDNAT policy of the wildcard endpoint also applies to packets that arrive on workloads' interfaces.
    by_workload = None if interface == "*" else to_w0
    for policies, from_outside, from_workload in (
        ((), to_w0, to_w0),
        ((deny,), None, by_workload),
        ((deny, opening(8055)), None, by_workload),
        ((deny, opening(32010)), to_w0, to_w0),
    ):
        policed.apply(*WORKLOADS, endpoint, *policies)
        assert (seen(OUTSIDE), seen(W1)) == (from_outside, from_workload), policies


def test_39_untracked_policy_needs_rules_for_both_ways_and_decides_before_all_others(policed: PolicedNode) -> None:
    udp_rule = {**ALLOW, "protocol": "UDP"}
    incoming, outgoing = (
        global_policy(name, ETH0, types=[kind], doNotTrack=True, applyOnForward=True, **{kind.lower(): [udp_rule]})
        for name, kind in (("in", "Ingress"), ("out", "Egress"))
    )
    there = udp(OUTSIDE, HOST)
    policed.apply(host_endpoint("eth0"), incoming, settings=FAILSAFES)
    policed.expect([there])
    policed.expect(denied=[back(there)])
    policed.apply(host_endpoint("eth0"), incoming, outgoing, settings=FAILSAFES)
    policed.expect([there])
    policed.expect([back(there)])
    # Untracked policy denies before connections are looked up, even where a profile allows; failsafes stay open.
    ssh = tcp(OUTSIDE, HOST, 22)
    deny = global_policy(
        "deny", ETH0, types=["Ingress", "Egress"], doNotTrack=True, applyOnForward=True, ingress=[DENY], egress=[DENY]
    )
    policed.apply(*WORKLOADS, host_endpoint("eth0", OPEN), settings=FAILSAFES)
    policed.expect([there, udp(OUTSIDE, W0)])
    policed.apply(*WORKLOADS, host_endpoint("eth0", OPEN), deny, settings=FAILSAFES)
    policed.expect([ssh], denied=[there, udp(OUTSIDE, W0)])
    policed.expect([back(ssh)])


def test_40_the_wildcard_is_for_all_interfaces_without_an_endpoint_of_their_own(policed: PolicedNode) -> None:
    deny_all, allow_eth0 = global_policy("all", 'host == "all"'), global_policy("p", ETH0, ingress=[ALLOW])
    policed.apply(*WORKLOADS, host_endpoint("*"), deny_all)
    denied = [udp(OUTSIDE, HOST), udp(ELSEWHERE, HOST_ETH1)]
    policed.expect([udp(W0, W1), udp(OUTSIDE, W0), udp(HOST, W0)], denied=denied)
    # The wildcard applies at once to an interface that is added later.
    for profiles, seen in (((), None), ((OPEN,), "")):
        policed.apply(*WORKLOADS, host_endpoint("*", *profiles))
        policed.node.rename("eth1", "late0")
        flow = udp(ELSEWHERE, HOST_ETH1)
        assert policed.see({flow: seen}, by="late0") == {flow: seen}
        policed.node.rename("late0", "eth1")
    # An interface's own endpoint replaces the wildcard.
    policed.apply(*WORKLOADS, host_endpoint("*"), host_endpoint("eth0"), deny_all, allow_eth0)
    policed.expect([udp(OUTSIDE, HOST)], denied=[udp(ELSEWHERE, HOST_ETH1)])
    before_dnat = {"types": ["Ingress"], "preDNAT": True, "applyOnForward": True}
    policed.apply(
        host_endpoint("*", OPEN),
        host_endpoint("eth0", OPEN),
        global_policy("all", 'host == "all"', **before_dnat, ingress=[DENY]),
    )
    policed.expect([udp(OUTSIDE, HOST)], denied=[udp(ELSEWHERE, HOST_ETH1)])
    policed.apply(*WORKLOADS, host_endpoint("*", OPEN), host_endpoint("eth0"))
    policed.expect([udp(ELSEWHERE, HOST_ETH1)], denied=[udp(OUTSIDE, HOST)])


def test_41_encapsulated_packets_pass_between_the_fleets_nodes_and_no_others(policed: PolicedNode) -> None:
    devices = (
        TunnelDevice("tunl0", "ipip", 1480, HOST),
        TunnelDevice("vxlan.calico", "vxlan", 1450, HOST, mac="66:00:00:00:00:01", vni=4096, port=4789),
    )
    other = "192.0.2.10"

    def tunnels(*ends: str) -> list[t.Any]:
        return [of_protocol(4, *ends), udp(*ends, 4789)]

    for endpoint in (host_endpoint("eth0"), host_endpoint("eth0", OPEN), host_endpoint("*")):
        policed.apply(*WORKLOADS, endpoint, devices=devices, fleet=[HOST, OUTSIDE, other])
        policed.expect([*tunnels(OUTSIDE, HOST), *tunnels(other, HOST), *tunnels(HOST, OUTSIDE)])
        policed.apply(*WORKLOADS, endpoint, devices=devices, fleet=[HOST, OUTSIDE])
        policed.expect([*tunnels(OUTSIDE, HOST)], denied=tunnels(other, HOST))
    # Encapsulated packets that the host forwards are treated like any other forwarded packets.
    policed.expect(tunnels(other, ELSEWHERE))


def test_42_what_the_host_sends_is_judged_by_the_interface_after_dnat(policed: PolicedNode) -> None:
    """The endpoint of eth1 decides on a packet of the host that DNAT sends there instead of to eth0.

    Rules match its destination after DNAT.
    """
    policed.iptables(*f"-t nat -A OUTPUT -p udp -d {OUTSIDE} -j DNAT --to-destination {ELSEWHERE}".split())
    for closed, where in (("eth0", "eth1"), ("eth1", None)):
        opened = {"eth0": "eth1", "eth1": "eth0"}[closed]
        policed.apply(host_endpoint(closed), host_endpoint(opened, OPEN))
        flow = udp(HOST, OUTSIDE)
        assert policed.see({flow: where}) == {flow: where}
    # Rules for packets that the host sends match the destination after DNAT.
    rule = {**ALLOW, "destination": {"nets": [f"{ELSEWHERE}/32"]}}
    policed.apply(host_endpoint("eth1"), global_policy("out", 'host == "eth1"', types=["Egress"], egress=[rule]))
    flow = udp(HOST, OUTSIDE)
    assert policed.see({flow: "eth1"}) == {flow: "eth1"}
