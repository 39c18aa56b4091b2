# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The raw sockets of a process that probes paths for as long as it lives, one of each IP version.

They never block, and nothing waits for them: their reader looks once a second. What arrives in between waits in the
socket's buffer, with the time of its arrival. The kernel drops requests and answers of others before that. The buffer
is small, so a flood costs neither memory nor much time; it is seen by the packets that the kernel counts as dropped.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
import typing as t

from ...sockets import packet_filter
from ...state.derived import path_loss
from . import icmp

# Numbers of linux/in6.h, linux/in.h and asm-generic/socket.h; the socket module has only some of them.
_SO_TIMESTAMPNS, _SO_MEMINFO = 35, 55
_IP_PKTINFO, _IPV6_PKTINFO = 8, 50
_TIMESPEC = struct.Struct("@ll")
_IDENTIFIER, _PAYLOAD = 4, 8  # offsets in bytes in an echo request or reply
#: Bytes of a receive buffer as the kernel counts it. It holds 60 to 110 packets of 1500 bytes, and more smaller ones.
_BUFFER = 256 << 10
#: The most packets that one call reads from a socket: more than its buffer holds.
_MOST = 1024
#: The bytes of a packet that are read: an IP header, an ICMP header, and the quotation of both and a payload.
_READ = 256


class Answer(t.NamedTuple):
    """An echo reply from `sender`, a packed address, which arrived at `arrived` in monotonic seconds."""

    sender: bytes
    payload: bytes
    arrived: float


class PeerProbe(t.NamedTuple):
    """An echo request from `sender`, a packed address. The kernel answers it."""

    sender: bytes
    payload: bytes


class Complaint(t.NamedTuple):
    """An ICMP error by `by` about a probe to `address`, a packed address, with the last 16 bits of its `number`.

    `payload` is the quoted beginning of the probe's payload, which may be empty. `no_route` means that `by` has none,
    which is the reason if `by` is this host.
    """

    address: bytes
    number: int
    reason: str
    by: str
    payload: bytes
    no_route: bool = False


Arrival = t.Union[Answer, PeerProbe, Complaint]


class PathSockets:
    """Sockets of the network namespace in which it is made. `identifier` are the two bytes of the ICMP identifier.

    Requests whose payload begins with other bytes than the four of `magic` do not arrive. A kernel without IPv6 has no
    socket for it. Making one raises OSError if no socket can be opened.
    """

    def __init__(self, identifier: bytes, magic: bytes) -> None:
        self.identifier = identifier
        self._socks: dict[icmp.IcmpFamily, socket.socket] = {icmp.ICMP: _opened(icmp.ICMP, identifier, magic)}
        with contextlib.suppress(OSError):
            self._socks[icmp.ICMPV6] = _opened(icmp.ICMPV6, identifier, magic)

    def send(self, source: str, address: bytes, number: int, size: int, payload: bytes) -> str:
        """Send an echo request with the given size of the whole packet; "" or one of REASONS if the kernel refuses.

        A full send queue is no reason: the probe is lost.
        """
        version = icmp.ICMPV6 if len(address) == 16 else icmp.ICMP
        sock = self._socks.get(version)
        if sock is None:
            return path_loss.NO_ROUTE
        packet = icmp.echo_request(version, self.identifier, number, payload, size)
        own = socket.inet_pton(version.family, source)
        if version is icmp.ICMPV6:
            ancillary = (socket.IPPROTO_IPV6, _IPV6_PKTINFO, own + bytes(4))
        else:
            ancillary = (socket.IPPROTO_IP, _IP_PKTINFO, bytes(4) + own + bytes(4))
        try:
            sock.sendmsg([packet], [ancillary], 0, (socket.inet_ntop(version.family, address), 0))
        except OSError as error:
            return icmp.REFUSALS.get(error.errno or 0, "")
        return ""

    def receive(self) -> list[Arrival]:
        """Return what has arrived since the last call, and forget the rest; read nothing twice."""
        found: list[Arrival] = []
        # Times of arrival are in seconds of the clock that can be set.
        ahead = time.time() - time.monotonic()
        for version, sock in self._socks.items():
            for dummy in range(_MOST):
                try:
                    data, ancillary, _dummy_flags, sender = sock.recvmsg(_READ, 128)
                except BlockingIOError:
                    break
                except OSError:
                    continue  # The kernel reports an error about a packet that was sent earlier.
                arrived = self._arrived(ancillary, ahead)
                arrival = _read(version, data, sender[0], self.identifier, arrived)
                if arrival is not None:
                    found.append(arrival)
        return found

    @property
    def dropped(self) -> int:
        """The number of packets that the kernel dropped, mostly because a buffer was full."""
        return sum(_drops(sock) for sock in self._socks.values())

    def close(self) -> None:
        for sock in self._socks.values():
            sock.close()

    @staticmethod
    def _arrived(ancillary: t.Sequence[tuple[int, int, bytes]], ahead: float) -> float:
        arrived = time.monotonic()
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and len(data) >= _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack_from(data)
                arrived = min(arrived, seconds + nanoseconds / 1e9 - ahead)
        return arrived


def _opened(version: icmp.IcmpFamily, identifier: bytes, magic: bytes) -> socket.socket:
    sock = icmp.opened(version, "", 0, listens=True)
    try:
        packet_filter.attach(sock, _filter(version, identifier, magic))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER // 2)  # The kernel doubles it.
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _filter(version: icmp.IcmpFamily, identifier: bytes, magic: bytes) -> bytes:
    """Return a program that drops requests of another kind and replies to others.

    A raw socket gets a copy of every ICMP message of its namespace: also of thousands that a run of Ansible sends.
    """
    made = packet_filter.Program()
    if version is icmp.ICMP:
        made.skip_ip_header()  # Messages of IPv6 reach a raw socket without theirs.
    made.load(packet_filter.BYTE_BEHIND, 0)
    made.jump_if(version.request, "request")
    made.jump_if(version.reply, "reply")
    made.end(packet_filter.ALL)
    made.label("request")
    made.load(packet_filter.WORD_BEHIND, _PAYLOAD)
    made.jump_if(int.from_bytes(magic, "big"), "keep")
    made.end(packet_filter.NOTHING)
    made.label("reply")
    made.load(packet_filter.HALF_BEHIND, _IDENTIFIER)
    made.jump_if(int.from_bytes(identifier, "big"), "keep")
    made.end(packet_filter.NOTHING)
    made.end(packet_filter.ALL, "keep")
    return made.assembled()


def _drops(sock: socket.socket) -> int:
    counts = sock.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * 9)
    return int(struct.unpack_from("=I", counts, 4 * 8)[0]) if len(counts) >= 4 * 9 else 0


def _read(version: icmp.IcmpFamily, data: bytes, sender: str, identifier: bytes, arrived: float) -> t.Optional[Arrival]:
    """Return what a packet says, None if it is not about probes with this identifier and no request."""
    body = data if version is icmp.ICMPV6 else data[(data[0] & 0xF) * 4 :] if data else b""
    if len(body) < 8:
        return None
    kind = body[0]
    by = sender.partition("%")[0]
    if kind == version.reply:
        return Answer(icmp.packed(by), body[8:], arrived) if body[4:6] == identifier else None
    if kind == version.request:
        return PeerProbe(icmp.packed(by), body[8:])
    quoted = icmp.quoted(version, body)
    if quoted is None or quoted.identifier != identifier:
        return None
    no_route = (kind, body[1]) == icmp.NO_ROUTE[version]
    reason = version.reason(kind, body[1])
    return Complaint(quoted.destination, quoted.sequence, reason, by, quoted.content, no_route)


def session() -> bytes:
    """Return 8 random bytes for a session of the watch."""
    return os.urandom(8)
