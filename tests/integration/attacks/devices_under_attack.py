# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in a network namespace whose devices are attacked, and the frames that attack it.

The node has no firewall, so that the devices' own settings have to drop the frames. It has eth0 (10.10.1.11) on a wire
to the namespace `wire`, and with the state of `state` the workloads web and app.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import socket
import struct
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    RouteAttributes,
    RouteOperation,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import attach
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, VethEndpoint

from tests.integration.host_under_test import HostKernel
from tests.unit.fleet.fleets import build, pool, states, workload

HOST, PEER, NEIGHBOUR = "10.10.1.11", "10.10.1.12", "10.10.1.66"
HOST_MAC = "ee:ee:ee:ee:ee:ee"
PORT = 4242
ROUTER = "fe80::bad"
_TRUSTING = {
    # Unsafe values of settings, as an administrator or the kernel may set them.
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/conf/all/accept_source_route": "1",
    "net/ipv4/conf/default/accept_source_route": "1",
    "net/ipv4/conf/default/accept_redirects": "1",
    "net/ipv4/conf/default/arp_accept": "1",
    "net/ipv6/conf/all/forwarding": "0",
    "net/ipv6/conf/default/accept_ra": "2",
    "net/ipv6/conf/default/accept_redirects": "1",
    "net/ipv6/conf/default/accept_dad": "0",
    "net/ipv6/conf/default/autoconf": "1",
}


def state(*, spoofing: bool = False) -> NodeState:
    """Return the state of node1 of an IPv4 fleet in VXLAN mode, without a firewall.

    `spoofing` is the node's calico_workload_source_spoofing.
    """
    fleet = build(
        pool("vxlan"),
        workloads=[workload("web", "node1"), workload("app", "node1"), workload("far", "node2")],
        own={"node1": {"calico_workload_source_spoofing": spoofing}},
    )
    return dataclasses.replace(states(fleet)["node1"], iptables=(), ipsets=(), policy=None)


class Host:
    def __init__(self, kernel: HostKernel) -> None:
        self.kernel = kernel
        self._sockets = contextlib.ExitStack()
        kernel.link_set("lo", up=True)
        for key, value in _TRUSTING.items():
            kernel.sysctl_write(key, value)
        kernel.netns_add("wire", "")
        kernel.link_add(NewLink("eth0", "veth", peer_name="wire0", peer_netns="wire"))
        self._up(kernel, "eth0", HOST)
        self._up(self.inside("wire"), "wire0", NEIGHBOUR)
        default = RouteAttributes(device="eth0", gateway="10.10.1.1")
        assert not kernel.route_batch([RouteOperation("add", "0.0.0.0/0", default)])

    @staticmethod
    def _up(kernel: LinuxKernel, device: str, address: str) -> None:
        kernel.link_set(device, up=True)
        kernel.address_add(InterfaceAddress(device, address, 24))

    def close(self) -> None:
        self._sockets.close()

    def inside(self, name: str) -> LinuxKernel:
        return self.kernel.inside(name)

    # ---- the node's state, and a device for comparison

    def apply(self, wanted: NodeState) -> list[str]:
        """Bring the node to a state, and return the lines of the changes; [] if there was nothing to change.

        Raise AssertionError if a plan finds differences afterwards, ApplyError if a change fails (a conflict does), and
        ObserveError or KernelError if the kernel cannot be read.
        """
        plan = plan_node(self.kernel, wanted)
        apply_node(self.kernel, plan)
        assert [change.line() for change in plan_node(self.kernel, wanted).changes] == []
        return [change.line() for change in plan.changes]

    def make(self, how: str, wanted: NodeState) -> None:
        """Bring the node to a state.

        If `how` is "attach", its workloads are attached one by one, as CNI does, before the whole state is applied;
        otherwise applying it makes them. Raise what `apply` raises, and AttachError if a workload cannot be attached.
        """
        if how == "attach":
            self.apply(dataclasses.replace(wanted, workloads=(), routes=(), sysctls=wanted.sysctls[:1]))
            for one in wanted.workloads:
                attach.attach(self.kernel, one)
        self.apply(wanted)
        for one in wanted.workloads:
            carries(self.kernel, one.interface)

    def control(self) -> str:
        """Create the device ctl0 with the host's settings for new devices, set it up, and return its name.

        Its other end is `ctl1` in the namespace `wire`, up as well. Raise KernelError if there is a ctl0 already.
        """
        self.kernel.link_add(NewLink("ctl0", "veth", peer_name="ctl1", peer_netns="wire"))
        self.kernel.link_set("ctl0", up=True)
        self.inside("wire").link_set("ctl1", up=True)
        return "ctl0"

    # ---- routes, addresses and neighbours in the kernel

    def taken(self, device: str) -> list[str]:
        """Return lines of `ip`: the device's IPv6 routes that expire or are advertised, then its global IPv6 addresses.

        All its global addresses are among them, advertised or not. Return [] if there is no such device.
        """
        done = self.kernel.run(["ip", "-6", "route", "show", "table", "all", "dev", device])
        routes = [line for line in done.output.splitlines() if " expires " in line or " proto ra " in line]
        done = self.kernel.run(["ip", "-6", "-oneline", "address", "show", "dev", device, "scope", "global"])
        return routes + done.output.splitlines()

    def default_routes6(self) -> str:
        return self.kernel.run(["ip", "-6", "route", "show", "default"]).output

    def neighbours(self, device: str) -> list[str]:
        return self.kernel.run(["ip", "neighbour", "show", "dev", device]).output.splitlines()

    # ---- packets

    def sends(self, namespace: str, device: str, *frames: bytes) -> None:
        """Send frames by a device in one of the namespaces, as root there does, once the device has its carrier.

        Raise KernelError if there is no such namespace, and OSError if it has no such device or the device refuses a
        frame.
        """
        kernel = self.inside(namespace)
        carries(kernel, device)
        sender = kernel._there(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
        with sender:
            sender.bind((device, 0))
            for frame in frames:
                sender.send(frame)

    def listens(self, namespace: t.Optional[str] = None, port: int = PORT) -> socket.socket:
        """Return an IPv4 UDP socket, bound to `port`, of one of the namespaces, or of the host with None.

        Its timeout is 10 seconds, and `Host.close` closes it. Raise KernelError if there is no such namespace, and
        OSError if the port is taken.
        """
        kernel = self.kernel if namespace is None else self.inside(namespace)
        made = kernel._there(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._sockets.enter_context(made)
        made.bind(("0.0.0.0", port))
        made.settimeout(10)
        return made


def carries(kernel: LinuxKernel, device: str) -> None:
    """Wait up to 60 seconds until the kernel has noticed the carrier of a device, which it does in a work queue.

    Until then it silently drops what the device sends. Without such a device, or without a carrier, return as well.
    """
    link = kernel.link(device)
    if link is not None and link.up:
        until(lambda: (now := kernel.link(device)) is None or now.running)


def until(holds: t.Callable[[], t.Any], seconds: float = 60.0) -> bool:
    """Wait up to `seconds` until `holds` returns something true; return whether it did."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def received(listener: socket.socket) -> set[str]:
    """Return the source addresses of the packets received before the first one with the payload `last`.

    Raise TimeoutError if the socket's timeout passes without a packet.
    """
    found = set()
    while True:
        data, (source, _port) = listener.recvfrom(2048)
        if data == b"last":
            return found
        found.add(source)


def endpoint(wanted: NodeState, name: str) -> VethEndpoint:
    return next(one for one in wanted.workloads if one.name == name)


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def ethernet(payload: bytes, to: str = HOST_MAC, source: str = "02:00:00:00:00:66", kind: int = 0x0800) -> bytes:
    return mac(to) + mac(source) + struct.pack("!H", kind) + payload


def udp(source: str, destination: str, payload: bytes = b"forged", port: int = PORT, options: bytes = b"") -> bytes:
    """Return an IPv4 packet with a UDP datagram from port 4000, without a UDP checksum, which IPv4 allows.

    `options` are the IP header's, a multiple of four bytes.
    """
    ends = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    body = struct.pack("!HHHH", 4000, port, 8 + len(payload), 0) + payload
    return ipv4(ends, socket.IPPROTO_UDP, body, options)


def ipv6_udp(source: str, destination: str, payload: bytes, port: int = PORT) -> bytes:
    ends = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    length = 8 + len(payload)
    body = struct.pack("!HHHH", 4000, port, length, 0) + payload
    value = checksum(ends + struct.pack("!II", length, socket.IPPROTO_UDP) + body) or 0xFFFF
    return struct.pack("!IHBB", 6 << 28, length, 17, 64) + ends + body[:6] + struct.pack("!H", value) + body[8:]


def ipv4(ends: bytes, protocol: int, body: bytes, options: bytes = b"") -> bytes:
    words = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH", 0x40 | words, 0, 4 * words + len(body), 1, 0, 64, protocol, 0) + ends + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def arp(operation: int, sender: str, target: str, source: str = "02:00:00:00:00:66") -> bytes:
    ends = ipaddress.ip_address(sender).packed, ipaddress.ip_address(target).packed
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation) + mac(source) + ends[0] + bytes(6) + ends[1]
    return ethernet(body, "ff:ff:ff:ff:ff:ff", source, 0x0806)


def router_advertisement(source: str = ROUTER) -> bytes:
    """Return an IPv6 packet with a Router Advertisement to all nodes.

    It offers a default route, a more specific route, a prefix for addresses and an MTU of 1280 bytes.
    """
    prefix = ipaddress.ip_address("2001:db8:bad::").packed
    specific = ipaddress.ip_address("2001:db8:5ec::").packed
    icmp = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0x08, 1800, 0, 0)
    icmp += struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 86400, 86400, 0) + prefix
    icmp += struct.pack("!BBBBI", 24, 3, 48, 0x08, 1800) + specific
    icmp += struct.pack("!BBHI", 5, 1, 0, 1280)
    ends = ipaddress.ip_address(source).packed + ipaddress.ip_address("ff02::1").packed
    value = checksum(ends + struct.pack("!II", len(icmp), 58) + icmp)
    icmp = icmp[:2] + struct.pack("!H", value) + icmp[4:]
    return struct.pack("!IHBB", 6 << 28, len(icmp), 58, 255) + ends + icmp


def advertisement() -> bytes:
    return ethernet(router_advertisement(), "33:33:00:00:00:01", kind=0x86DD)


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) // 2 * 2]))
    total += data[-1] << 8 if len(data) % 2 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
