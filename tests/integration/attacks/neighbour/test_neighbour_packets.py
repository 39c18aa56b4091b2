# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a neighbour on the underlay with packets: as a local workload, and as a node of the fleet."""

from __future__ import annotations

import pathlib
import socket
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow

from tests.integration.attacks import forged_packets as forged
from tests.integration.attacks.attacked_node import (
    DEVICES,
    KINDS,
    PEER,
    PEER_V6,
    PORT,
    AttackedNode,
    attacked_node,
)
from tests.integration.policy.documents import ALLOW, global_policy, host_endpoint
from tests.integration.policy.node_in_namespace import workload_interface
from tests.integration.policy.packets import packet
from tests.integration.policy.policed_node import (
    ELSEWHERE,
    HOST,
    HOST_V6,
    OUTSIDE,
    OUTSIDE_V6,
    W0,
    W0_V6,
    W1,
    W1_V6,
    of_protocol,
    udp,
)

CALI0 = workload_interface(0)
#: The addresses of another node's workload in the same pools (REMOTE), unused ones of this node's blocks (UNUSED), and
#: those of its tunnel devices (TUNNEL).
REMOTE, REMOTE_V6 = "10.65.9.1", "fd65:0:0:9::1"
UNUSED, UNUSED_V6 = "10.65.0.33", "fd65::33"
TUNNEL, TUNNEL_V6 = "10.65.0.9", "fd65::9"


@pytest.fixture(params=KINDS)
def attacked(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> t.Iterator[AttackedNode]:
    for made in attacked_node(request.param, tmp_path, monkeypatch):
        kernel = made.node.kernel
        for name in ("eth0", "eth1"):
            kernel.sysctl_write(f"net/ipv4/conf/{name}/rp_filter", "2")
        for block in ("10.65.0.0/26", "fd65::/122"):
            assert kernel.run(["ip", "route", "add", "blackhole", block]).code == 0
        yield made


def gets_nowhere(attacked: AttackedNode, by: str, flows: t.Iterable[Flow]) -> None:
    expected = dict.fromkeys(flows)
    assert attacked.see(expected, by=by) == expected


def await_address(attacked: AttackedNode, address: str) -> None:
    """Wait until the kernel routes to `address` as the host's own, which for IPv6 is a moment after it was added.

    Raise AssertionError after 5 seconds.
    """
    until = time.monotonic() + 5
    while "local" not in attacked.node.kernel.run(["ip", "route", "get", address]).output:
        assert time.monotonic() < until, address
        time.sleep(0.005)


def to_everybody(*sources: str) -> list[Flow]:
    """Return UDP flows from each source to the workload w1, to the host and to the address beyond eth0."""
    return [
        udp(source, target)
        for source in sources
        for target in ((W1_V6, HOST_V6, OUTSIDE_V6) if ":" in source else (W1, HOST, OUTSIDE))
    ]


@pytest.mark.parametrize("interface", ["eth0", "eth1"])
def test_a_neighbour_sends_as_a_local_workload(attacked: AttackedNode, interface: str) -> None:
    """Send from the underlay with the address of a workload on this node.

    Gain: Everything that policy allows that workload, on its own node. The underlay's rp_filter is 2.
    Precedent: CWE-290 (BCP 38, ingress filtering).
    Closed: 0.2.0
    Result: Dropped before connection tracking; packets of other nodes' workloads are accepted on any interface.
    """
    attacked.defend()
    gets_nowhere(attacked, interface, to_everybody(W0, W0_V6, UNUSED, UNUSED_V6))
    expected: dict[Flow, str | None] = {
        udp(REMOTE, W0): CALI0,
        udp(REMOTE_V6, W0_V6): CALI0,
        udp(OUTSIDE, W0): CALI0,
        udp(OUTSIDE_V6, W0_V6): CALI0,
        udp(REMOTE, HOST): "",
    }
    assert attacked.see(expected, by=interface) == expected
    own = {udp(W0, OUTSIDE): "eth0", udp(W0_V6, OUTSIDE_V6): "eth0"}
    assert attacked.see(own, by=CALI0) == own


@pytest.mark.parametrize("interface", ["eth0", "eth1"])
def test_a_neighbour_sends_as_the_node_itself(attacked: AttackedNode, interface: str) -> None:
    """Send from the underlay with the address of this node itself.

    Gain: Everything that policy allows the node: its own workloads. The kernel drops such IPv4 packets alone.
    Precedent: CWE-290 (BCP 38, ingress filtering).
    Closed: 0.3.0
    Result: Dropped before connection tracking. Addresses that several nodes have (anycast, VRRP) are accepted.
    """
    shared = "fd65:0:0:a::1"
    attacked.defend()
    gets_nowhere(attacked, interface, to_everybody(HOST, HOST_V6))
    assert attacked.node.kernel.run(["ip", "address", "add", f"{shared}/128", "dev", "lo", "nodad"]).code == 0
    await_address(attacked, shared)
    expected: dict[Flow, str | None] = {udp(shared, W0_V6): CALI0, udp(OUTSIDE_V6, HOST_V6): ""}
    assert attacked.see(expected, by=interface) == expected
    own: dict[Flow, str | None] = {udp(HOST, W0): CALI0, udp(HOST_V6, W0_V6): CALI0}
    assert attacked.see(own, by="") == own


def test_a_neighbour_answers_in_the_name_of_a_local_workload(attacked: AttackedNode) -> None:
    """Send forged packets of a connection between two workloads of the node.

    Gain: Forged data in that connection, which policy does not check again.
    Precedent: CWE-290.
    Closed: 0.2.0
    Result: The packets are dropped, and the connection goes on.
    """
    attacked.defend()
    for flow in (udp(W0, W1), udp(W0_V6, W1_V6)):
        attacked.establish(flow)
        gets_nowhere(attacked, "eth0", [flow])
        attacked.expect([flow])


def test_a_neighbour_sends_as_a_local_workload_what_untracked_policy_allows(attacked: AttackedNode) -> None:
    """Send as a local workload to an interface whose doNotTrack policy allows everything.

    Nodes without policy are not tried.

    Gain: A way around the check, if it came after the untracked policy in the same table.
    Precedent: CWE-696.
    Closed: 0.2.0
    Result: The check comes first.
    """
    if not attacked.policy:
        return  # there is no untracked policy without policy
    rules: dict[str, t.Any] = {"doNotTrack": True, "applyOnForward": True, "ingress": [ALLOW], "egress": [ALLOW]}
    attacked.defend(host_endpoint("eth0"), global_policy("all", "has(host)", **rules))
    expected: dict[Flow, str | None] = {udp(OUTSIDE, HOST): ""}
    assert attacked.see(expected, by="eth0") == expected
    gets_nowhere(attacked, "eth0", to_everybody(W0, W0_V6))


def test_a_stranger_sends_encapsulated_packets(attacked: AttackedNode) -> None:
    """Send VXLAN and IP-in-IP to the node from an address that belongs to no node.

    Gain: Packets from any source to any workload, past all policy.
    Precedent: CVE-2020-10136 (IP-in-IP decapsulation of unspecified origin).
    Closed: 0.2.0
    Result: Dropped. IPIP, and VXLAN to the fleet's port, is accepted only from nodes of the fleet.
    """
    attacked.defend(tunnels=True)
    strangers = [(OUTSIDE, HOST), (REMOTE, HOST), (OUTSIDE_V6, HOST_V6)]
    gets_nowhere(attacked, "eth0", [udp(source, target, PORT) for source, target in strangers])
    gets_nowhere(attacked, "eth0", [of_protocol(forged.IPIP, source, HOST) for source in (OUTSIDE, REMOTE)])
    expected: dict[Flow, str | None] = {
        udp(PEER, HOST, PORT): "",
        udp(PEER_V6, HOST_V6, PORT): "",
        of_protocol(forged.IPIP, PEER, HOST): "",
    }
    assert attacked.see(expected, by="eth0") == expected


@pytest.mark.parametrize("six", [False, True], ids=["IPv4", "IPv6"])
def test_a_tunnel_delivers_packets_of_a_local_workload(attacked: AttackedNode, six: bool) -> None:
    """Send VXLAN packets from a forged node address, with packets of a local workload inside.

    Gain: The identity of a local workload, through a tunnel without a reverse path check.
    Precedent: CWE-290.
    Closed: 0.2.0
    Result: Packets from the tunnel with a source in the node's own blocks are dropped. Others arrive.
    """
    attacked.defend(tunnels=True)
    device, own, peer = DEVICES[six], (HOST, HOST_V6)[six], (PEER, PEER_V6)[six]
    kernel = attacked.node.kernel
    for argv in (
        ["link", "add", device.name, "address", str(device.mac), "type", "vxlan", "id", str(device.vni),
         "local", own, "dstport", str(PORT), "nolearning", "udp6zerocsumrx"],
        ["link", "set", device.name, "up"],
        ["address", "add", f"{(TUNNEL, TUNNEL_V6)[six]}/{(32, 128)[six]}", "dev", device.name,
         *(["nodad"] if six else [])],
    ):  # fmt: skip
        done = kernel.run(["ip", *argv])
        assert done.code == 0, done.errors
    await_address(attacked, (TUNNEL, TUNNEL_V6)[six])
    if not six:
        kernel.sysctl_write(f"net/ipv4/conf/{device.name}/rp_filter", "2")
    target, local, remote = (W0_V6, W1_V6, REMOTE_V6) if six else (W0, W1, REMOTE)
    sources = (local, (UNUSED, UNUSED_V6)[six], (TUNNEL, TUNNEL_V6)[six], remote)
    for number, source in enumerate(sources, 1):
        inner = forged.ethernet(packet(udp(source, target), 9, number), destination=str(device.mac))
        # With 8 bytes of trailer only the inner packet ends with the tag, and not the outer one as well.
        datagram = forged.udp(peer, own, 50000, PORT, forged.vxlan(inner + b"\0" * 8, device.vni or 0))
        attacked.send_raw(forged.ip(peer, own, forged.UDP, datagram), "eth0")
    assert attacked.arrived(9) == {len(sources)}


def test_packets_of_a_node_to_itself_pass(attacked: AttackedNode) -> None:
    """Send from the node's tunnel address, which is in its own block, to itself and to a workload (honest).

    Gain: None. The check must let this pass.
    Precedent: none known.
    Closed: 0.2.0
    Result: The packets arrive.
    """
    attacked.defend()
    kernel = attacked.node.kernel
    for address in (f"{TUNNEL}/32", f"{TUNNEL_V6}/128"):
        assert (
            kernel.run(["ip", "address", "add", address, "dev", "lo", *(["nodad"] if ":" in address else [])]).code == 0
        )
    for family, address in ((socket.AF_INET, TUNNEL), (socket.AF_INET6, TUNNEL_V6)):
        await_address(attacked, address)
        with kernel._there(lambda family=family: socket.socket(family, socket.SOCK_DGRAM)) as made:
            made.bind((address, 0))
            made.settimeout(2)
            made.sendto(b"self", made.getsockname())
            assert made.recv(10) == b"self"
    flows: dict[Flow, str | None] = {udp(TUNNEL, W0): CALI0, udp(TUNNEL_V6, W0_V6): CALI0}
    assert attacked.see(flows, by="") == flows
    leaving: dict[Flow, str | None] = {udp(W0, ELSEWHERE): "eth1"}
    assert attacked.see(leaving, by=CALI0) == leaving
