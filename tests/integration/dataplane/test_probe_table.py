# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ways of packets between the probe endpoints of two hosts, which two links join, on a real kernel.

The routes of the main table lead through eth0, those of the table for probes through eth1.
"""

from __future__ import annotations

import contextlib
import pathlib
import socket
import struct
import subprocess
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    InterfaceAddress,
    NewLink,
    RouteAttributes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.apply import apply_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.plan import plan_node
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import (
    probe_endpoint,
    with_probe_endpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    PROBE_INTERFACE,
    PROBE_NETNS,
    PROBE_PRIORITY,
    PROBE_TOS,
    TABLE_PROBE,
    NodeState,
    Pool,
    Route,
    RoutingRule,
    Sysctl,
)

from tests.integration.host_under_test import HOST, HostKernel, host_under_test
from tests.unit.dataplane.suites.drivers import write_route

POOLS = (
    Pool("a", "10.244.0.0/16", 26, "None"),
    Pool("b", "10.245.0.0/16", 26, "IPIP", workload_mtu=1480),
    Pool("six", "fd00:10:244::/64", 122, "None"),
)
#: The addresses of a host's probe endpoint, and its blocks, by the host's number.
ADDRESSES = {n: (f"10.244.{n}.63", f"10.245.{n}.63", f"fd00:10:244::{n}:3f") for n in (1, 2)}
BLOCKS = {n: (f"10.244.{n}.0/26", f"10.245.{n}.0/26", f"fd00:10:244::{n}:0/122") for n in (1, 2)}
LINKS = ("eth0", "eth1")


def gateway(link: str, host: int, version: int) -> str:
    """Return the address that a host has on a link."""
    number = LINKS.index(link) + 1
    return f"fd00:{number}::{host}" if version == 6 else f"192.0.{number}.{host}"


def version_of(text: str) -> int:
    return 6 if ":" in text else 4


def state(host: int) -> NodeState:
    """Return the state of a host whose routes to the other one's blocks in the table for probes lead through eth1."""
    other = 3 - host
    bare = NodeState(
        node=f"node{host}",
        address=f"{gateway('eth0', host, 4)}/24",
        address6=f"{gateway('eth0', host, 6)}/64",
        pools=POOLS,
        routes=tuple(
            Route(block, device="eth1", gateway=gateway("eth1", other, version_of(block)), table=TABLE_PROBE)
            for block in BLOCKS[other]
        ),
        rules=tuple(
            RoutingRule(0, TABLE_PROBE, PROBE_PRIORITY, family, PROBE_INTERFACE, PROBE_TOS) for family in (4, 6)
        ),
        sysctls=(
            Sysctl("net/ipv4/ip_forward", "1"),
            Sysctl("net/ipv6/conf/all/forwarding", "1"),
            *(Sysctl(f"net/ipv4/conf/{link}/rp_filter", "2") for link in LINKS),
        ),
    )
    return with_probe_endpoint(bare, probe_endpoint(ADDRESSES[host], POOLS))


@pytest.fixture
def hosts(tmp_path: pathlib.Path) -> t.Iterator[dict[int, HostKernel]]:
    """Two hosts in their states, by number."""
    with contextlib.ExitStack() as stack:
        made = {n: stack.enter_context(host_under_test(tmp_path / str(n), HostKernel)) for n in (1, 2)}
        for link in LINKS:
            made[1].link_add(NewLink(link, "veth", peer_name=f"{link}-2"))
            words = ["ip", "link", "set", "dev", f"{link}-2", "netns", f"{tmp_path}/2/netns/{HOST}", "name", link]
            made[1]._there(lambda words=words: subprocess.run(words, check=True))
        for n, kernel in made.items():
            kernel.link_set("lo", up=True)
            for link in LINKS:
                kernel.link_set(link, up=True)
                kernel.address_add(InterfaceAddress(link, gateway(link, n, 4), 24))
                kernel.address_add(InterfaceAddress(link, gateway(link, n, 6), 64))
            write_route(kernel, "0.0.0.0/0", RouteAttributes(device="eth0", gateway=gateway("eth0", 3 - n, 4)))
            for block in BLOCKS[3 - n]:
                by, metric = gateway("eth0", 3 - n, version_of(block)), 1024 if ":" in block else 0
                attributes = RouteAttributes(device="eth0", gateway=by, protocol=12, metric=metric)
                write_route(kernel, block, attributes)
        for n, kernel in made.items():
            apply_node(kernel, plan_node(kernel, state(n)))
        yield made


@contextlib.contextmanager
def echoes(kernel: HostKernel) -> t.Iterator[dict[str, socket.socket]]:
    """Yield a socket for each link of a host, which hears the packets on it."""
    with contextlib.ExitStack() as stack:
        sockets = {}
        for link in LINKS:
            heard = kernel._there(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)))
            stack.callback(heard.close)
            heard.bind((link, 3))
            heard.setblocking(False)
            sockets[link] = heard
        yield sockets


def sent_by(sockets: t.Mapping[str, socket.socket], kind: int) -> list[str]:
    """Return the links by which a host has sent echo packets of this ICMP type, each as often as it did."""
    found = []
    for link, heard in sockets.items():
        with contextlib.suppress(BlockingIOError):
            while True:
                data, (_device, protocol, direction, *_rest) = heard.recvfrom(2048)
                header, next_header = (40, data[6:7]) if protocol == 0x86DD else (20, data[9:10])
                if direction == socket.PACKET_OUTGOING and next_header in (b"\x01", b"\x3a") and data[header] == kind:
                    found.append(link)
    return found


def echo(inner: LinuxKernel, source: str, destination: str, tos: int) -> int:
    """Send an echo request of 1400 bytes that may not be fragmented; return the TOS of the answer.

    Raise TimeoutError if there is none within 3 seconds.
    """
    six = ":" in destination
    family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if six else (socket.AF_INET, socket.IPPROTO_ICMP)
    request, reply = (128, 129) if six else (8, 0)
    with inner._there(lambda: socket.socket(family, socket.SOCK_RAW, protocol)) as raw:
        raw.settimeout(3)
        raw.bind((source, 0))
        if six:
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos)
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        else:
            raw.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
            raw.setsockopt(socket.IPPROTO_IP, 10, 3)  # IP_MTU_DISCOVER, IP_PMTUDISC_PROBE
        body = struct.pack("!HH", 1790, 1) + bytes(1400 - (48 if six else 28))
        raw.sendto(checked(struct.pack("!BBH", request, 0, 0) + body), (destination, 0))
        while True:
            data, ancillary, _flags, sender = raw.recvmsg(2048, 256)
            answer = data if six else data[20:]
            if answer[0] == reply and sender[0] == destination:
                return int.from_bytes(ancillary[0][2], "little") if six else data[1]


def checked(packet: bytes) -> bytes:
    """Return an ICMP packet with its checksum, which the kernel writes anew for ICMPv6."""
    total = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    total = (total >> 16) + (total & 0xFFFF)
    return packet[:2] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + packet[4:]


@pytest.mark.parametrize("position", range(3), ids=["first pool", "second pool", "IPv6"])
@pytest.mark.parametrize(("tos", "link"), [(PROBE_TOS, "eth1"), (0, "eth0"), (0x10, "eth0")])
def test_probes_with_the_tos_take_their_table_in_both_directions(
    hosts: dict[int, HostKernel], position: int, tos: int, link: str
) -> None:
    """Requests with the TOS of probes, and the answers to them, take the table for probes, and no others do."""
    source, destination = ADDRESSES[1][position], ADDRESSES[2][position]
    with echoes(hosts[1]) as there, echoes(hosts[2]) as back:
        assert echo(hosts[1].inside(PROBE_NETNS), source, destination, tos) == tos
        request, reply = (128, 129) if ":" in source else (8, 0)
        assert (sent_by(there, request), sent_by(back, reply)) == ([link], [link])


def test_other_packets_with_the_tos_take_the_main_table(hosts: dict[int, HostKernel]) -> None:
    """The rule applies to the probe endpoint alone: the host's own packets with its TOS take the live path."""
    with echoes(hosts[1]) as there:
        echo(hosts[1], gateway("eth0", 1, 4), ADDRESSES[2][0], PROBE_TOS)
        assert sent_by(there, 8) == ["eth0"]


def test_a_second_run_finds_nothing(hosts: dict[int, HostKernel]) -> None:
    for n, kernel in hosts.items():
        assert plan_node(kernel, state(n)).changes == ()
