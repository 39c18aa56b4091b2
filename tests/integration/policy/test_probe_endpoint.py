# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the probe endpoint with real packets: echo between probe endpoints and errors pass, and nothing else."""

from __future__ import annotations

import ipaddress
import socket
import struct
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.naming import PROBE_INTERFACE
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Flow
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Pool
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicySettings

from tests.integration.policy.documents import ALLOW, DENY, WORKLOADS, global_policy, host_endpoint
from tests.integration.policy.node_in_namespace import PROBE, PROBE_V6
from tests.integration.policy.packets import packet, tag
from tests.integration.policy.policed_node import (
    ELSEWHERE,
    HOST,
    HOST_V6,
    OUTSIDE,
    OUTSIDE_V6,
    W0,
    W0_V6,
    PolicedNode,
    back,
    icmp,
    ping,
    tcp,
    udp,
)

#: Probe endpoints of other nodes, beyond eth0 and eth1.
OTHER, OTHER_V6, THIRD = "192.0.2.62", "2001:db8::3e", "198.51.100.62"
PROBES = (PROBE, PROBE_V6, OTHER, OTHER_V6, THIRD)
_CIDRS = ("10.65.0.0/16", "192.0.2.0/24", "198.51.100.0/24", "fd65::/64", "2001:db8::/64")
POOLS = tuple(Pool(cidr, cidr, 122 if ":" in cidr else 26, "None") for cidr in _CIDRS)
#: The pools of a node whose rules of natOutgoing make the kernel track connections.
WITH_NAT = tuple(Pool(one.name, one.cidr, one.block_size, "None", nat_outgoing=True) for one in POOLS)

ECHOES = [
    ping(PROBE, OTHER),
    ping(OTHER, PROBE),
    ping(PROBE_V6, OTHER_V6),
    ping(OTHER_V6, PROBE_V6),
    ping(THIRD, PROBE),
]
#: (the node's own end, another probe endpoint, a workload, an address outside, the host), for each IP version.
_ENDS = ((PROBE, OTHER, W0, OUTSIDE, HOST), (PROBE_V6, OTHER_V6, W0_V6, OUTSIDE_V6, HOST_V6))
REFUSED = [
    flow
    for own, other, workload, outside, host in _ENDS
    for flow in (
        *(kind(*ends) for kind in (udp, tcp) for ends in ((own, other), (other, own), (own, workload), (own, host))),
        *(ping(*ends) for ends in ((own, workload), (workload, own), (own, host), (own, outside), (outside, own))),
        tcp(workload, own),
        icmp(5 if own == PROBE else 135, own, other),
        icmp(13 if own == PROBE else 139, other, own),
    )
]


def programs(policed: PolicedNode, how: str) -> None:
    """Program the rules of a node with probe endpoints: "policy", "without policy" or "with nat" (and no policy)."""
    if how == "policy":
        policed.apply(*WORKLOADS, probes=PROBES, pools=POOLS)
    else:
        policed.without_policy(probes=PROBES, pools=WITH_NAT if how == "with nat" else POOLS)


@pytest.fixture(params=["policy", "without policy", "with nat"])
def probed(policed: PolicedNode, request: pytest.FixtureRequest) -> PolicedNode:
    programs(policed, request.param)
    return policed


def answered(policed: PolicedNode, flow: Flow) -> bool:
    """Send an echo request and its reply, and return whether both arrive."""
    number = policed.send(flow, world=1)
    reply = packet(_reply(flow), 2, number)
    assert number in policed.arrived(1), flow
    if flow.destination in (PROBE, PROBE_V6):
        policed.send_raw(reply, PROBE_INTERFACE)
    else:
        policed.send_raw(reply, "eth0")
    return number in policed.arrived(2)


def _reply(flow: Flow) -> Flow:
    return icmp({8: 0, 128: 129}[t.cast(int, flow.icmp_type)], flow.destination, flow.source)


def error(about: bytes, source: str, destination: str, kind: int, code: int) -> bytes:
    """Return an ICMP or ICMPv6 error that quotes the packet `about` and its tag; what it says of an MTU is 1400."""
    from_, to = (ipaddress.ip_address(one).packed for one in (source, destination))
    body = struct.pack("!BBHI", kind, code, 0, 1400) + about
    if ":" not in source:
        body = body[:2] + struct.pack("!H", _checksum(body)) + body[4:]
        header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, 1, 0) + from_ + to
        return header[:10] + struct.pack("!H", _checksum(header)) + header[12:] + body
    pseudo = from_ + to + struct.pack("!II", len(body), 58)
    body = body[:2] + struct.pack("!H", _checksum(pseudo + body)) + body[4:]
    return struct.pack("!IHBB", 6 << 28, len(body), 58, 64) + from_ + to + body


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def errors_seen(policed: PolicedNode, sent: t.Sequence[bytes]) -> int:
    """Send packets to the probe endpoint from beyond eth1, and return how many of them leave towards it."""
    with policed.node.watching(PROBE_INTERFACE) as frames:
        for one in sent:
            policed.send_raw(one, "eth1")
        count = 0
        while True:
            try:
                data: bytes = frames.recv(2048)
            except (TimeoutError, socket.timeout):
                return count
            count += tag(data) is not None


# --- one node -------------------------------------------------------------------------------------------------------


def test_probe_endpoints_exchange_echoes_and_nothing_else(probed: PolicedNode) -> None:
    probed.expect(allowed=ECHOES, denied=REFUSED)
    probed.node.forget_connections()
    assert all(answered(probed, flow) for flow in ECHOES[:4])


def test_without_the_rules_all_of_it_passes(policed: PolicedNode) -> None:
    """The packets that the rules drop are valid: a node without probe endpoints forwards them."""
    policed.without_policy(pools=POOLS)
    policed.expect(allowed=[*ECHOES, *REFUSED])


def test_errors_about_probes_come_through(probed: PolicedNode) -> None:
    router = {4: "203.0.113.1", 6: "2001:db8::1"}
    kinds = {4: ((3, 4), (3, 1), (11, 0)), 6: ((1, 0), (2, 0), (3, 0))}
    found = []
    for flow in (ECHOES[0], ECHOES[2]):
        number = probed.send(flow, world=1)
        about, version = packet(flow, 3, number), flow.ip_version
        found += [error(about, router[version], flow.source, *kind) for kind in kinds[version]]
    assert errors_seen(probed, found) == len(found)
    # Neither answers nor other messages come through as errors do.
    others = [error(packet(ECHOES[0], 3, 1), router[4], PROBE, kind, 0) for kind in (0, 8, 12, 13)]
    assert errors_seen(probed, others) == 0


@pytest.mark.parametrize("how", ["policy", "with nat"])
def test_errors_about_other_packets_are_dropped_where_connections_are_tracked(policed: PolicedNode, how: str) -> None:
    programs(policed, how)
    unknown = error(packet(ECHOES[0], 3, 9), "203.0.113.1", PROBE, 3, 4)
    assert errors_seen(policed, [unknown]) == 0


def test_a_host_that_forwards_nothing_forwards_probes(probed: PolicedNode) -> None:
    """Dockerd sets the policy of FORWARD to DROP, and another program's rule can still deny probes."""
    probed.iptables("-P", "FORWARD", "DROP")
    probed.expect(allowed=ECHOES)
    probed.node.forget_connections()
    probed.iptables("-I", "FORWARD", "2", "-p", "icmp", "-j", "DROP")
    probed.expect(denied=ECHOES[:2])


def test_a_probe_endpoint_does_not_send_from_other_addresses(probed: PolicedNode) -> None:
    forged = [ping(W0, OTHER), ping(OUTSIDE, OTHER), ping(W0_V6, OTHER_V6)]
    assert set(probed.see(dict.fromkeys(forged), PROBE_INTERFACE).values()) == {None}
    stolen = [ping(PROBE, OTHER), ping(PROBE_V6, OTHER_V6)]
    assert set(probed.see(dict.fromkeys(stolen), "eth0").values()) == {None}


# --- users' policy --------------------------------------------------------------------------------------------------


def test_policy_of_workloads_neither_allows_nor_denies_probes(policed: PolicedNode) -> None:
    both = ["Ingress", "Egress"]
    for action in (ALLOW, DENY):
        policed.apply(
            *WORKLOADS, global_policy("everything", ingress=[action], egress=[action], types=both), probes=PROBES
        )
        policed.expect(allowed=ECHOES, denied=[udp(PROBE, OTHER), ping(W0, PROBE), ping(OUTSIDE, PROBE)])
        policed.node.forget_connections()
    policed.apply(*WORKLOADS, settings=PolicySettings(audit=True), probes=PROBES)
    policed.expect(allowed=ECHOES, denied=REFUSED)


def test_policy_on_forwarded_packets_of_a_host_endpoint_applies_to_probes(policed: PolicedNode) -> None:
    def denies(direction: str) -> dict[str, t.Any]:
        return global_policy("no-echo", "has(host)", types=[direction], applyOnForward=True, **{
            direction.lower(): [{**DENY, "protocol": "ICMP"}, ALLOW]})  # fmt: skip

    for direction, denied in (("Ingress", ping(OTHER, PROBE)), ("Egress", ping(PROBE, OTHER))):
        policed.apply(*WORKLOADS, host_endpoint("eth0"), denies(direction), probes=PROBES)
        policed.expect(allowed=[ping(THIRD, PROBE), ping(PROBE, THIRD), back(denied)], denied=[denied])
        policed.node.forget_connections()
    policed.apply(*WORKLOADS, host_endpoint("*"), denies("Ingress"), probes=PROBES)
    policed.expect(denied=[ping(OTHER, PROBE), ping(PROBE, OTHER), ping(ELSEWHERE, PROBE)])


def test_drops_are_logged_as_those_of_the_probe_endpoint(policed: PolicedNode) -> None:
    policed.apply(*WORKLOADS, probes=PROBES)
    with policed.logged() as found:
        policed.expect(denied=[ping(W0, PROBE), udp(PROBE, OTHER)])
    assert sorted(found) == ["deny:in:host:0:probe-endpoint", "deny:out:host:0:probe-endpoint"]


def test_a_node_that_loses_its_policy_keeps_the_restriction(policed: PolicedNode) -> None:
    for _ in range(2):
        for how in ("policy", "without policy"):
            programs(policed, how)
            policed.expect(allowed=ECHOES[:2], denied=[ping(W0, PROBE), udp(PROBE, OTHER), ping(PROBE, HOST)])
            policed.node.forget_connections()
