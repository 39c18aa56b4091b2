# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first packets of flows, each with a tag at its end that identifies it."""

from __future__ import annotations

import ipaddress
import struct
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow

_TAG = struct.Struct("!4sHH")
_MAGIC = b"hrpc"
TCP, UDP, SCTP, UDPLITE, ICMP, ICMPV6 = 6, 17, 132, 136, 1, 58


def tag(packet: bytes) -> t.Optional[tuple[int, int]]:
    """Return the (world, number) that the function `packet` has put at the end of a packet; None without a tag.

    An ICMP error has the tag of the packet that it quotes.
    """
    magic, world, number = _TAG.unpack(packet[-_TAG.size :]) if len(packet) >= _TAG.size else (b"", 0, 0)
    return (world, number) if magic == _MAGIC else None


def is_error(packet: bytes) -> bool:
    """Return whether an IP packet is an ICMP error (of type 3, 11 or 12) or an ICMPv6 error without extension headers.

    Such an error quotes the packet that caused it, with its tag.
    """
    if packet[0] >> 4 == 6:
        return packet[6] == ICMPV6 and packet[40] < 128
    return packet[9] == ICMP and packet[20] in (3, 11, 12)


def packet(flow: Flow, world: int, number: int) -> bytes:
    """Return an IP packet of the flow, which ends with the tag (`world`, `number`), each from 0 to 65535.

    By protocol it is a SYN (TCP), an INIT (SCTP), a datagram (UDP, UDPLite), an ICMP message with the identifier
    `number`, or an IP header with only the tag. Raise struct.error for a larger `world` or `number`.
    """
    source, destination = (ipaddress.ip_address(one).packed for one in (flow.source, flow.destination))
    body = _body(flow, _TAG.pack(_MAGIC, world, number), number)
    offset = {TCP: 16, UDP: 6, UDPLITE: 6, ICMP: 2, ICMPV6: 2}.get(flow.protocol)
    if offset is not None:
        pseudo = b"" if flow.protocol == ICMP else source + destination + struct.pack("!II", len(body), flow.protocol)
        checksum = _checksum(pseudo + body) or 0xFFFF
        body = body[:offset] + struct.pack("!H", checksum) + body[offset + 2 :]
    if flow.ip_version == 6:
        return struct.pack("!IHBB", 6 << 28, len(body), flow.protocol, 64) + source + destination + body
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), number, 0, 64, flow.protocol, 0) + source + destination
    return header[:10] + struct.pack("!H", _checksum(header)) + header[12:] + body


def _body(flow: Flow, end: bytes, number: int) -> bytes:
    ports = struct.pack("!HH", flow.source_port or 0, flow.destination_port or 0)
    if flow.protocol == TCP:
        return ports + struct.pack("!IIBBHHH", number + 1, 0, 5 << 4, 2, 65535, 0, 0) + end
    if flow.protocol in (UDP, UDPLITE):
        return ports + struct.pack("!HH", 8 + len(end), 0) + end
    if flow.protocol == SCTP:
        # The tag is a parameter of the INIT, of an unknown type: connection tracking drops an INIT with other chunks.
        chunk = struct.pack("!BBHIIHHI", 1, 0, 20 + len(end), number + 1, 65535, 1, 1, 1)
        return ports + struct.pack("!II", 0, 0) + chunk + end
    if flow.protocol in (ICMP, ICMPV6):
        return struct.pack("!BBHHH", flow.icmp_type, flow.icmp_code, 0, number, 0) + end
    return end


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) // 2 * 2]))
    total += data[-1] << 8 if len(data) % 2 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
