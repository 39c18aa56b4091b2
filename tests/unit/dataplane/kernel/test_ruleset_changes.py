# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notifications of nftables, as captured from Linux 6.18, and any others that a program on the node may cause."""

from __future__ import annotations

import collections
import errno
import socket
import struct
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import ruleset_changes
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import ChangedChain
from hypothesis import given
from hypothesis import strategies as st

NEWTABLE, NEWCHAIN, DELCHAIN, NEWRULE, DELRULE, NEWSETELEM, NEWGEN = 0, 3, 5, 6, 8, 12, 15
CREATED = 0x200


class Notifications:
    """A socket from which `arrived` is read, datagrams and errors, and the generation that the kernel tells."""

    def __init__(self, generation: t.Optional[int] = 10) -> None:
        self.arrived: collections.deque[t.Union[bytes, OSError]] = collections.deque()
        self.generation = generation
        self.opened = 0
        self.refused: t.Optional[OSError] = None

    def recv(self, dummy: int) -> bytes:
        if not self.arrived:
            raise BlockingIOError
        found = self.arrived.popleft()
        if isinstance(found, OSError):
            raise found
        return found

    def close(self) -> None:
        self.arrived.clear()

    def changes(self) -> ruleset_changes.RulesetChanges:
        return ruleset_changes.RulesetChanges(self._open, lambda: self.generation)

    def _open(self) -> socket.socket:
        if self.refused is not None:
            raise self.refused
        self.opened += 1
        return t.cast(socket.socket, self)

    def transaction(self, number: int, *messages: bytes) -> None:
        self.arrived.extend((*messages, message(NEWGEN, 0, {1: struct.pack("!I", number)})))
        self.generation = number


def message(kind: int, family: int, attributes: t.Mapping[int, bytes], flags: int = 0) -> bytes:
    body = struct.pack("!BBH", family, 0, 0)
    for number, value in attributes.items():
        body += struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)
    return struct.pack("=IHHII", 16 + len(body), 10 << 8 | kind, flags, 0, 0) + body


def rule(table: str, chain: str, kind: int = NEWRULE, family: int = socket.AF_INET) -> bytes:
    return message(kind, family, {1: table.encode() + b"\0", 2: chain.encode() + b"\0"})


def chain(table: str, name: str, kind: int = NEWCHAIN, flags: int = CREATED) -> bytes:
    return message(kind, socket.AF_INET, {1: table.encode() + b"\0", 3: name.encode() + b"\0"}, flags)


def listening() -> tuple[Notifications, ruleset_changes.RulesetChanges]:
    kernel = Notifications()
    changes = kernel.changes()
    assert changes.between(10, 10) is None
    return kernel, changes


def test_written_chains_are_named_for_the_generations_asked_for():
    kernel, changes = listening()
    kernel.transaction(11, rule("filter", "INPUT"))
    kernel.transaction(12, rule("filter", "a", DELRULE, socket.AF_INET6) + rule("nat", "b"))
    kernel.transaction(13, chain("filter", "new"), chain("filter", "old", DELCHAIN, 0))
    assert changes.between(11, 12) == {ChangedChain(6, "filter", "a"), ChangedChain(4, "nat", "b")}
    assert changes.between(12, 13) == {ChangedChain(4, "filter", "new"), ChangedChain(4, "filter", "old")}
    assert changes.between(13, 13) == frozenset()


def test_a_new_name_or_policy_of_a_chain_and_a_new_table_stand_for_the_whole_table():
    """Rules lead to a renamed chain by its new name, and no notification says so."""
    kernel, changes = listening()
    kernel.transaction(11, chain("filter", "renamed", flags=0))
    kernel.transaction(12, message(NEWTABLE, socket.AF_INET, {1: b"nat\0"}, 0x400))
    assert changes.between(10, 12) == {ChangedChain(4, "filter", ""), ChangedChain(4, "nat", "")}


def test_other_families_and_objects_do_not_matter():
    kernel, changes = listening()
    kernel.transaction(11, rule("filter", "x", family=1), message(NEWSETELEM, socket.AF_INET, {1: b"filter\0"}))
    kernel.transaction(12, *(rule(f"table{number}", "x") for number in range(3000)))
    assert changes.between(10, 12) == frozenset()


def test_nothing_is_known_of_what_was_lost_or_is_still_to_come():
    kernel, changes = listening()
    kernel.transaction(11, rule("filter", "a"))
    assert changes.between(10, 12) is None, "the notifications of 12 have not arrived"
    kernel.transaction(12, rule("filter", "b"))
    assert changes.between(10, 12) == {ChangedChain(4, "filter", "a"), ChangedChain(4, "filter", "b")}
    kernel.arrived.append(OSError(errno.ENOBUFS, "lost"))
    kernel.transaction(13, rule("filter", "c"))
    assert changes.between(12, 13) is None
    assert kernel.opened == 2
    assert changes.between(12, 13) is None, "the new socket has seen nothing of 13"
    kernel.transaction(14, rule("filter", "d"))
    assert changes.between(13, 14) == {ChangedChain(4, "filter", "d")}


def test_a_kernel_that_refuses_the_socket_is_asked_again():
    kernel = Notifications()
    changes = kernel.changes()
    kernel.refused = PermissionError(errno.EPERM, "no")
    assert changes.between(10, 10) is changes.between(10, 10) is None
    kernel.refused = None
    assert changes.between(10, 10) is None
    assert changes.between(10, 10) == frozenset()


def test_many_changed_chains_are_not_remembered():
    """A transaction counts as one of the whole table then; many transactions are forgotten."""
    kernel, changes = listening()
    kernel.transaction(11, *(rule("filter", f"chain{number}") for number in range(5000)))
    assert changes.between(10, 11) == {ChangedChain(4, "filter", "")}
    for number in range(12, 1300):
        kernel.transaction(number, rule("filter", "a"))
    assert changes.between(11, 1299) is None
    assert changes.between(1299, 1299) == frozenset()


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_no_datagram_raises(datagrams: list[bytes]):
    kernel, changes = listening()
    kernel.arrived.extend(datagrams)
    kernel.transaction(11, rule("filter", "a"))
    changes.between(10, 11)


@given(st.binary(max_size=60), st.sampled_from([NEWTABLE, NEWCHAIN, DELCHAIN, NEWRULE, DELRULE, NEWGEN]))
def test_no_attributes_raise(attributes: bytes, kind: int):
    kernel, changes = listening()
    body = struct.pack("!BBH", socket.AF_INET, 0, 0) + attributes
    kernel.arrived.append(struct.pack("=IHHII", 16 + len(body), 10 << 8 | kind, 0, 0, 0) + body)
    kernel.transaction(11, rule("filter", "a"))
    changes.between(10, 11)
