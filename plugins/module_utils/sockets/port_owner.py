# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that has a port of this host: found in /proc, for the message that the port is taken."""

from __future__ import annotations

import contextlib
import os
import typing as t

#: A socket of IPv6 may take packets of IPv4 as well.
_FILES = {
    ("tcp", 4): ("tcp", "tcp6"),
    ("tcp", 6): ("tcp6",),
    ("udp", 4): ("udp", "udp6"),
    ("udp", 6): ("udp6",),
}
_LISTENS = {"tcp": "0A", "udp": "07"}  # the states LISTEN and CLOSE, which an unconnected UDP socket has
_NAME_LIMIT = 64  # characters of a process's name that are read; the kernel has 15
_COMMAND_LIMIT = 8192  # bytes of its command line


class PortOwner(t.NamedTuple):
    """A process that has a port. `command` are the words of its command line; the process may have changed them."""

    pid: int
    name: str
    command: tuple[str, ...]


def find(protocol: str, port: int, family: int, proc: str = "/proc") -> t.Optional[PortOwner]:
    """Return a process that has a port of this network namespace, at whatever address; None if none is found.

    `protocol` is tcp or udp, `family` the IP version.
    """
    inodes = {
        inode for name in _FILES.get((protocol, family), ()) for inode in _inodes(f"{proc}/net/{name}", protocol, port)
    }
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for entry in _entries(proc):
        if entry.isdigit() and not wanted.isdisjoint(_files(f"{proc}/{entry}/fd")):
            return PortOwner(int(entry), _text(f"{proc}/{entry}/comm").strip(), _words(f"{proc}/{entry}/cmdline"))
    return None


def _inodes(path: str, protocol: str, port: int) -> t.Iterator[str]:
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            # sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
            fields = line.split()
            if len(fields) < 10 or fields[3] != _LISTENS[protocol]:
                continue
            number = fields[1].rpartition(":")[2]
            if number.upper() == f"{port:04X}":
                yield fields[9]


def _entries(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _files(folder: str) -> t.Iterator[str]:
    for name in _entries(folder):
        with contextlib.suppress(OSError):
            yield os.readlink(f"{folder}/{name}")


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_NAME_LIMIT)
    return ""


def _words(path: str) -> tuple[str, ...]:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return tuple(word.decode("utf-8", "replace") for word in file.read(_COMMAND_LIMIT).split(b"\0"))
    return ()
