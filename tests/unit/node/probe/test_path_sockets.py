# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packets reach the sockets of the watch over paths, by an interpreter of classic BPF."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import icmp, path_sockets

from tests.unit.sockets.bpf import interpret

#: An IPv4 header of 20 bytes, and one with 4 bytes of options. Messages of IPv6 come without a header.
HEADERS = {icmp.ICMP: (b"\x45" + bytes(19), b"\x46" + bytes(23)), icmp.ICMPV6: (b"",)}


def message(kind: int, identifier: bytes, payload: bytes) -> bytes:
    return bytes([kind, 0, 0, 0]) + identifier + bytes(2) + payload


@pytest.mark.parametrize("version", [icmp.ICMP, icmp.ICMPV6])
def test_requests_and_answers_of_others_do_not_arrive(version: icmp.IcmpFamily) -> None:
    code = path_sockets._filter(version, b"id", b"CALW")
    for header in HEADERS[version]:
        kept = [
            message(version.request, b"xx", b"CALW and more"),
            message(version.reply, b"id", b"anything"),
            *(message(kind, b"xx", b"") for kind in version.errors),
        ]
        assert all(interpret(code, header + one) for one in kept)
        dropped = [
            message(version.request, b"id", b"of a run, or a ping"),
            message(version.request, b"id", b"CAL"),
            message(version.reply, b"xx", b"CALW and more"),
            b"",
        ]
        assert not any(interpret(code, header + one) for one in dropped)
