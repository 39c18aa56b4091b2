# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members added to IP sets, or removed, by messages to the kernel; a process of `ipset` would take milliseconds.

Attributes as in linux/netfilter/ipset/ip_set.h. A member is a text as `ipset save` prints it: `10.0.0.0/24`,
`10.0.0.1,tcp:80`, `10.0.0.1,cali1`.
"""

from __future__ import annotations

import socket
import struct
import typing as t

from ...base.addresses import family_of
from . import rtnetlink as rt
from .port import KernelError, MemberWrite

_SUBSYSTEM = 6 << 8  # NFNL_SUBSYS_IPSET
_COMMANDS = {"add": _SUBSYSTEM | 9, "del": _SUBSYSTEM | 10}
_PROTOCOL_VERSION = 6
_NFGENMSG = struct.Struct("!BBH")  # family, version, resource
_NESTED, _NETWORK_ORDER = 0x8000, 0x4000
_PROTOCOL, _SETNAME, _DATA = 1, 2, 7
_IP, _CIDR, _PORT, _PROTO, _IFACE = 1, 3, 4, 7, 23
_PROTOCOLS = {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP, "sctp": socket.IPPROTO_SCTP}


def write(channel: rt.Channel, writes: t.Sequence[MemberWrite]) -> None:
    """Make these writes in order, many per system call. Repeating one is no error.

    Raise ValueError for a type or member that `data` refuses, and KeyError for another action, before any write. Raise
    KernelError with the first refusal of the kernel; it names action, set and member.
    """
    for position, number, extack in channel.batch([_message(one) for one in writes], "change members of sets"):
        refused = writes[position]
        raise KernelError(number, f"{refused.action} {refused.name} {refused.member}", extack)


def _message(one: MemberWrite) -> tuple[bytes, bytes]:
    version, entry = data(one.kind, one.member)
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    body = _NFGENMSG.pack(family, 0, 0) + rt.attribute(_PROTOCOL, bytes((_PROTOCOL_VERSION,)))
    body += rt.attribute(_SETNAME, one.name.encode() + b"\0") + rt.attribute(_DATA | _NESTED, entry)
    return rt.parts(_COMMANDS[one.action], 0, body)


def data(kind: str, member: str) -> tuple[int, bytes]:
    """Return (IP version, packed attributes) of a member of a set of type `kind`.

    Raise ValueError if it has another form than such members have, or for another type than hash:net, hash:ip,
    hash:net,iface and hash:ip,port. Interface names are not checked, prefix lengths only to be from 0 to 255.
    """
    network, comma, rest = member.partition(",")
    address, slash, length = network.partition("/")
    version = family_of(address)
    try:
        packed = socket.inet_pton(socket.AF_INET6 if version == 6 else socket.AF_INET, address)
    except OSError as error:
        raise ValueError(f"{member} has no address") from error
    found = rt.attribute(_IP | _NESTED, rt.attribute((2 if version == 6 else 1) | _NETWORK_ORDER, packed))
    if slash:
        found += rt.attribute(_CIDR, bytes((int(length),)))
    if kind == "hash:net,iface" and comma:
        return version, found + rt.attribute(_IFACE, rest.encode() + b"\0")
    if kind == "hash:ip,port" and comma:
        return version, found + _port(rest)
    if kind in ("hash:net", "hash:ip") and not comma:
        return version, found
    raise ValueError(f"{member} is not a member of a {kind}")


def _port(text: str) -> bytes:
    """Return the packed attributes of a text such as `tcp:80`; tcp, udp and sctp are known."""
    protocol, _colon, port = text.partition(":")
    if protocol not in _PROTOCOLS:
        raise ValueError(f"{text} has another protocol than {', '.join(_PROTOCOLS)}")
    try:
        number = struct.pack("!H", int(port))
    except struct.error as error:
        raise ValueError(f"{text} has no port from 0 to 65535") from error
    return rt.attribute(_PORT | _NETWORK_ORDER, number) + rt.attribute(_PROTO, bytes((_PROTOCOLS[protocol],)))


def member_changes(lines: t.Sequence[str]) -> t.Optional[list[tuple[str, str, str]]]:
    """Return (action, set, member) for each line of `ipset restore`; None if one neither adds nor deletes a member."""
    words = [line.split() for line in lines]
    if any(len(found) != 3 or found[0] not in _COMMANDS for found in words):
        return None
    return [(found[0], found[1], found[2]) for found in words]
