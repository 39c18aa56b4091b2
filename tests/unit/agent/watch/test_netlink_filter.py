# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the filter's program, run by an interpreter of classic BPF, against its purpose in Python."""

from __future__ import annotations

import struct

from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.watch import netlink_filter
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.sockets.bpf import interpret

ROUTES, NEIGHBORS, ADDRESSES = (24, 25), (28, 29), (20, 21)


def notification(kind: int, port: int, protocol: int = 0, index: int = 0, family: int = 2, scope: int = 0) -> bytes:
    if kind in NEIGHBORS:
        body = struct.pack("=BxxxiHBB", family, index, 0x80, 0, 1)
    elif kind in ADDRESSES:
        body = struct.pack("=BBBBI", family, 64, 0, scope, index)
    else:
        body = struct.pack("=BBBBBBBBI", family, 32, 0, 0, 254, protocol, 0, 1, 0)
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, port) + body


ports = st.sets(st.integers(1, 2**32 - 1), max_size=60)
indexes = st.sets(st.integers(1, 2**31 - 1), max_size=60)


@settings(max_examples=60, deadline=None)
@given(ports, indexes, st.sampled_from([16, 17, 20, 21, 24, 25, 28, 29, 32, 80]), st.data())
def test_it_keeps_what_others_did_but_bird_and_neighbours_elsewhere(own, tunnels, kind, data):
    port = data.draw(st.sampled_from(sorted(own)) if own and data.draw(st.booleans()) else st.integers(0, 2**32 - 1))
    index = data.draw(st.sampled_from(sorted(tunnels)) if tunnels and data.draw(st.booleans()) else st.integers(1, 99))
    protocol = data.draw(st.sampled_from([2, 3, 12, 179]))
    family, scope = data.draw(st.sampled_from([2, 10])), data.draw(st.sampled_from([0, 253]))
    told = notification(kind, port, protocol, index, family, scope)
    kept = interpret(netlink_filter.program(own, tunnels), told)
    dropped = (
        port in own
        or (kind in ROUTES and (protocol == 12 or (family == 10 and protocol == 2)))
        or (kind in NEIGHBORS and index not in tunnels)
        or (kind in ADDRESSES and (family, scope) == (10, 253))
    )  # fmt: skip
    assert (kept == 0) == dropped


def test_the_kernels_own_doing_is_kept_even_when_a_port_is_not_known_yet():
    assert interpret(netlink_filter.program([0], []), notification(25, 0, 179))


def test_the_filter_drops_truncated_messages():
    code = netlink_filter.program([7], [3])
    assert [interpret(code, notification(24, 1, 179)[:length]) for length in (0, 8, 16, 20)] == [0, 0, 0, 0]
