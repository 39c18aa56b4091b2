# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Equal paths in the kernel, and a change of `merge paths`, which restarts BIRD's kernel protocols.

In that instant BIRD has none of the routes that it learned from the kernel: the node's blocks would be withdrawn, and
blocks behind the host's own routes become unreachable. `held_routes` holds them.
"""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration

from tests.integration.bird.daemons import Daemon, Fleet, pool, render
from tests.integration.bird.debian_bird import EACH_RELEASE, Build
from tests.integration.bird.network import Namespace, Network, wait_for
from tests.integration.bird.routes.pair import NODE, ROUTER, ROUTER6, Pair, bird
from tests.integration.bird.routes.test_ipv6 import PLAIN, TUNNEL, dual_stack
from tests.integration.bird.sessions.test_in_place import settled, taken_away, watched

pytestmark = pytest.mark.root
EACH = pytest.mark.parametrize("build", EACH_RELEASE, indirect=True)

FAR, FAR6 = "10.244.7.0/26", "fd10:244::1c0/122"
#: The addresses of the second router, beside ROUTER and ROUTER6 of the first one.
SECOND, SECOND6 = "10.9.0.3", "fd09::3"


@EACH
@pytest.mark.parametrize(
    ("modes", "device"), [((pool(), PLAIN), "eth0"), ((pool("vxlan.calico"), TUNNEL), "vxlan-v6.calico")]
)
def test_another_merging_loses_no_route(fleet: Fleet, network: Network, modes: t.Any, device: str) -> None:
    """No node's BIRD deletes a route or makes one unreachable, while one after the other changes both ways."""
    nodes = network.nodes
    birds = {name: dataclasses.replace(one, merge_paths=False) for name, one in dual_stack(nodes, *modes).items()}
    fleet.start(birds)
    settled(fleet, nodes, device)
    with watched(*nodes) as seen:
        for merge in (True, False):
            for node in nodes:
                daemon = fleet[node.name]
                text = render(dataclasses.replace(birds[node.name], merge_paths=merge))
                done = configuration.apply(text, str(daemon.config), daemon.socket, daemon.build.bird)
                assert done.reloaded
                assert "calico_held" not in daemon.birdc("show", "protocols")
    assert taken_away(seen) == {}
    lost = [way for written in seen.values() for ways in written.ways.values() for way in ways if "unreachable" in way]
    assert lost == []


@pytest.fixture
def routers(build: Build, tmp_path: pathlib.Path) -> t.Iterator[Pair]:
    """A node and its router, and a second router on a bridge with both. Both routers announce FAR and FAR6."""
    pair = Pair(build, tmp_path / "pair")
    second = Namespace("second")
    pair.until_closed(second.close)
    space = pair.router
    space.ip(
        "addr flush dev eth0",
        "link add br0 type bridge",
        "link set br0 up",
        "link set eth0 master br0",
        f"addr add {ROUTER}/24 dev br0",
        f"addr add {ROUTER6}/64 dev br0 nodad",
        f"link add second type veth peer name eth0 netns {second.pid}",
        "link set second master br0 up",
    )
    second.ip("link set eth0 up", f"addr add {SECOND}/24 dev eth0", f"addr add {SECOND6}/64 dev eth0 nodad")
    for name, where, address, address6 in (("first", space, ROUTER, ROUTER6), ("second", second, SECOND, SECOND6)):
        daemon = Daemon(build, where, tmp_path, name)
        daemon.config.write_text(_router(address, address6))
        pair.until_closed(daemon.stop)
        daemon.start()
        setattr(pair, name, daemon)
    yield pair
    pair.close()


def _router(address: str, address6: str) -> str:
    return f"""\
router id {address};
protocol device {{ }}
protocol static far {{ ipv4; route {FAR} blackhole; }}
protocol static far6 {{ ipv6; route {FAR6} blackhole; }}
protocol bgp node {{ local {address} as 65001; neighbor {NODE} as 64512; ipv4 {{ import all; export all; }}; }}
protocol bgp node6 {{ local {address6} as 65001; neighbor fd09::1 as 64512; ipv6 {{ import all; export all; }}; }}
"""


def _peers() -> list[BirdPeer]:
    return [
        BirdPeer(f"Global_{number}", address, 65001, "external", multihop=False, family=6 if ":" in address else 4)
        for number, address in enumerate((ROUTER, SECOND, ROUTER6, SECOND6))
    ]


def _gateways(pair: Pair, destination: str) -> int:
    family = "-6" if ":" in destination else "-4"
    return pair.node.run("ip", family, "route", "show", destination).count("via ")


@EACH
def test_equal_paths_by_two_routers_reach_the_kernel(routers: Pair) -> None:
    """Both routers are used, in both IP versions. When one ends, the other is used, and no route is deleted."""
    routers.start(bird(*_peers()))
    for destination in (FAR, FAR6):
        wait_for(f"{destination} by both", lambda d=destination: _gateways(routers, d) == 2)
    routers.second.stop()  # type: ignore[attr-defined]
    for destination in (FAR, FAR6):
        wait_for(f"{destination} by one", lambda d=destination: _gateways(routers, d) == 1)
    routers.second.start()  # type: ignore[attr-defined]
    for destination in (FAR, FAR6):
        wait_for(f"{destination} by both again", lambda d=destination: _gateways(routers, d) == 2)


def test_one_path_is_used_where_merging_is_off(routers: Pair) -> None:
    routers.start(bird(*_peers(), merge_paths=False))
    for destination in (FAR, FAR6):
        wait_for(f"{destination} by one", lambda d=destination: _gateways(routers, d) == 1)
    shown = routers.daemon.birdc("show", "route", FAR)
    wait_for("both in BIRD", lambda: routers.daemon.birdc("show", "route", FAR).count("via ") == 2)
    assert _gateways(routers, FAR) == 1, shown
