# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a neighbour on the underlay, on a host whose HostEndpoint allows one port."""

from __future__ import annotations

import dataclasses
import socket
import struct
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Failsafe, Flow
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicySettings

from tests.integration.policy.conftest import policed  # noqa: F401  (a fixture)
from tests.integration.policy.documents import ALLOW, DENY, global_policy, host_endpoint, tier
from tests.integration.policy.packets import packet
from tests.integration.policy.policed_node import (
    HOST,
    HOST_V6,
    OUTSIDE,
    OUTSIDE_V6,
    PolicedNode,
    interface_of,
    tcp,
    udp,
)

ETH0 = 'host == "eth0"'
OPEN_PORT, CLOSED_PORT = 5000, 6000
ENDS = {4: (OUTSIDE, HOST), 6: (OUTSIDE_V6, HOST_V6)}
SETTINGS = PolicySettings(
    failsafe_inbound=(Failsafe("tcp", 22),), failsafe_outbound=(Failsafe("udp", 53), Failsafe("tcp", 443))
)
_WORLD = 77  # marks the packets that this file makes
_FRAGMENT, _DESTINATION_OPTIONS, _ROUTING, _HOP_BY_HOP = 44, 60, 43, 0


def one_open_port() -> tuple[t.Any, ...]:
    rules = [{**ALLOW, "protocol": name, "destination": {"ports": [OPEN_PORT]}} for name in ("TCP", "UDP")]
    return host_endpoint("eth0"), global_policy("open", ETH0, types=["Ingress"], ingress=rules)


def arrives(node: PolicedNode, packets: t.Mapping[int, t.Sequence[bytes]]) -> set[int]:
    """Send these packets {number: a packet or its fragments} to eth0; return the numbers that the host received."""
    for pieces in packets.values():
        for piece in pieces:
            node.send_raw(piece, "eth0")
    return node.arrived(_WORLD) & set(packets)


def fragments(data: bytes, first: int, identification: int) -> tuple[bytes, bytes]:
    """Return an IP packet in two fragments. The first one carries `first` bytes of its payload, a multiple of 8."""
    if data[0] >> 4 == 6:
        body = data[40:]
        return tuple(  # type: ignore[return-value]
            data[:4]
            + struct.pack("!HB", 8 + len(part), _FRAGMENT)
            + data[7:40]
            + struct.pack("!BBHI", data[6], 0, offset | more, identification)
            + part
            for part, offset, more in ((body[:first], 0, 1), (body[first:], first, 0))
        )
    body = data[20:]
    return tuple(  # type: ignore[return-value]
        _with_checksum(data[:2] + struct.pack("!HHH", 20 + len(part), identification, field) + data[8:20]) + part
        for part, field in ((body[:first], 0x2000), (body[first:], first // 8))
    )


def _with_checksum(header: bytes) -> bytes:
    header = header[:10] + b"\0\0" + header[12:]
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:]


def behind_extension_header(data: bytes, kind: int) -> bytes:
    """Return the IPv6 packet with an extension header of eight bytes before its payload; `kind` is its number."""
    header = struct.pack("!BBBBI", data[6], 0, 1, 4, 0)  # the option PadN with four zero bytes
    if kind == _ROUTING:
        header = struct.pack("!BBBBI", data[6], 0, 4, 0, 0)  # a segment routing header without segments left
    if kind == _FRAGMENT:
        header = struct.pack("!BBHI", data[6], 0, 0, 4712)  # an atomic fragment (RFC 6946): offset 0, no more
    return data[:4] + struct.pack("!HB", len(data) - 40 + 8, kind) + data[7:40] + header + data[40:]


def with_options(data: bytes) -> bytes:
    """Return the IPv4 packet with four bytes of options (no operation)."""
    header = bytes([0x46]) + data[1:2] + struct.pack("!H", len(data) + 4) + data[4:20] + b"\1\1\1\1"
    return _with_checksum(header) + data[20:]


def with_flags(data: bytes, flags: int) -> bytes:
    """Return the IP packet `data`, a TCP segment, with other TCP flags and a correct checksum."""
    start = 40 if data[0] >> 4 == 6 else 20
    at = start + 13
    before = struct.unpack("!H", data[at - 1 : at + 1])[0]
    changed = data[:at] + bytes([flags]) + data[at + 1 :]
    after = struct.unpack("!H", changed[at - 1 : at + 1])[0]
    checksum = struct.unpack("!H", data[start + 16 : start + 18])[0]
    total = (~checksum & 0xFFFF) + (~before & 0xFFFF) + after  # RFC 1624: change of one word
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return changed[: start + 16] + struct.pack("!H", ~total & 0xFFFF) + changed[start + 18 :]


@pytest.mark.parametrize("version", [4, 6])
def test_failsafe_port_as_source_opens_nothing(policed: PolicedNode, version: int) -> None:  # noqa: F811
    """Send from a failsafe port, so that a packet looks like an answer to the host.

    Gain: Every port of a host with untracked policy, which does not track connections.
    Precedent: CWE-290; firewalls that let everything pass from source port 53.
    Closed: 0.2.0
    Result: Dropped. Connection tracking decides on packets that look like answers, and knows no request for them.
    """
    source, destination = ENDS[version]
    forged = [
        udp(source, destination, CLOSED_PORT, 53),
        dataclasses.replace(tcp(source, destination, 6001), source_port=443),
    ]
    policed.apply(*one_open_port(), settings=SETTINGS)
    policed.expect([udp(source, destination, OPEN_PORT)], denied=forged)
    denying = global_policy("untracked", ETH0, doNotTrack=True, applyOnForward=True, types=["Ingress"], ingress=[DENY])
    policed.node.forget_connections()
    policed.apply(*one_open_port(), denying, settings=SETTINGS)
    policed.expect([tcp(source, destination, 22)], denied=[*forged, udp(source, destination, OPEN_PORT)])


@pytest.mark.parametrize("version", [4, 6])
def test_shape_of_a_packet_opens_no_port(policed: PolicedNode, version: int) -> None:  # noqa: F811
    """Hide the port in fragments, behind extension headers or IP options, or send TCP segments other than SYN.

    Gain: ports that policy denies.
    Precedent: RFC 1858 and RFC 3128 (tiny fragments), RFC 7112 (IPv6 header chains), CVE-2012-2744.
    Closed: 0.2.0
    Result: None of them reaches a closed port. Whole packets and fragments reach the open one.
    """
    source, destination = ENDS[version]
    policed.apply(*one_open_port(), settings=SETTINGS)

    def shaped(flow: Flow, number: int) -> dict[int, t.Sequence[bytes]]:
        whole = packet(flow, _WORLD, number)
        forms: list[t.Sequence[bytes]] = [(whole,), fragments(whole, 8, number)]
        if version == 6:
            forms += [
                (behind_extension_header(whole, kind),)
                for kind in (_DESTINATION_OPTIONS, _HOP_BY_HOP, _ROUTING, _FRAGMENT)
            ]
        else:
            forms += [(with_options(whole),)]
        # Each form has its own number at its end, by which `arrives` tells them apart.
        return {number + index: _renumbered(form, number + index) for index, form in enumerate(forms)}

    opened = shaped(udp(source, destination, OPEN_PORT), 100)
    closed = {
        **shaped(udp(source, destination, CLOSED_PORT), 200),
        **shaped(tcp(source, destination, CLOSED_PORT), 300),
    }
    for number, flags in enumerate((0x10, 0x01, 0x00, 0x29, 0x12, 0x04), 400):
        whole = packet(tcp(source, destination, CLOSED_PORT), _WORLD, number)
        closed[number] = (with_flags(whole, flags),)
    got = arrives(policed, {**closed, **opened})
    assert got & set(closed) == set()
    assert got >= {100, 101}, "the open port is reached by whole packets and by fragments"


def _renumbered(form: t.Sequence[bytes], number: int) -> tuple[bytes, ...]:
    """Return the packets with `number` in the tag at the end; checksums stay as they were."""
    *before, last = form
    return (*before, last[:-2] + struct.pack("!H", number))


@pytest.mark.parametrize("version", [4, 6])
def test_own_address_as_source_opens_nothing(policed: PolicedNode, version: int) -> None:  # noqa: F811
    """Use the address of the host itself, or of its loopback, as the source.

    Gain: Access that the host allows itself.
    Precedent: CVE-2020-8558 (services on 127.0.0.1 reached from neighbours), the LAND attack.
    Closed: 0.2.0
    Result: dropped.
    """
    _source, destination = ENDS[version]
    loopback = "127.0.0.1" if version == 4 else "::1"
    policed.apply(*one_open_port(), settings=SETTINGS)
    forged = [udp(destination, destination, CLOSED_PORT), udp(loopback, destination, CLOSED_PORT)]
    to_loopback = [udp(loopback, loopback, OPEN_PORT), udp(_source, loopback, OPEN_PORT)]
    seen = policed.see(dict.fromkeys([*forged, *to_loopback]), by="eth0")
    assert set(seen.values()) == {None}
    assert interface_of(destination) == ""


@pytest.mark.parametrize("version", [4, 6])
def test_failsafe_of_a_net_is_open_to_that_net_alone(policed: PolicedNode, version: int) -> None:  # noqa: F811
    """Reach a failsafe port from outside its allowed net, past a tier that denies everything.

    Gain: SSH on all hosts.
    Precedent: CWE-284; Calico's default failsafes are open to all addresses.
    Closed: 0.2.0
    Result: Dropped from elsewhere; packets from the net pass, although the first tier denies all.
    """
    source, destination = ENDS[version]
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    net = f"{source}/{32 if version == 4 else 128}"
    other = socket.inet_ntop(family, socket.inet_pton(family, source)[:-1] + b"\x63")
    settings = dataclasses.replace(SETTINGS, failsafe_inbound=(Failsafe("tcp", 22, net),))
    deny = global_policy("deny", ETH0, tier="first", types=["Ingress"], ingress=[DENY])
    policed.apply(host_endpoint("eth0"), tier("first", 1), deny, settings=settings)
    policed.expect([tcp(source, destination, 22)], denied=[tcp(other, destination, 22), udp(source, destination, 22)])
