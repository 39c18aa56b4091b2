# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a member of the cluster, or a server in its place, which answers what it likes.

The two other members are honest. A node that asks the hostile one ends at another, and has what that one has.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import json
import resource
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.feed import Feed
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.mirror import Mirror
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import (
    HttpTransport,
    MemberAddress,
)

from tests.fakes.etcd import FakeEtcd
from tests.integration.datastore.reader import end, until
from tests.unit.datastore.test_feed import fresh, grant, publish

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
MIB = b"x" * (1 << 20)

Answer = t.Callable[[asyncio.StreamWriter], t.Awaitable[None]]


def chunk(data: bytes) -> bytes:
    """Return a part of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def header(etcd: FakeEtcd, **more: t.Any) -> gateway.Json:
    """Return the header of an answer of the honest cluster."""
    return {"cluster_id": str(etcd.cluster), "member_id": "1", "revision": str(etcd.revision), "raft_term": "2", **more}


class Hostile:
    """A server that answers every call by `calls` and every watch by `watches`."""

    def __init__(self) -> None:
        self.calls: Answer = self.hang
        self.watches: Answer = self.hang
        self.asked = 0

    async def hang(self, writer: asyncio.StreamWriter) -> None:
        """Answer nothing."""
        await asyncio.sleep(600)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            request = await reader.readuntil(b"\r\n\r\n")
            self.asked += 1
            await (self.watches if b"/v3/watch" in request else self.calls)(writer)
            await writer.drain()
        writer.transport.abort()


async def attacked(prepare: t.Callable[[FakeEtcd, Hostile], None], synced_before: bool = True) -> tuple[Feed, Mirror]:
    """Return the feed and the mirror of a node that asked the hostile member first, and is in sync with another.

    `synced_before`: the node knew everything when it came to the hostile member, and forgot nothing meanwhile. Raise
    AssertionError if it does not leave that member within 30 s.
    """
    etcd, hostile = FakeEtcd(["m1", "m2"]), Hostile()
    grant(etcd)
    for number in range(20):
        publish(etcd, "node2", number)
    prepare(etcd, hostile)
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0)
    evil = HttpTransport(MemberAddress(*server.sockets[0].getsockname()[:2]), None)
    client = EtcdClient({"evil": evil, **etcd.members}, seconds=1)
    mirror = Mirror()
    feed = Feed(client, keys.WATCHED, mirror, progress=0.3, listing_jitter=0.1)

    def turn(name: str) -> None:
        while client.member.name != name:
            client.rotate()

    turn("m1" if synced_before else "evil")
    task = asyncio.ensure_future(feed.run())
    if synced_before:
        await until(lambda: feed.status.synced, lambda: feed.status)
        etcd.members["m2"].up = False
        etcd.members["m1"].kill()
        await until(lambda: hostile.asked > 0, "the hostile member is asked")
        await asyncio.sleep(0.3)
        assert len(mirror.endpoints) == 20
        for member in etcd.members.values():
            member.up = True
    await until(lambda: hostile.asked > 0, "the hostile member is asked")
    publish(etcd, "node2", 30)
    await until(lambda: feed.status.synced and len(mirror.endpoints) == 21, lambda: (prepare, feed.status), 30)
    await asyncio.sleep(0.1)
    assert mirror.endpoints == fresh(etcd) and feed.status.member in etcd.members
    await end(task)
    server.close()
    return feed, mirror


def peak() -> float:
    """Return the most memory that this process had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def endless_header(writer: asyncio.StreamWriter) -> None:
    """Send lines of a header for ever."""
    writer.write(OK)
    while True:
        writer.write(b"X-More: yes\r\n" * 100)
        await writer.drain()


async def endless_body(writer: asyncio.StreamWriter) -> None:
    """Send a body without an end."""
    writer.write(CHUNKED)
    while True:
        writer.write(chunk(MIB))
        await writer.drain()


async def promised_body(writer: asyncio.StreamWriter) -> None:
    """Announce a body of a terabyte, and send 64 MiB of it."""
    writer.write(OK + b"Content-Length: 999999999999\r\n\r\n")
    for dummy in range(64):
        writer.write(MIB)
        await writer.drain()


async def dripping(writer: asyncio.StreamWriter) -> None:
    """Send one byte each tenth of a second."""
    for byte in CHUNKED + chunk(b'{"header":{' + b" " * 10_000):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.1)


async def one_line(writer: asyncio.StreamWriter) -> None:
    """Send a line of a watch without an end."""
    writer.write(CHUNKED)
    writer.write(chunk(b'{"result":{"events":['))
    while True:
        writer.write(chunk(MIB))
        await writer.drain()


async def no_http(writer: asyncio.StreamWriter) -> None:
    """Send something else."""
    writer.write(b"\x16\x03\x01" + MIB)


def all_attacked(*attacks: t.Callable[[FakeEtcd, Hostile], None], synced_before: bool) -> None:
    """Make several attacks at the same time, each on a node of its own."""

    async def run() -> None:
        await asyncio.gather(*(attacked(attack, synced_before) for attack in attacks))

    asyncio.run(run())


@pytest.mark.parametrize("synced_before", [True, False], ids=["knew all", "began"])
def test_answers_without_an_end(synced_before: bool) -> None:
    """Send headers and bodies that are endless, 64 MiB long, sent byte by byte, or of another protocol.

    Gain: Memory of every node, or nodes that wait for ever.
    Precedent: CWE-400, CWE-770.
    Closed: 0.3.0
    Result: The node stops after 16 MiB or its timeout, keeps its data, and asks another member.
    """

    def attack(answer: Answer) -> t.Callable[[FakeEtcd, Hostile], None]:
        def prepare(etcd: FakeEtcd, hostile: Hostile) -> None:
            hostile.calls = hostile.watches = answer

        return prepare

    before = peak()
    answers = (endless_header, endless_body, promised_body, dripping, one_line, no_http)
    all_attacked(*map(attack, answers), synced_before=synced_before)
    assert peak() - before < 300


def as_call(body: gateway.Json) -> Answer:
    """Return an answer to a call."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(json.dumps(body).encode()) + b"0\r\n\r\n")

    return answer


def as_watch(*messages: gateway.Json, raw: bytes = b"") -> Answer:
    """Return an answer to a watch: messages, `raw`, and then nothing more."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = b"".join(json.dumps({"result": message}).encode() + b"\n" for message in messages)
        writer.write(CHUNKED + chunk(lines + raw or b"\n"))
        await writer.drain()
        await asyncio.sleep(600)

    return answer


def event(key: str, **fields: t.Any) -> gateway.Json:
    """Return a change of a key of node2."""
    name = base64.b64encode(f"{keys.endpoints_of('node2')}{key}".encode()).decode()
    return {"kv": {"key": name, "mod_revision": "9", "value": "AA==", **fields}}


def wrong_values(etcd: FakeEtcd) -> dict[str, list[gateway.Json]]:
    """Return what a watch may say after its beginning, by what is wrong with it."""
    now, past = header(etcd), header(etcd, revision="1")
    return {
        "base64 of a key": [{"header": now, "events": [{"kv": {"key": "%%%", "mod_revision": "9"}}]}],
        "base64 of a value": [{"header": now, "events": [event("cali1", value="%%%")]}],
        "kind of a change": [{"header": now, "events": [{**event("cali1"), "type": "MAYBE"}]}],
        "number": [{"header": now, "events": [event("cali1", mod_revision="-1")]}],
        "long number": [{"header": now, "events": [event("cali1", mod_revision="9" * 5000)]}],
        "revision that went back": [{"header": past}, {"header": past, "events": [event("x", mod_revision="1")]}],
        "revision of the future": [{"header": header(etcd, revision=str(1 << 62))}],
        "other cluster": [{"header": header(etcd, cluster_id="666")}],
        "no header": [{"events": [event("x")]}],
        "types": [{"header": now, "events": {"kv": 1}}],
        "end without a reason": [{"header": now, "canceled": True}],
        "end with a long reason": [{"header": now, "canceled": True, "cancel_reason": "\x1b[2J" * 100_000}],
        "compaction": [{"header": now, "canceled": True, "compact_revision": "99999999"}],
    }


def test_values_that_are_wrong() -> None:
    """Begin a watch correctly, then send invalid keys, numbers, revisions and ends.

    Gain: A reader that stops, or that records a wrong position and misses changes from then on.
    Precedent: CWE-20.
    Closed: 0.3.0
    Result: The node changes to another member, and ends with the data of the honest ones.
    """

    def prepare(etcd: FakeEtcd, hostile: Hostile, wrong: str) -> None:
        data = {**etcd.data()}
        listing = {
            "header": header(etcd),
            "kvs": [
                {
                    "key": base64.b64encode(one.key).decode(),
                    "value": base64.b64encode(one.value or b"").decode(),
                    "mod_revision": str(one.revision),
                }
                for one in sorted(data.values(), key=lambda one: one.key)
            ],
            "count": str(len(data)),
        }
        hostile.calls = as_call(listing)
        begun = {"header": header(etcd), "created": True}
        hostile.watches = as_watch(begun, *wrong_values(etcd)[wrong])

    attacks = (functools.partial(prepare, wrong=wrong) for wrong in wrong_values(FakeEtcd(["m1"])))
    all_attacked(*attacks, synced_before=False)


def test_calls_that_are_answered_by_rubbish() -> None:
    """Answer calls with wrong types, empty objects, and errors without a reason.

    Gain: A reader that stops.
    Precedent: CWE-20.
    Closed: 0.3.0
    Result: None of these counts as an answer. The node keeps its data and asks another member.
    """
    rubbish: list[gateway.Json] = [
        *({}, {"header": []}, {"header": {}, "kvs": [1]}, {"header": {}, "responses": [{}]}, {"error": {"a": []}}),
    ]

    def prepare(etcd: FakeEtcd, hostile: Hostile, body: gateway.Json) -> None:
        hostile.calls = as_call(body)
        hostile.watches = as_watch(raw=b"\xff" * 100 + b"\n")

    all_attacked(*(functools.partial(prepare, body=body) for body in rubbish), synced_before=True)
