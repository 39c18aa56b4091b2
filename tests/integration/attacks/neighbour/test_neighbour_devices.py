# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a neighbour on the underlay through tunnel devices, on a node without a firewall."""

from __future__ import annotations

import dataclasses
import pathlib
import struct
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, TunnelDevice

from tests.integration.attacks.devices_under_attack import (
    HOST,
    PEER,
    Host,
    advertisement,
    ethernet,
    ipv6_udp,
    state,
    udp,
    until,
)
from tests.integration.host_under_test import HostKernel, host_under_test

HOST6, PEER6 = "fd00:10:10:1::11", "fd00:10:10:1::12"
VXLAN = "vxlan.calico"
VXLAN6 = "vxlan-v6.calico"


@pytest.fixture
def host(tmp_path: pathlib.Path) -> t.Iterator[Host]:
    with host_under_test(tmp_path, HostKernel) as kernel:
        made = Host(kernel)
        yield made
        made.close()


def dual(wanted: NodeState) -> NodeState:
    """Return `wanted` with an additional tunnel over IPv6."""
    six = TunnelDevice(VXLAN6, "vxlan", 1430, HOST6, "fd00:10:244::1", "66:00:00:00:00:06", 4096, 4789)
    return dataclasses.replace(wanted, devices=(*wanted.devices, six))


def in_tunnel(host: Host, device: str) -> None:
    """Send the host a Router Advertisement for the tunnel `device`, in a VXLAN packet from the other node's address."""
    inner = struct.pack("!II", 0x08 << 24, 4096 << 8) + advertisement()
    link = host.kernel.link("eth0")
    assert link is not None
    if device == VXLAN:
        frame = ethernet(udp(PEER, HOST, inner, 4789), link.mac)
    else:
        frame = ethernet(ipv6_udp(PEER6, HOST6, inner, 4789), link.mac, kind=0x86DD)
    host.sends("wire", "wire0", frame)


def packets(host: Host, device: str) -> int:
    done = host.kernel.run(["ip", "-statistics", "link", "show", "dev", device])
    lines = done.output.splitlines()
    return int(lines[next(n for n, line in enumerate(lines) if "RX:" in line) + 1].split()[1])


@pytest.mark.parametrize("device", [VXLAN, VXLAN6])
def test_no_router_advertisement_comes_out_of_a_tunnel(host: Host, device: str) -> None:
    """Send one VXLAN packet that spoofs a node's address and carries a Router Advertisement.

    Gain: The host's IPv6 default route, through the tunnel.
    Precedent: CVE-2020-13597.
    Closed: 0.2.0
    Result: The host accepts nothing from it, whichever tunnel it arrives through.
    """
    wanted = dual(state())
    assert host.kernel.run(["ip", "-6", "address", "add", f"{HOST6}/64", "dev", "eth0", "nodad"]).code == 0
    host.apply(wanted)
    before = packets(host, device)
    in_tunnel(host, device)
    assert until(lambda: packets(host, device) > before), "the packet of this test is not sound"
    time.sleep(0.2)
    assert host.taken(device) == [line for line in host.taken(device) if "fd00:10:244::1" in line]
    assert device not in host.default_routes6()


def test_an_advertisement_accepted_from_a_tunnel_is_removed(host: Host) -> None:
    """Make the host accept a Router Advertisement out of a tunnel before it runs this release.

    Gain: The host's IPv6 default route, through the tunnel.
    Precedent: CVE-2020-13597.
    Closed: 0.2.0
    Result: The plan names the accepted addresses and routes and removes them; the tunnel stays up.
    """
    wanted = state()
    host.apply(wanted)
    for setting in ("accept_ra", "autoconf"):
        host.kernel.sysctl_write(f"net/ipv6/conf/{VXLAN}/{setting}", "1")
    in_tunnel(host, VXLAN)
    assert until(lambda: len(host.taken(VXLAN)) >= 3 and VXLAN in host.default_routes6())
    made = host.kernel.link(VXLAN)
    plan = plan_node(host.kernel, wanted)
    (change,) = plan.changes
    assert (change.kind, change.action, change.subject) == ("device", "~", VXLAN)
    assert "advertised route ::/0 via fe80::bad" in (change.before or "")
    apply_node(host.kernel, plan)
    assert host.taken(VXLAN) == []
    assert VXLAN not in host.default_routes6()
    assert plan_node(host.kernel, wanted).changes == ()
    found = host.kernel.link(VXLAN)
    assert made is not None and found is not None
    assert (found.index, found.up) == (made.index, True)
