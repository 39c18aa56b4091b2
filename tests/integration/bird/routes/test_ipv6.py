# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same BIRDs with IPv6: the kernel's routes mode by mode, the accepted peers, and changes of mode without loss."""

from __future__ import annotations

import re
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import (
    Bird,
    BirdPeer,
    BirdPool,
    Vtep6,
)

from tests.integration.bird.daemons import AS_NUMBER, Fleet, bird_of, peer, pool
from tests.integration.bird.debian_bird import EACH_RELEASE, USABLE
from tests.integration.bird.interop import stranger
from tests.integration.bird.network import POOL6, Network, Node, wait_for
from tests.integration.bird.route_monitor import RouteMonitor

pytestmark = pytest.mark.root
EACH = pytest.mark.parametrize("build", EACH_RELEASE, indirect=True)
EVERY = pytest.mark.parametrize("build", USABLE, indirect=True)

VIA_TUNNEL = [
    "fd00:10:244:2::/122 via fe80::6400:ff:fe00:2 dev vxlan-v6.calico proto bird metric 1024 onlink",
    "fd00:10:244:3::/122 via fe80::6400:ff:fe00:3 dev vxlan-v6.calico proto bird metric 1024 onlink",
    "fd00:10:244:4::/122 via fe80::6400:ff:fe00:4 dev vxlan-v6.calico proto bird metric 1024 onlink",
]
DIRECT = [
    "fd00:10:244:2::/122 via fd00:10:1::12 dev eth0 proto bird metric 1024",
    "fd00:10:244:3::/122 via fd00:10:1::1 dev eth0 proto bird metric 1024",
    "fd00:10:244:4::/122 via fd00:10:1::1 dev eth0 proto bird metric 1024",
]
TUNNEL, CROSS_SUBNET, PLAIN = (
    BirdPool(POOL6, "vxlan-v6.calico", block_size=122),
    BirdPool(POOL6, "vxlan-v6.calico", True, block_size=122),
    BirdPool(POOL6, block_size=122),
)


def dual_stack(nodes: t.Sequence[Node], *pools: BirdPool, **fields: t.Any) -> dict[str, Bird]:
    """Return the BIRDs of a full mesh by node, with an IPv4 and an IPv6 session between each two of `nodes`.

    Each has these pools; `fields` are further fields of Bird, the same for all.
    """
    birds = {}
    for node in nodes:
        others = [other for other in nodes if other is not node]
        peers = [peer(node, other) for other in others]
        peers += [
            BirdPeer(
                f"Mesh_{other.address6.replace(':', '_')}", other.address6, AS_NUMBER, "mesh",
                passive=node.index > other.index, node=other.name, family=6,
            )
            for other in others
        ]  # fmt: skip
        birds[node.name] = bird_of(
            node,
            peers,
            *pools,
            blocks=(node.block, node.block6),
            address6=node.address6,
            subnet6=node.subnet6,
            vteps6=tuple(Vtep6(other.address6, other.vtep_link_local) for other in others),
            **fields,
        )
    return birds


def written(node: Node) -> list[str]:
    return [line for line in node.space.routes6() if " proto bird" in line]


@EVERY
@pytest.mark.parametrize(
    ("mode", "routes"),
    [(TUNNEL, VIA_TUNNEL), (CROSS_SUBNET, [DIRECT[0], *VIA_TUNNEL[1:]]), (PLAIN, DIRECT)],
    ids=["vxlan", "vxlan-crosssubnet", "direct"],
)
def test_routes_beside_those_of_ipv4(fleet: Fleet, network: Network, mode: BirdPool, routes: list[str]) -> None:
    node = network.nodes[0]
    before = node.space.routes6()
    fleet.start(dual_stack(network.nodes, pool("vxlan.calico"), mode))
    wait_for("three routes", lambda: len(written(node)) == 3)
    everything = node.space.routes6()
    assert [line for line in everything if " proto bird" in line] == routes
    # BIRD touched nothing else: connected, default, blackhole and workload routes are as they were.
    assert [line for line in everything if " proto bird" not in line] == before
    wait_for("those of IPv4", lambda: len(node.space.routes("proto", "bird")) == 3)
    # The node announces its block, and no workload.
    said = fleet["node1"].birdc("show", "route", "export", "Mesh_fd00_10_1__12")
    assert re.findall(r"^(\S+/\d+)", said, re.MULTILINE) == [node.block6]


@EACH
def test_ipv6_routes_are_not_written_again_at_the_next_scan(fleet: Fleet, network: Network) -> None:
    """BIRD does not rewrite its IPv6 routes at its next scan (every 5 s), although the kernel sets a metric on them."""
    fleet.start(dual_stack(network.nodes, TUNNEL))
    node = network.nodes[0]
    wait_for("three routes", lambda: len(written(node)) == 3)
    time.sleep(0.2)
    monitor = RouteMonitor(node.space, "-6")
    try:
        time.sleep(5.5)
        assert "proto bird" not in monitor.end()
    finally:
        monitor.close()


@EACH
def test_a_stale_peer_takes_nothing(fleet: Fleet, network: Network) -> None:
    one, liar = network.nodes[0], network.nodes[3]
    birds = dual_stack(network.nodes, PLAIN)
    for node in network.nodes[:3]:
        fleet[node.name].write(birds[node.name])
        fleet[node.name].start()
    claimed = [one.block6, f"{one.workload6}/128", liar.block6, "fd00:10:244:4::9/128", POOL6, "fd00:dead::/64", "::/0"]
    options = f"multihop; source address {liar.address6};"
    sessions = [
        stranger.neighbor(f"to_{other.name}", other.address6, AS_NUMBER, AS_NUMBER, options)
        for other in network.nodes[:3]
    ]
    fleet[liar.name].config.write_text(stranger.configuration(liar, claimed, *sessions))
    fleet[liar.name].start()
    for node in network.nodes[:3]:
        wait_for("the liar's own block", lambda n=node: len(written(n)) == 3)
    assert written(one) == DIRECT
    log = fleet[one.name].log.read_text()
    for prefix in (one.block6, f"{one.workload6}/128"):
        assert f"calico: refused {prefix} from {liar.address6}: it is inside a block of this node" in log
    learned = fleet["node2"].birdc("show", "route", "table", "master6", "where", "source = RTS_BGP", "primary")
    assert sorted(re.findall(r"^(\S+/\d+)", learned, re.MULTILINE)) == [one.block6, "fd00:10:244:3::/122", liar.block6]


@EACH
def test_a_node_that_is_not_known_is_not_reached_by_the_tunnel(fleet: Fleet, network: Network) -> None:
    one, two = network.nodes[:2]
    birds = dual_stack(network.nodes[:2], TUNNEL)
    fleet.start({**birds, "node1": bird_without_vteps(birds["node1"])})
    wait_for("the block in BIRD", lambda: two.block6 in fleet["node1"].birdc("show", "route", "table", "master6"))
    wait_for("node1's block at node2", lambda: len(written(two)) == 1)
    assert written(one) == []
    fleet["node1"].configure(birds["node1"])
    wait_for("its route", lambda: written(one) == VIA_TUNNEL[:1])


def bird_without_vteps(bird: Bird) -> Bird:
    return type(bird)(**{**vars(bird), "vteps6": ()})


@EACH
@pytest.mark.parametrize("size", [64, 1428], ids=["small", "full"])
def test_no_packet_is_lost(fleet: Fleet, network: Network, streams, size: int) -> None:
    """No packet of `size` bytes is lost while the nodes change the pool's mode, one after the other."""
    walk = [TUNNEL, PLAIN, CROSS_SUBNET, TUNNEL, CROSS_SUBNET, PLAIN, TUNNEL]
    fleet.start(dual_stack(network.nodes, walk[0]))
    for node in network.nodes:
        wait_for("three routes", lambda n=node: len(written(n)) == 3)
    with streams(size=size, family=6) as flows:
        for mode in walk[1:]:
            fleet.configure(dual_stack(network.nodes, mode))
            for node in network.nodes:
                far = network.nodes[3 if node.rack == 1 else 0].block6
                wait_for(
                    f"{node.name}: {mode}",
                    lambda n=node, f=far, d=mode.device or "eth0": (
                        f"dev {d}" in n.space.run("ip", "-6", "route", "show", f)
                    ),
                )
    assert flows.dropped == 0
    assert flows.sent > 1000
    assert flows.lost == {}


@EACH
def test_a_crash_loses_nothing(fleet: Fleet, network: Network, streams) -> None:
    fleet.start(dual_stack(network.nodes, TUNNEL))
    for node in network.nodes:
        wait_for("three routes", lambda n=node: len(written(n)) == 3)
    with streams(family=6) as flows:
        fleet["node1"].kill()
        time.sleep(1)  # systemd waits for RestartSec of the unit, 1 s, before it starts a killed BIRD again
        fleet["node1"].start(recover=True)
        fleet.wait_established()
        time.sleep(0.5)
    assert (flows.lost, flows.dropped) == ({}, 0)
    assert flows.sent > 1000
