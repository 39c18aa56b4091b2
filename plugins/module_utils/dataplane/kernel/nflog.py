# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets that iptables rules with the target NFLOG report, read from nfnetlink_log.

The kernel collects records and sends up to `_TOGETHER` of them in one datagram, or fewer after `_PATIENCE`. Records
that the receiver has no room for are lost (ENOBUFS); records are numbered, so the number of lost ones is known.
Layouts: linux/netfilter/nfnetlink_log.h. The target LOG, for comparison, prints nothing from a network namespace.
"""

from __future__ import annotations

import errno
import socket
import struct
import typing as t

from . import port
from . import rtnetlink as rt

_NETLINK_NETFILTER = 12
# NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET, NFULNL_MSG_CONFIG
_PACKET, _CONFIG = 0x0400, 0x0401
_NFGENMSG = struct.Struct("!BBH")  # family, version, group
_CFG_CMD, _CFG_MODE, _CFG_NLBUFSIZ, _CFG_TIMEOUT, _CFG_QTHRESH, _CFG_FLAGS = 1, 2, 3, 4, 5, 6
_BIND, _COPY_PACKET, _NUMBERED = 1, 2, 0x0001  # NFULNL_CFG_CMD_BIND, NFULNL_COPY_PACKET, NFULNL_CFG_F_SEQ
_INDEV, _OUTDEV, _PAYLOAD, _PREFIX, _SEQ = 4, 5, 9, 10, 12

_RECEIVE_BUFFER = 4 << 20  # bytes: some 10,000 records
_TOGETHER = 100  # records in one datagram, at most
_PATIENCE = 10  # hundredths of a second after which the kernel sends a datagram with fewer records
_DATAGRAM = 32 << 10  # bytes that the kernel reserves for one datagram

#: Bytes of each packet that are copied: enough for addresses and ports, also behind all options of IPv4.
COPIED = 96
#: Bytes to read at once.
READ = 64 << 10

_HEADER = struct.Struct("=IH")
_ATTRIBUTE = struct.Struct("=HH")
_U32 = struct.Struct("!I")
_BODY = 20  # offset in bytes of a message's attributes, behind the headers of netlink and nfgenmsg


class Record(t.NamedTuple):
    """One reported packet.

    `packet` begins with the IP header. `sequence` numbers the records of the group. `prefix` is the rule's, without the
    zero byte at its end. `indev` and `outdev` are interface indexes, 0 for none.
    """

    sequence: int
    prefix: bytes
    indev: int
    outdev: int
    packet: bytes


def open_socket() -> socket.socket:
    """Return a non-blocking netlink socket in this thread's network namespace. Raise OSError if it cannot be opened."""
    return rt.bound_socket(_NETLINK_NETFILTER, _RECEIVE_BUFFER, socket.SOCK_NONBLOCK)


def subscribe(netlink: socket.socket, group: int) -> None:
    """Start delivery of an NFLOG group's records to this socket, for both IP versions.

    Records that arrive before the kernel's answer are dropped. Raise KernelError if the kernel refuses, as it does if
    another socket has the group.
    """
    operation = f"listen to NFLOG group {group}"
    settings = (
        rt.attribute(_CFG_CMD, bytes([_BIND])),
        rt.attribute(_CFG_MODE, struct.pack("!IBx", COPIED, _COPY_PACKET)),
        rt.attribute(_CFG_NLBUFSIZ, _U32.pack(_DATAGRAM)),
        rt.attribute(_CFG_TIMEOUT, _U32.pack(_PATIENCE)),
        rt.attribute(_CFG_QTHRESH, _U32.pack(_TOGETHER)),
        rt.attribute(_CFG_FLAGS, struct.pack("!H", _NUMBERED)),
    )
    body = _NFGENMSG.pack(socket.AF_UNSPEC, 0, group) + b"".join(settings)
    header = struct.pack("=IHHII", 16 + len(body), _CONFIG, rt.NLM_F_REQUEST | rt.NLM_F_ACK, 1, 0)
    try:
        netlink.send(header + body)
        # The kernel answers within the call of send. Records may precede the answer.
        answer = netlink.recv(READ)
        while _HEADER.unpack_from(answer)[1] == _PACKET:
            answer = netlink.recv(READ)
    except OSError as error:
        raise port.KernelError(error.errno or errno.EIO, operation) from error
    number = -struct.unpack_from("=i", answer, 16)[0]
    if number:
        raise port.KernelError(number, operation)


def records(datagram: bytes) -> t.Iterator[Record]:
    """Yield the records of one datagram; other messages in it are skipped, and nothing is raised.

    A message length below 16 ends the reading. Fields that a message, perhaps cut off, lacks are 0 or empty.
    """
    unpack, header = _ATTRIBUTE.unpack_from, _HEADER.unpack_from
    offset, size = 0, len(datagram)
    while offset + 16 <= size:
        length, kind = header(datagram, offset)
        if length < 16:
            return
        end = min(offset + length, size)
        if kind == _PACKET:
            sequence = indev = outdev = 0
            prefix = packet = b""
            at = offset + _BODY
            while at + 4 <= end:
                width, what = unpack(datagram, at)
                if width < 4:
                    break
                if what == _PREFIX:
                    prefix = datagram[at + 4 : at + width - 1]
                elif what == _INDEV:
                    indev = int.from_bytes(datagram[at + 4 : at + 8], "big")
                elif what == _OUTDEV:
                    outdev = int.from_bytes(datagram[at + 4 : at + 8], "big")
                elif what == _SEQ:
                    sequence = int.from_bytes(datagram[at + 4 : at + 8], "big")
                elif what == _PAYLOAD:
                    packet = datagram[at + 4 : at + width]
                at += (width + 3) & ~3
            yield Record(sequence, prefix, indev, outdev, packet)
        offset += (length + 3) & ~3
