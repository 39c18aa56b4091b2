# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process at the other end of a connection, as the kernel names it (unix(7), SO_PEERCRED): there is no password."""

from __future__ import annotations

import array
import ctypes
import errno
import functools
import os
import socket
import struct
import typing as t

# asm-generic/socket.h since Linux 4.13; Python has no name for it
_SO_PEERGROUPS = 59
_CREDENTIALS = struct.Struct("iII")
_SHORT = 1024  # bytes, 256 groups: Python's socket.getsockopt() takes no larger buffer


class Peer(t.NamedTuple):
    """`groups` are the peer's group and supplementary groups when it connected."""

    pid: int
    uid: int
    gid: int
    groups: frozenset[int] = frozenset()

    @classmethod
    def from_socket(cls, connection: socket.socket) -> Peer:
        """Read them from the kernel. Raises OSError."""
        pid, uid, gid = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        return cls(pid, uid, gid, frozenset((gid, *_groups(connection))))


def _groups(connection: socket.socket) -> t.Sequence[int]:
    """Return the supplementary groups; () where the kernel does not tell them, so that only the main group counts."""
    try:
        packed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _SHORT)
    except OSError as error:
        if error.errno != errno.ERANGE:
            return ()
        packed = _long_list(connection)
    return array.array("I", packed)


def _long_list(connection: socket.socket) -> bytes:
    """Ask libc for a list that Python has no buffer for: the kernel says first how long it is.

    /proc/PID/status would say it as well, but the process may have ended by then and another have its number.
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
