# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages that change IP sets and their members, read back as the kernel reads them.

The numbers are those of linux/netfilter/nfnetlink.h and linux/netfilter/ipset/ip_set.h.
"""

from __future__ import annotations

import socket
import struct
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import ipset_writes, rtnetlink
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    KernelError,
    MemberWrite,
    NewSet,
    SetRemoval,
    SetWrite,
)


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes in a netlink message, by type with its flags; each begins at a multiple of four bytes."""
    found = {}
    while data:
        length, kind = struct.unpack_from("=HH", data)
        found[kind] = data[4:length]
        data = data[(length + 3) // 4 * 4 :]
    return found


class Requests:
    """A channel that keeps the messages in `sent` instead of sending them, and answers with `failures`."""

    def __init__(self, failures: t.Sequence[tuple[int, int, str]] = ()) -> None:
        self.sent: list[bytes] = []
        self._failures = failures

    def batch(self, messages: t.Sequence[tuple[bytes, bytes]], what: str) -> t.Sequence[tuple[int, int, str]]:
        # The sequence number belongs between the parts.
        self.sent += [head + bytes(4) + rest for head, rest in messages]
        return self._failures


def sent(action: str, name: str, kind: str, member: str) -> tuple[int, int, bytes]:
    """Return type, flags and body of the message for one write."""
    channel = Requests()
    ipset_writes.write(t.cast(t.Any, channel), [MemberWrite(action, name, kind, member)], {})
    (only,) = channel.sent
    length, message, flags = struct.unpack_from("=IHH", only)
    assert length == len(only)
    return message, flags, only[16:]


@pytest.mark.parametrize(
    ("action", "command"),
    [("add", 0x0609), ("del", 0x060A)],  # NFNL_SUBSYS_IPSET << 8 | IPSET_CMD_ADD or _DEL
)
@pytest.mark.parametrize(
    ("member", "family", "address"),
    [
        ("10.0.0.1", socket.AF_INET, {0x4001: socket.inet_pton(socket.AF_INET, "10.0.0.1")}),
        ("fd00::1", socket.AF_INET6, {0x4002: socket.inet_pton(socket.AF_INET6, "fd00::1")}),
    ],
)
def test_a_message_says_what_to_do_with_which_set(
    action: str, command: int, member: str, family: int, address: dict[int, bytes]
) -> None:
    """A message has the command, the family, the version 6 of the protocol, the set's name and the member."""
    kind, flags, body = sent(action, "cali40x", "hash:net", member)
    assert (kind, flags) == (command, 1)  # NLM_F_REQUEST
    assert struct.unpack("!BBH", body[:4]) == (family, 0, 0)
    found = attributes(body[4:])
    assert found.keys() == {1, 2, 0x8007}
    assert (found[1], found[2]) == (b"\x06", b"cali40x\0")
    (entry,) = attributes(found[0x8007]).items()
    assert (entry[0], attributes(entry[1])) == (0x8001, address)


def test_a_refusal_names_its_set_and_member() -> None:
    writes = [MemberWrite("add", f"cali40{name}", "hash:net", "10.0.0.1") for name in "abc"]
    channel = Requests([(1, 2, ""), (2, 2, "")])
    with pytest.raises(KernelError, match=r"add cali40b 10\.0\.0\.1"):
        ipset_writes.write(t.cast(t.Any, channel), writes, {})
    assert len(channel.sent) == 3


@pytest.mark.parametrize(
    ("kind", "member", "version", "rest"),
    [
        ("hash:net", "10.0.0.0/24", 4, {3: b"\x18"}),
        ("hash:net", "fd00::/64", 6, {3: b"\x40"}),
        ("hash:ip", "10.0.0.1", 4, {}),
        ("hash:net,iface", "10.0.0.0/8,cali1", 4, {3: b"\x08", 23: b"cali1\0"}),
        ("hash:ip,port", "10.0.0.1,tcp:80", 4, {0x4004: b"\0\x50", 7: b"\x06"}),
        ("hash:ip,port", "fd00::1,udp:53", 6, {0x4004: b"\0\x35", 7: b"\x11"}),
        ("hash:ip,port", "10.0.0.1,sctp:65535", 4, {0x4004: b"\xff\xff", 7: b"\x84"}),
        ("hash:ip,port", "10.0.0.1,tcp:0", 4, {0x4004: b"\0\0", 7: b"\x06"}),
    ],
)
def test_a_member_as_the_kernel_reads_it(kind: str, member: str, version: int, rest: dict[int, bytes]) -> None:
    """A member is its address and what else the type of set has: a prefix length, an interface, or a port."""
    found_version, data = ipset_writes.data(kind, member)
    found = attributes(data)
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    address = socket.inet_pton(family, member.partition(",")[0].partition("/")[0])
    assert found_version == version
    assert attributes(found.pop(0x8001)) == {0x4002 if version == 6 else 0x4001: address}
    assert found == rest


@pytest.mark.parametrize(
    ("kind", "member", "words"),
    [
        ("hash:net", "nonsense", "nonsense has no address"),
        ("hash:net", "10.0.0.0/8,cali1", "10.0.0.0/8,cali1 is not a member of a hash:net"),
        ("hash:ip", "10.0.0.1,tcp:1", "10.0.0.1,tcp:1 is not a member of a hash:ip"),
        ("hash:ip,port", "10.0.0.1", "10.0.0.1 is not a member of a hash:ip,port"),
        ("hash:net,iface", "10.0.0.0/8", "10.0.0.0/8 is not a member of a hash:net,iface"),
        ("hash:mac", "10.0.0.1", "10.0.0.1 is not a member of a hash:mac"),
        ("hash:ip,port", "10.0.0.1,gre:1", "gre:1 has another protocol than tcp, udp, sctp"),
        ("hash:ip,port", "10.0.0.1,tcp:65536", "tcp:65536 has no port from 0 to 65535"),
        ("hash:ip,port", "10.0.0.1,tcp:-1", "tcp:-1 has no port from 0 to 65535"),
    ],
)
def test_an_invalid_member_is_refused_with_its_reason(kind: str, member: str, words: str) -> None:
    """A text that is no member of the type of set raises ValueError, which names it or the part behind its comma."""
    with pytest.raises(ValueError) as caught:
        ipset_writes.data(kind, member)
    assert str(caught.value) == words


def answered(newest: int) -> Requests:
    """Return a channel that says that the kernel knows the revisions 0 to `newest` of any type of set."""

    class Answering(Requests):
        def request(self, kind: int, flags: int, body: bytes, dummy: str) -> list[rtnetlink.Message]:
            assert (kind, flags) == (0x060D, 0)  # IPSET_CMD_TYPE
            self.asked = getattr(self, "asked", 0) + 1
            return [rtnetlink.Message(kind, body + attribute(4, bytes((newest,))) + attribute(10, b"\0"))]

    return Answering()


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", len(data) + 4, kind) + data + bytes(-len(data) % 4)


@pytest.mark.parametrize(("newest", "revision"), [(9, 6), (6, 6), (3, 3)])
@pytest.mark.parametrize(("ipv6", "family"), [(False, socket.AF_INET), (True, socket.AF_INET6)])
def test_a_new_set_has_a_revision_that_programs_and_kernel_know(
    newest: int, revision: int, ipv6: bool, family: int
) -> None:
    """The kernel is asked once for a type; an old program ipset can still read a set of an old revision."""
    channel, revisions = answered(newest), ipset_writes.Revisions()
    for name in ("cali40a", "cali40b"):
        ipset_writes.write(t.cast(t.Any, channel), [NewSet(name, "hash:net", ipv6, 2048)], revisions)
    assert t.cast(t.Any, channel).asked == 1
    kind, flags = struct.unpack_from("=HH", channel.sent[1], 4)
    assert (kind, flags) == (0x0602, 1)  # IPSET_CMD_CREATE; without NLM_F_EXCL an equal set is no error
    assert attributes(channel.sent[1][20:]) == {
        1: b"\x06",
        2: b"cali40b\0",
        3: b"hash:net\0",
        4: bytes((revision,)),
        5: bytes((family,)),
        0x8007: attribute(0x4013, struct.pack("!I", 2048)),
    }


def test_a_set_is_deleted_by_its_name() -> None:
    channel = Requests()
    ipset_writes.write(t.cast(t.Any, channel), [SetRemoval("cali40a")], {})
    assert struct.unpack_from("=HH", channel.sent[0], 4) == (0x0603, 1)  # IPSET_CMD_DESTROY
    assert attributes(channel.sent[0][20:]) == {1: b"\x06", 2: b"cali40a\0"}


def test_a_new_set_of_an_unknown_type_is_refused_before_any_write() -> None:
    channel = Requests()
    with pytest.raises(ValueError) as caught:
        ipset_writes.write(t.cast(t.Any, channel), [SetRemoval("a"), NewSet("b", "hash:mac", False, 1)], {})
    assert str(caught.value) == "hash:mac is none of the types hash:ip, hash:net, hash:ip,port, hash:net,iface"
    assert channel.sent == []


@pytest.mark.parametrize(
    ("write", "line"),
    [
        (MemberWrite("add", "cali40a", "hash:net", "10.0.0.1"), "add cali40a 10.0.0.1"),
        (MemberWrite("del", "cali40a", "hash:net", "10.0.0.1"), "del cali40a 10.0.0.1"),
        (NewSet("cali40a", "hash:net", False, 2048), "create cali40a hash:net family inet maxelem 2048"),
        (NewSet("cali60a", "hash:ip", True, 2), "create cali60a hash:ip family inet6 maxelem 2"),
        (SetRemoval("cali40a"), "destroy cali40a"),
    ],
)
def test_a_write_as_a_line_of_ipset_restore(write: SetWrite, line: str) -> None:
    assert write.line == line
