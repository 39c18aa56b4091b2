# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What IP sets hold, read by messages to the kernel, without a process of `ipset`.

Headers are cheap, however many members a set has: the kernel counts members itself. The functions take a channel with
a NETLINK_NETFILTER socket and raise KernelError if the kernel refuses. Attributes: linux/netfilter/ipset/ip_set.h.
"""

from __future__ import annotations

import errno
import socket
import struct
import typing as t
import zlib

from ...base.addresses import family_of
from . import rtnetlink as rt
from .port import NO_NETFILTER, KernelError, SetHeader

_LIST = 6 << 8 | 7  # NFNL_SUBSYS_IPSET, IPSET_CMD_LIST
_OLDEST_PROTOCOL = 6  # version of ipset's protocol that all kernels since 3.x support
_HEADERS = 20  # bytes of the headers: 16 of netlink and 4 of nfgenmsg
_ASK = struct.pack("!BBH", 2, 0, 0) + rt.attribute(1, bytes((_OLDEST_PROTOCOL,)))
_SETNAME, _TYPENAME, _FLAGS, _DATA, _ADT = 2, 3, 6, 7, 8
_LIST_HEADER = rt.attribute(_FLAGS | 0x4000, struct.pack("!I", 4))  # IPSET_FLAG_LIST_HEADER, in network order
_INITVAL, _ELEMENTS = 17, 24
_IP, _CIDR, _PORT, _PROTO, _CADT_FLAGS, _IFACE = 1, 3, 4, 7, 8, 23
_PHYSDEV, _NOMATCH = 2, 4
_PROTOCOLS = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp", socket.IPPROTO_SCTP: "sctp", 136: "udplite"}
_U16, _LENGTH = struct.Struct("!H"), struct.Struct("=H")


def headers(channel: rt.Channel, known: t.Mapping[bytes, tuple[str, SetHeader]]) -> dict[bytes, tuple[str, SetHeader]]:
    """Return {message: (name, header)} of all sets; {} without ip_set. Messages in `known` are not decoded again."""

    def decode(message: bytes) -> tuple[bytes, tuple[str, SetHeader]]:
        body = message[_HEADERS:]
        return body, known.get(body) or _header(body)

    try:
        return dict(channel.dump_decoded(_LIST, _ASK + _LIST_HEADER, "list the sets", decode))
    except KernelError as error:
        if error.errno in NO_NETFILTER:
            return {}
        raise


def _header(body: bytes) -> tuple[str, SetHeader]:
    found = rt.attributes(body, 0)
    data = rt.attributes(found.get(_DATA, b""), 0)
    number = data.get(_ELEMENTS)
    elements = None if number is None else int.from_bytes(number, "big")
    return _text(found[_SETNAME]), SetHeader(_text(found.get(_TYPENAME, b"")), elements, data.get(_INITVAL, b""))


def members(channel: rt.Channel, name: str) -> t.Optional[frozenset[str]]:
    """Return a set's members as `ipset save` prints those of our types, without the prefix length of single addresses.

    A member of another form gets a text that no member of our types has. Return None for a set that does not exist, and
    without ip_set.
    """

    def decode(message: bytes) -> list[str]:
        return _members(rt.attributes(message, _HEADERS).get(_ADT, b""))

    try:
        parts = channel.dump_decoded(_LIST, _named(name), "list a set", decode)
    except KernelError as error:
        if error.errno in (*NO_NETFILTER, errno.ENOENT):
            return None
        raise
    return frozenset(member for part in parts for member in part)


def checksum(channel: rt.Channel, name: str) -> int:
    """Return a checksum (CRC-32) of a set and its members, 0 for a set that does not exist and without ip_set."""
    found = 1
    try:
        for message in channel.dump(_LIST, _named(name), f"list set {name}"):
            found = zlib.crc32(message[_HEADERS:], found)
    except KernelError as error:
        if error.errno in (*NO_NETFILTER, errno.ENOENT):
            return 0
        raise
    return found


def _named(name: str) -> bytes:
    """Return the body of a request for one set."""
    return _ASK + rt.attribute(_SETNAME, name.encode() + b"\0")


def _members(entries: bytes) -> list[str]:
    found = []
    start, end = 0, len(entries)
    while start + 4 <= end:
        length = _LENGTH.unpack_from(entries, start)[0]
        if length < 4:
            break
        found.append(_member(rt.attributes(entries[start + 4 : start + length], 0)))
        start += (length + 3) & ~3
    return found


def _member(entry: dict[int, bytes]) -> str:
    address = rt.address_text(next(iter(rt.attributes(entry.pop(_IP, b""), 0).values()), b""))
    length = entry.pop(_CIDR, None)
    text = address
    if length is not None and length[0] != (128 if address and family_of(address) == 6 else 32):
        text += f"/{length[0]}"
    flags = int.from_bytes(entry.pop(_CADT_FLAGS, b""), "big")
    if _PORT in entry:
        protocol = entry.pop(_PROTO, b"\0")[0]
        text += f",{_PROTOCOLS.get(protocol, protocol)}:{_U16.unpack(entry.pop(_PORT))[0]}"
    if _IFACE in entry:
        text += f",{'physdev:' if flags & _PHYSDEV else ''}{_text(entry.pop(_IFACE))}"
    if flags & _NOMATCH:
        text += " nomatch"
    if flags & ~(_PHYSDEV | _NOMATCH):
        text += f" flags {flags:#x}"
    return text + "".join(f" {kind} {value.hex()}" for kind, value in sorted(entry.items()))


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode(errors="replace")
