# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of calico-etcd-gate.service, which runs the gate before the member of its host.

It runs on members, which need not be nodes: of this collection there is nothing but the modules that it imports.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import ssl
import sys
import typing as t
from asyncio import sslproto
from urllib.parse import urlsplit

from ..transport import MemberAddress, TlsFiles
from .quotas import WORKLOADS
from .server import Gate

#: Bytes of the buffer that asyncio has for each connection with TLS to the member; it takes 256 KiB by itself.
_TLS_BUFFER = 16 << 10


def main(arguments: t.Sequence[str]) -> int:
    """Run the gate until SIGTERM or SIGINT, and return its exit status."""
    parser = argparse.ArgumentParser(prog="calico-etcd-gate", description="Pass on what agents ask of etcd.")
    parser.add_argument("--listen", type=_address, required=True, help="URL at which agents reach the gate")
    parser.add_argument("--member", type=_address, required=True, help="URL of the member")
    parser.add_argument("--ca", required=True, help="file with the CAs of members and clients")
    parser.add_argument("--certificate", required=True, help="file with the gate's certificate and its key")
    parser.add_argument("--client", required=True, help="file with the certificate, and its key, for the member")
    parser.add_argument("--fleet", default="", help="file with the fleet's addresses, which have places of their own")
    parser.add_argument("--revoked", default="", help="file with SHA-256 fingerprints of revoked certificates")
    parser.add_argument("--workloads", type=int, default=WORKLOADS, help="workloads of a node to make room for")
    options = parser.parse_args(arguments)
    try:
        asyncio.run(_run(options))
    except OSError as error:  # ssl.SSLError is one
        sys.stderr.write(f"The gate cannot serve at {options.listen}: {error.strerror or error}.\n")
        return 1
    return 0


def _address(url: str) -> MemberAddress:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or not parts.port or parts.path not in ("", "/"):
        raise argparse.ArgumentTypeError(f"{url!r} is not a URL of the form https://HOST:PORT")
    return MemberAddress(parts.hostname, parts.port)


def server_context(ca: str, certificate: str) -> ssl.SSLContext:
    """Return the TLS for agents, which need a certificate of `ca`. Raise OSError for files that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # 1.3 has neither renegotiation nor sessions that the server keeps. All agents have it.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cafile=ca)
    context.load_cert_chain(certificate, password="")
    return context


async def _run(options: argparse.Namespace) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    sslproto.SSLProtocol.max_size = _TLS_BUFFER
    upstream = TlsFiles(options.ca, options.client)
    gate = Gate(options.member, upstream, options.fleet, options.revoked, options.workloads, _trimmer())
    own = server_context(options.ca, options.certificate)
    listener = await gate.listen(options.listen.host, options.listen.port, own)
    _notify("READY=1")
    await ended.wait()
    listener.close()


def _trimmer() -> t.Callable[[], None]:
    """Return a function by which glibc gives back free memory: it keeps that of the most connections otherwise."""
    try:
        import ctypes

        trim = ctypes.CDLL(None).malloc_trim
    except (ImportError, OSError, AttributeError, MemoryError):  # another C library, or a sandbox that forbids it
        return lambda: None

    def call() -> None:
        trim(0)

    return call


def _notify(state: str) -> None:
    """Tell systemd a state. Without systemd nothing happens."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.sendto(state.encode(), f"\0{path[1:]}" if path.startswith("@") else path)
