# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers with IPv6, on a real kernel: the same suite as on FakeKernel, and the sources of a tunnel's packets."""

from __future__ import annotations

import dataclasses
import os
import socket

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import neighbor, tunnel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NeighborEntry,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    FdbEntry,
    Neighbor,
    TunnelDevice,
)

from tests.unit.dataplane.suites.drivers import converge, write_route
from tests.unit.dataplane.suites.suite_ipv6 import *  # noqa: F403
from tests.unit.dataplane.suites.suite_ipv6 import PEER6, VXLAN, VXLAN6, dual_stack
from tests.unit.dataplane.suites.suite_probe_endpoint import *  # noqa: F403

MAC = "66:00:00:00:00:02"
#: The place of the source in a packet of each IP version, behind the link's header of 14 bytes.
SOURCE = {socket.AF_INET: slice(26, 30), socket.AF_INET6: slice(22, 38)}


def sources(kernel: LinuxKernel, family: socket.AddressFamily, address: str) -> set[str]:
    """Send a packet to `address` by each processor, and return the sources of those that reach wire0 in a tunnel."""

    def sent() -> set[str]:
        found = set()
        allowed = os.sched_getaffinity(0)
        with (
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire,
            socket.socket(family, socket.SOCK_DGRAM) as sender,
        ):
            wire.bind(("wire0", 3))
            wire.settimeout(10)
            try:
                for processor in allowed:
                    # The kernel keeps the source of a destination's packets by processor.
                    os.sched_setaffinity(0, {processor})
                    sender.sendto(b"the packet", (address, 9))
                    packet = b""
                    while not packet.endswith(b"the packet"):
                        packet = wire.recv(2048)
                    found.add(socket.inet_ntop(family, packet[SOURCE[family]]))
            finally:
                os.sched_setaffinity(0, allowed)
        return found

    return kernel._there(sent)


@pytest.mark.parametrize(
    ("device", "remote", "inner", "new"),
    [(VXLAN, "10.10.1.12", "10.244.2.1", "10.10.1.61"), (VXLAN6, PEER6, "fd00:10:244::81", "fd00:10:10::61")],
    ids=["ipv4", "ipv6"],
)
def test_packets_leave_from_the_new_local_address(
    kernel: LinuxKernel, device: TunnelDevice, remote: str, inner: str, new: str
) -> None:
    """Also to destinations whose forwarding entries stay as they are, and while the host has both addresses."""
    dual_stack(kernel)
    family, bits = (socket.AF_INET6, 128) if ":" in new else (socket.AF_INET, 32)
    kernel.address_add(InterfaceAddress("eth0", new, bits // 2))
    kernel.neighbor_replace(NeighborEntry("eth0", remote, kernel.link("wire0").mac))
    entries = [Neighbor(device.name, inner, MAC), FdbEntry(device.name, MAC, remote)]
    converge(tunnel, kernel, [device])
    converge(neighbor, kernel, entries)
    write_route(kernel, f"{inner}/{bits}", RouteAttributes(device=device.name, metric=1024 if bits == 128 else 0))
    assert sources(kernel, family, inner) == {device.local}
    converge(tunnel, kernel, [dataclasses.replace(device, local=new)])
    assert converge(neighbor, kernel, entries) == []
    assert sources(kernel, family, inner) == {new}
