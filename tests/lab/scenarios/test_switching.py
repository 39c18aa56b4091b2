# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main promise: a pool changes its mode without a lost packet, from before the first phase until after the last.

Streams of 600 packets per second, small and full-size, run over each whole transition, between workloads of all pairs
of nodes and from hosts to workloads. So do TCP transfers. The emulated machine has fewer streams, of 280 at most.
Only packets that an overloaded machine dropped by a counter of its kernel are excused; no switch is repeated.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lab.fleet import mesh_of_streams, no_way_around, ping, workloads
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Report, Streams
from tests.long_form import LONG

from .conftest import MACHINE, Fleet, Run

#: {kind of machine: modes that the pool is switched to, one after another}. Each tour begins in the mode FIRST_MODE.
#: LATER adds, among others, changes between IPIP and VXLAN, from IPIP's CrossSubnet to VXLAN's, and from IPIP and VXLAN
#: to their own CrossSubnet.
TOURS = {
    "native": ["direct", "vxlan-crosssubnet", "vxlan"],
    "qemu": ["direct", "ipip-crosssubnet"],
}
#: {kind of machine: modes that follow those of TOURS if HOST_ROUTING_TOUR=long, as in `make soak`}.
LATER = {
    "native": ["direct", "vxlan", "vxlan-crosssubnet", "direct"],
    "qemu": [
        *("vxlan-crosssubnet", "vxlan", "ipip", "vxlan", "ipip-crosssubnet"),
        *("direct", "ipip", "ipip-crosssubnet", "vxlan"),
    ],
}
TOUR = TOURS[MACHINE] + (LATER[MACHINE] if LONG else [])

#: How a packet from node1 (rack 1) to a workload elsewhere looks on the underlay: (same subnet, other subnet).
OUTSIDE = {
    "direct": ("plain", "plain"),
    "vxlan": ("udp", "udp"),
    "vxlan-crosssubnet": ("plain", "udp"),
    "ipip": ("ipip", "ipip"),
    "ipip-crosssubnet": ("plain", "ipip"),
}
FILTERS = {"plain": "icmp", "udp": "udp port 4789", "ipip": "ip proto 4"}


@pytest.mark.parametrize("number", range(len(TOUR)), ids=[f"{i + 1}-to-{mode}" for i, mode in enumerate(TOUR)])
def test_a_switch_loses_nothing(
    lab: BaseLab, fleet: Fleet, number: int, record_property: Callable[[str, object], None]
) -> None:
    mode = TOUR[number]
    run, report = switched(lab, fleet, mode)
    record_property("switch", f"{mode}: {run.seconds:.1f} s\n{report.summary()}")
    assert run.code == 0, f"{run.output[-6000:]}\n{report.summary()}"
    assert report.sent > 0 and not report.silent_hosts
    rates = [result.rate for result in report.streams]
    # Packets per second: natively 500 for each stream. The emulated machine shares two processors with other suites, so
    # there the sum over all streams has to reach only 250.
    assert min(rates) >= 500 if MACHINE == "native" else sum(rates) >= 250, report.summary()
    assert report.lost_by_us == 0, report.summary()
    assert report.resets == 0 and report.corrupt == 0 and report.bytes_missing == 0, report.summary()
    assert all(result.received > 0 for result in report.streams)
    check_encapsulation(lab, mode)
    check_routes(lab, mode)


def switched(lab: BaseLab, fleet: Fleet, mode: str) -> tuple[Run, Report]:
    """Switch the mode under traffic; return the run, which may have failed, and the report on the packets.

    Raise LabError if a node is off or the streams cannot start. The unreachable route of `no_way_around` stays on all
    nodes.
    """
    pps = 600 if MACHINE == "native" else 280  # more than asserted, because a busy machine sends fewer
    no_way_around(lab)
    with Streams(lab, mesh_of_streams(lab, workloads(lab), pps)) as streams:
        run = fleet.switch(mode)
        return run, streams.stop()


def check_encapsulation(lab: BaseLab, mode: str) -> None:
    """Assert that pings from node1's workload to its own and the other subnet travel as OUTSIDE says for `mode`.

    A capture on node1's underlay link shows how they travel.
    """
    by_node = {workload.node: workload for workload in workloads(lab)}
    for target, expected in zip(("node2", "node3"), OUTSIDE[mode]):
        address = by_node[target].address
        with lab.capturing("node1", f"({FILTERS[expected]}) and not arp") as seen:
            assert ping(lab, "node1", address, netns=by_node["node1"].name), f"{address} on {target} does not answer"
        # tcpdump prints the inner addresses of an encapsulated packet as well. Probes between nodes have others.
        lines = [line for line in seen.lines if address in line]
        assert lines, f"{mode}: nothing like {expected} went to {target}"
        if expected == "plain":
            node = next(node for node in lab.nodes if node.name == target)
            assert not any("ipip" in line or "VXLAN" in line for line in lines), (node, lines)


def check_routes(lab: BaseLab, mode: str) -> None:
    device = {"ipip": "tunl0", "vxlan": "vxlan.calico"}.get(mode.split("-")[0])
    for node in lab.nodes:
        routes = lab.json(node.name, ["ip", "-j", "route", "show", "proto", "bird"])
        assert len(routes) == len(lab.nodes) - 1
        for route in routes:
            peer = next((other for other in lab.nodes if other.address == route["gateway"]), None)
            if device and not (mode.endswith("crosssubnet") and peer and peer.rack == node.rack):
                assert (route["dev"], peer is not None, route["flags"]) == (device, True, ["onlink"]), route
            else:
                assert route["dev"] == "eth0" and "onlink" not in route["flags"], route
                assert peer is not None or route["gateway"] == node.gateway, route
            assert "metrics" not in route, f"{node.name} still holds packets down: {route}"
