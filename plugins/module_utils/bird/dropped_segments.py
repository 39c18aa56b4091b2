# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel dropped of TCP before any program heard of it: a wrong password is nowhere else to be seen."""

from __future__ import annotations

import time
import typing as t

PATH = "/proc/net/netstat"


class Dropped(t.NamedTuple):
    """Segments, in this network namespace; whose they were the kernel does not say.

    `wrong` had another signature (RFC 2385) than the password here gives, `unsigned` none although there is a password,
    `signed` one although there is none. `ttl` came from further away than TTL security allows (RFC 5082).
    """

    wrong: int = 0
    unsigned: int = 0
    signed: int = 0
    ttl: int = 0

    def since(self, before: Dropped) -> Dropped:
        """What has come to it."""
        return Dropped(*(max(now - then, 0) for now, then in zip(self, before)))


NOTHING_DROPPED = Dropped()

#: Names of the kernel (net/ipv4/proc.c); in the order of the fields.
_NAMES = ("TCPMD5Failure", "TCPMD5NotFound", "TCPMD5Unexpected", "TCPMinTTLDrop")


#: seconds: in as many either side tries to connect, and again where nothing came back (SYN retries, `connect retry`)
WATCHED = 5.0


def during(seconds: float, path: str = PATH, sleep: t.Callable[[float], None] = time.sleep) -> Dropped:
    """What is dropped from now on: what was counted before may be of a fault that was mended long ago."""
    before = read(path)
    sleep(seconds)
    return read(path).since(before)


def read(path: str = PATH) -> Dropped:
    """Since the network namespace began. Zeros where the kernel does not tell."""
    try:
        with open(path, encoding="ascii") as stream:
            return parse(stream.read())
    except (OSError, ValueError):
        return NOTHING_DROPPED


def parse(text: str) -> Dropped:
    """Of pairs of lines, `TcpExt: NAME...` and `TcpExt: NUMBER...`."""
    counters: dict[str, int] = {}
    lines = [line.split() for line in text.splitlines() if line.startswith("TcpExt:")]
    for names, numbers in zip(lines[::2], lines[1::2]):
        counters.update(zip(names[1:], map(int, numbers[1:])))
    return Dropped(*(counters.get(name, 0) for name in _NAMES))
