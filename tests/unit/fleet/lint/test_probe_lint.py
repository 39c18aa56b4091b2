# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of findings about policy for hosts that denies the probes by which nodes test their paths."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.policies import probe_lint

from tests.unit.fleet.fleets import ADDRESSES6, build, pool

ALLOW_TCP = {"action": "Allow", "protocol": "TCP"}
ALLOW_ECHO = {"action": "Allow", "protocol": "ICMP", "icmp": {"type": 8}}
DENY_ECHO = {**ALLOW_ECHO, "action": "Deny"}
ALLOW = {"action": "Allow"}


def endpoint(node: str, interface: str = "*", **fields: t.Any) -> dict[str, t.Any]:
    return {
        "kind": "HostEndpoint",
        "name": f"{node}-all",
        "node": node,
        "interfaceName": interface,
        "labels": {"role": "node"},
        **fields,
    }


def hosts(ingress: t.Any, egress: t.Any = (ALLOW,), **fields: t.Any) -> dict[str, t.Any]:
    return {
        "kind": "GlobalNetworkPolicy",
        "name": "hosts",
        "applyOnForward": True,
        "selector": "role == 'node'",
        "ingress": list(ingress),
        "egress": list(egress),
        **fields,
    }


def texts(*policies: t.Any, mode: str = "vxlan", **rest: t.Any) -> list[str]:
    found = probe_lint.findings(build(pool(mode), policies=list(policies), **rest))
    return [f"{one.kind} {one.name}: {one.text}" for one in found]


def test_a_policy_without_icmp_is_a_finding_for_each_host_endpoint() -> None:
    assert texts(endpoint("node1"), endpoint("node3"), hosts([ALLOW_TCP])) == [
        f"HostEndpoint {node}-all: keeps {node} and {peer} from proving the path between them in pool default: ICMP "
        f"echo that they forward is denied by the default of tier default (ingress, HostEndpoint {node}-all), so that "
        "every run and every change of mode takes it for broken. Allow it both ways: "
        "{action: Allow, protocol: ICMP, icmp: {type: 8}}, with the pools as source nets if you like."
        for node, peer in (("node1", "node4"), ("node3", "node2"))
    ]


def test_denied_probes_of_ipv6_are_a_finding() -> None:
    six = pool("vxlan", "six", "fd00:10:244::/64")
    refused = [endpoint("node1"), hosts([ALLOW_TCP, ALLOW_ECHO])]
    found = probe_lint.findings(build(pool("vxlan"), six, policies=refused, own=ADDRESSES6))
    assert [one.text for one in found] == [
        "keeps node1 and node4 from proving the path between them in pool six: ICMPv6 echo that they forward is "
        "denied by the default of tier default (ingress, HostEndpoint node1-all), so that every run and every change "
        "of mode takes it for broken. Allow it both ways: {action: Allow, protocol: ICMPv6, icmp: {type: 128}}, with "
        "the pools as source nets if you like."
    ]
    echo6 = {"action": "Allow", "protocol": "ICMPv6", "icmp": {"type": 128}}
    allowed = [endpoint("node1"), hosts([ALLOW_TCP, ALLOW_ECHO, echo6])]
    assert probe_lint.findings(build(pool("vxlan"), six, policies=allowed, own=ADDRESSES6)) == []


def test_the_remedy_is_one() -> None:
    assert texts(endpoint("node1"), hosts([ALLOW_TCP, ALLOW_ECHO])) == []
    with_nets = {**ALLOW_ECHO, "source": {"nets": ["10.244.0.0/16"]}}
    assert texts(endpoint("node1"), hosts([ALLOW_TCP, with_nets])) == []


@pytest.mark.parametrize(("code", "count"), [(0, 0), (1, 1)])
def test_a_probe_is_an_echo_of_code_0(code: int, count: int) -> None:
    """A rule for the code that an echo request has (RFC 792) allows probes, and one for another code does not."""
    echo = {**ALLOW_ECHO, "icmp": {"type": 8, "code": code}}
    assert len(texts(endpoint("node1"), hosts([ALLOW_TCP, echo]))) == count


def test_a_finding_about_probes_needs_two_nodes() -> None:
    """A pool needs probe endpoints of two nodes for a finding about its probes."""
    refused = (endpoint("node1"), hosts([ALLOW_TCP]))
    two = {"node1": "10.10.1.11/24", "node2": "10.10.1.12/24"}
    assert len(texts(*refused, nodes=two, workloads=[])) == 1
    assert texts(*refused, nodes={"node1": two["node1"]}, workloads=[]) == []


def test_one_probe_endpoint_of_a_pool_hides_no_finding_about_another() -> None:
    """The pools are checked one by one: probes of IPv6 are reported where a single node has an address of IPv4."""
    pools = [pool("vxlan", nodeSelector="has(four)"), pool("vxlan", "six", "fd00:10:244::/64")]
    own = {**ADDRESSES6, "node1": {**ADDRESSES6["node1"], "calico_node_labels": {"four": "yes"}}}
    fleet = build(*pools, policies=[endpoint("node1"), hosts([ALLOW_TCP])], own=own)
    assert [("ICMPv6 echo" in one.text, one.name) for one in probe_lint.findings(fleet)] == [(True, "node1-all")]


def test_denied_egress_of_probes_is_a_finding() -> None:
    (found,) = texts(endpoint("node1"), hosts([ALLOW], [DENY_ECHO, ALLOW]))
    assert "denied by hosts#1 (egress, HostEndpoint node1-all)" in found


@pytest.mark.parametrize("interface", ["vxlan.calico", "*"])
def test_by_the_interface_that_probes_come_by(interface: str) -> None:
    assert len(texts(endpoint("node1", interface), hosts([ALLOW_TCP]))) == 1


def test_a_policy_that_no_probe_meets_has_no_finding() -> None:
    assert texts(endpoint("node1", "eth0"), hosts([ALLOW_TCP])) == []
    assert texts(endpoint("node1", "tunl0"), hosts([ALLOW_TCP])) == []
    assert len(texts(endpoint("node1", "tunl0"), hosts([ALLOW_TCP]), mode="ipip")) == 1
    assert texts(hosts([ALLOW_TCP])) == []
    audit = {"node1": {"calico_node_policy_audit": True}}
    assert texts(endpoint("node1"), hosts([ALLOW_TCP]), own=audit) == [], "nothing is dropped there"
    assert texts(endpoint("node1"), hosts([ALLOW_TCP]), unprobed_pools="*") == []


def test_a_pool_without_a_tunnel_is_checked_where_one_host_endpoint_has_all_interfaces() -> None:
    (found,) = texts(endpoint("node1"), hosts([ALLOW_TCP]), mode="direct")
    assert "ICMP echo that they forward is denied by the default of tier default (ingress," in found


def test_policy_that_does_not_apply_to_forwarded_packets_denies_no_probe() -> None:
    assert texts(endpoint("node1"), hosts([ALLOW_TCP], applyOnForward=False)) == []
