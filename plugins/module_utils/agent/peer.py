# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is at the other end of a connection, as the kernel says it (unix(7), SO_PEERCRED): nothing to log in with."""

from __future__ import annotations

import array
import socket
import struct
import typing as t

# asm-generic/socket.h since Linux 4.13; Python has no name for it
_SO_PEERGROUPS = 59
_CREDENTIALS = struct.Struct("iII")
_GROUPS = 1024  # more than anybody has; a longer list is not asked for


class Peer(t.NamedTuple):
    """`groups` are the peer's group and supplementary groups when it connected."""

    pid: int
    uid: int
    gid: int
    groups: frozenset[int] = frozenset()

    @classmethod
    def of(cls, connection: socket.socket) -> Peer:
        pid, uid, gid = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        try:
            packed = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _GROUPS)
        except OSError:  # an old kernel, or more groups than that: the main one counts
            packed = b""
        return cls(pid, uid, gid, frozenset((gid, *array.array("I", packed))))
