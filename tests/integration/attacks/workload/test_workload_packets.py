# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a workload with packets: forged sources, encapsulated packets, neighbour entries of the host."""

from __future__ import annotations

import itertools
import pathlib
import socket
import struct
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow

from tests.integration.attacks import forged_packets as forged
from tests.integration.attacks.attacked_node import KINDS, PEER, PEER_V6, PORT, AttackedNode, attacked_node
from tests.integration.policy.node_in_namespace import workload_interface
from tests.integration.policy.policed_node import (
    HOST,
    HOST_V6,
    OUTSIDE,
    OUTSIDE_V6,
    W0,
    W0_V6,
    W1,
    W1_V6,
    W2,
    W2_V6,
    back,
    of_protocol,
    udp,
)

CALI0 = workload_interface(0)
GATEWAY = "fe80::ecee:eeff:feee:eeee"
MAC = b"\x02\0\0\0\xff\xff"
FLOOD = 10_000
#: The most neighbour entries that the limits let a workload cause: at once, and in each further second.
AT_ONCE, A_SECOND = 11, 4


@pytest.fixture(params=KINDS)
def attacked(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> t.Iterator[AttackedNode]:
    yield from attacked_node(request.param, tmp_path, monkeypatch)


def gets_nowhere(attacked: AttackedNode, flows: t.Iterable[Flow], by: str = CALI0) -> None:
    expected = dict.fromkeys(flows)
    assert attacked.see(expected, by=by) == expected


def passes(attacked: AttackedNode, flows: t.Mapping[Flow, str], by: str = CALI0) -> None:
    assert attacked.see(flows, by=by) == flows


# --- sources of a workload's packets


def test_a_workload_sends_as_somebody_else(attacked: AttackedNode) -> None:
    """Send from addresses of others, to the network, to another workload and to the host.

    Gain: Access that the others are allowed, and answers of third parties that flood them.
    Precedent: CWE-290 (BCP 38).
    Closed: 0.2.0
    Result: These packets arrive nowhere; those with the workload's own source pass.
    """
    attacked.defend()
    for own, others, host, outside in (
        (W0, (W1, HOST, "8.8.8.8", "10.65.1.7"), HOST, OUTSIDE),
        (W0_V6, (W1_V6, HOST_V6, "2001:4860:4860::8888", "fd65:0:0:1::7"), HOST_V6, OUTSIDE_V6),
    ):
        third = W2_V6 if ":" in own else W2
        targets = {outside: "eth0", third: workload_interface(2), host: ""}
        gets_nowhere(attacked, [udp(one, target) for one in others for target in targets])
        passes(attacked, {udp(own, target): interface for target, interface in targets.items()})


def test_a_workload_gets_into_the_connection_of_another(attacked: AttackedNode) -> None:
    """Send forged packets of another workload's connection.

    Gain: Forged data in that connection, which policy does not check again.
    Precedent: CWE-290.
    Closed: 0.2.0
    Result: the packets are dropped, and the connection goes on.
    """
    attacked.defend()
    for theirs in (udp(W1, OUTSIDE), udp(W1_V6, OUTSIDE_V6)):
        attacked.establish(theirs)
        gets_nowhere(attacked, [theirs])
        attacked.expect([theirs])


def test_a_workload_answers_for_a_server_of_the_host(attacked: AttackedNode) -> None:
    """Send datagrams with a server's address to a connected socket of the host, for example a DNS resolver's.

    Gain: Forged answers of DNS or NTP. The kernel gives them to the socket before it checks their source.
    Precedent: CWE-290.
    Closed: 0.2.0
    Result: Only packets from the network reach the socket.
    """
    attacked.defend()
    kernel = attacked.node.kernel
    with kernel._there(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as client:
        client.bind((HOST, 0))
        client.connect((OUTSIDE, 53))
        client.settimeout(0.3)
        client.send(b"?")
        port = client.getsockname()[1]

        def answer(by: str, payload: bytes) -> None:
            attacked.send_raw(forged.ip(OUTSIDE, HOST, forged.UDP, forged.udp(OUTSIDE, HOST, 53, port, payload)), by)

        for _turn in range(3):  # from the second packet on the kernel finds the socket before it checks the source
            answer("eth0", b"true")
            assert client.recv(100) == b"true"
        answer(CALI0, b"forged")
        with pytest.raises(TimeoutError):
            client.recv(100)


@pytest.mark.parametrize("where", ["all", CALI0], ids=["all", "published"])
@pytest.mark.parametrize("spoofing", [False, True], ids=["", "foreign sources allowed"])
def test_a_workload_reaches_the_loopback_of_its_host(attacked: AttackedNode, spoofing: bool, where: str) -> None:
    """Send to 127.0.0.1 and ::1 of the host, and from there, where route_localnet is set.

    It is set for all devices by an administrator, or for the workload's own by a published port.

    Gain: Services that listen on the loopback alone because they trust every local program.
    Precedent: CVE-2020-8558 (kube-proxy set route_localnet).
    Closed: 0.2.0
    Result: Dropped before connection tracking, whatever the kernel's settings are.
    """
    attacked.node.kernel.sysctl_write(f"net/ipv4/conf/{where}/route_localnet", "1")
    attacked.node.kernel.sysctl_write(f"net/ipv4/conf/{CALI0}/rp_filter", "0" if spoofing else "1")
    passes(attacked, {udp(W0, "127.0.0.1"): "", udp(W0, "127.0.0.9"): ""})
    attacked.defend(spoofing=spoofing)
    for loopback, own, host, outside in (("127.0.0.1", W0, HOST, OUTSIDE), ("::1", W0_V6, HOST_V6, OUTSIDE_V6)):
        gets_nowhere(attacked, [udp(own, loopback), udp(loopback, host), udp(loopback, outside)])
    gets_nowhere(attacked, [udp(W0, "127.255.0.9")])


def test_a_workload_that_may_route_sends_as_another_workload(attacked: AttackedNode) -> None:
    """Send as another workload of the node if calico_workload_source_spoofing allows foreign addresses.

    Gain: Access that the other workload is allowed.
    Precedent: CWE-290.
    Closed: 0.2.0
    Result: Foreign addresses pass, but not those of the node's own workloads and blocks.
    """
    kernel = attacked.node.kernel
    kernel.sysctl_write(f"net/ipv4/conf/{CALI0}/rp_filter", "0")
    kernel.run(["ip", "route", "add", "blackhole", "10.65.0.0/26"])
    attacked.defend(spoofing=True)
    passes(attacked, {udp("8.8.8.8", OUTSIDE): "eth0", udp("2001:4860:4860::8888", OUTSIDE_V6): "eth0"})
    gets_nowhere(attacked, [udp(W1, OUTSIDE), udp("10.65.0.33", OUTSIDE), udp(W1_V6, OUTSIDE_V6)])
    passes(attacked, {udp(W0, OUTSIDE): "eth0", udp(W0_V6, OUTSIDE_V6): "eth0"})


def test_dhcp_and_packets_of_the_host_to_its_workloads_pass(attacked: AttackedNode) -> None:
    """Request an address by DHCP, and let the host reach its own workloads (honest).

    Gain: None. The checks must let this pass.
    Precedent: none known.
    Closed: 0.2.0
    Result: The host reaches its workloads, and without policy a request from 0.0.0.0 reaches the host.
    """
    attacked.defend()
    passes(attacked, {udp(HOST, W0): CALI0, udp(HOST_V6, W0_V6): CALI0}, by="")
    request = udp("0.0.0.0", "255.255.255.255", 67, 68)
    # Policy drops packets from an address that belongs to no workload.
    assert attacked.see({request: None if attacked.policy else ""}, by=CALI0) == {
        request: None if attacked.policy else ""
    }


# --- encapsulated packets that a workload sends


def encapsulated(own: str, *targets: str) -> list[Flow]:
    return [flow for one in targets for flow in (of_protocol(4, own, one), udp(own, one, 4789), udp(own, one, PORT))]


def test_a_workload_encapsulates(attacked: AttackedNode) -> None:
    """Send VXLAN and IPIP to other nodes, masqueraded by natOutgoing as this node, and to its own host.

    Gain: Packets from any source to any workload of the fleet, past all policy.
    Precedent: CVE-2020-8558 (class: trust in a packet's way).
    Closed: 0.2.0
    Result: Packets to the fleet's VXLAN port, to port 4789 and of IPIP are dropped before connection tracking.
    """
    attacked.defend(tunnels=True)
    gets_nowhere(attacked, [*encapsulated(W0, PEER, HOST, W1), *encapsulated(W0_V6, PEER_V6, HOST_V6, W1_V6)])
    # A workload's packet to the tunnel port PORT is dropped even if it answers a packet from that port.
    for asked in (udp(PEER, W0, 6000, PORT), udp(PEER_V6, W0_V6, 6000, PORT)):
        attacked.expect([asked], denied=[back(asked)])
    passes(attacked, {udp(W0, PEER): "eth0", udp(W0_V6, PEER_V6): "eth0"})


@pytest.mark.parametrize("tunnels", [False, True], ids=["plain", "connections tracked"])
def test_a_workload_encapsulates_in_fragments(attacked: AttackedNode, tunnels: bool) -> None:
    """Send VXLAN in fragments, with the UDP header in the first or second one, or after other headers.

    With `tunnels` the port is that of the fleet's VXLAN, and connections are tracked; otherwise it is 4789.

    Gain: Packets to any workload past all policy, if a rule on ports checked fragments one by one.
    Precedent: CVE-2021-3773 (class), RFC 7112.
    Closed: 0.2.0
    Result: No fragment with an outer UDP header leaves, so that no host can reassemble the packet.
    """
    attacked.defend(tunnels=tunnels)
    port = PORT if tunnels else 4789
    packets = []
    for own, peer in ((W0, PEER), (W0_V6, PEER_V6)):
        datagram = forged.udp(own, peer, 6000, port, b"x" * 64)
        packets += [*forged.in_two(own, peer, datagram, 8), *forged.in_two(own, peer, datagram, 16)]
    options = struct.pack("!BB", forged.UDP, 0) + b"\1\4\0\0\0\0"
    behind_options = options + forged.udp(W0_V6, PEER_V6, 6000, port, b"x" * 64)
    packets.append(forged.ip(W0_V6, PEER_V6, forged.DESTINATION_OPTIONS, behind_options))
    packets += forged.in_two(W0_V6, PEER_V6, behind_options, 16, forged.DESTINATION_OPTIONS)
    if tunnels:
        packets += forged.in_two(W0_V6, PEER_V6, behind_options, 8, forged.DESTINATION_OPTIONS)
    with attacked.node.watching("eth0") as frames:
        for packet in packets:
            attacked.send_raw(packet, CALI0)
        attacked.expect([udp(W0, OUTSIDE)])
        assert [frame.hex() for frame in forged.left(frames) if _has_udp_header(frame[14:], port)] == []


def test_a_workload_that_may_encapsulates(attacked: AttackedNode) -> None:
    """Encapsulate where the inventory allows it (honest).

    Gain: None. calico_allow_vxlan_packets_from_workloads and its IPIP counterpart must let this pass.
    Precedent: none known.
    Closed: 0.2.0
    Result: Only the allowed kind passes.
    """
    attacked.defend(vxlan=True)
    passes(attacked, {udp(W0, OUTSIDE, 4789): "eth0", udp(W0_V6, OUTSIDE_V6, 4789): "eth0"})
    gets_nowhere(attacked, [of_protocol(4, W0, OUTSIDE)])
    attacked.defend(ipip=True)
    passes(attacked, {of_protocol(4, W0, OUTSIDE): "eth0"})
    gets_nowhere(attacked, [udp(W0, OUTSIDE, 4789), udp(W0_V6, OUTSIDE_V6, 4789)])


def _has_udp_header(packet: bytes, port: int) -> bool:
    """Return whether an IP packet or fragment has the outer UDP header of a datagram to this port."""
    if packet[0] >> 4 == 4:
        fragment = struct.unpack_from("!H", packet, 6)[0]
        return packet[9] == forged.UDP and not fragment & 0x1FFF and packet[22:24] == struct.pack("!H", port)
    kind, offset = packet[6], 40
    while kind in (forged.DESTINATION_OPTIONS, forged.FRAGMENT):
        if kind == forged.FRAGMENT and struct.unpack_from("!H", packet, offset + 2)[0] & 0xFFF8:
            # The UDP header is in a second fragment if the first one ends with the destination options.
            return packet[offset] == forged.DESTINATION_OPTIONS and struct.pack("!H", port) in packet[offset + 8 :][:4]
        kind, offset = packet[offset], offset + 8
    return kind == forged.UDP and packet[offset + 2 : offset + 4] == struct.pack("!H", port)


# --- entries of the host's neighbour table that a workload causes


def with_gateway(attacked: AttackedNode, index: int, interface: str = "") -> str:
    """Set up a workload's interface for neighbour discovery: ARP on, the IPv6 gateway and route. Return its name.

    The interface is renamed to `interface` first if that is given. Raise AssertionError if a command fails.
    """
    node, name = attacked.node, workload_interface(index)
    if interface:
        attacked.expect([udp(f"10.65.0.{index + 1}", OUTSIDE)])
        node.rename(name, interface)
    name = interface or name
    for argv in (
        ["ip", "link", "set", name, "arp", "on"],
        ["ip", "address", "add", f"{GATEWAY}/64", "dev", name, "nodad"],
        ["ip", "route", "replace", f"fd65::{index + 1:x}/128", "dev", name],
    ):
        assert node.kernel.run(argv).code == 0
    return name


def entries(attacked: AttackedNode, interface: str) -> int:
    shown = attacked.node.kernel.run(["ip", "-6", "neighbor", "show", "nud", "all", "dev", interface]).output
    return sum(not line.startswith("ff02:") for line in shown.splitlines())


def flood(attacked: AttackedNode, by: str) -> float:
    """Send 10,000 packets, each from another address, that make a host add neighbours; return the seconds taken.

    `by` is the interface. Raise AssertionError if a packet of another workload does not leave the host afterwards.
    """
    began = time.monotonic()
    kinds = itertools.cycle(MAKING_ENTRIES)
    for number in range(FLOOD):
        attacked.send_raw(next(kinds)(f"fe80::bad:{number:x}"), by)
        if number % 500 == 0:
            time.sleep(0.005)  # otherwise the host's queue would lose most packets
    attacked.expect([udp(W1, OUTSIDE)])
    return time.monotonic() - began


def advertised(frames: socket.socket, target: str) -> bool:
    """Read frames until one is the host's neighbour advertisement for `target`; return whether there is one.

    Return False after 10 seconds without a frame.
    """
    wanted = socket.inet_pton(socket.AF_INET6, target)
    return any(
        frame[20] == forged.ICMPV6 and frame[54] == 136 and frame[62:78] == wanted
        for frame in forged.left(frames, pause=10)
    )


MAKING_ENTRIES: tuple[t.Callable[[str], bytes], ...] = (
    lambda source: forged.solicitation(source, GATEWAY, MAC),
    lambda source: forged.icmpv6(source, "ff02::2", forged.ROUTER_SOLICITATION, b"\0" * 4 + b"\1\1" + MAC),
    lambda source: forged.icmpv6(
        source, "ff02::1", forged.ROUTER_ADVERTISEMENT, struct.pack("!BBHII", 64, 0, 1800, 0, 0) + b"\1\1" + MAC
    ),
    lambda source: forged.icmpv6(source, GATEWAY, forged.ECHO_REQUEST, b"\0" * 8),
    lambda source: forged.ip(source, GATEWAY, forged.UDP, forged.udp(source, GATEWAY, 4711, 4712, b"x")),
)


def test_a_workload_fills_the_hosts_table_of_neighbours(attacked: AttackedNode) -> None:
    """Send 10,000 packets from as many link-local addresses, which pass the reverse path filter.

    Gain: the table (1,024 entries) is full, and the host and its other workloads lose their neighbours.
    Precedent: RFC 6583, CWE-770.
    Closed: 0.2.0
    Result: At most a few entries appear, and this and another workload still find their gateways.
    """
    attacked.defend()
    attacker = with_gateway(attacked, 0)
    victim = with_gateway(attacked, 2, "calif0000000002")
    seconds = flood(attacked, attacker)
    assert entries(attacked, attacker) <= AT_ONCE + A_SECOND * seconds
    for interface, source in ((victim, "fe80::600d"), (attacker, W0_V6)):
        with attacked.node.watching(interface) as frames:
            attacked.send_raw(forged.solicitation(source, GATEWAY, MAC), interface)
            assert advertised(frames, GATEWAY), interface


def test_neighbour_discovery_of_the_gateway_is_answered(attacked: AttackedNode) -> None:
    """Search for the gateway from a link-local address, and from none as in duplicate address detection (honest).

    Gain: None. The limits must let this pass.
    Precedent: none known.
    Closed: 0.2.0
    Result: The host answers.
    """
    attacked.defend()
    name = with_gateway(attacked, 0)
    for source in ("fe80::600d", "::"):
        with attacked.node.watching(name) as frames:
            attacked.send_raw(forged.solicitation(source, GATEWAY, MAC), name)
            assert advertised(frames, GATEWAY), source
