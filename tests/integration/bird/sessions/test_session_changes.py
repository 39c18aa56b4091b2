# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real BIRDs show which options restart a session, and lose nothing while sessions restart under backup routes."""

from __future__ import annotations

import dataclasses
import re
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import session_changes
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import (
    BackupRoute,
    Bfd,
    Bird,
    BirdPeer,
    BirdPool,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import (
    backup_routes,
    configuration,
    kernel_sync,
    secrets_file,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.client import BirdClient

from tests.bird_sessions import younger_sessions
from tests.integration.bird.daemons import Daemon, Fleet, bird_of, mesh, peer, pool, render
from tests.integration.bird.debian_bird import EACH_RELEASE
from tests.integration.bird.network import Network, Node, wait_for
from tests.integration.bird.routes.test_ipv6 import CROSS_SUBNET, DIRECT, PLAIN, TUNNEL, VIA_TUNNEL, dual_stack, written

pytestmark = pytest.mark.root

#: Field of a session -> (value before, value after); None stands for the default.
OPTIONS: dict[str, tuple[t.Any, t.Any]] = {
    "as_number": (64512, 64600),
    "passive": (False, True),
    "multihop": (True, False),
    "port": (None, 1179),
    "local_port": (None, 1179),
    "local_as": (None, 64999),
    "source_address": (None, "10.10.1.99"),
    "cluster_id": ("10.10.0.1", "10.10.0.2"),
    "ttl_security": (None, 1),
    "hold_time": (None, 30),
    "keepalive_time": (None, 10),
    "connect_retry_time": (None, 20),
    "graceful_restart_time": (None, 60),
    "long_lived_stale_time": (None, 600),
    "allow_local_as": (None, 2),
    "bfd": (None, Bfd()),
    "next_hop": ("auto", "self"),
    "node": ("node2", "node3"),
}
#: Field of Bird that may concern all sessions -> value after the change.
OF_ALL: dict[str, t.Any] = {
    "graceful_restart_time": 60,
    "hold_time": 30,
    "keepalive_time": 10,
    "long_lived_stale_time": 600,
    "strict_bind": True,
    "router_id": "10.10.1.99",
    "as_number": 64600,
    "blocks": ("10.244.77.0/26",),
    "pools": (pool("tunl0"),),
    "backups": (BackupRoute("10.244.2.0/26", "10.10.1.12"),),
    "backup_pools": (pool("tunl0"),),
    "backups_lead": True,
    "routers_alone": ("10.244.2.0/26",),
}
ALL = pytest.mark.parametrize("build", EACH_RELEASE, indirect=True)


def session(number: int, field: str, value: t.Any) -> BirdPeer:
    kind = "client" if field == "cluster_id" else "reflector"
    found = BirdPeer(f"Node_{number}", f"10.10.1.{100 + number}", 64512, kind, node="node2")
    return dataclasses.replace(found, **{field: value})


def restarted(daemon: Daemon, bird: Bird) -> set[str]:
    """Reconfigure the daemon with `bird`; return the names of the sessions that restart, from BIRD's own log.

    Only names that begin with `Node_` are found.
    Raise AssertionError if BIRD refuses it, or is not done within 60 seconds.
    """
    said = daemon.log.stat().st_size
    daemon.configure(bird)
    return set(re.findall(r"Restarting protocol (Node_\S+)", daemon.log.read_text()[said:]))


def start(daemon: Daemon, bird: Bird) -> None:
    daemon.write(bird)
    daemon.start()
    if daemon.build.version.startswith("3."):
        # BIRD 3.4.0 ends with SIGSEGV if the filter of its kernel protocol is replaced before its first scan.
        with BirdClient(daemon.socket) as client:
            kernel_sync.wait_for_first_scan(client)


@pytest.fixture
def daemon(fleet: Fleet, network: Network) -> Daemon:
    return fleet[network.nodes[0].name]


@ALL
def test_bird_restarts_exactly_the_sessions_that_resets_names(daemon: Daemon, network: Network) -> None:
    """Exactly the changes that `session_changes.resets` names restart a session; each is tried on its own session."""
    sessions = {field: [session(n, field, value) for value in both] for n, (field, both) in enumerate(OPTIONS.items())}
    before, after = (
        bird_of(
            network.nodes[0], [both[side] for both in sessions.values()], pool("vxlan.calico"), cluster_id="1.1.1.1"
        )
        for side in (0, 1)
    )
    start(daemon, before)
    found = restarted(daemon, after)
    expected = {change.name: change.because for change in session_changes.resets(before, after)}
    kept = set(session_changes.with_other_partners(before, after))
    assert kept == {sessions["node"][0].name}
    assert found == set(expected) - kept != set()
    assert restarted(daemon, before) == found
    quiet = {both[0].name for field, both in sessions.items() if field in session_changes.QUIET}
    assert not quiet & set(expected)
    said = daemon.log.stat().st_size
    configuration.restart_sessions(sorted(kept), daemon.socket)
    (name,) = kept
    wait_for("BIRD restarts the session", lambda: f"Restarting protocol {name}" in daemon.log.read_text()[said:])


@ALL
@pytest.mark.parametrize("field", OF_ALL)
def test_an_option_of_all_sessions_restarts_those_that_resets_names(
    daemon: Daemon, network: Network, field: str
) -> None:
    one = BirdPeer("Node_1", "10.10.1.101", 64512, "reflector", node="node2")
    before = bird_of(network.nodes[0], [one], pool("vxlan.calico"))
    if field == "routers_alone":  # this field has an effect only together with backups, backup_pools and backups_lead
        before = dataclasses.replace(
            before, **{name: OF_ALL[name] for name in ("backups", "backup_pools", "backups_lead")}
        )
    after = dataclasses.replace(before, **{field: OF_ALL[field]})
    assert render(before) != render(after)
    start(daemon, before)
    assert restarted(daemon, after) == {change.name for change in session_changes.resets(before, after)}


# --- backup routes --------------------------------------------------------------------------------------------------


def backups(nodes: t.Sequence[Node], birds: t.Mapping[str, Bird]) -> dict[str, Bird]:
    return {
        node.name: dataclasses.replace(
            birds[node.name], backups=tuple(BackupRoute(o.block, o.address) for o in nodes if o is not node)
        )
        for node in nodes
    }


def reflected(nodes: t.Sequence[Node], *pools: t.Any, cluster: str = "10.10.0.1") -> dict[str, Bird]:
    """Return the BIRDs by node of a fleet whose first and last node reflect, and have workloads like all others."""
    first, last = nodes[0], nodes[-1]
    birds = {}
    for node in nodes:
        if node in (first, last):
            other = last if node is first else first
            clients = [peer(node, one, "client", cluster_id=cluster) for one in nodes if one not in (first, last)]
            birds[node.name] = bird_of(node, [*clients, peer(node, other)], *pools, cluster_id=cluster)
        else:
            birds[node.name] = bird_of(node, [peer(node, one, "reflector") for one in (first, last)], *pools)
    return birds


def by_bgp(fleet: Fleet, nodes: t.Sequence[Node]) -> None:
    """Wait until all sessions are up, and no backup route is in use any more.

    Raise AssertionError for a node whose sessions are down after 60 seconds, or that uses a backup route after 60 more,
    and NotAnswering if its BIRD does not answer.
    """
    fleet.wait_established()
    for node in nodes:
        wait_for(f"{node.name}: all by BGP", lambda n=node: not fleet[n.name].backup_routes())


@ALL
@pytest.mark.parametrize("device", ["vxlan.calico", ""], ids=["vxlan", "direct"])
def test_a_change_of_topology_loses_nothing(fleet: Fleet, network: Network, streams, device: str) -> None:
    """A change of topology under backup routes loses no packet, with the tunnel `device` or with none ("").

    The steps are mesh, reflectors, another cluster ID, another AS and mesh again. In each, all nodes are reconfigured
    one right after the other. A BIRD 3.4 that gets little processor time may end itself when sessions are removed
    (docs/reference/bgp.md). Packets between the other nodes are not lost even then.
    """
    for daemon in fleet.daemons.values():
        daemon.restarts = True
    nodes, mode = network.nodes, pool(device)
    another_as = {
        name: dataclasses.replace(
            bird, as_number=64600, peers=tuple(dataclasses.replace(one, as_number=64600) for one in bird.peers)
        )
        for name, bird in reflected(nodes, mode, cluster="10.10.0.2").items()
    }
    tour = [mesh(nodes, mode), reflected(nodes, mode), reflected(nodes, mode, cluster="10.10.0.2"), another_as]
    fleet.start(tour[0])
    for node in nodes:
        wait_for("three routes", lambda n=node: len(n.space.routes("proto", "bird")) == 3)
    with streams() as flows:
        for before, after in zip(tour, [*tour[1:], tour[0]]):
            fleet.configure(backups(nodes, before))
            fleet.configure(backups(nodes, after))
            by_bgp(fleet, nodes)
            fleet.configure(after)
    assert flows.dropped == 0
    assert flows.sent > 4 * 500
    ended = [node.workload for node in nodes if fleet[node.name].ended_itself]
    assert [pair for pair in flows.lost if not any(address in pair.split(" -> ") for address in ended)] == []


@pytest.mark.parametrize("known", [True, False], ids=["known race", "another end"])
def test_a_bird_is_started_again_after_its_known_race_alone(daemon: Daemon, network: Network, known: bool) -> None:
    """The test above does not take another crash of BIRD for the race that docs/reference/bgp.md describes."""
    daemon.restarts = True
    start(daemon, mesh(network.nodes, pool())[network.nodes[0].name])
    if known:
        with daemon.log.open("a") as log:
            log.write("bird: <BUG> Assertion 'birdloop_inside(sl->loop)' failed at lib/event.c:161\n")
    daemon.abort()
    if known:
        assert "up and running" in daemon.birdc("show", "status")
    else:
        with pytest.raises(AssertionError, match="returncode=1"):
            daemon.birdc("show", "status")
    assert daemon.ended_itself is known


@ALL
def test_backup_routes_hold_while_sessions_restart_and_stay_unannounced(
    fleet: Fleet, network: Network, streams
) -> None:
    nodes = network.nodes
    birds = backups(nodes, reflected(nodes, pool("vxlan.calico")))
    fleet.start(birds)
    by_bgp(fleet, nodes)
    with streams() as flows:
        for node in nodes:
            fleet[node.name].restart_sessions()
        by_bgp(fleet, nodes)
        # The sessions of node2 stay down until BIRD has been asked: restarted ones may be back before that.
        node2 = fleet["node2"]
        node2.change_sessions("disable")
        held = {node.block for node in nodes if node.name != "node2"}
        wait_for("all routes by backups", lambda: node2.backup_routes() == held)
        node2.change_sessions("enable")
        by_bgp(fleet, nodes)
    assert flows.lost == {}
    # node2 announces its own block and none of its backup routes.
    for name in ("node1", "node4"):
        heard = fleet[name].birdc("show", "route", "protocol", "Node_10_10_1_12")
        assert re.findall(r"^(\S+/\d+)", heard, re.MULTILINE) == [nodes[1].block]


@ALL
@pytest.mark.parametrize(
    ("mode", "routes"),
    [(TUNNEL, VIA_TUNNEL), (CROSS_SUBNET, [DIRECT[0], *VIA_TUNNEL[1:]]), (PLAIN, DIRECT)],
    ids=["vxlan", "vxlan-crosssubnet", "direct"],
)
def test_backups_of_ipv6_go_where_bgp_would_send(
    daemon: Daemon, network: Network, mode: BirdPool, routes: list[str]
) -> None:
    node, *others = network.nodes
    bird = dual_stack(network.nodes, pool("vxlan.calico"), mode)[node.name]
    held = [BackupRoute(one.block6, one.address6) for one in others] + [BackupRoute(others[0].block, others[0].address)]
    start(daemon, dataclasses.replace(bird, peers=(), backups=tuple(held)))
    wait_for("three routes", lambda: written(node) == routes)
    assert backup_routes.in_use(daemon.socket) == {route.destination for route in held}


@ALL
def test_backups_of_direct_pools_take_a_tunnel_and_lead_all_into_it(fleet: Fleet, network: Network) -> None:
    """Backup routes of direct pools go as `backup_pools` say, and with `backups_lead` so do the routes of all sessions.

    With `routers_alone`, routes that a router outside the fleet announces stay direct. Sessions are not reset.
    """
    nodes = network.nodes
    node, *others = nodes
    daemon = fleet[node.name]
    tunnels = (pool("vxlan.calico"), CROSS_SUBNET)
    held = [BackupRoute(one.block, one.address) for one in others] + [
        BackupRoute(one.block6, one.address6) for one in others
    ]
    birds = dual_stack(nodes, pool(""), PLAIN)
    bird = dataclasses.replace(birds[node.name], backups=tuple(held), backup_pools=tunnels)
    fleet.start({**birds, node.name: bird})

    def into_tunnels() -> list[int]:
        return [sum(" dev vxlan" in route for route in found) for found in (written4(node), written(node))]

    def settled(tunnelled: list[int], by_backup: int) -> None:
        wait_for(f"{tunnelled} in tunnels", lambda: into_tunnels() == tunnelled)
        wait_for(f"{by_backup} by backups", lambda: len(backup_routes.in_use(daemon.socket)) == by_backup)
        assert (len(written4(node)), len(written(node))) == (3, 3)

    settled([0, 0], 0)
    ages = daemon.sessions_since()
    assert len(ages) == len(bird.peers)
    time.sleep(2)  # a restart shows in seconds
    daemon.configure(dataclasses.replace(bird, backups_lead=True))
    # BGP's routes lead into tunnels: all three IPv4 ones, and the two IPv6 ones to nodes in the other subnet.
    settled([3, 2], 0)
    assert younger_sessions(ages, daemon.sessions_since()) == []
    daemon.configure(bird)
    settled([0, 0], 0)
    # `blocks` are those that a router outside the fleet will announce. Routes to them from sessions with nodes take a
    # tunnel.
    blocks = tuple(route.destination for route in held)
    daemon.configure(dataclasses.replace(bird, backups_lead=True, routers_alone=blocks))
    settled([3, 2], 0)
    assert younger_sessions(ages, daemon.sessions_since()) == []
    outside = tuple(
        dataclasses.replace(one, kind="external", port=bird.listen_port) if one.node == others[-1].name else one
        for one in bird.peers
    )
    daemon.configure(dataclasses.replace(bird, peers=outside, backups_lead=True, routers_alone=blocks))
    settled([2, 1], 0)
    daemon.configure(bird)
    settled([0, 0], 0)
    daemon.configure(dataclasses.replace(bird, peers=()))
    settled([3, 2], 6)
    assert written(node) == [DIRECT[0], *VIA_TUNNEL[1:]]


def written4(node: Node) -> list[str]:
    return node.space.routes("proto", "bird")


@pytest.mark.parametrize("build", ["bookworm"], indirect=True)
def test_without_backups_packets_are_lost(fleet: Fleet, network: Network, streams) -> None:
    """Packets are lost without backup routes, so the measurement works."""
    nodes = network.nodes
    fleet.start(mesh(nodes, pool("vxlan.calico")))
    for node in nodes:
        wait_for("three routes", lambda n=node: len(n.space.routes("proto", "bird")) == 3)
    with streams() as flows:
        fleet.configure(reflected(nodes, pool("vxlan.calico")))
        fleet.wait_established()
    assert sum(flows.lost.values()) > 50


@pytest.mark.parametrize("build", ["bookworm", "forky"], indirect=True)
def test_a_changed_password_loses_no_packet(fleet: Fleet, network: Network, streams) -> None:
    """Another password of all sessions loses nothing, although no session is up while both ends differ."""
    nodes, name = network.nodes, "mesh:password"
    rest = {
        node: dataclasses.replace(
            bird, secrets=(name,), peers=tuple(dataclasses.replace(one, password=name) for one in bird.peers)
        )
        for node, bird in mesh(nodes, pool("vxlan.calico")).items()
    }
    held = backups(nodes, rest)

    def tell(birds: t.Mapping[str, Bird], password: str) -> None:
        for node, bird in birds.items():
            daemon = fleet[node]
            passwords = {name: password}
            configuration.apply(render(bird), str(daemon.config), daemon.socket, daemon.build.bird, passwords=passwords)

    for node in nodes:  # each has a file of its own for passwords, beside its bird.cfg
        config = fleet[node.name].config = fleet[node.name].config.parent / node.name / "bird.cfg"
        secrets_file.install(str(config), {name: "the first"})
    fleet.start(rest)
    by_bgp(fleet, nodes)
    for node in nodes:
        wait_for("three routes", lambda n=node: len(n.space.routes("proto", "bird")) == 3)
    with streams() as flows:
        tell(held, "the first")
        assert fleet["node1"].established() == 3
        tell({"node1": held["node1"]}, "the second")
        wait_for("node1 alone", lambda: fleet["node2"].established() == 2 and fleet["node1"].established() == 0)
        assert backup_routes.in_use(fleet["node1"].socket) == {node.block for node in nodes[1:]}
        time.sleep(0.5)  # packets go by the backup routes alone
        tell(held, "the second")
        by_bgp(fleet, nodes)
        tell(rest, "the second")
    assert flows.dropped == 0
    assert flows.sent > 4 * 500
    assert flows.lost == {}
    assert "the first" not in (fleet["node1"].config.parent / secrets_file.NAME).read_text()
