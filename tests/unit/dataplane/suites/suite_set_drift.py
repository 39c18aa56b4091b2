# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes of other programs to IP sets are noticed, and our own writes are not doubted, on any kernel."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import ipset
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.cached_drivers import (
    ROUND,
    CachedSets,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import IpSet

from tests.unit.dataplane.suites.suite_firewall import run

FEW = IpSet("cali40few", "hash:net", ("10.0.0.1", "10.1.0.0/16", "0.0.0.0/1"))
MANY = IpSet("cali40many", "hash:net", tuple(f"10.2.{n >> 8}.{n & 255}" for n in range(3000)))
PORTS = IpSet("cali60n:x", "hash:ip,port", ("fd00::1,tcp:80", "fd00::2,udp:53", "fd00::1,sctp:80"))
FACES = IpSet("cali40w:x", "hash:net,iface", ("10.0.0.1,cali1", "10.0.0.2,cali2"))
SIX = IpSet("cali60six", "hash:net", ("fd00::1", "fd00:1::/32", "::/0"))
SETS = (FEW, MANY, PORTS, FACES, SIX)
SMALL = (FEW, PORTS, FACES, SIX)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Node:
    """Cached sets on a kernel. `saves` counts the times that all sets were read."""

    def __init__(self, kernel):
        self.kernel, self.clock, self.saves = kernel, Clock(), 0
        self.sets = CachedSets(self.clock)
        self._ran = kernel.run
        kernel.run = self._count

    def _count(self, argv, stdin="", timeout=60.0):
        self.saves += argv == ["ipset", "save"]
        return self._ran(argv, stdin, timeout)

    def bring(self, desired):
        changes = self.sets.diff(desired, self.sets.observe(self.kernel, desired))
        self.sets.apply(self.kernel, changes)
        return [change.action for change in changes]

    def seconds_until_doubt(self, most):
        """Poll once a second; return after how many polls the sets are doubtful, None if they are not by `most`."""
        for seconds in range(1, most + 1):
            self.clock.now += 1
            if self.sets.is_doubtful(self.kernel):
                return seconds
        return None


@pytest.fixture
def node(kernel):
    return Node(kernel)


def test_members_of_all_our_types_are_read_as_they_were_written(kernel, node):
    node.bring(SETS)
    for desired in SETS:
        wanted = ipset.wanted(desired)
        assert kernel.ipset_members(desired.name) == wanted.members
        header = kernel.ipset_headers()[desired.name]
        assert (header.type, header.elements) == (desired.type, len(wanted.members))
    assert kernel.ipset_members("cali40nowhere") is None


def test_our_own_writes_are_not_doubted(node):
    """Sets that are made, filled, emptied, swapped, replaced and deleted by us are read once, at the start."""
    other = IpSet(FEW.name, "hash:ip", ("10.0.0.9",))
    for desired in (
        SETS,
        (*SMALL, IpSet(MANY.name, MANY.type, MANY.members[:-1])),
        (*SMALL, IpSet(MANY.name, MANY.type, (*MANY.members, "10.9.9.9"))),
        (*SMALL, IpSet(MANY.name, MANY.type, MANY.members[:10])),
        (other, *SMALL[1:]),
        SMALL[1:],
    ):
        assert node.bring(desired) != []
        assert node.seconds_until_doubt(int(2 * ROUND)) is None
        assert node.bring(desired) == []
    assert node.saves == 1


CHANGES = {
    "a member is added": ("add cali40few 10.0.0.9", 2),
    "a member is removed": ("del cali40many 10.2.0.1", 2),
    "a set is flushed": ("flush cali60six", 2),
    "a set is deleted": ("destroy cali40w:x", 2),
    "a set of ours is made": ("create cali40theirs hash:net", 2),
    "a set gets another type": ("destroy cali40few\ncreate cali40few hash:ip\nadd cali40few 10.0.0.1", 2),
    "a member is replaced": ("del cali40few 10.0.0.1\nadd cali40few 10.0.0.2", ROUND + 1),
    "a member of a large set is replaced": ("del cali40many 10.2.0.1\nadd cali40many 10.2.99.1", ROUND + 1),
    "a port is replaced": ("del cali60n:x fd00::1,tcp:80\nadd cali60n:x fd00::1,tcp:81", ROUND + 1),
    "an interface is replaced": ("del cali40w:x 10.0.0.1,cali1\nadd cali40w:x 10.0.0.1,cali3", ROUND + 1),
    "a set is made anew with other members": (
        "destroy cali40w:x\ncreate cali40w:x hash:net,iface\n"
        "add cali40w:x 10.0.0.1,cali1\nadd cali40w:x 10.0.0.7,cali1",
        ROUND + 1,
    ),
}


@pytest.mark.parametrize("before", [0, 40], ids=["at once", "later"])
@pytest.mark.parametrize("name", CHANGES)
def test_the_writes_of_others_are_noticed_in_time(kernel, node, name, before):
    lines, most = CHANGES[name]
    node.bring(SETS)
    assert node.seconds_until_doubt(before) is None
    for _again in range(2):
        run(kernel, ["ipset", "restore"], lines + "\n")
        assert node.seconds_until_doubt(int(most)) is not None
        node.bring(SETS)
        for desired in SETS:
            assert kernel.ipset_members(desired.name) == ipset.wanted(desired).members
        assert "cali40theirs" not in kernel.ipset_headers()
        assert node.seconds_until_doubt(int(ROUND) + 10) is None


def test_all_members_of_small_sets_are_compared_every_second(kernel, node):
    node.bring(SMALL)
    assert node.seconds_until_doubt(5) is None
    run(kernel, ["ipset", "restore"], "del cali40few 10.0.0.1\nadd cali40few 10.0.0.2\n")
    assert node.seconds_until_doubt(2) is not None


def test_a_check_before_use_sees_a_flushed_set(kernel, node):
    node.bring(SETS)
    run(kernel, ["ipset", "flush", MANY.name])
    node.sets.check(kernel)
    assert node.bring(SETS) == []  # The numbers were compared in the last second.
    node.clock.now += 1
    node.sets.check(kernel)
    assert node.bring(SETS) == ["~"]
    assert kernel.ipset_members(MANY.name) == frozenset(MANY.members)
    saves = node.saves
    node.sets.check(kernel)
    assert node.bring(SETS) == [] and node.saves == saves


def test_what_reading_again_does_not_resolve_is_doubted_once(kernel, node):
    """If ipset and the kernel differ in what they say, the sets are read again once, and then seldom."""
    node.bring(SMALL)
    headers = kernel.ipset_headers
    kernel.ipset_headers = lambda: {**headers(), "cali40ghost": headers()[FEW.name]}
    assert node.seconds_until_doubt(2) is not None
    assert node.bring(SMALL) == []
    assert node.seconds_until_doubt(60) is None
