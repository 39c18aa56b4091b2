# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pool changes its mode by a new filter and `birdc configure`, node after node, under traffic: nothing is lost."""

from __future__ import annotations

import itertools

import pytest

from .daemons import Fleet, mesh, pool
from .debian_bird import RELEASES
from .network import Network, wait_for

pytestmark = pytest.mark.root

MODES = {
    "ipip": pool("tunl0"),
    "ipip-crosssubnet": pool("tunl0", cross_subnet=True),
    "vxlan": pool("vxlan.calico"),
    "vxlan-crosssubnet": pool("vxlan.calico", cross_subnet=True),
    "direct": pool(),
}
# Every ordered pair once: a walk through all of them.
ALL_WAYS = [
    "vxlan", "direct", "ipip", "vxlan", "ipip", "direct", "vxlan",
    "ipip-crosssubnet", "vxlan-crosssubnet", "direct", "vxlan-crosssubnet", "ipip-crosssubnet", "direct", "vxlan",
]  # fmt: skip


def test_the_walk_goes_all_ways() -> None:
    steps = set(itertools.pairwise(ALL_WAYS))
    assert steps >= set(itertools.permutations(("vxlan", "direct", "ipip"), 2))


@pytest.mark.parametrize("size", [64, 1428], ids=["small", "full"])
@pytest.mark.parametrize("build", [*RELEASES], indirect=True)
def test_no_packet_is_lost(fleet: Fleet, network: Network, streams, size: int) -> None:
    devices = {"ipip": "tunl0", "vxlan": "vxlan.calico", "direct": "eth0"}
    fleet.start(mesh(network.nodes, MODES[ALL_WAYS[0]]))
    for node in network.nodes:
        wait_for("three routes", lambda n=node: len(n.space.routes("proto", "bird")) == 3)
    with streams(size=size) as flows:
        for mode in ALL_WAYS[1:]:
            # Node after node, so that every mixture of old and new is passed through.
            fleet.configure(mesh(network.nodes, MODES[mode]))
            device = devices[mode.partition("-")[0]]
            for node in network.nodes:
                far = network.nodes[3 if node.rack == 1 else 0].block
                wait_for(
                    f"{node.name} in mode {mode}",
                    lambda n=node, f=far, d=device: f"dev {d}" in n.space.run("ip", "route", "show", f),
                )
    assert flows.dropped == 0
    assert flows.sent > 12 * 500
    assert flows.lost == {}
    print(
        f"BIRD {fleet.build.version}: {len(ALL_WAYS) - 1} changes of mode, {flows.sent} packets of {size} bytes, 0 lost"
    )


@pytest.mark.parametrize("build", ["bookworm"], indirect=True)
def test_a_loss_would_be_seen(fleet: Fleet, network: Network, streams) -> None:
    """The measure itself: a route that is away for a second costs packets, on a busy machine too."""
    fleet.start(mesh(network.nodes, MODES["vxlan"]))
    one, four = network.nodes[0], network.nodes[3]
    wait_for("three routes", lambda: len(one.space.routes("proto", "bird")) == 3)
    with streams() as flows:
        one.space.run("sh", "-c", f"ip route add blackhole {four.workload}; sleep 1; ip route del {four.workload}")
    assert flows.lost.get(f"{one.workload} -> {four.workload}", 0) > 20
