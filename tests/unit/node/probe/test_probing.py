# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of probes without a network: what is counted, what is heard, and to which target an ICMP error belongs."""

from __future__ import annotations

import struct
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import icmp as packets
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import probing
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe.icmp import (
    ICMP,
    ICMPV6,
    IcmpFamily,
    packed,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe.probing import (
    Exchange,
    ProbeResult,
    Sending,
    Target,
)
from hypothesis import given
from hypothesis import strategies as st

SECRET = bytes(range(16))
ENDS = {ICMP: ("10.244.3.63", "10.244.7.63"), ICMPV6: ("fd00:10:244::3f", "fd00:10:244::7f")}
ROUTER = {ICMP: "10.10.1.1", ICMPV6: "fd00:10:10::1"}
FAMILIES = pytest.mark.parametrize("icmp", [ICMP, ICMPV6], ids=["ipv4", "ipv6"])


class Wire:
    """The socket of an exchange: what it sent, and packets that wait to be received, each with its sender."""

    def __init__(self, icmp: IcmpFamily) -> None:
        self.icmp, self.sent, self.waiting = icmp, [], []

    def sendto(self, packet: bytes, to: tuple[str, int]) -> None:
        self.sent.append(packet)

    def recvfrom(self, _size: int) -> tuple[bytes, tuple[str, int]]:
        if not self.waiting:
            raise BlockingIOError
        return self.waiting.pop(0)

    def close(self) -> None:
        """Keep everything for the test."""

    def arrive(self, message: bytes, sender: str, to: str) -> None:
        header = ip_header(self.icmp, sender, to, len(message)) if self.icmp is ICMP else b""
        self.waiting.append((header + message, (sender, 0)))


def ip_header(icmp: IcmpFamily, source: str, destination: str, length: int) -> bytes:
    if icmp is ICMP:
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0x4000, 64, 1, 0)
    else:
        head = struct.pack("!IHBB", 6 << 28, length, 58, 64)
    return head + packed(source) + packed(destination)


class Probed:
    """An exchange with one target whose network is a Wire."""

    def __init__(self, icmp: IcmpFamily, monkeypatch: pytest.MonkeyPatch, **sending: t.Any) -> None:
        self.icmp, self.wire = icmp, Wire(icmp)
        monkeypatch.setattr(packets, "opened", lambda *dummy: self.wire)
        monkeypatch.setattr(probing.select, "poll", type("Poll", (), {"register": lambda *dummy: None}))
        monkeypatch.setattr(probing, "_is_local", lambda address: address == "10.10.1.11")
        self.source, self.address = ENDS[icmp]
        options = {"secret": SECRET, **sending}
        self.exchange = Exchange([Target(self.address, 120, "node2", "default", self.source)], Sending(**options))

    def result(self) -> ProbeResult:
        self.exchange.receive()
        return self.exchange.tallies[0].answer(0.2, self.exchange.heard[0])

    def reply(self, request: bytes, sender: str | None = None) -> None:
        self.wire.arrive(bytes([self.icmp.reply]) + request[1:], sender or self.address, self.source)

    def error(self, kind: int, code: int, quote: bytes, source: str | None = None, to: str | None = None) -> None:
        inner = ip_header(self.icmp, source or self.source, to or self.address, len(quote)) + quote
        self.wire.arrive(struct.pack("!BBHI", kind, code, 0, 0) + inner, ROUTER[self.icmp], self.source)

    def request(self, sequence: int, secret: bytes = SECRET, sender: str | None = None, to: str | None = None) -> None:
        """Let a request of the other node arrive, made with `secret` for the pair of `sender` and `to`."""
        signature = packets.Signature(secret, b"theirrun")
        ends = packed(sender or self.address), packed(to or self.source)
        payload = packets.ProbePayload(b"theirrun", 0, sequence, 1.0, signature.tag(*ends, sequence))
        self.wire.arrive(packets.request(self.icmp, payload, 120), self.address, self.source)


@pytest.fixture
def probed(icmp: IcmpFamily, monkeypatch: pytest.MonkeyPatch) -> Probed:
    made = Probed(icmp, monkeypatch)
    for dummy in range(3):
        made.exchange.send(0)
    return made


def tally(sent: int, *answered: int) -> probing.Tally:
    made = probing.Tally(Target("10.244.7.0", 1480, "node2"))
    made.sent = sent
    for sequence in answered:
        made.answered.add(sequence)
        made.rtts.append(0.0005)
    return made


@pytest.mark.parametrize(
    ("sent", "answered", "lost", "gap"),
    [
        (4, (0, 1, 2, 3), 0, 0.0),
        (4, (0, 3), 2, 400.0),
        (4, (0, 1), 2, 400.0),
        (4, (2, 3), 2, 400.0),
        (4, (), 4, 800.0),
        (5, (1, 3), 3, 200.0),
    ],
)
def test_losses_and_the_longest_gap(sent: int, answered: tuple[int, ...], lost: int, gap: float) -> None:
    answer = tally(sent, *answered).answer(0.2)
    assert (answer.lost, answer.longest_gap) == (lost, gap)
    assert answer.reason == ("no answer" if lost else "")


@FAMILIES
def test_a_request_has_its_size_and_its_answer_counts_once(probed: Probed) -> None:
    assert [len(packet) + probed.icmp.header for packet in probed.wire.sent] == [120] * 3
    for dummy in range(2):
        probed.reply(probed.wire.sent[1])
    found = probed.result()
    assert (found.sent, found.received, found.reason, found.by) == (3, 1, "no answer", "")
    assert (found.pool, found.source, found.name) == ("default", probed.source, "node2")


@FAMILIES
def test_forged_answers_do_not_count(probed: Probed) -> None:
    """No answer counts that comes from another address, or whose request was not sent, or was changed."""
    sent = probed.wire.sent[0]
    probed.reply(sent, ROUTER[probed.icmp])
    for position in (8, 16, 23, 35):  # the run, the target's index, the sequence number, the tag
        probed.reply(sent[:position] + bytes([sent[position] ^ 1]) + sent[position + 1 :])
    probed.reply(sent[: packets.SMALLEST - 1])
    assert probed.result().received == 0


@FAMILIES
def test_late_answers_to_an_earlier_round_do_not_count(probed: Probed) -> None:
    probed.exchange.renew(0)
    probed.reply(probed.wire.sent[2])
    assert (probed.result().sent, probed.result().received) == (0, 0)
    probed.exchange.send(0)
    probed.reply(probed.wire.sent[3])
    assert (probed.result().sent, probed.result().received) == (1, 1)


ERRORS = {
    ICMP: [
        (3, 0, "unreachable"),
        (3, 1, "unreachable"),
        (3, 3, "refused"),
        (3, 4, "too large"),
        (3, 13, "refused"),
        (3, 99, "unreachable"),
        (11, 0, "loop"),
    ],
    ICMPV6: [
        (1, 0, "unreachable"),
        (1, 1, "refused"),
        (1, 3, "unreachable"),
        (1, 4, "refused"),
        (2, 0, "too large"),
        (3, 0, "loop"),
    ],
}


@pytest.mark.parametrize(
    ("icmp", "kind", "code", "reason"), [(icmp, *entry) for icmp, entries in ERRORS.items() for entry in entries]
)
@pytest.mark.parametrize("quoted", [8, 100], ids=["short", "long"])
def test_an_icmp_error_is_the_reason_of_its_target(
    probed: Probed, kind: int, code: int, reason: str, quoted: int
) -> None:
    """The reason is one of the closed list, by the address that sent the error, also if it quotes 8 bytes."""
    probed.error(kind, code, probed.wire.sent[0][:quoted])
    found = probed.result()
    assert (found.reason, found.by) == (reason, ROUTER[probed.icmp])


@pytest.mark.parametrize("icmp", [ICMP])
def test_no_route_is_what_the_host_itself_says(probed: Probed) -> None:
    quote = ip_header(ICMP, probed.source, probed.address, 8) + probed.wire.sent[0][:8]
    probed.wire.arrive(struct.pack("!BBHI", 3, 0, 0, 0) + quote, "10.10.1.11", probed.source)
    assert (probed.result().reason, probed.result().by) == ("no route", "")


@FAMILIES
def test_errors_about_other_packets_are_not_believed(probed: Probed) -> None:
    """An error must quote a packet that was sent: its addresses, identifier, number and, if it is long, its tag."""
    kind = next(iter(probed.icmp.errors))
    sent = probed.wire.sent[0]
    probed.error(kind, 1, sent, source=ROUTER[probed.icmp])
    probed.error(kind, 1, sent, to=ROUTER[probed.icmp])
    for position in (0, 4, 5, 6, 8, 16, 23, 35):  # type, identifier, number, and the payload's fields
        probed.error(kind, 1, sent[:position] + bytes([sent[position] ^ 0x80]) + sent[position + 1 :])
    probed.error(kind, 1, sent[:6] + struct.pack("!H", 3))
    probed.error(kind, 1, sent[:7])
    assert probed.result().reason == "no answer"


@FAMILIES
@given(noise=st.binary(max_size=80), kind=st.sampled_from([0, 1, 2, 3, 8, 11, 128, 129]))
def test_any_packet_is_read_without_an_error(icmp: IcmpFamily, noise: bytes, kind: int) -> None:
    """Whatever a stranger sends is neither an answer nor heard nor a reason."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        probed = Probed(icmp, monkeypatch)
        probed.exchange.send(0)
        probed.wire.arrive(bytes([kind]) + noise, ROUTER[icmp], probed.source)
        found = probed.result()
    assert (found.received, found.reason, found.heard) == (0, "no answer", 0)


@FAMILIES
def test_genuine_requests_of_the_other_node_are_heard_once(probed: Probed) -> None:
    """A node hears each request once that the secret of the run shows to be from the target to its source address."""
    assert probed.result().heard == 0
    for sequence in (0, 1, 1, 2):
        probed.request(sequence)
    assert probed.result().heard == 3


@FAMILIES
def test_forged_requests_are_not_heard(probed: Probed) -> None:
    """Without the secret, or with a tag for other addresses, a request is a stranger's. So is one of this process."""
    probed.request(0, secret=bytes(16))
    probed.request(0, sender=ROUTER[probed.icmp])
    probed.request(0, to=ROUTER[probed.icmp])
    probed.wire.arrive(probed.wire.sent[0], probed.address, probed.source)
    assert probed.result().heard == 0


@FAMILIES
def test_without_a_secret_nothing_is_heard(icmp: IcmpFamily, monkeypatch: pytest.MonkeyPatch) -> None:
    probed = Probed(icmp, monkeypatch, secret=b"")
    probed.request(0)
    assert probed.result().heard is None


@FAMILIES
def test_what_is_heard_has_a_limit(probed: Probed) -> None:
    for sequence in range(5000):
        probed.request(sequence)
    assert probed.result().heard == 4096


def test_a_secret_is_not_shown() -> None:
    assert SECRET.hex() not in repr(Sending(secret=SECRET)) and str(SECRET) not in repr(Sending(secret=SECRET))


class Flooded(Wire):
    """A socket at which an echo reply to another process is always waiting."""

    read = 0

    def recvfrom(self, _size: int) -> tuple[bytes, tuple[str, int]]:
        self.read += 1
        assert self.read < 1_000_000, "the reader does not come to an end"
        reply = struct.pack("!BBHHH", 0, 0, 0, 7, self.read & 0xFFFF) + bytes(56)
        return b"\x45" + bytes(19) + reply, ("10.10.1.12", 0)


def test_a_flood_of_packets_does_not_hold_up_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    probed = Probed(ICMP, monkeypatch)
    flooded = probed.exchange._socks[ICMP, probed.source] = Flooded(ICMP)
    began = time.monotonic()
    assert probed.exchange.receive() is True
    assert 10_000 < flooded.read < 100_000, "all that a full socket of 8 MiB holds is read"
    assert time.monotonic() - began < 10


def test_too_many_source_addresses_are_refused() -> None:
    """A node has a socket for each source address, so their number has a limit."""
    many = [Target("10.244.7.63", source=f"10.244.3.{number}") for number in range(65)]
    with pytest.raises(probing.ProbeError, match=r"^probes leave from at most 64 addresses, not from 65\.$"):
        Exchange(many)


def test_the_checksum_of_the_rfc() -> None:
    assert packets.checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D  # the example of RFC 1071, inverted
    assert packets.checksum(b"\x01") == packets.checksum(b"\x01\x00")


def test_a_probe_of_no_targets_returns_an_empty_list() -> None:
    assert probing.probe([]) == []
