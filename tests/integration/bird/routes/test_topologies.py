# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories compiled as in a run, with real BIRDs: all sessions come up, and all kernels have all others' blocks."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import passwords
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import secrets_file
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet as Plan
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory

from tests.integration.bird.daemons import Daemon, Fleet, bird_of, pool
from tests.integration.bird.network import POOL, POOL6, Network, Node, wait_for

pytestmark = pytest.mark.root

SECRETS = {"fleet": {"password": "as long as it is not told"}}
POOLS = [
    {"name": "four", "cidr": POOL, "blockSize": 26},
    {"name": "six", "cidr": POOL6, "blockSize": 122},
]


def birds(
    nodes: t.Sequence[Node],
    own: t.Mapping[str, t.Mapping[str, t.Any]] = {},
    reflectors: t.Collection[str] = (),
    **fleet: t.Any,
) -> dict[str, Bird]:
    """Return the compiler's BIRDs for the network's nodes, with the blocks that their kernels have.

    `own` holds variables of single nodes by name, and `reflectors` the names of those that are in calico_rr. `fleet`
    are variables of all nodes, without the prefix calico_.
    """
    hosts = [
        Host(
            node.name,
            {
                "calico_ip_pools": POOLS,
                "calico_bgp_secrets": SECRETS,
                **{f"calico_{name}": value for name, value in fleet.items()},
                "calico_node_address": f"{node.address}/24",
                "calico_node_address_ipv6": f"{node.address6}/64",
                "calico_node_labels": {"rack": f"r{node.rack}"},
                **own.get(node.name, {}),
            },
            reflector=node.name in reflectors,
        )
        for node in nodes
    ]
    plan = Plan.build(inventory.read(hosts), None)
    states = {node.name: compiler.node_state(plan, node.name) for node in nodes}
    return {node.name: _as_it_is(node, states[node.name].bird) for node in nodes}


def _as_it_is(node: Node, bird: t.Optional[Bird]) -> Bird:
    assert bird is not None
    return dataclasses.replace(bird, blocks=(node.block, node.block6), include_dir="")


def run(fleet: Fleet, network: Network, wanted: t.Mapping[str, Bird]) -> None:
    """Start all daemons, and wait until each has all sessions, and each kernel from BIRD exactly the others' blocks.

    Write the passwords beside the configurations. Raise AssertionError if a daemon does not answer within 60 seconds, a
    node lacks sessions 60 seconds after the start or the last wait, or blocks 60 seconds later.
    """
    folder = fleet["node1"].config
    values = {passwords.secret_name(name, key): text for name, keys in SECRETS.items() for key, text in keys.items()}
    pathlib.Path(secrets_file.beside(str(folder))).write_text(passwords.to_text(values))
    fleet.start(wanted)
    for node in network.nodes:
        others = [other for other in network.nodes if other is not node]
        for read, blocks in (
            (node.space.routes, {other.block for other in others}),
            (node.space.routes6, {other.block6 for other in others}),
        ):
            wait_for(
                f"{node.name}: {sorted(blocks)}",
                lambda read=read, blocks=blocks: {line.split()[0] for line in read("proto", "bird")} == blocks,
            )


def test_a_mesh_with_bfd_and_a_password(fleet: Fleet, network: Network) -> None:
    wanted = birds(
        network.nodes,
        bgp_bfd={"minRx": 100, "minTx": 100, "multiplier": 5},
        bgp_mesh_password={"secretKeyRef": {"name": "fleet", "key": "password"}},
        bgp_hold_time=9,
        bgp_keepalive_time=3,
        bgp_long_lived_stale_time=60,
    )
    assert {len(bird.peers) for bird in wanted.values()} == {6}
    run(fleet, network, wanted)
    for daemon in fleet.daemons.values():
        wait_for("BFD", lambda daemon=daemon: daemon.birdc("show", "bfd", "sessions").count(" Up ") == 6)
        # BFD ends a session when a busy machine lets it stand still for half a second; the session comes back.
        wait_for("sessions with a hold time of 9 s", lambda daemon=daemon: _held_for(daemon, 9) == 6)


def _held_for(daemon: Daemon, seconds: int) -> int:
    """Return the number of Established sessions of a BIRD whose hold time is this."""
    found = re.findall(rf"Hold timer: +[\d.]+/{seconds}$", daemon.birdc("show", "protocols", "all"), re.MULTILINE)
    return len(found)


def test_a_reflector_in_each_rack_with_a_cluster_id_of_its_own(fleet: Fleet, network: Network) -> None:
    def of_rack(rack: int) -> dict[str, str]:
        return {
            "calico_node_route_reflector_cluster_id": f"244.0.{rack}.1",
            "calico_node_route_reflector_clients": f"rack == 'r{rack}'",
        }

    wanted = birds(network.nodes, {"node1": of_rack(1), "node3": of_rack(2)}, reflectors=("node1", "node3"))
    assert {name: len(bird.peers) for name, bird in wanted.items()} == {"node1": 4, "node2": 2, "node3": 4, "node4": 2}
    run(fleet, network, wanted)


def test_reflectors_by_bgp_peers_as_in_calico(fleet: Fleet, network: Network) -> None:
    """Entries of calico_bgp_peers make node2 and node4 reflectors of one cluster, and all nodes learn all blocks."""
    reflector = {"calico_node_route_reflector_cluster_id": "244.0.0.7", "calico_node_labels": {"reflector": "yes"}}
    options = {"ttlSecurity": 2, "holdTime": "9s", "keepaliveTime": "3s", "maxRestartTime": "30s"}
    wanted = birds(
        network.nodes,
        {"node2": reflector, "node4": reflector},
        bgp_peers=[
            {"nodeSelector": "!has(reflector)", "peerSelector": "has(reflector)", **options},
            {"nodeSelector": "has(reflector)", "peerSelector": "has(reflector)", **options},
        ],
    )
    assert {name: len(bird.peers) for name, bird in wanted.items()} == {"node1": 4, "node2": 6, "node3": 4, "node4": 6}
    run(fleet, network, wanted)


def test_an_as_for_each_rack_and_another_port(fleet: Fleet, network: Network) -> None:
    own = {
        node.name: {"calico_node_bgp_as_number": 64600 + node.rack, "calico_node_bgp_listen_port": 1178 + node.rack}
        for node in network.nodes
    }
    wanted = birds(
        network.nodes,
        own,
        bgp_node_to_node_mesh=False,
        bgp_peers=[{"peerSelector": "all()", "bfd": True}],
        bgp_bind_mode="NodeIP",
    )
    names = {peer.name for peer in wanted["node1"].peers}
    assert {"Global_10_10_1_12_port_1179", "Global_10_10_2_13_port_1180", "Global_fd00_10_2__14_port_1180"} <= names
    run(fleet, network, wanted)


def test_a_reflector_tells_a_router_who_owns_which_block(fleet: Fleet, network: Network) -> None:
    """A reflector announces blocks to a router outside the fleet, here node4, with each block's owner as next hop."""
    *nodes, router = network.nodes
    wanted = birds(
        nodes,
        reflectors=("node1",),
        bgp_peers=[{"node": "node1", "peerIP": router.address, "asNumber": 65000, "keepOriginalNextHop": True}],
    )
    far = BirdPeer("Global_node1", nodes[0].address, 64512, "external")
    fleet.start({**wanted, router.name: bird_of(router, [far], pool(), as_number=65000)})
    gateways = {node.block: node.address if node.rack == router.rack else router.router for node in nodes}
    expected = {f"{block} via {gateway} dev eth0" for block, gateway in gateways.items()}
    wait_for(
        "all blocks", lambda: {line.split(" proto")[0] for line in router.space.routes("proto", "bird")} >= expected
    )
    heard = fleet[router.name].birdc("show", "route", "all", "protocol", "Global_node1")
    assert set(re.findall(r"(?i)bgp[._]next_hop: (\S+)", heard)) == {node.address for node in nodes}


def test_a_router_that_no_route_leads_to(fleet: Fleet, network: Network) -> None:
    """Sessions come up with two addresses of a router, here node4, to which node3 has a route only by reachableBy.

    A third session comes up from a second address of node3 to the router's address on eth0.
    """
    node, router = network.nodes[2:]
    router.space.ip("addr add 192.0.2.44/32 dev lo", "addr add 2001:db8::44/128 dev lo")
    node.space.ip("addr add 10.10.2.99/24 dev eth0")
    try:
        wanted = birds(
            network.nodes[:3],
            bgp_node_to_node_mesh=False,
            bgp_peers=[
                {"node": "node3", "peerIP": "192.0.2.44", "asNumber": 65000, "reachableBy": router.address},
                {"node": "node3", "peerIP": "2001:db8::44", "asNumber": 65000, "reachableBy": router.address6},
                {"node": "node3", "peerIP": router.address, "asNumber": 65000, "sourceAddress": "10.10.2.99/24"},
            ],
        )
        far = (
            BirdPeer("one", node.address, 64512, "external", source_address="192.0.2.44"),
            BirdPeer("six", node.address6, 64512, "external", source_address="2001:db8::44", family=6),
            BirdPeer("two", "10.10.2.99", 64512, "external"),
        )
        routers = bird_of(router, far, pool(), as_number=65000, address6=router.address6, subnet6=router.subnet6)
        fleet["node3"].write(wanted["node3"])
        fleet[router.name].write(routers)
        for name in ("node3", router.name):
            fleet[name].start()
        wait_for("sessions", lambda: fleet["node3"].established() == 3 and fleet[router.name].established() == 3)
        assert f"192.0.2.44 via {router.address} dev eth0 proto bird" in node.space.routes("192.0.2.44")
        assert any(line.startswith(f"2001:db8::44 via {router.address6} dev eth0") for line in node.space.routes6())
    finally:
        router.space.ip("addr del 192.0.2.44/32 dev lo", "addr del 2001:db8::44/128 dev lo")
        node.space.ip("addr del 10.10.2.99/24 dev eth0")
