# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of NFLOG byte by byte, and the subscription to a group."""

from __future__ import annotations

import errno
import struct

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import nflog
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.nflog import Record
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import KernelError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.dataplane.kernel.test_rtnetlink import message

PACKET = 0x0400


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", len(data) + 4, kind) + data + bytes(-len(data) % 4)


def logged(record: Record) -> bytes:
    """Return the message that Linux 6 writes for a record."""
    body = bytes([2, 0]) + struct.pack("!H", 179) + attribute(1, struct.pack("!HBB", 0x0800, 2, 0))
    if record.prefix:
        body += attribute(10, record.prefix + b"\0")
    for kind, index in ((4, record.indev), (5, record.outdev)):
        if index:
            body += attribute(kind, struct.pack("!I", index))
    body += attribute(8, bytes(12)) + attribute(3, bytes(16)) + attribute(12, struct.pack("!I", record.sequence))
    return message(PACKET, 0, 0, body + attribute(9, record.packet))


RECORDS = st.builds(
    Record,
    st.integers(0, 0xFFFFFFFF),
    st.binary(max_size=63).map(lambda data: data.replace(b"\0", b"-")),
    st.integers(0, 1 << 30),
    st.integers(0, 1 << 30),
    st.binary(max_size=96),
)


def aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


@settings(max_examples=50)
@given(st.lists(RECORDS, max_size=5))
def test_written_records_are_read_back(records: list[Record]) -> None:
    data = b"".join(aligned(logged(record)) for record in records)
    assert list(nflog.records(data + message(3, 0, 0, bytes(4)))) == records


@settings(max_examples=100)
@given(st.lists(RECORDS, min_size=1, max_size=3), st.integers(0, 400), st.binary(max_size=40))
def test_a_cut_or_damaged_record_is_no_error(records: list[Record], at: int, damage: bytes) -> None:
    data = b"".join(aligned(logged(record)) for record in records)
    list(nflog.records(data[:at] + damage + data[at + len(damage) :]))
    list(nflog.records(data[:at]))


class Wire:
    """A substitute for a socket: each `recv` returns the next of `answers`, or raises it if it is an OSError."""

    def __init__(self, *answers: bytes | OSError) -> None:
        self.sent = b""
        self.answers = list(answers)

    def send(self, data: bytes) -> None:
        self.sent = data

    def recv(self, size: int) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer


def answered(number: int) -> bytes:
    return message(2, 0, 1, struct.pack("=i", -number) + bytes(16))


def test_a_group_is_asked_for_in_one_message() -> None:
    record = Record(0, b"deny:in:policy:1:web", 1, 2, b"E")
    wire = Wire(logged(record), answered(0))  # A packet arrives before the answer.
    nflog.subscribe(wire, 179)  # type: ignore[arg-type]
    assert struct.unpack_from("=IHH", wire.sent) == (len(wire.sent), 0x0401, 5)
    assert wire.sent[16:20] == bytes([0, 0, 0, 179])
    wanted = [(1, b"\1"), (2, bytes([0, 0, 0, 96, 2, 0])), (3, struct.pack("!I", 32768)), (4, struct.pack("!I", 10))]
    wanted += [(5, struct.pack("!I", 100)), (6, b"\0\1")]
    assert wire.sent[20:] == b"".join(attribute(*one) for one in wanted)


def test_a_group_that_cannot_be_had() -> None:
    for wire, number in (
        (Wire(answered(errno.EPERM)), errno.EPERM),
        (Wire(OSError(errno.ENOBUFS, "no room")), errno.ENOBUFS),
    ):
        with pytest.raises(KernelError, match=r"^listen to NFLOG group 7: ") as raised:
            nflog.subscribe(wire, 7)  # type: ignore[arg-type]
        assert raised.value.errno == number
