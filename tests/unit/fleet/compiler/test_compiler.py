# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the states of nodes, with the routes of each mode as the outputs in Calico's documentation show them."""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

import netaddr
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import naming
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import with_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicyState

from tests.unit.fleet.fleets import ADDRESSES6, LAB, MODES, WORKLOADS, build, hosts, pool, states, stored, workload

TUNNEL_OF = {
    "ipip": "tunl0",
    "ipip-crosssubnet": "tunl0",
    "vxlan": "vxlan.calico",
    "vxlan-crosssubnet": "vxlan.calico",
    "direct": "",
}
MTU_OF = {"ipip": 1480, "ipip-crosssubnet": 1480, "vxlan": 1450, "vxlan-crosssubnet": 1450, "direct": 1500}
SAME_SUBNET = {("node1", "node2"), ("node2", "node1"), ("node3", "node4"), ("node4", "node3")}


def address(node: str) -> str:
    return LAB[node].partition("/")[0]


def bird_lines(state: NodeState) -> list[str]:
    """Return BIRD's routes as lines of `ip route`, without their MTUs.

    {router} stands for a gateway that the underlay determines, and eth0 for a route without a device.
    """
    lines = []
    for route in state.bird_routes:
        device = route.device or "eth0"
        onlink = " onlink" if route.onlink else ""
        lines.append(f"{route.destination} via {route.gateway or '{router}'} dev {device} proto bird{onlink}")
    return lines


def own_lines(state: NodeState) -> list[str]:
    lines = []
    for route in state.routes:
        if route.type == "blackhole":
            lines.append(f"blackhole {route.destination}")
        elif route.gateway:
            onlink = " onlink" if route.onlink else ""
            lines.append(f"{route.destination} via {route.gateway} dev {route.device}{onlink}")
        else:
            lines.append(f"{route.destination.replace('/32', '')} dev {route.device} scope link")
    return lines


def only_block(state: NodeState) -> str:
    assert len(state.ipam.blocks) == 1
    return state.ipam.blocks[0].cidr


@pytest.mark.parametrize("mode", MODES)
def test_remote_blocks_are_routed_as_the_documents_show(mode: str) -> None:
    fleet = states(build(pool(mode)))
    for name, state in fleet.items():
        expected = []
        for peer in fleet:
            if peer == name:
                continue
            near = (name, peer) in SAME_SUBNET
            block = only_block(fleet[peer])
            if TUNNEL_OF[mode] and not (near and mode.endswith("crosssubnet")):
                expected.append(f"{block} via {address(peer)} dev {TUNNEL_OF[mode]} proto bird onlink")
            elif near:
                expected.append(f"{block} via {address(peer)} dev eth0 proto bird")
            else:
                expected.append(f"{block} via {{router}} dev eth0 proto bird")
        assert bird_lines(state) == expected


@pytest.mark.parametrize("mode", MODES)
def test_own_block_is_a_blackhole_and_each_workload_a_link_route(mode: str) -> None:
    for name, state in states(build(pool(mode))).items():
        workload_name = f"w{name[-1]}"
        own = state.ipam.workloads[workload_name]
        interface = naming.interface_name("default", workload_name)
        probe = state.ipam.probes["default"]
        assert own_lines(state) == [
            f"blackhole {only_block(state)}",
            f"{own} dev {interface} scope link",
            f"{probe} dev caliprobe scope link",
        ]
        assert all(route.mtu is None for route in state.routes)


@pytest.mark.parametrize("mode", MODES)
def test_devices_and_mtus(mode: str) -> None:
    fleet = states(build(pool(mode)))
    for name, state in fleet.items():
        assert [device.name for device in state.devices] == ([TUNNEL_OF[mode]] if TUNNEL_OF[mode] else [])
        for device in state.devices:
            assert device.mtu == MTU_OF[mode]
            assert device.local == address(name)
            assert device.address == state.ipam.tunnels[device.kind]
            assert device.address not in state.ipam.workloads.values()
        assert [endpoint.mtu for endpoint in state.workloads] == [MTU_OF[mode]]
        assert all(endpoint.route_mtu is None for endpoint in state.workloads)


@pytest.mark.parametrize("underlay", [1280, 1500, 9000, 65535])
def test_mtus_follow_the_underlay(underlay: int) -> None:
    fleet = build(
        pool("ipip", "a", "10.1.0.0/16"),
        pool("vxlan", "b", "10.2.0.0/16"),
        pool("direct", "c", "10.3.0.0/16"),
        workloads=[workload(f"w{name}", "node1", pool=name) for name in "abc"],
        underlay_mtu=underlay,
    )
    state = states(fleet)["node1"]
    assert {device.name: device.mtu for device in state.devices} == {
        "tunl0": underlay - 20,
        "vxlan.calico": underlay - 50,
    }
    assert {endpoint.pool: endpoint.mtu for endpoint in state.workloads} == {
        "a": underlay - 20,
        "b": underlay - 50,
        "c": underlay,
    }


def test_vxlan_neighbours_are_the_next_hops_at_the_macs_of_their_vteps() -> None:
    fleet = states(build(pool("vxlan")))
    state = fleet["node1"]
    assert state.devices[0].mac == naming.vtep_mac("node1")
    assert (state.devices[0].vni, state.devices[0].port) == (4096, 4789)
    others = ["node2", "node3", "node4"]
    assert [(n.device, n.address, n.mac) for n in state.neighbors] == [
        ("vxlan.calico", address(peer), naming.vtep_mac(peer)) for peer in others
    ]
    assert [(e.device, e.mac, e.destination) for e in state.fdb] == [
        ("vxlan.calico", naming.vtep_mac(peer), address(peer)) for peer in others
    ]


def test_without_bgp_the_routes_are_written_from_the_plan_via_the_vteps() -> None:
    fleet = states(build(pool("vxlan"), bgp_enabled=False))
    for name, state in fleet.items():
        assert state.bird is None
        assert state.bird_routes == ()
        remote = [route for route in own_lines(state) if " via " in route]
        expected = []
        for peer in fleet:
            if peer != name:
                vtep = fleet[peer].ipam.tunnels["vxlan"]
                for block in fleet[peer].ipam.blocks + fleet[peer].ipam.spare_blocks:
                    expected.append(f"{block.cidr} via {vtep} dev vxlan.calico onlink")
        assert remote == expected
        assert [n.address for n in state.neighbors] == [fleet[p].ipam.tunnels["vxlan"] for p in fleet if p != name]


def test_without_bgp_what_is_unused_in_spare_blocks_ends_at_its_owner() -> None:
    """Without BGP, a node has blackhole routes for its spare blocks, too.

    Other nodes have routes to them, so without blackholes their packets would return by the default route.
    """
    for state in states(build(pool("vxlan"), bgp_enabled=False)).values():
        assert state.ipam.spare_blocks
        assert [line for line in own_lines(state) if line.startswith("blackhole")] == [
            f"blackhole {block.cidr}" for block in state.ipam.blocks + state.ipam.spare_blocks
        ]


def test_without_bgp_cross_subnet_goes_by_the_underlay_within_a_subnet() -> None:
    fleet = states(build(pool("vxlan-crosssubnet"), bgp_enabled=False))
    lines = own_lines(fleet["node1"])
    assert f"{only_block(fleet['node2'])} via 10.10.1.12 dev {{underlay}}" in lines
    assert f"{only_block(fleet['node3'])} via {fleet['node3'].ipam.tunnels['vxlan']} dev vxlan.calico onlink" in lines


def test_mixed_pools_each_by_its_own_device() -> None:
    fleet = states(
        build(
            pool("ipip", "a", "10.1.0.0/16"),
            pool("vxlan-crosssubnet", "b", "10.2.0.0/16"),
            pool("direct", "c", "10.3.0.0/16"),
        )
    )
    state = fleet["node1"]
    assert [device.name for device in state.devices] == ["tunl0", "vxlan.calico"]
    by_pool = {
        (route.node, block.pool): (route.device, route.gateway)
        for route in state.bird_routes
        for block in fleet[route.node].ipam.blocks
        if block.cidr == route.destination
    }
    assert by_pool["node2", "a"] == ("tunl0", "10.10.1.12")
    assert by_pool["node2", "b"] == ("", "10.10.1.12")
    assert by_pool["node2", "c"] == ("", "10.10.1.12")
    assert by_pool["node3", "a"] == ("tunl0", "10.10.2.13")
    assert by_pool["node3", "b"] == ("vxlan.calico", "10.10.2.13")
    assert by_pool["node3", "c"] == ("", "")
    assert state.bird is not None
    assert [(p.cidr, p.device, p.cross_subnet, p.mtu) for p in state.bird.pools] == [
        ("10.1.0.0/16", "tunl0", False, None),
        ("10.2.0.0/16", "vxlan.calico", True, None),
        ("10.3.0.0/16", "", False, None),
    ]


def test_a_disabled_pool_gives_no_new_blocks_and_keeps_what_it_gave() -> None:
    before = build(pool("ipip"))
    later = build(pool("ipip", disabled=True), pool("ipip", "new", "10.245.0.0/16"), previous=before.allocation)
    old, new = states(before)["node1"], states(later)["node1"]
    assert only_block(old) in [block.cidr for block in new.ipam.blocks]
    assert f"blackhole {only_block(old)}" in own_lines(new)
    assert new.ipam.workloads == old.ipam.workloads
    fresh = states(build(pool("ipip", disabled=True), pool("ipip", "new", "10.245.0.0/16")))["node1"]
    assert {block.pool for block in fresh.ipam.blocks + fresh.ipam.spare_blocks} == {"new"}


def test_node_selector_chooses_who_gets_blocks_and_everybody_reaches_them() -> None:
    fleet = states(
        build(
            pool("direct"),
            pool("vxlan", "rack-a", "10.245.0.0/16", nodeSelector="rack == 'a'"),
            own={"node1": {"calico_node_labels": {"rack": "a"}}},
        )
    )
    held = {name for name, state in fleet.items() if any(b.pool == "rack-a" for b in state.ipam.blocks)}
    assert held == {"node1"}
    assert [device.name for device in fleet["node4"].devices] == ["vxlan.calico"]
    block = next(b.cidr for b in fleet["node1"].ipam.blocks if b.pool == "rack-a")
    assert f"{block} via 10.10.1.11 dev vxlan.calico proto bird onlink" in bird_lines(fleet["node4"])


@pytest.mark.parametrize("size", range(20, 33))
def test_block_sizes(size: int) -> None:
    fleet = states(build(pool("ipip", blockSize=size)))
    for state in fleet.values():
        assert {block.cidr.rpartition("/")[2] for block in state.ipam.blocks} == {str(size)}
        assert state.bird is not None
        assert state.bird.pools[0].block_size == size
        assert set(state.bird.blocks) == {b.cidr for b in state.ipam.blocks + state.ipam.spare_blocks}


def test_a_block_of_one_address_is_its_workloads_own_route() -> None:
    fleet = states(build(pool("vxlan", blockSize=32)))
    for name, state in fleet.items():
        workload_address = state.ipam.workloads[f"w{name[-1]}"]
        tunnel_address = state.ipam.tunnels["vxlan"]
        destinations = [route.destination for route in state.routes]
        assert sorted(destinations) == sorted({f"{workload_address}/32", f"{tunnel_address}/32"})
        assert [r.type for r in state.routes if r.destination == f"{workload_address}/32"] == ["unicast"]


#: Exemptions of BGP and BFD from outgoing NAT. A peer would take a workload's translated packets for the node's own.
_OF_PEERS = (
    "-p tcp -m tcp --dport 179 -j RETURN",
    *(f"-p udp -m udp --dport {port} -j RETURN" for port in (3784, 3785, 4784)),
)


def test_outgoing_nat_is_for_pools_that_want_it_and_never_between_pools() -> None:
    nat = build(pool("direct", natOutgoing=True), pool("direct", "plain", "10.245.0.0/16"))
    table = next(table for table in states(nat)["node1"].iptables if table.name == "nat")
    assert table.chains["cali-nat-outgoing"] == (
        "-d 10.244.0.0/16 -j RETURN",
        "-d 10.245.0.0/16 -j RETURN",
        *_OF_PEERS,
        "-s 10.244.0.0/16 -j MASQUERADE --random-fully",
    )
    assert table.chains["cali-POSTROUTING"] == ("-j cali-nat-outgoing",)
    assert [(hook.chain, hook.rule) for hook in table.hooks] == [("POSTROUTING", "-j cali-POSTROUTING")]


def test_outgoing_nat_leaves_out_nodes_if_the_inventory_says_so() -> None:
    """The sets of nodes' addresses are there without a tunnel, for the IP versions of pools with outgoing NAT."""
    pools = (pool("direct", natOutgoing=True), pool("direct", "six", "fd00:10:244::/64"))
    excluded = states(build(*pools, own=ADDRESSES6, nat_outgoing_exclusions="IPPoolsAndHostIPs"))["node1"]
    table = next(table for table in excluded.iptables if table.name == "nat")
    assert table.chains["cali-nat-outgoing"] == (
        "-d 10.244.0.0/16 -j RETURN",
        "-m set --match-set cali40all-hosts-net dst -j RETURN",
        *_OF_PEERS,
        "-s 10.244.0.0/16 -j MASQUERADE --random-fully",
    )
    sets = {one.name: one.members for one in excluded.ipsets}
    assert sets["cali40all-hosts-net"] == tuple(sorted(member.address.partition("/")[0] for member in excluded.nodes))
    assert "cali60all-hosts-net" not in sets
    same = [
        states(build(*pools, own=ADDRESSES6, **more))["node1"]
        for more in ({}, {"nat_outgoing_exclusions": "IPPoolsOnly"})
    ]
    assert same[0] == same[1] and "cali40all-hosts-net" not in {one.name for one in same[0].ipsets}


def test_ports_of_all_sessions_are_exempt_from_outgoing_nat() -> None:
    router = {"name": "tor", "peerIP": "10.10.1.1:1790", "asNumber": 65000}
    own = {"node2": {"calico_node_bgp_listen_port": 1179}}
    for bgp in (True, False):
        variables = {"bgp_peers": [router], "own": own} if bgp else {"bgp_enabled": False}
        fleet = build(pool("vxlan", natOutgoing=True), **variables)
        table = next(table for table in states(fleet)["node1"].iptables if table.name == "nat")
        ports = ("179", "1179", "1790") if bgp else ("179",)
        rules = (*(f"-p tcp -m tcp --dport {port} -j RETURN" for port in ports), *_OF_PEERS[1:])
        assert table.chains["cali-nat-outgoing"][1:-1] == rules


def test_sources_are_checked_without_policy_and_nat() -> None:
    state = states(build(pool("direct"), unprobed_pools="*"))["node1"]
    assert [(table.name, table.family) for table in state.iptables] == [("raw", 4), ("raw", 6), ("filter", 4)]
    assert [ipset.name for ipset in state.ipsets] == ["cali40local-blocks"]


def test_packets_of_workloads_are_accepted_at_the_end_of_forward() -> None:
    """Dockerd sets the policy of FORWARD to DROP, and rules of others before the end still count."""
    state = states(build(pool("direct"), unprobed_pools="*"))["node1"]
    (table,) = [table for table in state.iptables if table.name == "filter"]
    assert table.chains == {} and [dataclasses.astuple(hook) for hook in table.hooks] == [
        ("FORWARD", "-i cali+ -j ACCEPT", True),
        ("FORWARD", "-o cali+ -j ACCEPT", True),
    ]


_FORGED = "-m rpfilter --validmark --invert -g cali-spoofed"
_ENDING = f"-p tcp -m tcp ! --tcp-flags FIN,RST NONE {_FORGED}"
_LOOPBACK = ("-s 127.0.0.0/8 -g cali-spoofed", "-d 127.0.0.0/8 -g cali-spoofed")


def raw(family: int = 4, **variables: object) -> dict[str, tuple[str, ...]]:
    fleet = build(pool("direct"), own={"node1": {"calico_workload_source_spoofing": variables.pop("spoofing", False)}},
                  **variables)  # fmt: skip
    return dict(next(table for table in states(fleet)["node1"].iptables if table.family == family).chains)


def test_sources_are_checked_with_one_look_into_the_routes() -> None:
    assert raw()["cali-PREROUTING"] == (
        "-i cali+ -g cali-wl-sources",
        f"-m set --match-set cali40local-blocks src {_FORGED}",
    )
    # For IPv4 the kernel itself checks the sources of workloads (rp_filter), after it has tracked ends of connections.
    encapsulated = ("-p udp -m udp --dport 4789 -g cali-encapsulated", "-p 4 -g cali-encapsulated")
    assert raw()["cali-wl-sources"] == (*_LOOPBACK, _ENDING, *encapsulated)
    of_ipv6 = ("-s ::1/128 -g cali-spoofed", "-d ::1/128 -g cali-spoofed", _FORGED)
    assert raw(6)["cali-wl-sources"] == (*of_ipv6, *encapsulated, "-s fe80::/10 -g cali-wl-link-local")
    assert raw()["cali-spoofed"] == raw()["cali-encapsulated"] == ("-j DROP",)
    assert states(build(pool("direct"), spare_blocks=2))["node1"].ipsets[0].members == tuple(
        sorted(block.cidr for block in (*states(build(pool("direct"), spare_blocks=2))["node1"].ipam.blocks,
                                        *states(build(pool("direct"), spare_blocks=2))["node1"].ipam.spare_blocks))
    )  # fmt: skip


def test_workloads_may_encapsulate_and_send_from_anywhere_where_the_inventory_says_so() -> None:
    assert (
        "-p udp -m udp --dport 4789 -g cali-encapsulated"
        not in raw(allow_vxlan_packets_from_workloads=True)["cali-wl-sources"]
    )
    assert raw(allow_ipip_packets_from_workloads=True)["cali-wl-sources"] == (
        *_LOOPBACK,
        _ENDING,
        "-p udp -m udp --dport 4789 -g cali-encapsulated",
    )
    both = raw(vxlan_port=8472)["cali-wl-sources"]
    assert [rule.split()[5] for rule in both[3:5]] == ["4789", "8472"]
    # Even if spoofing is allowed, a workload cannot send from the address of another workload of this node.
    assert raw(spoofing=True)["cali-wl-sources"][2] == f"-m set --match-set cali40local-blocks src {_FORGED}"
    assert _FORGED not in raw(6, spoofing=True)["cali-wl-sources"]


MEMBERS = ("10.10.1.11", "192.0.2.8", "2001:db8::8")


def with_members(**variables: object) -> Fleet:
    return Fleet.build(inventory.read(hosts(pool("direct"), **variables), (), MEMBERS), None)


def test_workloads_do_not_reach_members_of_etcd() -> None:
    """One rule for both IP versions finds the ports, and a set the addresses, with policy or without it."""
    rule = "-p tcp -m tcp --dport 2378:2380 -m set --match-set cali{}0etcd-members dst -g cali-to-etcd"
    for state in (states(with_members())["node1"], stored(states(with_members())["node1"])):
        sets = {ipset.name: ipset.members for ipset in state.ipsets}
        assert (sets["cali40etcd-members"], sets["cali60etcd-members"]) == (MEMBERS[:2], MEMBERS[2:])
        policed = with_policy(dataclasses.replace(state, policy=PolicyState()))
        for tables in (state.iptables, policed.iptables):
            for family in (4, 6):
                chains = next(one for one in tables if (one.name, one.family) == ("raw", family)).chains
                assert any(text.endswith(rule.format(family)) for text in chains["cali-wl-sources"])
                assert chains["cali-to-etcd"][-1].endswith("-j DROP")


def test_workloads_reach_members_of_etcd_where_the_inventory_says_so() -> None:
    plain = build(pool("direct"))
    allowed = with_members(allow_etcd_from_workloads=True)
    assert states(allowed)["node1"] == states(plain)["node1"]
    assert allowed.digest == plain.digest != with_members().digest
    assert "etcd" not in str(states(plain)["node1"].iptables)


def test_all_nodes_know_the_addresses_of_all_probe_endpoints_with_policy_or_without() -> None:
    found = states(build(pool("direct"), pool("vxlan", "six", "fd00:10:244::/64"), own=ADDRESSES6))
    assert len(found) == 4
    for state in found.values():
        policed = with_policy(dataclasses.replace(state, policy=PolicyState()))
        for kind in (state, stored(state), policed):
            sets = {ipset.name: (ipset.type, ipset.members) for ipset in kind.ipsets}
            for name, probed in (("cali40probes", "default"), ("cali60probes", "six")):
                addresses = sorted(one.ipam.probes[probed] for one in found.values())
                assert sets[name] == ("hash:net", tuple(addresses))
            tables = [one for one in kind.iptables if one.name == "filter"]
            assert len(tables) == 2
            for table in tables:
                assert table.chains["cali-to-probe"][0].startswith("-p 1 " if table.family == 4 else "-p 58 ")
                assert "cali-from-probe" in table.chains


def test_a_fleet_without_probe_endpoints_has_no_rules_for_them() -> None:
    state = states(build(pool("ipip"), unprobed_pools="*"))["node1"]
    for kind in (state, with_policy(dataclasses.replace(state, policy=PolicyState()))):
        assert "probe" not in str((kind.ipsets, kind.iptables))


def test_without_policy_the_probe_endpoint_is_restricted_first_and_accepted_last() -> None:
    state = states(build(pool("direct")))["node3"]
    (table,) = [table for table in state.iptables if table.name == "filter"]
    assert [dataclasses.astuple(hook) for hook in table.hooks] == [
        ("INPUT", "-j cali-INPUT", False),
        ("FORWARD", "-j cali-FORWARD", False),
        ("FORWARD", "-i cali+ -j ACCEPT", True),
        ("FORWARD", "-o cali+ -j ACCEPT", True),
    ]


@pytest.mark.parametrize("nat", [False, True])
def test_no_rule_makes_the_kernel_track_connections_for_the_probe_endpoint(nat: bool) -> None:
    state = states(build(pool("direct", natOutgoing=nat)))["node1"]
    rules = [rule for table in state.iptables for chain in table.chains.values() for rule in chain]
    assert any("conntrack" in rule for rule in rules) is nat


def test_a_fleet_without_allowances_keeps_the_name_of_its_plan() -> None:
    plain = build(pool("direct"))
    assert plain.digest == build(pool("direct"), allow_vxlan_packets_from_workloads=False).digest
    assert plain.digest != build(pool("direct"), allow_vxlan_packets_from_workloads=True).digest


@pytest.mark.parametrize("mode", ["ipip", "vxlan"])
def test_encapsulated_packets_are_accepted_from_the_fleet_alone(mode: str) -> None:
    state = states(build(pool(mode)))["node1"]
    match = {"ipip": "-p 4", "vxlan": "-p udp -m udp --dport 4789"}[mode]
    table = next(table for table in state.iptables if table.name == "filter")
    assert table.chains["cali-INPUT"] == (
        f"{match} -m set --match-set cali40all-hosts-net src -m addrtype --dst-type LOCAL -j ACCEPT",
        f"{match} -m addrtype --dst-type LOCAL -j DROP",
        "-i caliprobe -j DROP",
    )
    assert [(ipset.name, ipset.type, ipset.members) for ipset in state.ipsets] == [
        ("cali40all-hosts-net", "hash:net", tuple(sorted(map(address, LAB)))),
        ("cali40local-blocks", "hash:net", tuple(block.cidr for block in state.ipam.blocks + state.ipam.spare_blocks)),
        ("cali40probes", "hash:net", tuple(sorted(one for member in state.nodes for one in member.probes))),
    ]


def test_sysctls_and_their_order() -> None:
    state = states(build(pool("ipip"), workloads=[workload("web", "node1"), workload("app", "node1")]))["node1"]
    app, web = (naming.interface_name("default", name) for name in ("app", "web"))
    assert [f"{sysctl.key}={sysctl.value}" for sysctl in state.sysctls] == [
        "net/ipv4/ip_forward=1",
        "net/ipv4/udp_early_demux=0",
        "net/ipv4/conf/{underlay}/rp_filter=2",
        "net/ipv4/conf/tunl0/rp_filter=2",
        *itertools.chain.from_iterable(
            (
                f"net/ipv4/conf/{interface}/rp_filter=1",
                f"net/ipv4/neigh/{interface}/proxy_delay=0",
                f"net/ipv4/conf/{interface}/proxy_arp=1",
                f"net/ipv4/conf/{interface}/forwarding=1",
            )
            for interface in (app, web, "caliprobe")
        ),
    ]


@pytest.mark.parametrize("spare", [0, 1, 3])
def test_spare_blocks_may_be_announced_but_are_not_routed_before_they_are_opened(spare: int) -> None:
    fleet = states(build(pool("ipip"), spare_blocks=spare))
    for state in fleet.values():
        assert len(state.ipam.spare_blocks) == spare
        assert state.bird is not None
        spare_cidrs = {block.cidr for block in state.ipam.spare_blocks}
        assert spare_cidrs <= set(state.bird.blocks)
        assert not spare_cidrs & {route.destination for route in state.routes}
        for other in fleet.values():
            assert not spare_cidrs & {route.destination for route in other.bird_routes}


def test_a_pool_without_bgp_export_is_not_announced() -> None:
    fleet = states(build(pool("ipip"), pool("ipip", "hidden", "10.245.0.0/16", disableBGPExport=True)))
    state = fleet["node1"]
    assert state.bird is not None
    assert all(cidr.startswith("10.244.") for cidr in state.bird.blocks)
    assert [(p.cidr, p.export) for p in state.bird.pools] == [("10.244.0.0/16", True), ("10.245.0.0/16", False)]
    assert all(route.destination.startswith("10.244.") for route in state.bird_routes)


# --- These tests are about sessions, BIRD's settings, both lists of workloads, unknown nodes, and spoofing ----------


def sessions(state: NodeState) -> dict[str, str]:
    assert state.bird is not None
    return {peer.node or peer.address: peer.kind for peer in state.bird.peers}


def test_mesh_sessions() -> None:
    state = states(build())["node1"]
    assert sessions(state) == {"node2": "mesh", "node3": "mesh", "node4": "mesh"}
    assert state.bird is not None
    assert [peer.name for peer in state.bird.peers] == ["Mesh_10_10_1_12", "Mesh_10_10_2_13", "Mesh_10_10_2_14"]
    assert {peer.as_number for peer in state.bird.peers} == {64512}
    assert state.bird.cluster_id is None


REFLECTORS = {"rr1": "10.10.1.2/24", "rr2": "10.10.2.2/24"}


def test_pure_reflectors_have_neither_devices_nor_routes() -> None:
    fleet = states(build(pool("ipip", natOutgoing=True), reflectors=REFLECTORS))
    rr1 = fleet["rr1"]
    assert sessions(rr1) == {
        "node1": "client", "node2": "client", "node3": "client", "node4": "client", "rr2": "mesh",
    }  # fmt: skip
    assert sessions(fleet["node1"]) == {"rr1": "reflector", "rr2": "reflector"}
    assert rr1.bird is not None
    assert (rr1.bird.cluster_id, rr1.bird.workload_node, rr1.bird.blocks) == ("244.0.0.1", False, ())
    for part in ("devices", "neighbors", "fdb", "workloads", "routes", "rules", "sysctls", "ipsets", "iptables",
                 "bird_routes"):  # fmt: skip
        assert getattr(rr1, part) == (), part
    assert fleet["node1"].bird is not None
    assert fleet["node1"].bird.cluster_id is None


def test_a_reflector_may_be_a_workload_node_as_well() -> None:
    fleet = states(build(pool("ipip"), reflectors={"node1": LAB["node1"], "node3": LAB["node3"]}))
    assert sessions(fleet["node1"]) == {"node2": "client", "node3": "mesh", "node4": "client"}
    assert sessions(fleet["node2"]) == {"node1": "reflector", "node3": "reflector"}
    node1 = fleet["node1"]
    assert node1.bird is not None
    assert (node1.bird.cluster_id, node1.bird.workload_node) == ("244.0.0.1", True)
    assert [device.name for device in node1.devices] == ["tunl0"]
    assert len(node1.bird_routes) == 3


def test_reflectors_beside_a_mesh_that_stays() -> None:
    fleet = states(build(reflectors=REFLECTORS, bgp_node_to_node_mesh=True))
    assert sessions(fleet["node1"]) == {
        "node2": "mesh", "node3": "mesh", "node4": "mesh", "rr1": "reflector", "rr2": "reflector",
    }  # fmt: skip


def test_external_peers_by_selector_and_by_node() -> None:
    fleet = states(
        build(
            own={
                "node1": {"calico_node_labels": {"rack": "a"}},
                "node3": {"calico_node_bgp_peers": [{"name": "own", "peerIP": "192.0.2.1", "asNumber": 65001}]},
            },
            bgp_peers=[{"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000, "nodeSelector": "rack == 'a'"}],
        )
    )
    external = {
        name: [(p.name, p.address, p.as_number, p.multihop) for p in state.bird.peers if p.kind == "external"]
        for name, state in fleet.items()
        if state.bird
    }
    assert external == {
        "node1": [("Node_10_10_1_1", "10.10.1.1", 65000, False)],
        "node2": [],
        "node3": [("Node_192_0_2_1", "192.0.2.1", 65001, True)],
        "node4": [],
    }


def router(last: int, **fields: t.Any) -> dict[str, t.Any]:
    return {
        "name": f"r{last}",
        "peerIP": f"10.10.1.{last}",
        "asNumber": 65000,
        "nodeSelector": "node == 'node1'",
        **fields,
    }


def merging(peers: t.Sequence[t.Mapping[str, t.Any]], **variables: t.Any) -> list[str]:
    """Return the nodes whose BIRD merges paths, in a mesh of LAB with these BGPPeers."""
    own = {name: {"calico_node_labels": {"node": name}} for name in LAB}
    fleet = states(build(own=own, bgp_peers=list(peers), **variables))
    return [name for name, state in fleet.items() if state.bird and state.bird.merge_paths]


def test_nodes_beside_two_routers_of_one_ip_version_merge_paths() -> None:
    """A fleet without switches has a state and a bird.cfg as before, so that nothing restarts."""
    two = [router(2), router(3)]
    assert merging(two) == ["node1"]
    assert merging(two, bgp_merge_paths=False) == merging(two[:1]) == merging([]) == []
    six = {"own": {"node1": {**ADDRESSES6["node1"], "calico_node_labels": {"node": "node1"}}}}
    one_of_each = [router(2), router(3, peerIP="fd00:10:10:1::3")]
    fleet = states(build(bgp_peers=one_of_each, **six))
    assert fleet["node1"].bird and len(fleet["node1"].bird.peers) == 5 and not fleet["node1"].bird.merge_paths


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ({"importV4": [{"action": "Accept"}]}, [*LAB]),
        ({"importV4": [{"action": "Reject"}]}, []),
        ({"exportV4": [{"action": "Accept"}]}, []),
        ({"importV6": [{"action": "Accept"}]}, []),
        ({}, []),
    ],
    ids=["accepts", "rejects", "export", "another IP version", "no rules"],
)
def test_nodes_that_accept_routes_of_two_nodes_by_a_filter_merge_paths(
    rules: dict[str, t.Any], found: list[str]
) -> None:
    """Without a filter a node accepts blocks alone from other nodes, and a block has one node."""
    borders = {
        "name": "borders",
        "nodeSelector": "node in {'node1', 'node2'}",
        "peerSelector": "node in {'node3', 'node4'}",
        "filters": ["outside"],
    }
    mesh = {"bgp_node_to_node_mesh": False, "bgp_filters": [{"name": "outside", **rules}]}
    assert merging([borders], **mesh) == found


@pytest.mark.parametrize("count", [2, 3, 17, 60])
def test_each_session_has_one_passive_side_and_no_node_has_too_many(count: int) -> None:
    nodes = {f"n{i:03}": f"10.10.{i // 100}.{i % 100 + 10}/16" for i in range(count)}
    passive = {
        (name, peer.node): peer.passive
        for name, state in states(build(nodes=nodes, workloads=[])).items()
        if state.bird
        for peer in state.bird.peers
    }
    assert len(passive) == count * (count - 1)
    for (one, other), listens in passive.items():
        assert listens is not passive[other, one]
    for name in nodes:
        assert sum(passive[name, other] for other in nodes if other != name) <= count // 2 + 1


@pytest.mark.parametrize("step", [2, 4, 16])
def test_passive_sides_are_spread_also_where_addresses_leave_gaps(step: int) -> None:
    nodes = {f"n{i:03}": f"10.10.0.{10 + i * step}/16" for i in range(14)}
    fleet = states(build(nodes=nodes, workloads=[]))
    for state in fleet.values():
        assert state.bird is not None
        assert 5 <= sum(peer.passive for peer in state.bird.peers) <= 8


def test_settings_reach_bird() -> None:
    state = states(
        build(
            bgp_as_number=4200000000,
            bgp_listen_port=1179,
            bgp_log_severity="Debug",
            bgp_graceful_restart_time=30,
            vxlan_vni=7,
            vxlan_port=8472,
            workloads=[],
        )
    )["node3"]
    assert state.bird is not None
    bird = state.bird
    assert (bird.router_id, bird.address, bird.subnet) == ("10.10.2.13", "10.10.2.13", "10.10.2.0/24")
    assert (bird.as_number, bird.listen_port, bird.log_severity) == (4200000000, 1179, "Debug")
    assert bird.graceful_restart_time == 30
    assert {peer.as_number for peer in bird.peers} == {4200000000}


def test_workloads_of_both_lists_with_all_their_fields() -> None:
    fleet = states(
        build(
            pool("ipip"),
            pool("direct", "other", "10.245.0.0/16"),
            workloads=[workload("web", "node1", namespace="shop", labels={"app": "web", "live": True}, pool="other")],
            own={"node1": {"calico_node_workloads": [{"name": "db", "address": "10.244.7.9", "endpoint": "net0"}]}},
        )
    )
    db, web = fleet["node1"].workloads
    assert (db.name, db.namespace, db.address, db.peer_interface, db.mtu, db.pool) == (
        "db", "default", "10.244.7.9", "net0", 1480, "default",
    )  # fmt: skip
    assert (web.name, web.namespace, web.pool, web.mtu, dict(web.labels)) == (
        "web", "shop", "other", 1500, {"app": "web", "live": "true"},
    )  # fmt: skip
    assert web.interface == naming.interface_name("shop", "web")
    assert [endpoint.netns for endpoint in (db, web)] == ["db", "web"]
    assert all(not state.workloads for name, state in fleet.items() if name != "node1")


def test_an_unknown_node_is_a_key_error() -> None:
    fleet = build(workloads=WORKLOADS)
    with pytest.raises(KeyError):
        fleet.pool_of_address("192.0.2.1")
    from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler

    with pytest.raises(KeyError):
        compiler.node_state(fleet, "node9")


def test_source_spoofing_is_allowed_by_node_and_left_out_of_the_stored_state_elsewhere() -> None:
    fleet = build(own={"node2": {"calico_workload_source_spoofing": True}})
    found = states(fleet)
    assert [name for name, state in found.items() if state.workload_source_spoofing] == ["node2"]
    assert {name: state.to_dict().get("workload_source_spoofing") for name, state in found.items()} == {
        "node1": None, "node2": True, "node3": None, "node4": None,
    }  # fmt: skip
    assert all(NodeState.from_dict(state.to_dict()) == state for state in found.values())
    assert fleet.digest != build().digest
    assert found["node2"].digest != states(build())["node2"].digest
    for name, wanted in (("node1", "1"), ("node2", "0")):
        (one,) = found[name].workloads
        assert one.source_spoofing == (wanted == "0")
        values = {sysctl.key: sysctl.value for sysctl in found[name].sysctls}
        assert values[f"net/ipv4/conf/{one.interface}/rp_filter"] == wanted
    assert "source_spoofing" not in found["node1"].to_dict()["workloads"][0]


def test_the_probe_endpoints_addresses_stand_in_the_order_of_pools() -> None:
    """Each node has one of each pool of its IP versions, and all nodes know them; a route reflector has none."""
    fleet = states(
        build(
            pool("vxlan", "zone", "10.245.0.0/16"),
            pool("direct", "racks", "10.244.0.0/16"),
            pool("direct", "six", "fd00:10:244::/64", blockSize=122),
            pool("direct", "manual", "10.246.0.0/16", assignmentMode="Manual"),
            pool("direct", "off", "10.247.0.0/16", disabled=True),
            pool("direct", "addresses", "10.248.0.0/24", blockSize=32),
            pool("vxlan", "tunnels", "10.249.0.0/16", allowedUses=["Tunnel"]),
            own=ADDRESSES6,
            nodes={name: LAB[name] for name in ("node1", "node2")},
            reflectors={"node3": LAB["node3"]},
            workloads=[],
        )
    )
    first = {block.pool: netaddr.IPNetwork(block.cidr) for block in reversed(fleet["node1"].ipam.blocks)}
    expected = {name: str(netaddr.IPAddress(first[name].last)) for name in ("zone", "racks", "six")}
    assert list(fleet["node1"].ipam.probes.items()) == list(expected.items())
    for state in fleet.values():
        assert [(one.name, bool(one.probes)) for one in state.nodes] == [
            ("node1", True), ("node2", True), ("node3", False),
        ]  # fmt: skip
        assert state.nodes[0].probes == tuple(expected.values())
        assert state.nodes[1].probes == tuple(fleet["node2"].ipam.probes.values())
    assert fleet["node3"].ipam.probes == {}
    assert fleet["node3"].probe_endpoint is None
    zone, racks, six = expected.values()
    endpoint = fleet["node1"].probe_endpoint
    assert endpoint is not None and fleet["node1"].endpoints == (endpoint,)
    assert (endpoint.address, endpoint.address6, endpoint.further) == (zone, six, (racks,))
    assert (endpoint.pool, endpoint.pool6, endpoint.mtu, endpoint.netns_owned) == ("zone", "six", 1500, True)
    assert (endpoint.interface, endpoint.netns, endpoint.peer_interface) == ("caliprobe", "calico-probe", "eth0")
    assert {route.destination for route in fleet["node1"].routes if route.device == "caliprobe"} == {
        f"{zone}/32", f"{racks}/32", f"{six}/128",
    }  # fmt: skip
    settings = {one.key: one.value for one in fleet["node1"].sysctls}
    assert settings["net/ipv4/conf/caliprobe/rp_filter"] == settings["net/ipv4/conf/caliprobe/proxy_arp"] == "1"
    assert settings["net/ipv6/conf/caliprobe/disable_ipv6"] == "0"


@pytest.mark.parametrize(
    ("unprobed", "left"),
    [([], ["zone", "racks"]), (["zone"], ["racks"]), (["racks", "zone"], []), ("*", []), (["*"], [])],
)
def test_probes_are_switched_off_by_pool(unprobed: t.Union[str, list[str]], left: list[str]) -> None:
    pools = pool("vxlan", "zone", "10.245.0.0/16"), pool("direct", "racks", "10.244.0.0/16")
    fleet = build(*pools, unprobed_pools=unprobed)
    with_all = build(*pools)
    assert {name: list(state.ipam.probes) for name, state in states(fleet).items()} == dict.fromkeys(LAB, left)
    for name, state in states(fleet).items():
        assert dataclasses.replace(state.ipam, probes={}) == dataclasses.replace(states(with_all)[name].ipam, probes={})
        endpoint = state.probe_endpoint
        assert (endpoint.addresses if endpoint else ()) == tuple(state.ipam.probes.values())
    again = build(*pools, previous=with_all.allocation, unprobed_pools=unprobed)
    assert {name: list(part.probes) for name, part in again.allocation.nodes.items()} == dict.fromkeys(LAB, left)
    assert (again.digest == with_all.digest) is (not unprobed)


def test_a_node_of_one_ip_version_has_no_probe_address_of_the_other() -> None:
    six = pool("direct", "six", "fd00:10:244::/64", nodeSelector="has(six)")
    own = {"node1": {**ADDRESSES6["node1"], "calico_node_labels": {"six": "yes"}}}
    fleet = states(build(pool(), six, own=own))
    assert [list(state.ipam.probes) for state in fleet.values()] == [["default", "six"], *[["default"]] * 3]
