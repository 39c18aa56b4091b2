# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tracked connections of addresses, listed, marked and deleted by ctnetlink, without the program `conntrack`.

A workload must not inherit the connections of the one that had its address before. Deleted are the connections that the
address opened (source, original direction) and those that others opened to it, also by way of a DNAT (source, reply
direction). The kernel selects them (5.8 and newer); an older one sends all, and they are selected here.

Every list costs the kernel a walk through its whole table, 3 ms for 262,144 buckets, even if the table is empty. So the
number of connections is read first, and if they are few, all of them are read once. Layouts:
linux/netfilter/nfnetlink_conntrack.h.

Channels have a socket of `open_socket`. Functions raise KernelError if the kernel refuses or does not answer.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import socket
import struct
import sys
import typing as t

from ...policy.model import Flow
from . import rtnetlink as rt
from .port import NO_NETFILTER, Connection, ConnectionFilter, KernelError, passing_over

_NETLINK_NETFILTER = 12
# NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW, IPCTNL_MSG_CT_GET, IPCTNL_MSG_CT_DELETE, IPCTNL_MSG_CT_GET_STATS
_CHANGE, _GET, _DELETE, _COUNT = 0x0100, 0x0101, 0x0102, 0x0105
_NFGENMSG = struct.Struct("!BBH")  # family, version, resource
_HEADERS = 20  # bytes of the headers: 16 of netlink and 4 of nfgenmsg
_U32, _BE32 = struct.Struct("=I"), struct.Struct("!I")
_CTA_TUPLE_ORIG, _CTA_TUPLE_REPLY, _CTA_ID, _CTA_ZONE, _CTA_FILTER = 1, 2, 12, 18, 25
_CTA_TUPLE_IP, _CTA_IP_V4_SRC, _CTA_IP_V4_DST, _CTA_IP_V6_SRC, _CTA_IP_V6_DST = 1, 1, 2, 3, 4
_CTA_TUPLE_PROTO, _CTA_PROTO_NUM, _CTA_PROTO_SRC_PORT, _CTA_PROTO_DST_PORT = 2, 1, 2, 3
_CTA_PROTO_ICMP_TYPE, _CTA_PROTO_ICMP_CODE = 5, 6
_CTA_PROTO_ICMPV6_TYPE, _CTA_PROTO_ICMPV6_CODE = 8, 9
_CTA_PROTOINFO, _CTA_MARK, _CTA_TUPLE_MASTER, _CTA_MARK_MASK = 4, 8, 14, 21
_CTA_PROTOINFO_TCP, _CTA_PROTOINFO_TCP_STATE = 1, 1
_ENDED = frozenset({7, 8})  # TCP_CONNTRACK_TIME_WAIT, TCP_CONNTRACK_CLOSE
_FILTER_FLAGS = {_CTA_TUPLE_ORIG: 1, _CTA_TUPLE_REPLY: 2}  # CTA_FILTER_ORIG_FLAGS, CTA_FILTER_REPLY_FLAGS
_FILTER_SOURCE = 1  # CTA_IP_SRC
_FILTER_PROTOCOL, _FILTER_DESTINATION_PORT = 1 << 3, 1 << 5  # CTA_PROTO_NUM, CTA_PROTO_DST_PORT
_CTA_STATS_GLOBAL_ENTRIES = 1
_NESTED = 0x8000

#: The errors of a kernel that tracks nothing, or that lacks connection tracking over netlink.
_ABSENT = (*NO_NETFILTER, errno.ENOENT)

open_socket = functools.partial(rt.open_socket, _NETLINK_NETFILTER)


#: Up to so many connections per address, reading all of them costs less than two walks for that address.
_FEW = 500


def flush(channel: rt.Channel, addresses: t.Collection[str]) -> int:
    """Delete the tracked connections that these addresses opened or answer; return the number deleted.

    It is 0 if the kernel tracks nothing or cannot list connections. Raise OSError if a text is not an address.
    """
    sources = {rt.packed_address(address) for address in addresses}
    found: set[bytes] = set()
    with passing_over(*_ABSENT):
        found.update(_found(channel, sources))
    return _each(channel, _DELETE, found, f"delete tracked connections of {', '.join(sorted(addresses))}")


def delete(channel: rt.Channel, connections: t.Collection[Connection]) -> int:
    """Delete these connections; return how many of them still existed."""
    return _each(channel, _DELETE, [one.name for one in connections], f"delete {len(connections)} tracked connections")


def set_mark(channel: rt.Channel, connections: t.Collection[Connection], bits: int, marked: bool) -> int:
    """Set (`marked` True) or clear only the bits `bits` of these connections' marks; return how many still existed."""
    mark = rt.attribute(_CTA_MARK, _BE32.pack(bits if marked else 0)) + rt.attribute(_CTA_MARK_MASK, _BE32.pack(bits))
    operation = f"mark {len(connections)} tracked connections"
    return _each(channel, _CHANGE, [one.name + mark for one in connections], operation)


def _each(channel: rt.Channel, kind: int, named: t.Collection[bytes], operation: str) -> int:
    """Send one message of type `kind` for each named connection; return how many of them still existed."""
    heads: dict[int, bytes] = {family: _NFGENMSG.pack(family, 0, 0) for family in (socket.AF_INET, socket.AF_INET6)}
    found = len(named)
    messages = [rt.parts(kind, 0, heads[_family(one)] + one) for one in named]
    for _position, number, extack in channel.batch(messages, operation):
        if number != errno.ENOENT:
            raise KernelError(number, operation, extack)
        found -= 1  # The connection has ended by itself.
    return found


def _family(name: bytes) -> int:
    """Return AF_INET or AF_INET6 for the connection with this name."""
    ends = rt.attributes(rt.attributes(name, 0).get(_CTA_TUPLE_ORIG, b""), 0)
    return socket.AF_INET6 if _CTA_IP_V6_SRC in rt.attributes(ends.get(_CTA_TUPLE_IP, b""), 0) else socket.AF_INET


def _found(channel: rt.Channel, sources: t.Collection[bytes]) -> t.Iterator[bytes]:
    """Yield the name of each connection of these packed addresses, as attributes; one may be yielded twice."""
    tracked = _tracked(channel)
    if tracked is not None and tracked <= _FEW * len(sources):
        if tracked:
            yield from _named(_listed(channel), (_CTA_TUPLE_ORIG, _CTA_TUPLE_REPLY), sources)
        return
    for source in sources:
        for direction in (_CTA_TUPLE_ORIG, _CTA_TUPLE_REPLY):
            yield from _named(_listed_from(channel, direction, source), (direction,), (source,))


def _tracked(channel: rt.Channel) -> t.Optional[int]:
    """Return the number of connections that the kernel tracks in this network namespace, or None if it does not say."""
    head = _NFGENMSG.pack(socket.AF_UNSPEC, 0, 0)
    with passing_over(errno.EOPNOTSUPP, errno.EINVAL):
        for answer in channel.request(_COUNT, 0, head, "count tracked connections"):
            count = rt.attributes(answer.body, len(head)).get(_CTA_STATS_GLOBAL_ENTRIES)
            if count is not None:
                return int.from_bytes(count, "big")
    return None


def _listed_from(channel: rt.Channel, direction: int, source: bytes) -> list[bytes]:
    """Return the messages of connections from this packed source in this direction; all if the kernel cannot select."""
    family, of = (socket.AF_INET, _CTA_IP_V4_SRC) if len(source) == 4 else (socket.AF_INET6, _CTA_IP_V6_SRC)
    ip = rt.attribute(_CTA_TUPLE_IP | _NESTED, rt.attribute(of, source))
    flags = rt.attribute(_FILTER_FLAGS[direction], _U32.pack(_FILTER_SOURCE))
    wanted = rt.attribute(direction | _NESTED, ip) + rt.attribute(_CTA_FILTER | _NESTED, flags)
    try:
        return _listed(channel, wanted, family)
    except KernelError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
    return _listed(channel)


def _listed(channel: rt.Channel, wanted: bytes = b"", family: int = socket.AF_UNSPEC) -> list[bytes]:
    return channel.dump(_GET, _NFGENMSG.pack(family, 0, 0) + wanted, "list tracked connections")


def _named(
    messages: t.Iterable[bytes], directions: t.Collection[int], sources: t.Collection[bytes]
) -> t.Iterator[bytes]:
    """Yield the names of the connections that have one of `sources` in one of `directions`."""
    for message in messages:
        found = rt.attributes(message, _HEADERS)
        if _CTA_TUPLE_ORIG in found and any(_source(found.get(one, b"")) in sources for one in directions):
            yield _name(found)


def _name(found: t.Mapping[int, bytes]) -> bytes:
    """Return the attributes, with its id if known, by which the kernel identifies a connection and no other one."""
    name = rt.attribute(_CTA_TUPLE_ORIG | _NESTED, found[_CTA_TUPLE_ORIG])
    for kind in (_CTA_ID, _CTA_ZONE):
        if kind in found:
            name += rt.attribute(kind, found[kind])
    return name


def _source(ends: bytes) -> t.Optional[bytes]:
    addresses = rt.attributes(rt.attributes(ends, 0).get(_CTA_TUPLE_IP, b""), 0)
    return addresses.get(_CTA_IP_V4_SRC) or addresses.get(_CTA_IP_V6_SRC)


def connections(channel: rt.Channel, wanted: t.Optional[ConnectionFilter] = None) -> t.Iterator[Connection]:
    """Yield each connection in the kernel's table of tracked connections (conntrack) that has not ended.

    With `wanted` yield only those that it selects. The kernel selects them (5.8 and newer, for ports of UDP and TCP);
    an older one sends more, and the others are left out here. TCP connections in the states TIME_WAIT and CLOSE have
    ended. Yield nothing if the kernel tracks no connections. The table is read while the caller iterates: until the
    end, nothing else may use `channel`.

    Connections in a conntrack zone are left out, because they are not the host's own, and so are those for which the
    kernel sends no complete addresses or protocol.
    """
    try:
        for message in _each_listed(channel, wanted):
            found = rt.attributes(message, _HEADERS)
            if _CTA_ZONE not in found and not _has_ended(found):
                connection = _connection(found)
                if connection is not None and (wanted is None or wanted.selects(connection.sent)):
                    yield connection
    except KernelError as error:
        if error.errno not in _ABSENT:
            raise


def _each_listed(channel: rt.Channel, wanted: t.Optional[ConnectionFilter]) -> t.Iterator[bytes]:
    """Yield the messages of the connections that the kernel selects by `wanted`, or of all if it cannot select."""
    operation = "list tracked connections"
    if wanted is not None:
        family = _NFGENMSG.pack(socket.AF_INET6 if wanted.family == 6 else socket.AF_INET, 0, 0)
        try:
            yield from channel.each(_GET, family + _selection(wanted), operation)
        except KernelError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
        else:
            return
    yield from channel.each(_GET, _NFGENMSG.pack(socket.AF_UNSPEC, 0, 0), operation)


def _selection(wanted: ConnectionFilter) -> bytes:
    """Return the attributes by which the kernel selects connections of one protocol, and of one port if it is given."""
    protocol, flags = rt.attribute(_CTA_PROTO_NUM, bytes([wanted.protocol])), _FILTER_PROTOCOL
    if wanted.port is not None:
        protocol += rt.attribute(_CTA_PROTO_DST_PORT, wanted.port.to_bytes(2, "big"))
        flags |= _FILTER_DESTINATION_PORT
    ends = rt.attribute(_CTA_TUPLE_PROTO | _NESTED, protocol)
    asked = rt.attribute(_FILTER_FLAGS[_CTA_TUPLE_ORIG], _U32.pack(flags))
    return rt.attribute(_CTA_TUPLE_ORIG | _NESTED, ends) + rt.attribute(_CTA_FILTER | _NESTED, asked)


def _connection(found: t.Mapping[int, bytes]) -> t.Optional[Connection]:
    """Return the connection that these attributes describe, or None if its addresses or protocol are incomplete."""
    ends = found.get(_CTA_TUPLE_ORIG, b"")
    sent, answered = _flow(ends), _flow(found.get(_CTA_TUPLE_REPLY, b""))
    if sent is None or answered is None:
        return None
    flow = sent
    if (answered.source, answered.source_port) != (sent.destination, sent.destination_port):
        flow = dataclasses.replace(sent, destination=answered.source, destination_port=answered.source_port)
    mark = int.from_bytes(found.get(_CTA_MARK, b""), "big")
    reply_to = "" if answered.destination == sent.source else answered.destination
    return Connection(sent, flow, ends, _name(found), found.get(_CTA_TUPLE_MASTER, b""), mark, reply_to)


#: The ends of an IPv4 connection with ports, as the kernel writes them: attribute headers and values in turn.
_USUAL = struct.Struct("=8s4s4s4s8sB3x4s2s2x4s2s2x")
_BETWEEN = tuple(bytes.fromhex(text) for text in (
    "1400018008000100", "08000200", "1c00028005000100", "06000200", "06000300",
)) if sys.byteorder == "little" else ()  # fmt: skip


def _flow(ends: bytes) -> t.Optional[Flow]:
    if len(ends) == _USUAL.size:  # Unpacking the usual layout is several times as fast as reading the attributes.
        one, source, two, destination, three, number, four, sent_from, five, sent_to = _USUAL.unpack(ends)
        if (one, two, three, four, five) == _BETWEEN:
            ports = (int.from_bytes(port, "big") for port in (sent_from, sent_to))
            return Flow(number, socket.inet_ntoa(source), socket.inet_ntoa(destination), *ports)
    return _flow_by_attributes(ends)


def _flow_by_attributes(ends: bytes) -> t.Optional[Flow]:
    parts = rt.attributes(ends, 0)
    addresses = rt.attributes(parts.get(_CTA_TUPLE_IP, b""), 0)
    protocol = rt.attributes(parts.get(_CTA_TUPLE_PROTO, b""), 0)
    source = rt.address_text(addresses.get(_CTA_IP_V4_SRC) or addresses.get(_CTA_IP_V6_SRC, b""))
    destination = rt.address_text(addresses.get(_CTA_IP_V4_DST) or addresses.get(_CTA_IP_V6_DST, b""))
    if not source or not destination or not protocol.get(_CTA_PROTO_NUM):
        return None
    number, pair = protocol[_CTA_PROTO_NUM][0], (source, destination)
    if _CTA_PROTO_SRC_PORT in protocol and _CTA_PROTO_DST_PORT in protocol:
        ports = (int.from_bytes(protocol[kind], "big") for kind in (_CTA_PROTO_SRC_PORT, _CTA_PROTO_DST_PORT))
        return Flow(number, *pair, *ports)
    for of, what in ((_CTA_PROTO_ICMP_TYPE, _CTA_PROTO_ICMP_CODE), (_CTA_PROTO_ICMPV6_TYPE, _CTA_PROTO_ICMPV6_CODE)):
        if protocol.get(of) and protocol.get(what):
            return Flow(number, *pair, icmp_type=protocol[of][0], icmp_code=protocol[what][0])
    return Flow(number, *pair)


def _has_ended(found: t.Mapping[int, bytes]) -> bool:
    tcp = rt.attributes(rt.attributes(found.get(_CTA_PROTOINFO, b""), 0).get(_CTA_PROTOINFO_TCP, b""), 0)
    state = tcp.get(_CTA_PROTOINFO_TCP_STATE, b"")
    return bool(state) and state[0] in _ENDED
