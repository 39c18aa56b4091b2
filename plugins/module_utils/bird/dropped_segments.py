# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's counters of dropped TCP segments. They show a wrong password of a session, which BIRD does not see."""

from __future__ import annotations

import time
import typing as t

PATH = "/proc/net/netstat"


class Dropped(t.NamedTuple):
    """Numbers of dropped segments in this network namespace, of all peers together.

    `wrong` had another signature (RFC 2385) than the password here gives, `unsigned` had none although a password is
    set, `signed` had one although no password is set. `ttl` came from further away than TTL security allows (RFC 5082).
    """

    wrong: int = 0
    unsigned: int = 0
    signed: int = 0
    ttl: int = 0

    def since(self, before: Dropped) -> Dropped:
        """Return by how much each counter has grown since `before`; 0 for a counter that is lower than before."""
        return Dropped(*(max(now - then, 0) for now, then in zip(self, before)))


NOTHING_DROPPED = Dropped()

#: The kernel's names of the counters (net/ipv4/proc.c), in the order of the fields of Dropped.
_NAMES = ("TCPMD5Failure", "TCPMD5NotFound", "TCPMD5Unexpected", "TCPMinTTLDrop")


#: Seconds for which dropped segments are counted if a session is down. In that time at least one side usually tries to
#: connect (SYN retries, `connect retry`).
WATCHED = 5.0


def during(seconds: float, path: str = PATH, sleep: t.Callable[[float], None] = time.sleep) -> Dropped:
    """Return the numbers of segments dropped within the next `seconds`, for which it sleeps.

    Earlier ones may be from a fault that is corrected. They count too if the counters can only be read afterwards.
    """
    before = read(path)
    sleep(seconds)
    return read(path).since(before)


def read(path: str = PATH) -> Dropped:
    """Return the numbers of segments dropped since the network namespace exists; 0 if they cannot be read."""
    try:
        with open(path, encoding="ascii") as stream:
            return parse(stream.read())
    except (OSError, ValueError):
        return NOTHING_DROPPED


def parse(text: str) -> Dropped:
    """Return the counters in pairs of lines `TcpExt: NAME...` and `TcpExt: NUMBER...`; 0 for an absent one."""
    counters: dict[str, int] = {}
    lines = [line.split() for line in text.splitlines() if line.startswith("TcpExt:")]
    for names, numbers in zip(lines[::2], lines[1::2]):
        counters.update(zip(names[1:], map(int, numbers[1:])))
    return Dropped(*(counters.get(name, 0) for name in _NAMES))
