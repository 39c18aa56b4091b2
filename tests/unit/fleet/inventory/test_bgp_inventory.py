# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the BGP variables of an inventory. tests/unit/bgp has the sessions, bad_inventories.yml the errors."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bfd, Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from tests.unit.fleet.fleets import build, hosts, states

RACKS = {"node1": "rack-a", "node2": "rack-a", "node3": "rack-b", "node4": "rack-b"}


def in_racks(own: t.Mapping[str, t.Mapping[str, t.Any]] = {}, **rest: t.Any) -> Fleet:
    """Return the fleet of `hosts(own=own, **rest)`, with each node in the group of its rack and all hosts in group all.

    A node without labels in `own` has the label `rack`. Raise FleetError if the inventory is invalid.
    """
    labelled = {name: {"calico_node_labels": {"rack": rack[-1]}, **own.get(name, {})} for name, rack in RACKS.items()}
    labelled.update({name: fields for name, fields in own.items() if name not in RACKS})
    found = [
        dataclasses.replace(host, groups=("all", RACKS[host.name]) if host.name in RACKS else ("all",))
        for host in hosts(own=labelled, **rest)
    ]
    return Fleet.build(inventory.read(found), None)


def birds(fleet: Fleet) -> dict[str, Bird]:
    return {name: state.bird for name, state in states(fleet).items() if state.bird is not None}


def sessions(fleet: Fleet) -> dict[str, list[str]]:
    return {name: [peer.name for peer in bird.peers] for name, bird in birds(fleet).items()}


def test_three_lists_of_peers_add_up() -> None:
    group = {"calico_bgp_peers_rack_a": [{"peerIP": "192.0.2.2", "asNumber": 65002}]}
    fleet = in_racks(
        {
            "node1": {**group, "calico_node_bgp_peers": [{"peerIP": "192.0.2.3", "asNumber": 65003}]},
            "node2": group,
        },
        bgp_peers=[{"peerIP": "192.0.2.1", "asNumber": 65001}],
        bgp_node_to_node_mesh=False,
    )
    assert sessions(fleet) == {
        "node1": ["Global_192_0_2_1", "Node_192_0_2_2", "Node_192_0_2_3"],
        "node2": ["Global_192_0_2_1", "Node_192_0_2_2"],
        "node3": ["Global_192_0_2_1"],
        "node4": ["Global_192_0_2_1"],
    }


def test_an_entry_that_many_hosts_see_counts_once() -> None:
    same = {"calico_node_bgp_peers": [{"peerIP": "192.0.2.3", "asNumber": 65003}]}
    fleet = in_racks({"node1": same, "node3": same})
    (given,) = fleet.bgp.peers
    assert given.members == frozenset({"node1", "node3"})


def test_a_group_list_with_templates_is_each_hosts_own() -> None:
    def tor(address: str) -> dict[str, t.Any]:
        return {
            "calico_bgp_peers_rack_a": [
                {"peerIP": "10.10.1.1", "asNumber": 65001},
                {"peerIP": "10.20.1.1", "asNumber": 65001, "sourceAddress": f"{address}/24"},
            ]
        }

    fleet = in_racks({"node1": tor("10.20.1.11"), "node2": tor("10.20.1.12")}, bgp_node_to_node_mesh=False)
    sources = {name: [peer.source_address for peer in bird.peers] for name, bird in birds(fleet).items()}
    assert sources == {"node1": [None, "10.20.1.11"], "node2": [None, "10.20.1.12"], "node3": [], "node4": []}


def test_the_list_of_a_group_that_a_host_only_hears_of_is_not_its_own() -> None:
    """A list in group_vars/all is a variable of every host, but counts for the hosts of its group only."""
    everywhere = {"calico_bgp_peers_rack_a": [{"peerIP": "192.0.2.2", "asNumber": 65002}]}
    fleet = in_racks(dict.fromkeys(RACKS, everywhere), bgp_node_to_node_mesh=False)
    assert {name: len(found) for name, found in sessions(fleet).items()} == {
        "node1": 1, "node2": 1, "node3": 0, "node4": 0,
    }  # fmt: skip


def test_an_as_number_for_each_rack() -> None:
    own = {name: {"calico_node_bgp_as_number": 64601 if rack == "rack-a" else 64602} for name, rack in RACKS.items()}
    found = birds(in_racks(own))
    assert {name: bird.as_number for name, bird in found.items()} == {
        "node1": 64601, "node2": 64601, "node3": 64602, "node4": 64602,
    }  # fmt: skip
    assert {peer.node: peer.as_number for peer in found["node1"].peers} == {
        "node2": 64601, "node3": 64602, "node4": 64602,
    }  # fmt: skip
    members = states(in_racks(own))["node1"].nodes
    assert [member.as_number for member in members] == [64601, 64601, 64602, 64602]


def test_reflectors_for_each_rack_with_a_cluster_id_of_their_own() -> None:
    def of_rack(rack: str) -> dict[str, t.Any]:
        return {
            "calico_node_route_reflector_cluster_id": f"244.0.0.{ord(rack) - ord('a') + 1}",
            "calico_node_route_reflector_clients": f"rack == '{rack}'",
        }

    fleet = in_racks(
        {"rr1": of_rack("a"), "rr2": of_rack("b"), "rr3": {}},
        reflectors={"rr1": "10.10.1.2/24", "rr2": "10.10.2.2/24", "rr3": "10.10.2.3/24"},
    )
    assert sessions(fleet) == {
        "node1": ["Node_10_10_1_2", "Node_10_10_2_3"],
        "node2": ["Node_10_10_1_2", "Node_10_10_2_3"],
        "node3": ["Node_10_10_2_2", "Node_10_10_2_3"],
        "node4": ["Node_10_10_2_2", "Node_10_10_2_3"],
        "rr1": ["Mesh_10_10_2_2", "Mesh_10_10_2_3", "Node_10_10_1_11", "Node_10_10_1_12"],
        "rr2": ["Mesh_10_10_1_2", "Mesh_10_10_2_3", "Node_10_10_2_13", "Node_10_10_2_14"],
        "rr3": [
            "Mesh_10_10_1_2",
            "Mesh_10_10_2_2",
            "Node_10_10_1_11",
            "Node_10_10_1_12",
            "Node_10_10_2_13",
            "Node_10_10_2_14",
        ],
    }
    assert {name: bird.cluster_id for name, bird in birds(fleet).items() if bird.cluster_id} == {
        "rr1": "244.0.0.1", "rr2": "244.0.0.2", "rr3": "244.0.0.1",
    }  # fmt: skip


def test_a_node_becomes_a_reflector_by_its_cluster_id_and_bgp_peers_as_in_calico() -> None:
    fleet = in_racks(
        {"node1": {"calico_node_route_reflector_cluster_id": "244.0.0.7", "calico_node_labels": {"reflector": "yes"}}},
        bgp_peers=[{"nodeSelector": "!has(reflector)", "peerSelector": "has(reflector)"}],
    )
    found = birds(fleet)
    assert {peer.node: (peer.kind, peer.cluster_id) for peer in found["node1"].peers} == dict.fromkeys(
        ("node2", "node3", "node4"), ("client", "244.0.0.7")
    )
    assert [(peer.node, peer.kind) for peer in found["node2"].peers] == [("node1", "reflector")]


def test_passwords_are_known_by_name() -> None:
    secrets = {"mesh": {"password": "between us"}, "tor": {"password": "from far"}}
    fleet = in_racks(
        bgp_secrets=secrets,
        bgp_mesh_password={"secretKeyRef": {"name": "mesh", "key": "password"}},
        bgp_peers=[
            {
                "peerIP": "192.0.2.1",
                "asNumber": 65001,
                "node": "node1",
                "password": {"secretKeyRef": {"name": "tor", "key": "password"}},
            }
        ],
    )
    found = birds(fleet)
    assert {peer.password for peer in found["node1"].peers} == {"mesh:password", "tor:password"}
    assert (found["node1"].secrets, found["node2"].secrets) == (("mesh:password", "tor:password"), ("mesh:password",))
    assert "between us" not in repr(fleet) and "from far" not in repr(fleet)


def test_variables_for_all_sessions_reach_bird_and_its_peers() -> None:
    bird = birds(
        in_racks(
            bgp_hold_time=9,
            bgp_keepalive_time=3,
            bgp_long_lived_stale_time=600,
            bgp_bind_mode="NodeIP",
            bgp_bfd={"minRx": 50, "minTx": 60, "multiplier": 3},
            bgp_mesh_max_restart_time=60,
        )
    )["node1"]
    assert (bird.hold_time, bird.keepalive_time, bird.long_lived_stale_time, bird.strict_bind) == (9, 3, 600, True)
    assert {(peer.bfd, peer.graceful_restart_time) for peer in bird.peers} == {(Bfd(50, 60, 3), 60)}


def test_a_whole_document_is_a_peer_as_well() -> None:
    document = {
        "apiVersion": "projectcalico.org/v3",
        "kind": "BGPPeer",
        "metadata": {"name": "tor"},
        "spec": {"peerIP": "192.0.2.1", "asNumber": 65001, "node": "node1", "bfd": True, "holdTime": "60s"},
    }
    peer = birds(in_racks(bgp_peers=[document]))["node1"].peers[-1]
    assert (peer.name, peer.bfd, peer.hold_time) == ("Node_192_0_2_1", Bfd(), 60)


def test_nodes_of_different_as_may_have_one_router_id() -> None:
    """Nodes of different AS may have one router id: RFC 6286, section 2.1, requires a unique one within an AS only."""
    own = {name: {"calico_node_router_id": "192.0.2.77"} for name in ("node1", "node3")}
    own["node3"]["calico_node_bgp_as_number"] = 64601
    found = {name: bird.router_id for name, bird in birds(in_racks(own)).items()}
    assert found["node1"] == found["node3"] == "192.0.2.77"


def test_router_ids() -> None:
    own = {"node1": {"calico_node_router_id": "192.0.2.77"}, "node2": {"calico_node_router_id": "hash"}}
    found = {name: bird.router_id for name, bird in birds(in_racks(own)).items()}
    assert found == {"node1": "192.0.2.77", "node2": "21.177.138.114", "node3": "10.10.2.13", "node4": "10.10.2.14"}


def test_a_plan_is_another_one_for_any_of_this() -> None:
    plans = [
        {},
        {"bgp_hold_time": 60},
        {"bgp_bfd": True},
        {"bgp_bind_mode": "NodeIP"},
        {"bgp_peers": [{"peerIP": "192.0.2.1", "asNumber": 65001}]},
        {"bgp_peers": [{"peerIP": "192.0.2.1", "asNumber": 65001, "holdTime": 60}]},
        {"own": {"node1": {"calico_node_bgp_as_number": 64600}}},
        {"own": {"node1": {"calico_node_bgp_peers": [{"peerIP": "192.0.2.1", "asNumber": 65001}]}}},
        {"own": {"node1": {"calico_node_router_id": "hash"}}},
        {"own": {"node1": {"calico_node_route_reflector_cluster_id": "244.0.0.1"}}, "bgp_node_to_node_mesh": True},
    ]
    assert len({build(**plan).digest for plan in plans}) == len(plans)


def test_no_own_as_number_in_a_path_is_a_number_of_them() -> None:
    """A numAllowedLocalASNumbers of 0 is accepted, and is the same as leaving it out."""
    peer = {"name": "tor", "peerIP": "10.10.1.1", "asNumber": 65000}
    assert birds(build(bgp_peers=[{**peer, "numAllowedLocalASNumbers": 0}])) == birds(build(bgp_peers=[peer]))


def test_a_peer_with_and_without_the_port_of_bgp_is_one_peer() -> None:
    """A second BGPPeer for one session is refused, because the session could have the fields of one of them only."""
    peers = [{"peerIP": "10.9.0.1:179", "asNumber": 65000}, {"peerIP": "10.9.0.1", "asNumber": 65000}]
    with pytest.raises(FleetError) as caught:
        in_racks({"node1": {"calico_node_bgp_peers": peers}})
    assert str(caught.value) == (
        "calico_node_bgp_peers[1].peerIP of node1 10.9.0.1 is also the address of calico_node_bgp_peers[0] of node1, "
        "and node1 would peer with it twice. Remove one, or let their nodeSelectors choose different nodes."
    )
    peers[0].update(peerIP="10.9.0.1:1790", listenPort=1791)
    assert (
        len(sessions(in_racks({"node1": {"calico_node_bgp_peers": peers}}, bgp_node_to_node_mesh=False))["node1"]) == 2
    )


@pytest.mark.parametrize(
    "own",
    [
        {"listenPort": 1791},  # a port of its own
        {"sourceAddress": "10.20.1.11/24"},  # an address of its own
    ],
)
def test_a_program_beside_the_bird_of_a_node_is_another_router(own: dict[str, t.Any]) -> None:
    """The mesh session with that node stays, at both ends, because peers are compared by address and port."""
    frr = {"name": "frr", "peerIP": "10.10.1.12:1790", "asNumber": 65000, "node": "node1", **own}
    found = birds(in_racks(bgp_peers=[frr]))
    kinds = {peer.name: (peer.kind, peer.node) for peer in found["node1"].peers if peer.address == "10.10.1.12"}
    assert kinds == {"Mesh_10_10_1_12": ("mesh", "node2"), "Node_10_10_1_12_port_1790": ("external", "")}
    assert "Mesh_10_10_1_11" in {peer.name for peer in found["node2"].peers}


def test_a_second_port_of_a_nodes_own_bird_is_that_node() -> None:
    """Both ends name the port: node2 listens there for node1, so that it is its BIRD, and the mesh has no session."""
    fleet = in_racks(
        bgp_peers=[
            {"name": "there", "peerIP": "10.10.1.12:1790", "asNumber": 64512, "node": "node1"},
            {"name": "back", "peerIP": "10.10.1.11", "node": "node2", "listenPort": 1790, "reversePeering": "Manual"},
        ],
    )
    found = birds(fleet)
    pairs = (("node1", "10.10.1.12"), ("node2", "10.10.1.11"))
    assert [[one.name for one in found[node].peers if one.address == address] for node, address in pairs] == [
        ["Node_10_10_1_12_port_1790"],
        ["Node_10_10_1_11"],
    ]


def test_a_session_from_a_second_address_replaces_the_mesh_at_both_ends() -> None:
    """The other node has the session with the second address, and no session of the mesh that would stay down."""
    peer = {"name": "second", "peerIP": "10.10.1.12", "node": "node1", "sourceAddress": "10.20.1.11/24"}
    found = birds(in_racks(bgp_peers=[peer]))
    assert [one.name for one in found["node2"].peers if one.node == "node1"] == ["Node_10_20_1_11"]
    assert [one.name for one in found["node1"].peers if one.node == "node2"] == ["Node_10_10_1_12"]


@pytest.mark.parametrize(("length", "address"), [("31", "10.20.1.10"), ("31", "10.20.1.11"), ("32", "10.20.1.11")])
def test_links_of_two_addresses_have_neither_network_nor_broadcast_address(length: str, address: str) -> None:
    """RFC 3021 for /31; in IPv6, RFC 6164 for /127."""
    nodes = {"node1": f"10.20.1.10/{length}"} if address != "10.20.1.10" else {"node1": f"10.20.1.11/{length}"}
    peers = [{"name": "tor", "peerIP": address, "asNumber": 65000}]
    assert [peer.address for peer in birds(build(nodes=nodes, workloads=[], bgp_peers=peers))["node1"].peers] == [
        address
    ]


def test_the_all_zeros_address_of_an_ipv6_link_of_two_is_a_routers() -> None:
    own = {"node1": {"calico_node_address_ipv6": "fd00:20::1/127"}}
    peers = [{"name": "tor", "peerIP": "fd00:20::", "asNumber": 65000}]
    fleet = build(nodes={"node1": "10.20.1.11/24"}, workloads=[], own=own, bgp_peers=peers)
    assert [peer.address for peer in birds(fleet)["node1"].peers] == ["fd00:20::"]


def test_an_entry_with_keys_of_several_types_is_refused_in_words() -> None:
    entry = {"peerIP": "10.9.0.1", 1: 2, "asNumber": 65000}
    remedy = "is not a field of a BGPPeer. It has"
    for own, fleet in (({"calico_node_bgp_peers": [entry]}, {}), ({}, {"bgp_peers": [entry]})):
        with pytest.raises(FleetError) as caught:
            in_racks({"node1": own}, **fleet)
        where = "calico_bgp_peers[0].1" if fleet else "calico_node_bgp_peers[0].1 of node1"
        assert str(caught.value).startswith(f"{where} {remedy}")
