# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the routes that each node receives, with routers outside the fleet and with sessions of one IP version.

tests/integration/bird/routes/test_reach.py compares sessions among nodes with real BIRDs.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import reach

from tests.unit.fleet.fleets import pool
from tests.unit.fleet.lint.networks import found, network

NODES = {"a1": "10.10.1.11/24", "a2": "10.10.1.12/24", "b1": "10.10.2.11/24"}
EVERYBODY = set(NODES)
#: The bit of each node's blocks in the results of `reach.heard_of`.
BITS = {name: 1 << index for index, name in enumerate(NODES)}


def router(node: str, as_number: int) -> dict[str, t.Any]:
    return {"name": f"r-{node}", "node": node, "peerIP": "10.20.0.1", "asNumber": as_number}


def heard(*peers: t.Mapping[str, t.Any], reflects: bool = False, **more: t.Any) -> dict[str, set[str]]:
    """Return {node: the names of the nodes whose IPv4 blocks it has or receives, itself included}.

    a1 and b1 may have a session with a router outside the fleet (`peers`). a2 has a session with a1 only. With
    `reflects` a1 is a route reflector. `more` are further arguments of `network`.
    """
    own = {"a1": {"calico_node_route_reflector_cluster_id": "244.0.0.1"}} if reflects else {}
    between = {"name": "a", "node": "a1", "peerSelector": "kubernetes.io/hostname == 'a2'"}
    given = network(
        pool(), nodes=NODES, workloads=[], own=own, bgp_peers=[*peers, between], bgp_node_to_node_mesh=False, **more
    )
    bits = BITS
    found = reach.heard_of(given, 4, bits)
    return {name: {other for other in bits if found[name] & bits[other]} for name in bits}


@pytest.mark.parametrize("as_number", [65000, 64512])
def test_routers_outside_carry_blocks_between_nodes_that_peer_with_them(as_number: int) -> None:
    peers = [router("a1", as_number), router("b1", as_number)]
    # a1 advertises only its own blocks to a2. A reflector also advertises routes from eBGP peers and from clients.
    assert heard(*peers) == {"a1": EVERYBODY, "a2": {"a1", "a2"}, "b1": {"a1", "b1"}}
    assert heard(*peers, reflects=True) == {"a1": EVERYBODY, "a2": EVERYBODY, "b1": {"a1", "b1"}}


def test_a_router_that_is_no_client_is_passed_on_to_clients_alone() -> None:
    """If localASNumber makes a session with a router eBGP, a reflector advertises the router's routes to all peers."""
    outer = [{**router(node, 64512), "localASNumber": 64600} for node in ("a1", "b1")]
    assert heard(*outer, reflects=True)["a2"] == EVERYBODY


def test_a_node_without_a_router_receives_no_blocks_from_a_router() -> None:
    assert heard(router("b1", 65000)) == {"a1": {"a1", "a2"}, "a2": {"a1", "a2"}, "b1": {"b1"}}


def test_each_family_has_sessions_of_its_own() -> None:
    """Nodes that peer by their IPv4 addresses alone advertise no IPv6 routes to each other, and this is reported."""
    two = {name: NODES[name] for name in ("a1", "a2")}
    own = {name: {"calico_node_address_ipv6": f"fd00::{index}/64"} for index, name in enumerate(two, 1)}
    peers = [{"name": "p", "node": "a1", "peerIP": "10.10.1.12"}, {"name": "q", "node": "a1", "peerIP": "fd00::2"}]
    common: dict[str, t.Any] = {"nodes": two, "own": own, "workloads": [], "bgp_node_to_node_mesh": False}
    pools = [pool(), pool(name="six", cidr="fd00:10:244::/64")]
    assert found(network(*pools, bgp_peers=peers, **common), "blocks-do-not-arrive") == []
    apart = {"name": "r", "node": "a1", "peerIP": "fd00::99", "asNumber": 64512}
    (text,) = found(network(*pools, bgp_peers=[peers[0], apart], **common), "blocks-do-not-arrive")
    assert text.startswith(
        "error: calico_node_address_ipv6 of a1 is that of a node that never learns routes to the blocks of a2:"
    )


def test_a_single_node_lacks_no_blocks() -> None:
    one = {"a1": NODES["a1"]}
    given = network(pool(), nodes=one, workloads=[], bgp_peers=[router("a1", 65000)], bgp_node_to_node_mesh=False)
    assert found(given, "blocks-do-not-arrive") == []


@pytest.mark.parametrize(
    ("fields", "peer", "mesh", "count"),
    [
        ({}, {}, False, 1),
        ({"disableBGPExport": True}, {}, False, 0),  # no finding: the pool's blocks are not advertised
        ({}, {"asNumber": 64512}, False, 0),  # no finding: iBGP keeps the next hop
        ({}, {}, True, 0),  # no finding: the other node's own advertisement is preferred
        ({}, {"peerIP": "10.10.1.12", "asNumber": None}, False, 0),  # no finding: the peer is a node, not a router
    ],
)
def test_a_router_between_the_ends_of_a_tunnel(
    fields: dict[str, t.Any], peer: dict[str, t.Any], mesh: bool, count: int
) -> None:
    own = {"b1": {"calico_node_bgp_as_number": 64513}}
    peers = [{**router("a1", 65000), **peer}]
    pools = [pool("vxlan", **fields)]
    given = network(*pools, nodes=NODES, workloads=[], own=own, bgp_peers=peers, bgp_node_to_node_mesh=mesh)
    assert len(found(given, "tunnel-behind-router")) == count


def test_nodes_that_peer_with_other_nodes_too_hear_them_themselves() -> None:
    own = {"b1": {"calico_node_bgp_as_number": 64513}}
    common: dict[str, t.Any] = {"nodes": NODES, "workloads": [], "own": own, "bgp_node_to_node_mesh": False}
    between = {"name": "a", "node": "a1", "peerSelector": "all()"}
    alone = network(pool("vxlan"), bgp_peers=[router("a1", 65000)], **common)
    both = network(pool("vxlan"), bgp_peers=[router("a1", 65000), between], **common)
    assert [len(found(given, "tunnel-behind-router")) for given in (alone, both)] == [1, 0]


def test_a_node_that_is_no_reflector_advertises_only_its_own_blocks() -> None:
    """A session of two nodes carries nothing of a third one, which has no session."""
    peers = [{"name": "p", "node": "b1", "peerIP": "10.10.1.12"}, {"name": "q", "node": "a2", "peerIP": "10.10.2.11"}]
    given = network(pool(), nodes=NODES, workloads=[], bgp_peers=peers, bgp_node_to_node_mesh=False)
    assert reach.heard_of(given, 4, BITS) == {"a1": 1, "a2": 2 | 4, "b1": 2 | 4}


@pytest.mark.parametrize("as_number", [64512, 65000])
def test_a_reflector_without_workloads_has_no_blocks_of_its_own(as_number: int) -> None:
    """A host of calico_rr, which is no origin, passes on what its clients and the router advertise, and no more.

    The router is of the fleet's AS (64512) or of another.
    """
    given = network(
        pool(),
        nodes=NODES,
        reflectors={"rr1": "10.10.1.2/24"},
        own={"rr1": {"calico_node_route_reflector_clients": "kubernetes.io/hostname in {'a2', 'b1'}"}},
        workloads=[],
        bgp_peers=[router("rr1", as_number), {**router("b1", as_number), "peerIP": "10.20.0.2"}],
        bgp_node_to_node_mesh=False,
    )
    assert reach.heard_of(given, 4, BITS) == {"a1": 1, "a2": 2 | 4, "b1": 2 | 4, "rr1": 2 | 4}


def test_a_mesh_carries_the_blocks_of_its_members() -> None:
    """Each member of the node-to-node mesh hears of all members, and a member without blocks adds none."""
    given = network(pool(), nodes=NODES, workloads=[])
    assert set(reach.heard_of(given, 4, BITS).values()) == {1 | 2 | 4}
    without_a1 = {name: bit for name, bit in BITS.items() if name != "a1"}
    assert set(reach.heard_of(given, 4, without_a1).values()) == {2 | 4}


def two_reflectors(cluster_id: str, *peers: t.Mapping[str, t.Any]) -> dict[str, int]:
    """Return {host: the sum of the BITS of the nodes whose blocks it has or receives}, in a fleet with two reflectors.

    rr1 reflects for a1 only, and rr2, with this cluster id, for a2 only. `peers` are the only BGPPeers.
    """
    clients = "calico_node_route_reflector_clients"
    given = network(
        pool(),
        nodes=NODES,
        reflectors={"rr1": "10.10.1.2/24", "rr2": "10.10.1.3/24"},
        own={
            "rr1": {clients: "kubernetes.io/hostname == 'a1'"},
            "rr2": {
                clients: "kubernetes.io/hostname == 'a2'",
                "calico_node_route_reflector_cluster_id": cluster_id,
            },
        },
        workloads=[],
        bgp_peers=peers,
        bgp_node_to_node_mesh=False,
    )
    return reach.heard_of(given, 4, BITS)


@pytest.mark.parametrize("as_number", [64512, 65000])
def test_a_reflector_passes_the_routes_of_a_router_to_all_peers(as_number: int) -> None:
    """A router is a client of a reflector or an eBGP peer, whose routes reach other reflectors and their clients."""
    peers = [router("rr1", as_number), {**router("b1", as_number), "peerIP": "10.20.0.2"}]
    everything = 1 | 2 | 4
    assert two_reflectors("244.0.0.9", *peers) == {**dict.fromkeys(("a1", "a2", "rr1", "rr2"), everything), "b1": 4}


def test_reflectors_of_one_cluster_do_not_pass_on_what_the_other_reflected() -> None:
    """RFC 4456: a route with a reflector's own cluster id in its list is not passed on to its clients."""
    assert two_reflectors("244.0.0.1") == {"a1": 1, "a2": 2, "b1": 4, "rr1": 1 | 2, "rr2": 1 | 2}
    assert two_reflectors("244.0.0.9") == {"a1": 1 | 2, "a2": 1 | 2, "b1": 4, "rr1": 1 | 2, "rr2": 1 | 2}


@pytest.mark.parametrize(
    ("reflector", "words"),
    [
        ({"cluster": "244.0.0.1"}, " (1 other node also lack some)"),
        ({"cluster": "244.0.0.9"}, None),
    ],
)
def test_the_others_that_lack_blocks_are_counted(reflector: dict[str, str], words: t.Optional[str]) -> None:
    """If the reflectors of two nodes have one cluster id, one node is named, and the other counted.

    With different ids both nodes hear of each other's blocks, and nothing is found.
    """
    clients = "calico_node_route_reflector_clients"
    two = {name: NODES[name] for name in ("a1", "a2")}
    own = {
        "rr1": {clients: "kubernetes.io/hostname == 'a1'"},
        "rr2": {
            clients: "kubernetes.io/hostname == 'a2'",
            "calico_node_route_reflector_cluster_id": reflector["cluster"],
        },
    }
    reflectors = {"rr1": "10.10.1.2/24", "rr2": "10.10.1.3/24"}
    given = network(pool(), nodes=two, reflectors=reflectors, own=own, workloads=[], bgp_node_to_node_mesh=False)
    texts = found(given, "blocks-do-not-arrive")
    sentence = f"never learns routes to the blocks of a2: no chain of sessions advertises them{words}."
    assert [sentence in one for one in texts] == ([True] if words else [])
