# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages that change one member of an IP set, read back as the kernel reads them.

The numbers are those of linux/netfilter/nfnetlink.h and linux/netfilter/ipset/ip_set.h.
"""

from __future__ import annotations

import socket
import struct
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import ipset_members
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    KernelError,
    MemberWrite,
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
    ipset_members.write(t.cast(t.Any, channel), [MemberWrite(action, name, kind, member)])
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
        ipset_members.write(t.cast(t.Any, channel), writes)
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
    found_version, data = ipset_members.data(kind, member)
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
        ipset_members.data(kind, member)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([], []),
        (["add a 10.0.0.1", "del b 10.0.0.2"], [("add", "a", "10.0.0.1"), ("del", "b", "10.0.0.2")]),
        (["add a 10.0.0.1", "create b hash:net"], None),
        (["add a"], None),
        (["add a 10.0.0.1 timeout"], None),
        (["create a b"], None),
    ],
)
def test_lines_that_only_change_members(lines: list[str], found: t.Any) -> None:
    """The result has (action, set, member) for each line; it is None if one does not just add or delete a member."""
    assert ipset_members.member_changes(lines) == found
