# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a local user on ports that are published at ::1."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.sockets.loopback_proxy import (
    CONNECTIONS,
    LoopbackProxy,
)

from tests.integration.attacks.local_users import MEMBER, STRANGER

# Holds `count` connections to an address as the user `uid` and prints "ready". For each number that it reads, it prints
# how many of them are open, when these are so many or a minute is over. With one more word, a number also makes a
# connection first.
HOLD = """\
import os, select, socket, sys, time
uid, count, more = int(sys.argv[1]), int(sys.argv[2]), sys.argv[5:]
os.setgroups([]); os.setgid(uid); os.setuid(uid)
def connect():
    held.append(socket.create_connection((sys.argv[3], int(sys.argv[4])), 30))
held = []
for _ in range(count):
    connect()
print("ready", flush=True)
for line in sys.stdin:
    if more:
        connect()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        held = [one for one in held if one not in select.select(held, [], [], 0)[0]]
        if len(held) == int(line):
            break
        time.sleep(0.05)
    print(len(held), flush=True)
"""


class Users:
    """Processes of local users that hold connections to one address."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._processes: list[asyncio.subprocess.Process] = []

    async def hold(self, uid: int, count: int, *more: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", HOLD, str(uid), str(count), self._address[0], str(self._address[1]), *more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._processes.append(process)
        assert process.stdout and (await process.stdout.readline()).strip() == b"ready"
        return process

    def end(self) -> None:
        for process in self._processes:
            process.kill()


async def still_open(process: asyncio.subprocess.Process, expected: int) -> int:
    """Return how many connections the process has, when these are `expected` or a minute is over."""
    assert process.stdin and process.stdout
    process.stdin.write(b"%d\n" % expected)
    await process.stdin.drain()
    return int(await asyncio.wait_for(process.stdout.readline(), 120))


async def echoed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: bytes) -> bytes:
    writer.write(text)
    return await asyncio.wait_for(reader.read(100), 60)


@pytest.mark.parametrize("address", ["::1", "127.0.0.1"])
def test_all_connections_of_the_proxy(address: str) -> None:
    """Hold all 64 connections to ports published at ::1, and connect again as often as one of them is ended.

    Gain: Every published port is closed at ::1 for an hour.
    Precedent: CWE-770, CWE-400; found in this collection.
    Closed: 0.3.0
    Result: Another user gets one of his longest unused connections, and keeps it. He gets no more than before.
    """

    async def attack() -> None:
        echo = await asyncio.start_server(_echo, "127.0.0.1", 0)
        target = echo.sockets[0].getsockname()[:2]
        listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        listening.bind((address, 0))
        listening.listen(CONNECTIONS)
        listening.setblocking(False)
        proxy = LoopbackProxy()
        asyncio.get_running_loop().add_reader(listening, proxy.accept, listening, target)
        users = Users((address, listening.getsockname()[1]))
        try:
            attacker = await users.hold(STRANGER, CONNECTIONS)
            assert await still_open(attacker, CONNECTIONS) == CONNECTIONS
            reader, writer = await asyncio.open_connection(*listening.getsockname()[:2])
            assert await echoed(reader, writer, b"first") == b"first"
            assert await still_open(attacker, CONNECTIONS - 1) == CONNECTIONS - 1
            again = await users.hold(STRANGER, 0, "more")
            assert [await still_open(again, 0) for _ in range(3)] == [0, 0, 0]
            other = await users.hold(MEMBER, 2)
            assert await still_open(other, 2) == 2
            assert await echoed(reader, writer, b"second") == b"second"
            assert await still_open(attacker, CONNECTIONS - 3) == CONNECTIONS - 3
        finally:
            users.end()
            asyncio.get_running_loop().remove_reader(listening)
            proxy.end(listening)
            listening.close()
            echo.close()

    assert os.geteuid() == 0, "other users need root"
    asyncio.run(attack())


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
    writer.close()


def test_without_the_kernels_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close the other end before the kernel is asked for its user.

    Gain: an error in the agent's event loop.
    Precedent: CWE-367.
    Closed: 0.3.0
    Result: The user is unknown, and counted as one of his own.
    """
    from ansible_collections.baremetal.host_routing.plugins.module_utils.sockets import socket_user

    found: list[t.Optional[int]] = []
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        client = socket.create_connection(listening.getsockname())
        accepted, dummy = listening.accept()
        with accepted:
            found.append(socket_user.of_peer(accepted))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            found.append(socket_user.of_peer(accepted))
    assert found == [os.geteuid(), None]
