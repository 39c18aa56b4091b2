# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a workload that reaches the port of a gate and has no certificate.

Its node may masquerade it. Then its connections come from an address of the fleet.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import resource
import ssl
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate import places

from tests.integration.attacks.gate.gate_under_attack import GATE_HOST, MIB, AttackedGate, attacked, until

#: The node of the workload, and other addresses of the fleet.
NODE, OTHERS = "127.0.1.1", [f"127.0.2.{number}" for number in range(1, 51)]
#: How much more memory a gate may have under attack and afterwards. Each attack here took more than 100 MiB before.
MORE = 32 * MIB


@pytest.fixture(autouse=True)
def files() -> t.Iterator[None]:
    """As many open files as this process may have."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Held:
    """Connections that are held open, and closed where the gate closes them."""

    def __init__(self, gate: AttackedGate) -> None:
        self.gate, self.open = gate, set[asyncio.StreamWriter]()
        self._tasks = set[asyncio.Task[None]]()

    async def add(self, source: str, first: bytes = b"") -> None:
        """Open a connection from an address, and send its first bytes."""
        with contextlib.suppress(OSError):
            reader, writer = await self.gate.raw(source)
            self.open.add(writer)
            writer.write(first)
            self._tasks.add(asyncio.ensure_future(self._closed(reader, writer)))

    async def _closed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(1000):
                pass
        self.open.discard(writer)
        writer.transport.abort()

    async def close(self) -> None:
        for writer in self.open:
            writer.transport.abort()
        await asyncio.wait(self._tasks, timeout=60)


def hello(gate: AttackedGate) -> bytes:
    """Return the first message of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = gate.tls().wrap_bio(incoming, outgoing, server_hostname=GATE_HOST)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def test_thousands_of_connections(tmp_path: pathlib.Path) -> None:
    """Open 5,000 connections that are silent or begin a handshake, from the node's address and from others.

    Gain: The gate has up to 1.4 GB of memory, and agents wait for seconds or find no place.
    Precedent: CWE-400, CWE-770.
    Closed: 0.3.0
    Result: A connection has a place before anything is read from it, or is closed. The fleet's places are its own.
    """

    async def attack() -> None:
        async with attacked(tmp_path, fleet=[GATE_HOST, NODE, *OTHERS]) as gate:
            before, first = gate.memory, hello(gate)
            agent = await gate.agent(GATE_HOST, "node1")
            held = Held(gate)
            for number in range(5000):
                source = NODE if number % 2 else f"127.3.{number // 250}.{number % 250 + 1}"
                await held.add(source, first if number % 3 else b"")
                if number % 500 == 0:
                    await agent.works()
            most = places.FLEET_ADDRESS + places.OTHERS + 1
            await until(lambda: gate.connections() <= most, "connections without a place are closed")
            assert gate.memory - before < MORE
            agents = [await gate.agent(source, f"node-{source}") for source in OTHERS]
            for one in (agent, *agents):
                await one.works()
                one.close()
            await held.close()
            await until(lambda: gate.connections() == 0, "no connection is left")
            assert gate.memory - before < MORE

    asyncio.run(attack())


def test_handshakes_that_do_not_end(tmp_path: pathlib.Path) -> None:
    """Begin handshakes from the node's address and send a byte now and then, for ever.

    Gain: The node's agent finds no place, and the gate keeps 300 KB for each.
    Precedent: CWE-772 (Slowloris).
    Closed: 0.3.0
    Result: A handshake has 5 s. If its address has no place left, a new one ends the oldest.
    """

    async def attack() -> None:
        async with attacked(tmp_path, fleet=[GATE_HOST, NODE]) as gate:
            held, first = Held(gate), hello(gate)
            for number in range(places.FLEET_ADDRESS * 2):
                await held.add(NODE, first[: number + 1])
            agent = await gate.agent(NODE, "node1")
            await agent.works()
            number = places.FLEET_ADDRESS * 2
            for dummy in range(600):
                for writer in held.open:
                    writer.write(first[number % len(first) :][:1])
                number += 1
                if not held.open:
                    break
                await asyncio.sleep(0.1)
            assert not held.open
            await agent.works()

    asyncio.run(attack())


def test_no_handshake_and_no_certificate(tmp_path: pathlib.Path) -> None:
    """Send what is no TLS, an old version of it, a handshake without a certificate, and ask before it ends.

    Gain: An answer, sessions that the gate keeps, or renegotiations, which cost it signatures.
    Precedent: CVE-2011-1473, CWE-295.
    Closed: 0.3.0
    Result: The connection ends without an answer. There is TLS 1.3 alone, which has no renegotiation.
    """

    async def attack() -> None:
        async with attacked(tmp_path) as gate:
            request = b"POST /v3/kv/range HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"

            async def send(sent: bytes) -> None:
                reader, writer = await gate.raw(GATE_HOST)
                writer.write(sent)
                with contextlib.suppress(OSError):
                    assert b"HTTP/1.1" not in await asyncio.wait_for(reader.read(), 60)
                writer.transport.abort()

            sent = [request, b"\x16\x03\x01\xff\xff" + b"\x00" * 70_000, b"\x80\x2e\x01", hello(gate) * 3]
            await asyncio.gather(*map(send, sent))
            old = gate.tls()
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
            with pytest.raises((ssl.SSLError, OSError)):
                await asyncio.open_connection(GATE_HOST, gate.port, ssl=old)
            stranger = ssl.create_default_context(cafile=str(gate.authority.file))
            reader, writer = await asyncio.open_connection(GATE_HOST, gate.port, ssl=stranger)
            writer.write(request)
            with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
                await asyncio.wait_for(reader.read(), 60)
            assert gate.member.users == []
            await (await gate.agent(GATE_HOST, "node1")).works()

    asyncio.run(attack())
