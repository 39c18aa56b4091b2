# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ICMP echo to many addresses of both IP versions at once, from one process: which answer, how fast, and why not.

Probes of a fleet leave from the network namespace of the node's probe endpoint, on the way of a workload's packets. A
TOS may send them by another route than live packets. A probe is never fragmented: a path that cannot carry its size is
a path that does not answer. It needs the standard library only, and root (raw socket, network namespace).
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import errno
import os
import select
import socket
import time
import typing as t

from ...dataplane.kernel import linux, namespaces
from ...dataplane.kernel.port import KernelError
from ...state.derived import path_loss
from ...state.derived.path_loss import PathLoss
from . import icmp as packets
from .icmp import IcmpFamily, ProbePayload, Quoted, Signature, icmp_of, packed

_MOST_PACKETS = 16384  # packets read at once from a socket: more than its buffer holds
_MOST_HEARD = 4096  # requests of one other address that are counted
_MOST_SOURCES = 64  # sockets: more than a node has pools


class Target(t.NamedTuple):
    """An address to probe. `size` is that of the whole IP packet in bytes, at least 68 (IPv6: 88).

    A smaller `size` is sent with these bytes. `source` is the packets' source address, "" for that of Sending. `name`
    and `pool` are copied into the result.
    """

    address: str
    size: int = 84
    name: str = ""
    pool: str = ""
    source: str = ""


@dataclasses.dataclass(frozen=True)
class Sending:
    """How probes are sent, and what is listened for.

    `tos` is the packets' TOS byte, `source` their source address for targets of its IP version without one; with "" the
    kernel chooses. `namespace` is the name of the network namespace that they leave from, "" for the caller's. Requests
    of other nodes are counted if their tags are made with `secret`, the run's; b"" counts none.
    """

    tos: int = 0
    source: str = ""
    namespace: str = ""
    secret: bytes = dataclasses.field(default=b"", repr=False)


class ProbeResult(t.NamedTuple):
    """The result for one target, whose `size`, `pool` and `source` it has. `sent` and `received` count probes.

    `rtt_min` and `rtt_max` are round-trip times in milliseconds, None without an answer. `longest_gap` is the greatest
    number of probes lost in a row, times the interval, in milliseconds. `reason` is one of path_loss.REASONS, or "" if
    no probe was lost, and `by` the address that said so, "" without one. `heard` is the number of requests from the
    target's address that arrived meanwhile, None if they were not counted.
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
    by: str = ""
    heard: t.Optional[int] = None
    pool: str = ""
    source: str = ""

    @property
    def lost(self) -> int:
        return self.sent - self.received


class ProbeError(Exception):
    """The error for probes that cannot be sent at all."""


class Tally:
    """The count of probes and answers of one target, while they are under way.

    `first` is the sequence number of its first probe: an exchange counts on through its rounds.
    """

    def __init__(self, target: Target, first: int = 0) -> None:
        self.target = target
        self.first = first
        self.sent = 0
        self.sent_at = array.array("d")  # when each probe was sent, in monotonic seconds
        self.answered: set[int] = set()  # numbers, from 0, of the probes that were answered
        self.rtts: list[float] = []  # round-trip times in seconds
        self.refused: t.Optional[PathLoss] = None  # why the kernel did not send a probe; None: it refused none
        self.reported: t.Optional[PathLoss] = None  # what the last ICMP error about a probe says

    def longest_loss(self) -> int:
        """Return the greatest number of probes in a row that have no answer so far."""
        longest = previous = 0
        for sequence in [*sorted(self.answered), self.sent]:
            longest = max(longest, sequence - previous)
            previous = sequence + 1
        return longest

    def answer(self, interval: float, heard: t.Optional[int] = None) -> ProbeResult:
        """Return the result so far. `interval` is the seconds between two probes."""
        received = len(self.answered)
        loss: t.Optional[PathLoss] = None
        if self.sent > received or not self.sent:
            loss = self.refused or self.reported or PathLoss(path_loss.NO_ANSWER)
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
            loss.reason if loss else "",
            loss.by if loss else "",
            heard,
            self.target.pool,
            self.target.source,
        )


class _Ends(t.NamedTuple):
    """The addresses of a target's packets, as bytes. `source` is b"" if the kernel chooses it."""

    source: bytes
    destination: bytes


class Exchange:
    """Probes to `targets` under way, and their counts so far: `tallies`, in the order of the targets.

    `heard` has the number of genuine requests that came from each target's address to its source address, None if they
    are not counted. Raise ProbeError if a socket cannot be opened, or cannot be as `sending` says. The caller must call
    `close`.
    """

    def __init__(self, targets: t.Sequence[Target], sending: Sending = Sending()) -> None:
        self._sending = sending
        targets = [target if target.source else target._replace(source=self._default(target)) for target in targets]
        self.tallies = [Tally(target) for target in targets]
        self._ends = [_Ends(packed(target.source), packed(target.address)) for target in targets]
        self._numbers: dict[_Ends, list[int]] = {}
        for number, ends in enumerate(self._ends):
            self._numbers.setdefault(ends, []).append(number)
        self._signature = Signature(sending.secret or os.urandom(16), os.urandom(8))
        self._heard: list[set[bytes]] = [set() for dummy in targets]
        self._own: dict[str, bool] = {}
        self._ready = select.poll()
        self._socks: dict[tuple[IcmpFamily, str], socket.socket] = {}
        needed = {(icmp_of(target.address), target.source): None for target in targets}
        if len(needed) > _MOST_SOURCES:
            raise ProbeError(f"probes leave from at most {_MOST_SOURCES} addresses, not from {len(needed)}.")
        try:
            with _inside(sending.namespace) if targets else contextlib.nullcontext():
                for icmp, source in needed:
                    self._socks[icmp, source] = self._open(icmp, source)
        except ProbeError:
            self.close()
            raise
        for sock in self._socks.values():
            self._ready.register(sock, select.POLLIN)

    @property
    def heard(self) -> list[t.Optional[int]]:
        return [len(tags) if self._sending.secret else None for tags in self._heard]

    def renew(self, number: int) -> None:
        """Count the target with the index `number` from zero: late answers to earlier probes do not count."""
        before = self.tallies[number]
        self.tallies[number] = Tally(before.target, before.first + before.sent)

    def send(self, number: int) -> None:
        """Send the next probe to the target with the index `number`; wait about 40 ms at most for room in the queue.

        A probe that the kernel refuses counts as lost.
        """
        tally, ends = self.tallies[number], self._ends[number]
        icmp = icmp_of(tally.target.address)
        sequence = tally.first + tally.sent
        now = time.monotonic()
        tag = self._signature.tag(ends.source, ends.destination, sequence)
        packet = packets.request(icmp, ProbePayload(self._signature.run, number, sequence, now, tag), tally.target.size)
        tally.sent += 1
        tally.sent_at.append(now)
        for attempt in range(20):
            try:
                self._socks[icmp, tally.target.source].sendto(packet, (tally.target.address, 0))
                return
            except OSError as error:
                # ENOBUFS, EAGAIN: the send queue is full. It drains by itself, and says nothing about the path.
                if error.errno in (errno.ENOBUFS, errno.EAGAIN) and attempt < 19:
                    time.sleep(0.002)
                    continue
                tally.refused = PathLoss(packets.REFUSALS.get(error.errno or 0, path_loss.NO_ANSWER))
                return

    def receive(self, seconds: float = 0.0) -> bool:
        """Process all packets that have arrived, after waiting up to `seconds` and a millisecond for the first one.

        Packets that arrive meanwhile may be left for the next call, so that a flood of them does not hold up the
        caller. Return False if none came in that time. With 0 it does not wait, and returns True.
        """
        if seconds > 0 and not self._ready.poll(int(seconds * 1000) + 1):
            return False
        for (icmp, source), sock in self._socks.items():
            self._receive(sock, icmp, packed(source))
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

    def _default(self, target: Target) -> str:
        source = self._sending.source
        return source if source and icmp_of(source) is icmp_of(target.address) else ""

    def _open(self, icmp: IcmpFamily, source: str) -> socket.socket:
        try:
            return packets.opened(icmp, source, self._sending.tos, bool(self._sending.secret))
        except PermissionError:
            raise ProbeError("probes need root's rights: a raw socket was refused. Set become: true.") from None
        except OSError as error:
            version = "IPv6" if icmp is packets.ICMPV6 else "IPv4"
            place = f"the namespace {self._sending.namespace}" if self._sending.namespace else "this host"
            raise ProbeError(
                f"no {version} probe can be sent from {source or 'any address'} of {place}: {error.strerror}."
            ) from error

    def _receive(self, sock: socket.socket, icmp: IcmpFamily, bound: bytes) -> None:
        for dummy in range(_MOST_PACKETS):
            try:
                packet, sender = sock.recvfrom(65535)
            except BlockingIOError:
                return
            except OSError:
                continue  # The kernel reports an error about a packet that was sent earlier.
            now = time.monotonic()
            body = packet if icmp is packets.ICMPV6 else packet[(packet[0] & 0xF) * 4 :]
            if len(body) < 8:
                continue
            address = str(sender[0]).partition("%")[0]
            if body[0] in icmp.errors:
                self._note(icmp, body, address)
                continue
            payload = packets.payload_of(body)
            if payload is not None and body[0] == icmp.reply:
                self._count(payload, packed(address), now)
            elif payload is not None and body[0] == icmp.request:
                self._hear(payload, _Ends(bound, packed(address)))

    def _count(self, payload: ProbePayload, sender: bytes, now: float) -> None:
        """Count an answer, if its request was this process's and went to its sender."""
        if payload.run != self._signature.run or payload.number >= len(self.tallies):
            return
        tally, ends = self.tallies[payload.number], self._ends[payload.number]
        number = payload.sequence - tally.first
        if sender != ends.destination or not payload.is_genuine(self._signature, *ends):
            return
        if 0 <= number < tally.sent and number not in tally.answered:
            tally.answered.add(number)
            tally.rtts.append(now - payload.sent_at)

    def _hear(self, payload: ProbePayload, ends: _Ends) -> None:
        """Count a request of another node, once, if it has a tag of this run."""
        if not self._sending.secret or payload.run == self._signature.run:
            return
        numbers = self._numbers.get(ends, ())
        if numbers and payload.is_genuine(self._signature, ends.destination, ends.source):
            for number in numbers:
                if len(self._heard[number]) < _MOST_HEARD:
                    self._heard[number].add(payload.tag)

    def _note(self, icmp: IcmpFamily, body: bytes, sender: str) -> None:
        """Record an ICMP error for the targets with the addresses of the packet that caused it, if it is one of ours.

        A quote that is long enough must have the tag of the packet, a shorter one its identifier and a number that was
        sent.
        """
        quote = packets.quoted(icmp, body)
        if quote is None or quote.identifier != self._signature.run[:2]:
            return
        for number in self._quoted(quote):
            tally = self.tallies[number]
            if (quote.sequence - tally.first) & 0xFFFF < tally.sent:
                tally.reported = self._loss(icmp, body[0], body[1], sender)

    def _quoted(self, quote: Quoted) -> list[int]:
        """Return the indexes of the targets that the quoted request can have been for."""
        known = _Ends(quote.source, quote.destination)
        found = [*self._numbers.get(known, ()), *self._numbers.get(known._replace(source=b""), ())]
        if quote.payload is None:
            return found
        payload = quote.payload
        return [
            number
            for number in found
            if payload.number == number
            and payload.run == self._signature.run
            and payload.is_genuine(self._signature, *self._ends[number])
        ]

    def _loss(self, icmp: IcmpFamily, kind: int, code: int, sender: str) -> PathLoss:
        if (kind, code) == packets.NO_ROUTE[icmp] and self._is_own(sender):
            return PathLoss(path_loss.NO_ROUTE)
        return PathLoss(icmp.reason(kind, code), sender)

    def _is_own(self, address: str) -> bool:
        """Return whether this host has the address. The namespace of an endpoint has no link but that to its host."""
        if self._sending.namespace and address.startswith("fe80:"):
            return True
        if address not in self._own and len(self._own) < _MOST_SOURCES:
            self._own[address] = _is_local(address)
        return self._own.get(address, False)


def _is_local(address: str) -> bool:
    """Return whether the kernel would take the address for a packet to it: an address of the host's own."""
    try:
        with socket.socket(icmp_of(address).family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            sock.connect((address, 9))  # sends nothing
            return packed(str(sock.getsockname()[0])) == packed(address)
    except OSError:
        return False


@contextlib.contextmanager
def _inside(namespace: str) -> t.Iterator[None]:
    """Open sockets in a network namespace: only the calling thread visits it, for these system calls.

    Raise ProbeError if there is no such namespace.
    """
    if not namespace:
        yield
        return
    try:
        handle = namespaces.opened(f"{linux.NETNS_FOLDER}/{namespace}", namespace)
    except KernelError as error:
        raise ProbeError(
            f"this host has no probe endpoint: {error}. Run site.yml for this host, which makes it."
        ) from error
    try:
        with namespaces.Visit(handle, namespace):
            yield
    except KernelError as error:
        raise ProbeError(f"the probe endpoint cannot be used: {error}.") from error
    finally:
        os.close(handle)


def probe(
    targets: t.Sequence[Target],
    count: int = 3,
    interval: float = 0.2,
    timeout: float = 1.0,
    attempts: int = 1,
    sending: Sending = Sending(),
) -> list[ProbeResult]:
    """Send `count` probes to each target, and return one result for each, in their order.

    Probes to one target are `interval` seconds apart unless the process is held up, and those to all targets are spread
    evenly over the interval. Answers may come until `timeout` seconds after the last probe. Targets with a loss are
    probed again, in at most `attempts` rounds in all, and the last round of a target counts. Requests are heard from
    the first to the last round. `sending` and the errors are as in Exchange.
    """
    if not targets:
        return []
    exchange = Exchange(targets, sending)
    try:
        missing = list(range(len(targets)))
        for attempt in range(max(1, attempts)):
            for number in missing if attempt else ():
                exchange.renew(number)
            _round(exchange, missing, count, interval)
            exchange.receive_late(timeout)
            missing = [number for number in missing if len(exchange.tallies[number].answered) < count]
            if not missing:
                break
        return [tally.answer(interval, heard) for tally, heard in zip(exchange.tallies, exchange.heard)]
    finally:
        exchange.close()


def _round(exchange: Exchange, numbers: t.Sequence[int], count: int, interval: float) -> None:
    width = len(numbers)
    started = time.monotonic()
    step = interval / width
    total = count * width
    sent = 0
    while sent < total:
        now = time.monotonic()
        # Send all probes that are due. A late process catches up with at most one probe to each target at once.
        due = min(total, int((now - started) / step) + 1 if step else total, sent + width)
        while sent < due:
            exchange.send(numbers[sent % width])
            sent += 1
            if sent % 64 == 0:
                exchange.receive()
        if sent < total:
            exchange.receive(max(0.001, started + sent * step - time.monotonic()))
