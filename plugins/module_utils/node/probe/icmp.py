# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets of probes: echo requests of ICMP and ICMPv6, their answers, and errors that quote them.

The payload of a request names its run and its place in it. A tag shows that it is genuine: only those that know the
run's secret can make one for the pair of addresses.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import hmac
import socket
import struct
import typing as t

from ...base.addresses import family_of
from ...state.derived import path_loss

# Numbers of linux/in6.h and linux/in.h; the socket module has only some of them.
_IP_MTU_DISCOVER = 10
_IP_PMTUDISC_PROBE = 3  # sets DF and ignores a path MTU that was learnt before
_SOL_RAW, _ICMP_FILTER = 255, 1  # linux/icmp.h; a set bit of the filter drops the ICMP type with its number
_ICMP6_FILTER = 1  # linux/icmpv6.h; a set bit of the filter drops the type with its number
_IPV6_MTU_DISCOVER, _IPV6_DONTFRAG = 23, 62
_BUFFER = 4 << 20  # bytes; the kernel grants as much as its own limit permits

#: The reasons of errors by which the sending kernel refuses a packet.
REFUSALS: t.Mapping[int, str] = {
    errno.EMSGSIZE: path_loss.TOO_LARGE,
    errno.ENETUNREACH: path_loss.NO_ROUTE,
    errno.EHOSTUNREACH: path_loss.NO_ROUTE,  # a route of the type unreachable
    errno.EINVAL: path_loss.NO_ROUTE,  # a route of the type blackhole, or no such source address
    errno.ENETDOWN: path_loss.NO_ROUTE,
    errno.EADDRNOTAVAIL: path_loss.NO_ROUTE,
    errno.EACCES: path_loss.REFUSED,  # a route of the type prohibit
    errno.EPERM: path_loss.REFUSED,
}

_HEAD = struct.Struct("!BBH2sH")  # type, code, checksum, identifier, sequence number
_PAYLOAD = struct.Struct("!8sIId8s")  # id of the run, index of the target, sequence number, monotonic seconds, tag
#: The bytes of a request without padding, after the IP header.
SMALLEST = _HEAD.size + _PAYLOAD.size


@dataclasses.dataclass(frozen=True, eq=False)
class IcmpFamily:
    """The constants of one IP version.

    `family` is that of the socket and `protocol` the number of its protocol. `header` is the bytes of an IP header
    without options. `protocol_at`, `source_at` and `destination_at` are offsets in it. `request` and `reply` are the
    ICMP types of an echo. `errors` maps the types of errors to reasons, and `codes` (type, code) to other reasons.
    """

    family: int
    protocol: int
    header: int
    protocol_at: int
    source_at: int
    destination_at: int
    length: int  # of an address, in bytes
    request: int
    reply: int
    errors: t.Mapping[int, str]
    codes: t.Mapping[tuple[int, int], str]

    def reason(self, kind: int, code: int) -> str:
        """Return which of path_loss.REASONS an error of a type in `errors` gives."""
        return self.codes.get((kind, code), self.errors[kind])


_REFUSED = path_loss.REFUSED
ICMP = IcmpFamily(
    socket.AF_INET, socket.IPPROTO_ICMP, 20, 9, 12, 16, 4, 8, 0,
    {3: path_loss.UNREACHABLE, 11: path_loss.LOOP},
    {(3, 4): path_loss.TOO_LARGE, **dict.fromkeys(((3, 2), (3, 3), (3, 9), (3, 10), (3, 13)), _REFUSED)},  # RFC 1812
)  # fmt: skip
ICMPV6 = IcmpFamily(
    socket.AF_INET6, socket.IPPROTO_ICMPV6, 40, 6, 8, 24, 16, 128, 129,
    {1: path_loss.UNREACHABLE, 2: path_loss.TOO_LARGE, 3: path_loss.LOOP},
    dict.fromkeys(((1, 1), (1, 4), (1, 5), (1, 6)), _REFUSED),  # RFC 4443
)  # fmt: skip
#: The codes by which a node says that it has no route, by IP version.
NO_ROUTE: t.Mapping[IcmpFamily, tuple[int, int]] = {ICMP: (3, 0), ICMPV6: (1, 0)}


def icmp_of(address: str) -> IcmpFamily:
    return ICMPV6 if family_of(address) == 6 else ICMP


def packed(address: str) -> bytes:
    """Return an address as bytes, without its scope; b"" for ""."""
    return socket.inet_pton(icmp_of(address).family, address.partition("%")[0]) if address else b""


class Signature(t.NamedTuple):
    """The key of the tags on probes: the secret of the playbook run, and the random id of this process."""

    secret: bytes
    run: bytes

    def tag(self, source: bytes, destination: bytes, sequence: int, run: t.Optional[bytes] = None) -> bytes:
        """Return the 8 bytes that authenticate a request from `source` to `destination`; `run` is another run's id."""
        content = (run or self.run) + sequence.to_bytes(4, "big") + source + destination
        return hashlib.blake2s(content, digest_size=8, key=self.secret).digest()


class ProbePayload(t.NamedTuple):
    """The payload of a request: the id of its run, the target's index, its number and when it was sent."""

    run: bytes
    number: int
    sequence: int
    sent_at: float
    tag: bytes

    def is_genuine(self, signature: Signature, source: bytes, destination: bytes) -> bool:
        """Return whether the run of `signature`, or another one with its secret, made it for these addresses."""
        expected = signature.tag(source, destination, self.sequence, self.run)
        return hmac.compare_digest(expected, self.tag)


def payload_of(body: bytes) -> t.Optional[ProbePayload]:
    """Return the payload of an ICMP message, None if it is too short to have one."""
    if len(body) < SMALLEST:
        return None
    return ProbePayload(*_PAYLOAD.unpack_from(body, _HEAD.size))


def request(icmp: IcmpFamily, payload: ProbePayload, size: int) -> bytes:
    """Return the ICMP message of an echo request in an IP packet of `size` bytes, or of the smallest that has room."""
    return echo_request(icmp, payload.run[:2], payload.sequence, _PAYLOAD.pack(*payload), size)


def echo_request(icmp: IcmpFamily, identifier: bytes, sequence: int, content: bytes, size: int) -> bytes:
    """Return the ICMP message of an echo request with `content`, as `request` does; `sequence` may have more bits."""
    head = _HEAD.pack(icmp.request, 0, 0, identifier, sequence & 0xFFFF)
    if icmp is ICMP:  # The kernel computes the checksum of ICMPv6, because it covers the addresses.
        head = head[:2] + struct.pack("!H", checksum(head + content)) + head[4:]
    packet = head + content
    return packet + b"\0" * (size - icmp.header - len(packet))  # padding; zeros change no checksum


class Quoted(t.NamedTuple):
    """An echo request as an ICMP error quotes it. `payload` is None if too little of its `content` is quoted."""

    source: bytes
    destination: bytes
    identifier: bytes
    sequence: int  # its lower 16 bits
    payload: t.Optional[ProbePayload]
    content: bytes


def quoted(icmp: IcmpFamily, body: bytes) -> t.Optional[Quoted]:
    """Return the echo request in the ICMP error `body`, None if it quotes anything else."""
    inner = body[_HEAD.size :]
    if len(inner) < icmp.header or inner[icmp.protocol_at] != icmp.protocol:
        return None
    length = icmp.header if icmp is ICMPV6 else (inner[0] & 0xF) * 4
    message = inner[length:]
    if length < icmp.header or len(message) < _HEAD.size:
        return None
    kind, dummy, dummy, identifier, sequence = _HEAD.unpack_from(message)
    if kind != icmp.request:
        return None
    source = inner[icmp.source_at : icmp.source_at + icmp.length]
    destination = inner[icmp.destination_at : icmp.destination_at + icmp.length]
    return Quoted(source, destination, identifier, sequence, payload_of(message), message[_HEAD.size :])


def opened(icmp: IcmpFamily, source: str, tos: int, listens: bool) -> socket.socket:
    """Return a raw socket of the calling thread's network namespace, bound to `source` unless that is "".

    It sends with the TOS byte `tos`, never fragments what it sends, and receives echo replies and errors alone. One
    that `listens` also gets copies of echo requests. Raise OSError.
    """
    sock = socket.socket(icmp.family, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, icmp.protocol)
    try:
        wanted = sum(1 << kind for kind in (icmp.reply, *icmp.errors, *((icmp.request,) if listens else ())))
        if icmp is ICMPV6:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_DONTFRAG, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos)
            words = (~(wanted >> 32 * word) & 0xFFFFFFFF for word in range(8))
            sock.setsockopt(socket.IPPROTO_ICMPV6, _ICMP6_FILTER, struct.pack("=8I", *words))
        else:
            sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
            sock.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", ~wanted & 0xFFFFFFFF))
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        if source:
            sock.bind((source, 0))
    except OSError:
        sock.close()
        raise
    return sock


def checksum(data: bytes) -> int:
    """Return the Internet checksum of `data` (RFC 1071): 16 bits, of words in network byte order."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
