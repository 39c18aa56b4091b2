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
def test_another_merging_withdraws_no_route(fleet: Fleet, network: Network, modes: t.Any, device: str) -> None:
    """No node deletes a route or makes one unreachable while one of them changes, both ways.

    Only a BIRD 3 deletes its own routes, at the first scan of the kernel after the change, and adds them at once.
    """
    nodes = network.nodes
    birds = dual_stack(nodes, *modes)
    fleet.start(birds)
    settled(fleet, nodes, device)
    daemon = fleet["node1"]
    routes = (nodes[0].space.routes("proto", "bird"), nodes[0].space.routes6("proto", "bird"))
    for merge in (True, False):
        with watched(*nodes) as seen:
            text = render(dataclasses.replace(birds["node1"], merge_paths=merge))
            done = configuration.apply(text, str(daemon.config), daemon.socket, daemon.build.bird)
            assert done.reloaded
            assert "calico_held" not in daemon.birdc("show", "protocols")
        lost = taken_away(seen)
        if daemon.build.version.startswith("3"):
            lost.pop("node1", None)
        assert lost == {}
        written = [way for one in seen.values() for ways in one.ways.values() for way in ways]
        assert [way for way in written if "unreachable" in way] == []
    assert (nodes[0].space.routes("proto", "bird"), nodes[0].space.routes6("proto", "bird")) == routes


class Routers(t.NamedTuple):
    pair: Pair
    second: Daemon  # the BIRD of the second router


@pytest.fixture
def routers(build: Build, tmp_path: pathlib.Path) -> t.Iterator[Routers]:
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
    daemons = []
    for name, where, address, address6 in (("first", space, ROUTER, ROUTER6), ("second", second, SECOND, SECOND6)):
        daemon = Daemon(build, where, tmp_path, name)
        daemon.config.write_text(_router(address, address6))
        pair.until_closed(daemon.stop)
        daemon.start()
        daemons.append(daemon)
    yield Routers(pair, daemons[1])
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


def _by(pair: Pair, count: int) -> None:
    """Wait until the node's kernel has routes to FAR and FAR6 by `count` next hops each."""
    for family, destination in (("-4", FAR), ("-6", FAR6)):
        command = ("ip", family, "route", "show", destination)
        wait_for(
            f"{destination} by {count}",
            lambda words=command: pair.node.run(*words).count("via ") == count,  # type: ignore[misc]
        )


@EACH
def test_equal_paths_by_two_routers_reach_the_kernel(routers: Routers) -> None:
    """Both routers are used, in both IP versions; when one ends, the other one alone, until it is back."""
    routers.pair.start(bird(*_peers(), merge_paths=True))
    _by(routers.pair, 2)
    routers.second.stop()
    _by(routers.pair, 1)
    routers.second.start()
    _by(routers.pair, 2)


def test_one_path_is_used_where_merging_is_off(routers: Routers) -> None:
    node = routers.pair
    node.start(bird(*_peers()))
    for destination in (FAR, FAR6):
        shown = ("show", "route", destination)
        wait_for(
            f"two routes to {destination} in BIRD",
            lambda words=shown: node.daemon.birdc(*words, check=False).count("via ") == 2,  # type: ignore[misc]
        )
    _by(node, 1)
