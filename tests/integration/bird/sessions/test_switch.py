# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pool changes its mode by a new filter and `birdc configure`, node after node, under traffic without a loss."""

from __future__ import annotations

import dataclasses
import itertools
import re
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BackupRoute, Bird, BirdPool
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration

from tests.integration.bird.daemons import Fleet, mesh, pool, render
from tests.integration.bird.debian_bird import EACH_RELEASE
from tests.integration.bird.network import POOL6, Network, Node, wait_for
from tests.integration.bird.routes.test_ipv6 import dual_stack

pytestmark = pytest.mark.root

MODES = {
    "ipip": pool("tunl0"),
    "ipip-crosssubnet": pool("tunl0", cross_subnet=True),
    "vxlan": pool("vxlan.calico"),
    "vxlan-crosssubnet": pool("vxlan.calico", cross_subnet=True),
    "direct": pool(),
}
# A walk through every ordered pair of vxlan, direct and ipip, and then through the cross-subnet modes.
ALL_WAYS = [
    "vxlan", "direct", "ipip", "vxlan", "ipip", "direct", "vxlan",
    "ipip-crosssubnet", "vxlan-crosssubnet", "direct", "vxlan-crosssubnet", "ipip-crosssubnet", "direct", "vxlan",
]  # fmt: skip


def test_the_walk_goes_all_ways() -> None:
    steps = set(itertools.pairwise(ALL_WAYS))
    assert steps >= set(itertools.permutations(("vxlan", "direct", "ipip"), 2))


@pytest.mark.parametrize("size", [64, 1428], ids=["small", "full"])
@pytest.mark.parametrize("build", EACH_RELEASE, indirect=True)
def test_no_packet_is_lost(fleet: Fleet, network: Network, streams, size: int) -> None:
    devices = {"ipip": "tunl0", "vxlan": "vxlan.calico", "direct": "eth0"}
    fleet.start(mesh(network.nodes, MODES[ALL_WAYS[0]]))
    for node in network.nodes:
        wait_for("three routes", lambda n=node: len(n.space.routes("proto", "bird")) == 3)
    with streams(size=size) as flows:
        for mode in ALL_WAYS[1:]:
            # The nodes are configured one after another, so some of them are in the old mode and some in the new one.
            fleet.configure(mesh(network.nodes, MODES[mode]))
            device = devices[mode.partition("-")[0]]
            for node in network.nodes:
                far = network.nodes[3 if node.rack == 1 else 0].block
                wait_for(
                    f"{node.name} in mode {mode}",
                    lambda n=node, f=far, d=device: f"dev {d}" in n.space.run("ip", "route", "show", f),
                )
            time.sleep(0.3)  # packets go by each mode for a while
    assert flows.dropped == 0
    assert flows.sent > 12 * 500
    assert flows.lost == {}
    print(
        f"BIRD {fleet.build.version}: {len(ALL_WAYS) - 1} changes of mode, {flows.sent} packets of {size} bytes, 0 lost"
    )


#: The steps: (device, route MTU) of an IPv4 and an IPv6 pool.
MTUS: list[tuple[str, t.Optional[int]]] = [
    ("vxlan.calico", None),
    ("vxlan.calico", 1400),
    ("vxlan.calico", 1380),
    ("", 1380),
    ("", None),
    ("", 1400),
]


@pytest.mark.parametrize("build", ["bookworm", "forky"], indirect=True)
def test_a_changed_mtu_alone_reaches_the_kernel(fleet: Fleet, network: Network, streams) -> None:
    """Another MTU alone reaches the kernel, also right after the start, when BIRD 3 is not reconfigured yet."""
    nodes = network.nodes
    for name, bird in limited(nodes, *MTUS[0]).items():
        fleet[name].write(bird)
        fleet[name].config.write_text(unrepaired(bird))
        fleet[name].start()
    tell(fleet, limited(nodes, *MTUS[1]), unrepaired)
    fleet.wait_established()
    for node in nodes:
        wait_for("all routes", lambda n=node: mtus(n) == {MTUS[1][1]})
    with streams() as flows:
        for device, mtu in MTUS[2:]:
            tell(fleet, limited(nodes, device, mtu), unrepaired)
            for node in nodes:
                wait_for(f"{node.name} with MTU {mtu}", lambda n=node, m=mtu: mtus(n) == {m})
            time.sleep(0.2)  # a route that is wrong for a moment has to be seen
    assert flows.dropped == 0
    assert flows.sent > 12 * 4 * 0.2 * 400
    assert flows.lost == {}
    # BIRD exports no route with a weight to the kernel: it would write such a route again at each scan.
    assert "weight" not in fleet["node1"].birdc("show", "route", "export", "kernel4", "all")


def limited(nodes: t.Sequence[Node], device: str, mtu: t.Optional[int]) -> dict[str, Bird]:
    """Return the BIRDs by node of a mesh without node3.

    The IPv4 pool has this device ("" for none), the IPv6 pool its counterpart, such as vxlan-v6.calico for
    vxlan.calico. Both have this MTU in bytes, None for none.

    node3 has no session, so that traffic between it and the others uses backup routes only.
    """
    six = BirdPool(POOL6, device.replace("vxlan", "vxlan-v6"), mtu=mtu, block_size=122)
    birds = {}
    for name, bird in dual_stack(nodes, pool(device, mtu=mtu), six).items():
        ends = [node for node in nodes if node.name != name and "node3" in (name, node.name)]
        birds[name] = dataclasses.replace(
            bird,
            peers=() if name == "node3" else tuple(peer for peer in bird.peers if peer.node != "node3"),
            backups=(
                *(BackupRoute(node.block, node.address) for node in ends),
                *(BackupRoute(node.block6, node.address6) for node in ends),
            ),
        )
    return birds


def unrepaired(bird: Bird) -> str:
    """Return the bird.cfg of a BIRD that scans the kernel every 10 minutes, so that no periodic scan repairs a route.

    Raise AssertionError if the role's bird.cfg has another time between scans of routes than 5 seconds.
    """
    text = render(bird)
    assert " scan time 5;" in text
    return text.replace(" scan time 5;", " scan time 600;")


def tell(fleet: Fleet, birds: t.Mapping[str, Bird], text: t.Callable[[Bird], str] = render) -> None:
    """Reconfigure the daemons as the node module does, one after the other, to the bird.cfg that `text` returns.

    Raise ConfigurationRefused if one cannot read its text, and another BirdError if one does not answer, or does not
    finish within 60 seconds; those before it have their new configuration then. If a daemon does not run, only its file
    is written.
    """
    for name, bird in birds.items():
        daemon = fleet[name]
        configuration.apply(text(bird), str(daemon.config), daemon.socket, daemon.build.bird)


def mtus(node: Node) -> set[t.Optional[int]]:
    """Return the MTUs in bytes of BIRD's six routes of both IP versions to the other nodes, None for a default MTU.

    The set is empty unless there are exactly six routes.
    """
    lines = [*node.space.routes("proto", "bird"), *node.space.routes6("proto", "bird")]
    found = [re.search(r" mtu (\d+)", line) for line in lines]
    return {int(one.group(1)) if one else None for one in found} if len(lines) == 6 else set()


@pytest.mark.parametrize("build", ["bookworm"], indirect=True)
def test_a_loss_would_be_seen(fleet: Fleet, network: Network, streams) -> None:
    """A blackhole of a second costs packets, so the measurement works on a busy machine, too."""
    fleet.start(mesh(network.nodes, MODES["vxlan"]))
    one, four = network.nodes[0], network.nodes[3]
    wait_for("three routes", lambda: len(one.space.routes("proto", "bird")) == 3)
    with streams() as flows:
        one.space.run("sh", "-c", f"ip route add blackhole {four.workload}; sleep 1; ip route del {four.workload}")
    assert flows.lost.get(f"{one.workload} -> {four.workload}", 0) > 20
