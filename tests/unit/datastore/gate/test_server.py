# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of the gate: its connections, and the way of a request to the member and back."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.places import OTHER_ADDRESS
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.requests import STATUS
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.server import Gate
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import (
    HttpTransport,
    MemberAddress,
    TransportError,
)

RANGE = "/v3/kv/range"
TXN = "/v3/kv/txn"
OWN, FOREIGN = keys.endpoint_key("node1", "cali1"), keys.endpoint_key("node10", "cali1")


def test_a_write_needs_a_token_that_the_gate_has_seen() -> None:
    """A client that writes with another token gets a new one by itself."""

    async def scenario() -> None:
        asked: list[str] = []

        async def member(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError):
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).decode()
                    await reader.readexactly(int(head.split("Content-Length: ")[1].split("\r\n")[0]))
                    if STATUS not in head:  # The gate asks for it by itself.
                        asked.append(head.split(" ")[1])
                    body = b'{"token":"t%d","succeeded":true,"header":{"revision":"1"}}' % len(asked)
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            writer.close()

        server = await asyncio.start_server(member, "127.0.0.1", 0)
        gate = Gate(MemberAddress(*server.sockets[0].getsockname()[:2]), None)
        serving = await gate.listen("127.0.0.1", 0, None)
        transport = HttpTransport(MemberAddress(*serving.sockets[0].getsockname()[:2]), None)
        body = gateway.transaction_request([gateway.Delete(OWN)])
        for headers in ({}, {"Authorization": "t0"}):
            status, answer = await transport.call(TXN, body, headers, 60)
            found = gateway.error_of(status, answer)
            assert isinstance(found, gateway.Unauthenticated)
            assert found.message == "the gate does not know this token"
        assert asked == []
        login = gateway.to_bytes({"name": "node1", "password": "secret"})
        for dummy in range(17):
            assert (await transport.call("/v3/auth/authenticate", login, {}, 60))[0] == 200
        for token, status in (("t1", 401), ("t2", 200), ("t17", 200)):
            assert (await transport.call(TXN, body, {"Authorization": token}, 60))[0] == status
        foreign = gateway.transaction_request([gateway.Delete(FOREIGN)])
        assert (await transport.call(TXN, foreign, {"Authorization": "t17"}, 60))[0] == 403
        await transport.close()
        serving.close()
        server.close()

    asyncio.run(scenario())


def test_a_member_that_cannot_be_asked_is_named() -> None:
    """The agent learns why, and by the end of the connection that its token may be gone."""

    async def scenario() -> None:
        gate = Gate(MemberAddress("127.0.0.1", 1), None)
        serving = await gate.listen("127.0.0.1", 0, None)
        transport = HttpTransport(MemberAddress(*serving.sockets[0].getsockname()[:2]), None)
        status, body = await transport.call("/v3/maintenance/status", b"{}", {}, 60)
        found = gateway.error_of(status, body)
        assert isinstance(found, gateway.Unavailable)
        assert found.message == "the gate cannot ask its member: Connection refused"
        end = time.monotonic() + 60
        while not transport.broke():
            assert time.monotonic() < end
            await asyncio.sleep(0.01)
        await transport.close()
        serving.close()

    asyncio.run(scenario())


def test_a_request_that_is_no_agents_ends_the_connection() -> None:
    """A proper request is answered. What is no POST, has no length, or comes on too many connections, is not."""

    async def scenario() -> None:
        asked: list[bytes] = []

        async def member(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except asyncio.IncompleteReadError:
                    break
                body = await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
                if STATUS.encode() not in head:  # The gate asks for it by itself.
                    asked.append(head + body)
                writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"token":"token"}')
            writer.close()

        server = await asyncio.start_server(member, "127.0.0.1", 0)
        gate = Gate(MemberAddress(*server.sockets[0].getsockname()[:2]), None)
        serving = await gate.listen("127.0.0.1", 0, None)
        address = MemberAddress(*serving.sockets[0].getsockname()[:2])
        client = HttpTransport(address, None)
        login, mine = gateway.to_bytes({"name": "node1", "password": "secret"}), {"Authorization": "token"}
        assert (await client.call("/v3/auth/authenticate", login, {}, 60))[0] == 200
        asked.clear()
        for dummy in range(2):
            status, body = await client.call(RANGE, b'{"key":"AA=="}', mine, 60)
            assert (status, body) == (200, b'{"token":"token"}')
        assert all(b"Authorization: token\r\n" in one and one.endswith(b'{"key":"AA=="}') for one in asked)
        status, body = await client.call("/v3/auth/disable", b"{}", mine, 60)
        found = gateway.error_of(status, body)
        assert isinstance(found, gateway.PermissionDenied) and found.message == "the gate: this call is not passed"
        with pytest.raises(gateway.Unauthenticated):
            await EtcdClient({"gate": HttpTransport(address, None)}).call("/v3/lease/leases", b"{}")
        assert len(asked) == 2
        for raw in (
            b"GET /v3/kv/range HTTP/1.1\r\n\r\n",
            b"POST /v3/kv/range HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
            b"POST /v3/kv/range HTTP/1.1\r\n\r\n",
            b"POST /v3/kv/range HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n{}",
            b"POST /v3/kv/range HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            b"POST /v3/kv/range HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            b"POST /v3/kv/range HTTP/1.1\r\n" + b"x" * 100_000,
        ):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(raw)
            try:
                assert await asyncio.wait_for(reader.read(), 60) == b""
            except ConnectionError:
                pass
            writer.close()
        await client.close()
        held = [await asyncio.open_connection(*address) for dummy in range(OTHER_ADDRESS)]
        with pytest.raises(TransportError):
            await HttpTransport(address, None).call(RANGE, b'{"key":"AA=="}', mine, 60)
        for dummy, writer in held:
            writer.close()
        status, end = 0, asyncio.get_running_loop().time() + 60
        while status != 200:
            assert asyncio.get_running_loop().time() < end
            with contextlib.suppress(TransportError):
                status, body = await HttpTransport(address, None).call(RANGE, b'{"key":"AA=="}', mine, 60)
        serving.close()
        server.close()

    asyncio.run(scenario())


def test_a_watch_ends_with_the_right_to_read() -> None:
    """The gate asks in the user's name for the watch's first key; only a refusal ends the watch, and no other error."""

    async def scenario() -> None:
        answers = iter(
            [
                (200, b'{"header":{"revision":"1"}}'),
                (503, b'{"code":14,"message":"etcdserver: no leader"}'),
                (429, b'{"code":8,"message":"etcdserver: too many requests"}'),
                (403, b'{"code":7,"message":"etcdserver: permission denied"}'),
            ]
        )
        asked: list[bytes] = []

        async def member(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    body = await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
                    if b"/v3/watch" in head:
                        line = b'{"result":{"created":true}}\n'
                        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                        writer.write(b"%x\r\n%b\r\n" % (len(line), line))
                        continue
                    status, answer = 200, b'{"token":"t1","header":{"revision":"1"}}'
                    if RANGE.encode() in head:
                        asked.append(body)
                        assert b"Authorization: t1\r\n" in head
                        status, answer = next(answers)
                    writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(answer), answer))
            writer.close()

        server = await asyncio.start_server(member, "127.0.0.1", 0)
        gate = Gate(MemberAddress(*server.sockets[0].getsockname()[:2]), None, rights_seconds=0.1)
        serving = await gate.listen("127.0.0.1", 0, None)
        transport = HttpTransport(MemberAddress(*serving.sockets[0].getsockname()[:2]), None)
        login = gateway.to_bytes({"name": "node1", "password": "secret"})
        assert (await transport.call("/v3/auth/authenticate", login, {}, 60))[0] == 200
        body = gateway.watch_request(keys.WATCHED, 0)
        async with transport.watch("/v3/watch", body, {"Authorization": "t1"}, 60) as lines:
            assert b"created" in await lines.next(60)
            with pytest.raises(TransportError, match=r"closed the connection|ended"):
                await lines.next(60)
        first = {"key": gateway.encoded(keys.WATCHED.start), "serializable": True}
        assert asked == [gateway.to_bytes(first)] * 4
        await transport.close()
        serving.close()
        server.close()

    asyncio.run(scenario())
