# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rtnetlink messages byte by byte, interrupted dumps, and a socket that loses messages."""

from __future__ import annotations

import errno
import socket
import struct

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import rtnetlink
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    KernelError,
    NextHop,
    RouteAttributes,
    RouteOperation,
)

HEADER = struct.Struct("=IHHII")
DONE, ERROR = 3, 2


def message(kind, flags, sequence, body=b""):
    return HEADER.pack(16 + len(body), kind, flags, sequence, 0) + body


def route_message(destination, index, sequence, flags=2):
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, 32, 0, 0, 254, 179, 253, 1, 0)
    body += struct.pack("=HHI", 8, 15, 254)
    body += struct.pack("=HH4s", 8, 1, socket.inet_aton(destination))
    body += struct.pack("=HHI", 8, 4, index)
    return message(rtnetlink.RTM_NEWROUTE, flags, sequence, body)


class Wire:
    """A substitute for a netlink socket. `script` has a list of answers for each request.

    An answer is bytes, an OSError that recv_into raises, or a function of the request's sequence number.
    """

    def __init__(self, script):
        self.script = script
        self.sent = []
        self.answers = []
        self.closed = False

    def send(self, data):
        self.sent.append(data)
        sequence = HEADER.unpack_from(data)[3]
        self.answers = [
            answer(sequence) if callable(answer) else answer for answer in (self.script.pop(0) if self.script else [])
        ]

    def recv_into(self, room):
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        room[: len(answer)] = answer
        return len(answer)

    def close(self):
        self.closed = True


def channel(*scripts):
    """Return a channel and its sockets, a Wire for each script: each is used after the one before was closed.

    The channel raises StopIteration when it needs one more.
    """
    wires = [Wire(script) for script in scripts]
    waiting = iter(wires)
    return rtnetlink.Channel(lambda: next(waiting)), wires


def done(sequence):
    return message(DONE, 2, sequence, struct.pack("=i", 0))


def test_routes_are_packed_as_rtnetlink_says():
    made, wires = channel([[lambda sequence: message(ERROR, 0, 1, struct.pack("=i", 0) + bytes(16))]])
    wanted = RouteAttributes(gateway="10.10.1.12", device="tunl0", onlink=True, mtu=1480, protocol=179)
    assert rtnetlink.write_routes(made, {"tunl0": 7}, [RouteOperation("replace", "10.244.2.0/26", wanted)]) == []
    assert (
        wires[0].sent
        == [
            bytes.fromhex(
                "48000000"  # length 72
                "1800"  # RTM_NEWROUTE
                "0505"  # REQUEST, ACK (the last one of the batch), REPLACE, CREATE
                "01000000"  # sequence
                "00000000"
                "021a0000" + "feb30001"  # inet, /26, table main, protocol 179, universe, unicast
                "04000000"  # onlink
                "08000100" + "0af40200"  # RTA_DST
                "08000400" + "07000000"  # RTA_OIF
                "08000500" + "0a0a010c"  # RTA_GATEWAY
                "0c000800" + "08000200c8050000"  # RTA_METRICS: RTAX_MTU 1480
                "08000f00" + "fe000000"  # RTA_TABLE
            )
        ]
    )


def test_an_ipv6_gateway_of_an_ipv4_route_is_packed_with_its_family():
    wanted = RouteAttributes(gateway="fe80::12", device="eth0", protocol=179)
    _kind, _flags, body = rtnetlink.route_message(RouteOperation("add", "10.244.2.0/26", wanted), {"eth0": 7})
    assert (
        body
        == bytes.fromhex(
            "021a0000" + "feb30001"  # inet, /26, table main, protocol 179, universe, unicast
            "00000000"
            "08000100" + "0af40200"  # RTA_DST
            "08000400" + "07000000"  # RTA_OIF
            "16001200" + "0a00" + "fe800000000000000000000000000012" + "0000"  # RTA_VIA: AF_INET6, address; padding
            "08000f00" + "fe000000"  # RTA_TABLE
        )
    )


def test_several_next_hops_are_packed_as_rtnexthop():
    wanted = RouteAttributes(protocol=12).over([NextHop("eth0", "10.10.1.2"), NextHop("tunl0", "10.10.3.2", True, 3)])
    indexes = {"eth0": 7, "tunl0": 8}
    _kind, _flags, body = rtnetlink.route_message(RouteOperation("add", "10.244.2.0/26", wanted), indexes)
    assert (
        body
        == bytes.fromhex(
            "021a0000" + "fe0c0001"  # inet, /26, table main, protocol 12, universe, unicast
            "00000000"
            "08000100" + "0af40200"  # RTA_DST
            "24000900"  # RTA_MULTIPATH
            "10000000" + "07000000" + "08000500" + "0a0a0102"  # rtnexthop: length 16, device 7; RTA_GATEWAY
            "10000402" + "08000000" + "08000500" + "0a0a0302"  # onlink, weight 3 (written as 2), device 8
            "08000f00" + "fe000000"  # RTA_TABLE
        )
    )


@pytest.mark.parametrize("cut", range(1, 16))
def test_the_broken_end_of_next_hops_is_left_out(cut):
    hop = struct.pack("=HBBi", 16, 0, 0, 7) + struct.pack("=HH4s", 8, 5, socket.inet_aton("10.10.1.2"))
    data = struct.pack("=HH", 4 + len(hop) * 2 - cut, 9) + (hop + hop)[:-cut]
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, 32, 0, 0, 254, 12, 0, 1, 0)
    body += struct.pack("=HH4s", 8, 1, socket.inet_aton("10.0.0.1"))
    made, _wires = channel([[lambda s: message(rtnetlink.RTM_NEWROUTE, 2, s, body + data), done]])
    ((destination, found),) = rtnetlink.dump_routes(made, {7: "eth0"})
    assert (destination, found.next_hops[0]) == ("10.0.0.1/32", NextHop("eth0", "10.10.1.2"))


def test_only_the_last_of_each_400_asks_for_an_answer():
    def acknowledged(last):
        return [message(ERROR, 0, last, struct.pack("=i", 0) + bytes(16))]

    made, wires = channel([acknowledged(400), acknowledged(400), acknowledged(5)])
    operations = [
        RouteOperation("add", f"10.0.{n >> 8}.{n & 255}/32", RouteAttributes(device="a", scope=253)) for n in range(805)
    ]
    assert rtnetlink.write_routes(made, {"a": 1}, operations) == []
    flags = []
    for data in wires[0].sent:
        offset, found = 0, []
        while offset < len(data):
            length, _kind, flag, sequence, _port = HEADER.unpack_from(data, offset)
            found.append((sequence, bool(flag & 4)))
            offset += length
        flags.append(found)
    assert [len(found) for found in flags] == [400, 400, 5]
    assert all([number for number, _ack in found] == list(range(1, len(found) + 1)) for found in flags)
    assert [[number for number, ack in found if ack] for found in flags] == [[400], [400], [5]]


def test_refusals_are_attributed_to_their_route_with_the_kernels_words():
    words = b"Nexthop has invalid gateway\0"
    extack = struct.pack("=HH", 4 + len(words), 1) + words

    def refused(sequence, number, tail=b"", flags=0x100):
        return message(ERROR, flags, sequence, struct.pack("=i", -number) + bytes(16) + tail)

    answers = [
        refused(2, errno.EEXIST) + bytes(0),
        refused(3, errno.ENETUNREACH, extack, 0x300),
        message(ERROR, 0x100, 4, struct.pack("=i", 0) + bytes(16)),
    ]
    made, _wires = channel([answers])
    operations = [RouteOperation("add", f"10.0.0.{n}/32", RouteAttributes(device="a")) for n in range(4)]
    operations.insert(1, RouteOperation("add", "10.0.1.0/32", RouteAttributes(device="gone")))
    failures = rtnetlink.write_routes(made, {"a": 1}, operations)
    assert [(failure.position, str(failure.error)) for failure in failures] == [
        (1, "add route 10.0.1.0/32: No such device (there is no device gone)"),
        (2, "add route 10.0.0.1/32: File exists"),
        (3, "add route 10.0.0.2/32: Network is unreachable (Nexthop has invalid gateway)"),
    ]


def test_an_interrupted_dump_is_repeated():
    made, wires = channel(
        [
            [lambda s: route_message("10.0.0.1", 5, s, flags=0x12), done],
            [lambda s: route_message("10.0.0.1", 5, s) + route_message("10.0.0.2", 5, s), done],
        ]
    )
    found = rtnetlink.dump_routes(made, {5: "eth0"})
    wanted = RouteAttributes(device="eth0", protocol=179, scope=253)
    assert found == [("10.0.0.1/32", wanted), ("10.0.0.2/32", wanted)]
    assert len(wires[0].sent) == 2


def test_a_dump_that_is_always_interrupted_ends_in_words():
    made, _wires = channel([[lambda s: route_message("10.0.0.1", 5, s, flags=0x12), done]] * 10)
    with pytest.raises(KernelError) as caught:
        rtnetlink.dump_routes(made, {})
    assert str(caught.value) == "list routes: Interrupted system call (the tables changed during each of 10 dumps)"


def test_lost_messages_open_a_new_socket_and_dump_again():
    made, wires = channel(
        [[lambda s: route_message("10.0.0.1", 5, s), OSError(errno.ENOBUFS, "No buffer space available")]],
        [[lambda s: route_message("10.0.0.9", 5, s), done]],
    )
    assert [destination for destination, _rest in rtnetlink.dump_routes(made, {})] == ["10.0.0.9/32"]
    assert wires[0].closed


def test_answers_to_an_earlier_request_are_passed_over():
    made, _wires = channel(
        [[lambda s: route_message("10.0.0.1", 5, s + 99), lambda s: route_message("10.0.0.2", 5, s), done]]
    )
    assert [destination for destination, _rest in rtnetlink.dump_routes(made, {})] == ["10.0.0.2/32"]


def test_an_unanswered_request_ends_in_words():
    made, wires = channel([[BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")]])
    with pytest.raises(KernelError) as caught:
        rtnetlink.dump_links(made)
    assert str(caught.value) == "list links: Connection timed out (no answer within 20 s)"
    assert wires[0].closed


@pytest.mark.parametrize(
    "ask",
    [
        lambda made: made.request(rtnetlink.RTM_NEWLINK, 0, b"", "ask"),
        lambda made: made.get(rtnetlink.RTM_GETLINK, b"", "ask"),
        lambda made: made.dump(rtnetlink.RTM_GETLINK, b"", "ask"),
        lambda made: list(made.each(rtnetlink.RTM_GETLINK, b"", "ask")),
        lambda made: made.batch([rtnetlink.parts(rtnetlink.RTM_NEWLINK, 0, b"")], "ask"),
    ],
    ids=["request", "get", "dump", "each", "batch"],
)
def test_a_request_that_cannot_be_sent_ends_in_words(ask):
    made, wires = channel([], [[done]])

    def refuse(_data):
        raise OSError(errno.EPERM, "Operation not permitted")

    wires[0].send = refuse
    with pytest.raises(KernelError) as caught:
        ask(made)
    assert (caught.value.errno, str(caught.value)) == (errno.EPERM, "ask: Operation not permitted")
    assert wires[0].closed
    assert made.dump(rtnetlink.RTM_GETLINK, b"", "ask") == []  # on a new socket


def test_old_kernels_that_do_not_filter_are_filtered_here():
    made, _wires = channel([[lambda s: route_message("10.0.0.1", 5, s), done]] * 2)
    assert rtnetlink.dump_routes(made, {}, protocol=12) == []
    assert len(rtnetlink.dump_routes(made, {}, protocol=179)) == 1


def test_a_kernel_without_ipv6_has_none_of_it():
    """Without IPv6 in the kernel, there are no IPv6 routes and rules, and no error.

    Such a kernel answers a request for IPv6 routes with those of other families, and refuses one for IPv6 rules.
    """

    def unsupported(sequence):
        return message(ERROR, 0, sequence, struct.pack("=i", -errno.EAFNOSUPPORT) + bytes(16))

    made, _wires = channel([[lambda s: route_message("10.0.0.1", 5, s), done], [unsupported], [unsupported]])
    assert rtnetlink.dump_routes(made, {}, family=6) == []
    assert rtnetlink.dump_rules(made, 6) == []
    with pytest.raises(KernelError, match="list rules: Address family not supported by protocol"):
        rtnetlink.dump_rules(made, 4)


def test_routes_of_ipv6_are_packed_with_their_own_destination():
    made, wires = channel([[lambda sequence: message(ERROR, 0, 1, struct.pack("=i", 0) + bytes(16))]])
    wanted = RouteAttributes(gateway="fe80::1", device="v6", onlink=True, metric=1024, protocol=179)
    assert rtnetlink.write_routes(made, {"v6": 7}, [RouteOperation("add", "fd00::40/122", wanted)]) == []
    assert (
        wires[0].sent[0][16:48]
        == bytes.fromhex(
            "0a7a0000" + "feb30001" + "04000000"  # inet6, /122, table main, protocol 179, universe, unicast, onlink
            "14000100" + "fd000000000000000000000000000040"  # RTA_DST
        )
    )


def test_a_message_that_cannot_be_decoded_costs_the_socket_and_not_the_next_dump():
    made, wires = channel(
        [[lambda s: route_message("10.0.0.1", 5, s), done]],
        [[lambda s: route_message("10.0.0.9", 5, s), done]],
    )
    with pytest.raises(ZeroDivisionError):
        made.dump_decoded(rtnetlink.RTM_GETROUTE, b"", "list routes", lambda message: len(message) // 0)
    assert wires[0].closed
    assert [destination for destination, _rest in rtnetlink.dump_routes(made, {})] == ["10.0.0.9/32"]
