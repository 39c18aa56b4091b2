# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text for each field of a BirdPeer; tests/integration/bird/sessions shows that BIRD can read it."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import (
    DEFAULT_CONNECT_RETRY_TIME,
    Bfd,
    Bird,
    BirdPeer,
    BirdPool,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

from tests.unit.bgp import bird_facts

PEER = BirdPeer("Node_10_10_1_12", "10.10.1.12", 64512, "node", node="node2")
ROUTER = BirdPeer("Node_10_10_1_1", "10.10.1.1", 65000, "external", multihop=False)
BIRD = Bird(
    "10.10.1.11",
    "10.10.1.11",
    64512,
    "10.10.1.0/24",
    pools=(BirdPool("10.244.0.0/16", block_size=26),),
    address6="fd00::11",
    subnet6="fd00::/64",
)
#: The statements of the session PEER. The cases below add statements to them.
PLAIN = ('description "node2";', "neighbor 10.10.1.12 port 179 as 64512;", "multihop;")


def text(*peers: BirdPeer, **changes: t.Any) -> str:
    bird = dataclasses.replace(BIRD, peers=peers, **changes)
    return bird_config.render(NodeState("node1", "10.10.1.11/24", bird=bird).to_dict()["bird"])


def session(peer: BirdPeer, **changes: t.Any) -> bird_facts.Block:
    return bird_facts.blocks(text(peer, **changes))[peer.name]


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, ()),
        ({"passive": True}, ("passive on;",)),
        ({"cluster_id": "244.0.0.1"}, ("rr client;", "rr cluster id 244.0.0.1;")),
        ({"password": "mesh:password"}, ("password 'calico_secret_mesh:password';",)),
        ({"hold_time": 9, "keepalive_time": 3}, ("hold time 9;", "keepalive time 3;")),
        ({"connect_retry_time": 7}, ("connect retry time 7;",)),
        ({"graceful_restart_time": 60}, ("graceful restart time 60;",)),
        ({"graceful_restart_time": 0}, ("graceful restart time 0;",)),
        ({"long_lived_stale_time": 600}, ("long lived graceful restart on;", "long lived stale time 600;")),
        (
            {"bfd": Bfd(300, 200, 3)},
            ("bfd { min rx interval 300 ms; min tx interval 200 ms; multiplier 3; };",),
        ),
        ({"allow_local_as": 2}, ("allow local as 2;",)),
    ],
)
def test_a_line_for_what_is_not_said_of_all(fields: dict[str, t.Any], lines: tuple[str, ...]) -> None:
    found = session(dataclasses.replace(PEER, **fields), secrets=("mesh:password",))
    assert found.statements == (*PLAIN, *lines)
    assert (found.parent, found.channels) == ("calico_fleet", {})


def test_ends_of_a_session() -> None:
    fields = {"port": 1179, "local_port": 1180, "local_as": 65010, "source_address": "10.20.1.11"}
    assert session(dataclasses.replace(PEER, **fields)).statements == (
        'description "node2";',
        "source address 10.20.1.11;",
        "local port 1180 as 65010;",
        "neighbor 10.10.1.12 port 1179 as 64512;",
        "multihop;",
    )
    assert session(PEER, listen_port=1179).statements[1] == "neighbor 10.10.1.12 port 1179 as 64512;"
    assert session(ROUTER, listen_port=1179).statements == ("neighbor 10.10.1.1 as 65000;", "direct;")
    assert session(dataclasses.replace(ROUTER, port=179)).statements[0] == "neighbor 10.10.1.1 port 179 as 65000;"


def test_ttl_security_says_how_many_hops() -> None:
    lines = session(dataclasses.replace(ROUTER, ttl_security=2)).statements
    assert lines == ("neighbor 10.10.1.1 as 65000;", "multihop 2;", "ttl security on;")


@pytest.mark.parametrize("peer", [PEER, ROUTER], ids=["node", "router"])
@pytest.mark.parametrize("mode", ["keep", "self"])
def test_the_next_hop_belongs_to_the_channel(peer: BirdPeer, mode: str) -> None:
    found = session(dataclasses.replace(peer, next_hop=mode))
    assert found.channels == {"ipv4": (f"next hop {mode};",)}


@pytest.mark.parametrize(
    ("peer", "channel"),
    [
        (PEER, ("import filter calico_from_peers;", "export filter calico_to_fleet;")),
        (ROUTER, ("gateway recursive;", "import filter calico_from_peers;", "export filter calico_to_external;")),
    ],
    ids=["node", "router"],
)
def test_without_a_source_address_nothing_is_taken_from_what_has_one(peer: BirdPeer, channel: tuple[str, ...]) -> None:
    found = session(dataclasses.replace(peer, source_address="", next_hop="self"))
    assert found.parent == "calico_peer"
    assert "local port 179 as 64512;" in found.statements
    assert found.channels == {"ipv4": (*channel, "next hop self;")}
    assert not any(
        "source address" in line
        for line in (*found.statements, *bird_facts.blocks(text(peer))["calico_peer"].statements)
    )


@pytest.mark.parametrize(
    ("fields", "reflected"),
    [({}, False), ({"next_hop": "self"}, False), ({"next_hop": "keep"}, True), ({"cluster_id": "244.0.0.1"}, True)],
)
def test_a_reflector_tells_routers_of_others_blocks_where_packets_then_go_there(
    fields: dict[str, t.Any], reflected: bool
) -> None:
    peer = dataclasses.replace(ROUTER, **fields)
    lines = session(peer, cluster_id="244.0.0.1").channels.get("ipv4", ())
    assert ("export filter calico_to_fleet;" in lines) == reflected
    assert "export filter calico_to_fleet;" not in session(peer).channels.get("ipv4", ())


@pytest.mark.parametrize(("suffix", "channel", "source"), [("", "ipv4", "10.10.1.11"), ("6", "ipv6", "fd00::11")])
def test_each_family_has_templates_of_its_own(suffix: str, channel: str, source: str) -> None:
    six = BirdPeer("Node_fd00__1", "fd00::1", 65000, "external", family=6, multihop=False)
    every = bird_facts.blocks(text(PEER, ROUTER, six, listen_port=1179, strict_bind=True))
    for name in (f"calico_fleet{suffix}", f"calico_external{suffix}"):
        assert every[name].parent == "calico_peer"
        assert every[name].statements == (f"source address {source};", "local port 1179 as 64512;", "strict bind on;")
        assert list(every[name].channels) == [channel]
    assert every["Node_fd00__1"].parent == "calico_external6"


def test_with_strict_bind_each_session_listens_on_the_nodes_address() -> None:
    """A socket on all addresses and one on the node's address cannot listen with one port, and BIRD would lack one."""
    free = dataclasses.replace(PEER, source_address="")
    router = dataclasses.replace(ROUTER, source_address="")
    assert [session(peer).parent for peer in (free, router)] == ["calico_peer", "calico_peer"]
    bound = [session(peer, strict_bind=True) for peer in (free, router)]
    assert [found.parent for found in bound] == ["calico_fleet", "calico_external"]
    assert [found.statements for found in bound] == [PLAIN, ("neighbor 10.10.1.1 as 65000;", "direct;")]
    assert [found.channels for found in bound] == [{}, {}]


def test_no_template_for_a_family_that_the_node_does_not_have() -> None:
    assert "calico_fleet6" not in bird_facts.blocks(text(PEER, address6=""))


def test_options_of_all_sessions_are_in_the_peer_template() -> None:
    found = bird_facts.blocks(text(hold_time=9, keepalive_time=3, long_lived_stale_time=600))["calico_peer"].statements
    assert {"hold time 9;", "keepalive time 3;", "long lived graceful restart on;", "long lived stale time 600;"} <= {
        *found
    }
    assert f"connect retry time {DEFAULT_CONNECT_RETRY_TIME};" in found
    assert not any("long lived" in line for line in bird_facts.blocks(text())["calico_peer"].statements)


def test_bfd_is_there_for_those_who_ask() -> None:
    """BFD is configured if a session needs it, since a session's option alone has no effect and is no error to BIRD."""
    assert "protocol bfd calico_bfd {\n}" in text(PEER, dataclasses.replace(ROUTER, bfd=Bfd()))
    assert "protocol bfd" not in text(PEER, ROUTER)


def test_ways_to_peers_are_the_kernels_too() -> None:
    four = dataclasses.replace(ROUTER, address="192.0.2.1", reachable_by="10.10.1.254")
    six = dataclasses.replace(ROUTER, name="x", address="2001:db8::1", family=6, reachable_by="fd00::fe")
    rendered = text(PEER, four, six)
    assert bird_facts.routes(rendered, "calico_reachable4") == ("route 192.0.2.1/32 via 10.10.1.254",)
    assert bird_facts.routes(rendered, "calico_reachable6") == ("route 2001:db8::1/128 via fd00::fe",)
    assert 'if proto ~ "calico_reachable*" then accept;' in rendered
    for workload_node in (True, False):
        assert "calico_reachable" not in text(PEER, ROUTER, workload_node=workload_node)
