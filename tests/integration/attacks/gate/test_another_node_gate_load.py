# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks on a gate's time and memory by another node, whose certificate is right and whose user may be revoked."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import pathlib
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials, EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import Lines, TransportError

from tests.integration.attacks.gate.gate_under_attack import (
    GATE_HOST,
    LARGE,
    MIB,
    AttackedGate,
    Client,
    StandIn,
    attacked,
    until,
)
from tests.long_form import LONG

#: The node of the attacker.
NODE = "127.0.1.1"
#: How much more memory a gate may have under attack and afterwards.
MORE = 48 * MIB
AUTHENTICATE, RANGE, TRANSACTION = "/v3/auth/authenticate", "/v3/kv/range", "/v3/kv/txn"


@contextlib.asynccontextmanager
async def calling(agent: Client) -> t.AsyncIterator[list[float]]:
    """Make calls of an agent all the time; yield how long they took. Raise what fails, or AssertionError."""
    took: list[float] = []
    ended = asyncio.Event()

    async def call() -> None:
        while not ended.is_set():
            began = time.monotonic()
            await agent.works()
            took.append(time.monotonic() - began)
            await asyncio.sleep(0.01)

    task = asyncio.ensure_future(call())
    try:
        yield took
        before = len(took)
        await until(lambda: len(took) > before or task.done(), "the agent's next call is answered")
    finally:
        ended.set()
        await task


def test_large_bodies_without_a_token(tmp_path: pathlib.Path) -> None:
    """Send 30 times 1 MB of JSON at once, again and again, with a token that is not known, and to authenticate.

    Gain: The gate reads and parses all of them, and agents wait for it.
    Precedent: CWE-770, CWE-408.
    Closed: 0.3.0
    Result: Without a token the gate reads at most 2 KiB, of an authentication. All else is answered 401, unread.
    """

    async def attack() -> None:
        member = StandIn()
        member.revoked.add("node9")
        async with attacked(tmp_path, member, fleet=[GATE_HOST, NODE]) as gate:
            agent, before = await gate.agent(GATE_HOST, "node1"), gate.memory
            body = b'{"success":[' + b'{"request_put":{"key":"AA==","value":"AA=="}},' * 21_000 + b"0]}"
            answered: list[str] = []

            async def one(number: int) -> None:
                path = (TRANSACTION, RANGE, AUTHENTICATE)[number % 3]
                # Connections of the round before may still hold their places; an address has 32.
                with contextlib.suppress(OSError, EOFError):
                    client = await gate.client(NODE)
                    client.token = "stolen"
                    with contextlib.closing(client):
                        status, answer = await client.call(path, body)
                    assert (status, answer["message"]) == (401, "the gate does not know this token")
                    answered.append(path)

            async with calling(agent):
                for dummy in range(3):
                    await asyncio.gather(*map(one, range(30)))
                    assert gate.memory - before < MORE
            assert member.users == ["node1"]
            assert {*answered} == {TRANSACTION, RANGE, AUTHENTICATE}

    asyncio.run(attack())


def test_a_head_whose_body_never_comes(tmp_path: pathlib.Path) -> None:
    """Announce bodies and send them a byte at a time, without a token and with one.

    Gain: The places and the memory of the gate, or its turns.
    Precedent: CWE-772 (Slowloris).
    Closed: 0.3.0
    Result: Only four requests of a user are read at the same time, and each has 10 s. Others are served meanwhile.
    """

    async def attack() -> None:
        async with attacked(tmp_path, fleet=[GATE_HOST, NODE]) as gate:
            agent = await gate.agent(GATE_HOST, "node1")
            slow = [await gate.agent(NODE, "node9") for dummy in range(8)]
            for client in slow:
                await client.works()
            for number, client in enumerate(slow):
                client.token = client.token if number % 2 else ""
                client.send(RANGE if number % 2 else AUTHENTICATE, b"{", 1000)
            async with calling(agent):
                for client in slow:
                    assert await client.ended()

    asyncio.run(attack())


def test_authentications_again_and_again(tmp_path: pathlib.Path) -> None:
    """Authenticate with a revoked user, and with the names of others, on 30 connections without a pause.

    Gain: The member does nothing but check passwords (70 ms each), and agents get no token.
    Precedent: CWE-307, CWE-400.
    Closed: 0.3.0
    Result: Two at a time, one of each address after another, and two a second of one address.
    """

    async def attack() -> None:
        member = StandIn(0.05)
        member.revoked |= {"node9", "root"}
        async with attacked(tmp_path, member, fleet=[GATE_HOST, NODE, "127.0.1.2"]) as gate:
            agent, began, refused = await gate.agent(GATE_HOST, "node1"), time.monotonic(), 0
            names, ended = itertools.cycle(["node9", "root"]), asyncio.Event()

            async def one() -> None:
                nonlocal refused
                client = None
                while not ended.is_set():
                    try:
                        client = client or await gate.client(NODE)
                        status, _answer = await client.authenticate(next(names))
                        refused += status == 429
                    except (OSError, EOFError):
                        client = None
                        await asyncio.sleep(0.1)
                if client is not None:
                    client.close()

            attackers = [asyncio.ensure_future(one()) for dummy in range(30)]
            async with calling(agent):
                await until(lambda: refused > 60, "the attacker is put off")
                for number in range(10):
                    (await gate.agent("127.0.1.2", f"agent{number}")).close()
            ended.set()
            await asyncio.gather(*attackers)
            stolen = sum(user in member.revoked for user in member.users)
            assert stolen <= 32 + 2 * (time.monotonic() - began) + 1
            assert member.at_once <= 2

    asyncio.run(attack())


def test_answers_that_are_not_read(tmp_path: pathlib.Path) -> None:
    """Ask for 8 MB on each of 30 connections, and read none of it.

    Gain: The gate keeps the answers: 240 MB of memory, or more.
    Precedent: CWE-400 (CVE-2019-9517 is such an attack).
    Closed: 0.3.0
    Result: The gate has a small part of an answer at a time, and ends the connection after 60 s.
    """

    async def attack() -> None:
        async with attacked(tmp_path, fleet=[GATE_HOST, NODE]) as gate:
            agent, before = await gate.agent(GATE_HOST, "node1"), gate.memory
            deaf = [await gate.agent(NODE, "node9") for dummy in range(30)]
            for client in deaf:
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]
                client.send(RANGE, b'{"key":"%b"}' % LARGE.encode())
            async with calling(agent) as took:
                await until(lambda: len(took) > 200, "the agent's calls are answered")
                assert gate.memory - before < MORE
            status, answer = await agent.call(RANGE, b'{"key":"%b"}' % LARGE.encode())
            assert (status, len(answer["kvs"][0]["value"])) == (200, 8 * MIB)
            for client in deaf:
                client.close()
            await until(lambda: gate.connections() == 1, "the connections end")
            assert gate.memory - before < MORE

    asyncio.run(attack())


def test_a_revoked_certificate(tmp_path: pathlib.Path) -> None:
    """Go on with open connections and a watch after the node's certificate was revoked, and open new ones.

    Gain: The places, the time and the watches of a node that is excluded.
    Precedent: CWE-299.
    Closed: 0.3.0
    Result: All its connections end, and new ones before a request is read. Those of others go on.
    """

    async def attack() -> None:
        async with attacked(tmp_path, fleet=[GATE_HOST, NODE]) as gate:
            stolen, other = gate.issue("stolen"), gate.issue("other")
            agent = await gate.client(GATE_HOST, "other")
            client, watch, silent = [await gate.client(NODE, "stolen") for dummy in range(3)]
            for one, user in ((agent, "node1"), (client, "node9"), (watch, "node9")):
                await one.authenticate(user)
                await one.works()
            watch.send("/v3/watch", b'{"create_request":{"key":"AA==","range_end":"AQ=="}}')
            await watch.reader.readuntil(b"created")
            gate.revoked_file.write_text(f"# revoked\n{stolen}\n")
            for one in (client, watch, silent):
                assert await one.ended()
            for dummy in range(3):
                new = await gate.client(NODE, "stolen")
                new.token = client.token
                with contextlib.suppress(OSError):
                    new.send(RANGE, b'{"key":"AA=="}')
                    assert await asyncio.wait_for(new.reader.read(), 60) == b""
            await agent.works()
            gate.revoked_file.write_text(f"{other} and more\n")
            again = await gate.client(NODE, "stolen")
            assert await again.ended()
            await agent.works()
            await until(lambda: bool((gate.folder / "errors").read_text()), "the gate says why")
            assert (gate.folder / "errors").read_text() == (
                f"{gate.revoked_file} cannot be used: '{other} and more' is no SHA-256 fingerprint of 64 hex digits. "
                "What it had before counts.\n"
            )

    asyncio.run(attack())


class _FromAnAddress:
    """A way to a gate whose connections come from an address of their own."""

    def __init__(self, gate: AttackedGate, source: str) -> None:
        self._gate, self._source = gate, source
        self._kept: t.Optional[Client] = None

    async def call(self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        try:
            client = self._kept or await self._gate.client(self._source)
            client.token = headers.get("Authorization", "")
            status, answer = await client.call(path, body)
        except (OSError, EOFError) as error:
            self._kept = None
            raise TransportError(str(error)) from None
        self._kept = client if status != 401 else None
        return status, json.dumps(answer).encode()

    def watch(
        self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float
    ) -> t.AsyncContextManager[Lines]:
        raise NotImplementedError

    def broke(self) -> bool:
        return self._kept is None

    async def close(self) -> None:
        if self._kept is not None:
            self._kept.close()


def test_all_agents_come_back_to_a_gate_that_restarts(tmp_path: pathlib.Path) -> None:
    """End the gate of hundreds of agents, whose tokens are gone with it (any cause, an attack included).

    Gain: All of them authenticate at once, the member does nothing else, and calls fail for minutes.
    Precedent: CWE-400.
    Closed: 0.3.0
    Result: Two authenticate at a time; others wait or are put off, and come back. An agent with a token is served.
    """
    sources = [f"127.5.{number // 250}.{number % 250 + 1}" for number in range(500 if LONG else 100)]

    async def attack() -> None:
        member = StandIn(0.02)
        async with attacked(tmp_path, member, fleet=[GATE_HOST, *sources]) as gate:
            transports = [_FromAnAddress(gate, source) for source in sources]
            agents = [
                EtcdClient({"gate": transport}, Credentials(f"node{number}", "secret"), 60.0)
                for number, transport in enumerate(transports)
            ]
            before = gate.memory
            await asyncio.gather(*(agent.status() for agent in agents))
            await gate.restart()
            for transport in transports:
                await transport.close()
                transport._kept = None
            member.users.clear()
            first = await gate.agent(GATE_HOST, "first")
            async with calling(first):
                await asyncio.gather(*(agent.status() for agent in agents))
            assert member.at_once <= 2
            assert len(member.users) == len(agents) + 1
            assert gate.memory - before < MORE
            for agent in agents:
                await agent.close()

    asyncio.run(attack())


def test_the_memory_of_many_connections_is_returned(tmp_path: pathlib.Path) -> None:
    """Open two connections for each of hundreds of nodes, a watch among them, and end them (honest).

    Gain: None. 1,000 agents must find places at one gate, whose memory is limited.
    Precedent: None known.
    Closed: 0.3.0
    Result: Each connection takes at most 96 KiB, with its own one to the member, and half of that comes back.
    """
    sources = [f"127.5.{number // 250}.{number % 250 + 1}" for number in range(1000 if LONG else 200)]

    async def attack() -> None:
        async with attacked(tmp_path, fleet=sources) as gate:
            before = gate.memory

            async def both(source: str) -> list[Client]:
                agent, watch = await gate.agent(source, source), await gate.client(source)
                await agent.works()
                watch.token = agent.token
                watch.send("/v3/watch", b'{"create_request":{"key":"AA==","range_end":"AQ=="}}')
                await asyncio.wait_for(watch.reader.readuntil(b"created"), 60)
                return [agent, watch]

            opened: list[Client] = []
            for first in range(0, len(sources), 20):
                for found in await asyncio.gather(*map(both, sources[first : first + 20])):
                    opened += found
            assert gate.connections() == len(opened) == 2 * len(sources)
            taken = gate.memory - before
            assert taken < len(opened) * (96 << 10)
            for client in opened:
                client.close()
            await until(lambda: gate.connections() == 0, "the connections end")
            await until(lambda: gate.memory - before < taken // 2, "the memory comes back")

    asyncio.run(attack())
