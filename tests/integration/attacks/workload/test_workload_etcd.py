# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a workload on the ports of members of etcd and their gates, of other hosts and of its own."""

from __future__ import annotations

import pathlib
import struct
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import ETCD_PORTS

from tests.integration.attacks import forged_packets as forged
from tests.integration.attacks.attacked_node import KINDS, PEER, PEER_V6, AttackedNode, attacked_node
from tests.integration.policy.node_in_namespace import workload_interface
from tests.integration.policy.packets import TCP, packet
from tests.integration.policy.policed_node import HOST, HOST_V6, OUTSIDE, OUTSIDE_V6, W0, W0_V6, tcp, udp

CALI0 = workload_interface(0)
#: The addresses of two members: one on another host, and one on the host of the workload.
MEMBERS = (PEER, PEER_V6, HOST, HOST_V6)
OWN = {4: W0, 6: W0_V6}


@pytest.fixture(params=KINDS)
def attacked(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> t.Iterator[AttackedNode]:
    yield from attacked_node(request.param, tmp_path, monkeypatch)


def own(target: str) -> str:
    return OWN[6 if ":" in target else 4]


@pytest.mark.parametrize("masquerades", [False, True], ids=["routed", "natOutgoing"])
def test_a_workload_connects_to_a_member(attacked: AttackedNode, masquerades: bool) -> None:
    """Connect to gate, client's and members' port of a member on another host, and of one on its own host.

    Gain: With natOutgoing it comes from the node's address, which the gate accepts, and a member's node reaches etcd.
    Precedent: CWE-441 (unintended proxy), CVE-2020-8558 (class: trust in a packet's way).
    Closed: 0.3.0
    Result: Dropped on the workload's node, whether masqueraded or not. Other ports and other hosts are as before.
    """
    way = {PEER: "eth0", PEER_V6: "eth0", HOST: "", HOST_V6: ""}
    attempts = {tcp(own(target), target, port): way[target] for target in MEMBERS for port in ETCD_PORTS}
    attacked.defend(tunnels=masquerades)
    assert attacked.see(attempts, by=CALI0) == attempts, "without members they pass"
    attacked.node.forget_connections()
    attacked.defend(tunnels=masquerades, etcd_members=MEMBERS)
    dropped = {tcp(own(target), target, port): None for target in MEMBERS for port in ETCD_PORTS}
    assert attacked.see(dropped, by=CALI0) == dropped
    others = {
        **{tcp(own(target), target, port): way[target] for target in MEMBERS for port in (2377, 2381)},
        **{udp(own(target), target, 2379): way[target] for target in MEMBERS},
        **{tcp(own(target), target, 2379): "eth0" for target in (OUTSIDE, OUTSIDE_V6)},
    }
    assert attacked.see(others, by=CALI0) == others


@pytest.mark.parametrize("tracked", [False, True], ids=["routed", "natOutgoing"])
def test_a_workload_connects_to_a_member_in_fragments(attacked: AttackedNode, tracked: bool) -> None:
    """Send the first segment to a gate in fragments, with the TCP header in one of them, in both, or after options.

    Gain: A connection past a rule on ports.
    Precedent: CVE-2021-3773 (class), RFC 1858, RFC 7112.
    Closed: 0.3.0
    Result: No fragment with the beginning of the TCP header leaves, so that no host can reassemble the segment.
    """
    attacked.defend(tunnels=tracked, etcd_members=MEMBERS)
    packets, heads = [], set()
    for source, target in ((W0, PEER), (W0_V6, PEER_V6)):
        segment = packet(tcp(source, target, ETCD_PORTS[0]), 0, 0)[40 if ":" in source else 20 :]
        heads.add(segment[2:8])  # the port and the sequence number: NAT changes neither, and chance makes no such bytes
        packets += [forged.in_two(source, target, segment, at, TCP) for at in (8, 16, 24)]
    options = struct.pack("!BB", TCP, 0) + b"\1\4\0\0\0\0"
    behind_options = options + packet(tcp(W0_V6, PEER_V6, ETCD_PORTS[0]), 0, 0)[40:]
    packets.append([forged.ip(W0_V6, PEER_V6, forged.DESTINATION_OPTIONS, behind_options)])
    # Without connection tracking, a first fragment without the TCP header leaves. Hosts refuse it (RFC 8200, 4.5).
    packets += [
        forged.in_two(W0_V6, PEER_V6, behind_options, at, forged.DESTINATION_OPTIONS)
        for at in (*([8] if tracked else []), 16, 24)
    ]
    with attacked.node.watching("eth0") as frames:
        for parts in packets:
            for part in parts:
                attacked.send_raw(part, CALI0)
        attacked.expect([udp(W0, OUTSIDE)])
        assert [frame.hex() for frame in forged.left(frames) if any(head in frame[14:] for head in heads)] == []
