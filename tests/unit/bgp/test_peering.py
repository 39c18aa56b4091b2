# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sessions between nodes. The oracle tries all pairs of nodes for each BGPPeer, as Calico's confd does."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import selectors
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import peer_extensions
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bfd, BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.peer_definition import PeerDefinition, Unasked
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.peering import Peering
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.speaker import Speaker
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources
from hypothesis import given, settings
from hypothesis import strategies as st

NO_MESH = Unasked(mesh=False)


def speaker(number: int, rack: str = "a", **fields: t.Any) -> Speaker:
    name = f"node{number}"
    return Speaker(
        **{
            "name": name,
            "as_number": 64512,
            "address": f"10.10.1.{number}",
            "subnet": "10.10.1.0/24",
            "labels": {"rack": rack, "name": name},
            **fields,
        }
    )


def both(number: int, **fields: t.Any) -> Speaker:
    return speaker(number, address6=f"fd00:10::{number:x}", subnet6="fd00:10::/64", **fields)


def peer(members: t.Optional[t.Iterable[str]] = None, password: str = "", **fields: t.Any) -> PeerDefinition:
    theirs, ours = peer_extensions.split({"name": "peer", **fields})
    found = t.cast(resources.BGPPeer, resources.parse_flat("BGPPeer", theirs))
    return PeerDefinition(found, ours, None if members is None else frozenset(members), "", password)


def sessions(
    speakers: t.Sequence[Speaker], *peers: PeerDefinition, unasked: Unasked = NO_MESH
) -> dict[str, dict[str, BirdPeer]]:
    """Return {node: {name of the session: session}} of all `speakers`, as the BGPPeers `peers` request them.

    `unasked` are the settings of sessions that no BGPPeer requests; by default there is no mesh.
    """
    peering = Peering(speakers, peers, unasked)
    return {one.name: {found.name: found for found in peering.sessions(one.name)} for one in speakers}


def names(found: t.Mapping[str, t.Mapping[str, BirdPeer]]) -> dict[str, list[str]]:
    return {node: list(own) for node, own in found.items()}


@pytest.mark.parametrize("written", ["10.10.1.254", "::ffff:10.10.1.254", "[::ffff:10.10.1.254]:179"])
def test_a_mapped_peer_ip_is_the_ipv4_address(written: str) -> None:
    """Calico parses addresses by Go's net.ParseIP, for which an IPv4-mapped IPv6 address is IPv4."""
    found = peer(peerIP=written, asNumber=64600).address
    assert found is not None and (found.address, found.family) == ("10.10.1.254", 4)


# --- These tests are about sessions without BGPPeers, the end that connects, and listen ports -----------------------


def test_the_mesh_joins_all_without_a_cluster_id_in_each_family_that_both_have() -> None:
    nodes = [both(1), both(2), speaker(3), speaker(4, cluster_id="244.0.0.1")]
    assert names(sessions(nodes, unasked=Unasked())) == {
        "node1": ["Mesh_10_10_1_2", "Mesh_fd00_10__2", "Mesh_10_10_1_3"],
        "node2": ["Mesh_10_10_1_1", "Mesh_fd00_10__1", "Mesh_10_10_1_3"],
        "node3": ["Mesh_10_10_1_1", "Mesh_10_10_1_2"],
        "node4": [],
    }


def test_reflectors_of_the_group_speak_with_each_other_and_with_their_clients() -> None:
    nodes = [
        speaker(1),
        speaker(2, rack="b"),
        speaker(8, cluster_id="244.0.0.1", reflector=True, clients="rack == 'a'"),
        speaker(9, cluster_id="244.0.0.2", reflector=True, rack="b", clients="rack == 'b'"),
    ]
    found = sessions(nodes)
    assert names(found) == {
        "node1": ["Node_10_10_1_8"],
        "node2": ["Node_10_10_1_9"],
        "node8": ["Mesh_10_10_1_9", "Node_10_10_1_1"],
        "node9": ["Mesh_10_10_1_8", "Node_10_10_1_2"],
    }
    assert {(node, own.kind, own.cluster_id) for node, every in found.items() for own in every.values()} == {
        ("node1", "reflector", None),
        ("node2", "reflector", None),
        ("node8", "mesh", None),
        ("node8", "client", "244.0.0.1"),
        ("node9", "mesh", None),
        ("node9", "client", "244.0.0.2"),
    }


def test_reflectors_call_their_clients() -> None:
    """Reflectors connect to their clients, so that no node gets many connections at once; other pairs go by parity."""
    clients = [speaker(number) for number in range(1, 101)]
    found = sessions([*clients, *(speaker(number, cluster_id="244.0.0.1", reflector=True) for number in (201, 202))])
    for number in range(1, 101):
        assert {name: one.passive for name, one in found[f"node{number}"].items()} == {
            "Node_10_10_1_201": True,
            "Node_10_10_1_202": True,
        }
    waiting = {name: [one.node for one in found[name].values() if one.passive] for name in ("node201", "node202")}
    assert waiting == {"node201": ["node202"], "node202": []} or waiting == {"node201": [], "node202": ["node201"]}


def test_a_node_with_a_cluster_id_is_active_in_sessions_of_a_bgp_peer() -> None:
    nodes = [speaker(1), speaker(2, cluster_id="244.0.0.1"), speaker(3, as_number=64600)]
    found = sessions(nodes, peer(nodeSelector="all()", peerSelector="name == 'node2'"))
    assert [found[name]["Node_10_10_1_2"].passive for name in ("node1", "node3")] == [True, True]
    assert [one.passive for one in found["node2"].values()] == [False, False]


def test_a_client_of_another_as_is_no_client() -> None:
    found = sessions([speaker(1, as_number=64600), speaker(8, cluster_id="244.0.0.1", reflector=True)])
    assert found["node8"]["Node_10_10_1_1"].cluster_id is None
    assert found["node8"]["Node_10_10_1_1"].as_number == 64600


def test_a_mesh_session_has_the_password_and_timers_of_the_mesh() -> None:
    unasked = Unasked(True, "mesh:password", 60, Bfd(50, 50, 3))
    found = sessions([speaker(1), speaker(2)], unasked=unasked)["node1"]["Mesh_10_10_1_2"]
    assert (found.password, found.graceful_restart_time, found.bfd) == ("mesh:password", 60, Bfd(50, 50, 3))


def test_a_port_of_ones_own() -> None:
    nodes = [speaker(1), speaker(2, listen_port=1179), speaker(3, listen_port=1179)]
    found = sessions(nodes, unasked=Unasked())
    ports = {(node, own.node): own.port for node, every in found.items() for own in every.values()}
    # None means that the peer's port is the node's own listen port.
    assert ports[("node1", "node2")] == 1179 and ports[("node2", "node1")] == 179 and ports[("node2", "node3")] is None


# --- sessions of BGPPeers -------------------------------------------------------------------------------------------


def test_a_router_for_all_for_some_and_for_one() -> None:
    nodes = [both(1), both(2, rack="b"), speaker(3, rack="b")]
    found = sessions(
        nodes,
        peer(peerIP="10.10.1.254", asNumber=65000),
        peer(peerIP="192.0.2.1:1179", asNumber=65000, nodeSelector="rack == 'b'"),
        peer(peerIP="fd00:10::fe", asNumber=65000),
        peer(["node3"], peerIP="192.0.2.3", asNumber=65003),
    )
    assert names(found) == {
        "node1": ["Global_10_10_1_254", "Global_fd00_10__fe"],
        "node2": ["Global_10_10_1_254", "Global_fd00_10__fe", "Node_192_0_2_1_port_1179"],
        "node3": ["Global_10_10_1_254", "Node_192_0_2_1_port_1179", "Node_192_0_2_3"],
    }
    near, far = found["node2"]["Global_10_10_1_254"], found["node2"]["Node_192_0_2_1_port_1179"]
    assert (near.multihop, near.port, near.kind, near.node) == (False, None, "external", "")
    assert (far.multihop, far.port) == (True, 1179)


def test_a_list_of_a_group_and_a_selector_have_to_agree() -> None:
    nodes = [speaker(1), speaker(2, rack="b"), speaker(3, rack="b")]
    found = sessions(nodes, peer(["node1", "node2"], peerIP="192.0.2.1", asNumber=65000, nodeSelector="rack == 'b'"))
    assert names(found) == {"node1": [], "node2": ["Node_192_0_2_1"], "node3": []}


def test_nodes_by_selector_and_back() -> None:
    nodes = [both(1), both(2), both(9, cluster_id="244.0.0.9", rack="rr")]
    fields = {"nodeSelector": "rack == 'a'", "peerSelector": "rack == 'rr'"}
    found = sessions(nodes, peer(**fields, holdTime="9s", bfd=True))
    assert names(found) == {
        "node1": ["Node_10_10_1_9", "Node_fd00_10__9"],
        "node2": ["Node_10_10_1_9", "Node_fd00_10__9"],
        "node9": ["Node_10_10_1_1", "Node_fd00_10__1", "Node_10_10_1_2", "Node_fd00_10__2"],
    }
    for node, every in found.items():
        for own in every.values():
            assert (own.hold_time, own.bfd) == (9, Bfd())
            assert (own.kind, own.cluster_id) == (("client", "244.0.0.9") if node == "node9" else ("reflector", None))
    assert names(sessions(nodes, peer(**fields, reversePeering="Manual")))["node9"] == []


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        (("", ""), ("node", "node")),
        (("244.0.0.1", "244.0.0.1"), ("node", "node")),
        (("244.0.0.1", "244.0.0.2"), ("client", "client")),
        (("244.0.0.1", ""), ("client", "reflector")),
    ],
)
def test_cluster_ids_decide_which_side_reflects(clusters: tuple[str, str], expected: tuple[str, str]) -> None:
    nodes = [speaker(1, cluster_id=clusters[0]), speaker(2, cluster_id=clusters[1])]
    found = sessions(nodes, peer(peerSelector="all()"))
    kinds = tuple(next(iter(found[node].values())).kind for node in ("node1", "node2"))
    assert kinds == expected


def test_a_node_by_its_address_is_a_peer_in_that_family_alone() -> None:
    found = sessions([both(1), both(2), both(3)], peer(peerIP="fd00:10::3"))
    assert names(found) == {
        "node1": ["Global_fd00_10__3"],
        "node2": ["Global_fd00_10__3"],
        "node3": ["Node_fd00_10__1", "Node_fd00_10__2"],
    }


def test_an_as_number_that_the_node_does_not_have_means_another_router() -> None:
    found = sessions([speaker(1), speaker(2)], peer(peerIP="10.10.1.2", asNumber=65000, node="node1"))
    assert names(found) == {"node1": ["Node_10_10_1_2"], "node2": []}
    assert found["node1"]["Node_10_10_1_2"].as_number == 65000


def test_a_global_peer_wins_and_an_own_peer_wins_over_the_reverse() -> None:
    nodes = [speaker(1), speaker(2)]
    found = sessions(
        nodes,
        peer(peerIP="192.0.2.1", asNumber=65001, node="node1", holdTime=30),
        peer(peerIP="192.0.2.1", asNumber=65000),
        peer(peerIP="10.10.1.2", node="node1", holdTime=60),
        peer(peerIP="10.10.1.1", node="node2", holdTime=90),
    )
    assert names(found) == {
        "node1": ["Global_192_0_2_1", "Node_10_10_1_2"],
        "node2": ["Global_192_0_2_1", "Node_10_10_1_1"],
    }
    assert found["node1"]["Global_192_0_2_1"].hold_time is None
    assert [found[f"node{n}"][f"Node_10_10_1_{3 - n}"].hold_time for n in (1, 2)] == [60, 90]


def test_a_bgp_peer_takes_the_place_of_a_session_of_the_mesh() -> None:
    found = sessions([speaker(1), speaker(2), speaker(3)], peer(peerIP="10.10.1.2", node="node1"), unasked=Unasked())
    assert names(found) == {
        "node1": ["Mesh_10_10_1_3", "Node_10_10_1_2"],
        "node2": ["Mesh_10_10_1_3", "Node_10_10_1_1"],
        "node3": ["Mesh_10_10_1_1", "Mesh_10_10_1_2"],
    }


def test_a_local_as_number_for_one_peer_counts_on_both_sides() -> None:
    nodes = [speaker(1), speaker(2)]
    found = sessions(nodes, peer(peerIP="10.10.1.2", node="node1", localASNumber=65010, keepOriginalNextHop=True))
    ahead, back = found["node1"]["Node_10_10_1_2"], found["node2"]["Node_10_10_1_1"]
    assert (ahead.local_as, ahead.as_number, ahead.next_hop) == (65010, 64512, "keep")
    assert (back.local_as, back.as_number, back.next_hop) == (None, 65010, "keep")


def test_no_other_as_towards_one_peer() -> None:
    """A localASNumber of 0 is none, at both ends."""
    found = sessions([speaker(1), speaker(2)], peer(peerIP="10.10.1.2", node="node1", localASNumber=0))
    ahead, back = found["node1"]["Node_10_10_1_2"], found["node2"]["Node_10_10_1_1"]
    assert (ahead.local_as, ahead.as_number) == (back.local_as, back.as_number) == (None, 64512)


@pytest.mark.parametrize(
    ("fields", "as_number", "expected"),
    [
        ({"keepOriginalNextHop": True}, 64512, "auto"),
        ({"keepOriginalNextHop": True}, 65000, "keep"),
        ({"nextHopMode": "Keep"}, 64512, "keep"),
        ({"nextHopMode": "Self"}, 65000, "self"),
        ({"nextHopMode": "Auto"}, 65000, "auto"),
        ({}, 65000, "auto"),
    ],
)
def test_the_next_hop_depends_on_fields_and_as_number(fields: dict[str, t.Any], as_number: int, expected: str) -> None:
    found = sessions([speaker(1)], peer(peerIP="192.0.2.1", asNumber=as_number, **fields))
    assert found["node1"]["Global_192_0_2_1"].next_hop == expected


def test_two_routers_from_two_addresses() -> None:
    found = sessions(
        [speaker(1)],
        peer(["node1"], peerIP="10.10.1.254", asNumber=65001),
        peer(["node1"], peerIP="10.20.1.254", asNumber=65001, sourceAddress="10.20.1.1/24"),
        peer(["node1"], peerIP="10.30.1.254", asNumber=65001, sourceAddress="10.30.1.1"),
        peer(["node1"], peerIP="10.40.1.254", asNumber=65001, sourceAddress="None"),
    )["node1"]
    assert [(own.source_address, own.multihop) for own in found.values()] == [
        (None, False),
        ("10.20.1.1", False),
        ("10.30.1.1", True),
        ("", True),
    ]


def test_a_source_address_is_one_of_sessions_of_its_family() -> None:
    for source in ("10.20.1.1", "fd00:20::1"):
        found = sessions([both(1), both(2)], peer(["node1"], peerSelector="rack == 'a'", sourceAddress=source))["node1"]
        assert {own.family: own.source_address for own in found.values() if own.node == "node2"} == {
            4: source if "." in source else None,
            6: source if ":" in source else None,
        }


def test_a_source_address_is_where_the_other_node_finds_its_peer() -> None:
    found = sessions([speaker(1), speaker(2)], peer(peerIP="10.10.1.2", node="node1", sourceAddress="10.20.1.1/24"))
    assert names(found) == {"node1": ["Node_10_10_1_2"], "node2": ["Node_10_20_1_1"]}
    ahead, back = found["node1"]["Node_10_10_1_2"], found["node2"]["Node_10_20_1_1"]
    assert ahead.passive != back.passive


def test_every_option_of_a_bgp_peer() -> None:
    found = sessions(
        [speaker(1)],
        peer(
            peerIP="192.0.2.1",
            asNumber=64512,
            password="tor:password",
            ttlSecurity=2,
            maxRestartTime="90.5s",
            numAllowedLocalASNumbers=2,
            nextHopMode="Self",
            reachableBy="10.10.1.254",
            filters=["one", "two"],
            holdTime="1m30s",
            keepaliveTime=20,
            connectRetryTime="7s",
            longLivedStaleTime="1h",
            listenPort=1790,
            bfd={"minRx": 300, "multiplier": 3},
        ),
    )["node1"]["Global_192_0_2_1"]
    assert found == BirdPeer(
        "Global_192_0_2_1",
        "192.0.2.1",
        64512,
        "external",
        local_port=1790,
        password="tor:password",
        ttl_security=2,
        hold_time=90,
        keepalive_time=20,
        connect_retry_time=7,
        graceful_restart_time=91,
        long_lived_stale_time=3600,
        bfd=Bfd(300, 100, 3),
        next_hop="self",
        allow_local_as=2,
        reachable_by="10.10.1.254",
        filters=("one", "two"),
    )


def test_a_router_of_the_own_as_is_a_reflectors_client() -> None:
    found = sessions([speaker(1, cluster_id="244.0.0.1")], peer(peerIP="192.0.2.1", asNumber=64512))
    assert found["node1"]["Global_192_0_2_1"].cluster_id == "244.0.0.1"


# --- sessions compared with a search of all pairs of nodes ----------------------------------------------------------

RACKS = ("a", "b", "rr")
SELECTORS = ("all()", "rack == 'a'", "rack != 'a'", "has(spare)", "rack in {'b', 'rr'}")


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Speaker], list[PeerDefinition]]:
    speakers = [
        (both if draw(st.booleans()) else speaker)(
            number,
            rack=draw(st.sampled_from(RACKS)),
            as_number=draw(st.sampled_from((64512, 64512, 64600))),
            cluster_id=draw(st.sampled_from(("", "", "244.0.0.1", "244.0.0.2"))),
            listen_port=draw(st.sampled_from((179, 1179))),
        )
        for number in range(1, draw(st.integers(2, 6)) + 1)
    ]
    names_of_nodes = [one.name for one in speakers]
    addresses = [address for one in speakers for address in (one.address, one.address6) if address]
    peers = []
    for dummy in range(draw(st.integers(0, 4))):
        fields: dict[str, t.Any] = {}
        local = draw(st.sampled_from(("all", "node", "selector")))
        if local == "node":
            fields["node"] = draw(st.sampled_from(names_of_nodes))
        elif local == "selector":
            fields["nodeSelector"] = draw(st.sampled_from(SELECTORS))
        if draw(st.booleans()):
            fields["peerSelector"] = draw(st.sampled_from(SELECTORS))
        else:
            fields["peerIP"] = draw(st.sampled_from([*addresses, "192.0.2.1"]))
            fields["asNumber"] = draw(st.sampled_from((64512, 64600)))
        if draw(st.booleans()):
            fields["reversePeering"] = "Manual"
        members = draw(st.none() | st.sets(st.sampled_from(names_of_nodes)))
        peers.append(peer(members, **fields, holdTime=draw(st.integers(3, 9))))
    return speakers, peers


Fact = tuple[str, str, int, int, t.Optional[int]]  # name, address, AS, port, hold time


def by_all_pairs(own: Speaker, speakers: t.Sequence[Speaker], peers: t.Sequence[PeerDefinition]) -> set[Fact]:
    """Return the sessions of `own` as confd computes them: global peers, its own peers, then reverse ones.

    The first session with an address and port counts.
    """

    def local(one: PeerDefinition) -> list[Speaker]:
        chosen = [node for node in speakers if one.members is None or node.name in one.members]
        if one.peer.node:
            return [node for node in chosen if node.name == one.peer.node]
        matches = selectors.parse(one.peer.nodeSelector or "all()").matches
        return [node for node in chosen if matches(node.labels)]

    def remote(one: PeerDefinition) -> list[Speaker]:
        if one.peer.peerSelector:
            return [node for node in speakers if selectors.parse(one.peer.peerSelector).matches(node.labels)]
        return [
            node
            for node in speakers
            if one.peer.peerIP in (node.address, node.address6) and one.peer.asNumber == node.as_number
        ]

    found: dict[tuple[str, int], Fact] = {}

    def emit(prefix: str, address: str, as_number: int, port: int, one: PeerDefinition) -> None:
        six = ":" in address
        if not (own.address6 if six else own.address) or address in (own.address, own.address6):
            return
        suffix = f"_port_{port}" if port != 179 else ""
        name = f"{prefix}_{address.replace('.', '_').replace(':', '_')}{suffix}"
        found.setdefault((address, port), (name, address, as_number, port, one.extensions.holdTime))

    for is_global in (True, False):
        for one in peers:
            if one.is_global != is_global or own not in local(one):
                continue
            prefix = "Global" if is_global else "Node"
            if one.peer.peerSelector:
                for node in remote(one):
                    for address in (node.address, node.address6):
                        if address:
                            emit(prefix, address, node.as_number, node.listen_port, one)
            else:
                known = [node for node in speakers if one.peer.peerIP in (node.address, node.address6)]
                port = known[0].listen_port if known else 179
                emit(prefix, one.peer.peerIP, one.peer.asNumber or 0, port, one)
    for one in peers:
        if one.peer.reversePeering == "Manual" or own not in remote(one):
            continue
        for node in local(one):
            for address in (node.address, node.address6):
                if address and (one.peer.peerSelector or (":" in address) == (":" in one.peer.peerIP)):
                    emit("Node", address, node.as_number, node.listen_port, one)
    return set(found.values())


@given(fleets())
@settings(max_examples=40)
def test_the_same_sessions_as_by_all_pairs(fleet: tuple[list[Speaker], list[PeerDefinition]]) -> None:
    speakers, peers = fleet
    peering = Peering(speakers, peers, NO_MESH)
    for own in speakers:
        found = {
            (
                one.name,
                one.address,
                one.as_number,
                one.port or (own.listen_port if one.node else 179),
                one.hold_time,
            )
            for one in peering.sessions(own.name)
        }
        assert found == by_all_pairs(own, speakers, peers)


@given(fleets())
@settings(max_examples=40)
def test_both_ends_of_a_session_fit(fleet: tuple[list[Speaker], list[PeerDefinition]]) -> None:
    """Both ends of a session fit.

    Unless a peer is requested at one end only, or in an AS that does not exist, each session has another end with the
    right AS number and address, and exactly one of both is passive. A session with a reflector is one with a client at
    its other end, and exactly sessions with clients have a cluster ID.
    """
    speakers, peers = fleet
    peers = [one for one in peers if one.peer.reversePeering == "Auto" and one.peer.peerSelector]
    peering = Peering(speakers, peers, Unasked())
    by_name = {one.name: one for one in speakers}
    every = {(own.name, one.node, one.family): one for own in speakers for one in peering.sessions(own.name)}
    for (own, other, family), one in every.items():
        back = every[(other, own, family)]
        assert one.passive != back.passive
        assert one.as_number == by_name[other].as_number
        assert one.address == by_name[other].end(family)
        assert (one.cluster_id is not None) == (one.kind == "client")
        if one.kind == "reflector":
            assert back.kind == "client"


# --- label look-ups, the passive side, addresses, ports and names of sessions ---------------------------------------


class Counted(dict[str, str]):
    """Labels that count in `asked` how often a label is looked up."""

    asked = 0

    def __getitem__(self, key: str) -> str:
        self.asked += 1
        return super().__getitem__(key)

    def get(self, key: str, default: t.Any = None) -> t.Any:
        self.asked += 1
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked += 1
        return super().__contains__(key)


def test_each_node_is_asked_for_its_labels_once_for_each_selector() -> None:
    def asked(count: int) -> int:
        labels = [Counted(rack="rr" if number < 2 else "a") for number in range(count)]
        speakers = [
            speaker(number % 250 + 1, name=f"n{number}", address=f"10.{number // 250}.1.{number % 250 + 1}", labels=one)
            for number, one in enumerate(labels)
        ]
        peering = Peering(speakers, [peer(nodeSelector="rack == 'a'", peerSelector="rack == 'rr'")], NO_MESH)
        assert sum(len(peering.sessions(one.name)) for one in speakers) == 2 * 2 * (count - 2)
        return sum(one.asked for one in labels)

    assert asked(400) <= 2 * 400


@pytest.mark.parametrize(
    ("lower", "higher", "lower_waits"),
    [(1, 2, True), (1, 3, False), (1, 4, True), (2, 3, False), (3, 5, True), (4, 5, False)],
)
def test_the_passive_side_is_the_same_in_all_releases(lower: int, higher: int, lower_waits: bool) -> None:
    """Nodes of two releases in a rolling update agree on it: the lower address waits if an even number of bits differ.

    If both were passive, they would have no session.
    """
    found = sessions([speaker(lower), speaker(higher)], unasked=Unasked())
    (of_lower,), (of_higher,) = (found[f"node{number}"].values() for number in (lower, higher))
    assert (of_lower.passive, of_higher.passive) == (lower_waits, not lower_waits)


@pytest.mark.parametrize(
    ("fields", "sources"),
    [({}, (None, None)), ({"sourceAddress": "UseNodeIP"}, (None, None)), ({"sourceAddress": "None"}, ("", ""))],
)
def test_without_a_source_address_the_kernel_chooses_it_at_both_ends(
    fields: dict[str, str], sources: tuple[t.Optional[str], ...]
) -> None:
    found = sessions([speaker(1), speaker(2)], peer(peerIP="10.10.1.2", node="node1", **fields))
    assert tuple(one.source_address for own in found.values() for one in own.values()) == sources


def test_the_other_end_calls_the_port_at_which_a_peer_listens() -> None:
    found = sessions([speaker(1), speaker(2)], peer(peerIP="10.10.1.2", node="node1", listenPort=1790))
    (ahead,), (back,) = (own.values() for own in found.values())
    assert (ahead.local_port, ahead.port, back.local_port, back.port) == (1790, None, None, 1790)


@pytest.mark.parametrize(("as_number", "back"), [(0, ["Node_10_10_1_1"]), (64512, ["Node_10_10_1_1"]), (1, [])])
def test_a_node_is_meant_by_its_as_number_or_none(as_number: int, back: list[str]) -> None:
    found = sessions([speaker(1), speaker(2)], peer(peerIP="10.10.1.2", asNumber=as_number, node="node1"))
    assert names(found) == {"node1": ["Node_10_10_1_2"], "node2": back}


def test_a_router_with_and_without_the_port_of_bgp_is_one_router() -> None:
    found = sessions(
        [speaker(1)],
        peer(peerIP="10.10.1.254:179", asNumber=65001),
        peer(peerIP="10.10.1.254", asNumber=65001),
        peer(peerIP="10.10.1.254:1790", asNumber=65001),
    )["node1"]
    assert [(one.address, one.port) for one in found.values()] == [("10.10.1.254", None), ("10.10.1.254", 1790)]
