# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of a gate in a process of its own, before a member that only answers, and clients from many addresses.

All of 127.0.0.0/8 is this machine's, so that each client can have an address of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import socket
import ssl
import subprocess
import sys
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import gate_sources
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from tests.etcd_certificates import Authority

MIB = 1 << 20
#: The address of the fleet at which the gate listens, and whose clients are honest.
GATE_HOST = "127.0.0.1"
TOKEN_OF = "token-of-{}"
#: A key whose value has 6 MiB, in base64.
LARGE = "AQ=="


class StandIn:
    """A member that gives a token to each user but those in `revoked`, and answers all else with a revision.

    A watch has one message.

    `seconds` is what an authentication takes. `at_once` are the most authentications that were asked at the same time.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.revoked: set[str] = set()
        self.seconds = seconds
        self.running = self.at_once = 0
        self.users: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                body = await reader.readexactly(int(head.split("Content-Length: ")[1].split("\r\n")[0]))
                await self._answer(head.split(" ")[1], body, writer)
        writer.transport.abort()

    async def _answer(self, path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        status, answer = 200, {"header": {"cluster_id": "1", "revision": "1"}}
        if path == "/v3/auth/authenticate":
            self.running += 1
            self.at_once = max(self.at_once, self.running)
            await asyncio.sleep(self.seconds)
            self.running -= 1
            user = json.loads(body)["name"]
            self.users.append(user)
            if user in self.revoked:
                status, answer = 400, {"code": 3, "message": "authentication failed, invalid user ID or password"}
            else:
                answer = {**answer, "token": TOKEN_OF.format(user)}
        if path == "/v3/kv/range" and json.loads(body)["key"] == LARGE:
            answer = {**answer, "kvs": [{"key": "AA==", "value": "A" * (8 * MIB)}]}
        if path == "/v3/watch":
            line = b'{"result":{"header":{"revision":"1"},"created":true}}\n'
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(line), line))
            return
        data = json.dumps(answer).encode()
        writer.write(b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%b" % (status, len(data), data))


class AttackedGate:
    """A gate that runs, its port, and the files of its clients."""

    def __init__(self, folder: pathlib.Path, member: StandIn, fleet: t.Iterable[str]) -> None:
        self.folder, self.member = folder, member
        self.authority = Authority(folder)
        self.fleet_file, self.revoked_file = folder / "fleet.txt", folder / "revoked.txt"
        self.fleet_file.write_text("".join(f"{one}\n" for one in fleet))
        for name in ("server", "client"):
            parts = self.authority.issue(name, ["127.0.0.1"])
            (folder / f"{name}.all").write_bytes(b"".join(pathlib.Path(part).read_bytes() for part in parts))
        with socket.create_server((GATE_HOST, 0)) as free:
            self.port = free.getsockname()[1]
        self.process: t.Optional[subprocess.Popen[bytes]] = None
        self._member_port = 0
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def start(self, member_port: int) -> None:
        """Start the program, and wait until it accepts connections."""
        self._member_port = member_port
        (self.folder / "program").write_bytes(gate_sources.archive())
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-B", self.folder / "program"),
                *("--listen", f"https://{GATE_HOST}:{self.port}", "--member", f"https://127.0.0.1:{member_port}"),
                *("--ca", self.authority.file, "--certificate", self.folder / "server.all"),
                *("--client", self.folder / "client.all"),
                *("--fleet", self.fleet_file, "--revoked", self.revoked_file),
            ],
            stderr=(self.folder / "errors").open("wb"),
        )
        await until(lambda: _accepts(self.port), "the gate accepts connections")

    async def restart(self) -> None:
        """End the program at once, and start it again."""
        self.kill()
        await self.start(self._member_port)

    def kill(self) -> None:
        """End the program at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)

    @property
    def memory(self) -> int:
        """The bytes of memory that the gate has resident."""
        assert self.process is not None and self.process.poll() is None
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) << 10

    def connections(self) -> int:
        """Return the number of established connections to the gate's port."""
        # The port alone is not enough: a client of another address may have it as its own.
        here = f"{socket.inet_aton(GATE_HOST)[::-1].hex().upper()}:{self.port:04X}"
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(row[1] == here and row[3] == "01" for row in rows)

    def issue(self, name: str) -> str:
        """Make a client's certificate, and return its SHA-256 fingerprint."""
        certificate, _key = self.authority.issue(name)
        found = x509.load_pem_x509_certificate(pathlib.Path(certificate).read_bytes())
        return found.fingerprint(hashes.SHA256()).hex()

    def tls(self, name: str = "client") -> ssl.SSLContext:
        """Return the TLS of a client with a certificate that was issued."""
        context = ssl.create_default_context(cafile=str(self.authority.file))
        context.load_cert_chain(*(str(self.folder / f"{name}.{ending}") for ending in ("pem", "key")))
        return context

    def _tls(self, name: str) -> ssl.SSLContext:
        if name not in self._contexts:
            self._contexts[name] = self.tls(name)
        return self._contexts[name]

    async def raw(self, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection without TLS from an address."""
        return await asyncio.open_connection(GATE_HOST, self.port, local_addr=(source, 0))

    async def client(self, source: str = GATE_HOST, name: str = "client") -> Client:
        """Return a connection with TLS from an address."""
        return Client(*await asyncio.open_connection(GATE_HOST, self.port, local_addr=(source, 0), ssl=self._tls(name)))

    async def agent(self, source: str, user: str) -> Client:
        """Return a connection whose user has a token."""
        client = await self.client(source)
        status, _answer = await client.authenticate(user)
        assert status == 200
        return client


class Client:
    """A connection to the gate, with the token that it was given."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.token = reader, writer, ""

    async def call(self, path: str, body: bytes, length: int = -1) -> tuple[int, dict[str, t.Any]]:
        """Return the status and the answer to a request. `length` is what its head says, -1 for that of the body."""
        self.send(path, body, length)
        return await self.answer()

    def send(self, path: str, body: bytes, length: int = -1) -> None:
        """Send a request."""
        token = f"Authorization: {self.token}\r\n" if self.token else ""
        head = f"POST {path} HTTP/1.1\r\n{token}Content-Length: {len(body) if length < 0 else length}\r\n\r\n"
        self.writer.write(head.encode() + body)

    async def answer(self) -> tuple[int, dict[str, t.Any]]:
        """Return the status and the content of the next answer, which comes within 60 s."""
        return await asyncio.wait_for(self._answer(), 60)

    async def _answer(self) -> tuple[int, dict[str, t.Any]]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        status, body = int(head.split(" ")[1]), b""
        if "content-length: " in head:
            body = await self.reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        else:
            while size := int(await self.reader.readline(), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
        return status, json.loads(body)

    async def authenticate(self, user: str, password: str = "secret") -> tuple[int, dict[str, t.Any]]:
        """Ask for a token; return the status and the answer."""
        body = json.dumps({"name": user, "password": password}).encode()
        status, answer = await self.call("/v3/auth/authenticate", body)
        self.token = answer.get("token", "")
        return status, answer

    async def works(self) -> None:
        """Make a call that is answered; raise AssertionError otherwise."""
        status, answer = await self.call("/v3/kv/range", b'{"key":"AA=="}')
        assert status == 200, answer

    async def ended(self) -> bool:
        """Wait until the gate has closed the connection, for at most 60 s, and return whether it has."""
        with contextlib.suppress(OSError):
            return await asyncio.wait_for(self.reader.read(), 60) is not None
        return True

    def close(self) -> None:
        self.writer.transport.abort()


async def until(holds: t.Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait until something holds; raise AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.05)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((GATE_HOST, port), 5).close()
    except OSError:
        return False
    return True


@contextlib.asynccontextmanager
async def attacked(
    folder: pathlib.Path, member: t.Optional[StandIn] = None, fleet: t.Iterable[str] = (GATE_HOST,)
) -> t.AsyncIterator[AttackedGate]:
    """Yield a gate that runs; `fleet` are the addresses of its file."""
    gate = AttackedGate(folder, member or StandIn(), fleet)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.all")
    server = await asyncio.start_server(gate.member.serve, "127.0.0.1", 0, ssl=context)
    try:
        await gate.start(server.sockets[0].getsockname()[1])
        yield gate
    finally:
        gate.kill()
        server.close()
