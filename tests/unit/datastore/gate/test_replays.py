# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replays of history: their sizes, their turns, and agents that are told to list."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate import replays, turns
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.replays import Replay, RevisionSizes
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.requests import STATUS
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.server import Gate
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.stream import AgentStream
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import (
    HttpTransport,
    MemberAddress,
)

from tests.unit.agent.virtual_time import run

MIB = 1 << 20


def test_history_is_what_the_database_has_grown_by() -> None:
    """Sizes at a revision count for all later ones, and nothing is larger than the database."""
    history = RevisionSizes()
    history.note(100, 20 * MIB)
    assert history.since(101) == 0 and history.since(100) == 20 * MIB
    history.note(200, 21 * MIB)
    history.note(300, 24 * MIB)
    assert [history.since(revision) for revision in (101, 201, 250, 301)] == [4 * MIB, 3 * MIB, 3 * MIB, 0]
    small = RevisionSizes()
    small.note(5000, 3 * MIB)
    assert small.since(1) == 3 * MIB


def test_a_compaction_makes_no_history_smaller() -> None:
    history = RevisionSizes()
    history.note(100, 20 * MIB)
    history.note(200, 26 * MIB)
    history.note(201, 10 * MIB)
    history.note(300, 12 * MIB)
    assert history.since(101) == 8 * MIB
    history.note(400, 30 * MIB)
    assert history.since(101) > replays.MOST_BYTES


def test_a_store_that_went_back_has_another_history() -> None:
    history = RevisionSizes()
    history.note(100, 20 * MIB)
    history.note(50, 20 * MIB)
    assert history.since(101) == 0 and history.since(50) == 20 * MIB


def test_few_sizes_are_kept() -> None:
    history = RevisionSizes()
    for number in range(100_000):
        history.note(number, 30 * MIB + number * 10_000)
    assert len(history._sizes) < 200
    assert history.since(99_999) < MIB < history.since(99_800) < replays.MOST_BYTES < history.since(1)


class Stalled:
    """An agent's stream; a connection whose limit is over has `ended`."""

    def __init__(self) -> None:
        self.limits: list[float] = []

    @contextlib.contextmanager
    def limit(self, seconds: float) -> t.Iterator[None]:
        """Note the limit."""
        self.limits.append(round(seconds, 3))
        yield


def test_a_replay_has_its_turn_until_nothing_comes() -> None:
    """An agent that reads slowly has it for ten seconds, and its connection ends then."""

    async def scenario() -> None:
        loop, given = asyncio.get_running_loop(), list[float]()
        stream = Stalled()
        began = loop.time()
        replay = Replay(lambda: given.append(round(loop.time() - began, 3)))
        for seconds in (0.4, 3.0, 0.4):
            with replay.sending(t.cast(AgentStream, stream)):
                await asyncio.sleep(seconds)
            await asyncio.sleep(0.4)
        assert given == [] and stream.limits == [10.0, 9.2, 5.8]
        await asyncio.sleep(5)
        assert given == [5.1] and replay.ended
        live, began, given[:] = Replay(lambda: given.append(round(loop.time() - began, 3))), loop.time(), []
        while not live.ended:  # Changes come all the time.
            with live.sending(t.cast(AgentStream, stream)):
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.1)
        assert given == [10.0] and min(stream.limits) >= 0

    run(scenario())


class FakeMember:
    """A member with a history: its size grows with each call of `grow`. Watches say `created` and stay open."""

    def __init__(self) -> None:
        self.revision, self.size = 100, 50 * MIB
        self.begun: list[int] = []
        self.fragments: set[bool] = set()

    def grow(self, revisions: int, size: int) -> None:
        self.revision += revisions
        self.size += size

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer calls."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                body = json.loads(await reader.readexactly(int(head.split("Content-Length: ")[1].split("\r\n")[0])))
                header = {"cluster_id": "1", "revision": str(self.revision)}
                answer: gateway.Json = {"token": body.get("name"), "header": header, "version": "3.4.23"}
                if STATUS in head:
                    answer["dbSizeInUse"] = str(self.size)
                elif "create_request" in body:
                    self.begun.append(int(body["create_request"]["start_revision"]))
                    self.fragments.add(body["create_request"]["fragment"])
                    answer = {"result": {"header": header, "created": True}}
                data = gateway.to_bytes(answer) + b"\n"
                if "create_request" in body:
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(data), data)
                    )
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data))
        writer.close()


@contextlib.asynccontextmanager
async def fake() -> t.AsyncIterator[tuple[FakeMember, MemberAddress]]:
    """Yield a member, and where its gate listens that knows revision 100 of it."""
    member = FakeMember()
    server = await asyncio.start_server(member.serve, "127.0.0.1", 0)
    gate = Gate(MemberAddress(*server.sockets[0].getsockname()[:2]), None)
    listener = await gate.listen("127.0.0.1", 0, None)
    gate._places.fleet = frozenset([ipaddress.ip_address("127.0.0.1")])
    while not gate._member.history.newest:
        await asyncio.sleep(0.01)
    yield member, MemberAddress(*listener.sockets[0].getsockname()[:2])
    listener.close()
    server.close()


@contextlib.asynccontextmanager
async def watching(address: MemberAddress, user: str, revision: int) -> t.AsyncIterator[gateway.WatchAnswer]:
    """Yield the first message of a watch, which is open meanwhile. Raise EtcdError."""
    transport = HttpTransport(address, None)
    await transport.call("/v3/auth/authenticate", gateway.to_bytes({"name": user, "password": "x"}), {}, 60)
    body = json.loads(gateway.watch_request(keys.WATCHED, revision))
    del body["create_request"]["fragment"]
    headers = {"Authorization": user}
    async with transport.watch("/v3/watch", gateway.to_bytes(body), headers, 60) as lines:
        yield gateway.watch_answer_of(await lines.next(60))


async def watch(address: MemberAddress, user: str, revision: int) -> gateway.WatchAnswer:
    """Return the first message of a watch. Raise EtcdError."""
    async with watching(address, user, revision) as answer:
        return answer


def test_replays_begin_one_after_another_and_recent_watches_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch whose revision is too old is answered as after a compaction. Large messages come in parts."""
    for module, names in ((replays, ("_QUIET_SECONDS", "_TURN_SECONDS")), (turns, ("_WAITING_SECONDS",))):
        for name in names:
            monkeypatch.setattr(module, name, 3600.0)

    async def scenario() -> None:
        async with fake() as (member, address):
            member.grow(100, 4 * MIB)
            async with watching(address, "node1", 101) as first:
                assert first.created
                old = [asyncio.ensure_future(watch(address, user, 101)) for user in ("node1", "node2", "node3")]
                member.grow(100, MIB // 2)
                for revision in (201, 301, 0):
                    assert (await watch(address, "node9", revision)).created
                assert member.begun == [101, 201, 301, 0]
            assert all(answer.created for answer in await asyncio.gather(*old))
            assert sorted(member.begun) == [0, 101, 101, 101, 101, 201, 301] and member.fragments == {True}
            member.grow(100, 5 * MIB)
            answer = await watch(address, "node1", 101)
            error = gateway.cancellation_of(answer)
            assert answer.canceled and isinstance(error, gateway.Compacted) and error.revision == 400
            assert str(error) == "revision 400 is the oldest that is kept"
            assert member.begun.count(101) == 4

    asyncio.run(scenario())


@pytest.mark.parametrize("revision", [50, 100])
def test_a_revision_that_is_older_than_the_gate(revision: int) -> None:
    """The gate does not know how much there was since, so the agent lists, unless the whole database is small."""

    async def scenario() -> None:
        async with fake() as (member, address):
            assert (await watch(address, "node1", revision)).canceled
            member.size = MIB
            assert (await watch(address, "node1", revision)).created

    asyncio.run(scenario())
