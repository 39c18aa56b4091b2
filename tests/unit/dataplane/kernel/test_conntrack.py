# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tracked connections that are deleted for an address, and kernels that track nothing or cannot filter."""

from __future__ import annotations

import errno
import socket
import struct

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import conntrack, rtnetlink
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    ConnectionFilter,
    KernelError,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.kernel.test_rtnetlink import ERROR, channel, done, message


def attribute(kind, data):
    return struct.pack("=HH", len(data) + 4, kind) + data + bytes(-len(data) % 4)


def ends(kind, source, destination):
    ip = attribute(1, socket.inet_aton(source)) + attribute(2, socket.inet_aton(destination))
    return attribute(0x8000 | kind, attribute(0x8001, ip) + attribute(0x8002, attribute(1, b"\x06")))


def connection(number, source, destination, answering=None, back_to=None):
    """Return the (body, name) of a connection as the kernel lists it.

    Both are bytes; `name` identifies the connection in a message. `number` is its id. `answering` and `back_to` are
    source and destination of the reply, where NAT changed them.
    """
    original = ends(1, source, destination)
    body = bytes([2, 0, 0, 0]) + original + ends(2, answering or destination, back_to or source)
    body += attribute(12, struct.pack("!I", number))
    return body, original + attribute(12, struct.pack("!I", number))


OUT = connection(1, "10.244.1.5", "192.0.2.9")
IN = connection(2, "192.0.2.9", "10.244.1.5")
FORWARDED = connection(3, "192.0.2.9", "203.0.113.1", answering="10.244.1.5")
OTHER = connection(4, "10.244.1.6", "192.0.2.9")


def listed(*connections):
    return [*(lambda s, body=body: message(0x100, 2, s, body) for body, _name in connections), done]


def counted(number):
    """Return a Wire's answers to a request for the number of connections: the number, and an acknowledgement."""
    body = bytes(4) + attribute(2, struct.pack("!I", 1 << 18)) + attribute(1, struct.pack("!I", number))
    return [lambda s: message(0x105, 0, s, body) + message(ERROR, 0, s, struct.pack("=i", 0) + bytes(16))]


MANY = counted(1000)


def refused(number):
    return [lambda s: message(ERROR, 0, s, struct.pack("=i", -number) + bytes(16))]


def acknowledged(last, *failed):
    answers = [message(ERROR, 0, at, struct.pack("=i", -number) + bytes(16)) for at, number in failed]
    return [*answers, message(ERROR, 0, last, struct.pack("=i", 0) + bytes(16))]


def deleted(data):
    return named(data, 0x102)


def named(data, wanted):
    """Return the part of each message of a batch that names a connection. Assert that all have the type `wanted`."""
    found, offset = [], 0
    while offset < len(data):
        length, kind = struct.unpack_from("=IH", data, offset)
        assert kind == wanted
        found.append(data[offset + 20 : offset + length])
        offset += length
    return found


def test_connections_from_and_to_an_address_are_deleted_once_each():
    made, wires = channel([MANY, listed(OUT), listed(IN, FORWARDED), acknowledged(3)])
    assert conntrack.flush(made, ["10.244.1.5"]) == 3
    count, first, second, batch = wires[0].sent
    assert count[4:6] + count[16:] == bytes.fromhex("050100000000")
    assert first[16:] == bytes.fromhex(
        "02000000"  # inet
        "1000" "0180" "0c00" "0180" "0800" "0100" "0af40105"  # CTA_TUPLE_ORIG, CTA_TUPLE_IP, CTA_IP_V4_SRC
        "0c00" "1980" "0800" "0100" "01000000"  # CTA_FILTER, CTA_FILTER_ORIG_FLAGS: the source
    )  # fmt: skip
    assert second[20:24] == bytes.fromhex("10000280")  # CTA_TUPLE_REPLY
    assert second[-8:] == bytes.fromhex("0800020001000000")  # CTA_FILTER_REPLY_FLAGS
    assert sorted(deleted(batch)) == sorted(name for _body, name in (OUT, IN, FORWARDED))


def test_a_kernel_that_does_not_filter_is_filtered_here():
    everything = listed(OUT, IN, FORWARDED, OTHER)
    made, wires = channel([MANY, everything, everything, acknowledged(3)])
    assert conntrack.flush(made, ["10.244.1.5"]) == 3
    assert OTHER[1] not in deleted(wires[0].sent[-1])
    made, wires = channel(
        [MANY, refused(errno.EOPNOTSUPP), everything, refused(errno.EOPNOTSUPP), everything, acknowledged(3)]
    )
    assert conntrack.flush(made, ["10.244.1.5"]) == 3


def test_few_are_all_read_once_for_all_addresses():
    made, wires = channel([counted(4), listed(OUT, IN, FORWARDED, OTHER), acknowledged(4)])
    assert conntrack.flush(made, ["10.244.1.5", "10.244.1.6"]) == 4
    assert len(wires[0].sent) == 3
    made, wires = channel([counted(4), listed(OUT, IN, FORWARDED, OTHER), acknowledged(1)])
    assert conntrack.flush(made, ["10.244.1.6", "10.244.1.7"]) == 1
    assert deleted(wires[0].sent[-1]) == [OTHER[1]]


def test_none_are_not_looked_for():
    made, wires = channel([counted(0)])
    assert conntrack.flush(made, ["10.244.1.5"]) == 0
    assert len(wires[0].sent) == 1


def test_a_kernel_that_does_not_count_is_asked_for_each_address():
    answers = [refused(errno.EOPNOTSUPP), listed(OUT), listed(IN), acknowledged(2)]
    made, _wires = channel(answers)
    assert conntrack.flush(made, ["10.244.1.5"]) == 2


def test_one_that_ended_by_itself_is_not_counted():
    made, _wires = channel([MANY, listed(OUT), listed(IN), acknowledged(2, (1, errno.ENOENT))])
    assert conntrack.flush(made, ["10.244.1.5"]) == 1


def test_a_refused_deletion_raises_an_error():
    made, _wires = channel([MANY, listed(OUT), listed(), acknowledged(1)[:0] + acknowledged(1, (1, errno.EPERM))])
    with pytest.raises(KernelError, match=r"delete tracked connections of 10\.244\.1\.5: Operation not permitted"):
        conntrack.flush(made, ["10.244.1.5"])


def test_a_kernel_that_tracks_nothing_has_nothing_to_forget():
    def no_protocol():
        raise OSError(errno.EPROTONOSUPPORT, "Protocol not supported")

    assert conntrack.flush(rtnetlink.Channel(no_protocol), ["10.244.1.5"]) == 0
    made, _wires = channel([refused(errno.EINVAL)] * 3)
    assert conntrack.flush(made, ["10.244.1.5"]) == 0


def ends6(kind, source, destination):
    ip = attribute(3, socket.inet_pton(10, source)) + attribute(4, socket.inet_pton(10, destination))
    icmp = attribute(1, b"\x3a") + attribute(7, b"\0\7") + attribute(8, b"\x80") + attribute(9, b"\0")
    return attribute(0x8000 | kind, attribute(0x8001, ip) + attribute(0x8002, icmp))


PING6 = (
    bytes([10, 0, 0, 0])
    + ends6(1, "fd00::5", "fd00:9::9")
    + ends6(2, "fd00:9::9", "fd00::5")
    + attribute(12, struct.pack("!I", 9)),
    ends6(1, "fd00::5", "fd00:9::9") + attribute(12, struct.pack("!I", 9)),
)


def test_ipv6_connections_are_deleted_by_their_family():
    made, wires = channel([MANY, listed(PING6), listed(), acknowledged(1)])
    assert conntrack.flush(made, ["fd00::5"]) == 1
    _count, first, _second, batch = wires[0].sent
    assert first[16] == batch[16] == socket.AF_INET6
    assert first[24:32] == bytes.fromhex("1800018014000300")  # CTA_TUPLE_IP, CTA_IP_V6_SRC
    assert deleted(batch) == [PING6[1]]
    made, wires = channel([counted(2), listed(PING6, OUT), acknowledged(2)])
    assert conntrack.flush(made, ["fd00::5", "10.244.1.5"]) == 2


def test_ipv6_connections_are_listed():
    made, _wires = channel([listed(PING6)])
    (found,) = conntrack.connections(made)
    assert found.sent == found.flow == Flow(58, "fd00::5", "fd00:9::9", icmp_type=128, icmp_code=0)


def told(number, protocol, *, ports=(40000, 80), answered=None, state=None, master=b"", zone=None, icmp=None, mark=0):
    """Return ((body, name), ends) of a connection with all that the kernel says about it, each as bytes.

    `name` identifies the connection in a message, and `ends` is the content of the tuple of its original direction.
    `number` is its id, `ports` are those of that direction (None for none), and `answered` is the server's address and
    port in the reply if DNAT changed them. `icmp` is (type, code), and `master` the `ends` of the expecting connection.
    `state` is TCP's and `zone` that of conntrack, None for none; a `mark` of 0 is left out. The addresses are
    10.244.1.5 and 192.0.2.9, and the reply goes to 203.0.113.1.
    """

    def one_way(kind, source, destination, pair):
        ip = attribute(0x8001, attribute(1, socket.inet_aton(source)) + attribute(2, socket.inet_aton(destination)))
        words = attribute(1, bytes([protocol]))
        if pair is not None:
            words += b"".join(attribute(2 + at, struct.pack("!H", port)) for at, port in enumerate(pair))
        if icmp is not None:
            words += attribute(4, b"\0\7") + attribute(5, bytes(icmp[:1])) + attribute(6, bytes(icmp[1:]))
        return attribute(kind, ip + attribute(0x8002, words))

    original = one_way(0x8001, "10.244.1.5", "192.0.2.9", ports)
    server, port = answered or ("192.0.2.9", ports[1] if ports else None)
    body = bytes([2, 0, 0, 0]) + original
    body += one_way(0x8002, server, "203.0.113.1", (port, 1024) if ports else None)
    if state is not None:
        body += attribute(0x8004, attribute(0x8001, attribute(1, bytes([state]))))
    body += attribute(12, struct.pack("!I", number))
    if mark:
        body += attribute(8, struct.pack("!I", mark))
    if master:
        body += attribute(0x800E, master)
    if zone is not None:
        body += attribute(18, struct.pack("!H", zone))
    return (body, original + attribute(12, struct.pack("!I", number))), original[4:]


def test_connections_are_listed_with_flow_name_and_master():
    (tcp, ends), (dnat, _ends), (ping, _ends) = (
        told(1, 6, state=3),
        told(2, 17, answered=("10.244.1.9", 8080)),
        told(3, 1, ports=None, icmp=(8, 0)),
    )
    (data, _ends), (gre, _ends) = told(4, 6, state=3, master=ends), told(5, 47, ports=None)
    left_out = [told(6, 6, state=7)[0], told(7, 6, state=8)[0], told(8, 17, zone=3)[0]]
    made, wires = channel([listed(tcp, dnat, ping, data, gre, *left_out)])
    flow = Flow(6, "10.244.1.5", "192.0.2.9", 40000, 80)
    udp = Flow(17, "10.244.1.5", "192.0.2.9", 40000, 80)
    echo = Flow(1, "10.244.1.5", "192.0.2.9", icmp_type=8, icmp_code=0)
    plain = Flow(47, "10.244.1.5", "192.0.2.9")
    assert [(one.sent, one.flow, one.name, one.master) for one in conntrack.connections(made)] == [
        (flow, flow, tcp[1], b""),
        (udp, Flow(17, "10.244.1.5", "10.244.1.9", 40000, 8080), dnat[1], b""),
        (echo, echo, ping[1], b""),
        (flow, flow, data[1], ends),
        (plain, plain, gre[1], b""),
    ]
    assert not wires[0].closed


def test_the_kernel_filters_connections_by_protocol_and_port():
    (wanted, _ends), (other_port, _ends), (tcp, _ends) = (
        told(1, 17, ports=(40000, 53)),
        told(2, 17),
        told(3, 6, ports=(40000, 53)),
    )
    made, wires = channel([listed(wanted, other_port, tcp), listed(wanted, other_port)])
    (found,) = conntrack.connections(made, ConnectionFilter(4, 17, 53))
    assert (found.name, found.reply_to) == (wanted[1], "203.0.113.1")
    assert len(list(conntrack.connections(made, ConnectionFilter(4, 17)))) == 2
    one_port, all_ports = wires[0].sent
    assert one_port[16:] == bytes.fromhex(
        "02000000"  # inet
        "1800" "0180" "1400" "0280" "0500" "0100" "11000000"  # CTA_TUPLE_ORIG, CTA_TUPLE_PROTO, CTA_PROTO_NUM
        "0600" "0300" "00350000"  # CTA_PROTO_DST_PORT
        "0c00" "1980" "0800" "0100" "28000000"  # CTA_FILTER, CTA_FILTER_ORIG_FLAGS: protocol and destination port
    )  # fmt: skip
    assert all_ports[16:] == bytes.fromhex("02000000" "1000" "0180" "0c00" "0280" "0500" "0100" "11000000"
                                           "0c00" "1980" "0800" "0100" "08000000")  # fmt: skip


def test_a_kernel_that_selects_no_protocol_sends_all():
    (wanted, _ends), (tcp, _ends) = told(1, 17), told(2, 6)
    made, _wires = channel([refused(errno.EOPNOTSUPP), listed(wanted, tcp, PING6)])
    (found,) = conntrack.connections(made, ConnectionFilter(4, 17))
    assert found.name == wanted[1]
    made, _wires = channel([refused(errno.EPERM)])
    with pytest.raises(KernelError, match="list tracked connections: Operation not permitted"):
        list(conntrack.connections(made, ConnectionFilter(4, 17)))


def test_chosen_ones_are_deleted():
    (one, _ends), (two, _ends) = told(1, 17), told(2, 17, ports=(40001, 53))
    made, wires = channel([listed(one, two), acknowledged(3, (2, errno.ENOENT))])
    assert conntrack.delete(made, list(conntrack.connections(made))) == 1
    assert deleted(wires[0].sent[-1]) == [one[1], two[1]]


@given(st.binary(max_size=60), st.integers(0, 51), st.binary(min_size=1, max_size=4), st.sampled_from([6, 17, 132]))
def test_the_short_way_reads_what_the_long_one_does(data, at, damage, protocol):
    (dummy, ends) = told(1, protocol, ports=(40000, 80))
    assert (
        conntrack._flow(ends)
        == conntrack._flow_by_attributes(ends)
        == Flow(protocol, "10.244.1.5", "192.0.2.9", 40000, 80)
    )
    for one in (data, ends[:at] + damage + ends[at + len(damage) :]):
        assert conntrack._flow(one) == conntrack._flow_by_attributes(one)


def test_marks_of_those_given_are_changed_in_these_bits():
    (tcp, ends), (udp, _ends) = told(1, 6, state=3, mark=0x70), told(2, 17)
    for marked, mark in ((True, 0x40000), (False, 0)):
        made, wires = channel([listed(tcp, udp), acknowledged(2, (1, errno.ENOENT))])
        found = list(conntrack.connections(made))
        assert (found[0].ends, found[0].mark, found[1].mark) == (ends, 0x70, 0)
        assert conntrack.set_mark(made, found, 0x40000, marked) == 1
        bits = attribute(8, struct.pack("!I", mark)) + attribute(21, struct.pack("!I", 0x40000))
        assert named(wires[0].sent[-1], 0x100) == [tcp[1] + bits, udp[1] + bits]


def test_a_kernel_that_tracks_nothing_has_nothing_to_tell():
    made, _wires = channel([refused(errno.EINVAL)])
    assert list(conntrack.connections(made)) == []
    made, _wires = channel([refused(errno.EPERM)])
    with pytest.raises(KernelError, match="list tracked connections: Operation not permitted"):
        list(conntrack.connections(made))


def test_a_list_that_is_left_before_its_end_leaves_nothing_behind():
    made, wires = channel([listed(told(1, 6)[0], told(2, 17)[0]), listed(told(3, 6)[0])])
    reading = conntrack.connections(made)
    next(reading)
    reading.close()
    assert wires[0].closed


def test_connections_of_the_fake_kernel():
    kernel = FakeKernel()
    kernel.machine.connections = [("10.244.1.5", "192.0.2.9"), ("10.244.1.6", "192.0.2.9"), ("1.1.1.1", "10.244.1.5")]
    assert kernel.conntrack_flush(["10.244.1.5"]) == 2
    assert kernel.machine.connections == [("10.244.1.6", "192.0.2.9")]
