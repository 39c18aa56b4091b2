# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks on connections that the node tracks, by a workload or a host that has guessed their ports and numbers.

W1 has a connection to OUTSIDE. Policy lets nothing else reach W1, so only packets of that connection do.
"""

from __future__ import annotations

import ipaddress
import itertools
import pathlib
import struct
import time
import typing as t

import pytest

from tests.integration.attacks import forged_packets as forged
from tests.integration.attacks.attacked_node import AttackedNode, attacked_node
from tests.integration.policy.documents import global_policy
from tests.integration.policy.node_in_namespace import workload_interface
from tests.integration.policy.policed_node import OUTSIDE, OUTSIDE_V6, W0, W0_V6, W1, W1_V6

FIN, SYN, RST, ACK = 1, 2, 4, 16
TCP, ICMP, ICMPV6 = 6, 1, 58
CALI0, CALI1 = workload_interface(0), workload_interface(1)
_numbers = itertools.count(1)
#: Seconds that the kernel still tracks a connection that was ended.
ENDED = 1


@pytest.fixture(params=("nft, policy", "legacy, policy"))
def attacked(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> t.Iterator[AttackedNode]:
    for node in attacked_node(request.param, tmp_path, monkeypatch):
        for kind in ("close", "fin_wait", "last_ack", "close_wait", "time_wait"):
            node.node.kernel.sysctl_write(f"net/netfilter/nf_conntrack_tcp_timeout_{kind}", str(ENDED))
        node.defend(global_policy("closed", types=["Ingress"]))
        yield node


class Segment(t.NamedTuple):
    """A TCP segment; `tag` is the number by which it is recognized where it arrives."""

    source: str
    destination: str
    ports: tuple[int, int]
    sequence: int
    acknowledged: int
    flags: int
    tag: int

    def packet(self) -> bytes:
        body = struct.pack("!HHII", *self.ports, self.sequence, self.acknowledged)
        body += struct.pack("!BBHHH", 5 << 4, self.flags, 65535, 0, 0) + struct.pack("!4sHH", b"hrpc", 9, self.tag)
        ends = b"".join(ipaddress.ip_address(one).packed for one in (self.source, self.destination))
        proper = forged.checksum(ends + struct.pack("!II", len(body), TCP) + body)
        return forged.ip(self.source, self.destination, TCP, body[:16] + struct.pack("!H", proper) + body[18:])


class Connection:
    """A TCP connection from a workload to a server outside, which both ends know, and the node tracks."""

    def __init__(self, node: AttackedNode, client: str, server: str) -> None:
        self.node, self.client, self.server = node, client, server
        self.ports = (30000 + next(_numbers), 443)
        self.sent, self.answered = 1_000_000, 2_000_000
        self.arrive(CALI1, self.by_client(SYN))
        self.sent += 1
        self.arrive("eth0", self.by_server(SYN | ACK))
        self.answered += 1
        self.goes_on()

    def by_client(self, flags: int, ahead: int = 0) -> Segment:
        """Return the client's next segment, `ahead` bytes further."""
        acknowledged = self.answered if flags & ACK else 0
        return Segment(self.client, self.server, self.ports, self.sent + ahead, acknowledged, flags, next(_numbers))

    def by_server(self, flags: int, ahead: int = 0) -> Segment:
        """Return the server's next segment, `ahead` bytes further."""
        return Segment(
            self.server, self.client, self.ports[::-1], self.answered + ahead, self.sent, flags, next(_numbers)
        )

    def arrive(self, by: str, segment: Segment) -> None:
        """Send a segment by an interface; raise AssertionError if it does not leave the node."""
        self.node.send_raw(segment.packet(), by)
        found = self.node.node.seen([(9, segment.tag)])
        assert (9, segment.tag) in found, segment

    def goes_on(self) -> None:
        """Send data in both directions, the server's first; raise AssertionError if policy does not let it pass."""
        self.arrive("eth0", self.by_server(ACK))
        self.answered += 8
        self.arrive(CALI1, self.by_client(ACK))
        self.sent += 8

    def nowhere(self, by: str, segments: t.Iterable[Segment]) -> None:
        """Send segments by an interface; raise AssertionError if one of them leaves the node."""
        tags = []
        for segment in segments:
            self.node.send_raw(segment.packet(), by)
            tags.append((9, segment.tag))
        found = self.node.node.seen([])
        assert not set(tags) & set(found)


@pytest.fixture(params=((W1, OUTSIDE), (W1_V6, OUTSIDE_V6)), ids=("IPv4", "IPv6"))
def connection(request: pytest.FixtureRequest, attacked: AttackedNode) -> Connection:
    return Connection(attacked, *request.param)


def test_a_workload_knows_the_numbers_of_a_connection(connection: Connection) -> None:
    """Send a data segment, a FIN, a RST and a SYN of another workload's connection, with the very next numbers.

    Both as its client and as its server.

    Gain: Data in a connection that policy does not check again, or its end: the node forgets the connection, and policy
    drops what the server sends.
    Precedent: CVE-2019-14899 (class), CWE-290.
    Closed: 0.3.0
    Result: None of them arrives. Segments that end a connection are dropped before the node tracks them, so it goes on.
    """
    flags = (ACK, FIN | ACK, RST, RST | ACK, SYN)
    connection.nowhere(CALI0, [connection.by_client(one) for one in flags])
    connection.nowhere(CALI0, [connection.by_server(one) for one in flags])
    time.sleep(2 * ENDED)
    connection.goes_on()


def test_a_host_guesses_the_numbers_of_a_connection(connection: Connection) -> None:
    """Send segments with a server's address and ports from the network, with numbers beyond the window.

    Gain: Segments that reach a workload whose policy denies everything but its own connections.
    Precedent: CWE-290; RFC 5961.
    Closed: 0.3.0
    Result: Connection tracking finds them invalid, and policy drops invalid packets. The connection goes on. Numbers
    before the window are those of a retransmission: they pass, and the workload's kernel drops them.
    """
    guesses = [connection.by_server(one, ahead) for one in (ACK, FIN | ACK) for ahead in (1 << 24, 1 << 29)]
    connection.nowhere("eth0", guesses)
    other = connection.by_server(ACK)
    connection.nowhere(
        "eth0", [other._replace(ports=(443, other.ports[1] + 1)), other._replace(ports=(80, other.ports[1]))]
    )
    time.sleep(2 * ENDED)
    connection.goes_on()


def test_an_error_about_a_guessed_connection(attacked: AttackedNode) -> None:
    """Send an ICMP error with its own address to another workload, which quotes a packet of that one's connection.

    Gain: A packet that reaches a workload past its policy, and a wrong MTU or an ended connection there.
    Precedent: RFC 5927.
    Closed: 0.3.0
    Result: Not prevented: any router may send such an error, so policy lets it pass if it quotes addresses and ports
    of a tracked connection. The kernel of the workload still checks TCP's sequence number. Others are dropped.
    """
    for client, server, by in ((W1, OUTSIDE, W0), (W1_V6, OUTSIDE_V6, W0_V6)):
        connection = Connection(attacked, client, server)
        quoted = connection.by_client(ACK)
        stranger = quoted._replace(ports=(quoted.ports[0] + 1, 443), tag=next(_numbers))
        for segment, passes in ((quoted, True), (stranger, False)):
            with attacked.node.watching(CALI1) as frames:
                attacked.send_raw(error(by, client, segment.packet()), CALI0)
                tag = struct.pack("!4sHH", b"hrpc", 9, segment.tag)
                # What passes is waited for; what does not had its time with the connection's next packets.
                connection.goes_on()
                assert any(frame.endswith(tag) for frame in forged.left(frames, 2.0 if passes else 0.3)) == passes
        connection.goes_on()


def error(source: str, destination: str, packet: bytes) -> bytes:
    """Return the packet of an error that a packet is too big for 576 or 1280 bytes, which quotes all of it."""
    if ":" in source:
        return forged.icmpv6(source, destination, 2, struct.pack("!I", 1280) + packet)
    body = struct.pack("!BBHHH", 3, 4, 0, 0, 576) + packet
    return forged.ip(source, destination, ICMP, body[:2] + struct.pack("!H", forged.checksum(body)) + body[4:])
