# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of waiting for BIRD: what is missing is named, and what is almost right does not count."""

from __future__ import annotations

import dataclasses
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import (
    BackupRoute,
    Bird,
    BirdPeer,
    BirdRoute,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, Pool
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.modules import bgp_session_info, convergence_info, tunnel_device

from tests.unit.bird.conftest import FakeBird

PEERS = tuple(BirdPeer(f"Mesh_10_10_1_1{n}", f"10.10.1.1{n}", 64512, "mesh", node=f"node{n}") for n in (2, 3))
STATE = NodeState(
    "node1",
    "10.10.1.11/24",
    pools=(Pool("pool", "10.244.0.0/16", 26, "IPIPCrossSubnet"),),
    bird=Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", peers=PEERS),
    bird_routes=(
        BirdRoute("10.244.7.0/26", "10.10.1.12", "tunl0", True, "node2", next_hop="10.10.1.12"),
        BirdRoute("10.244.8.0/26", "10.10.1.13", "", False, "node3", next_hop="10.10.1.13"),
        BirdRoute("10.244.9.0/26", "", "", False, "node4", next_hop="10.10.2.14"),
    ),
)
TUNNEL = ("10.244.7.0/26", RouteAttributes(device="tunl0", gateway="10.10.1.12", onlink=True, protocol=12))
DIRECT = ("10.244.8.0/26", RouteAttributes(device="eth0", gateway="10.10.1.13", protocol=12))
ROUTED = ("10.244.9.0/26", RouteAttributes(device="eth0", gateway="10.10.1.1", protocol=12))


def protocols(**states):
    """Return BIRD's answer to `show protocols all` in bytes, with the sessions `states`: {name: BGP state}.

    A session is named Mesh_10_10_1_12 after its neighbour, here 10.10.1.12.
    """
    lines = ["2002-Name       Proto      Table      State  Since         Info"]
    for name, state in states.items():
        up = "up   " if state == "Established" else "start"
        lines.append(f"1002-{name} BGP        ---        {up}  2026-11-21 07:13:29  {state}")
        lines.append(f"1006-  BGP state:          {state}")
        lines.append(f"     Neighbor address: {name[5:].replace('_', '.')}")
    return "".join(f"{line}\n" for line in [*lines, "0000 "]).encode()


@pytest.fixture
def node(host):
    """The host with tunl0, and a BIRD with both sessions Established, which is closed at the end."""
    host.run(tunnel_device, kind="ipip")
    host.bird = FakeBird(host.machine.bird_socket)
    host.bird.answers = {
        "show status": [[b"1000-BIRD 2.0.12\n1011-Router ID is 10.10.1.11\n0013 Daemon is up and running\n"]],
        "show protocols all": [[protocols(Mesh_10_10_1_12="Established", Mesh_10_10_1_13="Established")]],
    }
    yield host
    host.bird.close()


def write(host, *routes):
    operations = [RouteOperation("replace", *route) for route in routes]
    assert host.kernel.route_batch(operations) == []


def test_a_converged_node(node):
    write(node, TUNNEL, DIRECT, ROUTED)
    answer = node.run(convergence_info, state=STATE.to_dict(), timeout=0)
    assert answer == {
        "changed": False,
        "converged": True,
        "sessions": {"expected": 2, "established": 2, "external_established": 0},
        "routes": {"expected": 3, "present": 3},
        "missing": [],
    }


def test_sessions_with_routers_are_counted_by_themselves(node):
    """Sessions with routers outside the fleet are those whose peer is no node, whatever the session's name is."""
    bird = dataclasses.replace(STATE.bird, peers=tuple(dataclasses.replace(peer, node="") for peer in STATE.bird.peers))
    write(node, TUNNEL, DIRECT, ROUTED)
    node.bird.answers["show protocols all"] = [[protocols(Mesh_10_10_1_12="Established", Mesh_10_10_1_13="Active")]]
    state = dataclasses.replace(STATE, bird=bird)
    answer = node.run(convergence_info, state=state.to_dict(), timeout=0, fail=False)
    assert answer["sessions"] == {"expected": 2, "established": 1, "external_established": 1}


SILENT = (
    "nothing at all came back from 10.10.1.12 port 179. Possible causes: the peer, or its BGP, does not run; it has no "
    "neighbor with the address of this node; a firewall drops TCP between them"
)


def test_missing_sessions_and_routes_are_named(node):
    write(node, DIRECT, ROUTED)
    node.bird.answers["show protocols all"] = [[protocols(Mesh_10_10_1_12="Active")]]
    answer = node.run(convergence_info, state=STATE.to_dict(), timeout=0)
    assert answer["failed"] is True
    assert answer["missing"] == [
        f"session with node2 (10.10.1.12) is Active since 2026-11-21 07:13:29: {SILENT}.",
        "session with node3 (10.10.1.13) is not in BIRD's configuration",
        "route 10.244.7.0/26 of node2 is missing, expected via 10.10.1.12 dev tunl0 onlink",
    ]
    assert answer["msg"] == (
        f"not converged after 0 s: session with node2 (10.10.1.12) is Active since 2026-11-21 07:13:29: {SILENT}; "
        "session with node3 (10.10.1.13) is not in BIRD's configuration; route 10.244.7.0/26 of node2 is missing, "
        "expected via 10.10.1.12 dev tunl0 onlink. See `birdc -s /run/calico/bird.ctl show protocols all` there."
    )
    assert (answer["sessions"], answer["routes"]) == (
        {"expected": 2, "established": 0, "external_established": 0},
        {"expected": 3, "present": 2},
    )


@pytest.mark.parametrize(
    "wrong",
    [
        TUNNEL[1]._replace(device="eth0", onlink=False),  # direct instead of through the tunnel
        TUNNEL[1]._replace(gateway="10.10.1.13"),
        TUNNEL[1]._replace(mtu=1400),
        TUNNEL[1]._replace(protocol=4),  # a static route, not BIRD's
    ],
)
def test_almost_right_is_wrong(node, wrong):
    write(node, DIRECT, ROUTED, (TUNNEL[0], wrong))
    answer = node.run(convergence_info, state=STATE.to_dict(), timeout=0, fail=False)
    assert (answer["converged"], len(answer["missing"])) == (False, 1)
    assert "10.244.7.0/26 of node2" in answer["missing"][0]


def test_a_direct_route_through_a_tunnel_is_wrong(node):
    write(node, TUNNEL, ROUTED, (DIRECT[0], DIRECT[1]._replace(device="tunl0", onlink=True)))
    answer = node.run(convergence_info, state=STATE.to_dict(), timeout=0, fail=False)
    assert answer["missing"] == [
        "route 10.244.8.0/26 of node3 is via 10.10.1.13 dev tunl0 onlink, expected via 10.10.1.13 dev eth0"
    ]


def test_it_waits_no_longer_than_it_takes(node, monkeypatch):
    """A missing route appears during the third wait; then the module waits no more, and less than 5 seconds in all."""
    write(node, DIRECT, ROUTED)
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            write(node, TUNNEL)

    monkeypatch.setattr(time, "sleep", sleep)
    assert node.run(convergence_info, state=STATE.to_dict(), timeout=600)["converged"] is True
    assert len(waits) == 3 and sum(waits) < 5


def test_no_bird_at_all(host):
    answer = host.run(convergence_info, state=STATE.to_dict(), timeout=0, fail=False)
    assert answer["missing"][0] == (
        f"BIRD does not answer. Its control socket is {host.machine.bird_socket}: No such file or directory. "
        "See `systemctl status calico-bird.service` and its journal."
    )
    assert len(answer["missing"]) == 4


def test_without_bgp_there_is_nothing_to_wait_for(host):
    state = dataclasses.replace(STATE, bird=None, bird_routes=())
    assert host.run(convergence_info, state=state.to_dict(), timeout=0)["converged"] is True


def test_the_stored_state_counts_when_none_is_given(node):
    assert node.run(convergence_info, timeout=0)["msg"] == (
        f"there is nothing to wait for: no state was given, and none is stored in {node.machine.store}. Bring "
        f"the node to "
        "its state first (module baremetal.host_routing.node)."
    )
    Store(node.machine.store).save(Stored(STATE, "", ()))
    assert node.run(convergence_info, timeout=0, fail=False)["routes"] == {"expected": 3, "present": 0}


def test_sessions_can_be_read_alone(node):
    answer = node.run(bgp_session_info)
    assert (answer["running"], answer["version"], answer["router_id"]) == (True, "2.0.12", "10.10.1.11")
    assert [entry["name"] for entry in answer["sessions"]] == ["Mesh_10_10_1_12", "Mesh_10_10_1_13"]
    (session,) = node.run(bgp_session_info, neighbor="10.10.1.13")["sessions"]
    assert (session["established"], session["bgp_state"]) == (True, "Established")


def test_sessions_of_no_bird(host):
    answer = host.run(bgp_session_info)
    assert (answer["running"], answer["sessions"]) == (False, [])


def test_a_backup_route_does_not_count_as_a_bgp_route(node):
    write(node, TUNNEL, DIRECT, ROUTED)
    backups = tuple(BackupRoute(route.destination, route.next_hop) for route in STATE.bird_routes)
    state = dataclasses.replace(STATE, phase=Phase.FLIP, bird=dataclasses.replace(STATE.bird, backups=backups))
    question = 'show route primary where proto ~ "calico_backup*"'
    node.bird.answers[question] = [[b"0000 \n"]]
    assert node.run(convergence_info, state=state.to_dict(), timeout=0)["converged"] is True
    held = (
        b"1007-Table master4:\n 10.244.7.0/26        unicast [calico_backup4 12:48:17.522] * (5)\n"
        b" \tvia 10.10.1.12 on eth0\n 10.245.0.0/26        unreachable [calico_backup4 12:48:17.522] * (5)\n0000 \n"
    )
    node.bird.answers[question] = [[held]]
    answer = node.run(convergence_info, state=state.to_dict(), timeout=0, fail=False)
    assert answer["missing"] == ["route 10.244.7.0/26 of node2 is there by a backup route alone, not by BGP"]
    assert answer["routes"] == {"expected": 3, "present": 2}
    node.bird.answers[question] = [[b"9001 syntax error\n"]]
    answer = node.run(convergence_info, state=state.to_dict(), timeout=0, fail=False)
    assert answer["converged"] is False
