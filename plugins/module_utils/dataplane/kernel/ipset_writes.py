# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IP sets and their members, made and deleted by messages to the kernel; a process of `ipset` would take milliseconds.

Attributes as in linux/netfilter/ipset/ip_set.h. A member is a text as `ipset save` prints it: `10.0.0.0/24`,
`10.0.0.1,tcp:80`, `10.0.0.1,cali1`.
"""

from __future__ import annotations

import socket
import struct
import typing as t

from ...base.addresses import family_of
from . import rtnetlink as rt
from .port import KernelError, MemberWrite, SetRemoval, SetWrite

_SUBSYSTEM = 6 << 8  # NFNL_SUBSYS_IPSET
_CREATE, _DESTROY, _TYPE = _SUBSYSTEM | 2, _SUBSYSTEM | 3, _SUBSYSTEM | 13
_COMMANDS = {"add": _SUBSYSTEM | 9, "del": _SUBSYSTEM | 10}
_PROTOCOL_VERSION = 6
_NFGENMSG = struct.Struct("!BBH")  # family, version, resource
_NESTED, _NETWORK_ORDER = 0x8000, 0x4000
_PROTOCOL, _SETNAME, _TYPENAME, _REVISION, _FAMILY, _DATA = 1, 2, 3, 4, 5, 7
_IP, _CIDR, _PORT, _PROTO, _MAXELEM, _IFACE = 1, 3, 4, 7, 19, 23
_PROTOCOLS = {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP, "sctp": socket.IPPROTO_SCTP}
#: The revision of each type of set in ipset 6.38 of 2018, or a lower one that the kernel has: an older program on the
#: node than its kernel can still read these sets.
_REVISIONS = {"hash:ip": 4, "hash:net": 6, "hash:ip,port": 5, "hash:net,iface": 6}

#: {(type, family): revision}, as the kernel has said.
Revisions = dict[tuple[str, int], int]


def write(channel: rt.Channel, writes: t.Sequence[SetWrite], revisions: Revisions) -> None:
    """Make these writes in order, many per system call. Repeating one is no error, except the deletion of a set.

    The kernel is asked for what `revisions` lacks, and the answers are added to it.

    Raise ValueError, before any write, for a type of set that this module does not know, or a member that `data`
    refuses, and KeyError for another action. Raise KernelError with the first refusal of the kernel; it has the
    line of that write.
    """
    messages = [_message(channel, one, revisions) for one in writes]
    for position, number, extack in channel.batch(messages, "change sets"):
        raise KernelError(number, writes[position].line, extack)


def _message(channel: rt.Channel, one: SetWrite, revisions: Revisions) -> tuple[bytes, bytes]:
    if isinstance(one, MemberWrite):
        version, entry = data(one.kind, one.member)
        return _packed(_COMMANDS[one.action], version, one.name, rt.attribute(_DATA | _NESTED, entry))
    if isinstance(one, SetRemoval):
        return _packed(_DESTROY, 4, one.name, b"")
    family = socket.AF_INET6 if one.ipv6 else socket.AF_INET
    if (one.kind, family) not in revisions:
        revisions[one.kind, family] = _revision(channel, one.kind, family)
    described = rt.attribute(_TYPENAME, one.kind.encode() + b"\0")
    described += rt.attribute(_REVISION, bytes((revisions[one.kind, family],)))
    described += rt.attribute(_FAMILY, bytes((family,)))
    room = rt.attribute(_MAXELEM | _NETWORK_ORDER, struct.pack("!I", one.max_elements))
    return _packed(_CREATE, 6 if one.ipv6 else 4, one.name, described + rt.attribute(_DATA | _NESTED, room))


def _packed(command: int, version: int, name: str, rest: bytes) -> tuple[bytes, bytes]:
    return rt.parts(command, 0, _asked(version) + rt.attribute(_SETNAME, name.encode() + b"\0") + rest)


def _asked(version: int) -> bytes:
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    return _NFGENMSG.pack(family, 0, 0) + rt.attribute(_PROTOCOL, bytes((_PROTOCOL_VERSION,)))


def _revision(channel: rt.Channel, kind: str, family: int) -> int:
    """Return the revision for new sets of a type. Raise ValueError for an unknown type, KernelError if refused."""
    if kind not in _REVISIONS:
        raise ValueError(f"{kind} is none of the types {', '.join(_REVISIONS)}")
    body = _asked(4) + rt.attribute(_TYPENAME, kind.encode() + b"\0") + rt.attribute(_FAMILY, bytes((family,)))
    (answer,) = channel.request(_TYPE, 0, body, f"ask for the type {kind} of sets")
    newest = rt.attributes(answer.body, _NFGENMSG.size)[_REVISION]
    return min(_REVISIONS[kind], newest[0])


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
