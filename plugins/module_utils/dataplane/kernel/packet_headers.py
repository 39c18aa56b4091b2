# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of a packet's addresses, ports and ICMP types from its first bytes. Pure; accepts any bytes."""

from __future__ import annotations

import socket
import struct
import typing as t

from ...policy.model import Flow

_TCP, _UDP, _SCTP, _UDPLITE, _ICMP, _ICMPV6 = 6, 17, 132, 136, 1, 58
_WITH_PORTS = frozenset({_TCP, _UDP, _SCTP, _UDPLITE})
_PORTS = struct.Struct("!HH")
# Extension headers of IPv6 (RFC 8200, RFC 4302): hop-by-hop, routing, destination options; fragment; authentication.
_OPTIONS, _FRAGMENT, _AUTHENTICATION = frozenset({0, 43, 60}), 44, 51
_FRAGMENT_OFFSET = 0x1FFF
_FRAGMENT_OFFSET6 = 0xFFF8


def flow(packet: bytes) -> t.Optional[Flow]:
    """Return protocol, addresses, ports, ICMP type and code of a packet, or None if it has no complete IP addresses.

    The protocol of IPv6 is the one behind the extension headers, if the packet has it. Ports are read for TCP, UDP,
    SCTP and UDP-Lite. Ports, type and code are None for other protocols, later fragments, and packets cut off earlier.
    """
    version = packet[0] >> 4 if packet else 0
    if version == 4 and len(packet) >= 20:
        later = int.from_bytes(packet[6:8], "big") & _FRAGMENT_OFFSET
        start = 1 << 16 if later else (packet[0] & 15) * 4
        source, destination = (socket.inet_ntop(socket.AF_INET, packet[at : at + 4]) for at in (12, 16))
        return _flow(packet[9], source, destination, packet[start:])
    if version == 6 and len(packet) >= 40:
        protocol, start = _upper(packet)
        source, destination = (socket.inet_ntop(socket.AF_INET6, packet[at : at + 16]) for at in (8, 24))
        return _flow(protocol, source, destination, packet[start:])
    return None


def _flow(protocol: int, source: str, destination: str, data: bytes) -> Flow:
    if protocol in _WITH_PORTS and len(data) >= 4:
        return Flow(protocol, source, destination, *_PORTS.unpack_from(data))
    if protocol in (_ICMP, _ICMPV6) and len(data) >= 2:
        return Flow(protocol, source, destination, icmp_type=data[0], icmp_code=data[1])
    return Flow(protocol, source, destination)


def _upper(packet: bytes) -> tuple[int, int]:
    """Return the protocol number behind the extension headers of an IPv6 packet, and the offset of its header in bytes.

    For a later fragment they are the protocol that the fragment header names and an offset beyond any packet. If the
    packet ends in or before the first 8 bytes of an extension header, they are that header's own.
    """
    protocol, start = packet[6], 40
    while start + 8 <= len(packet):
        if protocol in _OPTIONS:
            length = (packet[start + 1] + 1) * 8
        elif protocol == _AUTHENTICATION:
            length = (packet[start + 1] + 2) * 4
        elif protocol == _FRAGMENT:
            if int.from_bytes(packet[start + 2 : start + 4], "big") & _FRAGMENT_OFFSET6:
                return packet[start], 1 << 16
            length = 8
        else:
            break
        protocol, start = packet[start], start + length
    return protocol, start
