# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Datagrams with sequence numbers, sent at a steady rate from one namespace to others and counted there.

Run inside a namespace: `sequence.py send RATE BYTES ADDRESS...` or `sequence.py receive ADDRESS`. RATE is in datagrams
a second to each address. Both print "sending" or "listening" when they work, and end when their standard input has a
line or ends. Then they print one line of JSON: {address of the other end: count}, with "refused" (sends that failed) or
"dropped" beside. The receiver counts distinct numbers, so a duplicate does not hide a loss.
"""

from __future__ import annotations

import json
import pathlib
import select
import socket
import struct
import subprocess
import sys
import time
import typing as t

PORT = 9179


def send(rate: int, size: int, addresses: t.Sequence[str]) -> dict[str, int]:
    family = _family(addresses[0])
    sock = socket.socket(family, socket.SOCK_DGRAM)
    # Packets are not fragmented (IP_MTU_DISCOVER, IPV6_MTU_DISCOVER), so that one that does not fit counts as lost.
    if family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, 10, 2)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, 23, 2)
    sock.setblocking(False)
    padding = bytes(max(0, size - (28 if family == socket.AF_INET else 48) - 8))
    sent = dict.fromkeys(addresses, 0)
    refused = 0
    number, start = 0, time.monotonic()
    while not select.select([sys.stdin], [], [], 0)[0]:
        for address in addresses:
            try:
                sock.sendto(struct.pack("!Q", number) + padding, (address, PORT))
            except OSError:
                refused += 1  # no route, a packet too large, or a full send buffer; it counts as sent, and so as lost
            sent[address] += 1
        number += 1
        if number == 10:
            print("sending", flush=True)
        pause = start + number / rate - time.monotonic()
        if pause > 0:
            time.sleep(pause)
    sent["refused"] = refused
    return sent


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def receive(address: str) -> dict[str, int]:
    """Print "listening", and count the datagrams that arrive at `address` until standard input has a line or ends.

    Datagrams that follow within 0.3 seconds of each other are counted as well. Return {source address: number of
    distinct datagrams}, with the number that the socket's full buffer has dropped as "dropped". A namespace may have
    one receiver of each IP version. Raise OSError if the namespace does not have the address, or its port is taken.
    """
    family = _family(address)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
    sock.bind((address, PORT))
    print("listening", flush=True)
    seen: dict[str, set[int]] = {}
    ending = False
    while True:
        readable = select.select([sock] if ending else [sock, sys.stdin], [], [], 0.3 if ending else None)[0]
        if sys.stdin in readable:
            ending = True
        if sock in readable:
            data, source = sock.recvfrom(65535)
            seen.setdefault(source[0], set()).add(struct.unpack("!Q", data[:8])[0])
        elif ending:
            break
    drops = 0
    for line in (
        pathlib.Path("/proc/net/udp6" if family == socket.AF_INET6 else "/proc/net/udp").read_text().splitlines()[1:]
    ):
        fields = line.split()
        if fields[1].endswith(f":{PORT:04X}"):
            drops = int(fields[-1])
    return {**{source: len(numbers) for source, numbers in seen.items()}, "dropped": drops}


class Streams:
    """Streams of datagrams between workloads that last as long as the context.

    `pairs` are (source namespace, source address, [destination address]), `receivers` {address: namespace}. `rate` is
    the number of datagrams a second to each destination, `size` that of each packet in bytes. After the context, `sent`
    is the number of all sends, failed ones included, and `lost` counts the lost ones by "source -> destination";
    pairs without a loss are absent. `dropped` is the number of those lost in full receive buffers. Entering the context
    raises AssertionError if a sender or receiver does not begin; leaving it raises subprocess.TimeoutExpired if one
    does not end within 20 seconds.
    """

    def __init__(
        self,
        pairs: t.Sequence[tuple[t.Any, str, t.Sequence[str]]],
        receivers: t.Mapping[str, t.Any],
        rate: int = 500,
        size: int = 64,
    ) -> None:
        self._pairs, self._receivers, self._rate, self._size = pairs, receivers, rate, size
        self.sent = 0
        self.lost: dict[str, int] = {}
        self.dropped = 0  # datagrams lost in full receive buffers, which is the test's fault

    def _start(self, space: t.Any, *arguments: str) -> subprocess.Popen[str]:
        command = space.command(sys.executable, "-I", __file__, *arguments)
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Streams:
        self._in = {address: self._start(space, "receive", address) for address, space in self._receivers.items()}
        for process in self._in.values():
            assert process.stdout and process.stdout.readline() == "listening\n"
        self._out = {
            source: self._start(space, "send", str(self._rate), str(self._size), *destinations)
            for space, source, destinations in self._pairs
        }
        for process in self._out.values():
            assert process.stdout and process.stdout.readline() == "sending\n"
        return self

    def __exit__(self, *_: object) -> None:
        counts_out = {source: self._end(process) for source, process in self._out.items()}
        time.sleep(0.2)
        counts_in = {address: self._end(process) for address, process in self._in.items()}
        self.dropped = sum(counts.pop("dropped") for counts in counts_in.values())
        for source, counts in counts_out.items():
            counts.pop("refused")
            for destination, sent in counts.items():
                self.sent += sent
                lost = sent - counts_in[destination].get(source, 0)
                if lost:
                    self.lost[f"{source} -> {destination}"] = lost

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> dict[str, int]:
        out, _err = process.communicate("\n", timeout=60)
        return t.cast("dict[str, int]", json.loads(out.splitlines()[-1]))


if __name__ == "__main__":
    if sys.argv[1] == "send":
        print(json.dumps(send(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])))
    else:
        print(json.dumps(receive(sys.argv[2])))
