# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of NAT, of other programs' rules, and of large sets: each tests the line of semantics.py with its number."""

from __future__ import annotations

import ipaddress
import re
import statistics

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.iptables import COMMENT
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Pool

from tests.integration.policy.documents import (
    ALLOW,
    DENY,
    WORKLOADS,
    document,
    global_policy,
    host_endpoint,
    workload,
)
from tests.integration.policy.node_in_namespace import Node
from tests.integration.policy.policed_node import (
    ELSEWHERE,
    HOST,
    HOST_ETH1,
    OUTSIDE,
    W0,
    W1,
    PolicedNode,
    interface_of,
    tcp,
    udp,
)

NAT = Pool("nat", "10.65.0.0/24", 26, "None", nat_outgoing=True)
WITHOUT_NAT = Pool("without-nat", "198.51.100.0/25", 26, "None")
MEMBERS = 10_000
ROUNDS = 400

#: Rules and chains of other programs in each table, as a text for iptables-restore.
OTHERS = """
*raw
-A PREROUTING -p udp --dport 7000 -j DROP
COMMIT
*mangle
-A FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
COMMIT
*nat
:THEIRS - [0:0]
-A PREROUTING -p udp --dport 7001 -j THEIRS
-A THEIRS -p udp -j DNAT --to-destination 10.65.0.2:5000
COMMIT
*filter
:DOCKER-USER - [0:0]
:cali-like-ours - [0:0]
-A INPUT -p udp --dport 7002 -j DROP
-A FORWARD -j DOCKER-USER
-A DOCKER-USER -p udp --dport 7003 -j DROP
-A DOCKER-USER -j RETURN
-A cali-like-ours -p udp -j DROP
COMMIT
"""


def test_43_nat_outgoing_hides_workloads_from_the_outside_and_not_from_pools(policed: PolicedNode) -> None:
    policed.apply(*WORKLOADS, pools=(NAT, WITHOUT_NAT))
    in_other_pool, beyond_eth1 = ELSEWHERE, "198.51.100.200"
    flows = {
        udp(W0, OUTSIDE): HOST,  # its source after NAT: the node's address on the interface by which it leaves
        udp(W0, beyond_eth1): HOST_ETH1,
        udp(W0, W1): W0,
        udp(W0, in_other_pool): W0,
        udp(OUTSIDE, W0): OUTSIDE,
        udp(in_other_pool, OUTSIDE): in_other_pool,  # its pool has no natOutgoing
    }
    assert policed.sources(flows) == flows
    # Policy matches the workload's own address, not the one after NAT.
    rule = {**ALLOW, "protocol": "UDP", "source": {"nets": ["10.65.0.0/24"]}}
    out = global_policy("out", 'name == "w0"', types=["Egress"], egress=[rule])
    policed.apply(*WORKLOADS, host_endpoint("eth0"), out, pools=(NAT, WITHOUT_NAT))
    flow = udp(W0, OUTSIDE)
    assert policed.sources({flow: HOST}) == {flow: HOST}
    policed.expect(denied=[tcp(W0, OUTSIDE)])


def test_46_a_host_that_forwards_nothing_forwards_what_policy_allows(policed: PolicedNode) -> None:
    policed.apply(*WORKLOADS, global_policy("in", 'name == "w1"', ingress=[{**ALLOW, "protocol": "UDP"}]))
    policed.iptables("-P", "FORWARD", "DROP")
    flow = udp(W0, W1)
    policed.establish(flow)
    policed.expect([udp(OUTSIDE, W0), udp(W0, OUTSIDE)], denied=[udp(OUTSIDE, ELSEWHERE), tcp(W0, W1)])
    # Another program's rule before policy's verdict can still deny.
    policed.iptables("-I", "FORWARD", "2", "-p", "udp", "--dport", "5001", "-j", "DROP")
    policed.program()
    policed.expect([udp(W0, W1)], denied=[udp(W0, W1, 5001)])


def test_47_foreign_rules_stay_and_unwanted_own_rules_are_removed(policed: PolicedNode) -> None:
    policed.node.restore(OTHERS)
    theirs = foreign_rules(policed.node)
    first = (
        host_endpoint("eth0"),
        global_policy("first", ingress=[ALLOW], egress=[ALLOW], types=["Ingress", "Egress"]),
    )
    policed.apply(*WORKLOADS, *first)
    assert "cali-pi-first" in saved(policed.node)
    # Other programs' rules drop forwarded packets that policy allows. For packets to the host policy's Allow is final.
    for port in (7000, 7003):
        policed.expect([udp(W0, W1)], denied=[udp(W0, W1, port)])
    policed.expect([udp(OUTSIDE, HOST, 7002), udp(OUTSIDE, HOST)])
    turned = udp(OUTSIDE, HOST, 7001)
    assert policed.see({turned: interface_of(W1)}) == {turned: interface_of(W1)}
    assert foreign_rules(policed.node) == theirs
    # A new PolicedNode, which like a new process knows nothing of the first policy, removes its chains.
    later = PolicedNode(policed.node)
    later.apply(*WORKLOADS, global_policy("second", ingress=[ALLOW], egress=[ALLOW], types=["Ingress", "Egress"]))
    assert "cali-pi-second" in saved(policed.node)
    assert not re.search("cali-pi-first|cali-fh-eth0|cali-failsafe", saved(policed.node))
    later.expect([udp(W0, W1)], denied=[udp(OUTSIDE, HOST, 7002), udp(W0, W1, 7003)])
    assert foreign_rules(policed.node) == theirs
    PolicedNode(policed.node).without_policy()
    assert "cali-pi" not in saved(policed.node)
    sets = re.findall(r"^create (\S+)", policed.node.kernel.run(["ipset", "save"]).output, re.MULTILINE)
    assert sorted(sets) == ["cali40local-blocks", "cali60local-blocks"]
    assert foreign_rules(policed.node) == theirs
    later.expect([udp(OUTSIDE, ELSEWHERE)], denied=[udp(W0, W1, 7003)])


def saved(node: Node) -> str:
    return "".join(node.kernel.run([f"{program}-save"]).output for program in ("iptables", "ip6tables"))


def foreign_rules(node: Node) -> set[tuple[str, tuple[str, ...]]]:
    """Return a set of (table, its IPv4 rules in their order), without the collection's rules.

    The collection's rules have a comment with a hash. Tables without other rules are left out.
    """
    found: dict[str, list[str]] = {}
    for line in node.kernel.run(["iptables-save"]).output.splitlines():
        if line.startswith("*"):
            rules = found.setdefault(line[1:], [])
        elif line.startswith("-A") and COMMENT not in line:
            rules.append(line)
    return {(table, tuple(rules)) for table, rules in found.items() if rules}


def test_48_ten_thousand_members_take_a_packet_no_longer_than_none(policed: PolicedNode) -> None:
    """A packet whose source is looked up in a set of 10,000 members takes less than twice as long as one without.

    The node forwards packets to w0 with such a lookup, and to w1 without. The medians of 400 packets each are compared.
    The median for w0 is below 10 milliseconds.
    """
    first = int(ipaddress.ip_address("10.66.0.0"))
    others = [
        document(
            "WorkloadEndpoint",
            f"remote{index}",
            {"node": "node2", "interfaceName": "cali1", "ipNetworks": [str(ipaddress.ip_address(first + index))]},
            namespace="default",
        )
        for index in range(MEMBERS)
    ]
    everybody = {**ALLOW, "source": {"selector": "all()"}}
    nobody = {**DENY, "source": {"selector": "all()", "notSelector": "all()"}}
    policed.apply(
        workload(0),
        workload(1),
        *others,
        global_policy("looked-up", 'name == "w0"', ingress=[nobody, everybody]),
        global_policy("anybody", 'name == "w1"', ingress=[ALLOW]),
    )
    policed.expect([udp("10.66.0.1", W0), udp("10.66.39.15", W0), udp(OUTSIDE, W1)], denied=[udp("10.66.39.16", W0)])
    taken: dict[str, list[float]] = {W0: [], W1: []}
    for _round in range(ROUNDS):
        for destination, seconds in taken.items():
            seconds.append(policed.takes(Flow(17, "10.66.0.1", destination, 6000, 5000)))
    looked_up, without = (statistics.median(taken[one]) for one in (W0, W1))
    assert looked_up < 2 * without and looked_up < 0.01
