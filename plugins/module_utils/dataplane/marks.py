# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheap signs of change for what must be read often and differs seldom: equal marks, nothing has changed.

No program is run for them. Layouts: linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h,
linux/netfilter/ipset/ip_set.h.
"""

from __future__ import annotations

import errno
import socket
import struct
import typing as t
import zlib

from . import rtnetlink as rt
from .kernel import KernelError

_NFT_GETGEN = 10 << 8 | 16  # NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN
_NFTA_GEN_ID = 1
_IPSET_LIST = 6 << 8 | 7  # NFNL_SUBSYS_IPSET, IPSET_CMD_LIST
_IPSET_PROTOCOL, _IPSET_SETNAME = 1, 2
_OLDEST_PROTOCOL = 6  # of ipset, which all kernels since 3.x speak
_NFGENMSG = struct.Struct("!BBH")  # family, version, resource
_HEADERS = 20  # netlink's and nfgenmsg
_ROUTE_PROTOCOL = 16 + 5  # in a message about a route

#: What a kernel answers that has no nf_tables or no ip_set.
_ABSENT = (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL)


def ruleset(channel: rt.Channel) -> t.Optional[int]:
    """The generation of the nftables ruleset of a namespace, which every change of it moves; None without nf_tables.

    `channel` is one over a NETLINK_NETFILTER socket, here and below. Takes two microseconds. Raises KernelError.
    """
    try:
        answers = channel.request(_NFT_GETGEN, 0, _NFGENMSG.pack(0, 0, 0), "ask for the ruleset's generation")
    except KernelError as error:
        if error.errno in _ABSENT:
            return None
        raise
    found = rt.attributes(answers[0].body, 4) if answers else {}
    return int.from_bytes(found[_NFTA_GEN_ID], "big") if _NFTA_GEN_ID in found else None


def ipset(channel: rt.Channel, name: str) -> int:
    """0 for a set that is not there. Raises KernelError."""
    body = _NFGENMSG.pack(2, 0, 0) + rt.attribute(_IPSET_PROTOCOL, bytes((_OLDEST_PROTOCOL,)))
    body += rt.attribute(_IPSET_SETNAME, name.encode() + b"\0")
    try:
        return _checksum(channel.dump(_IPSET_LIST, body, f"list set {name}"), _HEADERS)
    except KernelError as error:
        if error.errno in (*_ABSENT, errno.ENOENT):
            return 0
        raise


def routes(channel: rt.Channel, protocol: int) -> int:
    """Of all IPv4 routes with this protocol number; `channel` is one of rtnetlink. Raises KernelError."""
    body = rt.RTMSG.pack(socket.AF_INET, 0, 0, 0, 0, protocol, 0, 0, 0)
    found = channel.dump(rt.RTM_GETROUTE, body, "list routes")
    return _checksum((message for message in found if message[_ROUTE_PROTOCOL] == protocol), 16)


def _checksum(messages: t.Iterable[bytes], start: int) -> int:
    found = 1
    for message in messages:
        found = zlib.crc32(message[start:], found)
    return found
