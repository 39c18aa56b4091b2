# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The SSH session that this process runs in, and the other sessions of the same server.

sshd(8) sets SSH_CONNECTION in its sessions. sudo removes it, so it is looked for in all ancestors of this process. A
process that was started otherwise (locally, in a container) has no session.
"""

from __future__ import annotations

import ipaddress
import os
import struct
import typing as t

_ESTABLISHED = "01"  # TCP_ESTABLISHED of include/net/tcp_states.h, as /proc/net/tcp shows it
_PROC = "/proc"


class SshSession(t.NamedTuple):
    """A connection by SSH: canonical addresses and ports of both ends. `server` is the address of this host."""

    client: str
    client_port: int
    server: str
    server_port: int

    @property
    def text(self) -> str:
        """The session in the form of SSH_CONNECTION: `10.10.1.1 51444 10.10.1.11 22`."""
        return f"{self.client} {self.client_port} {self.server} {self.server_port}"


def here() -> t.Tuple[SshSession, ...]:
    """Return the SSH session of this process first, then the others to the same port; () if this process has none."""
    own = of_process()
    if own is None:
        return ()
    return (own, *(session for session in established(own.server_port) if session != own))


def of_process(process: t.Optional[int] = None, proc: str = _PROC) -> t.Optional[SshSession]:
    """Return the SSH session of `process`, by default this one; None if it has none or it cannot be read.

    SSH_CONNECTION is that of its nearest ancestor, or its own. `proc` is the folder of proc(5), for tests.
    """
    number = os.getpid() if process is None else process
    while number > 0:
        try:
            with open(f"{proc}/{number}/environ", "rb") as stream:
                variables = stream.read().split(b"\0")
            with open(f"{proc}/{number}/stat", "rb") as stream:
                parent = int(stream.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
        for variable in variables:
            name, dummy, value = variable.partition(b"=")
            if name == b"SSH_CONNECTION":
                return parse(value.decode(errors="replace"))
        number = parent
    return None


def parse(text: str) -> t.Optional[SshSession]:
    """Return the session, with canonical addresses, that the text of SSH_CONNECTION describes; None for other texts."""
    try:
        client, client_port, server, server_port = text.split()
        return SshSession(_canonical(client), int(client_port), _canonical(server), int(server_port))
    except ValueError:
        return None


def established(port: int, proc: str = _PROC) -> list[SshSession]:
    """Return the established TCP connections to the local `port` in this network namespace, sorted.

    A table of the kernel that cannot be read or parsed counts as empty. `proc` is the folder of proc(5), for tests.
    """
    found: set[SshSession] = set()
    for name in ("tcp", "tcp6"):
        try:
            with open(f"{proc}/net/{name}", encoding="ascii") as stream:
                lines = [line.split() for line in stream.readlines()[1:]]
            ends = [(_end(words[1]), _end(words[2])) for words in lines if words[3:4] == [_ESTABLISHED]]
        except (OSError, ValueError, struct.error):
            continue
        found.update(SshSession(*client, *server) for server, client in ends if server[1] == port)
    return sorted(found)


def _end(text: str) -> tuple[str, int]:
    """Return address and port of `0B010A0A:0016`, in which the address is in words of the host's byte order."""
    address, dummy, port = text.partition(":")
    raw = bytes.fromhex(address)
    words = struct.unpack(f">{len(raw) // 4}I", raw)
    return _canonical(ipaddress.ip_address(struct.pack(f"={len(words)}I", *words)).compressed), int(port, 16)


def _canonical(text: str) -> str:
    """Return an address in canonical form, without a zone; an IPv4-mapped IPv6 address as IPv4 (RFC 4291, 2.5.5.2).

    The kernel shows IPv4 peers so at a socket for both versions.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
