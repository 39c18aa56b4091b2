# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate's side of an agent's connection: TLS, and bounded parts of what the agent sends.

asyncio's own TLS keeps 256 KiB for each connection. Here TLS is a pair of buffers in memory, so that a connection costs
what it has to say, and nothing before its first byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ssl
import typing as t

#: Bytes that are read or encrypted at once: those of a record of TLS.
PART = 16 << 10
_T = t.TypeVar("_T")


class AgentStream:
    """A connection of an agent. Each method raises EOFError or OSError, also as ssl.SSLError, at its end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.is_known = False  # whether its user has had a token
        self._reader = reader
        self._writer = writer
        self._tls: t.Optional[ssl.SSLObject] = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._read = bytearray()
        writer.transport.set_write_buffer_limits(high=PART)

    @contextlib.contextmanager
    def limit(self, seconds: float) -> t.Iterator[None]:
        """End the connection if the body of the statement takes longer than `seconds`."""
        timer = asyncio.get_running_loop().call_later(seconds, self.abort)
        try:
            yield
        finally:
            timer.cancel()

    async def secure(self, context: ssl.SSLContext) -> None:
        """Do the handshake as the server. The agent learns from an alert why its certificate is refused."""
        self._incoming.write(await self._received())
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        try:
            await self._step(self._tls.do_handshake)
        except ssl.SSLError:
            await self._flush()
            await self._received()  # A connection that ends with bytes that were not read loses the alert.
            raise

    @property
    def fingerprint(self) -> str:
        """The SHA-256 fingerprint of the agent's certificate as 64 hex digits, "" without one."""
        certificate = self._tls.getpeercert(binary_form=True) if self._tls is not None else None
        return hashlib.sha256(certificate).hexdigest() if certificate else ""

    async def until(self, ending: bytes, most: int) -> bytes:
        """Return the bytes up to `ending`, with it. Raise ValueError if there are more than `most`."""
        while True:
            end = self._read.find(ending)
            if end >= 0 and end + len(ending) <= most:
                return self._taken(end + len(ending))
            if len(self._read) >= most:
                raise ValueError("a part of the request is too long")
            self._read += await self._more()

    async def exactly(self, length: int) -> bytes:
        while len(self._read) < length:
            self._read += await self._more()
        return self._taken(length)

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait until few of them are left to send."""
        for at in range(0, len(data), PART):
            part = data[at : at + PART]
            if self._tls is None:
                self._writer.write(part)
                await self._writer.drain()
            else:
                self._tls.write(part)
                await self._flush()

    async def sends_or_ends(self) -> None:
        """Wait until the agent sends anything, or the connection ends."""
        if not self._read and not self._incoming.pending:
            await self._reader.read(1)

    async def rest(self) -> None:
        """Drop what the agent still sends until it closes: it may read an answer only then."""
        while True:
            await self._received()

    def abort(self) -> None:
        with contextlib.suppress(Exception):
            self._writer.transport.abort()

    def _taken(self, length: int) -> bytes:
        found = bytes(self._read[:length])
        del self._read[:length]
        return found

    async def _more(self) -> bytes:
        """Return the next bytes, decrypted; there is at least one."""
        if self._tls is None:
            return await self._received()
        tls = self._tls
        found = await self._step(lambda: tls.read(PART))
        if not found:
            raise EOFError
        return found

    async def _step(self, step: t.Callable[[], _T]) -> _T:
        """Return the result of a step of TLS, for which bytes are sent and received as it needs them."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self._flush()
                self._incoming.write(await self._received())
            else:
                await self._flush()
                return result

    async def _received(self) -> bytes:
        received = await self._reader.read(PART)
        if not received:
            raise EOFError
        return received

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            self._writer.write(data)
            await self._writer.drain()
