# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIRD replaces a route in place whenever it writes: the kernel has the route at every moment.

Streams of packets find a gap only by chance; the kernel's notifications show each one. BIRD since 2.17 does not
recognise its own IPv6 route in the kernel (metric 1024) unless its own route has that metric, too: it deletes the one
and then adds the other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BackupRoute, Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import backup_routes

from tests.integration.bird.daemons import Fleet, pool
from tests.integration.bird.debian_bird import EACH_RELEASE, USABLE
from tests.integration.bird.network import Network, Node, wait_for
from tests.integration.bird.route_monitor import RouteMonitor
from tests.integration.bird.routes.test_ipv6 import PLAIN, TUNNEL, dual_stack
from tests.integration.bird.sessions.test_switch import limited, mtus, tell

pytestmark = pytest.mark.root
EACH = pytest.mark.parametrize("build", EACH_RELEASE, indirect=True)
EVERY = pytest.mark.parametrize("build", USABLE, indirect=True)

_EVENT = re.compile(r"^(Deleted )?(\S+/\d+) (.*) proto bird", re.MULTILINE)


@dataclasses.dataclass
class Written:
    """BIRD's writes of a node's routes.

    `ways` is {destination: its next hops in order of writing}. `deleted` has the deleted routes, with next hops.
    """

    ways: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    deleted: list[str] = dataclasses.field(default_factory=list)

    def read(self, events: str) -> None:
        for gone, destination, way in _EVENT.findall(events):
            if gone:
                self.deleted.append(f"{destination} {way}")
            else:
                self.ways.setdefault(destination, []).append(way)


@contextlib.contextmanager
def watched(*nodes: Node) -> t.Iterator[dict[str, Written]]:
    """Yield {name of a node: Written}, and fill each with what BIRD wrote when the context ends without an error.

    Routes of both IP versions are recorded. Raise AssertionError if `ip monitor` does not report within 60 seconds.
    """
    seen = {node.name: Written() for node in nodes}
    with contextlib.ExitStack() as stack:
        monitors = [(node.name, RouteMonitor(node.space, family)) for node in nodes for family in ("-4", "-6")]
        for _name, monitor in monitors:
            stack.callback(monitor.close)
        yield seen
        for name, monitor in monitors:
            seen[name].read(monitor.end())


def taken_away(seen: t.Mapping[str, Written]) -> dict[str, list[str]]:
    return {name: written.deleted for name, written in seen.items() if written.deleted}


def held(birds: t.Mapping[str, Bird], nodes: t.Sequence[Node]) -> dict[str, Bird]:
    return {
        node.name: dataclasses.replace(
            birds[node.name],
            backups=tuple(
                backup
                for other in nodes
                if other is not node
                for backup in (BackupRoute(other.block, other.address), BackupRoute(other.block6, other.address6))
            ),
        )
        for node in nodes
    }


def settled(fleet: Fleet, nodes: t.Sequence[Node], device: str) -> None:
    for node in nodes:
        wait_for(
            f"{node.name}: {device}",
            lambda n=node: sum(f"dev {device} proto bird" in line for line in n.space.routes6()) == len(nodes) - 1,
        )


@EVERY
def test_a_change_of_mode(fleet: Fleet, network: Network) -> None:
    nodes = network.nodes
    fleet.start(dual_stack(nodes, pool("vxlan.calico"), TUNNEL))
    settled(fleet, nodes, "vxlan-v6.calico")
    with watched(*nodes) as seen:
        for modes, device in (((pool(), PLAIN), "eth0"), ((pool("tunl0"), TUNNEL), "vxlan-v6.calico")) * 2:
            fleet.configure(dual_stack(nodes, *modes))
            settled(fleet, nodes, device)
            wait_for(
                "IPv4",
                lambda d=modes[0].device or "eth0": (
                    f"dev {d}" in nodes[0].space.run("ip", "route", "show", nodes[3].block)
                ),
            )
    for node in nodes[1:]:
        assert all(len(seen["node1"].ways[block]) >= 4 for block in (node.block, node.block6)), seen["node1"]
    assert taken_away(seen) == {}


@EVERY
def test_no_route_is_missing_after_a_crash(fleet: Fleet, network: Network) -> None:
    """After a crash BIRD finds unknown routes in the kernel, and no route is missing at any moment."""
    nodes = network.nodes
    fleet.start(dual_stack(nodes, pool("vxlan.calico"), TUNNEL))
    settled(fleet, nodes, "vxlan-v6.calico")
    with watched(nodes[0]) as seen:
        fleet["node1"].kill()
        fleet["node1"].start(recover=True)
        fleet.wait_established()
        time.sleep(1.5)  # meanwhile the restarted BIRD scans the kernel's routes for the first time
    assert taken_away(seen) == {}


@EACH
def test_sessions_restart_under_backups(fleet: Fleet, network: Network) -> None:
    nodes = network.nodes
    birds = held(dual_stack(nodes, pool("vxlan.calico"), TUNNEL), nodes)
    fleet.start(birds)
    settled(fleet, nodes, "vxlan-v6.calico")
    with watched(*nodes) as seen:
        fleet["node1"].restart_sessions()
        wait_for("backups", lambda: nodes[1].block6 in backup_routes.in_use(fleet["node1"].socket))
        fleet.wait_established()
        wait_for("BGP", lambda: not backup_routes.in_use(fleet["node1"].socket))
    assert taken_away(seen) == {}


@pytest.mark.parametrize("build", ["forky"], indirect=True)
def test_a_changed_mtu_is_written_in_place(fleet: Fleet, network: Network) -> None:
    """Another MTU is written in place, in BIRD 3 after a forced scan of the kernel's routes (bird/kernel_sync.py)."""
    nodes = network.nodes
    fleet.start(limited(nodes, "vxlan.calico", 1400))
    for node in nodes:
        wait_for("all routes", lambda n=node: mtus(n) == {1400})
    with watched(*nodes) as seen:
        for mtu in (1380, None):
            tell(fleet, limited(nodes, "vxlan.calico", mtu))
            for node in nodes:
                wait_for(f"MTU {mtu}", lambda n=node, m=mtu: mtus(n) == {m})
    assert all(len(written.ways) == 6 for written in seen.values())
    assert taken_away(seen) == {}


CLUSTER = "10.10.0.1"


def reflected(nodes: t.Sequence[Node]) -> dict[str, Bird]:
    """Return the BIRDs by node of a fleet in which node3 and node4 reflect for node1 and node2.

    So a client learns each block twice.
    """
    birds = dual_stack(nodes, pool("vxlan.calico"), TUNNEL)
    clients, reflectors = {node.name for node in nodes[:2]}, {node.name for node in nodes[2:]}
    for name, bird in birds.items():
        if name in clients:
            kept = [dataclasses.replace(peer, kind="reflector") for peer in bird.peers if peer.node in reflectors]
            birds[name] = dataclasses.replace(bird, peers=tuple(kept))
        else:
            told = [
                dataclasses.replace(peer, kind="client", cluster_id=CLUSTER) if peer.node in clients else peer
                for peer in bird.peers
            ]
            birds[name] = dataclasses.replace(bird, peers=tuple(told), cluster_id=CLUSTER)
    return birds


@EACH
def test_a_reflector_goes(fleet: Fleet, network: Network) -> None:
    """When a reflector goes, the path through the other has the same next hop, and BIRD writes it in place."""
    nodes = network.nodes
    fleet.start(reflected(nodes))
    settled(fleet, nodes, "vxlan-v6.calico")
    node1 = fleet["node1"]

    def paths() -> list[int]:
        return [node1.birdc("show", "route", node.block6).count(" [Mesh_") for node in nodes[1:]]

    wait_for("two paths to each", lambda: paths() == [2, 2, 2])
    with watched(nodes[0]) as seen:
        for gone in nodes[2:]:
            session = f"Mesh_{gone.address6.replace(':', '_')}"
            node1.birdc("disable", session)
            wait_for("one path to each", lambda: paths() == [1, 1, 1])
            node1.birdc("enable", session)
            wait_for("two paths again", lambda: paths() == [2, 2, 2])
    assert nodes[1].block6 in seen["node1"].ways
    assert taken_away(seen) == {}
