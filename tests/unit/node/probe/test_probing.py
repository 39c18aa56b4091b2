# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the parts of a probe that need no socket: what is counted, and to which target an ICMP error belongs."""

from __future__ import annotations

import socket
import struct

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import probing

RUN = b"01234567"


def tally(sent, *answered, address="10.244.7.0"):
    made = probing.Tally(probing.Target(address, 1480, "node2"))
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
def test_losses_and_the_longest_gap(sent, answered, lost, gap):
    answer = tally(sent, *answered).answer(0.2)
    assert (answer.lost, answer.longest_gap) == (lost, gap)


def test_the_reason_of_a_probe_counts_missing_answers():
    assert tally(3, 0, 1, 2).answer(0.2).reason == ""
    assert tally(3).answer(0.2).reason == "no answer"
    assert tally(3, 0).answer(0.2).reason == "2 not answered"
    assert tally(3, 0, 1, 2).answer(0.2).rtt_min == 0.5


def test_an_answer_counts_once_and_only_for_what_was_sent():
    counted = tally(2)
    for payload in (probing._PAYLOAD.pack(RUN, 0, 1, 0.0),) * 2:
        probing._count([counted], payload, 0.001)
    probing._count([counted], probing._PAYLOAD.pack(RUN, 0, 7, 0.0), 0.001)
    probing._count([counted], probing._PAYLOAD.pack(RUN, 9, 0, 0.0), 0.001)
    assert counted.answered == {1}


def error(kind, code, run=RUN, address=b"\x0a\xf4\x07\x00"):
    quoted = b"\x45" + bytes(15) + address + struct.pack("!BBH2sH", 8, 0, 0, run[:2], 1)
    return struct.pack("!BBHI", kind, code, 0, 0) + quoted


@pytest.mark.parametrize(
    ("kind", "code", "text"),
    [
        (3, 1, "host unreachable, says 10.10.1.12"),
        (3, 4, "too large for the path, says 10.10.1.12"),
        (11, 0, "time to live exceeded (a loop), says 10.10.1.12"),
        (3, 99, "ICMP type 3 code 99, says 10.10.1.12"),
    ],
)
def test_an_icmp_error_is_the_reason_of_its_target(kind, code, text):
    lost = tally(1)
    probing._note(error(kind, code), {"10.244.7.0": [lost]}, RUN, "10.10.1.12")
    assert lost.answer(0.2).reason == text


def error6(kind, code, address="fd00:10:244::7"):
    quoted = bytes(24) + socket.inet_pton(socket.AF_INET6, address) + struct.pack("!BBH2sH", 128, 0, 0, RUN[:2], 1)
    return struct.pack("!BBHI", kind, code, 0, 0) + quoted


@pytest.mark.parametrize(
    ("kind", "code", "text"),
    [
        (1, 0, "network unreachable, says fd00::1"),
        (2, 0, "too large for the path, says fd00::1"),
        (3, 0, "time to live exceeded (a loop), says fd00::1"),
        (1, 99, "ICMP type 1 code 99, says fd00::1"),
    ],
)
def test_an_icmpv6_error_is_the_reason_of_its_target(kind, code, text):
    lost = tally(1, address="fd00:10:244::7")
    probing._note(error6(kind, code), {"fd00:10:244::7": [lost]}, RUN, "fd00::1", probing._ICMPV6)
    probing._note(error6(1, 0, "fd00::8"), {"fd00:10:244::7": [lost]}, RUN, "fd00::2", probing._ICMPV6)
    assert lost.answer(0.2).reason == text


def test_errors_about_others_packets_are_passed_over():
    lost = tally(1)
    probing._note(error(3, 1, run=b"99xxxxxx"), {"10.244.7.0": [lost]}, RUN, "10.10.1.12")
    probing._note(error(3, 1, address=b"\x0a\xf4\x08\x00"), {"10.244.7.0": [lost]}, RUN, "10.10.1.12")
    assert lost.answer(0.2).reason == "no answer"


class Flooded:
    """A socket at which an echo reply to another process is always waiting."""

    def __init__(self):
        self.read = 0

    def recvfrom(self, _size):
        self.read += 1
        assert self.read < 1_000_000, "the reader does not come to an end"
        reply = struct.pack("!BBHHH", 0, 0, 0, 7, self.read & 0xFFFF) + bytes(56)
        return b"\x45" + bytes(19) + reply, ("10.10.1.12", 0)


def test_a_flood_of_packets_does_not_hold_up_the_reader():
    exchange = probing.Exchange([])
    flooded = exchange._socks[probing._ICMP] = Flooded()
    assert exchange.receive() is True
    assert 10_000 < flooded.read < 100_000, "all that a full socket of 8 MiB holds is read"


def test_the_checksum_of_the_rfc():
    assert probing.checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D  # the example of RFC 1071, inverted
    assert probing.checksum(b"\x01") == probing.checksum(b"\x01\x00")


def test_a_probe_of_no_targets_returns_an_empty_list():
    assert probing.probe([]) == []
