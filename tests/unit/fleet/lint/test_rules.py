# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of each rule with an inventory that breaks it, its whole texts, and a similar inventory that does not."""

from __future__ import annotations

import pathlib
import sys
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import rules
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.network import (
    UnderlayLink,
    counted,
    listed,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from tests.unit.fleet.fleets import ADDRESSES6, LAB, pool
from tests.unit.fleet.lint.bgp_cases import BGP_CASES
from tests.unit.fleet.lint.networks import Case, found, network
from tests.unit.fleet.lint.written_cases import WRITTEN_CASES

ROOT = pathlib.Path(__file__).resolve().parents[4]


DENY = {
    "kind": "NetworkPolicy", "name": "web", "selector": "app == 'web'",
    "ingress": [{"action": "Deny"}, {"action": "Allow"}],
}  # fmt: skip
NO_WEB = {
    "kind": "NetworkPolicy", "name": "db", "selector": "app == 'db'",
    "ingress": [
        {"action": "Deny", "source": {"selector": "app == 'web'"}},
        {"action": "Allow", "protocol": "TCP", "destination": {"ports": [5432]}},
    ],
}  # fmt: skip
SIX = "fd00:10:244::/64"
ALONE = {"calico_node_labels": {"alone": "yes"}}
TWO = {"node1": "10.10.1.11/24", "node2": "10.10.1.12/24"}
GATEWAY = {"kind": "HostEndpoint", "name": "node1-all", "node": "node1", "interfaceName": "*"}

OTHER_CASES = [
    Case(
        "host-in-no-group",
        {"outside": [Host("node9", {"calico_node_address": "10.10.1.19/24"})]},
        [
            "warning: calico_node_address of node9 10.10.1.19/24 has no effect: node9 is neither in group calico_nodes "
            "nor in calico_rr. Put it into one of them, or remove the variable. [host-in-no-group]"
        ],
        {"outside": [Host("switch1", {"calico_ip_pools": []})]},
    ),
    Case(
        "subnets-disagree",
        {"nodes": {"node1": "10.10.1.11/24", "node2": "10.10.1.12/16"}, "workloads": []},
        [
            "error: calico_node_address of node1 10.10.1.11/24 lies in node2's subnet 10.10.0.0/16, but node2 lies "
            "outside of node1's: they disagree about whether a router is between them, and CrossSubnet depends on "
            "that. Give all nodes of a network its prefix length. [subnets-disagree]"
        ],
        {"nodes": {"node1": "10.10.1.11/24", "node2": "10.10.2.12/23"}, "workloads": []},
    ),
    Case(
        "subnets-disagree",
        {"own": {**ADDRESSES6, "node2": {"calico_node_address_ipv6": "fd00:10:10:1::12/48"}}},
        [
            f"error: calico_node_address_ipv6 of {node} {cidr} lies in node2's subnet fd00:10:10::/48, but "
            f"node2 lies outside of {node}'s: they disagree about whether a router is between them, and CrossSubnet "
            "depends on that. Give all nodes of a network its prefix length. [subnets-disagree]"
            for node, cidr in (("node1", "fd00:10:10:1::11/64"), ("node3", "fd00:10:10:2::13/64"))
        ],
        {"own": {**ADDRESSES6, "node2": {"calico_node_address_ipv6": "fd00:10:10:1::12/128"}}},
    ),
    Case(
        "subnets-disagree",
        {"nodes": {"node1": "10.10.1.11/24", "node2": "10.10.0.12/16", "node3": "10.10.2.13/24"}, "workloads": []},
        [
            f"error: calico_node_address of {node} {cidr} lies in node2's subnet 10.10.0.0/16, but node2 lies "
            f"outside of {node}'s: they disagree about whether a router is between them, and CrossSubnet depends on "
            "that. Give all nodes of a network its prefix length. [subnets-disagree]"
            for node, cidr in (("node1", "10.10.1.11/24"), ("node3", "10.10.2.13/24"))
        ],
        {"nodes": {"node1": "10.10.1.11/24", "node2": "10.11.0.12/16", "node3": "10.10.2.13/24"}, "workloads": []},
    ),
    Case(
        "subnet-of-its-own",
        {
            "pools": [pool("vxlan"), pool("vxlan-crosssubnet", "six", SIX)],
            "own": {**ADDRESSES6, "node2": {"calico_node_address_ipv6": "fd00:10:10:1::12/128"}},
        },
        [
            "warning: calico_node_address_ipv6 of node2 fd00:10:10:1::12/128 is a subnet of its own: pool six "
            "(CrossSubnet) encapsulates everything to and from node2. Write the prefix length of the network that it "
            "is in. [subnet-of-its-own]"
        ],
        {
            "pools": [pool("vxlan-crosssubnet"), pool("vxlan", "six", SIX)],
            "own": {**ADDRESSES6, "node2": {"calico_node_address_ipv6": "fd00:10:10:1::12/128"}},
        },
    ),
    Case(
        "subnet-of-its-own",
        {"pools": [pool("vxlan-crosssubnet")], "nodes": {**TWO, "node3": "10.10.1.13/32", "node4": "10.10.1.14/32"}},
        [
            "warning: calico_node_address of node3 10.10.1.13/32 is a subnet of its own: pool default (CrossSubnet) "
            "encapsulates everything to and from node3 and node4. Write the prefix length of the network that it is "
            "in. [subnet-of-its-own]"
        ],
        {"pools": [pool("vxlan")], "nodes": {**TWO, "node3": "10.10.1.13/32", "node4": "10.10.1.14/31"}},
    ),
    Case(
        "subnet-of-its-own",
        {
            "pools": [pool("vxlan"), pool("vxlan-crosssubnet", "six", SIX)],
            "nodes": {**TWO, "node3": "10.10.1.13/32"},
            "own": {
                "node1": {"calico_node_address_ipv6": "fd00::1/64"},
                "node2": {"calico_node_address_ipv6": "fd00::2/128"},
                "node3": {"calico_node_address_ipv6": "fd00::3/64"},
            },
        },
        [
            "warning: calico_node_address_ipv6 of node2 fd00::2/128 is a subnet of its own: pool six (CrossSubnet) "
            "encapsulates everything to and from node2. Write the prefix length of the network that it is in. "
            "[subnet-of-its-own]"
        ],
        {
            "pools": [pool("vxlan-crosssubnet"), pool("vxlan", "six", SIX)],
            "nodes": TWO,
            "own": {
                "node1": {"calico_node_address_ipv6": "fd00::1/128"},
                "node2": {"calico_node_address_ipv6": "fd00::2/128"},
            },
        },
    ),
    Case(
        "no-common-family",
        {
            "pools": [pool("vxlan", nodeSelector="!has(alone)"), pool("vxlan", "six", SIX, nodeSelector="has(alone)")],
            "own": {"node4": {**ADDRESSES6["node4"], "calico_node_address": None, **ALONE}},
            "workloads": [],
        },
        [
            "warning: calico_node_address of node4 is not set, and node1, node2 and node3 have no IPv6 address: "
            "workloads there and on node4 do not reach each other. Give nodes of one kind an address of the other "
            "family, too, and a pool of it; or leave it so if it is meant. [no-common-family]"
        ],
        {
            "pools": [pool("vxlan", nodeSelector="!has(alone)"), pool("vxlan", "six", SIX)],
            "own": {**ADDRESSES6, "node4": {**ADDRESSES6["node4"], "calico_node_address": None, **ALONE}},
        },
    ),
    Case(
        "address-on-no-device",
        {"links": {"node1": None, "node2": UnderlayLink("eth0", 1500)}},
        [
            "error: calico_node_address of node1 10.10.1.11/24 is on no device of node1, according to gathered facts. "
            "Write the address that the host itself has on the underlay. [address-on-no-device]"
        ],
        {"links": {"node1": UnderlayLink("eth0", 1500)}},
    ),
    Case(
        "address-on-no-device",
        {"own": ADDRESSES6, "links": {"node1": UnderlayLink("eth0", 1500)}, "links6": {"node1": None}},
        [
            "error: calico_node_address_ipv6 of node1 fd00:10:10:1::11/64 is on no device of node1, according to "
            "gathered facts. Write the address that the host itself has on the underlay. [address-on-no-device]"
        ],
        {"own": ADDRESSES6, "links6": {"node1": UnderlayLink("eth0", 1500)}},
    ),
    Case(
        "address-moves",
        {"links": {"node1": UnderlayLink("eth0", 1500, alone=True)}},
        [
            "warning: calico_node_address of node1 10.10.1.11/24 is an additional address of eth0 with /32, as those "
            "that move between hosts. Write the address that stays with the host. [address-moves]"
        ],
        {"links": {"node1": UnderlayLink("eth0", 1500), "node2": None}},
    ),
    Case(
        "no-spare-blocks",
        {"spare_blocks": 0},
        [
            "warning: calico_spare_blocks 0 leaves agents no block to open: a node whose blocks are full attaches no "
            "workload until the next run. Set it to 1, the default, unless workloads come by the inventory alone. "
            "[no-spare-blocks]"
        ],
        {"spare_blocks": 1},
    ),
    Case(
        "pool-over-management",
        {"ways": {"node1": "node1.example", "node2": "10.244.255.255"}},
        [
            "error: calico_ip_pools[0].cidr 10.244.0.0/16 covers 10.244.255.255, by which Ansible reaches node2 "
            "(ansible_host): a run would cut itself off. Choose a range that nothing else uses. [pool-over-management]"
        ],
        {"ways": {"node1": "node1.example", "node2": "10.245.0.0"}},
    ),
    Case(
        "pool-for-nobody",
        {"pools": [pool(), pool(name="b", cidr="10.245.0.0/16", nodeSelector="rack == 'b'")]},
        [
            "warning: calico_ip_pools[1].nodeSelector rack == 'b' matches no node, so that no node gets addresses of "
            "pool b. Correct it, or the calico_node_labels of the nodes that are meant. [pool-for-nobody]"
        ],
        {
            "pools": [
                pool(),
                pool(name="b", cidr="10.245.0.0/16", nodeSelector="rack == 'b'"),
                pool(name="old", cidr="10.246.0.0/16", nodeSelector="!all()", disabled=True),
            ],
            "own": {"node4": {"calico_node_labels": {"rack": "b"}}},
        },
    ),
    Case(
        "pool-not-exported",
        {"pools": [pool(disableBGPExport=True)]},
        [
            "warning: calico_ip_pools[0].disableBGPExport true leaves 4 nodes without routes to each other's workloads "
            "of pool default: its blocks are not advertised. Remove it, or let nodeSelector choose the one node whose "
            "workloads are to be on their own. [pool-not-exported]"
        ],
        {
            "pools": [
                pool(),
                pool(name="alone", cidr="10.245.0.0/16", disableBGPExport=True, nodeSelector="rack == 'b'"),
            ],
            "own": {"node4": {"calico_node_labels": {"rack": "b"}}},
        },
    ),
    Case(
        "pool-nearly-full",
        # Each of the four nodes has one block for its workload and a spare one. Blocks have one address.
        {"pools": [pool(cidr="10.244.0.0/29", blockSize=32)], "spare_blocks": 1},
        [
            "warning: calico_ip_pools[0].cidr 10.244.0.0/29 has 8 blocks, and 8 are taken: a node that is added or "
            "opens another block may get none. Add a pool. [pool-nearly-full]"
        ],
        {"pools": [pool(cidr="10.244.0.0/28", blockSize=32)], "spare_blocks": 1},
    ),
    Case(
        "address-reserved",
        {"pools": [pool(), pool(name="future", cidr="240.0.0.0/5")]},
        [
            "warning: calico_ip_pools[1].cidr 240.0.0.0/5 lies in 240.0.0.0/4, which is reserved (RFC 1112): Linux "
            "routes such addresses, but many routers and other systems drop them. Choose a private range (10.0.0.0/8, "
            "172.16.0.0/12, 192.168.0.0/16), or name this rule in calico_lint_ignore if every system on the way "
            "carries them. [address-reserved]"
        ],
        {"pools": [pool(name="below", cidr="223.255.0.0/16")]},
    ),
    Case(
        "address-reserved",
        {"nodes": {"node1": "10.10.1.11/24", "node2": "241.10.1.12/24", "node3": "241.10.1.13/24"}, "workloads": []},
        [
            "warning: calico_node_address of node2 241.10.1.12/24 lies in 240.0.0.0/4, which is reserved (RFC 1112): "
            "Linux routes such addresses, but many routers and other systems drop them. Choose a private range "
            "(10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16), or name this rule in calico_lint_ignore if every system on "
            "the way carries them. [address-reserved]"
        ],
        {"nodes": {"node1": "223.10.1.11/24"}, "workloads": []},
    ),
    Case(
        "pool-public-behind-nat",
        {"pools": [pool(cidr="172.15.0.0/16", natOutgoing=True)]},
        [
            "warning: calico_ip_pools[0].cidr 172.15.0.0/16 is a public range behind natOutgoing: its owners on the "
            "Internet cannot be reached from here. Choose a private one (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16), "
            "or remove natOutgoing if the range is yours. [pool-public-behind-nat]"
        ],
        {
            "pools": [
                pool(cidr="172.16.0.0/16", natOutgoing=True),
                pool(name="cgn", cidr="100.64.0.0/10", natOutgoing=True),
                pool(name="own", cidr="172.15.0.0/16"),
            ]
        },
    ),
    Case(
        "mtu-above-link",
        {
            "own": ADDRESSES6,
            "links": {"node1": UnderlayLink("eth0", 1500)},
            "links6": {"node1": UnderlayLink("eth1", 1280)},
        },
        [
            "error: calico_underlay_mtu 1500 is more than eth1 of node1 carries (1280): larger packets are lost. Set "
            "it to 1280, or raise the MTU of the devices and of all switches between them. [mtu-above-link]"
        ],
        {"own": ADDRESSES6, "links6": {"node1": UnderlayLink("eth1", 1500), "node2": None}},
    ),
    Case(
        "mtu-above-link",
        {
            "own": ADDRESSES6,
            "links": {"node1": UnderlayLink("eth0", 1280, True)},
            "links6": {"node1": UnderlayLink("eth0", 1280)},
        },
        [
            "error: calico_underlay_mtu 1500 is more than eth0 of node1 carries (1280): larger packets are lost. Set "
            "it to 1280, or raise the MTU of the devices and of all switches between them. [mtu-above-link]"
        ],
        {"own": ADDRESSES6, "links6": {"node1": UnderlayLink("eth0", 1500)}},
    ),
    Case(
        "mtu-above-link",
        {
            "underlay_mtu": 9000,
            "links": {"node1": UnderlayLink("eth0", 1500), "node3": UnderlayLink("bond0", 1500), "node2": None},
        },
        [
            "error: calico_underlay_mtu 9000 is more than eth0 of node1 and node3 carries (1500): larger packets are "
            "lost. Set it to 1500, or raise the MTU of the devices and of all switches between them. [mtu-above-link]"
        ],
        {"underlay_mtu": 9000, "links": {"node1": UnderlayLink("eth0", 9000), "node3": UnderlayLink("bond0", 9216)}},
    ),
    Case(
        "odd-policy",
        {"policies": [DENY]},
        [
            "warning: calico_policies[0] (NetworkPolicy default/web) rule 2 of Ingress is never reached: rule 1 (Deny) "
            "matches all that it does. Move it before that, or remove it. [odd-policy]"
        ],
        {"policies": [{**DENY, "ingress": list(reversed(t.cast("list[t.Any]", DENY["ingress"])))[:1]}]},
    ),
    Case(
        "probes-denied",
        {
            "pools": [pool("vxlan")],
            "policies": [
                GATEWAY,
                {"kind": "GlobalNetworkPolicy", "name": "no", "types": ["Ingress", "Egress"], "applyOnForward": True},
            ],
        },
        [
            "warning: calico_policies[0] (HostEndpoint node1-all) keeps node1 and node4 from proving the path between "
            "them in pool default: ICMP echo that they forward is denied by the default of tier default (ingress, "
            "HostEndpoint node1-all), so that every run and every change of mode takes it for broken. Allow it both "
            "ways: {action: Allow, protocol: ICMP, icmp: {type: 8}}, with the pools as source nets if you like. "
            "[probes-denied]"
        ],
        {
            "pools": [pool("vxlan")],
            "policies": [
                GATEWAY,
                {
                    "kind": "GlobalNetworkPolicy",
                    "name": "all",
                    "applyOnForward": True,
                    "ingress": [{"action": "Allow"}],
                    "egress": [{"action": "Allow"}],
                },
            ],
        },
    ),
    Case(
        "deny-passed-by-port",
        {"pools": [pool("vxlan", natOutgoing=True)], "policies": [NO_WEB]},
        [
            "warning: calico_policies[0] (NetworkPolicy default/db) rule 1 of Ingress denies by selector what a "
            "published port lets in: by a port that such a workload publishes, workloads of other nodes arrive with "
            "the address of their node (natOutgoing), which default/db#2 allows. Set calico_nat_outgoing_exclusions: "
            "IPPoolsAndHostIPs (docs/how-to/ports.md), or deny the nodes' addresses as well. [deny-passed-by-port]"
        ],
        {
            "pools": [pool("vxlan", natOutgoing=True)],
            "nat_outgoing_exclusions": "IPPoolsAndHostIPs",
            "policies": [NO_WEB],
        },
    ),
]


CASES = [*OTHER_CASES, *BGP_CASES, *WRITTEN_CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_each_rule_finds_its_odd_inventory_and_not_the_good_one(case: Case) -> None:
    def of(given: t.Mapping[str, t.Any]) -> list[str]:
        rest = dict(given)
        rest.setdefault("workloads", [])
        return found(network(*rest.pop("pools", ()), **rest), case.rule)

    assert of(case.odd) == list(case.texts)
    assert of(case.good) == []


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in CASES} == {rule.name for rule in rules.RULES}


def test_the_places_of_what_was_found() -> None:
    given = network(pool(nodeSelector="rack == 'z'"), nodes=TWO, workloads=[])
    hosts = [
        Host(
            host.name, host.variables, origins={"calico_ip_pools[0]": "all.yml:3", "calico_node_address": f"{n}.yml:1"}
        )
        for n, host in enumerate(given.hosts)
    ]
    given = type(given)(given.fleet, hosts, links={"node2": None})
    assert [(one.rule, one.origin) for one in rules.findings(given)] == [
        ("address-on-no-device", "1.yml:1"),
        ("pool-for-nobody", "all.yml:3"),
    ]


def test_errors_come_first_and_what_is_meant_is_left_out() -> None:
    given = network(pool("ipip"), links={"node1": None}, spare_blocks=0)
    assert [one.rule for one in rules.findings(given)] == ["address-on-no-device", "no-spare-blocks"]
    assert [one.rule for one in rules.findings(given, rules.named(["no-spare-blocks"]))] == ["address-on-no-device"]
    with pytest.raises(FleetError) as caught:
        rules.named(["mesh-too-large", "no-spare-block"])
    assert str(caught.value) == (
        "calico_lint_ignore[1] no-spare-block is not a rule of this release. Did you mean no-spare-blocks?"
    )


def test_a_long_list_is_shortened_in_text() -> None:
    assert [listed([f"n{n}" for n in range(count)]) for count in (1, 2, 5, 6)] == [
        "n0", "n0 and n1", "n0, n1, n2, n3 and n4", "n0, n1, n2, n3 and 2 more",
    ]  # fmt: skip
    assert (counted(1, "node"), counted(0, "node")) == ("1 node", "0 nodes")


def test_blocks_in_quarantine_count_and_can_be_given_free() -> None:
    tight = pool(cidr="10.244.0.0/29", blockSize=32)
    before = network(tight, workloads=[], spare_blocks=2).fleet.allocation
    three = {name: address for name, address in LAB.items() if name != "node4"}
    assert found(network(tight, nodes=three, workloads=[], spare_blocks=2, previous=before), "pool-nearly-full") == [
        "warning: calico_ip_pools[0].cidr 10.244.0.0/29 has 8 blocks, and 8 are taken (2 in quarantine): a node "
        "that is added or opens another block may get none. Add a pool, or give free what is in quarantine with "
        "calico_release_blocks. [pool-nearly-full]"
    ]


def test_a_pool_of_one_block_is_full_once_that_is_taken() -> None:
    """A pool may be a single block, and is reported as soon as a node has it."""
    one = pool(name="one", cidr="10.245.0.0/26", blockSize=26)
    given = {"nodes": {"node1": LAB["node1"]}, "spare_blocks": 0}
    taken = network(pool(), one, workloads=[{"name": "w", "node": "node1", "pool": "one"}], **given)
    assert found(taken, "pool-nearly-full") == [
        "warning: calico_ip_pools[1].cidr 10.245.0.0/26 has 1 block, and 1 is taken: a node that is added or opens "
        "another block may get none. Add a pool. [pool-nearly-full]"
    ]
    elsewhere = {"nodeSelector": "!all()"}
    assert found(network(pool(), {**one, **elsewhere}, workloads=[], **given), "pool-nearly-full") == []


@pytest.mark.parametrize(
    ("narrow", "count"),
    [("10.10.1.13/30", 1), ("10.10.1.13/31", 0), ("fd00:10::2/126", 1), ("fd00:10::2/127", 0)],
)
def test_the_two_ends_of_a_link_are_no_part_of_a_subnet(narrow: str, count: int) -> None:
    """An address with /31 (RFC 3021) or /127 (RFC 6164) is an end of a link of two hosts, and disagrees with none."""
    wide = "fd00:10::1/64" if ":" in narrow else "10.10.1.11/24"
    variable = "calico_node_address_ipv6" if ":" in narrow else "calico_node_address"
    own = {"node1": {variable: wide}, "node2": {variable: narrow}}
    assert len(found(network(nodes=TWO, own=own, workloads=[]), "subnets-disagree")) == count


@pytest.mark.parametrize(
    ("bfd", "quickest"), [({"minRx": 50, "minTx": 49}, 49), ({"minRx": 49, "minTx": 50}, 49), ({"minRx": 50}, None)]
)
def test_the_quicker_interval_of_bfd_counts(bfd: dict[str, int], quickest: t.Optional[int]) -> None:
    """The smaller one of both intervals is reported, if it is below 50 ms."""
    texts = found(network(nodes=TWO, workloads=[], bgp_bfd=bfd), "bfd-too-quick")
    assert [f"an interval of {quickest} ms" in text for text in texts] == ([True] if quickest else [])


def test_the_mesh_is_the_other_end_of_a_session() -> None:
    """A BGPPeer at one end of a session replaces the mesh's session there; the other end keeps the mesh's.

    So the session has both ends, and the rule session-one-sided finds nothing.
    """
    peer = {"name": "p", "node": "node1", "peerSelector": "all()", "reversePeering": "Manual"}
    assert found(network(bgp_peers=[peer]), "session-one-sided") == []


def test_the_only_node_of_an_as_drops_no_routes_of_its_own_as() -> None:
    tor = {"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000}
    own = {"node1": {"calico_node_bgp_as_number": 64513}}
    two = {name: LAB[name] for name in ("node1", "node2")}
    given = network(nodes=two, own=own, workloads=[], bgp_peers=[tor], bgp_node_to_node_mesh=False)
    assert found(given, "own-as-refused") == []


def test_a_reflector_of_the_group_is_placed_by_its_address() -> None:
    given = network(pool("ipip"), reflectors={"rr1": "10.10.1.2/24"}, workloads=[])
    hosts = [
        Host(host.name, host.variables, origins={"calico_node_address": f"{host.name}.yml:1"}) for host in given.hosts
    ]
    (finding,) = rules.findings(type(given)(given.fleet, hosts))
    assert (finding.rule, finding.origin) == ("single-reflector", "rr1.yml:1")


def test_without_bgp_there_are_no_findings_about_sessions() -> None:
    given = network(pool("vxlan"), bgp_enabled=False, bgp_hold_time=3, bgp_graceful_restart_time=1, workloads=[])
    assert rules.findings(given) == []


def _calls(hosts: int) -> int:
    """Return the number of Python function calls that all rules make for a fleet with this number of nodes.

    It also has two reflectors, and a peer for each ten nodes. Raise AssertionError if a rule finds anything.
    """
    own = {f"n{n}": {"calico_node_labels": {"rack": f"r{n // 10}"}} for n in range(hosts)}
    peers = [
        {"name": f"tor{n}", "peerIP": f"10.20.0.{n + 1}", "asNumber": 65000, "nodeSelector": f"rack == 'r{n}'"}
        for n in range(hosts // 10)
    ]
    given = network(
        pool("vxlan"),
        nodes={f"n{n}": f"10.10.{n // 200}.{n % 200 + 1}/16" for n in range(hosts)},
        reflectors={"rr1": "10.11.0.1/24", "rr2": "10.11.0.2/24"},
        workloads=[],
        own=own,
        bgp_peers=peers,
    )
    count = 0

    def tick(dummy: t.Any, event: str, argument: t.Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(tick)
    try:
        assert [one.rule for one in rules.findings(given)] == []
    finally:
        sys.setprofile(None)
    return count


def test_the_work_is_linear_in_the_number_of_hosts() -> None:
    assert _calls(160) < 5 * _calls(40)
