# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections that the kernel tracks for one address, deleted by ctnetlink: no program `conntrack` is needed.

An address that is given to another workload must not inherit what was open to the one before it. Asked for are the
connections that it opened (source, original direction) and those that others opened to it, also by way of a DNAT
(source, reply direction). The kernel filters (5.8 and newer); an older one sends all and is filtered here.
Layouts: linux/netfilter/nfnetlink_conntrack.h. IPv4.
"""

from __future__ import annotations

import errno
import functools
import socket
import struct
import typing as t

from . import rtnetlink as rt
from .kernel import KernelError

_NETLINK_NETFILTER = 12
_GET, _DELETE = 0x0101, 0x0102  # NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET, IPCTNL_MSG_CT_DELETE
_NFGENMSG = struct.Struct("!BBH")  # family, version, resource
_HEADERS = 20  # netlink's and nfgenmsg
_U32 = struct.Struct("=I")
_CTA_TUPLE_ORIG, _CTA_TUPLE_REPLY, _CTA_ID, _CTA_ZONE, _CTA_FILTER = 1, 2, 12, 18, 25
_CTA_TUPLE_IP, _CTA_IP_V4_SRC = 1, 1
_FILTER_FLAGS = {_CTA_TUPLE_ORIG: 1, _CTA_TUPLE_REPLY: 2}  # CTA_FILTER_ORIG_FLAGS, CTA_FILTER_REPLY_FLAGS
_FILTER_SOURCE = 1
_NESTED = 0x8000

#: What a kernel answers that tracks nothing, or whose netlink part of it is not there.
_ABSENT = (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT)

open_socket = functools.partial(rt.open_socket, _NETLINK_NETFILTER)


def flush(channel: rt.Channel, address: str) -> int:
    """Deletes them and says how many there were. `channel` is one over `open_socket`. Raises KernelError."""
    source = socket.inet_aton(address)
    try:
        found = {*_connections(channel, _CTA_TUPLE_ORIG, source), *_connections(channel, _CTA_TUPLE_REPLY, source)}
    except KernelError as error:
        if error.errno in _ABSENT:
            return 0
        raise
    operation = f"delete tracked connections of {address}"
    head = _NFGENMSG.pack(socket.AF_INET, 0, 0)
    deleted = len(found)
    for _position, number, extack in channel.batch([rt.parts(_DELETE, 0, head + one) for one in found], operation):
        if number != errno.ENOENT:
            raise KernelError(number, operation, extack)
        deleted -= 1  # it ended by itself
    return deleted


def _connections(channel: rt.Channel, direction: int, source: bytes) -> t.Iterator[bytes]:
    """What names each of them to the kernel, as attributes."""
    ip = rt.attribute(_CTA_TUPLE_IP | _NESTED, rt.attribute(_CTA_IP_V4_SRC, source))
    flags = rt.attribute(_FILTER_FLAGS[direction], _U32.pack(_FILTER_SOURCE))
    everything = _NFGENMSG.pack(socket.AF_INET, 0, 0)
    wanted = rt.attribute(direction | _NESTED, ip) + rt.attribute(_CTA_FILTER | _NESTED, flags)
    operation = "list tracked connections"
    try:
        messages = channel.dump(_GET, everything + wanted, operation)
    except KernelError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        messages = channel.dump(_GET, everything, operation)
    for message in messages:
        found = rt.attributes(message, _HEADERS)
        ends = rt.attributes(rt.attributes(found.get(direction, b""), 0).get(_CTA_TUPLE_IP, b""), 0)
        if ends.get(_CTA_IP_V4_SRC) == source and _CTA_TUPLE_ORIG in found:
            name = rt.attribute(_CTA_TUPLE_ORIG | _NESTED, found[_CTA_TUPLE_ORIG])
            for kind in (_CTA_ID, _CTA_ZONE):
                if kind in found:
                    name += rt.attribute(kind, found[kind])
            yield name
