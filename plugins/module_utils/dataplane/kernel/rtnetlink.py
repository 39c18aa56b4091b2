# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rtnetlink in packed messages: every dump that the drivers need, and routes written in bulk.

It uses the standard library alone. Observing must work on a host that has nothing installed yet, and a general netlink
library takes tens of times as long for 10,000 routes as the kernel does. Functions that take a `Channel` pass its
KernelError on. A parameter `names` maps indexes to device names; an index that it lacks stands for the name. Message
layouts: rtnetlink(7), linux/rtnetlink.h, linux/if_link.h, linux/neighbour.h, linux/fib_rules.h.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import socket
import struct
import threading
import typing as t

from ...base import addresses
from . import port

_T = t.TypeVar("_T")

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30
RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34

NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400
_NLMSG_NOOP, _NLMSG_ERROR, _NLMSG_DONE = 1, 2, 3
_NLM_F_DUMP_INTR, _NLM_F_CAPPED, _NLM_F_ACK_TLVS = 0x10, 0x100, 0x200

_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
_NETLINK_CAP_ACK, _NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK = 10, 11, 12
_SO_RCVBUFFORCE = 33
_RECEIVE_BUFFER = 8 * 1024 * 1024  # bytes of a socket's receive buffer
_READ = 256 * 1024  # bytes of the reader's buffer; the kernel fills dump answers of 32 KiB when the reader has room
_TIMEOUT = 20  # seconds without any answer
_TIMEVAL = struct.Struct("@ll")

AF_BRIDGE = 7
NTF_SELF = 0x2
NUD_PERMANENT = 0x80
_IFA_F_PERMANENT = 0x80
_NUD_NOARP = 0x40  # state of entries that belong to no neighbour, such as those of multicast addresses
_RTNH_F_ONLINK = 4
_IFF_UP, _IFF_RUNNING = 0x1, 0x40
_BATCH = 400  # messages per system call: their errors fit into a default receive buffer

ROUTE_TYPES = {
    0: "unspec", 1: "unicast", 2: "local", 3: "broadcast", 4: "anycast", 5: "multicast", 6: "blackhole",
    7: "unreachable", 8: "prohibit", 9: "throw", 10: "nat", 11: "xresolve",
}  # fmt: skip
_ROUTE_TYPE_NUMBERS = {name: number for number, name in ROUTE_TYPES.items()}

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")
_U32 = struct.Struct("=I")
_I32 = struct.Struct("=i")
IFINFO = struct.Struct("=BxHiII")
_IFADDR = struct.Struct("=BBBBI")
RTMSG = struct.Struct("=BBBBBBBBI")
_RTVIA = struct.Struct("=H")  # address family; the address follows
_NDMSG = struct.Struct("=BxxxiHBB")
_RULE = struct.Struct("=BBBBBxxBI")


class Message(t.NamedTuple):
    type: int
    body: bytes


def af_of(address: str) -> int:
    """Return AF_INET or AF_INET6, for an address or a CIDR."""
    return socket.AF_INET6 if addresses.family_of(address) == 6 else socket.AF_INET


def packed_address(address: str) -> bytes:
    """Return an address as 4 or 16 bytes in network order. Raise OSError if it is none.

    All IPv4 forms of inet_aton(3), such as 10.1 for 10.0.0.1, are accepted.
    """
    return (
        socket.inet_pton(socket.AF_INET6, address) if addresses.family_of(address) == 6 else socket.inet_aton(address)
    )


def address_text(data: bytes) -> str:
    """Return the text of an address of 4 or 16 bytes, an empty text for any other length."""
    family = {4: socket.AF_INET, 16: socket.AF_INET6}.get(len(data))
    return "" if family is None else socket.inet_ntop(family, data)


def attribute(kind: int, data: bytes) -> bytes:
    """Return one netlink attribute, padded to a multiple of four bytes."""
    return _ATTRIBUTE.pack(len(data) + 4, kind) + data + bytes(-len(data) % 4)


def attributes(data: bytes, start: int) -> dict[int, bytes]:
    """Return a mapping from type, without its flags, to payload of the attributes in `data` from offset `start` on.

    The last of several attributes of a type counts. A length below 4 ends the reading; a payload is cut off at the end.
    """
    found: dict[int, bytes] = {}
    end = len(data)
    while start + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, start)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[start + 4 : start + length]
        start += (length + 3) & ~3
    return found


@contextlib.contextmanager
def readable(operation: str) -> t.Iterator[None]:
    """Raise KernelError (EBADMSG) where a message inside has fields of another size than the kernel's, or lacks one."""
    try:
        yield
    except port.KernelError:
        raise
    except (struct.error, LookupError, ValueError, OSError) as error:  # OSError: socket.inet_ntoa
        reason = f"a message of the kernel cannot be read: {error!r}"
        raise port.KernelError(errno.EBADMSG, operation, reason) from error


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode(errors="replace")


def _mac(data: bytes) -> str:
    return data.hex(":") if len(data) == 6 else ""


def open_socket(protocol: int = socket.NETLINK_ROUTE) -> socket.socket:
    """Return a netlink socket of the calling thread's network namespace, with a receive timeout of 20 seconds."""
    netlink = bound_socket(protocol, _RECEIVE_BUFFER)
    try:
        for option in (_NETLINK_CAP_ACK, _NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK):
            try:
                netlink.setsockopt(_SOL_NETLINK, option, 1)
            except OSError:  # An old kernel lacks it. Before 4.20 it does not filter dumps; the readers below do.
                pass
        # Python's own timeouts would call poll(2) before each call, and yield to other threads each time.
        netlink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(_TIMEOUT, 0))
    except OSError:
        netlink.close()
        raise
    return netlink


def bound_socket(protocol: int, buffer: int, flags: int = 0) -> socket.socket:
    """Return a netlink socket of the calling thread's network namespace, with a receive buffer of `buffer` bytes.

    `flags` are further ones of its type. Raise OSError if it cannot be opened.
    """
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | flags, protocol)
    try:
        try:
            netlink.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer)
        except OSError:  # Without CAP_NET_ADMIN, rmem_max limits the buffer; reading works nevertheless.
            netlink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        netlink.bind((0, 0))
    except OSError:
        netlink.close()
        raise
    return netlink


def join(netlink: socket.socket, group: int) -> None:
    """Let a netlink socket receive the notifications of a multicast group. Raise OSError if the kernel refuses."""
    netlink.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)


_rooms = threading.local()


def _room() -> memoryview:
    """Return the receive buffer of this thread. It is reused, because a new one takes longer than an answer."""
    try:
        return t.cast(memoryview, _rooms.room)
    except AttributeError:
        _rooms.room = memoryview(bytearray(_READ))
        return _room()


class Channel:
    """A netlink socket that is opened when needed, and again after sending or receiving has failed.

    `opener` opens it in the right namespace. One thread at a time may use it. All methods but `netlink_port` and
    `close` raise KernelError if the socket cannot be opened, or the kernel refuses or does not answer for 20 seconds.
    """

    def __init__(self, opener: t.Callable[[], socket.socket] = open_socket) -> None:
        self._opener = opener
        self._socket: t.Optional[socket.socket] = None
        self._sequence = 0

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def netlink_port(self) -> int:
        """The address of its socket, which the kernel's notifications of its changes carry; 0 while it has none."""
        try:
            return int(self._socket.getsockname()[0]) if self._socket is not None else 0
        except OSError:  # The socket's owner has just closed it.
            return 0

    def _open(self) -> socket.socket:
        if self._socket is None:
            try:
                self._socket = self._opener()
            except port.KernelError:
                raise
            except OSError as error:
                raise port.KernelError(error.errno or errno.EIO, "open a netlink socket") from error
        return self._socket

    def socket(self) -> socket.socket:
        """Return the socket, opened if necessary."""
        return self._open()

    def handle(self) -> int:
        """Return the file descriptor of the socket, opened if necessary."""
        return self._open().fileno()

    def _send(self, data: bytes, operation: str) -> None:
        netlink = self._open()
        try:
            netlink.send(data)
        except OSError as error:
            self.close()  # How much of `data` the kernel has read is not known.
            raise port.KernelError(error.errno or errno.EIO, operation) from error

    def _receive(self, operation: str) -> bytes:
        try:
            room = _room()
            return bytes(room[: self._open().recv_into(room)])
        except BlockingIOError:
            self.close()
            raise port.KernelError(errno.ETIMEDOUT, operation, f"no answer within {_TIMEOUT} s") from None
        except OSError as error:
            self.close()  # Messages still on their way are lost: the next request needs a new socket.
            raise port.KernelError(error.errno or errno.EIO, operation) from error

    def request(self, kind: int, flags: int, body: bytes, operation: str) -> list[Message]:
        """Send one message and return the messages that the kernel answers before the acknowledgement."""
        return list(self._answers(kind, flags | NLM_F_ACK, body, operation))

    def get(self, kind: int, body: bytes, operation: str) -> bytes:
        """Return the body of the one message with which the kernel answers a question about one object."""
        for message in self._answers(kind, 0, body, operation):
            return message.body
        raise port.KernelError(errno.EIO, operation, "")

    def _answers(self, kind: int, flags: int, body: bytes, operation: str) -> t.Iterator[Message]:
        """Send one message and yield the answers until it is acknowledged."""
        self._sequence = sequence = (self._sequence + 1) & 0x7FFFFFFF
        self._send(_HEADER.pack(16 + len(body), kind, flags | NLM_F_REQUEST, sequence, 0) + body, operation)
        while True:
            data = self._receive(operation)
            for start, end, answer, answer_flags, answer_sequence in _messages(data):
                if answer_sequence != sequence:
                    continue
                if answer == _NLMSG_ERROR:
                    number, extack = _failure(data[start:end], answer_flags)
                    if number:
                        raise port.KernelError(number, operation, extack)
                    return
                yield Message(answer, data[start + 16 : end])

    def dump(self, kind: int, body: bytes, operation: str) -> list[bytes]:
        """Return the messages of a dump, headers included, that no change of the tables interrupted.

        A dump that was interrupted or lost messages (ENOBUFS) is repeated; the tenth failure raises KernelError.
        """
        return self.dump_decoded(kind, body, operation, bytes)

    def dump_decoded(self, kind: int, body: bytes, operation: str, decode: t.Callable[[bytes], _T]) -> list[_T]:
        """Return what `decode` makes of each message of a dump, headers included, as soon as it arrives.

        So large dumps take less memory than their messages. `decode` must not use this channel. The socket is closed
        after an exception of it, which is raised as `readable` does. Messages of a repeated dump are decoded again.
        """
        for attempt in range(10):
            try:
                with readable(operation):
                    answers = self._dump_once(kind, body, operation, decode)
            except port.KernelError as error:
                if error.errno == errno.ENOBUFS and attempt < 9:
                    continue
                raise
            except BaseException:
                self.close()  # The rest of the dump is still to come.
                raise
            if answers is not None:
                return answers
        raise port.KernelError(errno.EINTR, operation, "the tables changed during each of 10 dumps")

    def _dump_once(
        self, kind: int, body: bytes, operation: str, decode: t.Callable[[bytes], _T]
    ) -> t.Optional[list[_T]]:
        """Return the decoded messages of a dump, or None if the kernel says that a change interrupted it."""
        self._sequence = sequence = (self._sequence + 1) & 0x7FFFFFFF
        self._send(_HEADER.pack(16 + len(body), kind, NLM_F_REQUEST | NLM_F_DUMP, sequence, 0) + body, operation)
        answers: list[_T] = []
        whole = True
        unpack = _HEADER.unpack_from
        append = answers.append
        while True:
            data = self._receive(operation)
            offset, end = 0, len(data)
            while offset + 16 <= end:
                length, answer, flags, answer_sequence, _port = unpack(data, offset)
                if length < 16:
                    break
                if answer_sequence == sequence:
                    if flags & _NLM_F_DUMP_INTR:
                        whole = False
                    if answer > _NLMSG_DONE:
                        append(decode(data[offset : offset + length]))
                    elif answer == _NLMSG_DONE:
                        number, extack = _failure(data[offset : offset + length], flags)
                        if number:
                            raise port.KernelError(number, operation, extack)
                        return answers if whole else None
                    elif answer == _NLMSG_ERROR:
                        number, extack = _failure(data[offset : offset + length], flags)
                        raise port.KernelError(number or errno.EIO, operation, extack)
                offset += (length + 3) & ~3

    def each(self, kind: int, body: bytes, operation: str) -> t.Iterator[bytes]:
        """Yield the messages of a dump while they arrive, headers included, for tables that change all the time.

        Changes during the dump are not noticed. If the caller stops reading before the end, the socket is closed.
        """
        self._sequence = sequence = (self._sequence + 1) & 0x7FFFFFFF
        self._send(_HEADER.pack(16 + len(body), kind, NLM_F_REQUEST | NLM_F_DUMP, sequence, 0) + body, operation)
        ended = False
        try:
            while True:
                data = self._receive(operation)
                for start, end, answer, flags, answer_sequence in _messages(data):
                    if answer_sequence != sequence:
                        continue
                    if answer > _NLMSG_DONE:
                        yield data[start:end]
                    elif answer in (_NLMSG_DONE, _NLMSG_ERROR):
                        ended = True
                        number, extack = _failure(data[start:end], flags)
                        if number or answer == _NLMSG_ERROR:
                            raise port.KernelError(number or errno.EIO, operation, extack)
                        return
        finally:
            if not ended:
                self.close()

    def batch(self, messages: t.Sequence[tuple[bytes, ...]], operation: str) -> list[tuple[int, int, str]]:
        """Send messages, 400 per system call; return (position, errno, extack) of those that failed.

        Each message is given as parts around its sequence number, which is inserted behind the first part: the first
        eight bytes of the header (length, type, flags). Only the last of each 400 messages requests an acknowledgement:
        the kernel answers every failed one anyway, and in order, so this answer is the last. When KernelError is
        raised, earlier messages may have been carried out.
        """
        failures: list[tuple[int, int, str]] = []
        for first in range(0, len(messages), _BATCH):
            chunk = messages[first : first + _BATCH]
            last = len(chunk)
            parts: list[bytes] = []
            extend = parts.extend
            for number, message in zip(_SEQUENCES, chunk):
                extend((message[0], number))
                extend(message[1:])
            # The flags of the last message are bytes 6 and 7 of its first part.
            head = chunk[-1][0]
            parts[-len(chunk[-1]) - 1] = head[:6] + bytes((head[6] | NLM_F_ACK, head[7]))
            self._send(b"".join(parts), operation)
            waiting = True
            while waiting:
                data = self._receive(operation)
                for start, end, answer, flags, sequence in _messages(data):
                    if answer != _NLMSG_ERROR:
                        continue
                    number_, extack = _failure(data[start:end], flags)
                    if number_:
                        failures.append((first + sequence - 1, number_, extack))
                    if sequence == last:
                        waiting = False
        return failures


def parts(kind: int, flags: int, body: bytes) -> tuple[bytes, bytes]:
    """Return one message in the form that `Channel.batch` takes."""
    return struct.pack("=IHH", 16 + len(body), kind, flags | NLM_F_REQUEST), bytes(4) + body


_SEQUENCES = [_U32.pack(number) for number in range(1, _BATCH + 1)]


def _messages(data: bytes) -> t.Iterator[tuple[int, int, int, int, int]]:
    """Yield (start, end, type, flags, sequence) for each message in `data`; start and end are offsets in bytes."""
    offset, end = 0, len(data)
    while offset + 16 <= end:
        length, kind, flags, sequence, _port = _HEADER.unpack_from(data, offset)
        if length < 16:
            return
        yield offset, offset + length, kind, flags, sequence
        offset += (length + 3) & ~3


def _failure(message: bytes, flags: int) -> tuple[int, str]:
    """Return (errno, the kernel's text or "") of an NLMSG_ERROR or NLMSG_DONE; errno 0 means success."""
    if len(message) < 20:
        return 0, ""
    number = -_I32.unpack_from(message, 16)[0]
    if not flags & _NLM_F_ACK_TLVS:
        return number, ""
    offset = 20
    if _HEADER.unpack_from(message)[1] == _NLMSG_ERROR:
        offset += 16  # the header of the message that failed
        if not flags & _NLM_F_CAPPED:
            offset += ((_U32.unpack_from(message, 20)[0] + 3) & ~3) - 16
    return number, _text(attributes(message, offset).get(1, b""))


class Names(t.Protocol):
    """A mapping from interface index to device name. The readers below show an index that it lacks as a number."""

    def get(self, index: int, default: str) -> str: ...


class DeviceNames:
    """The names of a namespace's devices by index, each read when it is first needed (SIOCGIFNAME, netdevice(7)).

    A dump of 1,000 links takes the kernel ten times as long as reading their names.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._known: dict[int, str] = {}

    def get(self, index: int, default: str) -> str:
        name = self._known.get(index)
        if name is None:
            name = device_name(self._channel.handle(), index)
            if name is None:
                return default
            self._known[index] = name
        return name


def device_name(any_socket: int, index: int) -> t.Optional[str]:
    """Return the name of the device with this index, or None if it does not exist or cannot be read.

    `any_socket` is the file descriptor of any socket in the device's namespace.
    """
    try:
        answer = fcntl.ioctl(any_socket, _SIOCGIFNAME, _IFREQ.pack(b"", index))
    except OSError:
        return None
    return _text(_IFREQ.unpack(answer)[0])


_SIOCGIFNAME, _SIOCGIFINDEX = 0x8910, 0x8933
_IFREQ = struct.Struct("=16si20x")


# ---- routes


def dump_routes(
    channel: Channel,
    names: Names,
    table: t.Optional[int] = None,
    protocol: t.Optional[int] = None,
    family: int = 4,
) -> list[port.KernelRoute]:
    """Return the routes of one IP version (4 or 6) with this table and protocol number; None matches any.

    The result is [] for a table that was never written. Routes with a TOS and entries of a cache are left out.
    """
    wanted = socket.AF_INET6 if family == 6 else socket.AF_INET
    body = RTMSG.pack(wanted, 0, 0, 0, table if table and table < 256 else 0, protocol or 0, 0, 0, 0)
    if table is not None:
        body += attribute(15, _U32.pack(table))
    # Most routes differ from others only in their destination, which has a fixed place: the rest is decoded once.
    known: dict[bytes, t.Optional[tuple[str, port.RouteAttributes]]] = {}
    head, end = _DESTINATIONS[wanted], 40 + _SIZES[wanted]

    def decode(message: bytes) -> t.Optional[port.KernelRoute]:
        if message[36:40] == head:
            shape = message[16:40] + message[end:]
            destination = message[40:end]
        else:
            shape = message[16:]
            destination = attributes(message, 28).get(1, bytes(_SIZES[wanted]))
        try:
            entry = known[shape]
        except KeyError:
            entry = known[shape] = _decode_route(message, names, table, protocol, wanted)
        return None if entry is None else (_TEXT[wanted](destination) + entry[0], entry[1])

    try:
        decoded = channel.dump_decoded(RTM_GETROUTE, body, "list routes", decode)
    except port.KernelError as error:
        if error.errno == errno.ENOENT and table is not None:  # This table was never written.
            return []
        raise
    return [route for route in decoded if route is not None]


_SIZES: dict[int, int] = {socket.AF_INET: 4, socket.AF_INET6: 16}  # bytes of an address
_DESTINATIONS = {family: _ATTRIBUTE.pack(4 + size, 1) for family, size in _SIZES.items()}
_TEXT: dict[int, t.Callable[[bytes], str]] = {
    socket.AF_INET: socket.inet_ntoa,
    socket.AF_INET6: lambda data: socket.inet_ntop(socket.AF_INET6, data),
}


def _decode_route(
    message: bytes, names: Names, table: t.Optional[int], protocol: t.Optional[int], wanted: int
) -> t.Optional[tuple[str, port.RouteAttributes]]:
    """Return (prefix length as `/32`, attributes) of a route, or None for one that was not requested.

    `wanted` is AF_INET or AF_INET6. Routes with a TOS and entries of a cache count as not requested.
    """
    family, bits, _source, tos, table_, protocol_, scope, kind, flags = RTMSG.unpack_from(message, 16)
    found = attributes(message, 28)
    if 15 in found:
        table_ = _U32.unpack(found[15])[0]
    if family != wanted or tos or flags & 0x200:  # RTM_F_CLONED: a cache entry
        return None
    if (table is not None and table_ != table) or (protocol is not None and protocol_ != protocol):
        return None
    index = _U32.unpack(found[4])[0] if 4 in found else 0
    if family == socket.AF_INET6 and kind in _NOWHERE:
        index = 0  # no device: the kernel names lo for such IPv6 routes
    metrics = attributes(found[8], 0) if 8 in found else {}
    route = port.RouteAttributes(
        type=ROUTE_TYPES.get(kind, str(kind)),
        device=names.get(index, str(index)) if index else None,
        gateway=_gateway_text(found),
        onlink=bool(flags & _RTNH_F_ONLINK),
        mtu=_U32.unpack(metrics[2])[0] if 2 in metrics else None,
        table=table_,
        protocol=protocol_,
        scope=scope,
        metric=_U32.unpack(found[6])[0] if 6 in found else 0,
        source=address_text(found[7]) if 7 in found else None,
    )
    several = _decode_next_hops(found[9], names) if 9 in found else ()
    return f"/{bits}", route.over(several) if several else route


def _decode_next_hops(data: bytes, names: Names) -> list[port.NextHop]:
    """Return the next hops in RTA_MULTIPATH (struct rtnexthop, linux/rtnetlink.h); a broken end is left out."""
    found: list[port.NextHop] = []
    offset = 0
    while offset + _RTNH.size <= len(data):
        length, flags, weight, index = _RTNH.unpack_from(data, offset)
        if length < _RTNH.size:
            break
        gateway = _gateway_text(attributes(data[offset : offset + length], _RTNH.size))
        device = names.get(index, str(index)) if index else None
        found.append(port.NextHop(device, gateway, bool(flags & _RTNH_F_ONLINK), weight + 1))
        offset += (length + 3) & ~3
    return found


def _encode_next_hops(
    next_hops: t.Iterable[port.NextHop], indexes: t.Mapping[str, int], family: int
) -> t.Optional[bytes]:
    """Return RTA_MULTIPATH of a route of address family `family`, or None if a device has no index."""
    parts = []
    for hop in next_hops:
        index = indexes.get(hop.device, -1) if hop.device is not None else 0
        if index < 0:
            return None
        gateway = _gateway_attribute(hop.gateway, family) if hop.gateway is not None else b""
        flags = _RTNH_F_ONLINK if hop.onlink else 0
        parts.append(_RTNH.pack(_RTNH.size + len(gateway), flags, hop.weight - 1, index) + gateway)
    return attribute(9, b"".join(parts))


_RTNH = struct.Struct("=HBBi")
#: The numbers of route types without a device: blackhole, unreachable, prohibit, throw.
_NOWHERE = frozenset({6, 7, 8, 9})


@readable("look up a route")
def get_route(channel: Channel, names: Names, address: str) -> t.Optional[port.RouteAttributes]:
    """Return the type, device and gateway that the kernel chooses for a packet to `address`; None if unreachable.

    Raise OSError if `address` is not an address.
    """
    family = af_of(address)
    body = RTMSG.pack(family, 8 * _SIZES[family], 0, 0, 0, 0, 0, 0, 0) + attribute(1, packed_address(address))
    try:
        answer = channel.get(RTM_GETROUTE, body, f"look up the route to {address}")
    except port.KernelError as error:
        # The errors of blackhole, unreachable, prohibit and throw routes, and of a missing route.
        if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EINVAL, errno.EAGAIN):
            return None
        raise
    *_head, kind, _flags = RTMSG.unpack_from(answer)
    found = attributes(answer, 12)
    index = _U32.unpack(found[4])[0] if 4 in found else 0
    return port.RouteAttributes(
        type=ROUTE_TYPES.get(kind, str(kind)),
        device=names.get(index, str(index)) if index else None,
        gateway=_gateway_text(found),
    )


def _gateway_text(hop: t.Mapping[int, bytes]) -> t.Optional[str]:
    """Return the gateway in the attributes of a route or next hop, None without one.

    A gateway of another IP version than the destination's is in RTA_VIA, behind two bytes of address family.
    """
    data = hop[5] if 5 in hop else hop.get(18, b"")[2:]
    return address_text(data) or None


def _gateway_attribute(gateway: str, family: int) -> bytes:
    """Return the attribute for the gateway of a route whose destination is of address family `family`.

    It is RTA_VIA if the gateway is of the other family: the kernel accepts IPv6 gateways of IPv4 routes (RFC 8950).
    """
    data, own = packed_address(gateway), af_of(gateway)
    return attribute(5, data) if own == family else attribute(18, _RTVIA.pack(own) + data)


_ROUTE_ACTIONS = {
    "add": (RTM_NEWROUTE, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL),
    "replace": (RTM_NEWROUTE, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE),
    "delete": (RTM_DELROUTE, NLM_F_REQUEST),
}


def write_routes(
    channel: Channel, indexes: t.Mapping[str, int], operations: t.Sequence[port.RouteOperation]
) -> list[port.RouteFailure]:
    """Make these route operations in order; return those that failed, in the order of their positions.

    `indexes` maps device names to indexes; an operation on a device without one fails with ENODEV (a delete: ESRCH).
    What `route_message` raises for any other reason is raised before the first is made. When KernelError is raised,
    some may have been made.
    """
    templates: dict[tuple[str, port.RouteAttributes, str, int], t.Optional[tuple[bytes, bytes, bytes]]] = {}
    failures: list[port.RouteFailure] = []
    messages: list[tuple[bytes, ...]] = []
    positions: list[int] = []
    append, note = messages.append, positions.append
    last_attributes: t.Optional[port.RouteAttributes] = None
    last_action = last_bits = ""
    last_family = 0
    template: t.Optional[tuple[bytes, bytes, bytes]] = None
    for position, (action, destination, wanted) in enumerate(operations):
        address, _slash, bits = destination.partition("/")
        # Adjacent routes often share their attributes; comparing by identity first saves hashing them.
        family = af_of(address)
        if wanted is not last_attributes or bits != last_bits or action != last_action or family != last_family:
            key = (action, wanted, bits, family)
            if key in templates:
                template = templates[key]
            else:
                template = templates[key] = _encode_route(action, wanted, int(bits), indexes, family)
            last_attributes, last_bits, last_action, last_family = wanted, bits, action, family
        if template is None:
            number = errno.ESRCH if action == "delete" else errno.ENODEV
            missing = next((hop.device for hop in wanted.next_hops if hop.device not in indexes), wanted.device)
            error = port.KernelError(number, f"{action} route {destination}", f"there is no device {missing}")
            failures.append(port.RouteFailure(position, error))
            continue
        append((template[0], template[1], packed_address(address), template[2]))
        note(position)
    for index, number, extack in channel.batch(messages, "write routes"):
        position = positions[index]
        operation = operations[position]
        words = f"{operation.action} route {operation.destination}"
        failures.append(port.RouteFailure(position, port.KernelError(number, words, extack)))
    failures.sort(key=lambda failure: failure.position)
    return failures


def route_message(operation: port.RouteOperation, indexes: t.Mapping[str, int]) -> tuple[int, int, bytes]:
    """Return type, flags (without NLM_F_REQUEST) and body of the message for one route operation.

    Raise KeyError if its device is not in `indexes`, or its action or route type is unknown. Raise OSError for an
    invalid address, and ValueError for a destination without a prefix length.
    """
    address, _slash, bits = operation.destination.partition("/")
    template = _encode_route(operation.action, operation.attributes, int(bits), indexes, af_of(address))
    if template is None:
        raise KeyError(operation.attributes.device)
    kind, flags = _ROUTE_ACTIONS[operation.action]
    return kind, flags & ~NLM_F_REQUEST, template[1][4:] + packed_address(address) + template[2]


def _encode_route(
    action: str, wanted: port.RouteAttributes, bits: int, indexes: t.Mapping[str, int], family: int
) -> t.Optional[tuple[bytes, bytes, bytes]]:
    """Return the message in three parts, or None if the route's device has no index.

    The sequence number belongs behind the first part, the destination behind the second.
    """
    kind, flags = _ROUTE_ACTIONS[action]
    rest = b""
    if wanted.multipath:
        several = _encode_next_hops(wanted.multipath, indexes, family)
        if several is None:
            return None
        rest += several
    elif wanted.device is not None:
        index = indexes.get(wanted.device)
        if index is None:
            return None
        rest += attribute(4, _U32.pack(index))
    if wanted.gateway is not None and not wanted.multipath:
        rest += _gateway_attribute(wanted.gateway, family)
    if wanted.metric:
        rest += attribute(6, _U32.pack(wanted.metric))
    if wanted.source is not None:
        rest += attribute(7, packed_address(wanted.source))
    if wanted.mtu is not None and action != "delete":
        rest += attribute(8, attribute(2, _U32.pack(wanted.mtu)))
    rest += attribute(15, _U32.pack(wanted.table))
    message = RTMSG.pack(
        family,
        bits,
        0,
        0,
        wanted.table if wanted.table < 256 else 0,
        wanted.protocol,
        wanted.scope,
        _ROUTE_TYPE_NUMBERS[wanted.type],
        _RTNH_F_ONLINK if wanted.onlink and action != "delete" and not wanted.multipath else 0,
    )
    length = 16 + len(message) + 4 + _SIZES[family] + len(rest)
    head = struct.pack("=IHH", length, kind, flags)
    return head, bytes(4) + message + _DESTINATIONS[family], rest


# ---- links

_BRIEF = attribute(29, _U32.pack(8))  # IFLA_EXT_MASK: RTEXT_FILTER_SKIP_STATS
#: The body of a request for all devices, without counters of packets.
EVERY_LINK = IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + _BRIEF


def dump_indexes(channel: Channel) -> dict[str, int]:
    """Return a mapping from name to index of all devices."""
    return dict(channel.dump_decoded(RTM_GETLINK, EVERY_LINK, "list links", _index))


def _index(message: bytes) -> tuple[str, int]:
    return link_name(message), IFINFO.unpack_from(message, 16)[2]


def link_name(message: bytes) -> str:
    """Return the device's name in a message about it, which begins with netlink's header."""
    length, kind = _ATTRIBUTE.unpack_from(message, 32)  # The name is usually the first attribute.
    return _text(message[36 : 32 + length] if kind == 3 else attributes(message, 32).get(3, b""))


def dump_links(channel: Channel, kind: t.Optional[str] = None) -> list[port.Link]:
    """Return all devices, or those of one kind (such as `vxlan`)."""
    body = EVERY_LINK
    if kind is not None:
        body += attribute(18, attribute(1, kind.encode() + b"\0"))
    links = channel.dump_decoded(RTM_GETLINK, body, "list links", lambda message: _decode_link(message[16:]))
    return [link for link in links if kind in (None, link.kind)]


@readable("look up a link")
def get_link(channel: Channel, name: str) -> t.Optional[port.Link]:
    """Return the device with this name, or None if there is none or no device can have it."""
    if not 0 < len(name.encode()) < 16:
        return None
    body = IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + attribute(3, name.encode() + b"\0")
    try:
        return _decode_link(channel.get(RTM_GETLINK, body + _BRIEF, f"look up link {name}"))
    except port.KernelError as error:
        if error.errno == errno.ENODEV:
            return None
        raise


def get_index(channel: Channel, name: str) -> t.Optional[int]:
    """Return the index of the device with this name, or None if there is none.

    This is one system call (SIOCGIFINDEX, netdevice(7)). A write needs no more of a device than its index.
    """
    if not 0 < len(name.encode()) < 16:
        return None
    try:
        answer = fcntl.ioctl(channel.handle(), _SIOCGIFINDEX, _IFREQ.pack(name.encode(), 0))
    except OSError as error:
        if error.errno == errno.ENODEV:
            return None
        raise port.KernelError(error.errno or errno.EIO, f"look up link {name}") from error
    return t.cast(int, _IFREQ.unpack(answer)[1])


def _decode_link(body: bytes) -> port.Link:
    _family, _type, index, flags, _change = IFINFO.unpack_from(body)
    found = attributes(body, 16)
    info = attributes(found[18], 0) if 18 in found else {}
    kind = _text(info.get(1, b""))
    data = attributes(info[2], 0) if 2 in info else {}
    vni = vxlan_port = local = None
    learning = external = False
    if kind == "vxlan":
        vni = _U32.unpack(data[1])[0] if 1 in data else None
        vxlan_port = struct.unpack("!H", data[15])[0] if 15 in data else None
        local = next((address_text(data[kind]) for kind in (4, 17) if kind in data), None)  # IFLA_VXLAN_LOCAL, _LOCAL6
        learning = bool(data.get(7, b"\0")[0])
        external = bool(data.get(25, b"\0")[0])
    elif kind == "ipip":
        local = socket.inet_ntoa(data[2]) if len(data.get(2, b"")) == 4 and any(data[2]) else None
    return port.Link(
        open_settings=_open_settings(found[26]) if 26 in found else (),  # IFLA_AF_SPEC
        name=_text(found.get(3, b"")),
        index=index,
        kind=kind,
        mtu=_U32.unpack(found[4])[0] if 4 in found else 0,
        mac=_mac(found.get(1, b"")),
        up=bool(flags & _IFF_UP),
        running=bool(flags & _IFF_RUNNING),
        alias=_text(found.get(20, b"")),
        peer_index=_U32.unpack(found[5])[0] if 5 in found and kind == "veth" else 0,
        peer_elsewhere=37 in found,
        vni=vni,
        port=vxlan_port,
        local=local,
        learning=learning,
        external=external,
    )


#: {family: (number of its attribute, {position, from 0, in the attribute's array of settings: name})}. Numbers in
#: linux/ip.h are one more than the position, those in linux/ipv6.h are the position. See hardening.py.
_SETTINGS: t.Mapping[int, tuple[int, t.Mapping[int, str]]] = {
    socket.AF_INET: (
        1,
        {
            22: "ipv4/accept_local",
            3: "ipv4/accept_redirects",
            8: "ipv4/accept_source_route",
            20: "ipv4/arp_accept",
            31: "ipv4/bc_forwarding",
            25: "ipv4/route_localnet",
        },
    ),
    socket.AF_INET6: (
        2,
        {
            3: "ipv6/accept_ra",
            4: "ipv6/accept_redirects",
            24: "ipv6/accept_source_route",
            57: "ipv6/accept_untracked_na",
            5: "ipv6/autoconf",
            53: "ipv6/ioam6_enabled",
            51: "ipv6/rpl_seg_enabled",
            44: "ipv6/seg6_enabled",
        },
    ),
}


def _open_settings(data: bytes) -> tuple[tuple[str, int], ...]:
    """Return (name, value) of the hardening.SETTINGS that are above 0 in this IFLA_AF_SPEC attribute."""
    found = []
    families = attributes(data, 0)
    for family, (kind, names) in _SETTINGS.items():
        values = attributes(families[family], 0).get(kind, b"") if family in families else b""
        for position, name in names.items():
            if 4 * position + 4 <= len(values):
                value = _I32.unpack_from(values, 4 * position)[0]
                if value > 0:
                    found.append((name, value))
    return tuple(found)


# ---- addresses, neighbours, forwarding entries, rules


@readable("list addresses")
def dump_addresses(channel: Channel, names: Names, index: int = 0, family: int = 4) -> list[port.InterfaceAddress]:
    """Return the addresses of one IP version (4 or 6) of the device with this index, or of all devices for 0."""
    wanted = socket.AF_INET6 if family == 6 else socket.AF_INET
    found: list[port.InterfaceAddress] = []
    messages: list[bytes] = []
    with port.passing_over(errno.ENODEV):
        messages = channel.dump(RTM_GETADDR, _IFADDR.pack(wanted, 0, 0, 0, index), "list addresses")
    for message in messages:
        found_family, bits, flags, scope, index_ = _IFADDR.unpack_from(message, 16)
        data = attributes(message, 24)
        local = data.get(2) or data.get(1)
        if found_family == wanted and local and index in (0, index_):
            permanent = bool(flags & _IFA_F_PERMANENT)
            found.append(
                port.InterfaceAddress(names.get(index_, str(index_)), address_text(local), bits, scope, permanent)
            )
    return found


@readable("list neighbours")
def dump_neighbors(channel: Channel, device: str, index: int) -> list[port.NeighborEntry]:
    found: list[port.NeighborEntry] = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for index_, state, data in _dump_ndmsg(channel, family, index, "list neighbours"):
            address, mac = address_text(data.get(1, b"")), data.get(2, b"")
            if index_ == index and address and len(mac) == 6 and not state & _NUD_NOARP:
                found.append(port.NeighborEntry(device, address, _mac(mac), bool(state & NUD_PERMANENT)))
    return found


@readable("list forwarding entries")
def dump_fdb(channel: Channel, device: str, index: int) -> list[port.ForwardingEntry]:
    found: list[port.ForwardingEntry] = []
    for index_, state, data in _dump_ndmsg(channel, AF_BRIDGE, index, "list forwarding entries"):
        if index_ == index and len(data.get(2, b"")) == 6:
            destination = address_text(data.get(1, b""))
            permanent = bool(state & NUD_PERMANENT)
            via = _U32.unpack(data[8])[0] if 8 in data else 0
            found.append(port.ForwardingEntry(device, _mac(data[2]), destination, permanent, via))
    return found


def _dump_ndmsg(
    channel: Channel, family: int, index: int, operation: str
) -> t.Iterator[tuple[int, int, dict[int, bytes]]]:
    body = _NDMSG.pack(family, 0, 0, 0, 0) + attribute(8, _U32.pack(index))
    for message in channel.dump(RTM_GETNEIGH, body, operation):
        family_, index_, state, _flags, _type = _NDMSG.unpack_from(message, 16)
        if family_ == family:
            yield index_, state, attributes(message, 28)


#: Attributes that a plain rule may have; any other one is a further selector or action.
#: interface, priority, mark, suppress_prefixlength (-1), table, mask, protocol
_PLAIN_RULE = {3, 6, 10, 14, 15, 16, 21}


@readable("list rules")
def dump_rules(channel: Channel, family: int = 4) -> list[port.RuleEntry]:
    """Return the policy routing rules of one IP version (4 or 6); [] if the kernel lacks IPv6."""
    wanted = socket.AF_INET6 if family == 6 else socket.AF_INET
    found: list[port.RuleEntry] = []
    messages: list[bytes] = []
    with port.passing_over(*((errno.EAFNOSUPPORT,) if family == 6 else ())):  # A kernel without IPv6.
        messages = channel.dump(RTM_GETRULE, _RULE.pack(wanted, 0, 0, 0, 0, 0, 0), "list rules")
    for message in messages:
        family_, _dst, bits, tos, table, action, flags = _RULE.unpack_from(message, 16)
        if family_ != wanted:
            continue
        data = attributes(message, 28)
        plain = set(data) <= _PLAIN_RULE and action == 1 and not flags & 0x2  # FIB_RULE_INVERT
        plain = plain and data.get(14, b"\xff\xff\xff\xff") == b"\xff\xff\xff\xff"
        mark = _U32.unpack(data[10])[0] if 10 in data else 0
        found.append(
            port.RuleEntry(
                priority=_U32.unpack(data[6])[0] if 6 in data else 0,
                table=_U32.unpack(data[15])[0] if 15 in data else table,
                fwmark=mark,
                fwmask=_U32.unpack(data[16])[0] if 16 in data else 0,
                protocol=data[21][0] if data.get(21) else 0,
                plain=plain,
                family=family,
                source=address_text(data[2]) if 2 in data and bits == 8 * _SIZES[wanted] else "",
                interface=_text(data[3]) if 3 in data else "",
                tos=tos,
            )
        )
    return found
