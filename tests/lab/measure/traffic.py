#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test traffic of one host, in one process: UDP streams with sequence numbers and long TCP transfers.

Runs inside a lab host, so it is one file of standard library for Python 3.9 and newer. streams.py drives it over
stdin, one JSON specification and then one word a line; every answer is one line of JSON on stdout:

    {"tick": 0.002, "first": true, "send": [], "receive": [], "connect": [], "listen": []} -> {"ready": true}
    warm     send one empty datagram a stream, not counted: neighbours are resolved  -> {"warm": true}
    start    open the TCP connections and send  -> {"started": true}
    status   totals so far  -> {"sent": ..., "received": ...}
    quiet    stop sending, keep receiving  -> {"quiet": true}
    report   all counters

    send     {"id": 1, "netns": "w1" or null, "address": "10.244.1.5", "port": 7400, "size": 64 or "full", "pps": 500}
    receive  {"netns": null, "port": 7400, "buffer": 33554432, "family": 4 or 6}
    connect  {"id": 9, "netns": null, "address": "10.244.1.5", "port": 7401, "rate": 100000}
    listen   {"netns": null, "port": 7401}

"first": this process gets a higher priority than usual.
"tick" is the time between two bursts in seconds. "buffer" is the size of the receive buffer in bytes.
"pps" is packets per second, "rate" bytes per second.
"size" is the length of the IP packet, at least 44, or 64 with IPv6. "full" asks the kernel before each burst for the
MTU of the route.
DF is never set, so a packet that meets a smaller MTU a moment later is fragmented and not lost.
The process ends when its stdin does.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import json
import os
import random
import select
import socket
import struct
import sys
import time
import typing as t

HEADER = struct.Struct("!IIQ")  # stream, sequence number, clock of the sender in microseconds
HELLO = struct.Struct("!II")  # stream, bytes per second
OVERHEAD = {4: 28, 6: 48}  # bytes of IP and UDP headers
IP_MTU = 14
IP_MTU_DISCOVER = 10
IPV6_MTU_DISCOVER = 23
IPV6_MTU = 24
IP_PMTUDISC_DONT = 0
SO_RCVBUFFORCE = 33
SO_SNDBUFFORCE = 32
SO_MEMINFO = 55
CLONE_NEWNET = 0x40000000
# The length is a prime number, so that a piece of the stream that is misplaced by whole segments does not match.
PATTERN = random.Random(7).randbytes(65521) if sys.version_info >= (3, 9) else b""
DOUBLE = PATTERN + PATTERN

_libc = ctypes.CDLL(None, use_errno=True)


def _setns(handle: int) -> None:
    if _libc.setns(handle, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def inside(netns: str | None, make: t.Callable[[], t.Any]) -> t.Any:
    """Call ``make`` inside a named network namespace, or in the present one if None, and return its result.

    Sockets stay in the namespace in which they were opened. Raise OSError if there is no such namespace.
    """
    if not netns:
        return make()
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        there = os.open("/run/netns/" + netns, os.O_RDONLY)
        try:
            _setns(there)
        finally:
            os.close(there)
        try:
            return make()
        finally:
            _setns(home)
    finally:
        os.close(home)


class Sender:
    def __init__(self, spec: dict[str, t.Any]) -> None:
        self.id: int = spec["id"]
        self.full = spec["size"] == "full"
        self.family = 6 if ":" in spec["address"] else 4
        self.overhead = OVERHEAD[self.family]
        self.size: int = 0 if self.full else max(int(spec["size"]), self.overhead + HEADER.size)
        self.pps: float = spec["pps"]
        # After a stall, at most this many packets are made up for: a longer burst only tests queue lengths.
        self.limit = max(4, int(self.pps * spec.get("catch_up", 0.02)))
        self.target = (spec["address"], spec["port"])
        self.sent = 0
        self.errors: dict[str, int] = {}
        self.sizes: dict[int, int] = {}
        self.began = self.ended = 0.0
        self.due = 0.0  # packets, and a fraction of one, that are due and not sent; those given up are not among them
        self.last = 0.0
        self.buffer = bytearray(65536)
        self.socket: socket.socket = inside(spec.get("netns"), self._open)
        self.view = memoryview(self.buffer)

    def _open(self) -> socket.socket:
        sock = _datagrams(self.family)
        if self.family == 6:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IP_PMTUDISC_DONT)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
        _force(sock, SO_SNDBUFFORCE, socket.SO_SNDBUF, 1 << 20)
        sock.connect(self.target)
        sock.setblocking(False)
        return sock

    def warm(self) -> None:
        try:
            self.socket.send(b"")
        except OSError:
            pass

    def start(self, now: float) -> None:
        self.began = self.last = now

    def run(self, now: float) -> None:
        self.due += (now - self.last) * self.pps
        self.last = now
        count = int(self.due)
        if not count:
            return
        if count > self.limit:
            self.due -= count - self.limit
            count = self.limit
        length = self.size or self.mtu()
        payload = self.view[: length - self.overhead]
        clock = int(now * 1e6)
        done = 0
        send, pack = self.socket.send, HEADER.pack_into
        for _ in range(count):
            pack(self.buffer, 0, self.id, self.sent & 0xFFFFFFFF, clock)
            try:
                send(payload)
            except BlockingIOError:
                break
            except OSError:
                # The error may belong to an earlier packet (an ICMP message came back), so this packet has not been
                # tried yet.
                try:
                    send(payload)
                except OSError as error:
                    name = errno.errorcode.get(error.errno or 0, str(error.errno))
                    self.errors[name] = self.errors.get(name, 0) + 1
            self.sent += 1
            done += 1
        self.due -= done
        self.sizes[length] = self.sizes.get(length, 0) + done
        self.ended = now

    def mtu(self) -> int:
        try:
            if self.family == 6:
                return min(self.socket.getsockopt(socket.IPPROTO_IPV6, IPV6_MTU), 65000)
            return min(self.socket.getsockopt(socket.IPPROTO_IP, IP_MTU), 65000)
        except OSError:
            return 1280  # no route at the moment

    def report(self) -> dict[str, t.Any]:
        seconds = self.ended - self.began
        rate = round(self.sent / seconds, 1) if seconds > 0 else 0.0
        return {"id": self.id, "sent": self.sent, "errors": self.errors, "rate": rate, "sizes": self.sizes}


class Arrivals:
    """The counts of one stream's packets that arrived, and the numbers of those that are missing."""

    __slots__ = ("duplicated", "expected", "gap", "last", "missing", "received", "reordered")

    def __init__(self) -> None:
        self.received = self.duplicated = self.reordered = self.expected = 0
        self.missing: dict[int, float] = {}
        self.last = self.gap = 0.0

    def late(self, sequence: int) -> None:
        if self.missing.pop(sequence, None) is None:
            self.duplicated += 1
            self.received -= 1
        else:
            self.reordered += 1

    def report(self, stream: int) -> dict[str, t.Any]:
        ranges: list[list[float]] = []
        for sequence in sorted(self.missing):
            if ranges and ranges[-1][0] + ranges[-1][1] == sequence:
                ranges[-1][1] += 1
            else:
                ranges.append([sequence, 1, round(self.missing[sequence], 3)])
        return {
            "id": stream,
            "received": self.received,
            "duplicated": self.duplicated,
            "reordered": self.reordered,
            "missing": len(self.missing),
            "longest_gap_ms": round(self.gap * 1e3, 1),
            # The first 20 ranges: [first missing sequence number, how many, Unix time in seconds of the next packet]
            "missing_ranges": ranges[:20],
        }


class Receiver:
    def __init__(self, spec: dict[str, t.Any]) -> None:
        self.netns = spec.get("netns")
        self.port: int = spec["port"]
        self.family: int = spec["family"]
        self.streams: dict[int, Arrivals] = {}
        self.strange = 0
        self.size: int = spec["buffer"]
        self.socket: socket.socket = inside(self.netns, self._open)
        self.buffer = bytearray(65536)

    def _open(self) -> socket.socket:
        sock = _datagrams(self.family)
        _force(sock, SO_RCVBUFFORCE, socket.SO_RCVBUF, self.size)
        sock.bind(("", self.port))
        sock.setblocking(False)
        return sock

    def run(self) -> int:
        receive, unpack, buffer, streams = self.socket.recv_into, HEADER.unpack_from, self.buffer, self.streams
        count = 0
        now = time.monotonic()
        try:
            while True:
                size = receive(buffer)
                count += 1
                if not count & 63:
                    now = time.monotonic()
                if size < HEADER.size:
                    self.strange += bool(size)  # an empty datagram only warmed up the path
                    continue
                stream, sequence, _clock = unpack(buffer)
                arrivals = streams.get(stream)
                if arrivals is None:
                    arrivals = streams[stream] = Arrivals()
                    arrivals.last = now
                arrivals.received += 1
                if now - arrivals.last > arrivals.gap:
                    arrivals.gap = now - arrivals.last
                arrivals.last = now
                if sequence == arrivals.expected:
                    arrivals.expected = sequence + 1
                elif sequence > arrivals.expected:
                    clock = time.time()
                    for lost in range(arrivals.expected, sequence):
                        arrivals.missing[lost] = clock
                    arrivals.expected = sequence + 1
                else:
                    arrivals.late(sequence)
        except BlockingIOError:
            pass
        except OSError:
            self.strange += 1
        return count

    def drops(self) -> int:
        """Return the number of datagrams that the kernel dropped at this socket, above all for a full buffer."""
        answer: int = struct.unpack("9I", self.socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))[8]
        return answer

    def report(self) -> dict[str, t.Any]:
        return {
            "netns": self.netns,
            "buffer_drops": self.drops(),
            "strange": self.strange,
            "streams": [arrivals.report(stream) for stream, arrivals in sorted(self.streams.items())],
        }


class Transfer:
    """One end of a TCP connection: sends a known pattern at a steady rate and checks the pattern it receives.

    An error of the connection ends it, is named in `failure` and not raised. `rate` is in bytes per second.
    """

    def __init__(self, sock: socket.socket, side: str, stream: int = 0, rate: int = 0) -> None:
        self.socket, self.side, self.id, self.rate = sock, side, stream, rate
        self.sent = self.received = 0
        self.failure: str | None = None
        self.corrupt = 0
        self.stall = 0.0
        self.progress: float | None = None
        self.began: float | None = None
        self.connected = side == "server"
        # The client's greeting as far as a server has read it; None when it is complete, and always at the client.
        self.hello: bytes | None = b"" if side == "server" else None
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def begin(self, now: float) -> None:
        self.began = self.progress = now

    def run(self, now: float, quiet: bool) -> None:
        if self.failure:
            return
        try:
            if not self.connected and not self._connect(now):
                return
            self._receive(now)
            if self.began is not None and not quiet:
                self._send(now)
            elif quiet:
                self.progress = None  # silence is expected from here on
        except BlockingIOError:
            pass
        except OSError as error:
            self.failure = errno.errorcode.get(error.errno or 0, str(error.errno))

    def _connect(self, now: float) -> bool:
        if not select.select([], [self.socket], [], 0)[1]:
            return False
        number = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise OSError(number, os.strerror(number))
        self.connected = True
        self.socket.send(HELLO.pack(self.id, self.rate))
        self.begin(now)
        return True

    def _receive(self, now: float) -> None:
        while True:
            try:
                data = self.socket.recv(262144 if self.hello is None else HELLO.size - len(self.hello))
            except BlockingIOError:
                break
            if not data:
                self.failure = "closed by the other end"
                return
            if self.progress is not None:
                self.stall = max(self.stall, now - self.progress)
            self.progress = now
            if self.hello is not None:
                self.hello += data
                if len(self.hello) == HELLO.size:
                    self.id, self.rate = HELLO.unpack(self.hello)
                    self.hello = None
                    self.begin(now)
                continue
            for start in range(0, len(data), len(PATTERN)):
                piece = data[start : start + len(PATTERN)]
                at = self.received % len(PATTERN)
                if piece != DOUBLE[at : at + len(piece)]:
                    self.corrupt += 1
                self.received += len(piece)
        if self.progress is not None:
            self.stall = max(self.stall, now - self.progress)

    def _send(self, now: float) -> None:
        due = int((now - t.cast(float, self.began)) * self.rate) - self.sent
        if due < min(1000, self.rate // 20):
            return
        at = self.sent % len(PATTERN)
        try:
            self.sent += self.socket.send(DOUBLE[at : at + min(due, len(PATTERN))])
        except BlockingIOError:
            pass

    def retransmits(self) -> int:
        try:
            answer: int = struct.unpack_from(
                "I", self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 100
            )[0]
            return answer
        except (OSError, struct.error):
            return -1

    def report(self) -> dict[str, t.Any]:
        return {
            "id": self.id,
            "side": self.side,
            "sent": self.sent,
            "received": self.received,
            "failure": self.failure or (None if self.connected else "never connected"),
            "corrupt": self.corrupt,
            "longest_stall_ms": round(self.stall * 1e3, 1),
            "retransmits": self.retransmits(),
        }


def _datagrams(family: int) -> socket.socket:
    """Return a new UDP socket of this IP version alone."""
    if family == 4:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return sock


def _force(sock: socket.socket, force: int, plain: int, size: int) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, force, size)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, plain, size)


def _listen(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("0.0.0.0", port))
    sock.listen(64)
    sock.setblocking(False)
    return sock


class Traffic:
    def __init__(self, spec: dict[str, t.Any]) -> None:
        self.tick: float = spec.get("tick", 0.002)
        self.senders = [Sender(entry) for entry in spec.get("send", [])]
        self.receivers = [Receiver(entry) for entry in spec.get("receive", [])]
        self.listeners = [
            inside(entry.get("netns"), functools.partial(lambda entry: _listen(entry["port"]), entry))
            for entry in spec.get("listen", [])
        ]
        self.connect = spec.get("connect", [])
        self.transfers: list[Transfer] = []
        self.sending = self.quiet = False
        self.late = 0.0  # the longest delay of a turn, in seconds

    def start(self) -> None:
        now = time.monotonic()
        for entry in self.connect:
            sock = inside(entry.get("netns"), lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            transfer = Transfer(sock, "client", entry["id"], entry["rate"])
            self.transfers.append(transfer)
            number = sock.connect_ex((entry["address"], entry["port"]))
            if number not in (0, errno.EINPROGRESS):
                transfer.failure = errno.errorcode.get(number, str(number))
        for sender in self.senders:
            sender.start(now)
        self.sending = True

    def turn(self) -> None:
        now = time.monotonic()
        if self.sending and not self.quiet:
            for sender in self.senders:
                sender.run(now)
        for receiver in self.receivers:
            receiver.run()
        for listener in self.listeners:
            try:
                while True:
                    self.transfers.append(Transfer(listener.accept()[0], "server"))
            except BlockingIOError:
                pass
        for transfer in self.transfers:
            transfer.run(now, self.quiet)

    def status(self) -> dict[str, t.Any]:
        arrivals = [stream for receiver in self.receivers for stream in receiver.streams.values()]
        return {
            "sent": sum(sender.sent for sender in self.senders),
            "received": sum(stream.received for stream in arrivals),
            "missing": sum(len(stream.missing) for stream in arrivals),
            "connections": sum(1 for transfer in self.transfers if transfer.connected and not transfer.failure),
            "failures": sum(1 for transfer in self.transfers if transfer.failure),
        }

    def report(self) -> dict[str, t.Any]:
        return {
            "send": [sender.report() for sender in self.senders],
            "receive": [receiver.report() for receiver in self.receivers],
            "transfers": [transfer.report() for transfer in self.transfers],
            "longest_pause_ms": round(self.late * 1e3, 1),
            "cpu_seconds": round(time.process_time(), 2),
        }

    def loop(self, commands: t.Iterator[str]) -> None:
        due = time.monotonic()
        while True:
            self.turn()
            for word in commands:
                if not word:
                    break
                if word == "warm":
                    for sender in self.senders:
                        sender.warm()
                    answer({"warm": True})
                elif word == "start":
                    self.start()
                    answer({"started": True})
                elif word == "status":
                    answer(self.status())
                elif word == "quiet":
                    self.quiet = True
                    answer({"quiet": True})
                elif word == "report":
                    # The connections stay open, because the other end may not have reported yet.
                    self.turn()
                    answer(self.report())
                elif word == "end":
                    return
            due += self.tick
            now = time.monotonic()
            if now > due:
                self.late = max(self.late, now - due)
                due = now
            else:
                time.sleep(due - now)


def answer(document: dict[str, t.Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def read_words(handle: int, rest: bytes) -> t.Iterator[str]:
    """Yield the lines of a pipe, after those in `rest`, without blocking: "" when none is there, "end" at its end.

    An empty line is "nothing".
    """
    while True:
        while b"\n" in rest:
            line, _, rest = rest.partition(b"\n")
            yield line.decode().strip() or "nothing"
        if select.select([handle], [], [], 0)[0]:
            data = os.read(handle, 65536)
            if not data:
                yield "end"
            rest += data
        else:
            yield ""


def _go_first() -> None:
    """Give this process a higher priority, because a process that waits for a processor sends too few packets.

    What the kernel refuses is left out.
    """
    with contextlib.suppress(OSError):
        os.setsid()
    with contextlib.suppress(OSError):
        os.nice(-15)
    # Where the kernel shares processors between sessions first (sched(7), autogroup), raise the session's priority too.
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as stream:
        stream.write("-15")


def main() -> int:
    data = b""
    while b"\n" not in data:
        more = os.read(0, 1 << 20)
        if not more:
            return 1
        data += more
    line, _, rest = data.partition(b"\n")
    spec = json.loads(line)
    if spec.get("first"):
        _go_first()
    try:
        traffic = Traffic(spec)
    except OSError as error:
        answer({"error": str(error)})
        return 1
    answer({"ready": True})
    traffic.loop(read_words(0, rest))
    return 0


if __name__ == "__main__":
    sys.exit(main())
