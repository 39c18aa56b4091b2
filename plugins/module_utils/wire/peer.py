# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process at the other end of a connection, identified by the kernel (unix(7), SO_PEERCRED), not by a password."""

from __future__ import annotations

import array
import ctypes
import errno
import functools
import os
import socket
import struct
import typing as t

# The number is that of asm-generic/socket.h since Linux 4.13. Python has no name for it.
_SO_PEERGROUPS = 59
_CREDENTIALS = struct.Struct("iII")
_SHORT = 1024  # bytes, 256 groups: Python's socket.getsockopt() takes no larger buffer


class Peer(t.NamedTuple):
    """The process at the other end of a connection. `groups` are its main and supplementary gids when it connected."""

    pid: int
    uid: int
    gid: int
    groups: frozenset[int] = frozenset()

    @classmethod
    def from_socket(cls, connection: socket.socket) -> Peer:
        """Return the peer of a connected Unix socket; before Linux 4.13, with its main gid alone. Raise OSError."""
        pid, uid, gid = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        return cls(pid, uid, gid, frozenset((gid, *_groups(connection))))


def _groups(connection: socket.socket) -> t.Sequence[int]:
    """Return the supplementary gids of the peer, or () if the kernel cannot report them."""
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _SHORT)
    except OSError as error:
        if error.errno != errno.ERANGE:
            return ()
        packed = _long_list(connection)
    return array.array("I", packed)


def _long_list(connection: socket.socket) -> bytes:
    """Return the supplementary gids of the peer as packed 32-bit numbers, read by libc: Python's buffer is too short.

    /proc/PID/status is not read, because the process may have ended and another one have its number.
    """
    size = ctypes.c_uint32(0)
    _getsockopt(connection, None, size)
    buffer = ctypes.create_string_buffer(size.value)
    if _getsockopt(connection, buffer, size) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return buffer.raw[: size.value]


def _getsockopt(connection: socket.socket, buffer: t.Any, size: ctypes.c_uint32) -> int:
    return int(_libc().getsockopt(connection.fileno(), socket.SOL_SOCKET, _SO_PEERGROUPS, buffer, ctypes.byref(size)))


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
