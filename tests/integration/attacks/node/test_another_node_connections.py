# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by root on another node, and by hosts in the operators' networks, on the ports of a host of etcd."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.integration.attacks.member_host import (
    CLIENT,
    GATE,
    MEMBER,
    MEMBER6,
    NODE,
    NODE6,
    OPERATOR,
    OPERATOR6,
    OTHER_MEMBER,
    OTHER_MEMBER6,
    OTHER_OPERATOR,
    PEER,
    PORTS,
    SAME_OPERATOR6,
    STRANGER,
    STRANGER6,
    MemberHost,
)
from tests.integration.bird.network import wait_for

pytestmark = pytest.mark.root

MOST, OPERATORS = 64, 256


@pytest.fixture
def member(tmp_path: pathlib.Path) -> t.Iterator[MemberHost]:
    made = MemberHost(tmp_path)
    yield made
    made.close()


def test_ports_of_a_member(member: MemberHost) -> None:
    """Connect to gate, member and the port of members from a node, from operators and from anywhere else.

    Gain: Etcd itself, which the gate is to protect, or another try at its passwords.
    Precedent: CWE-284 (improper access control).
    Closed: 0.3.0
    Result: A node reaches the gate alone, an operator the gate and the member, and a stranger nothing.
    """
    sources = {
        "node": ([NODE, NODE6], {GATE}),
        "member": ([OTHER_MEMBER, OTHER_MEMBER6], set(PORTS)),
        "operator": ([OPERATOR, OPERATOR6], {GATE, CLIENT}),
        "stranger": ([STRANGER, STRANGER6], set()),
    }
    expected = {
        (source, MEMBER6 if ":" in source else MEMBER, port): "connected" if port in opened else "dropped"
        for addresses, opened in sources.values()
        for source in addresses
        for port in PORTS
    }
    assert member.reaches(list(expected)) == expected


def test_connections_of_one_node(member: MemberHost) -> None:
    """Open hundreds of connections to the gate from one node, by IPv4 and IPv6, and hold them.

    Gain: All connections of the gate, and a part of its memory for each, before a certificate is asked for.
    Precedent: CWE-770, CWE-400.
    Closed: 0.3.0
    Result: Of each address, 64 are accepted. The gate is not told of the others, and other nodes connect as before.
    """
    flood = member.flood((NODE, MEMBER, GATE, 200), (NODE6, MEMBER6, GATE, 200))
    flood.until(2 * MOST)
    wait_for("all others are dropped", lambda: member.dropped("fleet") >= 2 * (200 - MOST))
    flood.until(2 * MOST)
    assert member.reaches([(NODE, MEMBER, GATE), (OTHER_MEMBER, MEMBER, GATE)]) == {
        (NODE, MEMBER, GATE): "dropped",
        (OTHER_MEMBER, MEMBER, GATE): "connected",
    }
    flood.process.kill()
    attempt = (NODE, MEMBER, GATE)
    wait_for("the node connects again", lambda: member.reaches([attempt]) == {attempt: "connected"})


def test_connections_of_operators(member: MemberHost) -> None:
    """Open hundreds of connections from hosts in an operators' network, also from many addresses of an IPv6 network.

    Gain: The connections and the memory of gate and member, from any host of the operators' network.
    Precedent: CWE-770, CWE-400.
    Closed: 0.3.0
    Result: 64 are accepted of an address or IPv6 network, for each port, and 256 of all. Nodes connect as before.
    """
    flood = member.flood((OPERATOR6, MEMBER6, GATE, 100), (SAME_OPERATOR6, MEMBER6, GATE, 100))
    flood.until(MOST)
    wait_for("all others are dropped", lambda: member.dropped("operators") >= 200 - MOST)
    more = member.flood(
        *((source, MEMBER, port, 100) for source in (OPERATOR, OTHER_OPERATOR) for port in (GATE, CLIENT))
    )
    more.until(OPERATORS - MOST)
    wait_for("all others are dropped", lambda: member.dropped("operators") >= 200 - MOST + 400 - OPERATORS + MOST)
    more.until(OPERATORS - MOST)
    node = [(NODE, MEMBER, GATE), (NODE6, MEMBER6, GATE), (OTHER_MEMBER, MEMBER, PEER)]
    assert member.reaches(node) == dict.fromkeys(node, "connected")


@pytest.mark.parametrize(
    ("source", "target", "port"),
    [(NODE, MEMBER, GATE), (NODE6, MEMBER6, GATE), (OPERATOR, MEMBER, CLIENT), (OPERATOR6, MEMBER6, GATE)],
)
def test_new_connections_without_an_end(member: MemberHost, source: str, target: str, port: int) -> None:
    """Open connections as fast as possible, and close each at once.

    Gain: The processor of gate and member, which begin a TLS handshake for each.
    Precedent: CWE-770, CWE-400.
    Closed: 0.3.0
    Result: After a burst of 256, 32 a second are accepted of one address. Other nodes connect as before.
    """
    assert member.hurry(source, target, port) >= 256
    assert member.dropped("operators" if source in (OPERATOR, OPERATOR6) else "fleet") > 0
    attempt = (OTHER_MEMBER, MEMBER, GATE)
    assert member.reaches([attempt]) == {attempt: "connected"}
