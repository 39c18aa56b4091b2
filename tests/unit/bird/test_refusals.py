# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons why sessions are down, in words; tests/integration/bird shows that BIRD and the kernel report them."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bfd, Bird, BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import dropped_segments, refusals
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.dropped_segments import Dropped
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.status import Session

BIRD = Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", address6="fd00::11", listen_port=1790)
TOR = BirdPeer("Global_10_10_1_1", "10.10.1.1", 65001, "external", multihop=False)
NODE = BirdPeer("Mesh_10_10_1_12", "10.10.1.12", 64512, "mesh", node="node2")
SECRET = "tor-a:password"
NOTHING = Dropped()


def why(
    bgp_state: str = "Active",
    error: str = "",
    peer: BirdPeer = TOR,
    dropped: Dropped = NOTHING,
    state: str = "start",
    **changes: object,
) -> str:
    peer = dataclasses.replace(peer, **changes)
    return refusals.why(Session(peer.name, state, "", bgp_state=bgp_state, error=error), BIRD, peer, dropped)


def test_an_established_session_has_no_reason() -> None:
    assert why("Established", "BGP Error: Hold timer expired", state="up") == ""


@pytest.mark.parametrize(
    ("error", "changes", "text"),
    [
        (
            "BGP Error: Bad peer AS",
            {},
            "the peer is in another AS than 65001. Correct asNumber of this peer in the inventory, or the peer's own "
            "AS number. BIRD's log (journalctl -u calico-bird.service) has what it said.",
        ),
        (
            "Received: Bad peer AS",
            {},
            "the peer refuses AS 64512 of this node: it has another one for its neighbor 10.10.1.11. Correct it there, "
            "or calico_bgp_as_number (calico_node_bgp_as_number, localASNumber) here.",
        ),
        (
            "Received: Bad peer AS",
            {"local_as": 65100, "source_address": "10.10.3.11"},
            "the peer refuses AS 65100 of this node: it has another one for its neighbor 10.10.3.11. Correct it there, "
            "or calico_bgp_as_number (calico_node_bgp_as_number, localASNumber) here.",
        ),
        (
            "BGP Error: Bad BGP identifier",
            {},
            "the router id of the peer is that of this node, 10.10.1.11, or none. Give one of them another router id.",
        ),
        (
            "BGP Error: Hold timer expired",
            {"hold_time": 9},
            "nothing was heard of the peer for 9 s, the hold time, and it has not come back. See that it runs and can "
            "be reached; possible causes are also a firewall, and an MTU that the way cannot carry.",
        ),
        (
            "Received: Hold timer expired",
            {},
            "the peer heard nothing of this node for its hold time. Possible causes: a way that drops packets towards "
            "it, larger ones above all (MTU), or TTL security there and not here.",
        ),
        (
            "Socket: Connection refused",
            {},
            "nobody listens at 10.10.1.1 port 179. See that BGP runs there, on this port, and that no firewall rejects "
            "it.",
        ),
        (
            "Socket: Connection reset by peer",
            {"port": 1179},
            "10.10.1.1 port 1179 takes connections and closes them at once. Possible causes: it has no neighbor "
            "10.10.1.11; that neighbor is shut down there; or its own source address is another one than 10.10.1.1.",
        ),
        (
            "Socket: No route to host",
            {},
            "nobody answers for 10.10.1.1 in its subnet, or a router or firewall says so. See that the host is up, in "
            "the subnet that it should be in, and reachable (`ping`).",
        ),
        (
            "Socket: Network is unreachable",
            {},
            "this node has no route to 10.10.1.1. Add one, or set reachableBy of the peer.",
        ),
        (
            "Error: Link down",
            {},
            "the interface towards 10.10.1.1 is down or lost its address. See `ip address` on this node, and the cable "
            "or switch port.",
        ),
        (
            "Error: BFD session down",
            {"bfd": Bfd(100, 100, 5)},
            "BFD heard nothing of the peer within 500 ms: it, or the way to it, is down, or it has no BFD for this "
            "session. See that it runs BFD and that nothing drops UDP 3784 and 4784.",
        ),
        (
            "BGP Error: Required capability missing",
            {"address": "fd00::1", "family": 6},
            "the peer does not carry IPv6 routes in it. Activate the address family ipv6 unicast for its neighbor "
            "fd00::11.",
        ),
        (
            "Received: Administrative shutdown",
            {},
            "it was shut down at the peer by its operator. Enable the neighbor 10.10.1.11 there.",
        ),
        ("Received: Cease", {}, "the peer ended it: Cease. Its own log says why."),
        (
            "BGP Error: Malformed AS_PATH",
            {},
            "BIRD says 'BGP Error: Malformed AS_PATH'. See its log (journalctl -u calico-bird.service) and the peer's.",
        ),
    ],
)
def test_each_error_of_bird_has_an_explanation(error: str, changes: dict[str, object], text: str) -> None:
    assert why("Idle", error, **changes) == text


WRONG = (
    "most likely the passwords differ: the kernel just dropped 8 TCP segments with a wrong TCP MD5 signature. Set the "
    "same password at the peer as in calico_bgp_secrets (tor-a:password)."
)


@pytest.mark.parametrize("state", ["Connect", "Active", "Passive"])
def test_passwords_that_differ_are_known_by_what_the_kernel_dropped(state: str) -> None:
    assert why(state, password=SECRET, dropped=Dropped(wrong=8)) == WRONG
    assert why(state, "BGP Error: Hold timer expired", password=SECRET, dropped=Dropped(wrong=8)) == WRONG


def test_a_password_on_one_side_alone() -> None:
    assert why("Connect", password=SECRET, dropped=Dropped(unsigned=1)) == (
        "most likely the peer has no password for it: the kernel just dropped 1 TCP segment without a TCP MD5 "
        "signature. Set that of calico_bgp_secrets (tor-a:password) there, or none here."
    )
    assert why("Connect", dropped=Dropped(signed=3)) == (
        "most likely the peer has a password for it, and none is set here: the kernel just dropped 3 TCP segments with "
        "a TCP MD5 signature. Set the password of this peer."
    )


def test_dropped_packets_explain_only_sessions_they_can_belong_to() -> None:
    """Dropped packets do not explain sessions that they cannot belong to, because counters are the host's."""
    silent = why("Connect")
    assert why("Connect", dropped=Dropped(wrong=8, unsigned=8)) == silent
    assert why("Connect", password=SECRET, dropped=Dropped(signed=8)) == why("Connect", password=SECRET)
    assert why("Connect", dropped=Dropped(ttl=8)) == silent
    refused = why("Active", "Socket: Connection refused")
    assert why("Active", "Socket: Connection refused", password=SECRET, dropped=Dropped(wrong=8)) == refused


@pytest.mark.parametrize("state", ["Connect", "OpenSent", "OpenConfirm"])
def test_ttl_security_on_one_side_alone(state: str) -> None:
    assert why(state, ttl_security=1, dropped=Dropped(ttl=4)) == (
        "most likely the peer has no TTL security, or is more than 1 hop away: the kernel just dropped 4 TCP segments "
        "with too low a TTL. Set TTL security there, or not here."
    )


def test_silence_has_possible_causes_alone() -> None:
    assert why("Connect", peer=NODE) == (
        "nothing at all came back from 10.10.1.12 port 1790. Possible causes: the peer, or its BGP, does not run; it "
        "has no neighbor with the address of this node; a firewall drops TCP between them."
    )
    assert why("Passive", peer=NODE, password=SECRET, ttl_security=1) == (
        "the peer has not connected from 10.10.1.12. Possible causes: the peer, or its BGP, does not run; it has no "
        "neighbor with the address of this node; it waits for this node to connect, too; a firewall drops TCP between "
        "them; the passwords differ; TTL security is not set on both sides."
    )
    assert why("OpenSent") == (
        "the connection stands, and the peer does not answer in it. Possible causes: it is overloaded; the way "
        "drops larger packets (MTU); TTL security there and not here."
    )
    assert why("Idle") == (
        "no interface that is up has a subnet with 10.10.1.1 in it. See that the link is up and the address right, or "
        "that the peer is not meant to be a neighbor of this node."
    )
    assert why("Idle", peer=NODE) == "it begins anew within seconds. Look again; BIRD's log says why it ended."


def test_a_session_that_was_switched_off() -> None:
    assert why("Down", state="down") == (
        "it was switched off by hand on this node. `birdc -s /run/calico/bird.ctl enable Global_10_10_1_1` there "
        "switches it on."
    )


def test_a_session_of_a_bird_whose_port_another_program_has() -> None:
    """BIRD disables such a session as if an operator had, but its last error tells the difference."""
    assert why("Down", "Error: No listening socket", state="down") == (
        "BIRD could not listen on TCP port 1790 of this node when it started: another program has it. "
        "`ss -ltnp 'sport = :1790'` there names it. Stop it, then `systemctl restart calico-bird`."
    )


def test_the_kernels_counters_are_read() -> None:
    text = (
        "TcpExt: SyncookiesSent TCPMD5NotFound TCPMD5Unexpected TCPMD5Failure TCPMinTTLDrop\n"
        "TcpExt: 9 2 3 1 4\n"
        "IpExt: InNoRoutes\nIpExt: 7\n"
    )
    assert dropped_segments.parse(text) == Dropped(wrong=1, unsigned=2, signed=3, ttl=4)
    assert dropped_segments.parse("") == dropped_segments.read("/nonexistent") == Dropped()


def test_only_segments_dropped_during_the_interval_are_counted(tmp_path) -> None:
    netstat = tmp_path / "netstat"
    netstat.write_text("TcpExt: TCPMD5Failure TCPMinTTLDrop\nTcpExt: 9 4\n")

    def sleep(seconds: float) -> None:
        assert seconds == 5.0
        netstat.write_text("TcpExt: TCPMD5Failure TCPMinTTLDrop\nTcpExt: 12 4\n")

    assert dropped_segments.during(5.0, str(netstat), sleep) == Dropped(wrong=3)


@pytest.mark.parametrize(
    ("bgp_state", "error", "state", "unexplained"),
    [
        ("Connect", "", "start", True),
        ("Passive", "BGP Error: Hold timer expired", "start", True),
        ("OpenSent", "", "start", True),
        ("Established", "", "up", False),
        ("Active", "Socket: Connection refused", "start", False),
        ("Idle", "", "start", False),
        ("Down", "", "down", False),
    ],
)
def test_the_kernel_is_watched_where_bird_does_not_know(bgp_state, error, state, unexplained) -> None:
    sessions = [
        Session("up", "up", "", bgp_state="Established"),
        Session("x", state, "", bgp_state=bgp_state, error=error),
    ]
    assert refusals.unexplained(sessions) is unexplained
