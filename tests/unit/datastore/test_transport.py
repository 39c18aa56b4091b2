# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transport's limits of time, cancellations that coincide with results, and the files of TLS that change."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import pathlib
import socket
import ssl
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import (
    HttpTransport,
    MemberAddress,
    TlsFiles,
    TransportError,
    within,
)
from cryptography.hazmat.primitives import serialization

from tests.etcd_certificates import DAY, Authority
from tests.unit.agent.virtual_time import run


@pytest.mark.parametrize("turns", range(6))
def test_a_cancellation_is_not_lost_to_a_result_that_comes_at_the_same_time(turns: int) -> None:
    """A task that was cancelled before it ended ends as cancelled, whatever else happens in that turn of the loop."""

    async def scenario() -> None:
        result: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def work() -> bytes:
            return await result

        task = asyncio.ensure_future(within(10, work()))
        await asyncio.sleep(0.1)
        result.set_result(b"line")
        for dummy in range(turns):
            await asyncio.sleep(0)
        if task.cancel():
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            assert await task == b"line"

    run(scenario())


def test_work_has_ended_when_its_caller_is_cancelled_or_its_time_is_over() -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            ended.append(name)

    async def scenario() -> None:
        task = asyncio.ensure_future(within(10, work("cancelled")))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["cancelled"]
        with pytest.raises(TransportError) as late:
            await within(0.5, work("late"))
        assert str(late.value) == "no answer within 0.5 s" and ended == ["cancelled", "late"]

    run(scenario())


@contextlib.asynccontextmanager
async def member(authority: Authority, name: str) -> t.AsyncIterator[MemberAddress]:
    """Yield the address of a server that answers `{}`, and asks for certificates of the CA at each connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cafile=authority.file)
    context.load_cert_chain(*authority.issue(name, ["127.0.0.1"]))
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield MemberAddress(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()


def test_a_renewed_certificate_counts_for_the_next_connection(tmp_path: pathlib.Path) -> None:
    """New files count without a restart. Files that do not fit each other leave those before them in force."""
    authority = Authority(tmp_path)

    async def scenario() -> None:
        async with member(authority, "server") as address:
            client = HttpTransport(address, TlsFiles(str(authority.file), *authority.issue("client")))

            async def asked() -> tuple[int, bytes]:
                return await client.call("/", b"", {}, 5)

            assert await asked() == (200, b"{}")
            authority.issue("client", valid=-DAY)
            with pytest.raises(TransportError):
                await asked()
            certificate, key = authority.issue("client")
            assert await asked() == (200, b"{}")
            authority.issue("another")
            os.replace(tmp_path / "another.key", key)
            assert await asked() == (200, b"{}")
            os.replace(tmp_path / "another.pem", certificate)
            assert await asked() == (200, b"{}")
            os.unlink(key)
            assert await asked() == (200, b"{}")

    asyncio.run(scenario())


def test_a_call_without_a_body_is_a_get() -> None:
    async def scenario() -> None:
        seen: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError):
                while head := await reader.readuntil(b"\r\n\r\n"):
                    seen.append(head.partition(b"\r\n")[0])
                    await reader.readexactly(2 if head.startswith(b"POST") else 0)
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = HttpTransport(MemberAddress(*server.sockets[0].getsockname()[:2]), None)
        for path, body in (("/version", b""), ("/v3/kv/range", b"{}")):
            assert await client.call(path, body, {}, 5) == (200, b"{}")
        assert seen == [b"GET /version HTTP/1.1", b"POST /v3/kv/range HTTP/1.1"]
        await client.close()
        server.close()

    asyncio.run(scenario())


def test_a_connection_that_the_member_has_closed_is_noticed() -> None:
    """It is reported once, and no call is made on it."""

    async def scenario() -> None:
        writers: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            with contextlib.suppress(asyncio.IncompleteReadError):
                while await reader.readuntil(b"\r\n\r\n"):
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = HttpTransport(MemberAddress(*server.sockets[0].getsockname()[:2]), None)
        for dummy in range(2):
            assert await client.call("/", b"", {}, 5) == (200, b"{}")
        assert not client.broke() and len(writers) == 1
        writers[0].close()
        await asyncio.sleep(0.05)
        assert client.broke() and not client.broke()
        assert await client.call("/", b"", {}, 5) == (200, b"{}")
        assert not client.broke() and len(writers) == 2
        await client.close()
        server.close()

    asyncio.run(scenario())


def test_a_member_whose_certificate_is_not_its_own_is_refused(tmp_path: pathlib.Path) -> None:
    """The text says why: another CA, another address, or a certificate that has expired."""
    authority = Authority(tmp_path)
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")

    async def refusal(ca: Authority, **issued: t.Any) -> str:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("server", **issued))
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        address = MemberAddress(*server.sockets[0].getsockname()[:2])
        with pytest.raises(TransportError) as refused:
            await HttpTransport(address, TlsFiles(str(ca.file))).call("/", b"", {}, 5)
        server.close()
        return str(refused.value)

    async def scenario() -> None:
        here = ["127.0.0.1"]
        assert await refusal(other, addresses=here) == (
            "its certificate is refused: unable to get local issuer certificate"
        )
        assert await refusal(authority, addresses=here, valid=-DAY) == (
            "its certificate is refused: certificate has expired"
        )
        assert await refusal(authority, addresses=["192.0.2.1"]) == (
            "its certificate is refused: IP address mismatch, certificate is not valid for '127.0.0.1'."
        )

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "it refuses this client's certificate or TLS: certificate expired"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "it refuses this client's certificate or TLS: certificate required"),
        ("WRONG_VERSION_NUMBER", "TLS failed: WRONG_VERSION_NUMBER"),
        (None, "TLS failed: the connection broke"),
    ],
)
def test_a_tls_failure_is_reported_with_its_reason(reason: str | None, words: str) -> None:
    async def work() -> None:
        error = ssl.SSLError(1, "it failed")
        error.reason = reason  # type: ignore[assignment]
        raise error

    with pytest.raises(TransportError) as refused:
        asyncio.run(within(5, work()))
    assert str(refused.value) == words


def test_a_key_with_a_passphrase_is_refused_and_not_asked_for(tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("client")
    opened = serialization.load_pem_private_key(pathlib.Path(key).read_bytes(), None)
    pathlib.Path(key).write_bytes(
        opened.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(ssl.SSLError):
        TlsFiles(str(authority.file), certificate, key)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('192.0.2.1', 2379)"), "Connection refused"),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), "Connection reset by peer"),
        (ConnectionResetError(), "the connection broke"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (EOFError(), "the answer is not HTTP: EOFError"),
    ],
)
def test_a_network_failure_is_reported_with_its_reason(error: Exception, words: str) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(TransportError) as refused:
        asyncio.run(within(5, work()))
    assert str(refused.value) == words


def test_the_last_line_of_a_watch_may_lack_its_end() -> None:
    """The members of 3.4 end a watch with an error without a newline; it is read before the end is reported."""

    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"result":{}}\n{"error":{}}')
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = HttpTransport(MemberAddress(*server.sockets[0].getsockname()[:2]), None)
        async with client.watch("/v3/watch", b"", {}, 5) as lines:
            assert [await lines.next(5), await lines.next(5)] == [b'{"result":{}}', b'{"error":{}}']
            with pytest.raises(TransportError) as over:
                await lines.next(5)
            assert str(over.value) == "the member ended the watch"
        server.close()

    asyncio.run(scenario())
