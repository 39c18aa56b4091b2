# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic across the lab: starts traffic.py on every host involved, stops it, and adds up losses and their causes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ..handle import BaseLab
from ..topology import LabError
from . import drops

PROGRAM = Path(__file__).with_name("traffic.py")
UDP_PORT = 7400
TCP_PORT = 7401
#: The errors by which a sender's own kernel refuses a packet for lack of a route.
NO_ROUTE = ("ENETUNREACH", "EHOSTUNREACH", "EINVAL", "EACCES")


@dataclass(frozen=True)
class Stream:
    """A UDP stream between two places.

    ``size`` is the IP packet's length in bytes, or "full" for the route's current MTU. ``pps`` is packets per second. A
    netns of None means the host itself. ``address`` is where ``dst``/``dst_netns`` is reached.
    """

    src: str
    src_netns: str | None
    dst: str
    dst_netns: str | None
    address: str
    size: int | str = 64
    pps: float = 500
    port: int = UDP_PORT

    def __str__(self) -> str:
        return (
            f"{self.src}/{self.src_netns or 'host'} > {self.dst}/{self.dst_netns or 'host'} {self.address} {self.size}"
        )


@dataclass(frozen=True)
class Transfer:
    """A long TCP connection.

    Both ends send ``rate`` bytes per second of a known pattern and check what they receive. Other fields are as in
    Stream.
    """

    src: str
    src_netns: str | None
    dst: str
    dst_netns: str | None
    address: str
    rate: int = 50_000
    port: int = TCP_PORT

    def __str__(self) -> str:
        return f"{self.src}/{self.src_netns or 'host'} > {self.dst}/{self.dst_netns or 'host'} {self.address} tcp"


@dataclass
class StreamResult:
    stream: Stream
    sent: int = 0
    received: int = 0
    duplicated: int = 0
    reordered: int = 0
    longest_gap_ms: float = 0.0
    rate: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    missing_ranges: list[list[float]] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return self.sent - self.received


@dataclass
class TransferResult:
    transfer: Transfer
    failures: list[str]
    corrupt: int
    sent: int
    received: int
    retransmits: int
    longest_stall_ms: float


@dataclass
class Report:
    """The results of all streams and transfers, and sums of them.

    ``seconds`` is the time of sending, ``cpu_seconds`` the processor time of all traffic programs, ``longest_pause_ms``
    the longest delay of a burst in one of them. ``silent_hosts`` gave no results. ``buffer_drops`` are drops of the
    receiving sockets themselves. ``counters`` are those of the kernel that grew meanwhile, from `drops.growth`.
    ``excused`` are the causes of a loss that the machine answers for, and not the network.
    """

    streams: list[StreamResult]
    transfers: list[TransferResult]
    buffer_drops: int
    seconds: float
    longest_pause_ms: float
    cpu_seconds: float
    silent_hosts: list[str] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    excused: tuple[str, ...] = drops.BUFFER

    @property
    def sent(self) -> int:
        return sum(result.sent for result in self.streams)

    @property
    def received(self) -> int:
        return sum(result.received for result in self.streams)

    @property
    def lost(self) -> int:
        """Packets sent minus packets received by the time of the report, as far as hosts have reported."""
        return self.sent - self.received

    @property
    def drops(self) -> dict[str, int]:
        """The lost packets by cause, as `drops.causes` finds them."""
        errors = [result.errors for result in self.streams]
        unroutable = sum(error.get(name, 0) for error in errors for name in NO_ROUTE)
        return drops.causes(self.lost, self.buffer_drops, unroutable, self.counters)

    @property
    def lost_by_us(self) -> int:
        """The number of lost packets whose cause is not one of those `excused`."""
        return sum(packets for cause, packets in self.drops.items() if cause not in self.excused)

    @property
    def resets(self) -> int:
        """The number of TCP connections that failed in any way, or lack the results of an end."""
        return sum(1 for result in self.transfers if result.failures)

    @property
    def corrupt(self) -> int:
        return sum(result.corrupt for result in self.transfers)

    @property
    def bytes_missing(self) -> int:
        """Bytes written to connections minus bytes read by the time of the report, as far as hosts have reported."""
        return sum(result.sent - result.received for result in self.transfers)

    def summary(self) -> str:
        """Return a few lines for people, which name every stream with losses or errors and every failed transfer."""
        slowest = min((result.rate for result in self.streams), default=0.0)
        lines = [
            f"{self.sent} packets sent in {len(self.streams)} streams over {self.seconds:.1f} s "
            f"(slowest {slowest:.0f} a second), {self.lost} lost, {self.lost_by_us} of them by us",
            f"{len(self.transfers)} TCP transfers, {self.resets} reset, "
            f"{sum(result.received for result in self.transfers)} bytes, {self.corrupt} corrupt",
        ]
        for result in self.streams:
            if result.lost or result.errors:
                errors = f", errors {json.dumps(result.errors)}" if result.errors else ""
                lines.append(
                    f"  {result.stream}: {result.lost} of {result.sent} lost, longest gap "
                    f"{result.longest_gap_ms:.0f} ms{errors}; at {result.missing_ranges[:5]}"
                )
        for done in self.transfers:
            if done.failures:
                lines.append(f"  {done.transfer}: {', '.join(done.failures)}")
        if self.lost:
            lines += [f"  lost by {cause}: {packets}" for cause, packets in self.drops.items()]
            lines += [f"  counted by the kernel: {name} {packets}" for name, packets in self.counters.items()]
        lines += [f"  {host}: its traffic program is gone" for host in self.silent_hosts]
        return "\n".join(lines)


class _Host:
    """The traffic program on one host."""

    def __init__(self, lab: BaseLab, name: str) -> None:
        self.lab, self.name = lab, name
        self.spec: dict[str, Any] = {"send": [], "receive": [], "connect": [], "listen": []}
        self.process: subprocess.Popen[Any] | None = None
        self.errors: IO[bytes] | None = None
        self.rest = b""

    def place(self, kind: str, netns: str | None, port: int, **more: int) -> None:
        entry = {"netns": netns, "port": port, **more}
        if entry not in self.spec[kind]:
            self.spec[kind].append(entry)

    def open(self, tick: float) -> None:
        self.lab.put(self.name, PROGRAM, "/run/lab-traffic.py")
        # stderr is a file of its own, because ssh sets its stderr to non-blocking for all processes that share it.
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - close() closes it
        self.process = self.lab.popen(self.name, ["python3", "/run/lab-traffic.py"], bufsize=0, stderr=self.errors)
        # The program has no priority in the emulated machine: there the hosts themselves, BIRD included, would starve.
        self.tell(json.dumps({**self.spec, "tick": tick, "first": self.lab.machine == "native"}))

    def tell(self, line: str) -> None:
        assert self.process and self.process.stdin
        try:
            self.process.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            raise self._gone() from None

    def answer(self, timeout: float = 30) -> dict[str, Any]:
        assert self.process and self.process.stdout
        end = time.monotonic() + timeout
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                raise LabError(f"{self.name}: the traffic program says nothing for {timeout:.0f} s")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise self._gone()
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        document: dict[str, Any] = json.loads(line)
        if "error" in document:
            raise LabError(f"{self.name}: the traffic program cannot start: {document['error']}")
        return document

    def _gone(self) -> LabError:
        said = ""
        if self.errors:
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace").strip()[-1000:]
        return LabError(f"{self.name}: the traffic program is gone" + (f": {said}" if said else ""))

    def close(self) -> None:
        if self.errors:
            self.errors.close()
            self.errors = None
        if self.process:
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe:
                    pipe.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Streams:
    """All streams of a test.

    ``with Streams(lab, [...]) as streams: ...`` sends while the block runs; ``streams.stop()`` returns the Report,
    which is also in ``streams.report`` after the block. `tick` is the time between two bursts, and `warm_up` the time
    between the first datagrams and the counted ones, in seconds. `tick` None is 10 ms in the emulated machine, and
    natively 2 ms, or 5 ms if no stream has more than 250 packets per second.
    `buffer` is the size in bytes of each UDP receive buffer.
    If the block raises before `stop` was called, there is no report. Entering it raises the errors of `start`.
    """

    def __init__(
        self,
        lab: BaseLab,
        streams: Iterable[Stream | Transfer],
        tick: float | None = None,
        warm_up: float = 1.0,
        buffer: int = 32 << 20,
    ) -> None:
        self.warm_up = warm_up
        self.report: Report | None = None
        self._entries = list(enumerate(streams, 1))
        # Each tick costs a host's program as much as several packets.
        fastest = max((entry.pps for _, entry in self._entries if isinstance(entry, Stream)), default=0)
        self.tick = tick or (0.01 if lab.machine != "native" else 0.002 if fastest > 250 else 0.005)
        self._hosts: dict[str, _Host] = {}
        self._began = 0.0
        self._lab = lab
        self._before: dict[str, int] = {}
        # Seconds for packets under way to arrive. After a machine has stood still, TCP takes several to retransmit.
        self._drain = 1.0 if lab.machine == "native" else 10.0
        # After a stall, the packets of at most so many seconds are sent late. The emulated machine stands still for
        # longer, and its queues are longer than those of a shared machine.
        pace = {"catch_up": 0.1 if lab.machine == "native" else 0.2}
        for number, entry in self._entries:
            source = self._hosts.setdefault(entry.src, _Host(lab, entry.src))
            target = self._hosts.setdefault(entry.dst, _Host(lab, entry.dst))
            common = {"id": number, "netns": entry.src_netns, "address": entry.address}
            if isinstance(entry, Stream):
                source.spec["send"].append({**common, "port": entry.port, "size": entry.size, "pps": entry.pps, **pace})
                family = 6 if ":" in entry.address else 4
                target.place("receive", entry.dst_netns, entry.port, buffer=buffer, family=family)
            else:
                source.spec["connect"].append({**common, "port": entry.port, "rate": entry.rate})
                target.place("listen", entry.dst_netns, entry.port)

    def start(self) -> Streams:
        """Start the traffic programs of all hosts, then send from all of them; return `self` once every host sends.

        It sleeps `warm_up` seconds between. Raise LabError if a host cannot, does not say within 60 seconds that its
        sockets are open, or does not answer a later command within 30. All traffic programs are then ended.
        """
        try:
            for host in self._hosts.values():
                host.open(self.tick)
            for host in self._hosts.values():
                host.answer(60)
            # The counters are read before the packets that warm up, since that takes seconds in the emulated machine.
            self._before = self._counters()
            # Warming up resolves neighbours: the queue of packets that wait for an address can overflow, which is not
            # what is measured here.
            self._ask("warm")
            time.sleep(self.warm_up)
            self._ask("start")
        except BaseException:
            self.close()
            raise
        self._began = time.monotonic()
        return self

    def _counters(self) -> dict[str, int]:
        return drops.read(
            self._lab,
            {
                name: sorted({entry["netns"] for kind in host.spec.values() for entry in kind if entry["netns"]})
                for name, host in self._hosts.items()
            },
        )

    def _ask(self, word: str) -> dict[str, dict[str, Any]]:
        answers: dict[str, dict[str, Any]] = {}
        for host in self._hosts.values():
            host.tell(word)
        for host in self._hosts.values():
            answers[host.name] = host.answer()
        return answers

    def status(self) -> dict[str, int]:
        """Return the present totals of all hosts, by the names sent, received, missing, connections and failures.

        The first three count packets, the others ends of connections. Raise LabError if a host does not answer within
        30 seconds.
        """
        answers = self._ask("status").values()
        return {
            key: sum(answer[key] for answer in answers)
            for key in ("sent", "received", "missing", "connections", "failures")
        }

    def stop(self) -> Report:
        """Stop sending everywhere, wait for packets under way, collect the results and return their sum.

        The wait is 1 second, or 10 in the emulated machine. The traffic programs are ended. Hosts that do not answer
        within 30 seconds are in the report's `silent_hosts`. A second call returns the same report.
        """
        if self.report:
            return self.report
        seconds = time.monotonic() - self._began
        answers: dict[str, dict[str, Any]] = {}
        silent: list[str] = []
        for word in ("quiet", "report"):
            for host in self._hosts.values():
                if host.name in silent:
                    continue
                try:
                    host.tell(word)
                except LabError:
                    silent.append(host.name)
            for host in self._hosts.values():
                if host.name in silent:
                    continue
                try:
                    answers[host.name] = host.answer()
                except LabError:
                    silent.append(host.name)
                    answers.pop(host.name, None)
            if word == "quiet":
                time.sleep(self._drain)
        self.close()
        self.report = self._add_up(answers, seconds, silent)
        return self.report

    def _add_up(self, answers: dict[str, dict[str, Any]], seconds: float, silent: list[str]) -> Report:
        sent = {entry["id"]: entry for answer in answers.values() for entry in answer["send"]}
        received = {
            entry["id"]: entry
            for answer in answers.values()
            for place in answer["receive"]
            for entry in place["streams"]
        }
        ends: dict[int, list[dict[str, Any]]] = {}
        for answer in answers.values():
            for entry in answer["transfers"]:
                ends.setdefault(entry["id"], []).append(entry)
        streams, transfers = [], []
        for number, entry in self._entries:
            if isinstance(entry, Stream):
                out, came = sent.get(number, {}), received.get(number, {})
                streams.append(
                    StreamResult(
                        entry,
                        sent=out.get("sent", 0),
                        rate=out.get("rate", 0.0),
                        errors=out.get("errors", {}),
                        sizes=out.get("sizes", {}),
                        received=came.get("received", 0),
                        duplicated=came.get("duplicated", 0),
                        reordered=came.get("reordered", 0),
                        longest_gap_ms=came.get("longest_gap_ms", 0.0),
                        missing_ranges=came.get("missing_ranges", []),
                    )
                )
            else:
                both = ends.get(number, [])
                failures = [f"{end['side']}: {end['failure']}" for end in both if end["failure"]]
                if len(both) != 2 and not failures:
                    failures = ["never accepted at the other end"]
                transfers.append(
                    TransferResult(
                        entry,
                        failures,
                        corrupt=sum(end["corrupt"] for end in both),
                        sent=sum(end["sent"] for end in both),
                        received=sum(end["received"] for end in both),
                        retransmits=sum(end["retransmits"] for end in both),
                        longest_stall_ms=max((end["longest_stall_ms"] for end in both), default=0.0),
                    )
                )
        return Report(
            streams,
            transfers,
            buffer_drops=sum(place["buffer_drops"] for answer in answers.values() for place in answer["receive"]),
            seconds=seconds,
            longest_pause_ms=max((answer["longest_pause_ms"] for answer in answers.values()), default=0.0),
            cpu_seconds=sum(answer["cpu_seconds"] for answer in answers.values()),
            silent_hosts=silent,
            counters=drops.growth(self._before, self._counters()),
            excused=drops.BUFFER if self._lab.machine == "native" else drops.OVERLOAD,
        )

    def close(self) -> None:
        for host in self._hosts.values():
            host.close()

    def __enter__(self) -> Streams:
        return self.start()

    def __exit__(self, kind: object, *_rest: object) -> None:
        if kind is None:
            self.stop()
        else:
            self.close()
