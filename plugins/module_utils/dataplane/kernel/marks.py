# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Marks: cheap values of tables that are read often and rarely change.

Equal marks mean that nothing has changed, apart from what `legacy_tables` states and from equal checksums of different
content, which are most unlikely. No program is run for them. Functions raise KernelError if the kernel refuses.
Layouts: linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h, linux/netfilter_ipv4/ip_tables.h.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import typing as t
import zlib

from . import rtnetlink as rt
from .port import NO_NETFILTER, KernelError, passing_over

_NFT_GETGEN = 10 << 8 | 16  # NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN
_NFTA_GEN_ID = 1
_NFGENMSG = struct.Struct("!BBH")  # family, version, resource
_U32 = struct.Struct("=I")
_ROUTE_PROTOCOL = 16 + 5  # offset in bytes of the protocol in a message about a route, netlink's header included

_SO_GET_INFO = 64  # IPT_SO_GET_INFO, IP6T_SO_GET_INFO
_GETINFO = 32 + 4 * (1 + 5 + 5 + 1 + 1)  # struct ipt_getinfo: name, valid hooks, hooks, underflows, entries, size

#: Program, file of the tables' names, and family and level of the socket option that describes a table.
_LEGACY = (
    ("iptables", "ip_tables_names", socket.AF_INET, socket.IPPROTO_IP),
    ("ip6tables", "ip6_tables_names", socket.AF_INET6, socket.IPPROTO_IPV6),
)


def ruleset(channel: rt.Channel) -> t.Optional[int]:
    """Return the generation of the namespace's nftables ruleset, which every change alters; None without nf_tables.

    `channel` has a NETLINK_NETFILTER socket.
    """
    with passing_over(*NO_NETFILTER):
        for answer in channel.request(_NFT_GETGEN, 0, _NFGENMSG.pack(0, 0, 0), "ask for the ruleset's generation"):
            generation = rt.attributes(answer.body, 4).get(_NFTA_GEN_ID)
            return None if generation is None else int.from_bytes(generation, "big")
    return None


def legacy_tables() -> tuple[tuple[str, str, bytes], ...]:
    """Return (program, table, `struct ipt_getinfo`) for each table of iptables-legacy in this thread's namespace.

    `program` is iptables or ip6tables. The struct has the number of rules, their size in bytes, and the offset of each
    hook. It does not change when a rule replaces another one of its size. The call loads no module and makes no table.
    An IP version whose module is not loaded has no tables.
    """
    found = []
    for program, names, family, level in _LEGACY:
        try:
            with open(f"/proc/thread-self/net/{names}", encoding="ascii") as stream:
                tables = stream.read().split()
        except OSError:  # The module is not loaded.
            continue
        if tables:
            try:
                asked = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)
            except OSError as error:
                raise KernelError(error.errno or 0, f"open a raw socket for {program}'s tables") from error
            with asked:
                found += [(program, table, _legacy_table(asked, level, table)) for table in sorted(tables)]
    return tuple(found)


def _legacy_table(asked: socket.socket, level: int, table: str) -> bytes:
    """Return the `struct ipt_getinfo` of a table, whose name the socket option takes from the buffer for its answer."""
    answer = ctypes.create_string_buffer(table.encode(), _GETINFO)
    length = ctypes.c_uint32(_GETINFO)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.getsockopt(asked.fileno(), level, _SO_GET_INFO, answer, ctypes.byref(length)) != 0:
        raise KernelError(ctypes.get_errno(), f"ask for the size of table {table}")
    return answer.raw


def links(channel: rt.Channel, names: t.Container[str]) -> int:
    """Return a checksum (CRC-32) of those of the devices `names` that exist, 1 if none does.

    A bridge that is among them changes it all the time, by its timers.
    """

    def checksum(message: bytes) -> bytes:
        return _U32.pack(zlib.crc32(message[16:])) if rt.link_name(message) in names else b""

    return zlib.crc32(b"".join(channel.dump_decoded(rt.RTM_GETLINK, rt.EVERY_LINK, "list links", checksum)), 1)


def routes(channel: rt.Channel, protocol: int) -> int:
    """Return a checksum (CRC-32) of all routes with this protocol number, of both IP versions; 1 if there are none."""
    found = 1
    for family in (socket.AF_INET, socket.AF_INET6):
        for packed in _route_checksums(channel, family, protocol):
            found = zlib.crc32(packed, found)
    return found


def _route_checksums(channel: rt.Channel, family: int, protocol: int) -> list[bytes]:
    """Return the packed checksum of each route of a family that has this protocol number, b"" for another route."""

    def checksum(message: bytes) -> bytes:
        ours = message[16] == family and message[_ROUTE_PROTOCOL] == protocol
        return _U32.pack(zlib.crc32(message[16:])) if ours else b""

    body = rt.RTMSG.pack(family, 0, 0, 0, 0, protocol, 0, 0, 0)
    return channel.dump_decoded(rt.RTM_GETROUTE, body, "list routes", checksum)
