# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses and ports of a packet, read from its first bytes, whatever they are."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import packet_headers
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.policy.packets import packet

PORT = st.integers(0, 65535)
BYTE = st.integers(0, 255)


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    family = draw(st.sampled_from([4, 6]))
    source, destination = (str(draw(st.ip_addresses(v=family))) for dummy in range(2))
    protocol = draw(st.sampled_from([6, 17, 132, 136, 1 if family == 4 else 58, 47, 253]))
    if protocol in (1, 58):
        return Flow(protocol, source, destination, icmp_type=draw(BYTE), icmp_code=draw(BYTE))
    if protocol in (47, 253):
        return Flow(protocol, source, destination)
    return Flow(protocol, source, destination, draw(PORT), draw(PORT))


def text(address: str) -> str:
    """Return an address as `ipaddress` writes it: inet_ntop writes IPv4 in IPv6 in another way."""
    return str(ipaddress.ip_address(address))


@settings(max_examples=150)
@given(flows())
def test_the_flow_of_a_sent_packet_is_read(flow: Flow) -> None:
    read = packet_headers.flow(packet(flow, 0, 1)[:96])
    assert read is not None
    plain = Flow(
        read.protocol, text(read.source), text(read.destination), read.source_port, read.destination_port,
        read.icmp_type, read.icmp_code,
    )  # fmt: skip
    assert plain == flow


@settings(max_examples=200)
@given(st.binary(max_size=96), st.sampled_from([0x45, 0x4F, 0x40, 0x60, 0x00]))
def test_any_bytes_are_a_flow_or_none(data: bytes, first: int) -> None:
    packet_headers.flow(data)
    packet_headers.flow(bytes([first]) + data)


UDP6 = Flow(17, "fd65::1", "fd65::2", 6000, 53)
PLAIN6 = packet(UDP6, 0, 1)
V4 = packet(Flow(6, "10.65.0.1", "10.65.0.2", 6000, 80), 0, 1)


def with_header(protocol: int, header: bytes) -> bytes:
    """Return PLAIN6 with an extension header of number `protocol` before the UDP header.

    `header` has the bytes of the extension header; the first one is replaced by the number of UDP.
    """
    return PLAIN6[:6] + bytes([protocol]) + PLAIN6[7:40] + bytes([17]) + header[1:] + PLAIN6[40:]


@pytest.mark.parametrize(
    "data",
    [
        with_header(0, bytes(8)),
        with_header(60, bytes([0, 1]) + bytes(14)),
        with_header(51, bytes([0, 4]) + bytes(22)),
        with_header(44, bytes(8)),
        with_header(44, struct.pack("!BBHI", 0, 0, 1, 7)),  # the first of several fragments
    ],
)
def test_extension_headers_are_passed_over(data: bytes) -> None:
    assert packet_headers.flow(data) == UDP6


def test_a_later_fragment_has_no_ports() -> None:
    assert packet_headers.flow(with_header(44, struct.pack("!BBHI", 0, 0, 8, 7))) == Flow(17, "fd65::1", "fd65::2")
    fragment = V4[:6] + struct.pack("!H", 100) + V4[8:]
    assert packet_headers.flow(fragment) == Flow(6, "10.65.0.1", "10.65.0.2")
    assert packet_headers.flow(V4[:6] + b"\x20\0" + V4[8:]) == Flow(6, "10.65.0.1", "10.65.0.2", 6000, 80)


def test_options_of_ipv4_are_passed_over() -> None:
    assert packet_headers.flow(b"\x46" + V4[1:20] + bytes(4) + V4[20:]) == packet_headers.flow(V4)


def test_fields_cut_off_a_packet_are_not_guessed() -> None:
    assert packet_headers.flow(V4[:22]) == Flow(6, "10.65.0.1", "10.65.0.2")
    assert packet_headers.flow(V4[:19]) is None and packet_headers.flow(b"") is None
