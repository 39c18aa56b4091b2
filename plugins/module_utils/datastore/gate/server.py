# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of the gate: connections of agents, and the way of their requests to the member and back."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import typing as t

from .. import gateway
from ..transport import MemberAddress, MemberConnection, TlsFiles, TransportError, within
from .requests import AUTHENTICATE, TRANSACTION, WATCH, RequestNotPassed, check_writes, passed, writes
from .tokens import Tokens

#: The most bytes of a request: a transaction of workloads of the largest kind.
REQUEST_LIMIT = 1 << 20
#: The most connections of one address at the same time.
CONNECTIONS = 32
_HEADER_LIMIT = 16 << 10
_REQUEST_SECONDS = 10.0  # from the first byte of a request to its last
_IDLE_SECONDS = 120.0
_ANSWER_SECONDS = 15.0
#: gRPC's codes for a right that is missing, a server that cannot be asked, and a token that is not known.
_REFUSED, _UNAVAILABLE, _UNAUTHENTICATED = 7, 14, 16


class Gate:
    """A server for agents before the member at `member`; `tls` is the gate's own way to it.

    `connections` is the most of one address at the same time.
    """

    def __init__(self, member: MemberAddress, tls: t.Optional[TlsFiles], connections: int = CONNECTIONS) -> None:
        self._connections = connections
        self._member = member
        self._tls = tls
        self._open: dict[str, int] = {}
        self._tokens = Tokens()

    async def listen(self, host: str, port: int, tls: t.Optional[ssl.SSLContext]) -> asyncio.AbstractServer:
        """Return a server that serves agents at an address. Raise OSError."""
        handshake = _REQUEST_SECONDS if tls else None
        return await asyncio.start_server(
            self._serve, host, port, ssl=tls, ssl_handshake_timeout=handshake, limit=_HEADER_LIMIT
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str((writer.get_extra_info("peername") or ("",))[0])
        self._open[peer] = self._open.get(peer, 0) + 1
        try:
            if self._open[peer] <= self._connections:
                await self._requests(reader, writer)
        except (TransportError, OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            pass  # The agent, or the member, has gone; the agent asks again.
        finally:
            self._open[peer] -= 1
            if not self._open[peer]:
                del self._open[peer]
            with contextlib.suppress(Exception):
                writer.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: t.Optional[MemberConnection] = None
        try:
            while True:
                head = await within(_IDLE_SECONDS, reader.readuntil(b"\r\n\r\n"))
                path, headers, length = _head(head)
                body = await within(_REQUEST_SECONDS, reader.readexactly(length))
                try:
                    request = passed(path, body)
                    wanted = writes(request) if path == TRANSACTION else []
                    user = self._tokens.user(headers.get("Authorization", ""))
                    if wanted and user is None:
                        why = {"code": _UNAUTHENTICATED, "message": "the gate does not know this token"}
                        await _answer(writer, 401, gateway.to_bytes(why))
                        continue
                    check_writes(wanted, user or "")
                except RequestNotPassed as refusal:
                    await _answer(writer, 403, gateway.to_bytes({"code": _REFUSED, "message": f"the gate: {refusal}"}))
                    continue
                try:
                    if upstream is None or not upstream.usable:
                        upstream = await within(_ANSWER_SECONDS, MemberConnection.to(self._member, self._tls))
                    status, header = await within(_ANSWER_SECONDS, upstream.ask(self._member, path, request, headers))
                except TransportError as error:
                    # The connection ends, by which the agent knows that the member may not know its token any more.
                    silent = {"code": _UNAVAILABLE, "message": f"the gate cannot ask its member: {error}"}
                    await _answer(writer, 503, gateway.to_bytes(silent))
                    return
                if path == WATCH and status == 200:
                    await self._stream(reader, writer, upstream, header)
                    return
                answer = await within(_ANSWER_SECONDS, upstream.body(header))
                if path == AUTHENTICATE and status == 200:
                    self._tokens.note(request, answer)
                await _answer(writer, status, answer)
        finally:
            if upstream is not None:
                upstream.close()

    async def _stream(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: MemberConnection,
        header: t.Mapping[str, str],
    ) -> None:
        """Pass a watch on until either side ends it."""

        async def send() -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            async for part in upstream.parts(header):
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()

        sending = asyncio.ensure_future(send())
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)


def _head(head: bytes) -> tuple[str, dict[str, str], int]:
    """Return the path, the headers to pass on, and the length of the body. Raise ValueError for another request."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, version = first.split(" ")
    if method != "POST" or version != "HTTP/1.1":
        raise ValueError("not a request of an agent")
    headers: dict[str, str] = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon or name.strip().lower() in headers or not value.isprintable():
            raise ValueError("a header is none")
        headers[name.strip().lower()] = value.strip()
    length = headers.get("content-length", "")
    if not length.isascii() or not length.isdigit() or len(length) > 8 or int(length) > REQUEST_LIMIT:
        raise ValueError("the request has no length, or is too long")
    if "transfer-encoding" in headers:
        raise ValueError("the request has no length")
    names = {"authorization": "Authorization", "grpc-metadata-hasleader": "Grpc-Metadata-hasleader"}
    return path, {names[name]: value for name, value in headers.items() if name in names}, int(length)


async def _answer(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Refused'}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode("ascii") + body)
    await writer.drain()
