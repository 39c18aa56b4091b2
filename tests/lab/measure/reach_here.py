#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A script that runs on a lab host: servers in its network namespaces, and attempts to reach others.

Its input is JSON on stdin.

    python3 reach_here.py serve   [{"netns": "web-1" or null, "ports": [80]}] -> the line "ready"; ends with its stdin.
                                  On each port TCP is accepted and UDP sent back.
    python3 reach_here.py try     [{"netns": ..., "address": ..., "protocol": "tcp" or "udp", "port": 80,
                                    "expected": true}] -> ["answer", "refused" or "nothing", ...]

"answer": a connection came about, or an answer to a datagram came. "refused": a reset or ICMP's "port unreachable"
came, as from a place where no server has the port. "nothing": neither was seen in time.
All attempts run at the same time, for PATIENCE seconds at most. They end when all have a result. They also end after
MOMENT seconds if each attempt that is expected to succeed has one by then, or as soon as the last of these has one.
The script uses nothing of the collection; standard library only, Python 3.9.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import select
import socket
import sys
import time
import typing as t

if t.TYPE_CHECKING:
    from tests.lab.measure.traffic import inside
else:
    from lab_traffic import inside

MOMENT, PATIENCE = 1.2, 15.0  # seconds
AGAIN = 0.3  # seconds until a datagram is sent again
ANSWER, REFUSED, NOTHING = "answer", "refused", "nothing"


def _server(kind: int, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, kind)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("0.0.0.0", port))
    if kind == socket.SOCK_STREAM:
        made.listen(256)
    made.setblocking(False)
    return made


def serve(places: t.Sequence[dict[str, t.Any]]) -> None:
    servers = {}
    for place in places:
        for port in place["ports"]:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                made = inside(place["netns"], functools.partial(_server, kind, port))
                servers[made.fileno()] = made
    poll = select.poll()
    for handle in (0, *servers):
        poll.register(handle, select.POLLIN | select.POLLHUP)
    print("ready", flush=True)
    while True:
        for handle, _events in poll.poll():
            if handle not in servers:
                if not os.read(0, 4096):
                    return
                continue
            server = servers[handle]
            try:
                if server.type == socket.SOCK_STREAM:
                    server.accept()[0].close()
                else:
                    data, sender = server.recvfrom(2048)
                    server.sendto(data, sender)
            except OSError:
                pass  # for example, a firewall of this host drops the UDP answer (EPERM): the client gets none


class Attempt:
    """One attempt to reach an address; `result` is None as long as it is unknown.

    `wanted` is one entry of the input of `try`. The constructor raises OSError if its namespace does not exist.
    """

    def __init__(self, wanted: dict[str, t.Any]) -> None:
        self.expected: bool = wanted["expected"]
        self.result: str | None = None
        kind = socket.SOCK_STREAM if wanted["protocol"] == "tcp" else socket.SOCK_DGRAM
        self.socket: socket.socket = inside(wanted["netns"], lambda: socket.socket(socket.AF_INET, kind))
        self.socket.setblocking(False)
        self.tcp = kind == socket.SOCK_STREAM
        number = self.socket.connect_ex((wanted["address"], wanted["port"]))
        if number not in (0, errno.EINPROGRESS):
            self.result = _result(number)

    def send(self) -> None:
        if not self.tcp and self.result is None:
            self._unless_refused(lambda: self.socket.send(b"anybody there?"))

    def look(self) -> None:
        if self.tcp:
            self.result = _result(self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        elif self._unless_refused(lambda: self.socket.recv(2048)):
            self.result = ANSWER

    def _unless_refused(self, work: t.Callable[[], object]) -> bool:
        """Call `work`, and return whether it raised no OSError; on ConnectionRefusedError the result is REFUSED.

        The kernel reports a refused datagram as an error of the socket's next call. After other errors, such as that of
        a firewall that drops the datagram here, a later datagram may still be answered.
        """
        try:
            work()
        except ConnectionRefusedError:
            self.result = REFUSED
        except OSError:
            pass
        else:
            return True
        return False


def _result(number: int) -> str:
    """Return the result of a connect() with this errno: ANSWER for 0, REFUSED for ECONNREFUSED, else NOTHING."""
    return {0: ANSWER, errno.ECONNREFUSED: REFUSED}.get(number, NOTHING)


def try_all(wanted: t.Sequence[dict[str, t.Any]]) -> list[str]:
    attempts = [Attempt(one) for one in wanted]
    began, again = time.monotonic(), 0.0
    while True:
        now = time.monotonic() - began
        if now >= again:
            for attempt in attempts:
                attempt.send()
            again = now + AGAIN
        open_ones = {one.socket.fileno(): one for one in attempts if one.result is None}
        missing = any(one.expected for one in open_ones.values())
        if not open_ones or now > PATIENCE or now > MOMENT and not missing:
            return [one.result or NOTHING for one in attempts]
        poll = select.poll()
        for handle, one in open_ones.items():
            poll.register(handle, select.POLLOUT if one.tcp else select.POLLIN)
        for handle, _events in poll.poll(50):
            open_ones[handle].look()


if __name__ == "__main__":
    asked = json.loads(sys.stdin.readline())
    if sys.argv[1] == "serve":
        serve(asked)
    else:
        print(json.dumps(try_all(asked)))
