# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of the prefixes with which the kernel logs packets to an NFLOG group (linux/netfilter/nfnetlink_log.h)."""

from __future__ import annotations

import socket
import struct

_NETLINK_NETFILTER = 12
_PACKET, _CONFIG = 0x0400, 0x0401
_CFG_CMD, _CFG_MODE, _CFG_QTHRESH = 1, 2, 5
_BIND, _COPY_META = 1, 1
_PREFIX = 10
_HEADERS = 20  # bytes of the netlink header and nfgenmsg


def open_socket(group: int) -> socket.socket:
    """Return a non-blocking netlink socket that gets a message about each packet logged to NFLOG group `group`.

    The messages, which `prefixes` reads, lack the packets' content. Only packets of the caller's network namespace are
    reported. Raise AssertionError if the kernel refuses, as when another socket has the group.
    """
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
    made.bind((0, 0))
    for attribute in (
        struct.pack("=HHBxxx", 5, _CFG_CMD, _BIND),
        struct.pack("=HH", 10, _CFG_MODE) + struct.pack("!IBBxx", 0, _COPY_META, 0),
        struct.pack("=HH", 8, _CFG_QTHRESH) + struct.pack("!I", 1),  # else the kernel collects packets for a second
    ):
        body = struct.pack("!BBH", socket.AF_UNSPEC, 0, group) + attribute
        made.send(struct.pack("=IHHII", 16 + len(body), _CONFIG, 5, 1, 0) + body)
        error = struct.unpack_from("=i", made.recv(4096), 16)[0]
        assert error == 0, error
    made.setblocking(False)
    return made


def prefixes(opened: socket.socket) -> list[str]:
    """Return the prefixes of the packets that have arrived since the last call, in their order; do not wait.

    Packets without a prefix are left out. Raise OSError if packets were lost in a full buffer.
    """
    found: list[str] = []
    while True:
        try:
            data = opened.recv(1 << 16)
        except BlockingIOError:
            return found
        while len(data) >= _HEADERS:
            length, kind = struct.unpack_from("=IH", data)
            found += _prefix(data[_HEADERS:length]) if kind == _PACKET else []
            data = data[(length + 3) & ~3 :]


def _prefix(attributes: bytes) -> list[str]:
    while len(attributes) >= 4:
        length, kind = struct.unpack_from("=HH", attributes)
        if kind & 0x3FFF == _PREFIX:
            return [attributes[4:length].rstrip(b"\0").decode()]
        attributes = attributes[(length + 3) & ~3 :]
    return []
