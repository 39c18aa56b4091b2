# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of properties that hold for every fleet, and of the names of plans and digests of states."""

from __future__ import annotations

import copy
import dataclasses
import ipaddress
import random
import re
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.naming import router_id, vtep_mac
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.fleet import fleets
from tests.unit.fleet.fleets import MODES, pool, states, stored, workload

RACKS = ["a", "b"]


@st.composite
def inventories(draw: st.DrawFn) -> list[Host]:
    """Draw the hosts of a random inventory.

    It has up to seven nodes in up to three subnets, and up to three IPv4 pools. Without BGP all pools have VXLAN. The
    inventory may have workloads and reflectors. It may have an IPv6 pool. Then a node may have only IPv4 or only IPv6,
    if no pool that selects it is of the other version.
    """
    bgp = draw(st.booleans())
    count = draw(st.integers(1, 7))
    names = [f"n{index}" for index in range(count)]
    subnets = [draw(st.integers(1, 3)) for dummy in names]
    nodes = {name: f"10.10.{subnet}.{index + 10}/24" for index, (name, subnet) in enumerate(zip(names, subnets))}
    modes = sorted(MODES) if bgp else ["vxlan", "vxlan-crosssubnet"]
    pools = [
        pool(
            draw(st.sampled_from(modes)),
            f"p{index}",
            f"10.{240 + index}.0.0/18",
            blockSize=draw(st.integers(24, 32)),
            natOutgoing=draw(st.booleans()),
            # The first pool selects all nodes, so every workload gets an IPv4 address unless its node has IPv6 alone.
            nodeSelector=draw(st.sampled_from(["all()", "rack == 'a'"])) if index else "all()",
            disableBGPExport=draw(st.sampled_from([False, False, True])),
        )
        for index in range(draw(st.integers(1, 3)))
    ]
    owners = draw(st.lists(st.sampled_from(names), max_size=8))
    workloads = [workload(f"w{index}", owner, labels={"app": owner}) for index, owner in enumerate(owners)]
    own = {name: {"calico_node_labels": {"rack": draw(st.sampled_from(RACKS))}} for name in names}
    reflectors = {"rr1": "10.10.1.2/24", names[0]: nodes[names[0]]} if bgp and draw(st.booleans()) else {}
    if draw(st.booleans()):
        selector = draw(st.sampled_from(["all()", "rack == 'a'"]))
        mode = draw(st.sampled_from(["vxlan", "vxlan-crosssubnet", *(["direct"] if bgp else [])]))
        size = draw(st.integers(118, 128))
        pools.append(pool(mode, "six", "fd00:10:244::/64", blockSize=size, natOutgoing=True, nodeSelector=selector))
        own["rr1"] = {"calico_node_address_ipv6": "fd00:10:10:1::2/64"}
        for index, (name, subnet) in enumerate(zip(names, subnets)):
            selected = selector == "all()" or own[name]["calico_node_labels"]["rack"] == "a"
            if selected or name in reflectors or draw(st.booleans()):
                own[name]["calico_node_address_ipv6"] = f"fd00:10:10:{subnet}::{index + 16:x}/64"
            if selected and name not in reflectors and draw(st.booleans()):
                own[name]["calico_node_address"] = None
                own[name]["calico_node_labels"]["alone"] = "yes"
                for one in pools[:-1]:
                    one["nodeSelector"] = "!has(alone)" + (" && rack == 'a'" if "rack" in one["nodeSelector"] else "")
    return fleets.hosts(
        *pools,
        nodes=nodes,
        reflectors=reflectors,
        workloads=workloads,
        own=own,
        bgp_enabled=bgp,
        bgp_node_to_node_mesh=draw(st.booleans()) if reflectors else True,
        spare_blocks=draw(st.integers(0, 2)),
        underlay_mtu=draw(st.sampled_from([1500, 9000])),
    )


def compiled(hosts: t.Sequence[Host]) -> tuple[Fleet, dict[str, NodeState]]:
    fleet = Fleet.build(inventory.read(hosts), None)
    return fleet, states(fleet)


@settings(max_examples=30, deadline=None)
@given(inventories())
def test_every_block_is_owned_once_and_routed_once_by_everybody_else(hosts: list[Host]) -> None:
    fleet, nodes = compiled(hosts)
    exported = {found.name for found in fleet.pools if not found.disableBGPExport}
    owners: dict[str, str] = {}
    for name, state in nodes.items():
        for block in state.ipam.blocks + state.ipam.spare_blocks:
            assert owners.setdefault(block.cidr, name) == name
    networks = [ipaddress.ip_network(cidr) for cidr in owners]
    pairs = [(one, other) for one in networks for other in networks if one is not other]
    assert not any(one.version == other.version and one.overlaps(other) for one, other in pairs)
    for name, state in nodes.items():
        if not name.startswith("n"):
            assert (state.routes, state.bird_routes) == ((), ())
            continue
        wanted = [
            block.cidr
            for other, peer in nodes.items()
            if other != name
            for block in peer.ipam.blocks + (() if state.bird else peer.ipam.spare_blocks)
            if state.bird is None or block.pool in exported
            if (state.address6 if ":" in block.cidr else state.address)
        ]
        remote = [r.destination for r in state.bird_routes] + [r.destination for r in state.routes if r.gateway]
        assert sorted(remote) == sorted(wanted)
        # Own blocks have a blackhole route, except blocks of one address that are a workload's own route.
        hosts_routes = {route.destination for route in state.routes if route.type == "unicast" and not route.gateway}
        holes = {route.destination for route in state.routes if route.type == "blackhole"}
        own = {block.cidr for block in state.ipam.blocks + (() if state.bird else state.ipam.spare_blocks)}
        assert holes == own - hosts_routes
        assert len(state.routes) == len({route.destination for route in state.routes})


@settings(max_examples=30, deadline=None)
@given(inventories())
def test_every_workload_has_an_address_in_a_block_of_its_node(hosts: list[Host]) -> None:
    dummy, nodes = compiled(hosts)
    seen: dict[str, str] = {}
    for state in nodes.values():
        blocks = [ipaddress.ip_network(block.cidr) for block in state.ipam.blocks]
        by_name = {found.name: found for found in state.pools}
        with_four = {endpoint.name: endpoint.address for endpoint in state.workloads if endpoint.address}
        assert with_four == state.ipam.workloads
        assert len(with_four) == (len(state.workloads) if state.address else 0)
        with_six = {endpoint.name: endpoint.address6 for endpoint in state.workloads if endpoint.address6}
        assert with_six == state.ipam.workloads6
        # A workload has an address of each IP version that has a pool for the node.
        holds_six = any(block.pool == "six" for block in state.ipam.blocks)
        assert len(with_six) == (len(state.workloads) if holds_six else 0)
        for endpoint in state.workloads:
            for text, pool_name in ((endpoint.address, endpoint.pool), (endpoint.address6, endpoint.pool6)):
                if text:
                    address = ipaddress.ip_address(text)
                    assert any(address in block for block in blocks)
                    assert seen.setdefault(text, endpoint.name) == endpoint.name
                    assert address in ipaddress.ip_network(by_name[pool_name].cidr)
                    assert endpoint.mtu <= by_name[pool_name].workload_mtu
        for device in state.devices:
            assert device.address is None or device.address not in seen


@settings(max_examples=30, deadline=None)
@given(inventories())
def test_states_survive_being_stored(hosts: list[Host]) -> None:
    for state in compiled(hosts)[1].values():
        assert stored(state) == state
        assert stored(state).digest == state.digest
        resolved = state.resolve_underlay("eth0")
        assert "{underlay}" not in str(resolved.to_dict())
        assert resolved.resolve_underlay("eth1") == resolved


@settings(max_examples=25, deadline=None)
@given(inventories(), st.randoms(use_true_random=False))
def test_the_order_of_hosts_and_workloads_does_not_matter(hosts: list[Host], chance: random.Random) -> None:
    shuffled = []
    order = list(range(len(hosts[0].variables["calico_workloads"])))
    chance.shuffle(order)
    for host in hosts:
        variables = copy.deepcopy(dict(host.variables))
        variables["calico_workloads"] = [variables["calico_workloads"][index] for index in order]
        shuffled.append(dataclasses.replace(host, variables=variables))
    chance.shuffle(shuffled)
    fleet, nodes = compiled(hosts)
    again, nodes_again = compiled(shuffled)
    assert fleet.digest == again.digest
    assert nodes == nodes_again
    assert list(fleet.nodes) == list(again.nodes)


@settings(max_examples=30, deadline=None)
@given(inventories())
def test_planning_on_from_ones_own_plan_changes_nothing(hosts: list[Host]) -> None:
    read = inventory.read(hosts)
    fleet = Fleet.build(read, None)
    again = Fleet.build(read, fleet.allocation)
    assert (again.digest, again.allocation) == (fleet.digest, fleet.allocation)


@settings(max_examples=30, deadline=None)
@given(inventories())
def test_neighbours_fdb_and_sets_name_every_other_node_once(hosts: list[Host]) -> None:
    dummy, nodes = compiled(hosts)
    workers = {name for name in nodes if name.startswith("n")}
    for name in workers:
        state = nodes[name]
        others = {"vxlan.calico": {other for other in workers - {name} if nodes[other].address}}
        others["vxlan-v6.calico"] = {other for other in workers - {name} if nodes[other].address6}
        expected = [(d.name, vtep_mac(other)) for d in state.devices for other in others.get(d.name, ())]
        assert sorted((n.device, n.mac) for n in state.neighbors) == sorted(expected)
        assert len({(n.device, n.address) for n in state.neighbors}) == len(state.neighbors)
        assert sorted((e.device, e.mac) for e in state.fdb) == sorted(expected)
        assert len({(e.device, e.destination) for e in state.fdb}) == len(state.fdb)
        for ipset in state.ipsets:
            if ipset.name.endswith("local-blocks"):
                own = {block.cidr.removesuffix("/128") for block in (*state.ipam.blocks, *state.ipam.spare_blocks)}
                own = {cidr.removesuffix("/32") for cidr in own}
                assert set(ipset.members) == {one for one in own if (":" in one) == ipset.name.startswith("cali60")}
                continue
            if ipset.name.endswith("probes"):
                probes = {address for other in nodes.values() for address in other.ipam.probes.values()}
                assert set(ipset.members) == {one for one in probes if (":" in one) == ipset.name.startswith("cali60")}
                continue
            addresses = [
                other.address6 if ipset.name.startswith("cali60") else other.address for other in nodes.values()
            ]
            assert set(ipset.members) == {address.partition("/")[0] for address in addresses if address}


@settings(max_examples=30, deadline=None)
@given(inventories())
def test_the_state_of_a_node_without_ipv6_has_no_ipv6(hosts: list[Host]) -> None:
    for state in compiled(hosts)[1].values():
        if not state.address6:
            parts = (state.devices, state.neighbors, state.fdb, state.routes, state.bird_routes, state.sysctls)
            assert "fd00" not in str([*parts, state.workloads, state.ipam, state.iptables, state.ipsets])
            assert "ipv6" not in str(state.sysctls)
            assert all(table.family == 4 for table in state.iptables if table.name != "raw")
            assert state.bird is None or "fd00" not in str((state.bird.pools, state.bird.peers, state.bird.vteps6))


@settings(max_examples=30, deadline=None)
@given(inventories())
def test_the_state_of_a_node_without_ipv4_has_no_ipv4(hosts: list[Host]) -> None:
    for state in compiled(hosts)[1].values():
        if not state.address:
            parts = (state.devices, state.neighbors, state.fdb, state.routes, state.bird_routes, state.sysctls)
            known = str([*parts, state.workloads, state.ipam, state.iptables, state.ipsets])
            assert not re.search(r"\b10\.\d+\.\d+\.\d+", known)
            # The source of each packet is checked: a workload may send IPv4 although it has no address.
            assert all(one.key.endswith("/rp_filter") for one in state.sysctls if "ipv4" in one.key)
            assert all(table.family == 6 for table in state.iptables if table.name != "raw")
            assert [name for name in (device.name for device in state.devices) if name != "vxlan-v6.calico"] == []
            if state.bird is not None:
                assert not re.search(r"\b10\.\d+\.\d+\.\d+", str((state.bird.pools, state.bird.peers)))
                assert state.bird.router_id == router_id(state.node)


# --- These tests check the name of a plan and the digest of a state -------------------------------------------------


def digest(**changes: t.Any) -> str:
    pools = changes.pop("pools", [pool("ipip")])
    return fleets.build(*pools, **changes).digest


def test_a_plans_name_does_not_depend_on_how_defaults_are_written() -> None:
    spelled = [pool("ipip", blockSize=26, vxlanMode="Never", natOutgoing=False, disabled=False, nodeSelector="all()")]
    whole = [
        {
            "apiVersion": "projectcalico.org/v3",
            "kind": "IPPool",
            "metadata": {"name": "default"},
            "spec": {"cidr": "10.244.0.0/16", "ipipMode": "Always"},
        }
    ]
    plain = digest()
    assert digest(pools=spelled, bgp_as_number=64512, underlay_mtu="1500", spare_blocks=1) == plain
    assert digest(pools=whole) == plain
    assert digest(own={name: {"calico_node_labels": {}} for name in fleets.LAB}) == plain
    # Settings for one run only do not change the name of the plan.
    assert digest(release_blocks=[]) == digest(release_blocks=["node9"]) == plain


def test_a_plans_name_changes_with_everything_that_a_node_gets() -> None:
    found = [
        digest(),
        digest(pools=[pool("vxlan")]),
        digest(pools=[pool("ipip", natOutgoing=True)]),
        digest(pools=[pool("ipip", blockSize=27)]),
        digest(pools=[pool("ipip"), pool("direct", "other", "10.245.0.0/16", disabled=True)]),
        digest(bgp_as_number=64513),
        digest(bgp_listen_port=1790),
        digest(bgp_log_severity="Debug"),
        digest(bgp_graceful_restart_time=60),
        digest(underlay_mtu=9000),
        digest(vxlan_vni=7),
        digest(vxlan_port=8472),
        digest(spare_blocks=2),
        digest(workloads=fleets.WORKLOADS[:3]),
        digest(workloads=[{**fleets.WORKLOADS[0], "labels": {"app": "web"}}, *fleets.WORKLOADS[1:]]),
        digest(workloads=[{**fleets.WORKLOADS[0], "namespace": "prod"}, *fleets.WORKLOADS[1:]]),
        digest(workloads=[{**fleets.WORKLOADS[0], "endpoint": "net0"}, *fleets.WORKLOADS[1:]]),
        digest(workloads=[{**fleets.WORKLOADS[0], "address": "10.244.9.9"}, *fleets.WORKLOADS[1:]]),
        digest(nodes={**fleets.LAB, "node4": "10.10.2.24/24"}),
        digest(nodes={**fleets.LAB, "node4": "10.10.2.14/16"}),
        digest(nodes={**fleets.LAB, "node5": "10.10.2.15/24"}),
        digest(reflectors={"rr1": "10.10.1.2/24"}),
        digest(reflectors={"rr1": "10.10.1.2/24"}, rr_cluster_id="244.0.0.2"),
        digest(bgp_peers=[{"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000}]),
        digest(bgp_peers=[{"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65001}]),
        digest(bgp_peers=[{"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000, "nodeSelector": "has(x)"}]),
        digest(own={"node1": {"calico_node_labels": {"rack": "a"}}}),
        digest(own=fleets.ADDRESSES6),
        digest(own={"node1": fleets.ADDRESSES6["node1"]}),
        digest(own=fleets.ADDRESSES6, pools=[pool("ipip"), pool("direct", "six", "fd00:10:244::/64")]),
        digest(own=fleets.ADDRESSES6, pools=[pool("ipip"), pool("vxlan", "six", "fd00:10:244::/64")]),
    ]
    assert len(set(found)) == len(found)


def test_the_digest_of_a_state_is_about_what_the_node_has_to_have() -> None:
    state = states(fleets.build(pool("vxlan")))["node1"]
    assert dataclasses.replace(state, plan="other", phase=Phase.RETIRE).digest == state.digest
    assert dataclasses.replace(state, ipam=dataclasses.replace(state.ipam, generation=9)).digest == state.digest
    for part in ("pools", "devices", "neighbors", "fdb", "workloads", "routes", "sysctls", "ipsets", "iptables"):
        value = getattr(state, part)
        if value:
            assert dataclasses.replace(state, **{part: value[1:]}).digest != state.digest, part
    assert dataclasses.replace(state, bird=None).digest != state.digest
