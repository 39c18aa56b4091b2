# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A member of the group `calico` who floods the agent's API without end, on up to 32 connections.

    python3 hostile_reader.py SOCKET WAY...

Each connection attacks in one of the ways given, which are keys of SAID. The tests and bench/hostile_reader.py execute
this program as such a user; it needs only the standard library. It never waits: a read or write that the agent does not
accept at once is retried at once.
"""

from __future__ import annotations

import itertools
import json
import socket
import sys
import typing as t

CONNECTIONS = 32


def request(method: str, **params: t.Any) -> bytes:
    return json.dumps({"id": 1, "method": method, "params": params}).encode() + b"\n"


def longest_selector(length: int = 4096) -> str:
    """Return a selector of as many pairs `!has(a)&&has(a)`, joined by `||`, as fit into `length` characters.

    For a workload without the label `a`, no test decides the result before the last one, so the agent evaluates them
    all.
    """
    return "||".join(["!has(a)&&has(a)"] * ((length + 2) // 17))


_NUMBERS = itertools.count()

#: {way: (function that returns the bytes to send next, whether answers are read)}. The way `connections` sends nothing:
#: it opens connections and closes them at once.
SAID: dict[str, tuple[t.Callable[[], bytes], bool]] = {
    "selectors": (lambda: request("workload.list", selector=longest_selector()), True),
    "large selectors": (lambda: request("workload.list", selector="has(a)||" * 130_000 + "has(a)"), True),
    "plans": (lambda: request("node.plan"), True),
    "checks": (lambda: request("workload.check", id=f"default/w{next(_NUMBERS) % 1000}"), True),
    "lists unread": (lambda: request("workload.list") * 4, False),
    "everything": (lambda: b"".join(map(request, ("status", "ipam.show", "ipam.check", "policy.drops"))), True),
    "garbage": (lambda: b"{\n" * 8000, True),
    "blank lines": (lambda: b"\n" * 16000, True),
    "nested": (lambda: b'{"params":' * 1500 + b"\n", True),
    "many keys": (lambda: request("status", **{str(number): number for number in range(1200)}), True),
    "bytes": (lambda: b" ", True),
    "incomplete": (lambda: b'{"a":"' + b"a" * 16_000, True),
    "watchers": (lambda: request("watch"), True),
    "changes": (lambda: request("workload.delete", id="default/web"), True),
    "cni": (lambda: b"CNI 1\nCNI_COMMAND=ADD\n\n{}", True),
    "connections": (lambda: b"", True),
}  # fmt: skip


class Attacker:
    """An attacker with one connection at a time, which it opens again whenever it is closed."""

    def __init__(self, path: str, way: str) -> None:
        self._path = path
        self._way = way
        self._say, self._reads = SAID[way]
        self._left = b""
        self._connection: t.Optional[socket.socket] = None

    def go_on(self) -> None:
        try:
            if self._connection is None:
                self._connection = socket.socket(socket.AF_UNIX)
                self._connection.setblocking(False)
                self._connection.connect(self._path)
                self._left = b""
            if self._way == "connections":
                raise ConnectionResetError
            if self._reads:
                self._read(self._connection)
            self._left = self._left or self._say()
            self._left = self._left[self._connection.send(self._left) :]
        except BlockingIOError:
            pass
        except OSError:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    @staticmethod
    def _read(connection: socket.socket) -> None:
        try:
            if not connection.recv(1 << 20):
                raise ConnectionResetError
        except BlockingIOError:
            pass


def main(path: str, ways: t.Sequence[str]) -> None:
    attackers = [Attacker(path, way) for way, _ in zip(itertools.cycle(ways), range(CONNECTIONS))]
    print("ready", flush=True)
    while True:
        for attacker in attackers:
            attacker.go_on()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
