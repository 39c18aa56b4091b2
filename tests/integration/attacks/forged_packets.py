# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets that no honest host sends, byte by byte."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import typing as t

UDP, IPIP, ICMPV6, DESTINATION_OPTIONS, FRAGMENT = 17, 4, 58, 60, 44
ROUTER_SOLICITATION, ROUTER_ADVERTISEMENT, NEIGHBOR_SOLICITATION, NEIGHBOR_ADVERTISEMENT, REDIRECT = range(133, 138)
ECHO_REQUEST, MULTICAST_REPORT = 128, 143


def checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip(source: str, destination: str, protocol: int, body: bytes, fragment: int = 0, hops: int = 64) -> bytes:
    """Return an IP packet of the version of `source`.

    `fragment` is the field of IPv4's header with flags and offset; IPv6 ignores it. `hops` is TTL or hop limit.
    """
    ends = b"".join(ipaddress.ip_address(one).packed for one in (source, destination))
    if ":" in source:
        return struct.pack("!IHBB", 6 << 28, len(body), protocol, hops) + ends + body
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 4711, fragment, hops, protocol, 0) + ends
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + body


def udp(source: str, destination: str, source_port: int, port: int, payload: bytes) -> bytes:
    """Return a UDP datagram without the IP header, with its checksum."""
    ends = b"".join(ipaddress.ip_address(one).packed for one in (source, destination))
    body = struct.pack("!HHHH", source_port, port, 8 + len(payload), 0) + payload
    proper = checksum(ends + struct.pack("!II", len(body), UDP) + body) or 0xFFFF
    return body[:6] + struct.pack("!H", proper) + payload


def icmpv6(source: str, destination: str, kind: int, body: bytes) -> bytes:
    """Return an IPv6 packet with an ICMPv6 message of type `kind`, with the hop limit 255 of neighbour discovery.

    `body` is the message without its first four bytes (type, code 0, checksum).
    """
    ends = b"".join(ipaddress.ip_address(one).packed for one in (source, destination))
    message = struct.pack("!BBH", kind, 0, 0) + body
    proper = checksum(ends + struct.pack("!II", len(message), ICMPV6) + message)
    return ip(source, destination, ICMPV6, message[:2] + struct.pack("!H", proper) + body, hops=255)


def solicitation(source: str, target: str, mac: bytes) -> bytes:
    """Return an IPv6 packet with a neighbour solicitation for `target`.

    It goes to the target itself, with `mac` as the sender's. With the source "::" it goes to the target's multicast
    group, without a MAC address.
    """
    wanted = ipaddress.ip_address(target).packed
    option = b"" if source == "::" else b"\1\1" + mac
    destination = str(ipaddress.IPv6Address(b"\xff\2" + b"\0" * 9 + b"\1\xff" + wanted[13:]))
    return icmpv6(source, destination if source == "::" else target, NEIGHBOR_SOLICITATION, b"\0" * 4 + wanted + option)


def ethernet(packet: bytes, source: str = "02:00:00:00:00:aa", destination: str = "ff:ff:ff:ff:ff:ff") -> bytes:
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    return bytes.fromhex((destination + source).replace(":", "")) + struct.pack("!H", kind) + packet


def vxlan(frame: bytes, vni: int) -> bytes:
    """Return the payload of a VXLAN datagram: the VXLAN header and the Ethernet frame."""
    return struct.pack("!II", 0x08000000, vni << 8) + frame


def in_two(source: str, destination: str, body: bytes, at: int, protocol: int = UDP) -> list[bytes]:
    """Return an IP packet with the payload `body` in two fragments; the first has `at` bytes of it, a multiple of 8."""
    found = []
    for offset, part in ((0, body[:at]), (at, body[at:])):
        more = offset == 0
        if ":" in source:
            header = struct.pack("!BBHI", protocol, 0, offset | more, 4711)
            found.append(ip(source, destination, FRAGMENT, header + part))
        else:
            found.append(ip(source, destination, protocol, part, offset >> 3 | more << 13))
    return found


def left(frames: socket.socket, pause: float = 0.1) -> t.Iterator[bytes]:
    """Yield the frames that a socket receives, until none comes for `pause` seconds.

    A test that looks for a frame gives a long pause: it stops reading at that frame, and a busy host answers late.
    """
    frames.settimeout(pause)
    with contextlib.suppress(TimeoutError):
        while True:
            yield frames.recv(4096)
