# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two border nodes of a fleet pass a prefix of their router on by iBGP, as the inventory's BGPFilters let them."""

from __future__ import annotations

import contextlib
import pathlib
import typing as t

import pytest

from tests.integration.bird.daemons import Daemon
from tests.integration.bird.debian_bird import debian_bird
from tests.integration.bird.network import Namespace, wait_for
from tests.unit.fleet.fleets import build, states

pytestmark = pytest.mark.root

OUTSIDE, OUTSIDE6 = "192.0.2.0/24", "2001:db8:9::/48"
NODES = {"border1": "10.9.0.1/24", "border2": "10.9.0.2/24", "inner": "10.9.0.3/24"}
NODES6 = {"border1": "fd09::1", "border2": "fd09::2", "inner": "fd09::3"}
ROUTER, ROUTER6 = "10.9.0.9", "fd09::9"


def _accept(cidr: str) -> list[dict[str, str]]:
    return [{"action": "Accept", "matchOperator": "Equal", "cidr": cidr}]


#: Border nodes accept the prefixes from the router and announce them to the other nodes, with themselves as next hop.
VARIABLES: dict[str, t.Any] = {
    "bgp_node_to_node_mesh": False,
    "bgp_filters": [
        {
            "name": "outside",
            **{f"{direction}V4": _accept(OUTSIDE) for direction in ("import", "export")},
            **{f"{direction}V6": _accept(OUTSIDE6) for direction in ("import", "export")},
        }
    ],
    "bgp_peers": [
        *(
            {"name": name, "peerIP": ip, "asNumber": 65001, "nodeSelector": "has(border)", "filters": ["outside"]}
            for name, ip in (("router", ROUTER), ("router6", ROUTER6))
        ),
        {
            "name": "borders",
            "nodeSelector": "has(border)",
            "peerSelector": "!has(border)",
            "nextHopMode": "Self",
            "filters": ["outside"],
        },
    ],
    "own": {
        name: {
            "calico_node_address_ipv6": f"{address}/64",
            "calico_node_labels": {"border": "yes"} if name != "inner" else {},
        }
        for name, address in NODES6.items()
    },
}


class Site(t.NamedTuple):
    daemons: dict[str, Daemon]
    inner: Namespace

    def start(self, **variables: t.Any) -> None:
        for name, state in states(build(nodes=NODES, workloads=[], **VARIABLES, **variables)).items():
            assert state.bird is not None
            self.daemons[name].write(state.bird)
            self.daemons[name].start()

    def next_hops(self) -> dict[str, set[str]]:
        """Return {IP version: next hops} of inner's routes to OUTSIDE and OUTSIDE6 in its kernel."""
        shown = {"4": OUTSIDE, "6": OUTSIDE6}
        return {
            family: {
                part.split()[0]
                for part in self.inner.run("ip", f"-{family}", "route", "show", destination).split("via ")[1:]
            }
            for family, destination in shown.items()
        }

    def until_by(self, *names: str) -> None:
        """Wait until inner's kernel has both routes by exactly these border nodes."""
        wanted = {
            "4": {NODES[name].partition("/")[0] for name in names},
            "6": {NODES6[name] for name in names},
        }
        wait_for(f"routes by {names}", lambda: self.next_hops() == wanted)


@pytest.fixture
def site(tmp_path: pathlib.Path) -> t.Iterator[Site]:
    """A bridge with two border nodes, an inner node and a router that announces OUTSIDE and OUTSIDE6 to the borders."""
    bird = debian_bird("bookworm")
    with contextlib.ExitStack() as stack:
        spaces = {name: Namespace(name) for name in ("router", *NODES)}
        for space in spaces.values():
            stack.callback(space.close)
        router = spaces["router"]
        router.ip(
            "link add br0 type bridge",
            "link set br0 up",
            f"addr add {ROUTER}/24 dev br0",
            f"addr add {ROUTER6}/64 dev br0 nodad",
        )
        for name, address in NODES.items():
            router.ip(
                f"link add {name} type veth peer name eth0 netns {spaces[name].pid}", f"link set {name} master br0 up"
            )
            spaces[name].ip(
                "link set eth0 up", f"addr add {address} dev eth0", f"addr add {NODES6[name]}/64 dev eth0 nodad"
            )
        daemons = {name: Daemon(bird, space, tmp_path, name) for name, space in spaces.items()}
        for daemon in daemons.values():
            stack.callback(daemon.stop)
        daemons["router"].config.write_text(_router())
        daemons["router"].start()
        yield Site(daemons, spaces["inner"])


def _router() -> str:
    sessions = "".join(
        f"protocol bgp {name}_{family} {{ local {own} as 65001; neighbor {peer} as 64512; "
        f"ipv{family} {{ import none; export where source = RTS_STATIC; }}; }}\n"
        for name in ("border1", "border2")
        for family, own, peer in ((4, ROUTER, NODES[name].partition("/")[0]), (6, ROUTER6, NODES6[name]))
    )
    return (
        f"router id {ROUTER};\nprotocol device {{ }}\n"
        f"protocol static outside {{ ipv4; route {OUTSIDE} blackhole; }}\n"
        f"protocol static outside6 {{ ipv6; route {OUTSIDE6} blackhole; }}\n{sessions}"
    )


def test_a_prefix_of_two_border_nodes_has_both_as_next_hops(site: Site) -> None:
    """When one border node ends, the other one carries all, until it is back."""
    site.start()
    site.until_by("border1", "border2")
    site.daemons["border1"].stop()
    site.until_by("border2")
    site.daemons["border1"].start()
    site.until_by("border1", "border2")


def test_one_of_two_border_nodes_is_used_where_merging_is_off(site: Site) -> None:
    site.start(bgp_merge_paths=False)
    inner = site.daemons["inner"]
    for destination in (OUTSIDE, OUTSIDE6):
        wait_for(
            f"two routes to {destination} in BIRD",
            lambda words=destination: inner.birdc("show", "route", words, check=False).count("via ") == 2,  # type: ignore[misc]
        )
    site.until_by("border1")
