# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ICMP echo to many addresses of both IP versions at once, from one process: which answer, how fast, and why not.

A probe may carry a mark, so that a routing rule sends it by another route than live packets. It is never fragmented: a
path that cannot carry its size is a path that does not answer. It needs the standard library only, and root (raw
socket, SO_MARK).
"""

from __future__ import annotations

import array
import dataclasses
import errno
import os
import select
import socket
import struct
import time
import typing as t

from ...base.addresses import family_of

# Numbers of linux/in6.h, linux/in.h and asm-generic/socket.h; the socket module has only some of them.
_IP_MTU_DISCOVER = 10
_IP_PMTUDISC_PROBE = 3  # sets DF and ignores a path MTU that was learnt before
_SO_MARK = getattr(socket, "SO_MARK", 36)
_SOL_RAW, _ICMP_FILTER = 255, 1  # linux/icmp.h; a set bit of the filter drops the ICMP type with its number
_ICMP6_FILTER = 1  # linux/icmpv6.h; a set bit of the filter drops the type with its number
_IPV6_MTU_DISCOVER, _IPV6_DONTFRAG = 23, 62
_MOST_PACKETS = 16384  # packets read at once from a socket: more than its buffer holds
_PAYLOAD = struct.Struct("!8sIId")  # id of the run, index of the target, sequence number, monotonic seconds


@dataclasses.dataclass(frozen=True, eq=False)
class _Icmp:
    """The constants of one IP version.

    `family` is that of the socket, `header` the bytes of an IP header without options, and `destination` the offset of
    the destination address in it. `request` and `reply` are the ICMP types of an echo, `errors` those of errors.
    `codes` maps (type, code) of an error to words.
    """

    family: int
    header: int
    destination: int
    request: int
    reply: int
    errors: tuple[int, ...]
    codes: t.Mapping[tuple[int, int], str]


_ICMP = _Icmp(socket.AF_INET, 20, 16, 8, 0, (3, 11), {  # RFC 792
    (3, 0): "network unreachable",
    (3, 1): "host unreachable",
    (3, 3): "port unreachable",
    (3, 4): "too large for the path",
    (3, 9): "network prohibited",
    (3, 10): "host prohibited",
    (3, 13): "filtered",
    (11, 0): "time to live exceeded (a loop)",
})  # fmt: skip
_ICMPV6 = _Icmp(socket.AF_INET6, 40, 24, 128, 129, (1, 2, 3), {  # RFC 4443
    (1, 0): "network unreachable",
    (1, 1): "filtered",
    (1, 3): "host unreachable",
    (1, 4): "port unreachable",
    (1, 5): "filtered",
    (1, 6): "network prohibited",
    (2, 0): "too large for the path",
    (3, 0): "time to live exceeded (a loop)",
})  # fmt: skip


def _icmp_of(address: str) -> _Icmp:
    return _ICMPV6 if family_of(address) == 6 else _ICMP


class Target(t.NamedTuple):
    """An address to probe. `size` is that of the whole IP packet in bytes, at least 52 (IPv6: 72).

    A smaller `size` is sent with these bytes. `name` is copied into the result.
    """

    address: str
    size: int = 84
    name: str = ""


class ProbeResult(t.NamedTuple):
    """The result for one target, whose `size` it has. `sent` and `received` count probes.

    `rtt_min` and `rtt_max` are round-trip times in milliseconds, None without an answer. `longest_gap` is the greatest
    number of probes lost in a row, times the interval, in milliseconds. `reason` says why probes were lost, "" if none
    was, or "no answer" if none was sent.
    """

    name: str
    address: str
    size: int
    sent: int
    received: int
    rtt_min: t.Optional[float]
    rtt_max: t.Optional[float]
    longest_gap: float
    reason: str

    @property
    def lost(self) -> int:
        return self.sent - self.received


class ProbeError(Exception):
    """The error for probes that cannot be sent at all."""


class Tally:
    """The count of probes and answers of one target, while they are under way."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.sent = 0
        self.sent_at = array.array("d")  # when each probe was sent, in monotonic seconds
        self.answered: set[int] = set()  # sequence numbers, from 0, of the probes that were answered
        self.rtts: list[float] = []  # round-trip times in seconds
        self.refused = ""  # why the kernel did not send the last probe that it refused; "": it refused none
        self.reported = ""  # the last ICMP error about a probe, in words; "": none

    def longest_loss(self) -> int:
        """Return the greatest number of probes in a row that have no answer so far."""
        longest = previous = 0
        for sequence in [*sorted(self.answered), self.sent]:
            longest = max(longest, sequence - previous)
            previous = sequence + 1
        return longest

    def answer(self, interval: float) -> ProbeResult:
        """Return the result so far. `interval` is the seconds between two probes."""
        received = len(self.answered)
        lost = self.sent - received
        reason = ""
        if lost or not self.sent:
            reason = self.refused or self.reported or ("no answer" if not received else f"{lost} not answered")
        times = [round(rtt * 1000, 3) for rtt in self.rtts]
        return ProbeResult(
            self.target.name,
            self.target.address,
            self.target.size,
            self.sent,
            received,
            min(times, default=None),
            max(times, default=None),
            round(self.longest_loss() * interval * 1000, 3),
            reason,
        )


class Exchange:
    """Probes to `targets` under way, and their counts so far: `tallies`, in the order of the targets.

    `mark` is the packets' fwmark. `source` is the source address of packets of its IP version, "" for the kernel's
    choice. Raise ProbeError if a socket cannot be opened, or cannot have `mark` or `source`. The caller must call
    `close`.
    """

    def __init__(self, targets: t.Sequence[Target], mark: int = 0, source: str = "") -> None:
        self.tallies = [Tally(target) for target in targets]
        self._by_address: dict[str, list[Tally]] = {}
        for tally in self.tallies:
            self._by_address.setdefault(tally.target.address, []).append(tally)
        self._run = os.urandom(8)
        self._socks: dict[_Icmp, socket.socket] = {}
        self._ready = select.poll()
        try:
            for address in self._by_address:
                icmp = _icmp_of(address)
                if icmp not in self._socks:
                    self._socks[icmp] = _open(icmp, mark, source if source and _icmp_of(source) is icmp else "")
                    self._ready.register(self._socks[icmp], select.POLLIN)
        except ProbeError:
            self.close()
            raise

    def send(self, number: int) -> None:
        """Send the next probe to the target with the index `number`; wait about 40 ms at most for room in the queue.

        A probe that the kernel refuses counts as lost.
        """
        tally = self.tallies[number]
        icmp = _icmp_of(tally.target.address)
        _send(self._socks[icmp], icmp, tally, self._run, number)

    def receive(self, seconds: float = 0.0) -> bool:
        """Process all packets that have arrived, after waiting up to `seconds` and a millisecond for the first one.

        Packets that arrive meanwhile may be left for the next call, so that a flood of them does not hold up the
        caller. Return False if none came in that time. With 0 it does not wait, and returns True.
        """
        if seconds > 0 and not self._ready.poll(int(seconds * 1000) + 1):
            return False
        for icmp, sock in self._socks.items():
            _receive(sock, icmp, self.tallies, self._by_address, self._run)
        return True

    def receive_late(self, timeout: float) -> None:
        """Wait until all answers are there, at most `timeout` seconds in all, as after a probe that was lost."""
        deadline = time.monotonic() + timeout
        while any(len(tally.answered) < tally.sent for tally in self.tallies):
            left = deadline - time.monotonic()
            if left <= 0 or not self.receive(left):
                break

    def close(self) -> None:
        for sock in self._socks.values():
            sock.close()


def probe(
    targets: t.Sequence[Target],
    count: int = 3,
    interval: float = 0.2,
    timeout: float = 1.0,
    mark: int = 0,
    source: str = "",
) -> list[ProbeResult]:
    """Send `count` probes to each target, and return one result for each, in their order.

    Probes to one target are `interval` seconds apart unless the process is held up, and those to all targets are spread
    evenly over the interval. Answers may come until `timeout` seconds after the last probe. `mark`, `source` and the
    errors are as in Exchange.
    """
    if not targets:
        return []
    exchange = Exchange(targets, mark, source)
    try:
        _rounds(exchange, count, interval)
        exchange.receive_late(timeout)
    finally:
        exchange.close()
    return [tally.answer(interval) for tally in exchange.tallies]


def _rounds(exchange: Exchange, count: int, interval: float) -> None:
    width = len(exchange.tallies)
    started = time.monotonic()
    step = interval / width
    total = count * width
    sent = 0
    while sent < total:
        now = time.monotonic()
        # Send all probes that are due. A late process catches up with at most one probe to each target at once.
        due = min(total, int((now - started) / step) + 1 if step else total, sent + width)
        while sent < due:
            exchange.send(sent % width)
            sent += 1
            if sent % 64 == 0:
                exchange.receive()
        if sent < total:
            exchange.receive(max(0.001, started + sent * step - time.monotonic()))


def _open(icmp: _Icmp, mark: int, source: str) -> socket.socket:
    protocol = socket.IPPROTO_ICMPV6 if icmp is _ICMPV6 else socket.IPPROTO_ICMP
    try:
        sock = socket.socket(icmp.family, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
    except PermissionError:
        raise ProbeError("probes need root's rights: a raw socket was refused. Set become: true.") from None
    except OSError as error:
        version = "IPv6" if icmp is _ICMPV6 else "IPv4"
        raise ProbeError(
            f"no {version} probe can be sent: {error.strerror}. Does the kernel have {version}?"
        ) from error
    try:
        _filter(sock, icmp)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
        if mark:
            sock.setsockopt(socket.SOL_SOCKET, _SO_MARK, mark)
        if source:
            sock.bind((source, 0))
    except OSError as error:
        sock.close()
        raise ProbeError(
            f"probes cannot be sent from {source or 'here'} with mark {mark:#x}: {error.strerror}. "
            "Choose an address of this host, and run as root."
        ) from error
    return sock


def _filter(sock: socket.socket, icmp: _Icmp) -> None:
    """Forbid fragmentation of what is sent, and let only echo replies and `icmp.errors` in."""
    wanted = sum(1 << kind for kind in (icmp.reply, *icmp.errors))
    if icmp is _ICMPV6:
        sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
        sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_DONTFRAG, 1)
        words = (~(wanted >> 32 * word) & 0xFFFFFFFF for word in range(8))
        sock.setsockopt(socket.IPPROTO_ICMPV6, _ICMP6_FILTER, struct.pack("=8I", *words))
    else:
        sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
        sock.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", ~wanted & 0xFFFFFFFF))


def _send(sock: socket.socket, icmp: _Icmp, tally: Tally, run: bytes, number: int) -> None:
    sequence = tally.sent
    now = time.monotonic()
    payload = _PAYLOAD.pack(run, number, sequence, now)
    head = struct.pack("!BBH2sH", icmp.request, 0, 0, run[:2], sequence & 0xFFFF)
    if icmp is _ICMP:  # The kernel computes the checksum of ICMPv6, because it covers the addresses.
        head = head[:2] + struct.pack("!H", checksum(head + payload)) + head[4:]
    packet = head + payload
    packet += b"\0" * (tally.target.size - icmp.header - len(packet))  # padding; zeros change no checksum
    tally.sent += 1
    tally.sent_at.append(now)
    for attempt in range(20):
        try:
            sock.sendto(packet, (tally.target.address, 0))
            return
        except OSError as error:
            # ENOBUFS, EAGAIN: the send queue is full. It drains by itself, and says nothing about the path.
            if error.errno in (errno.ENOBUFS, errno.EAGAIN) and attempt < 19:
                time.sleep(0.002)
                continue
            words = {
                errno.EMSGSIZE: "too large for the interface",
                errno.ENETUNREACH: "no route",
                errno.EINVAL: "a blackhole route",
            }
            tally.refused = words.get(error.errno or 0, (error.strerror or str(error)).lower())
            return


def _receive(
    sock: socket.socket, icmp: _Icmp, tallies: t.Sequence[Tally], by_address: t.Mapping[str, list[Tally]], run: bytes
) -> None:
    for dummy in range(_MOST_PACKETS):
        try:
            packet, sender = sock.recvfrom(65535)
        except BlockingIOError:
            return
        except OSError:
            continue  # The kernel reports an error about a packet that was sent earlier.
        now = time.monotonic()
        body = packet if icmp is _ICMPV6 else packet[(packet[0] & 0xF) * 4 :]
        if len(body) < 8:
            continue
        if body[0] == icmp.reply:
            if body[4:6] == run[:2] and body[8:16] == run and len(body) >= 8 + _PAYLOAD.size:
                _count(tallies, body[8 : 8 + _PAYLOAD.size], now)
        elif body[0] in icmp.errors and len(body) >= 8 + icmp.header + 8:
            _note(body, by_address, run, str(sender[0]), icmp)


def _count(tallies: t.Sequence[Tally], payload: bytes, now: float) -> None:
    dummy, number, sequence, sent_at = _PAYLOAD.unpack(payload)
    if number >= len(tallies):
        return
    tally = tallies[number]
    if sequence < tally.sent and sequence not in tally.answered:
        tally.answered.add(sequence)
        tally.rtts.append(now - sent_at)


def _note(body: bytes, by_address: t.Mapping[str, list[Tally]], run: bytes, sender: str, icmp: _Icmp = _ICMP) -> None:
    """Record an ICMP error for the targets with the destination address of the packet that caused it.

    `body` is the ICMP message, which quotes the first bytes of that packet. Errors about another `run` are ignored.
    """
    inner = body[8:]
    length = icmp.header if icmp is _ICMPV6 else (inner[0] & 0xF) * 4
    quoted = inner[length : length + 8]
    if len(quoted) < 8 or quoted[0] != icmp.request or quoted[4:6] != run[:2]:
        return
    text = icmp.codes.get((body[0], body[1]), f"ICMP type {body[0]} code {body[1]}")
    size = 16 if icmp is _ICMPV6 else 4
    to = socket.inet_ntop(icmp.family, inner[icmp.destination : icmp.destination + size])
    for tally in by_address.get(to, ()):
        tally.reported = f"{text}, says {sender}"


def checksum(data: bytes) -> int:
    """Return the Internet checksum of `data` (RFC 1071): 16 bits, of words in network byte order."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
